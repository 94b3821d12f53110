//! Reports of earlier memory errors, from the logs of other programs, are added to a history.

use super::{History, Limits};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use surefoot_model::{ErrorReport, Event, MemoryEvent};

/// How many reports were added to the history, and why the others were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Reports that the history did not have before.
    pub kept_count: u64,
    /// Reports that the history had already, from an earlier import for example.
    pub already_kept_count: u64,
    /// Reports older than a history keeps records.
    pub too_old_count: u64,
    /// Reports without a time, which have no place in a history.
    pub undated_count: u64,
    /// Reports beyond the number that a history keeps: the oldest.
    pub left_out_count: u64,
}

/// Collects reports for a history.
pub struct Import {
    path: PathBuf,
    /// An existing history, locked so that no other process writes it. A new one is created at the end: a log that cannot be read
    /// then leaves neither a history nor its lock.
    history: Option<History>,
    limits: Limits,
    waiting: VecDeque<ErrorReport>,
    kept: Kept,
}

impl Import {
    /// Opens the history at this path if there is one.
    ///
    /// # Errors
    /// When it cannot be opened, or the directory for a new one is missing.
    pub fn open(path: &Path) -> Result<Import> {
        let limits = Limits::default();
        let history = if path.exists() { Some(History::open(path, limits.clone())?) } else { None };
        let folder = path.parent().filter(|folder| history.is_none() && !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Error::NoDirectory { path: folder.to_owned() });
        }
        Ok(Import { path: path.to_owned(), history, limits, waiting: VecDeque::new(), kept: Kept::default() })
    }

    /// Takes a report, if the history would keep it.
    pub fn take(&mut self, report: &ErrorReport, now_realtime_ns: u64) {
        let oldest_ns = now_realtime_ns.saturating_sub(self.limits.minute_spans_kept_s.saturating_mul(1_000_000_000));
        match report.at_realtime_ns {
            0 => self.kept.undated_count += 1,
            at_ns if at_ns < oldest_ns => self.kept.too_old_count += 1,
            _ => {
                if self.waiting.len() == self.limits.records_max {
                    self.waiting.pop_front();
                    self.kept.left_out_count += 1;
                }
                self.waiting.push_back(report.clone());
            }
        }
    }

    /// Writes the collected reports.
    ///
    /// A history identifies a record by subject, kind and time, and logs have whole seconds. So the reports of one second get
    /// different nanoseconds, in the order of the log: the same ones when it is imported again.
    ///
    /// # Errors
    /// When the history cannot be created or written.
    pub fn finish(mut self) -> Result<Kept> {
        let mut reports: Vec<ErrorReport> = self.waiting.into();
        reports.sort_by(|one, other| {
            let key = |report: &ErrorReport| (report.at_realtime_ns, report.dimm.clone(), report.severity);
            key(one).cmp(&key(other))
        });
        let mut history = match self.history {
            Some(history) => history,
            None => History::open(&self.path, self.limits.clone())?,
        };
        let mut before: Option<(u64, Option<String>)> = None;
        let mut same = 0;
        for mut report in reports {
            let key = (report.at_realtime_ns, report.dimm.clone());
            same = if before.as_ref() == Some(&key) { same + 1 } else { 0 };
            before = Some(key);
            report.at_realtime_ns = report.at_realtime_ns.saturating_add(same);
            history.record(&Event::Memory(MemoryEvent::Report(report)))?;
            self.kept.kept_count += 1;
        }
        history.commit()?;
        let dropped = history.dropped().total();
        let repeated = history.repeated_records();
        self.kept.kept_count = self.kept.kept_count.saturating_sub(dropped).saturating_sub(repeated);
        self.kept.already_kept_count = repeated;
        self.kept.left_out_count += dropped;
        Ok(self.kept)
    }
}
