//! The journal of an experiment: a line of JSON for each thing that is told, in a directory of its user. As long as the
//! experiment runs, its lock is held, so that a watch knows when it is gone.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_hostfs::{Root, privilege};
use surefoot_journal::{Limits, NotWritten, Writer};
use surefoot_model::{DisturbEvent, ExperimentBegan};
use time::OffsetDateTime;

/// Journals that are kept beside a new one, and their bytes: the directory is in memory.
const JOURNALS_MAX: usize = 127;
const BYTES_MAX: u64 = 32 << 20;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 4096;
/// Stalls are left out from this length on, so that runs and the end have room.
const STALL_BYTES_MAX: u64 = ExperimentBegan::JOURNAL_BYTES_MAX / 2;
/// Runs are left out from this length on, and rows from that.
const RUN_BYTES_MAX: u64 = ExperimentBegan::JOURNAL_BYTES_MAX / 4 * 3;
const ROW_BYTES_MAX: u64 = ExperimentBegan::JOURNAL_BYTES_MAX / 8 * 7;
/// The end of an experiment always has room: a reader takes no more than `JOURNAL_BYTES_MAX`.
const LIMITS: Limits = Limits { line_bytes: 60 << 10, file_bytes: ExperimentBegan::JOURNAL_BYTES_MAX };
/// Letters of a text.
const LETTERS_MAX: usize = 4096;
/// Letters of a text that is one of many in a line.
const TEXT_OF_MANY_LETTERS_MAX: usize = 800;
/// Warnings of an end.
const WARNINGS_MAX: usize = 16;

/// Where a user's journals lie; `None` where he has no directory that lasts as long as the host runs.
pub fn directory(root: &Root) -> Option<PathBuf> {
    if privilege::effective_user() == 0 {
        return Some(root.path(ExperimentBegan::DIRECTORY.trim_start_matches('/')));
    }
    let own: OsString = std::env::var_os("XDG_RUNTIME_DIR")?;
    let own = PathBuf::from(own);
    own.is_absolute().then(|| own.join("surefoot/experiments"))
}

/// The name of an experiment, in the order of time.
pub fn name(at_realtime_ns: u64, pid: u32, number: u32) -> String {
    let at = OffsetDateTime::from_unix_timestamp((at_realtime_ns / 1_000_000_000) as i64)
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, time) = (at.date(), at.time());
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}-{pid}-{number}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

pub struct Journal {
    file: Writer,
    /// Stalls that had no room since the last ones that had.
    left_out_count: u64,
    runs_left_out: u64,
    rows_left_out: u64,
    is_full: bool,
}

impl Journal {
    /// Makes it, and room for it.
    ///
    /// # Errors
    /// The directory or the file cannot be made.
    pub fn create(directory: &Path, experiment: &str) -> io::Result<Journal> {
        if let Some(parent) = directory.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        make_room(directory);
        let path = directory.join(ExperimentBegan::journal(experiment));
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?;
        // A watch may look at it just now, and lets go at once.
        file.lock()?;
        let file = Writer::new(file, LIMITS)?;
        Ok(Journal { file, left_out_count: 0, runs_left_out: 0, rows_left_out: 0, is_full: false })
    }

    /// Writes what is told. That a disk is full ends the journal, and not the experiment.
    pub fn write(&mut self, event: &DisturbEvent) {
        let mut event = event.clone();
        match &mut event {
            DisturbEvent::Stalls { stalls, left_out_count, .. } => {
                if self.file.bytes() > STALL_BYTES_MAX {
                    self.left_out_count += stalls.len() as u64;
                    return;
                }
                *left_out_count += std::mem::take(&mut self.left_out_count);
            }
            DisturbEvent::Run { .. } if self.file.bytes() > RUN_BYTES_MAX => {
                self.runs_left_out += 1;
                return;
            }
            DisturbEvent::Run { experiment, .. } if self.left_out_count > 0 => {
                let left_out_count = std::mem::take(&mut self.left_out_count);
                let experiment = experiment.clone();
                self.line(&DisturbEvent::Stalls { experiment, stalls: Vec::new(), left_out_count });
            }
            DisturbEvent::Row { .. } if self.file.bytes() > ROW_BYTES_MAX => {
                self.rows_left_out += 1;
                return;
            }
            DisturbEvent::Row { row, .. } => {
                row.texts_mut().into_iter().for_each(|text| clip(text, TEXT_OF_MANY_LETTERS_MAX))
            }
            DisturbEvent::Began(began) => clip(&mut began.workload, LETTERS_MAX),
            DisturbEvent::Ended(ended) => {
                if self.left_out_count > 0 {
                    let left_out_count = std::mem::take(&mut self.left_out_count);
                    let experiment = ended.experiment.clone();
                    self.line(&DisturbEvent::Stalls { experiment, stalls: Vec::new(), left_out_count });
                }
                clip(&mut ended.why, LETTERS_MAX);
                ended.warnings.truncate(WARNINGS_MAX);
                ended.warnings.iter_mut().for_each(|text| clip(text, TEXT_OF_MANY_LETTERS_MAX));
                if self.runs_left_out + self.rows_left_out > 0 {
                    let (runs, rows) = (self.runs_left_out, self.rows_left_out);
                    ended.warnings.push(format!("the journal had no room for {runs} runs and {rows} rows"));
                }
                if let Some(effect) = &mut ended.effect {
                    clip(&mut effect.workload, LETTERS_MAX);
                }
            }
            _ => {}
        }
        self.line(&event);
    }

    fn line(&mut self, event: &DisturbEvent) {
        if !self.is_full {
            self.is_full = matches!(self.file.append(event), Err(NotWritten::Full | NotWritten::System(_)));
        }
    }
}

fn clip(text: &mut String, letters_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(letters_max) {
        text.truncate(end);
    }
}

/// Whether an experiment of this program has such a name.
fn is_own_name(name: &str) -> bool {
    let mut parts = name.split('-');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    let is_time = parts.next().is_some_and(|time| {
        let is_fit = |(place, letter): (usize, char)| if place == 8 { letter == 'T' } else { letter.is_ascii_digit() };
        time.len() == 15 && time.chars().enumerate().all(is_fit)
    });
    is_time && is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

/// Removes the oldest journals of this user that nobody writes to, until there is room for one more.
fn make_room(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let own = privilege::effective_user();
    let mut journals: Vec<(String, PathBuf, u64)> = entries
        .take(ENTRIES_MAX)
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let about = path.symlink_metadata().ok().filter(|about| about.is_file() && about.uid() == own)?;
            // The directory may hold files of others that end alike.
            let name = ExperimentBegan::name_of(&path).filter(|name| is_own_name(name))?;
            Some((name.to_owned(), path.clone(), about.len()))
        })
        .collect();
    journals.sort();
    let mut bytes: u64 = journals.iter().map(|(.., bytes)| bytes).sum();
    let mut count = journals.len();
    for (_, path, length) in journals {
        if count <= JOURNALS_MAX && bytes <= BYTES_MAX {
            return;
        }
        let is_free = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if is_free && fs::remove_file(&path).is_ok() {
            count -= 1;
            bytes -= length;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{CpuId, ExperimentEnded, ExperimentOutcome, ExperimentRow, ExperimentRun, InjectedStall};

    fn stalls(count: usize) -> DisturbEvent {
        let stall = InjectedStall {
            run: 1,
            core: Some(CpuId(3)),
            start_ns: u64::MAX,
            length_ns: u64::MAX,
            target_ns: u64::MAX,
        };
        DisturbEvent::Stalls { experiment: "a".into(), stalls: vec![stall; count], left_out_count: 0 }
    }

    fn run() -> ExperimentRun {
        serde_json::from_str(
            r#"{"run":1,"repetition":null,"condition":"disturbed","value":1,"start_ns":1,"wall_ns":1,"stall_count":1,
                "injected_share":0,"missed_stalls":0,"dropped_stalls":0,"cut_stalls":0,"left_behind":0,"dropped_bytes":0,
                "load":null}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_name_is_one_that_a_watch_takes_and_is_in_the_order_of_time() {
        let at = |seconds: u64| name(seconds * 1_000_000_000, 7, 0);
        assert_eq!(at(1_795_620_887), "20261125T153447-7-0");
        assert!(at(999_999_999) < at(1_795_620_887));
        let path = PathBuf::from(ExperimentBegan::journal(&at(1)));
        assert_eq!(ExperimentBegan::name_of(&path), Some(at(1).as_str()));
    }

    #[test]
    fn a_journal_stays_short_and_counts_the_stalls_that_it_leaves_out() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("run/experiments");
        let mut journal = Journal::create(&directory, "a").unwrap();
        (0..200).for_each(|_| journal.write(&stalls(256)));
        journal.write(&DisturbEvent::Run { experiment: "a".into(), run: Box::new(run()) });
        let path = directory.join(ExperimentBegan::journal("a"));
        let text = fs::read_to_string(&path).unwrap();
        assert!((text.len() as u64) < ExperimentBegan::JOURNAL_BYTES_MAX);
        let told: u64 = text
            .lines()
            .map(|line| match serde_json::from_str(line).unwrap() {
                DisturbEvent::Stalls { stalls, left_out_count, .. } => stalls.len() as u64 + left_out_count,
                _ => 0,
            })
            .sum();
        assert_eq!(told, 200 * 256);
        assert!(text.lines().all(|line| line.len() < LIMITS.line_bytes));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_make_room_but_none_that_is_written() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("experiments");
        let named = |number: usize| name((1_795_620_887 + number as u64) * 1_000_000_000, 7, 0);
        let held = Journal::create(&directory, &named(0)).unwrap();
        for number in 1..=JOURNALS_MAX {
            drop(Journal::create(&directory, &named(number)).unwrap());
        }
        fs::write(directory.join("other.txt"), "x").unwrap();
        // Another program's, which are older.
        let others = ["0000.jsonl", "data-1-2.jsonl", "20261125T120000-7.jsonl", "20261125X120000-7-0.jsonl"];
        others.iter().for_each(|name| fs::write(directory.join(name), "x").unwrap());
        drop(Journal::create(&directory, &named(9_999)).unwrap());
        let is_there = |number: usize| directory.join(ExperimentBegan::journal(&named(number))).exists();
        assert!(is_there(0) && !is_there(1) && is_there(2) && is_there(9_999));
        assert!(others.iter().all(|name| directory.join(name).exists()));
        assert!(directory.join("other.txt").exists());
        drop(held);
    }
    #[test]
    fn runs_and_rows_beyond_its_room_are_counted_in_its_end() {
        let home = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(home.path(), "a").unwrap();
        let (experiment, words) = ("a".to_owned(), "x".repeat(5_000));
        let run = ExperimentRun { condition: words.clone(), ..run() };
        let row = ExperimentRow { ours: words.clone(), why: words.clone(), ..ExperimentRow::default() };
        (0..1_000).for_each(|_| {
            journal.write(&DisturbEvent::Run { experiment: experiment.clone(), run: run.clone().into() })
        });
        (0..1_000).for_each(|_| {
            journal.write(&DisturbEvent::Row { experiment: experiment.clone(), row: row.clone().into() })
        });
        let ended = ExperimentEnded::new(experiment, (1, 1), ExperimentOutcome::Finished, words.clone());
        journal.write(&DisturbEvent::Ended(ExperimentEnded { warnings: vec![words; 40], ..ended }));
        let text = fs::read_to_string(home.path().join(ExperimentBegan::journal("a"))).unwrap();
        assert!((text.len() as u64) < ExperimentBegan::JOURNAL_BYTES_MAX);
        let DisturbEvent::Ended(ended) = serde_json::from_str(text.lines().last().unwrap()).unwrap() else { panic!() };
        let kept = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        let (runs, rows) = (1_000 - kept(r#""seen":"run""#), 1_000 - kept(r#""seen":"row""#));
        assert!(runs > 0 && rows > 0 && runs < 1_000 && rows < 1_000, "{runs} {rows}");
        let said = ended.warnings.last().unwrap();
        assert_eq!(*said, format!("the journal had no room for {runs} runs and {rows} rows"));
    }
}
