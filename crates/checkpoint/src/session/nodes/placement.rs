//! On which nodes the runs of a job saved: a small file beside the checkpoints of each tier, written once by each run. Who
//! finds a checkpoint of which parts are missing, or in a shared directory nothing but this file, can say where they lie.

use super::{Host, Nodes};
use crate::generation::{Age, Key, frame, framed_bytes, framing};
use crate::session::clock;
use crate::session::journal;
use crate::session::ranks::Ranks;
use crate::tier::{NODES, NODES_NEW};
use crate::{Disk, Error, Storage, StoredFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use surefoot_foreign::said;
use surefoot_heal::framing::Framing;
use surefoot_model::CheckpointTier as Tier;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"SFNODE01";

/// Runs of which it is kept, the newest.
const RUNS_MAX: usize = 8;

/// Nodes, and stretches of ranks on one, that are named in a message.
const NAMED_MAX: usize = 8;

/// Where the ranks of one run ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Placement {
    /// The run.
    epoch: u64,
    /// Its nodes.
    nodes: Vec<Host>,
    /// In the order of the ranks: the number of a node, and how many ranks one after the other ran there.
    ranks: Vec<(u32, u32)>,
    /// Whether a checkpoint became complete in the tier beside whose checkpoints this lies; `None` where an earlier release
    /// wrote it, which did not say.
    #[serde(default)]
    is_durable: Option<bool>,
    /// The same of the memory beside whose slots this lies.
    #[serde(default)]
    is_in_memory: Option<bool>,
}

impl Placement {
    fn new(epoch: u64, nodes: &Nodes) -> Self {
        let mut ranks: Vec<(u32, u32)> = Vec::new();
        for &host in &nodes.of_ranks {
            match ranks.last_mut() {
                Some((last, count)) if *last == host => *count += 1,
                _ => ranks.push((host, 1)),
            }
        }
        Placement { epoch, nodes: nodes.all.clone(), ranks, is_durable: Some(false), is_in_memory: Some(false) }
    }

    /// The stretches of these ranks by the node on which they ran.
    fn of_nodes(&self, stretches: &[(u32, u32)]) -> BTreeMap<u32, Vec<(u32, u32)>> {
        let mut of_nodes: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        let mut first = 0u32;
        for &(node, count) in self.ranks.iter().filter(|(_, count)| *count > 0) {
            let last = first.saturating_add(count - 1);
            for &(from, to) in stretches {
                if from.max(first) <= to.min(last) {
                    of_nodes.entry(node).or_default().push((from.max(first), to.min(last)));
                }
            }
            first = last.saturating_add(1);
        }
        of_nodes
    }
}

/// What is in the file, the newest run first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Placements {
    runs: Vec<Placement>,
}

impl Placements {
    /// What is written there; nothing where there is no such file.
    ///
    /// # Errors
    /// The file and one sentence where it is there and cannot be read. It is put in its place whole, so no run of this job
    /// left it so.
    fn read(directory: &Path) -> Result<Self, String> {
        let path = directory.join(NODES);
        let found = match Disk.open_file(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Placements::default()),
            Err(error) => Err(format!("cannot open it: {}", said(&error))),
            Ok(file) => Placements::of_file(&*file),
        };
        found.map_err(|why| format!("{}: {why}", path.display()))
    }

    /// # Errors
    /// One sentence where the file cannot be read.
    fn of_file(file: &dyn StoredFile) -> Result<Self, String> {
        let bytes = framed_bytes(file).map_err(|error| format!("cannot read it: {}", said(&error)))?;
        let mut found: Placements = Framing { name: "file of nodes", ..framing(MAGIC) }.read(&bytes)?;
        found.runs.truncate(RUNS_MAX);
        for run in &mut found.runs {
            run.nodes.iter_mut().for_each(|node| *node = Host::plain(&node.name, &node.id));
        }
        Ok(found)
    }

    /// Adds a run. What is there for it already stays, but that a checkpoint of it became complete is added.
    fn add(&mut self, run: Placement) {
        match self.runs.iter_mut().find(|known| known.epoch == run.epoch) {
            Some(known) => {
                known.is_durable = run.is_durable.filter(|is_durable| *is_durable).or(known.is_durable);
                known.is_in_memory = run.is_in_memory.filter(|is_in_memory| *is_in_memory).or(known.is_in_memory);
            }
            None => self.runs.push(run),
        }
        self.runs.sort_by_key(|run| std::cmp::Reverse(run.epoch));
        self.runs.truncate(RUNS_MAX);
    }

    /// Puts the file in its place, whole and durable.
    fn write(&self, directory: &Path, rank: u32) -> Result<(), Error> {
        let mut kept = self.clone();
        let bytes = loop {
            match frame(MAGIC, &kept) {
                Ok(bytes) => break bytes,
                Err(_) if kept.runs.len() > 1 => kept.runs.truncate(kept.runs.len() - 1),
                Err(why) => return Err(Error::Option { option: "nodes", why }),
            }
        };
        let (path, new) = (directory.join(NODES), directory.join(format!("{NODES_NEW}{rank:05}")));
        let _ = Disk.remove_file(&new);
        let file = Disk.create_file(&new, 0, false).map_err(Error::storage("create", &new))?;
        let written = file.write_at(&bytes, 0).and_then(|()| file.sync());
        drop(file);
        let put = written.and_then(|()| Disk.rename(&new, &path)).map_err(Error::storage("write", &new));
        if put.is_err() {
            let _ = Disk.remove_file(&new);
        }
        put.and_then(|()| Disk.sync_directory(directory).map_err(Error::storage("sync", directory)))
    }
}

/// By an open file of nodes, the stretches of ranks of a run that ran on this machine; `None` where it says nothing of that.
///
/// # Errors
/// One sentence where the file cannot be read.
pub(crate) fn ranks_here(file: &dyn StoredFile, epoch: u64) -> Result<Option<Vec<(u32, u32)>>, String> {
    let placements = Placements::of_file(file)?;
    let Some(run) = placements.runs.iter().find(|run| run.epoch == epoch) else { return Ok(None) };
    let here = Host::plain(&clock::host_name(), &clock::host());
    let is_here = |node: &Host| node.id == here.id || node.name == here.name;
    let all = run.of_nodes(&[(0, u32::MAX)]);
    let mut own: Vec<(u32, u32)> = Vec::new();
    for (node, stretches) in all {
        if run.nodes.get(node as usize).is_some_and(is_here) {
            own.extend(stretches);
        }
    }
    Ok((!own.is_empty()).then_some(own))
}

/// What a file of nodes says was complete beside it, after a run of this epoch had come to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WasComplete {
    /// In memory; `None` where a run of an earlier release does not say.
    pub(crate) in_memory: Option<bool>,
    /// In a durable tier.
    pub(crate) durable: bool,
}

/// Whether an open file, whole or damaged, begins as one of nodes does; one that cannot be read may.
pub(crate) fn may_be_placement(file: &dyn StoredFile) -> bool {
    let mut magic = [0; MAGIC.len()];
    match file.read_at(&mut magic, 0) {
        Ok(()) => magic == MAGIC,
        Err(error) => error.kind() != io::ErrorKind::UnexpectedEof,
    }
}

/// By an open file of nodes, what was complete beside it in runs after this one.
///
/// # Errors
/// One sentence where the file cannot be read.
pub(crate) fn was_complete(file: &dyn StoredFile, after_epoch: u64) -> Result<WasComplete, String> {
    let found = Placements::of_file(file)?;
    let later = || found.runs.iter().filter(|run| run.epoch > after_epoch);
    let in_memory = match later().any(|run| run.is_in_memory == Some(true)) {
        true => Some(true),
        false if later().any(|run| run.is_in_memory.is_none()) => None,
        false => Some(false),
    };
    Ok(WasComplete { in_memory, durable: later().any(|run| run.is_durable == Some(true)) })
}

/// What is written down of this run already: where it runs, and that a checkpoint of it is complete in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenDown {
    is_placed: bool,
    is_in_memory: bool,
}

/// The generations of which a rank finds no part, each with the stretches of its ranks whose parts are missing.
type Missing = Vec<(Key, Vec<(u32, u32)>)>;

/// Where the ranks of a job save: its directory in each tier, as one rank sees them.
type Directories = [(Tier, PathBuf)];

impl Nodes {
    /// Writes down on which nodes this run saves, after its first checkpoint: once on each node, and in the shared
    /// directory; and, once, that one is complete in memory. Returns a notice where that fails. Not collective.
    pub fn write_placement(&mut self, directories: &Directories, epoch: u64, is_in_memory: bool) -> Vec<String> {
        let is_placed = std::mem::replace(&mut self.written.is_placed, true);
        let is_new_in_memory = is_in_memory && !std::mem::replace(&mut self.written.is_in_memory, true);
        if is_placed && !is_new_in_memory {
            return Vec::new();
        }
        let due = |tier: Tier| self.is_first_at(tier) && (tier == Tier::Memory || !is_placed);
        let failed = directories.iter().filter(|(tier, _)| due(*tier)).filter_map(|(tier, directory)| {
            let is_in_memory = Some(is_in_memory && *tier == Tier::Memory);
            let placement = Placement { is_in_memory, ..Placement::new(epoch, self) };
            let why = write_down(directory, placement, self.own).err()?;
            Some(format!("cannot record the nodes of this job: {why}"))
        });
        failed.collect()
    }

    /// Writes down that a checkpoint is complete in a durable tier: what is not there later was lost, and not never written.
    /// Returns a notice where that fails. Not collective.
    pub fn write_durable(&self, tier: Tier, directory: &Path, epoch: u64) -> Option<String> {
        if !self.is_first_at(tier) {
            return None;
        }
        let placement = Placement { is_durable: Some(true), ..Placement::new(epoch, self) };
        let why = write_down(directory, placement, self.own).err()?;
        Some(format!("cannot record that this job has durable checkpoints: {why}"))
    }

    /// What the files on all nodes say, the newest run first, and which of the files cannot be read. Collective.
    fn placements(&self, ranks: &Ranks, directories: &Directories) -> Result<(Vec<Placement>, Vec<String>), Error> {
        let (mut own, mut own_unreadable) = (Placements::default(), Vec::new());
        // The others that see a directory see the same file.
        for (_, directory) in directories.iter().filter(|(tier, _)| self.is_first_at(*tier)) {
            match Placements::read(directory) {
                Ok(found) => found.runs.into_iter().for_each(|run| own.add(run)),
                Err(why) => own_unreadable.push(format!("on {}, {why}", self.own_name())),
            }
        }
        let (mut all, mut all_unreadable) = (Placements::default(), Vec::new());
        for (told, unreadable) in ranks.gather(&(own, own_unreadable))? {
            told.runs.into_iter().for_each(|run| all.add(run));
            all_unreadable.extend(unreadable);
        }
        Ok((all.runs, all_unreadable))
    }

    /// For each generation that is not whole within reach, what is missing and where it lies. Collective; no words are
    /// exchanged where all are whole.
    pub fn whereabouts(
        &self,
        ranks: &Ranks,
        directories: &Directories,
        missing: Missing,
    ) -> Result<BTreeMap<Key, String>, Error> {
        if missing.iter().all(|(_, stretches)| stretches.is_empty()) {
            return Ok(BTreeMap::new());
        }
        let (placements, unreadable) = self.placements(ranks, directories)?;
        let of = |(key, stretches): (Key, Vec<(u32, u32)>)| {
            let placement = placements.iter().find(|placement| placement.epoch == key.epoch);
            let lie = || match (where_they_lie(&stretches, placement, self), placement) {
                (said, None) if !unreadable.is_empty() => format!("{said} ({})", named(&unreadable)),
                (said, _) => said,
            };
            (!stretches.is_empty()).then(|| (key, lie()))
        };
        Ok(missing.into_iter().filter_map(of).collect())
    }

    /// Refuses to begin anew where a file says that checkpoints were beside it, of which nothing is found: somebody or something
    /// took them and left the file. A boot takes both from memory, and what never became durable is no loss of a drive. What a
    /// run kept that was completed may be gone: nobody goes on from there. Collective.
    fn expect_nothing_lost(
        &self,
        ranks: &Ranks,
        job: &str,
        directories: &Directories,
        completed: Age,
    ) -> Result<(), Error> {
        let says = |(tier, directory): &&(Tier, PathBuf)| {
            // One that cannot be read was refused before.
            let runs = Placements::read(directory).unwrap_or_default().runs;
            let mut later = runs.iter().filter(|run| run.epoch > completed.epoch);
            match tier {
                // A checkpoint was in the memory of this node, and the file beside it is not lost with it.
                Tier::Memory => later.next().is_some(),
                // One was complete here, or may have been.
                Tier::Durable | Tier::Shared => later.any(|run| run.is_durable != Some(false)),
            }
        };
        // What a command removed on purpose is not lost.
        let is_removed = |directory: &Path| {
            let history = journal::read(directory, usize::MAX).ok().flatten();
            history.is_some_and(|history| history.skipped_count() == 0 && journal::is_all_removed(&history.entries))
        };
        let lost = directories.iter().filter(says).map(|(_, directory)| directory);
        let lost: Vec<&PathBuf> = lost.filter(|directory| !is_removed(directory)).collect();
        let own = match lost.is_empty() {
            true => Ok(()),
            false => {
                let (shown, files) = (joined(lost.iter().copied()), files_in(lost.iter().copied()));
                let name = self.own_name();
                Err(Error::NothingIntact {
                    why: format!(
                        "job {job:?} had checkpoints in {shown} on {name}, and none is left: move the directories back, or, to \
                         start over, remove {files}"
                    ),
                })
            }
        };
        ranks.all_or_none(own).map_err(|error| match error {
            Error::OtherRank { why, .. } => Error::NothingIntact { why },
            error => error,
        })
    }

    /// Refuses to begin anew where a run saved on nodes that are not of this job: its checkpoints may be there. Returns a notice
    /// where they were in memory that is gone. `completed` is the age of the mark of a completed job. Collective.
    pub fn expect_nothing_elsewhere(
        &self,
        ranks: &Ranks,
        job: &str,
        directories: &Directories,
        completed: Age,
    ) -> Result<Option<String>, Error> {
        let (placements, unreadable) = self.placements(ranks, directories)?;
        if !unreadable.is_empty() {
            return Err(Error::NothingIntact {
                why: format!(
                    "no checkpoint of job {job:?} is found, and whether there was one is not known: a file that says where it \
                     saved cannot be read. Move its checkpoints back or, to start over, remove that file: {}",
                    named(&unreadable)
                ),
            });
        }
        let Some(newest) = placements.first() else { return Ok(None) };
        self.expect_nothing_lost(ranks, job, directories, completed)?;
        let away: Vec<&str> =
            newest.nodes.iter().filter(|node| !self.has(node)).map(|node| node.name.as_str()).take(NAMED_MAX).collect();
        if away.is_empty() {
            return Ok(Some(
                "this job saved in memory before, and its memory is gone, as after a boot or with a container; nothing of it \
                 was durable: the job starts over"
                    .into(),
            ));
        }
        Err(Error::NothingIntact {
            why: format!(
                "job {job:?} saved checkpoints on {}, which {} of this run, and none can be reached: start it on the nodes where \
                 it ran, or, to start over, remove {}",
                away.join(", "),
                if away.len() == 1 { "is no node" } else { "are no nodes" },
                files_in(directories.iter().map(|(_, directory)| directory))
            ),
        })
    }
}

fn joined(paths: impl Iterator<Item = impl AsRef<Path>>) -> String {
    paths.map(|path| path.as_ref().display().to_string()).collect::<Vec<_>>().join(" and ")
}

/// The files of nodes in these directories.
fn files_in<'a>(directories: impl Iterator<Item = &'a PathBuf>) -> String {
    joined(directories.map(|directory| directory.join(NODES)))
}

/// Adds a run to the file in a directory. One that cannot be read is left as it is: it may say where earlier runs saved.
fn write_down(directory: &Path, placement: Placement, rank: u32) -> Result<(), String> {
    let mut placements = Placements::read(directory)
        .map_err(|why| format!("{why}. It is left as it is; remove it once the job has gone on from where it was"))?;
    placements.add(placement);
    placements.write(directory, rank).map_err(|error| error.to_string())
}

/// The first of these.
fn named(said: &[String]) -> String {
    let more = said.len().saturating_sub(NAMED_MAX);
    let first = said[..said.len() - more].join("; ");
    if more > 0 { format!("{first}; {more} more") } else { first }
}

/// What is missing of a generation, and where it was written.
fn where_they_lie(missing: &[(u32, u32)], placement: Option<&Placement>, nodes: &Nodes) -> String {
    let Some(placement) = placement else {
        return format!("missing: {}, written where is not known", ranks(missing));
    };
    let of_nodes = placement.of_nodes(missing);
    let count = of_nodes.len();
    let mut lines: Vec<String> = of_nodes
        .iter()
        .take(NAMED_MAX)
        .map(|(node, stretches)| match placement.nodes.get(*node as usize) {
            None => format!("{}, written where is not known", ranks(stretches)),
            Some(node) if nodes.has(node) => {
                format!("{}, written on {} and no longer there", ranks(stretches), node.name)
            }
            Some(node) => format!("{}, on {}, which is no node of this run", ranks(stretches), node.name),
        })
        .collect();
    if count > NAMED_MAX {
        lines.push(format!("those of {} more nodes", count - NAMED_MAX));
    }
    format!("missing: {}", lines.join("; "))
}

fn ranks(stretches: &[(u32, u32)]) -> String {
    let mut words: Vec<String> = stretches
        .iter()
        .take(NAMED_MAX)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first} to {last}") })
        .collect();
    if stretches.len() > NAMED_MAX {
        words.push(format!("{} more stretches", stretches.len() - NAMED_MAX));
    }
    let is_one = matches!(stretches, [(first, last)] if first == last);
    format!(
        "the {} of rank{} {}",
        if is_one { "part" } else { "parts" },
        if is_one { "" } else { "s" },
        words.join(", ")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::session::nodes::NAME_BYTES_MAX;
    use std::fs;

    fn nodes(names: &[&str], of_ranks: &[u32]) -> Nodes {
        let all = names.iter().map(|name| Host::plain(name, name)).collect();
        Nodes { all, of_ranks: of_ranks.to_vec(), ..Nodes::default() }
    }

    #[test]
    fn the_newest_runs_are_kept_and_a_file_that_cannot_be_read_is_neither_none_nor_written_over() {
        let home = crate::testing::folder();
        assert_eq!(Placements::read(home.path()), Ok(Placements::default()));
        for epoch in 1..=20 {
            write_down(home.path(), Placement::new(epoch, &nodes(&["a", "b"], &[0, 0, 1, 0])), 3).unwrap();
        }
        let found = Placements::read(home.path()).unwrap();
        assert_eq!(found.runs.iter().map(|run| run.epoch).collect::<Vec<_>>(), (13..=20).rev().collect::<Vec<_>>());
        assert_eq!(found.runs[0].ranks, [(0, 2), (1, 1), (0, 1)]);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
        let path = home.path().join(NODES);
        let mut one_bit = fs::read(&path).unwrap();
        one_bit[60] ^= 1;
        for wrong in [&b""[..], b"SFNODE01", b"SFNODE99 and more than sixteen bytes", &[0xFF; 5000], &one_bit] {
            fs::write(&path, wrong).unwrap();
            let why = Placements::read(home.path()).unwrap_err();
            assert!(why.starts_with(path.to_str().unwrap()), "{why}");
            let refused = write_down(home.path(), Placement::new(21, &nodes(&["a"], &[0])), 3).unwrap_err();
            assert!(refused.starts_with(&why), "{refused}");
            assert_eq!(fs::read(&path).unwrap(), wrong);
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_node() {
        let placement = Placement::new(1, &nodes(&["a", "b", "c"], &[0, 0, 1, 1, 2, 1]));
        let here = nodes(&["a", "new"], &[0, 1]);
        let said = where_they_lie(&[(1, 3), (5, 5)], Some(&placement), &here);
        let wanted = "missing: the part of rank 1, written on a and no longer there; \
                      the parts of ranks 2 to 3, 5, on b, which is no node of this run";
        assert_eq!(said, wanted);
        assert!(where_they_lie(&[(4, 4)], None, &here).contains("the part of rank 4, written where is not known"));
        let many: Vec<String> = (0..100).map(|number| format!("node-{number:03}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let placement = Placement::new(1, &nodes(&names, &(0..100).collect::<Vec<u32>>()));
        let said = where_they_lie(&[(0, 99)], Some(&placement), &here);
        assert!(said.contains("those of 92 more nodes") && said.len() < 1000, "{said}");
        // A container that is called otherwise now, and a machine that was booted.
        let all = vec![Host::plain("pod-7", "a"), Host::plain("b", "booted")];
        let again = Nodes { all, of_ranks: vec![0, 1], ..Nodes::default() };
        assert!(
            again.has(&Host::plain("a", "a"))
                && again.has(&Host::plain("b", "b"))
                && !again.has(&Host::plain("c", "c"))
        );
        assert_eq!(Host::plain("a\u{1b}[2J\nb", "").name, "a[2Jb");
        assert!(Host::plain(&"x".repeat(1000), "").name.len() == NAME_BYTES_MAX);
    }
}
