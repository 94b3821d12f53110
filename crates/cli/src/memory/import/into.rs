//! Bringing reports into a history.

use anyhow::ensure;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use surefoot_model::{ErrorReport, Event, MemoryEvent};
use surefoot_store::history::{History, Limits};

/// How many reports `--into` added to the history, and why it did not add the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// A history that reports are collected for.
pub struct Into {
    path: PathBuf,
    /// One that is there already, which nobody else may write meanwhile; a new one is made once there is something to keep, so that
    /// a log that cannot be read leaves neither a history nor its lock.
    history: Option<History>,
    limits: Limits,
    waiting: VecDeque<ErrorReport>,
    kept: Kept,
}

impl Into {
    pub fn open(path: &Path) -> anyhow::Result<Into> {
        let limits = Limits::default();
        let history = if path.exists() { Some(History::open(path, limits.clone())?) } else { None };
        if let Some(folder) = path.parent().filter(|folder| history.is_none() && !folder.as_os_str().is_empty()) {
            ensure!(folder.is_dir(), "--into: there is no directory {} for a new history", folder.display());
        }
        Ok(Into { path: path.to_owned(), history, limits, waiting: VecDeque::new(), kept: Kept::default() })
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

    /// Writes them.
    ///
    /// The history knows a record by subject, kind and time, and logs have whole seconds: those of one second are told apart by
    /// nanoseconds in the order of the log, which are the same when it is imported again.
    pub fn finish(mut self) -> anyhow::Result<Kept> {
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
