//! The names that tasks had while they ran, as their cores wrote them. See `bpf/names.h` of the probes.

use crate::ledger::names::printable;
use std::collections::HashMap;
use surefoot_model::CpuId;
use surefoot_probes::Probes;
use surefoot_probes::layout::NameRecord;

/// Records of a core that are kept.
const KEPT_RECORDS: usize = 8192;

/// The records of one core, by task, each in the order of time.
#[derive(Default)]
pub(crate) struct RunNames {
    of_tasks: HashMap<u32, Vec<NameRecord>>,
    count: usize,
    /// The number of the next record to read.
    next: u64,
    /// How many came with the last reading.
    fresh: u64,
    lost: u64,
}

/// What the records of a core say about the name of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunName {
    /// The name.
    Known(String),
    /// The record was lost or is no longer kept, and the task has run there under a name since: what it is called now says
    /// nothing.
    Lost,
    /// There is no record of this task.
    Unseen,
}

impl RunNames {
    /// Reads what a core has written since the last call.
    pub(crate) fn read(&mut self, probes: &Probes, cpu: CpuId) {
        let mut records = Vec::new();
        let (next, lost) = probes.read_names(cpu, self.next, &mut records);
        self.fresh = next.saturating_sub(self.next);
        self.next = next;
        self.take(&records, lost);
    }

    /// Takes records that follow those taken before, with how many were lost in between.
    fn take(&mut self, records: &[NameRecord], lost: u64) {
        if lost > 0 {
            // Any task may have got another name in one that was lost.
            self.lost += lost;
            self.of_tasks.clear();
            self.count = 0;
        }
        for record in records {
            self.of_tasks.entry(record.pid).or_default().push(*record);
        }
        self.count += records.len();
        if self.count > KEPT_RECORDS {
            self.forget_old();
        }
    }

    /// Keeps the newest quarter, and of the tasks that are in it the records that held until then.
    fn forget_old(&mut self) {
        let mut times: Vec<u64> = self.of_tasks.values().flatten().map(|record| record.at_ns).collect();
        times.sort_unstable();
        let until_ns = times[times.len() / 4 * 3];
        self.of_tasks.retain(|_, records| records.last().is_some_and(|newest| newest.at_ns >= until_ns));
        for records in self.of_tasks.values_mut() {
            let first = records.partition_point(|record| record.at_ns <= until_ns).saturating_sub(1);
            records.drain(..first);
        }
        self.count = self.of_tasks.values().map(Vec::len).sum();
    }

    /// The name of a task in a run that ended at a time: the newest that was written up to then.
    pub(crate) fn name(&self, pid: u32, end_ns: u64) -> RunName {
        let Some(records) = self.of_tasks.get(&pid) else { return RunName::Unseen };
        match records.partition_point(|record| record.at_ns <= end_ns) {
            0 => RunName::Lost,
            after => RunName::Known(printable(&records[after - 1].comm)),
        }
    }

    /// How many the last reading brought, or would have.
    pub(crate) fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Records that were overwritten before they could be read.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests;
