//! The memory that a job wants saved.

use crate::Error;
use crate::generation::{Manifest, NAME_BYTES_MAX, REGIONS_MAX, RegionEntry, check_name};
use crate::image::Source;
use crate::session::files::{Contents, Incoming, is_file};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A part of the program's memory.
#[derive(Debug, Clone)]
struct Region {
    name: String,
    start: *mut u8,
    bytes: usize,
}

/// Says where the regions of a checkpoint go, in their order, or why it is not to be brought back.
pub type Placing = dyn Fn(&Manifest, &[RegionEntry]) -> Result<Vec<*mut u8>, String> + Send;

/// The parts of memory that belong to a checkpoint.
#[derive(Default)]
pub(super) struct Regions {
    /// In the order in which they were registered, by the number that each got then.
    regions: BTreeMap<u64, Region>,
    /// The numbers by name: there may be a million.
    numbers: HashMap<String, u64>,
    next_number: u64,
    bytes: u64,
    names_bytes: u64,
    /// Says where saved regions go, instead of `regions`.
    pub(super) place: Option<Box<Placing>>,
}

// SAFETY: the addresses are only used while the owner calls a method that saves or restores, and who registered them
// promised that they may be used then, from whatever thread makes the call.
unsafe impl Send for Regions {}

impl Regions {
    /// Adds a region, or moves the one of this name.
    pub(super) fn protect(&mut self, name: &str, start: *mut u8, bytes: usize) -> Result<(), Error> {
        check_name(name).map_err(|why| Error::Option { option: "region", why })?;
        debug_assert!(name.len() <= NAME_BYTES_MAX);
        if start.is_null() && bytes > 0 {
            return Err(Error::Option { option: "region", why: format!("{name} has no address") });
        }
        let region = Region { name: name.to_owned(), start, bytes };
        if self.regions.len() == REGIONS_MAX && !self.numbers.contains_key(name) {
            let why = format!("more than {REGIONS_MAX} are not possible: join small ones into one");
            return Err(Error::Option { option: "region", why });
        }
        self.add(region);
        Ok(())
    }

    fn add(&mut self, region: Region) {
        let number = self.numbers.get(&region.name).copied().unwrap_or(self.next_number);
        self.next_number = self.next_number.max(number + 1);
        self.bytes += region.bytes as u64;
        self.names_bytes += region.name.len() as u64;
        self.numbers.insert(region.name.clone(), number);
        if let Some(before) = self.regions.insert(number, region) {
            self.bytes -= before.bytes as u64;
            self.names_bytes -= before.name.len() as u64;
        }
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Error> {
        let region = self.numbers.remove(name).and_then(|number| self.regions.remove(&number));
        let region =
            region.ok_or_else(|| Error::Option { option: "region", why: format!("there is none called {name}") })?;
        self.bytes -= region.bytes as u64;
        self.names_bytes -= region.name.len() as u64;
        Ok(())
    }

    /// How many names there are, and their bytes.
    pub(super) fn names(&self) -> [u64; 2] {
        [self.regions.len() as u64, self.names_bytes]
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn named(&self, name: &str) -> Option<&Region> {
        self.regions.get(self.numbers.get(name)?)
    }

    pub(super) fn entries(&self) -> Vec<RegionEntry> {
        let entry = |region: &Region| RegionEntry { name: region.name.clone(), bytes: region.bytes as u64 };
        self.regions.values().map(entry).collect()
    }

    /// Where a region begins.
    pub(super) fn start_of(&self, name: &str) -> Option<*mut u8> {
        self.named(name).map(|region| region.start)
    }

    /// What is in a region.
    pub(super) fn content_of(&self, name: &str) -> Option<&[u8]> {
        self.named(name).map(content)
    }

    /// The payload, read from the regions and then the files.
    pub(super) fn source<'a>(&'a self, files: &'a Contents) -> Source<'a> {
        Source::new(self.regions.values().map(content).chain(files.parts()).collect())
    }

    /// Where each part of a saved payload goes: its offset there, and the region; in the order of the payload.
    ///
    /// # Errors
    /// When a region is missing in the checkpoint, has another length there, or the checkpoint has more.
    pub(super) fn targets(&self, manifest: &Manifest, files: &mut Incoming) -> Result<Targets, String> {
        if let Some(place) = &self.place {
            let mut regions = Regions::default();
            placed(manifest, place)?.into_iter().for_each(|region| regions.add(region));
            return regions.targets(manifest, files);
        }
        let mut offset = 0;
        let mut files = files.starts().into_iter();
        let mut targets = Vec::new();
        for entry in &manifest.regions {
            if is_file(entry) {
                let start = files.next().unwrap_or(std::ptr::null_mut());
                targets.push((offset, Region { name: entry.name.clone(), start, bytes: entry.bytes as usize }));
                offset += entry.bytes;
                continue;
            }
            let region = self.named(&entry.name);
            let region = region.ok_or_else(|| format!("it has a region {:?} that is not registered", entry.name))?;
            if region.bytes as u64 != entry.bytes {
                return Err(format!(
                    "region {:?} has {} bytes there and {} here",
                    entry.name, entry.bytes, region.bytes
                ));
            }
            targets.push((offset, region.clone()));
            offset += entry.bytes;
        }
        let saved: HashSet<&str> = manifest.regions.iter().map(|entry| entry.name.as_str()).collect();
        if let Some(missing) = self.regions.values().find(|region| !saved.contains(region.name.as_str())) {
            return Err(format!("it has no region {:?}", missing.name));
        }
        Ok(Targets(targets))
    }
}

/// What is in a region, during a call of its session.
fn content(region: &Region) -> &[u8] {
    match region.bytes {
        0 => &[],
        // SAFETY: who registered the region promised that it may be read during calls of this session, and that nobody
        // writes to it then; the borrow ends with the call.
        bytes => unsafe { std::slice::from_raw_parts(region.start, bytes) },
    }
}

/// The regions of a saved checkpoint, where the program wants each.
fn placed(manifest: &Manifest, place: &Placing) -> Result<Vec<Region>, String> {
    let saved: Vec<RegionEntry> = manifest.regions.iter().filter(|entry| !is_file(entry)).cloned().collect();
    let starts = place(manifest, &saved)?;
    if starts.len() != saved.len() {
        return Err(format!("{} places were named for {} regions", starts.len(), saved.len()));
    }
    let together = |(entry, start): (RegionEntry, *mut u8)| {
        if start.is_null() && entry.bytes > 0 {
            return Err(format!("there is no place for region {:?}", entry.name));
        }
        let bytes = usize::try_from(entry.bytes).map_err(|_| format!("region {:?} is too long here", entry.name))?;
        Ok(Region { name: entry.name, start, bytes })
    };
    saved.into_iter().zip(starts).map(together).collect()
}

/// Regions by their place in a payload.
pub(super) struct Targets(Vec<(u64, Region)>);

impl Targets {
    /// From where in the payload how many bytes go where.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, u64, *mut u8)> + '_ {
        self.0.iter().map(|(offset, region)| (*offset, region.bytes as u64, region.start))
    }

    /// Copies a piece of the payload into the regions.
    pub(super) fn put(&self, offset: u64, piece: &[u8]) {
        let first = self.0.partition_point(|(start, region)| start + region.bytes as u64 <= offset);
        let end = offset + piece.len() as u64;
        for (start, region) in self.0[first..].iter().take_while(|(start, _)| *start < end) {
            let (from, to) = (offset.max(*start), end.min(start + region.bytes as u64));
            if from >= to {
                continue;
            }
            let bytes = &piece[(from - offset) as usize..(to - offset) as usize];
            // SAFETY: the range lies within the region, whose owner promised that it may be written during a restart and
            // that nothing else uses it then; a piece is a buffer of our own, so the two do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.start.add((from - start) as usize), bytes.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Alone, Checkpointer, Config};
    use std::sync::{Arc, Mutex};

    #[test]
    fn regions_go_where_the_program_wants_each_checkpoint() {
        let home = tempfile::tempdir().unwrap();
        let mut config = Config::new("job", home.path(), None);
        config.health_file = home.path().join("health.json");
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        let (mut first, mut second) = (vec![5u8; 70_000], vec![6u8; 300]);
        // SAFETY: both outlive the job and are left alone during its calls.
        unsafe {
            job.protect("first", first.as_mut_ptr(), first.len()).unwrap();
            job.protect("second", second.as_mut_ptr(), second.len()).unwrap();
        }
        job.checkpoint().unwrap();
        first.fill(0);

        let room: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let theirs = Arc::clone(&room);
        let place: Box<Placing> = Box::new(move |manifest, saved| {
            assert_eq!((manifest.generation.number, saved[0].name.as_str()), (1, "first"));
            let mut room = theirs.lock().unwrap();
            room.extend(saved.iter().map(|entry| vec![0; entry.bytes as usize]));
            Ok(room.iter_mut().map(|room| room.as_mut_ptr()).collect())
        });
        // SAFETY: the room has the lengths that were asked for, and nothing else uses it.
        assert!(unsafe { job.restart_into(place) }.unwrap().is_some());
        assert_eq!(*room.lock().unwrap(), [vec![5; 70_000], vec![6; 300]]);
        assert!(first.iter().all(|byte| *byte == 0), "the registered ones are left alone");

        let refusals: [(Box<Placing>, &str); 3] = [
            (Box::new(|_, _| Err("not this one".into())), "not this one"),
            (Box::new(|_, _| Ok(vec![])), "0 places were named for 2 regions"),
            (Box::new(|_, saved| Ok(vec![std::ptr::null_mut(); saved.len()])), "no place for region \"first\""),
        ];
        for (place, why) in refusals {
            // SAFETY: no address is returned that could be written to.
            let refused = unsafe { job.restart_into(place) }.unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        assert!(job.restart().unwrap().is_some() && first[69_999] == 5, "and used again afterwards");
    }
}
