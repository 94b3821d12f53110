//! What a job decided, and what became of it: a few lines of JSON beside its checkpoints, for whoever looks from outside.
//!
//! # The file
//! Rank 0 writes `journal.jsonl` in the job's directory of the memory tier, or of the durable one without a memory tier:
//! one JSON object per line, [`Entry`]. At [`JOURNAL_BYTES_MAX`] it becomes `journal.1.jsonl` in place of the one before,
//! so there are never more than two. It is private to the user and is never synced: it tells, and nothing depends on it.
//! What cannot be written is counted in the next line that can, and is no error of the save.
//!
//! A reader takes every line for hostile: what is too long, cut or something else is skipped and counted.

use super::drain::Drain;
use super::target::Kind;
use super::{Checkpointer, Restored, Saved, clock};
use crate::controller::{Decision, Policy, Situation};
use crate::generation::GenerationId;
use crate::{Config, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of the file that is written to.
pub const JOURNAL_NAME: &str = "journal.jsonl";

/// The name of the one before it.
pub const OLDER_NAME: &str = "journal.1.jsonl";

/// Length of one file, bytes: over a thousand decisions.
pub const JOURNAL_BYTES_MAX: u64 = 512 << 10;

/// The longest line that is written or read, bytes.
pub const LINE_BYTES_MAX: usize = 4096;

/// The most reasons of a decision.
const REASONS_MAX: usize = 8;

/// Characters of one sentence that are kept.
const SENTENCE_CHARACTERS_MAX: usize = 300;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// `CLOCK_REALTIME` of the writing, nanoseconds.
    pub realtime_ns: u64,
    /// Lines before this one that could not be written, since the session began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_count: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A session began.
    Opened {
        /// The job.
        job: String,
        /// Its ranks.
        ranks: u32,
        /// The word for the policy.
        policy: String,
        /// The directory that several nodes share, where there is one: below it the job's copies are no SSD's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        shared: String,
        /// Whether it began in the file before this one, and the line is here so that it is not forgotten.
        #[serde(default, skip_serializing_if = "is_no")]
        is_repeated: bool,
    },
    /// It was decided where a checkpoint goes, and it went there or failed.
    Decision(Box<Decided>),
    /// A checkpoint that was written in the background is durable.
    Durable {
        /// `durable` on the node's own drive, `shared` in the shared directory.
        tier: String,
        /// Its number.
        generation: u64,
        /// Seconds from the moment at which it was taken to this line.
        age_s: f64,
        /// Seconds that writing took.
        took_s: f64,
        /// Bytes that all ranks wrote.
        bytes: u64,
    },
    /// A checkpoint on its way did not become durable.
    NotDurable {
        /// As above.
        tier: String,
        /// Its number.
        generation: u64,
        /// Why.
        why: String,
    },
    /// The job asked for its newest checkpoint.
    Restart {
        /// The one that came back; `None` when there was none, or none was intact.
        generation: Option<u64>,
        /// What rank 0 met, or why nothing came back.
        report: String,
    },
}

/// A decision, with what was known and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Where it went: the label of the place in lower case, with `_` for spaces.
    pub place: String,
    /// Its number; `None` when none was taken.
    pub generation: Option<u64>,
    /// Why, the deciding reason first.
    pub reasons: Vec<String>,
    /// Why it could not be saved; empty when it was, or none was to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Bytes of rank 0's payload.
    pub payload_bytes: u64,
    /// Bytes of the whole checkpoint on one node in the durable tier; the maximum over nodes.
    pub node_bytes: u64,
    /// Seconds that the call took.
    pub visible_s: f64,
    /// Age of the newest durable copy before the decision; of the session where it has none.
    pub durable_age_s: f64,
    /// The bound on that age, where the policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_max_s: Option<f64>,
    /// Bytes that the durable tier took on one node since the session began; the maximum over nodes.
    pub durable_bytes: u64,
    /// Seconds since the session began.
    pub session_s: f64,
    /// Of these, visible in checkpoints.
    pub checkpoint_s: f64,
    /// Where the drive's endurance is known: bytes per second that it bears until the wished end of its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes_per_s: Option<f64>,
    /// Where it is known: bytes that may still be written before the rating is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_left_bytes: Option<f64>,
    /// Decisions of the session so far by place, this one included.
    pub decided: BTreeMap<String, u64>,
}

/// The journal of a job as it is read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Lines that could be read, oldest first.
    pub entries: Vec<Entry>,
    /// Lines that could not.
    pub skipped_count: u64,
    /// Lines before those, left out because there are more than were asked for.
    pub left_out_count: u64,
}

/// Reads the journal in a job's directory: the newest `entries_max` lines. `None` when there is no journal.
///
/// # Errors
/// [`Error::Storage`] when a file is there and cannot be read, or is no regular file.
pub fn read(job_directory: &Path, entries_max: usize) -> Result<Option<History>, Error> {
    let (older, newer) = open_both(job_directory)?;
    if older.is_none() && newer.is_none() {
        return Ok(None);
    }
    let mut history = History::default();
    for (file, name) in [(older, OLDER_NAME), (newer, JOURNAL_NAME)] {
        let Some(file) = file else { continue };
        let path = job_directory.join(name);
        read_lines(file, &mut history).map_err(Error::storage("read", &path))?;
    }
    let left_out = history.entries.len().saturating_sub(entries_max);
    history.entries.drain(..left_out);
    history.left_out_count = left_out as u64;
    Ok(Some(history))
}

/// Both files as of one moment: when one is renamed meanwhile, it would be both.
fn open_both(job_directory: &Path) -> Result<(Option<File>, Option<File>), Error> {
    let mut both = (None, None);
    for _ in 0..3 {
        let newer = open_to_read(&job_directory.join(JOURNAL_NAME))?;
        let older = open_to_read(&job_directory.join(OLDER_NAME))?;
        let inode = |file: &Option<File>| file.as_ref().and_then(|file| file.metadata().ok()).map(|found| found.ino());
        let is_renamed = newer.is_some() && inode(&newer) == inode(&older);
        both = (older, newer);
        if !is_renamed {
            return Ok(both);
        }
    }
    both.1 = None;
    Ok(both)
}

fn open_to_read(path: &Path) -> Result<Option<File>, Error> {
    let failed = Error::storage("open", path);
    let mut options = OpenOptions::new();
    match options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK).open(path) {
        Ok(file) => match file.metadata() {
            Ok(found) if found.is_file() => Ok(Some(file)),
            Ok(_) => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))),
            Err(error) => Err(failed(error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn read_lines(mut file: File, history: &mut History) -> io::Result<()> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(JOURNAL_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
    // What does not end in a line feed is still being written, or was cut; the next session begins with a line feed.
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = bytes[..whole].split(|&byte| byte == b'\n');
    if from > 0 {
        // A file longer than we make them begins somewhere in a line.
        history.skipped_count += u64::from(lines.next().is_some());
    }
    for line in lines.filter(|line| !line.is_empty()) {
        match parse(line) {
            Some(entry) => history.entries.push(entry),
            None => history.skipped_count += 1,
        }
    }
    Ok(())
}

fn parse(line: &[u8]) -> Option<Entry> {
    let entry: Entry = (line.len() <= LINE_BYTES_MAX).then(|| serde_json::from_slice(line).ok()).flatten()?;
    let is_ours = match &entry.event {
        Event::Decision(decided) => decided.reasons.len() <= REASONS_MAX && decided.decided.len() <= REASONS_MAX,
        _ => true,
    };
    is_ours.then_some(entry)
}

/// Writes the journal of one session; does nothing on other ranks than the first.
pub(super) struct Journal {
    directory: Option<PathBuf>,
    file: Option<File>,
    bytes: u64,
    /// Whether the file may end in half a line.
    is_torn: bool,
    lost_count: u64,
    decided: BTreeMap<String, u64>,
    /// What a new file begins with.
    opening: Option<Event>,
}

impl Journal {
    /// The journal of this rank; the job's directories are there already.
    pub(super) fn new(config: &Config, rank: u32) -> Self {
        let directories = [
            config.memory.as_ref().map(|memory| &memory.directory),
            config.durable.as_ref().map(|durable| &durable.directory),
            config.shared.as_ref().map(|shared| &shared.directory),
        ];
        let base = directories.into_iter().flatten().next().filter(|_| rank == 0);
        Journal {
            directory: base.map(|base| base.join(&config.job)),
            file: None,
            bytes: 0,
            is_torn: true,
            lost_count: 0,
            decided: BTreeMap::new(),
            opening: None,
        }
    }

    /// Lines that could not be written.
    pub(super) fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Appends a line, or counts it.
    fn append(&mut self, event: Event) {
        let Some(directory) = self.directory.clone() else { return };
        let entry = Entry { realtime_ns: clock::realtime_ns(), lost_count: self.lost_count, event };
        if self.try_append(&directory, &entry).is_err() {
            self.lost_count += 1;
            self.file = None;
        }
    }

    fn try_append(&mut self, directory: &Path, entry: &Entry) -> io::Result<()> {
        let mut line = Vec::with_capacity(1024);
        line.push(b'\n');
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        if line.len() > LINE_BYTES_MAX {
            return Err(io::Error::other("the line is too long"));
        }
        if self.file.is_none() {
            self.open(directory)?;
        }
        if self.bytes + line.len() as u64 > JOURNAL_BYTES_MAX {
            self.file = None;
            fs::rename(directory.join(JOURNAL_NAME), directory.join(OLDER_NAME))?;
            self.open(directory)?;
            if let Some(event) = self.opening.clone() {
                let repeated = Entry { event, ..entry.clone() };
                self.try_append(directory, &repeated)?;
            }
        }
        let line = if self.is_torn { &line[..] } else { &line[1..] };
        let Some(file) = &mut self.file else { return Err(io::Error::other("there is no file")) };
        // One write of the whole line, so that a reader never sees another's line within it.
        self.is_torn = true;
        file.write_all(line)?;
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn open(&mut self, directory: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
        let file = options.open(directory.join(JOURNAL_NAME))?;
        let found = file.metadata()?;
        // The directory was found to be ours when its tier was opened.
        if !found.is_file() || found.uid() != fs::symlink_metadata(directory)?.uid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not ours"));
        }
        self.bytes = found.len();
        self.is_torn = self.bytes > 0;
        self.file = Some(file);
        Ok(())
    }
}

impl Checkpointer {
    /// Lines of the journal that could not be written: what the page then does not know. No checkpoint depends on it.
    pub fn journal_lost_count(&self) -> u64 {
        self.journal.lost_count()
    }

    pub(super) fn record_opening(&mut self) {
        let policy = match self.controller.policy() {
            Policy::Surefoot(_) => "surefoot",
            Policy::Paper(_) => "paper",
            Policy::Fixed(_) => "fixed",
        };
        let shared = self.config.shared.as_ref().map(|shared| &shared.directory);
        // As the kernel calls it, whatever links lead there.
        let shared = shared.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        let opened = |is_repeated: bool| Event::Opened {
            job: self.config.job.clone(),
            ranks: self.group.size(),
            policy: policy.to_owned(),
            shared: shared.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            is_repeated,
        };
        let (first, repeated) = (opened(false), opened(true));
        self.journal.append(first);
        self.journal.opening = Some(repeated);
    }

    /// Writes down a decision whose checkpoint was taken, or failed.
    pub(super) fn record_decision(&mut self, decision: &Decision, situation: &Situation, taken: &Result<Saved, Error>) {
        if self.journal.directory.is_none() {
            return;
        }
        let place = decision.place.label().to_lowercase().replace(' ', "_");
        let count = self.journal.decided.entry(place.clone()).or_default();
        *count = count.saturating_add(1);
        let (staleness_max_s, granted_share) = match self.controller.policy() {
            Policy::Surefoot(policy) => (Some(policy.staleness_max_s), policy.granted_share),
            Policy::Paper(_) | Policy::Fixed(_) => (None, 1.0),
        };
        let drive = situation.drive.as_ref();
        let saved = taken.as_ref().ok();
        let decided = Decided {
            place,
            generation: saved.and_then(|saved| saved.generation).map(|generation: GenerationId| generation.number),
            reasons: sentences(&decision.reasons),
            failure: taken.as_ref().err().map(|error| sentence(&error.to_string())).unwrap_or_default(),
            payload_bytes: saved.map_or(0, |saved| saved.payload_bytes),
            node_bytes: situation.size_bytes as u64,
            visible_s: saved.map_or(0.0, |saved| saved.visible_s),
            durable_age_s: plain(situation.since_durable_s).unwrap_or(0.0),
            staleness_max_s: staleness_max_s.and_then(plain),
            durable_bytes: situation.durable_bytes as u64,
            session_s: plain(situation.now_s).unwrap_or(0.0),
            checkpoint_s: plain(situation.checkpoint_s).unwrap_or(0.0),
            budget_bytes_per_s: drive.and_then(|drive| plain(drive.bearable_bytes_per_s(granted_share))),
            endurance_left_bytes: drive
                .and_then(|drive| plain((granted_share * drive.rated_bytes - drive.written_bytes).max(0.0))),
            decided: self.journal.decided.clone(),
        };
        self.journal.append(Event::Decision(Box::new(decided)));
    }

    /// Writes down that a checkpoint came to a durable tier; bytes of all ranks.
    pub(super) fn record_drain(&mut self, kind: Kind, drain: &Drain, bytes: u64) {
        let (generation, took_s) = (drain.generation().number, drain.took_s());
        let age_s = (self.now_s() - drain.began_s(self.began)).max(0.0);
        self.journal.append(Event::Durable { tier: word(kind), generation, age_s, took_s, bytes });
    }

    /// Writes down that one did not.
    pub(super) fn record_failed_drain(&mut self, kind: Kind, generation: GenerationId, error: &Error) {
        let why = sentence(&error.to_string());
        self.journal.append(Event::NotDurable { tier: word(kind), generation: generation.number, why });
    }

    pub(super) fn record_restart(&mut self, restored: &Result<Option<Restored>, Error>) {
        let (generation, report) = match restored {
            Ok(Some(restored)) => (Some(restored.generation.number), sentence(&restored.report)),
            Ok(None) => (None, "there was no checkpoint".to_owned()),
            Err(error) => (None, sentence(&error.to_string())),
        };
        self.journal.append(Event::Restart { generation, report });
    }
}

fn word(kind: Kind) -> String {
    match kind {
        Kind::Ssd => "durable".to_owned(),
        Kind::Shared => "shared".to_owned(),
    }
}

/// JSON has no infinity.
fn plain(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn sentences(reasons: &[String]) -> Vec<String> {
    reasons.iter().take(REASONS_MAX).map(|reason| sentence(reason)).collect()
}

fn sentence(text: &str) -> String {
    text.chars().take(SENTENCE_CHARACTERS_MAX).collect()
}

fn is_no(value: &bool) -> bool {
    !value
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::controller::Surefoot;
    use crate::{Alone, Place};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn decision(number: u64) -> Event {
        Event::Decision(Box::new(Decided {
            place: "memory".into(),
            generation: Some(number),
            reasons: vec!["the durable copy is 12 s old; every 900 s wastes least".into()],
            payload_bytes: 1 << 30,
            visible_s: 0.1 + 0.2,
            durable_age_s: 12.0,
            staleness_max_s: Some(3600.0),
            decided: BTreeMap::from([("memory".to_owned(), number)]),
            ..Decided::default()
        }))
    }

    fn opened(is_repeated: bool) -> Event {
        let (job, policy, shared) = ("job".into(), "surefoot".into(), "/scratch".into());
        Event::Opened { job, ranks: 4, policy, shared, is_repeated }
    }

    fn journal(directory: &Path) -> Journal {
        Journal::new(&Config::new("job", directory, None), 0)
    }

    /// A tier's directory with that of a job in it.
    fn tier() -> tempfile::TempDir {
        let tier = tempfile::tempdir().unwrap();
        fs::create_dir(tier.path().join("job")).unwrap();
        tier
    }

    fn numbers(history: &History) -> Vec<u64> {
        let number = |entry: &Entry| match &entry.event {
            Event::Decision(decided) => decided.generation,
            _ => None,
        };
        history.entries.iter().filter_map(number).collect()
    }

    #[test]
    fn what_happened_is_read_back_as_it_was_written() {
        let tier = tier();
        let events = [
            opened(false),
            decision(1),
            Event::Durable { tier: "durable".into(), generation: 1, age_s: 2.5, took_s: 2.0, bytes: 4 << 30 },
            Event::NotDurable { tier: "shared".into(), generation: 2, why: "no room; \"quoted\"\n\u{0}".into() },
            Event::Restart { generation: Some(1), report: "rank 0: all good".into() },
            Event::Restart { generation: None, report: String::new() },
        ];
        let directory = tier.path().join("job");
        assert_eq!(read(&directory, 10).unwrap(), None, "nothing there is not an empty journal");
        let mut journal = journal(tier.path());
        for event in events.clone() {
            journal.append(event);
        }
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!(found.entries.iter().map(|entry| entry.event.clone()).collect::<Vec<_>>(), events);
        assert!(found.entries.is_sorted_by_key(|entry| entry.realtime_ns) && found.skipped_count == 0);
        let newest = read(&directory, 2).unwrap().unwrap();
        assert_eq!((newest.entries.len(), newest.left_out_count), (2, 4));
        assert_eq!(newest.entries[1].event, events[5]);
        let mode = fs::metadata(directory.join(JOURNAL_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "private, as the checkpoints are");
    }

    #[test]
    fn it_never_grows_beyond_two_files_and_the_newest_lines_stay() {
        let tier = tier();
        let mut journal = journal(tier.path());
        journal.append(opened(false));
        journal.opening = Some(opened(true));
        for number in 1..=5_000 {
            journal.append(decision(number));
        }
        assert_eq!(journal.lost_count, 0);
        let directory = tier.path().join("job");
        let lengths = [JOURNAL_NAME, OLDER_NAME].map(|name| fs::metadata(directory.join(name)).unwrap().len());
        assert!(lengths.iter().all(|&length| length <= JOURNAL_BYTES_MAX), "{lengths:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        let found = read(&directory, usize::MAX).unwrap().unwrap();
        let openings = found.entries.iter().filter(|entry| entry.event == opened(true)).count();
        assert_eq!((openings, found.skipped_count), (2, 0), "each file says what session it is of");
        let found = numbers(&found);
        assert!(found.len() > 1_000 && found.len() < 5_000, "{}", found.len());
        assert!(found.iter().copied().eq(5_001 - found.len() as u64..=5_000));
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_its_whole_lines_and_the_next_session_goes_on() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        let mut first = journal(tier.path());
        (1..=3).for_each(|number| first.append(decision(number)));
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let before = read(&directory, 100).unwrap().unwrap();
            assert_eq!((numbers(&before).len(), before.skipped_count), (lines, 0), "cut at {cut}");
            journal(tier.path()).append(decision(9));
            let after = read(&directory, 100).unwrap().unwrap();
            assert_eq!(numbers(&after).last(), Some(&9), "cut at {cut}");
            // A line that lacks nothing but its end is whole again.
            let is_whole = whole.get(cut) == Some(&b'\n');
            let torn = u64::from(cut > 0 && whole[cut - 1] != b'\n' && !is_whole);
            assert_eq!((numbers(&after).len() - 1 - lines, after.skipped_count), (usize::from(is_whole), torn));
        }
    }

    #[test]
    fn hostile_lines_are_skipped_and_counted() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        journal(tier.path()).append(decision(1));
        let good = fs::read(&path).unwrap();
        let many = serde_json::to_string(&Entry {
            realtime_ns: 1,
            lost_count: 0,
            event: Event::Decision(Box::new(Decided { reasons: vec![String::new(); 100], ..Decided::default() })),
        });
        let long = format!("{{\"realtime_ns\":1,\"event\":\"restart\",\"report\":\"{}\"}}", "x".repeat(5_000));
        let hostile = [
            "{}",
            "null",
            "{\"realtime_ns\":1,\"event\":\"unheard_of\"}",
            "{\"realtime_ns\":-1,\"event\":\"opened\",\"job\":\"j\",\"ranks\":1,\"policy\":\"x\"}",
            "{\"realtime_ns\":1,\"event\":\"durable\",\"tier\":\"shared\",\"generation\":1,\"age_s\":1e999,\"took_s\":1,\"bytes\":1}",
            &"[".repeat(4_000),
            &many.unwrap(),
            &long,
            "\u{feff}\u{202e}",
        ];
        let mut text = good.clone();
        for line in hostile {
            text.extend(line.as_bytes());
            text.push(b'\n');
        }
        text.extend(b"\xFF\xFE\x00\n\n\n");
        text.extend(&good);
        fs::write(&path, &text).unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!((numbers(&found), found.skipped_count), (vec![1, 1], hostile.len() as u64 + 1));
        // A file that is longer than any of ours is read from its end.
        fs::write(&path, [vec![b'z'; 3 << 20], b"\n".to_vec(), good].concat()).unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!((numbers(&found), found.skipped_count), (vec![1], 1));
    }

    #[test]
    fn links_pipes_and_directories_in_its_place_are_refused_and_counted() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        let elsewhere = tier.path().join("elsewhere");
        fs::write(&elsewhere, "untouched").unwrap();
        symlink(&elsewhere, &path).unwrap();
        let mut journal = journal(tier.path());
        journal.append(decision(1));
        assert!(journal.lost_count == 1 && read(&directory, 9).unwrap_err().to_string().contains(JOURNAL_NAME));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"untouched");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        journal.append(decision(2));
        assert!(journal.lost_count == 2 && read(&directory, 9).is_err());
        fs::remove_dir(&path).unwrap();
        // From here on it works again, and says what was lost.
        journal.append(decision(3));
        let found = read(&directory, 9).unwrap().unwrap();
        assert_eq!((numbers(&found), found.entries[0].lost_count), (vec![3], 2));
    }

    #[test]
    fn a_session_tells_what_it_decides_and_a_journal_that_fails_stops_no_save() {
        let tier = tempfile::tempdir().unwrap();
        for name in ["memory", "ssd"] {
            fs::create_dir(tier.path().join(name)).unwrap();
        }
        let mut config = Config::new("a/job", tier.path().join("memory"), Some(tier.path().join("ssd")));
        config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.001, ..Surefoot::default() });
        let directory = tier.path().join("memory/a/job");
        let mut state = vec![1u8; 10_000];
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives `job`, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        job.restart().unwrap();
        let first = job.checkpoint().unwrap();
        job.finish().unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        let words: Vec<String> = found
            .entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap()["event"].as_str().unwrap().to_owned())
            .collect();
        let Event::Decision(decided) = &found.entries[2].event else { panic!("{found:#?}") };
        assert_eq!((decided.generation, decided.payload_bytes), (Some(1), 10_000));
        assert!(decided.reasons == first.decision.reasons && !decided.reasons.is_empty());
        assert_eq!(first.decision.place, Place::Both);
        assert_eq!(words, ["opened", "restart", "decision", "durable"]);
        let Event::Durable { generation, bytes, age_s, .. } = found.entries[3].event else { panic!("{found:#?}") };
        assert!(generation == 1 && bytes >= 10_000 && age_s >= 0.0);
        // The journal's place is taken by something else: the save goes on, and what was lost is counted.
        fs::remove_file(directory.join(JOURNAL_NAME)).unwrap();
        job.journal.file = None;
        fs::create_dir(directory.join(JOURNAL_NAME)).unwrap();
        assert!(job.checkpoint().unwrap().generation.is_some());
        assert!(job.journal_lost_count() > 0);
    }
}
