//! The journal of one experiment, read while it grows.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::TryLockError;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_journal::{GrowingFile, Position};
use surefoot_model::{DisturbEvent, ExperimentBegan, ExperimentEnded, ExperimentOutcome};

/// Letters of a text that is kept.
pub(super) const LETTERS_MAX: usize = 4096;
/// Warnings and outliers that are kept.
const LIST_MAX: usize = 512;
/// Why one has ended that did not say so.
const VANISHED: &str = "its process is gone and had not said how it ended; what it disturbed ended with it";

/// How far a journal was read.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Journal {
    /// Open until the end was read: a directory may hold many that have ended.
    #[serde(skip)]
    file: Option<GrowingFile>,
    directory: OsString,
    uid: u32,
    place: Position,
    /// When its experiment began, `CLOCK_REALTIME`.
    began_realtime_ns: Option<u64>,
    is_over: bool,
    /// Nothing more of it is read.
    is_read: bool,
    /// The first thing that is wrong with it.
    pub(super) problem: Option<String>,
}

impl Clone for Journal {
    /// Without its file, which is opened again.
    fn clone(&self) -> Self {
        let Journal { directory, problem, place, .. } = self;
        let (directory, problem, place) = (directory.clone(), problem.clone(), place.clone());
        Journal { file: None, directory, problem, place, ..*self }
    }
}

impl Journal {
    /// One in this directory that was not read yet.
    pub(super) fn of(directory: &Path) -> Journal {
        Journal { directory: directory.as_os_str().to_owned(), ..Journal::default() }
    }

    /// Whether it lies in this directory.
    pub(super) fn is_in(&self, directory: &Path) -> bool {
        Path::new(&self.directory) == directory
    }

    /// Its user.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether its process held it at the last look.
    pub(super) fn is_running(&self) -> bool {
        !self.is_read
    }

    /// Whether nothing was in it when it was read, and no process held it.
    pub(super) fn has_nothing(&self) -> bool {
        self.file.is_none() && self.place.bytes == 0
    }

    #[cfg(test)]
    pub(super) fn of_user(uid: u32, directory: &Path) -> Journal {
        Journal { uid, ..Journal::of(directory) }
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Opens it unless it is open or was read to its end.
    pub(super) fn open(&mut self, path: &Path) -> std::io::Result<()> {
        if self.file.is_some() || self.is_read {
            return Ok(());
        }
        let file = GrowingFile::open_no_link(path)?;
        self.uid = file.file().metadata()?.uid();
        self.file = Some(file);
        Ok(())
    }

    /// Reads on, at most some more than `bytes_max`; returns how much that was.
    pub(super) fn read_on(
        &mut self,
        name: &str,
        now: (u64, u64),
        bytes_max: u64,
        events: &mut Vec<DisturbEvent>,
    ) -> u64 {
        let Some(file) = self.file.take() else { return 0 };
        // Looked at before it is read: what its process wrote until it ended is read then, also its last word.
        let is_held = is_held(&file);
        let mut place = std::mem::take(&mut self.place);
        let mut lines = Vec::new();
        let from = place.bytes;
        let until = from.saturating_add(bytes_max).min(ExperimentBegan::JOURNAL_BYTES_MAX);
        let read = surefoot_journal::read_on(&file, &mut place, until, |number, line| {
            let read = line.map_err(str::to_owned).and_then(|line| {
                serde_json::from_slice::<DisturbEvent>(line).map_err(|error| format!("not of a journal: {error}"))
            });
            lines.push((number, read));
        });
        self.place = place;
        for (number, line) in lines {
            match line.and_then(|event| self.take(name, event, now)) {
                Ok(event) => events.push(event),
                Err(why) => drop(self.problem.get_or_insert(format!("line {number}: {why}"))),
            }
        }
        if let Err(error) = read {
            self.problem = Some(format!("cannot be read: {error}"));
        }
        let is_full = self.place.bytes >= ExperimentBegan::JOURNAL_BYTES_MAX;
        let bytes = self.place.bytes - from;
        // What it says next is read by the next look.
        if !is_full && self.place.bytes >= until {
            self.file = Some(file);
            return bytes;
        }
        if is_full {
            self.problem.get_or_insert_with(|| "it is longer than any journal; the rest is not read".to_owned());
        }
        if (!is_held || is_full) && !self.is_over && self.began_realtime_ns.is_some() {
            self.is_over = true;
            let outcome = ExperimentOutcome::Vanished;
            let at = self.last_written(&file, now);
            let ended = ExperimentEnded::new(name.to_owned(), at, outcome, VANISHED.to_owned());
            events.push(DisturbEvent::Ended(ended));
        }
        // One that is full, or that no process writes any more, says nothing else.
        self.is_read = self.is_over || is_full || !is_held;
        if !self.is_read {
            self.file = Some(file);
        }
        bytes
    }

    /// When it was last written to: the same for every watch that finds it later, so that the history has its end once. Not before
    /// the experiment began, and not after this look.
    fn last_written(&self, file: &GrowingFile, now: (u64, u64)) -> (u64, u64) {
        let (now_ns, now_realtime_ns) = now;
        let began_ns = self.began_realtime_ns.unwrap_or(0).min(now_realtime_ns);
        let since_1970 = file.file().metadata().and_then(|about| about.modified()).ok();
        let since_1970 = since_1970.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let written_ns = since_1970.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(now_realtime_ns);
        let at_realtime_ns = written_ns.clamp(began_ns, now_realtime_ns);
        (now_ns.saturating_sub(now_realtime_ns - at_realtime_ns), at_realtime_ns)
    }

    /// What a line says, as far as it can be believed.
    fn take(&mut self, name: &str, mut event: DisturbEvent, now: (u64, u64)) -> Result<DisturbEvent, String> {
        if event.experiment() != Some(name) {
            return Err("it is not of the experiment after which the file is named".into());
        }
        if self.is_over {
            return Err("it comes after the end".into());
        }
        if self.began_realtime_ns.is_none() != matches!(event, DisturbEvent::Began(_)) {
            return Err("a journal begins once, and with its beginning".into());
        }
        let (now_ns, now_realtime_ns) = now;
        match &mut event {
            DisturbEvent::Began(began) => {
                began.uid = Some(self.uid);
                began.at_ns = began.at_ns.min(now_ns);
                began.at_realtime_ns = began.at_realtime_ns.min(now_realtime_ns);
                let texts = [&mut began.workload, &mut began.metric, &mut began.series, &mut began.part];
                let words = [&mut began.disturbance, &mut began.method];
                texts.into_iter().chain(words).for_each(|text| *text = clipped(text));
                self.began_realtime_ns = Some(began.at_realtime_ns);
            }
            DisturbEvent::Run { run, .. } => {
                run.start_ns = run.start_ns.min(now_ns);
                run.wall_ns = run.wall_ns.min(now_ns - run.start_ns);
                let words = [&mut run.condition, &mut run.case, &mut run.treatment];
                words.into_iter().for_each(|text| *text = clipped(text));
            }
            DisturbEvent::Ended(ended) => {
                ended.at_ns = ended.at_ns.min(now_ns);
                ended.at_realtime_ns = ended.at_realtime_ns.min(now_realtime_ns);
                ended.why = clipped(&ended.why);
                ended.summary = clipped(&ended.summary);
                ended.warnings.truncate(LIST_MAX);
                ended.warnings.iter_mut().for_each(|text| *text = clipped(text));
                if let Some(effect) = &mut ended.effect {
                    effect.warnings.truncate(LIST_MAX);
                    effect.notes.truncate(LIST_MAX);
                    effect.outlier_runs.truncate(LIST_MAX);
                    let words =
                        [&mut effect.workload, &mut effect.metric, &mut effect.method, &mut effect.method_words];
                    words
                        .into_iter()
                        .chain(&mut effect.warnings)
                        .chain(&mut effect.notes)
                        .for_each(|text| *text = clipped(text));
                }
                self.is_over = true;
            }
            DisturbEvent::Row { row, .. } => row.texts_mut().into_iter().for_each(|text| *text = clipped(text)),
            DisturbEvent::Stalls { .. } => {}
            DisturbEvent::Look(_) | DisturbEvent::Gone { .. } | DisturbEvent::LeftOut { .. } => {
                return Err("a journal says no such thing".into());
            }
        }
        Ok(event)
    }
}

/// Whether its process holds its lock. One that has just made it waits for this look, which lets go at once.
fn is_held(of: &GrowingFile) -> bool {
    match of.file().try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
        Ok(()) => {
            let _ = of.file().unlock();
            false
        }
    }
}

/// The beginning of a stranger's words, in one line.
pub(super) fn clipped(text: &str) -> String {
    surefoot_model::clipped(text, LETTERS_MAX)
}
