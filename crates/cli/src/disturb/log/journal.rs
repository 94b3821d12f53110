//! The journal of an experiment: a line of JSON for each thing that is told, in a directory of its user. As long as the
//! experiment runs, its lock is held, so that a watch knows when it is gone.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_hostfs::{Root, privilege};
use surefoot_model::{DisturbEvent, ExperimentBegan};
use time::OffsetDateTime;

/// Journals that are kept beside a new one, and their bytes: the directory is in memory.
const JOURNALS_MAX: usize = 127;
const BYTES_MAX: u64 = 32 << 20;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 4096;
/// Stalls are left out from this length on, so that runs and the end have room.
const STALL_BYTES_MAX: u64 = ExperimentBegan::JOURNAL_BYTES_MAX / 2;
/// No line is longer.
const LINE_BYTES_MAX: usize = 60 << 10;
/// Letters of a text.
const LETTERS_MAX: usize = 4096;

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
    file: File,
    bytes: u64,
    /// Stalls that had no room since the last ones that had.
    left_out_count: u64,
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
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        // A watch may look at it just now, and lets go at once.
        file.lock()?;
        Ok(Journal { file, bytes: 0, left_out_count: 0, is_full: false })
    }

    /// Writes what is told. That a disk is full ends the journal, and not the experiment.
    pub fn write(&mut self, event: &DisturbEvent) {
        let mut event = event.clone();
        match &mut event {
            DisturbEvent::Stalls { stalls, left_out_count, .. } => {
                if self.bytes > STALL_BYTES_MAX {
                    self.left_out_count += stalls.len() as u64;
                    return;
                }
                *left_out_count += std::mem::take(&mut self.left_out_count);
            }
            DisturbEvent::Run { experiment, .. } if self.left_out_count > 0 => {
                let left_out_count = std::mem::take(&mut self.left_out_count);
                let experiment = experiment.clone();
                self.line(&DisturbEvent::Stalls { experiment, stalls: Vec::new(), left_out_count });
            }
            DisturbEvent::Began(began) => clip(&mut began.workload),
            DisturbEvent::Ended(ended) => {
                clip(&mut ended.why);
                if let Some(effect) = &mut ended.effect {
                    clip(&mut effect.workload);
                }
            }
            _ => {}
        }
        self.line(&event);
    }

    fn line(&mut self, event: &DisturbEvent) {
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        if self.is_full || line.len() > LINE_BYTES_MAX {
            return;
        }
        // A part of a line would be taken for the beginning of the next one.
        self.is_full = self.file.write_all(&line).is_err();
        self.bytes += line.len() as u64;
    }
}

fn clip(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LETTERS_MAX) {
        text.truncate(end);
    }
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
            Some((ExperimentBegan::name_of(&path)?.to_owned(), path.clone(), about.len()))
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
    use surefoot_model::{CpuId, InjectedStall};

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
        let run = serde_json::from_str(
            r#"{"run":1,"repetition":null,"condition":"disturbed","value":1,"start_ns":1,"wall_ns":1,"stall_count":1,
                "injected_share":0,"missed_stalls":0,"dropped_stalls":0,"cut_stalls":0,"left_behind":0,"dropped_bytes":0,
                "load":null}"#,
        );
        journal.write(&DisturbEvent::Run { experiment: "a".into(), run: Box::new(run.unwrap()) });
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
        assert!(text.lines().all(|line| line.len() < LINE_BYTES_MAX));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_make_room_but_none_that_is_written() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("experiments");
        let held = Journal::create(&directory, "0000").unwrap();
        for number in 1..=JOURNALS_MAX {
            drop(Journal::create(&directory, &format!("{number:04}")).unwrap());
        }
        fs::write(directory.join("other.txt"), "x").unwrap();
        drop(Journal::create(&directory, "9999").unwrap());
        let is_there = |name: &str| directory.join(ExperimentBegan::journal(name)).exists();
        assert!(is_there("0000") && !is_there("0001") && is_there("0002") && is_there("9999"));
        assert!(directory.join("other.txt").exists());
        drop(held);
    }
}
