//! The names of the threads on a tape. A tape has only numbers, and these are given again: to another thread once the
//! first has ended, and to another program when it calls exec.

use crate::namespaces::{self, InProc};
use std::collections::HashMap;
use surefoot_hostfs::stat::ticks_per_s;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::{Root, clock};

/// Names of threads that are kept.
const KEPT_TASKS: usize = 4096;

/// What a number stood for when it was looked up last.
struct Known {
    /// `None` when there was no such thread.
    task: Option<Task>,
    /// When it was looked up, `CLOCK_MONOTONIC`.
    looked_ns: u64,
    /// The same thread's name before, which it had up to this time at least.
    before: Option<(String, u64)>,
}

#[derive(Clone, PartialEq, Eq)]
struct Task {
    name: String,
    start_ticks: u64,
}

/// Looks threads up by number and time.
pub(crate) struct TaskNames {
    root: Root,
    known: HashMap<u32, Known>,
    tick_ns: u64,
}

impl TaskNames {
    pub(crate) fn new(root: &Root) -> Self {
        TaskNames { root: root.clone(), known: HashMap::new(), tick_ns: 1_000_000_000 / ticks_per_s().max(1) }
    }

    /// The name of the thread that had this number at a time, `CLOCK_MONOTONIC`. One outside of this PID namespace has none here.
    pub(crate) fn name(&mut self, pid: u32, at_ns: u64) -> String {
        match namespaces::in_proc(pid) {
            InProc::As(pid) => self.name_at(pid, at_ns, clock::monotonic_ns(), clock::proc_ahead_ns()),
            InProc::Outside => format!("thread {pid} of the host"),
            InProc::NotKnown => format!("thread {pid} by the kernel's number, name unknown"),
        }
    }

    fn name_at(&mut self, pid: u32, at_ns: u64, now_ns: u64, proc_ahead_ns: i64) -> String {
        // What was looked up later than the time in question need not be looked up again.
        if self.known.get(&pid).is_none_or(|known| known.looked_ns < at_ns) {
            self.look(pid, now_ns);
        }
        let gone = || format!("thread {pid}, gone");
        let Some(Known { task: Some(task), before, .. }) = self.known.get(&pid) else { return gone() };
        // Ticks count from the boot and include sleep, which the clock of the tape leaves out; a tick is rounded down.
        let started_ns = task.start_ticks.saturating_mul(self.tick_ns).saturating_add_signed(-proc_ahead_ns);
        match before {
            _ if started_ns > at_ns => gone(),
            Some((name, until_ns)) if at_ns <= *until_ns => name.clone(),
            // Somewhere in between it called exec or named itself anew.
            Some((name, _)) => format!("{name} or {}", task.name),
            None => task.name.clone(),
        }
    }

    fn look(&mut self, pid: u32, now_ns: u64) {
        if self.known.len() >= KEPT_TASKS {
            self.known.clear();
        }
        let stat = TaskStat::of_process(&self.root, pid);
        let task = stat.map(|stat| Task { name: stat.name, start_ticks: stat.start_ticks });
        let known = match (self.known.remove(&pid), task) {
            // It has ended since. That its number was given to another one meanwhile, which ended too, would take a whole
            // round of numbers.
            (Some(Known { task: Some(was), before, .. }), None) => {
                self.known.insert(pid, Known { task: Some(was), looked_ns: now_ns, before });
                return;
            }
            other => other,
        };
        let (known, task) = known;
        let before = match (known, &task) {
            (Some(Known { task: Some(was), looked_ns, .. }), Some(is))
                if was.start_ticks == is.start_ticks && was.name != is.name =>
            {
                Some((was.name, looked_ns))
            }
            _ => None,
        };
        self.known.insert(pid, Known { task, looked_ns: now_ns, before });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::HostTree;

    const TICK_NS: u64 = 10_000_000;

    struct Host {
        tree: HostTree,
        names: TaskNames,
    }

    fn host() -> Host {
        let tree = HostTree::new().file("proc/7/stat", stat("bash", 100));
        let names = TaskNames { root: Root::at(tree.path()), known: HashMap::new(), tick_ns: TICK_NS };
        Host { tree, names }
    }

    fn stat(name: &str, start_ticks: u64) -> String {
        let fields: Vec<String> =
            (4..=52).map(|field| if field == 22 { start_ticks.to_string() } else { "0".into() }).collect();
        format!("7 ({name}) S {}\n", fields.join(" "))
    }

    impl Host {
        fn now(&self, name: &str, start_ticks: u64) {
            std::fs::write(self.tree.path().join("proc/7/stat"), stat(name, start_ticks)).unwrap();
        }

        /// The name of thread 7 at one tick, asked at another; the machine slept for 20 ticks after its boot.
        fn asked(&mut self, at: u64, now: u64) -> String {
            self.names.name_at(7, at * TICK_NS, now * TICK_NS, 20 * TICK_NS as i64)
        }
    }

    #[test]
    fn a_number_that_another_thread_has_now_does_not_give_it_the_time_of_the_first() {
        let mut host = host();
        assert_eq!(host.asked(79, 120), "thread 7, gone", "it began at tick 80 of the tape's clock");
        assert_eq!(host.asked(80, 120), "bash");
        host.now("make", 200);
        assert_eq!(host.asked(110, 190), "bash", "known from before");
        assert_eq!(host.asked(150, 190), "thread 7, gone", "bash ended, make had not begun");
        assert_eq!(host.asked(181, 190), "make");
    }

    #[test]
    fn a_program_that_calls_exec_has_its_former_name_before() {
        let mut host = host();
        assert_eq!(host.asked(100, 120), "bash");
        host.now("ls", 100);
        assert_eq!(host.asked(119, 150), "bash");
        assert_eq!(host.asked(130, 150), "bash or ls");
        assert_eq!(host.asked(149, 160), "bash or ls", "still between the two looks");
        assert_eq!(host.asked(155, 160), "ls");
        std::fs::remove_file(host.tree.path().join("proc/7/stat")).unwrap();
        assert_eq!(host.asked(170, 180), "ls", "it ended between the two looks");
    }
}
