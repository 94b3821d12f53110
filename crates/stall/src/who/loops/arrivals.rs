//! Who raised what arrived lately on the watched cores.

use crate::ledger::names::printable;
use crate::who::system_calls;
use std::collections::{BTreeMap, HashMap};
use surefoot_model::{Cause, CauseKind, CpuId};
use surefoot_probes::Raised;

/// Arrivals of a core that are kept at least; the oldest go first.
const KEPT: usize = 1 << 14;

/// Distinct causes whose raisers are remembered.
const CAUSES: usize = 4_096;

/// Raisers that are named for one cause of one gap.
const NAMED: usize = 8;

/// Work and wake-ups are known by the time they were raised, and a gap begins when its core takes notice.
const NOTICED_NS: u64 = 100_000;

/// A thread, and what it was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct By {
    comm: [u8; 16],
    tid: u32,
    system_call: Option<u32>,
    in_interrupt: bool,
}

impl By {
    fn of(raised: &Raised) -> Self {
        if raised.in_interrupt {
            // The thread is a bystander.
            return By { comm: [0; 16], tid: 0, system_call: None, in_interrupt: true };
        }
        By { comm: raised.comm, tid: raised.tid, system_call: raised.system_call, in_interrupt: false }
    }

    fn label(&self) -> String {
        if self.in_interrupt {
            return "(interrupt)".to_owned();
        }
        let thread = format!("{}-{}", printable(&self.comm), self.tid);
        match self.system_call {
            Some(number) => format!("{thread} in {}", system_calls::name(number)),
            None => thread,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    at_ns: u64,
    cause: usize,
    by: By,
}

/// The newest arrivals of each core whose raiser is known.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    causes: HashMap<Cause, usize>,
    cores: HashMap<CpuId, Vec<Arrived>>,
}

impl Arrivals {
    /// Remembers who raised a cause for a core, and when it arrived there.
    pub(crate) fn add(&mut self, cpu: CpuId, cause: &Cause, at_ns: u64, raised: &Raised) {
        let known = self.causes.len();
        let cause = match self.causes.get(cause) {
            Some(&number) => number,
            None if known == CAUSES => return,
            None => *self.causes.entry(cause.clone()).or_insert(known),
        };
        let core = self.cores.entry(cpu).or_default();
        if core.len() >= 2 * KEPT {
            core.drain(..KEPT);
        }
        core.push(Arrived { at_ns, cause, by: By::of(raised) });
    }

    /// Puts them into the order of time, which they nearly are in.
    pub(crate) fn sort(&mut self) {
        self.cores.values_mut().for_each(|core| core.sort_by_key(|arrived| arrived.at_ns));
    }

    /// Who raised this cause for a core within a stretch of time, most frequent first; after [`Arrivals::sort`].
    pub(crate) fn raisers(&self, cpu: CpuId, cause: &Cause, start_ns: u64, end_ns: u64) -> Vec<String> {
        let Some((core, &cause_number)) = self.cores.get(&cpu).zip(self.causes.get(cause)) else { return Vec::new() };
        let is_thread = cause.kind == CauseKind::KernelThread;
        let from_ns = if is_thread { start_ns.saturating_sub(NOTICED_NS) } else { start_ns };
        let first = core.partition_point(|arrived| arrived.at_ns < from_ns);
        let mut counts: BTreeMap<By, u64> = BTreeMap::new();
        for arrived in core[first..].iter().take_while(|arrived| arrived.at_ns <= end_ns) {
            if arrived.cause == cause_number {
                *counts.entry(arrived.by).or_default() += 1;
            }
        }
        let mut counted: Vec<(By, u64)> = counts.into_iter().collect();
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counted.iter().take(NAMED).map(|(by, _)| by.label()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_probes::RaisedKind;

    fn raised(comm: &str, tid: u32, in_interrupt: bool) -> Raised {
        let mut name = [0; 16];
        name[..comm.len()].copy_from_slice(comm.as_bytes());
        Raised {
            at_ns: 0,
            kind: RaisedKind::Function,
            key: 1,
            function: 0,
            cpu: CpuId(1),
            tid,
            pid: 5,
            comm: name,
            wakee: [0; 16],
            system_call: (!in_interrupt).then_some(libc::SYS_munmap as u32),
            in_interrupt,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
            user_top: 0,
            image: 0,
            from: CpuId(0),
            user_copy: None,
        }
    }

    fn flush() -> Cause {
        Cause::new(CauseKind::TlbShootdown, "flush_tlb_func")
    }

    #[test]
    fn raisers_are_those_whose_arrivals_lie_in_the_gap_most_frequent_first() {
        let mut arrivals = Arrivals::default();
        let mut add = |at_ns, comm, tid, in_interrupt| {
            arrivals.add(CpuId(1), &flush(), at_ns, &raised(comm, tid, in_interrupt));
        };
        add(30, "late", 1, false);
        add(9, "early", 2, false);
        add(10, "stats", 3, false);
        add(12, "other", 4, false);
        add(13, "other", 4, false);
        add(20, "bystander", 6, true);
        add(21, "after", 7, false);
        let patched = Cause::new(CauseKind::CallFunction, "do_sync_core");
        arrivals.add(CpuId(1), &patched, 14, &raised("patcher", 5, false));
        arrivals.sort();
        let found = arrivals.raisers(CpuId(1), &flush(), 10, 20);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "other-4 in munmap");
        assert!(found.contains(&"stats-3 in munmap".to_owned()) && found.contains(&"(interrupt)".to_owned()));
        assert_eq!(arrivals.raisers(CpuId(1), &patched, 10, 20), ["patcher-5 in munmap"]);
        assert!(arrivals.raisers(CpuId(0), &flush(), 10, 20).is_empty());
    }

    #[test]
    fn a_wake_up_is_raised_shortly_before_its_gap() {
        let mut arrivals = Arrivals::default();
        let thread = Cause::new(CauseKind::KernelThread, "ksoftirqd");
        for (cause, at_ns, tid) in [(&thread, 1_000_000, 1), (&thread, 1_950_000, 2), (&flush(), 1_950_000, 3)] {
            arrivals.add(CpuId(1), cause, at_ns, &raised("waker", tid, false));
        }
        assert_eq!(arrivals.raisers(CpuId(1), &thread, 2_000_000, 2_010_000), ["waker-2 in munmap"]);
        assert!(arrivals.raisers(CpuId(1), &flush(), 2_000_000, 2_010_000).is_empty());
    }

    #[test]
    fn of_many_arrivals_and_causes_the_number_is_limited() {
        let mut arrivals = Arrivals::default();
        for at_ns in 0..10 * KEPT as u64 {
            arrivals.add(CpuId(1), &flush(), at_ns, &raised("x", 1, false));
        }
        let core = &arrivals.cores[&CpuId(1)];
        assert!((KEPT..=2 * KEPT).contains(&core.len()), "{}", core.len());
        assert_eq!(core[core.len() - 1].at_ns, 10 * KEPT as u64 - 1);
        for number in 0..2 * CAUSES {
            arrivals.add(CpuId(1), &Cause::new(CauseKind::KernelThread, number.to_string()), 1, &raised("x", 1, false));
        }
        assert_eq!(arrivals.causes.len(), CAUSES);
    }
}
