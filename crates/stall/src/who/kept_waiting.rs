//! Runs of other tasks that began while the workload slept, and kept it waiting when it was woken. Pure: turns in, runs out.
//!
//! Such a run is work until the workload gets the core: only then it is known that it waited. So each is kept until then,
//! with what began it, as the ledger keeps it (`probes/bpf/waits.h`), whose word it is that time was taken from some.

use std::collections::{HashMap, VecDeque};
use surefoot_model::CpuId;
use surefoot_probes::layout::{CAUSE_WORK, KEPT_BY_ANY, KEPT_WAITING, RAN_BESIDE, RAN_REALTIME, RUNS, Turn};
use surefoot_probes::{Raised, RaisedKind};

/// A run of a task that is none of the workload.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The turn that began it.
    pub(super) turn: Turn,
    /// What brought the task to the core; `None` where it was ready there.
    pub(super) began_by: Option<Raised>,
    pub(super) end_ns: u64,
    is_realtime: bool,
}

#[derive(Debug, Default)]
struct Core {
    /// The run under way, which counts as work.
    under_way: Option<(Turn, Option<Raised>)>,
    /// Those before it that may have kept the workload waiting, oldest first.
    runs: VecDeque<Run>,
    /// When the newest ended that had to make room.
    dropped_until_ns: u64,
}

/// The runs of each core.
#[derive(Debug, Default)]
pub(super) struct KeptWaiting {
    cores: HashMap<CpuId, Core>,
    forgotten: u64,
}

impl KeptWaiting {
    /// Takes a turn to another base context, with what began that where it counts as work. Returns the runs that kept waiting
    /// who gets the core now, oldest first, each once.
    pub(super) fn turn(&mut self, cpu: CpuId, turn: &Turn, began_by: Option<Raised>) -> Vec<Run> {
        let core = self.cores.entry(cpu).or_default();
        core.close(turn);
        let mut found = Vec::new();
        if turn.left & KEPT_WAITING != 0 {
            let is_short;
            (found, is_short) = core.taken(turn, began_by.as_ref());
            self.forgotten += u64::from(is_short);
        }
        let is_work = usize::from(turn.cause) == CAUSE_WORK;
        core.under_way = is_work.then_some((*turn, began_by));
        found
    }

    /// Runs that somebody waited for and that had to make room.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl Core {
    fn close(&mut self, next: &Turn) {
        let Some((turn, began_by)) = self.under_way.take() else { return };
        if next.left & RAN_BESIDE == 0 {
            return;
        }
        if self.runs.len() == RUNS
            && let Some(oldest) = self.runs.pop_front()
        {
            self.dropped_until_ns = oldest.end_ns;
        }
        let is_realtime = next.left & RAN_REALTIME != 0;
        self.runs.push_back(Run { turn, began_by, end_ns: next.at_ns, is_realtime });
    }

    /// The runs that reach into the time that the task of this turn waited, and whether some are not here any more. The ledger
    /// took time from one at least, and the newest is that: the time of a wake-up is a little later than the scheduler's.
    fn taken(&mut self, turn: &Turn, began_by: Option<&Raised>) -> (Vec<Run>, bool) {
        let is_any = turn.left & KEPT_BY_ANY != 0;
        let counts = |run: &Run| is_any || run.is_realtime;
        let Some(newest_ns) = self.runs.iter().rfind(|run| counts(run)).map(|run| run.turn.at_ns) else {
            return (Vec::new(), true);
        };
        let oldest_ns = self.runs.front().map_or(newest_ns, |run| run.turn.at_ns);
        let since_ns = match began_by {
            // A wake-up is of this wait. A move or a beginning may be of long ago, if it is not among these runs.
            Some(raised) if raised.kind == RaisedKind::Wake || raised.at_ns >= oldest_ns => raised.at_ns,
            _ => newest_ns,
        };
        let is_taken = |run: &Run| counts(run) && (run.end_ns > since_ns || run.turn.at_ns == newest_ns);
        let (taken, rest): (VecDeque<Run>, VecDeque<Run>) =
            std::mem::take(&mut self.runs).into_iter().partition(is_taken);
        self.runs = rest;
        (taken.into(), since_ns < self.dropped_until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::joiner::tests::raised;
    use surefoot_probes::layout::{CAUSE_FIRST_DYNAMIC, CAUSE_IDLE, LEFT_ASLEEP, LEFT_WAITING};

    const HERE: CpuId = CpuId(1);
    const JOB: u32 = 100;
    const STRANGER: u32 = 200;
    const OTHER: u32 = 201;
    /// The workload waited for any other task.
    const KEPT: u8 = KEPT_WAITING | KEPT_BY_ANY;

    /// What a core's turns say, one after the other: the tasks and beginnings of the runs that are found.
    #[derive(Default)]
    struct Tape {
        kept: KeptWaiting,
        found: Vec<(u32, u64, Option<u64>)>,
    }

    impl Tape {
        fn turn(&mut self, at_ns: u64, pid: u32, left: u8, began_by: Option<Raised>) {
            let cause = if pid == 0 { CAUSE_IDLE } else { CAUSE_WORK };
            self.take(Turn { at_ns, cause: cause as u16, depth: 0, left, pid }, began_by);
        }

        fn take(&mut self, turn: Turn, began_by: Option<Raised>) {
            let found = self.kept.turn(HERE, &turn, began_by).into_iter();
            let told = |run: Run| (run.turn.pid, run.turn.at_ns, run.began_by.map(|raised| raised.at_ns));
            self.found.extend(found.map(told));
        }
    }

    fn woken(at_ns: u64, tid: u32) -> Option<Raised> {
        Some(raised(RaisedKind::Wake, at_ns, tid.into(), 0))
    }

    #[test]
    fn a_run_that_began_while_the_workload_slept_and_kept_it_waiting_is_found_with_what_began_it() {
        let mut tape = Tape::default();
        tape.turn(10, STRANGER, 0, woken(8, STRANGER));
        tape.turn(90, JOB, LEFT_WAITING | RAN_BESIDE | KEPT, woken(50, JOB));
        assert_eq!(tape.found, [(STRANGER, 10, Some(8))]);
        // It is told once, and the workload's own run is none.
        tape.turn(200, STRANGER, LEFT_ASLEEP, woken(199, STRANGER));
        tape.turn(220, JOB, LEFT_ASLEEP | RAN_BESIDE | KEPT, woken(210, JOB));
        assert_eq!(tape.found[1..], [(STRANGER, 200, Some(199))]);
        assert_eq!(tape.kept.forgotten(), 0);
    }

    #[test]
    fn a_run_that_kept_nobody_waiting_is_none() {
        let mut tape = Tape::default();
        // It is over before the workload is woken; then the workload is woken and nobody runs.
        tape.turn(10, STRANGER, 0, woken(8, STRANGER));
        tape.turn(40, 0, LEFT_ASLEEP | RAN_BESIDE, None);
        tape.turn(50, JOB, 0, woken(49, JOB));
        // Another one keeps it waiting later: that it is, and not the first.
        tape.turn(60, OTHER, LEFT_ASLEEP, woken(59, OTHER));
        tape.turn(90, JOB, LEFT_WAITING | RAN_BESIDE | KEPT, woken(70, JOB));
        // A task of the workload that another of it kept waiting.
        tape.turn(120, JOB + 1, LEFT_WAITING, woken(100, JOB + 1));
        assert_eq!(tape.found, [(OTHER, 60, Some(59))]);
    }

    #[test]
    fn all_runs_that_the_workload_waited_for_are_found_and_those_before_its_wakeup_are_not() {
        let mut tape = Tape::default();
        tape.turn(10, OTHER, 0, woken(9, OTHER));
        tape.turn(30, STRANGER, LEFT_ASLEEP | RAN_BESIDE, woken(20, STRANGER));
        // A kernel thread in between is a cause of its own.
        let thread =
            Turn { at_ns: 60, cause: CAUSE_FIRST_DYNAMIC as u16, depth: 0, left: LEFT_WAITING | RAN_BESIDE, pid: 9 };
        tape.take(thread, None);
        tape.turn(70, STRANGER, LEFT_ASLEEP, None);
        tape.turn(90, JOB, LEFT_ASLEEP | RAN_BESIDE | KEPT, woken(50, JOB));
        assert_eq!(tape.found, [(STRANGER, 30, Some(20)), (STRANGER, 70, None)]);
    }

    #[test]
    fn where_its_wakeup_is_not_known_the_workload_waited_for_the_newest_run_at_least() {
        let mut tape = Tape::default();
        for began_by in [None, Some(raised(RaisedKind::New, 1, JOB.into(), 0))] {
            tape.turn(10, OTHER, 0, None);
            tape.turn(30, STRANGER, LEFT_ASLEEP | RAN_BESIDE, None);
            tape.turn(60, JOB, LEFT_ASLEEP | RAN_BESIDE | KEPT, began_by);
            assert_eq!(std::mem::take(&mut tape.found), [(STRANGER, 30, None)], "not since its beginning");
            tape.kept = KeptWaiting::default();
        }
        // It is moved here while the first runs, or its wake-up is told a little after the run that it waited for.
        for (at_ns, kind) in [(20, RaisedKind::Move), (61, RaisedKind::Wake)] {
            tape.turn(10, OTHER, 0, None);
            tape.turn(30, STRANGER, LEFT_ASLEEP | RAN_BESIDE, None);
            tape.turn(62, JOB, LEFT_ASLEEP | RAN_BESIDE | KEPT, Some(raised(kind, at_ns, JOB.into(), 0)));
            let both = [(OTHER, 10, None), (STRANGER, 30, None)];
            assert_eq!(std::mem::take(&mut tape.found), both[usize::from(kind == RaisedKind::Wake)..]);
            tape.kept = KeptWaiting::default();
        }
    }

    #[test]
    fn a_task_that_only_realtime_tasks_keep_waiting_was_kept_by_those() {
        let mut tape = Tape::default();
        tape.turn(10, STRANGER, 0, woken(9, STRANGER));
        tape.turn(30, OTHER, LEFT_WAITING | RAN_BESIDE | RAN_REALTIME, woken(29, OTHER));
        // Who leaves last is of the ordinary ones.
        tape.turn(40, JOB, LEFT_WAITING | RAN_BESIDE | KEPT_WAITING, woken(5, JOB));
        assert_eq!(tape.found, [(STRANGER, 10, Some(9))], "the realtime task is who left at 30");
    }

    #[test]
    fn runs_that_are_kept_are_limited_and_those_that_somebody_waited_for_are_counted() {
        let mut tape = Tape::default();
        let many = 2 * RUNS as u64;
        for run in 0..many {
            tape.turn(100 + run, STRANGER + run as u32, RAN_BESIDE, None);
        }
        assert!(tape.kept.cores[&HERE].runs.len() <= RUNS);
        assert_eq!(tape.kept.forgotten(), 0, "nobody waited so far");
        tape.turn(100 + many, JOB, RAN_BESIDE | KEPT, woken(100, JOB));
        assert_eq!((tape.found.len(), tape.kept.forgotten()), (RUNS, 1));
        tape.turn(300, STRANGER, LEFT_ASLEEP, None);
        tape.turn(310, JOB, LEFT_ASLEEP | RAN_BESIDE | KEPT, woken(305, JOB));
        assert_eq!((tape.found.len(), tape.kept.forgotten()), (RUNS + 1, 1));
        // The turns of the run were lost.
        tape.turn(320, JOB, KEPT, woken(315, JOB));
        assert_eq!((tape.found.len(), tape.kept.forgotten()), (RUNS + 1, 2));
    }
}
