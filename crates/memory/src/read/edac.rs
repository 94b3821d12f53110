//! Counts of EDAC: first what there is, then the numbers.

use super::file::{self, COUNT_MAX, Counter, Failed};
use super::problem::reason;
use super::{Controller, Driver, Place, PlaceKind, Problems};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_hostfs::{Error, Root};
use surefoot_model::Digits;
use surefoot_model::MemorySource::Edac;

/// Controllers of one host; the largest machines have some dozens.
const CONTROLLERS_MAX: usize = 256;
/// Modules, ranks or rows of one controller.
const PLACES_MAX: usize = 1024;
/// Modules, ranks or channels of rows of one host.
const ALL_PLACES_MAX: usize = 2048;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 8192;
/// Readings of a controller until its numbers add up: errors may be counted between two of its files.
const TRIES_MAX: usize = 3;
/// Channels of a row.
const CHANNELS_MAX: usize = 64;

/// The folder of all controllers.
fn folder(root: &Root) -> PathBuf {
    root.sys("devices/system/edac/mc")
}

/// Folders whose names are a word and a number, by number; and how many there were beyond the limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    list: Vec<u32>,
    links: Vec<String>,
    /// What has such a name and is no folder.
    others: Vec<String>,
    left_out: usize,
    /// Some were left out, or may be beyond what was listed.
    is_cut: bool,
}

/// Of one kind of problem in a folder so many are told one by one.
const OF_ONE_KIND_MAX: usize = 8;

impl Named {
    fn read(folder: &Path, word: &str, limit: usize, problems: &mut Problems) -> std::io::Result<Self> {
        let mut found = Named::default();
        let before = problems.count();
        for entry in file::entries(Edac, folder, ENTRIES_MAX, problems)? {
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| numbered(name, word)) else { continue };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => found.list.push(number),
                Ok(kind) if kind.is_symlink() => found.links.push(name.to_string_lossy().into_owned()),
                _ => found.others.push(name.to_string_lossy().into_owned()),
            }
        }
        found.list.sort_unstable();
        found.links.sort_unstable();
        found.others.sort_unstable();
        found.left_out = found.list.len().saturating_sub(limit);
        found.is_cut = found.left_out > 0 || problems.count() > before;
        found.list.truncate(limit);
        Ok(found)
    }

    /// What of it is a problem.
    fn tell(&self, folder: &Path, what: &str, problems: &mut Problems) {
        for others in [&self.links, &self.others] {
            problems.more(others.len().saturating_sub(OF_ONE_KIND_MAX));
        }
        for link in self.links.iter().take(OF_ONE_KIND_MAX) {
            problems.add(
                Edac,
                &folder.join(link),
                "it is a symbolic link, which is not followed; the kernel has a folder there",
            );
        }
        for other in self.others.iter().take(OF_ONE_KIND_MAX) {
            problems.add(
                Edac,
                &folder.join(other),
                "it is no folder, or cannot be looked at; the kernel has a folder there, and what it would count is not known",
            );
        }
        if self.left_out > 0 {
            problems.add(Edac, folder, format!("{} {what} more than {} were left out", self.left_out, self.list.len()));
        }
    }
}

/// The number behind the word, in the kernel's way of writing it.
pub(super) fn numbered(name: &str, word: &str) -> Option<u32> {
    let digits = name.strip_prefix(word)?;
    let is_plain = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_plain && (digits.len() == 1 || !digits.starts_with('0'));
    is_plain.then(|| digits.digits()).flatten()
}

/// The folder of all controllers as it was at one moment. A controller more or less changes the number of its links, and in other
/// file systems than sysfs its times, at a fifth of what listing it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderState {
    device: u64,
    inode: u64,
    links: u64,
    modified: (i64, i64),
}

impl FolderState {
    /// `None` where there is no such folder.
    fn of(folder: &Path) -> Option<Self> {
        let found = std::fs::metadata(folder).ok()?;
        Some(FolderState {
            device: found.dev(),
            inode: found.ino(),
            links: found.nlink(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// What there is to read, with its files open.
#[derive(Debug)]
pub(super) struct Plan {
    folder: PathBuf,
    /// Before it was listed.
    state: Option<FolderState>,
    controllers: Vec<Planned>,
}

#[derive(Debug, Default)]
struct Planned {
    corrected: Option<Counter>,
    uncorrected: Option<Counter>,
    corrected_no_information: Option<Counter>,
    uncorrected_no_information: Option<Counter>,
    reset_s: Option<Counter>,
    /// Corrected and uncorrected errors of each place.
    places: Vec<[Option<Counter>; 2]>,
    rows: Vec<Option<Counter>>,
    /// Whether the totals of the last reading were the sums of all else.
    did_add_up: bool,
}

/// Which of a controller's numbers may be others.
#[derive(Debug, Clone, Copy)]
struct Changed {
    corrected: bool,
    uncorrected: bool,
}

/// Whom a file that gives no number is told to.
type OnFailure<'a> = &'a mut dyn FnMut(&Path, Failed);

impl Plan {
    /// Opens what there is. The controllers are those of [`Plan::read`], with no number yet.
    pub fn of(root: &Root, problems: &mut Problems) -> (Self, Vec<Controller>) {
        let folder = folder(root);
        let state = FolderState::of(&folder);
        let names = match Named::read(&folder, "mc", CONTROLLERS_MAX, problems) {
            Ok(names) => names,
            Err(source) => {
                if source.kind() != std::io::ErrorKind::NotFound {
                    problems.unreadable(Edac, &folder, &Error::Read { path: folder.clone(), source });
                }
                Named::default()
            }
        };
        names.tell(&folder, "controllers", problems);
        let (mut planned, mut controllers): (Vec<Planned>, Vec<Controller>) = Default::default();
        for (read, index) in names.list.iter().enumerate() {
            let places: usize = controllers.iter().map(|one| one.places.len()).sum();
            if places >= ALL_PLACES_MAX {
                problems.add(
                    Edac,
                    &folder,
                    format!(
                        "{} controllers, from mc{index} on, were left out: those before have {places} modules",
                        names.list.len() - read
                    ),
                );
                break;
            }
            let (files, controller) = Planned::of(root, &folder, *index, problems);
            planned.push(files);
            controllers.push(controller);
        }
        (Plan { folder, state, controllers: planned }, controllers)
    }

    /// Whether the same controllers are there as when it was made; whether they can still be read shows when they are.
    pub fn is_current(&self) -> bool {
        self.state == FolderState::of(&self.folder)
    }

    /// Brings the numbers up to date and tells whether any but the times is another one; nothing where one cannot be read: something
    /// has changed then, and what was read is of no use.
    pub fn read(&mut self, controllers: &mut [Controller]) -> Result<bool, ()> {
        let (mut has_failed, mut has_changed) = (false, false);
        for (planned, controller) in self.controllers.iter_mut().zip(controllers) {
            has_changed |= planned.read(controller, &mut |_, _| has_failed = true);
        }
        if has_failed { Err(()) } else { Ok(has_changed) }
    }

    /// Brings the numbers up to date, with a problem for each that cannot be read.
    pub fn read_with(&mut self, controllers: &mut [Controller], problems: &mut Problems) {
        let mut on_failure = |path: &Path, failed: Failed| match failed {
            Failed::Absent => problems.add(Edac, path, "it vanished while it was read; look again"),
            Failed::Wrong(why) => problems.add(Edac, path, why),
        };
        for (planned, controller) in self.controllers.iter_mut().zip(controllers) {
            planned.read(controller, &mut on_failure);
        }
    }
}

impl Planned {
    fn of(root: &Root, parent: &Path, index: u32, problems: &mut Problems) -> (Self, Controller) {
        let id = format!("mc{index}");
        let folder = parent.join(&id);
        let mut find = Find { root, problems, is_cut: false };
        let name = find.line(&folder.join("mc_name"), true);
        let driver = Driver::of(&name);
        let mut controller = Controller { index, id, name, driver, ..Controller::default() };
        let mut planned = Planned {
            corrected: find.needed(folder.join("ce_count")),
            uncorrected: find.needed(folder.join("ue_count")),
            corrected_no_information: find.needed(folder.join("ce_noinfo_count")),
            uncorrected_no_information: find.needed(folder.join("ue_noinfo_count")),
            reset_s: find.optional(folder.join("seconds_since_reset"), u64::MAX),
            ..Planned::default()
        };
        planned.add_modules(&mut controller, &mut find, &folder, "dimm", PlaceKind::Dimm);
        planned.add_modules(&mut controller, &mut find, &folder, "rank", PlaceKind::Rank);
        // Kernels before 4.10 have no counts in these folders, and older ones no such folder.
        // A row has a folder only where a slot of it is filled: the first one may be missing.
        let rows = find.named(&folder, "csrow");
        if planned.places.iter().flatten().all(Option::is_none) && !rows.is_empty() {
            planned.places.clear();
            controller.places.clear();
            planned.add_rows(&mut controller, &mut find, &folder, &rows);
        } else {
            planned.tell_missing(&controller, &folder, find.problems);
            // Modules that were left out are no fault of the driver.
            if !find.is_cut {
                find.tell_more_rows(&controller, &folder, &rows);
            }
        }
        controller.is_cut = find.is_cut;
        (planned, controller)
    }

    fn add_modules(
        &mut self,
        to: &mut Controller,
        find: &mut Find<'_, '_>,
        folder: &Path,
        word: &str,
        kind: PlaceKind,
    ) {
        for number in find.named(folder, word) {
            let name = format!("{word}{number}");
            let own = folder.join(&name);
            let location = find.line(&own.join("dimm_location"), false);
            to.places.push(Place {
                kind,
                label: find.line(&own.join("dimm_label"), false),
                location: layers(&location),
                size_bytes: find.mebibytes(own.join("size")),
                edac_mode: find.line(&own.join("dimm_edac_mode"), false),
                name,
                ..Place::default()
            });
            self.places.push(["dimm_ce_count", "dimm_ue_count"].map(|file| find.optional(own.join(file), COUNT_MAX)));
        }
    }

    /// Each channel of each row of chip selects.
    fn add_rows(&mut self, to: &mut Controller, find: &mut Find<'_, '_>, folder: &Path, rows: &[u32]) {
        for (read, &row) in rows.iter().enumerate() {
            if to.places.len() >= PLACES_MAX {
                let why = format!("{} rows, from csrow{row} on, were left out", rows.len() - read);
                find.problems.add(Edac, folder, why);
                find.is_cut = true;
                return;
            }
            let own = folder.join(format!("csrow{row}"));
            let (size_bytes, edac_mode) =
                (find.mebibytes(own.join("size_mb")), find.line(&own.join("edac_mode"), false));
            let room = PLACES_MAX.saturating_sub(to.places.len()).min(CHANNELS_MAX);
            let channels = find.channels(&own, room);
            if channels.is_empty() {
                find.problems.add(
                    Edac,
                    &own,
                    "none of its channels has a counter, so the errors of its modules are not known; look again, and if it stays so reload the EDAC driver",
                );
            }
            let share = size_bytes / (channels.len().max(1) as u64);
            for channel in channels {
                to.places.push(Place {
                    name: format!("csrow{row}/ch{channel}"),
                    kind: PlaceKind::RowChannel,
                    label: find.line(&own.join(format!("ch{channel}_dimm_label")), false),
                    location: vec![("csrow".into(), row), ("channel".into(), channel)],
                    size_bytes: share,
                    edac_mode: edac_mode.clone(),
                    ..Place::default()
                });
                // Every driver counts corrected errors by channel, and many uncorrected ones by row alone.
                self.places.push([
                    find.needed(own.join(format!("ch{channel}_ce_count"))),
                    find.optional(own.join(format!("ch{channel}_ue_count")), COUNT_MAX),
                ]);
            }
            to.rows.push((row, None));
            self.rows.push(find.needed(own.join("ue_count")));
        }
    }

    fn tell_missing(&self, controller: &Controller, folder: &Path, problems: &mut Problems) {
        for (place, counters) in controller.places.iter().zip(&self.places) {
            for (file, counter) in ["dimm_ce_count", "dimm_ue_count"].iter().zip(counters) {
                let path = folder.join(&place.name).join(file);
                // One that is there and cannot be opened was told before.
                if counter.is_none() && !path.exists() {
                    problems.add(Edac, &path, "it is not there, so the errors of this module are not known; look again, and if it stays so reload the EDAC driver");
                }
            }
        }
    }

    /// Brings the numbers up to date, and tells whether any but the time may be another one.
    fn read(&mut self, controller: &mut Controller, on_failure: OnFailure<'_>) -> bool {
        match self.totals(controller) {
            Some(Changed { corrected: false, uncorrected: false }) => return false,
            Some(changed) if self.read_changed(controller, changed) => return true,
            _ => {}
        }
        self.read_all(controller, on_failure);
        self.did_add_up = controller.adds_up() == Some(true);
        true
    }

    /// Reads the totals and the time, where all else can be told by them: nobody reset the counters since they were the sums of all
    /// else. Where a total is as it was, nothing that it is the sum of is another number.
    fn totals(&self, controller: &mut Controller) -> Option<Changed> {
        let value = |counter: &Option<Counter>| counter.as_ref()?.read().ok();
        if !self.did_add_up {
            return None;
        }
        let reset_s = value(&self.reset_s).filter(|now| Some(*now) >= controller.reset_s)?;
        let (corrected, uncorrected) = (value(&self.corrected)?, value(&self.uncorrected)?);
        controller.reset_s = Some(reset_s);
        Some(Changed {
            corrected: controller.corrected.replace(corrected) != Some(corrected),
            uncorrected: controller.uncorrected.replace(uncorrected) != Some(uncorrected),
        })
    }

    /// Reads what these totals are the sums of. Tells whether they are; where not, or where something cannot be read, errors were counted
    /// meanwhile, or more has changed.
    fn read_changed(&self, found: &mut Controller, changed: Changed) -> bool {
        let mut has_failed = false;
        if changed.corrected {
            self.read_corrected(found, &mut |_, _| has_failed = true);
        }
        if changed.uncorrected {
            self.read_uncorrected(found, &mut |_, _| has_failed = true);
        }
        !has_failed && found.adds_up() == Some(true)
    }

    fn read_all(&self, controller: &mut Controller, on_failure: OnFailure<'_>) {
        for _ in 1..TRIES_MAX {
            let mut has_failed = false;
            self.read_once(controller, &mut |_, _| has_failed = true);
            if !has_failed && controller.adds_up() != Some(false) {
                return;
            }
            if has_failed {
                break;
            }
        }
        self.read_once(controller, on_failure);
    }

    fn read_once(&self, found: &mut Controller, on_failure: OnFailure<'_>) {
        found.corrected = value(&self.corrected, on_failure);
        found.uncorrected = value(&self.uncorrected, on_failure);
        self.read_corrected(found, on_failure);
        self.read_uncorrected(found, on_failure);
        found.reset_s = value(&self.reset_s, on_failure);
    }

    /// What the total of corrected errors is the sum of.
    fn read_corrected(&self, found: &mut Controller, on_failure: OnFailure<'_>) {
        for (place, [corrected, _]) in found.places.iter_mut().zip(&self.places) {
            place.corrected = value(corrected, on_failure);
        }
        found.corrected_no_information = value(&self.corrected_no_information, on_failure);
    }

    /// What the total of uncorrected errors is the sum of.
    fn read_uncorrected(&self, found: &mut Controller, on_failure: OnFailure<'_>) {
        for (place, [_, uncorrected]) in found.places.iter_mut().zip(&self.places) {
            place.uncorrected = value(uncorrected, on_failure);
        }
        for ((_, errors), counter) in found.rows.iter_mut().zip(&self.rows) {
            *errors = value(counter, on_failure);
        }
        found.uncorrected_no_information = value(&self.uncorrected_no_information, on_failure);
    }
}

/// The number of a counter, where there is one and it can be read.
fn value(counter: &Option<Counter>, on_failure: OnFailure<'_>) -> Option<u64> {
    let counter = counter.as_ref()?;
    counter.read().map_err(|failed| on_failure(&counter.path, failed)).ok()
}

/// Opens files and says what is wrong with them.
struct Find<'a, 'b> {
    root: &'a Root,
    problems: &'b mut Problems,
    /// Something of the controller was left out.
    is_cut: bool,
}

impl Find<'_, '_> {
    fn needed(&mut self, path: PathBuf) -> Option<Counter> {
        self.counter(path, COUNT_MAX, true)
    }

    fn optional(&mut self, path: PathBuf, max: u64) -> Option<Counter> {
        self.counter(path, max, false)
    }

    fn counter(&mut self, path: PathBuf, max: u64, is_needed: bool) -> Option<Counter> {
        match Counter::open(self.root, path.clone(), max) {
            Ok(counter) => return Some(counter),
            Err(Failed::Absent) if !is_needed => {}
            Err(Failed::Absent) => self.problems.add(
                Edac,
                &path,
                "it is not there, though every EDAC driver has it; look again, and if it stays so reload the driver",
            ),
            Err(Failed::Wrong(why)) => self.problems.add(Edac, &path, why),
        }
        None
    }

    fn line(&mut self, path: &Path, is_needed: bool) -> String {
        match file::line(self.root, path) {
            Ok(line) => line,
            Err(error) => {
                if is_needed || !error.is_absent() {
                    self.problems.add(Edac, path, reason(&error));
                }
                String::new()
            }
        }
    }

    fn mebibytes(&mut self, path: PathBuf) -> u64 {
        // Beyond 2^40 MiB it is no size of a module.
        let counter = self.optional(path, 1 << 40);
        let size = counter.map(|counter| (counter.read(), counter.path));
        match size {
            Some((Ok(size), _)) => size << 20,
            Some((Err(Failed::Wrong(why)), path)) => {
                self.problems.add(Edac, &path, why);
                0
            }
            _ => 0,
        }
    }

    /// The channels of a row: those of which any file is there, whether it can be read or not.
    fn channels(&mut self, row: &Path, limit: usize) -> Vec<u32> {
        let entries = match file::entries(Edac, row, ENTRIES_MAX, self.problems) {
            Ok(entries) => entries.into_iter(),
            Err(source) => {
                self.problems.unreadable(Edac, row, &Error::Read { path: row.to_path_buf(), source });
                return Vec::new();
            }
        };
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let found: BTreeSet<u32> = names.filter_map(|name| channel_of(&name)).collect();
        let left_out = found.len().saturating_sub(limit);
        if left_out > 0 {
            self.problems.add(Edac, row, format!("{left_out} channels more than {limit} were left out"));
            self.is_cut = true;
        }
        found.into_iter().take(limit).collect()
    }

    /// The kernel shows each module or rank as one channel of a row, too: more of these are modules that have no folder.
    fn tell_more_rows(&mut self, controller: &Controller, folder: &Path, rows: &[u32]) {
        let channels: usize =
            rows.iter().map(|row| self.channels(&folder.join(format!("csrow{row}")), CHANNELS_MAX).len()).sum();
        let places = controller.places.len();
        if channels > places {
            let why = format!(
                "its rows have {channels} channels, and only {places} modules or ranks have a folder: the others are not shown, and their errors not known; look again, and if it stays so reload the EDAC driver"
            );
            self.problems.add(Edac, folder, why);
        }
    }

    fn named(&mut self, folder: &Path, word: &str) -> Vec<u32> {
        match Named::read(folder, word, PLACES_MAX, self.problems) {
            Ok(named) => {
                named.tell(folder, &format!("folders {word}X"), self.problems);
                self.is_cut |= named.is_cut;
                named.list
            }
            Err(source) => {
                self.problems.unreadable(Edac, folder, &Error::Read { path: folder.to_path_buf(), source });
                Vec::new()
            }
        }
    }
}

/// The channel that a file of a row of chip selects belongs to.
fn channel_of(file: &str) -> Option<u32> {
    let (channel, what) = file.split_once('_')?;
    matches!(what, "ce_count" | "ue_count" | "dimm_label").then(|| numbered(channel, "ch")).flatten()
}

/// `channel 0 slot 1` in pairs; what does not fit ends it.
fn layers(text: &str) -> Vec<(String, u32)> {
    let mut words = text.split_ascii_whitespace();
    let mut layers = Vec::new();
    while let (Some(name), Some(number)) = (words.next(), words.next())
        && let Some(number) = number.digits()
        && layers.len() < 4
    {
        layers.push((name.to_owned(), number));
    }
    layers
}

impl Controller {
    /// Whether its totals are those of its places and of the errors without one, as `edac_mc_handle_error` keeps them; modulo 2^32, as
    /// all of them are. `None` where a number is missing.
    pub fn adds_up(&self) -> Option<bool> {
        if self.places.is_empty() {
            return None;
        }
        let [corrected, uncorrected] = self.of_places();
        let corrected = corrected?.wrapping_add(self.corrected_no_information?);
        let uncorrected = uncorrected?.wrapping_add(self.uncorrected_no_information?);
        let is = |sum: u64, total: u64| sum & COUNT_MAX == total & COUNT_MAX;
        Some(is(corrected, self.corrected?) && is(uncorrected, self.uncorrected?))
    }

    /// Whether the total of corrected and of uncorrected errors is another number than that of its places and of the errors without one.
    /// Then neither is known to be all that there were; not so where a number is missing.
    pub fn contradicts(&self) -> [bool; 2] {
        let [corrected, uncorrected] = self.of_places();
        let of = |placed: Option<u64>, unplaced: Option<u64>, total: Option<u64>| {
            let sum = placed.zip(unplaced).map(|(placed, unplaced)| placed.wrapping_add(unplaced));
            !self.places.is_empty() && sum.zip(total).is_some_and(|(sum, total)| sum & COUNT_MAX != total & COUNT_MAX)
        };
        [
            of(corrected, self.corrected_no_information, self.corrected),
            of(uncorrected, self.uncorrected_no_information, self.uncorrected),
        ]
    }

    /// Corrected and uncorrected errors whose module is not known: those that the driver counts as such, or what its totals have beyond
    /// its modules, if that is more. `None` where neither can be read.
    pub fn of_no_module(&self) -> [Option<u64>; 2] {
        let [corrected, uncorrected] = self.of_places();
        let of = |told: Option<u64>, total: Option<u64>, placed: Option<u64>| {
            told.max(total.zip(placed).map(|(total, placed)| total.saturating_sub(placed & COUNT_MAX)))
        };
        [
            of(self.corrected_no_information, self.corrected, corrected),
            of(self.uncorrected_no_information, self.uncorrected, uncorrected),
        ]
    }

    /// The sums of corrected and of uncorrected errors of known places; `None` where one cannot be read, or was left out.
    fn of_places(&self) -> [Option<u64>; 2] {
        if self.is_cut {
            return [None, None];
        }
        let uncorrected = match self.rows.as_slice() {
            [] => sum(self.places.iter().map(|place| place.uncorrected)),
            rows => sum(rows.iter().map(|(_, errors)| *errors)),
        };
        [sum(self.places.iter().map(|place| place.corrected)), uncorrected]
    }
}

fn sum(mut counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.try_fold(0_u64, |sum, count| Some(sum.wrapping_add(count?)))
}
