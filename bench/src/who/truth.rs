//! What was named, held against what the raising threads wrote down.

use super::raisers::{Log, Raising};
use super::watch::Named;
use std::collections::HashMap;

/// The kinds of interrupts that carry a called function. Others, such as a wake-up by another thread, can come from
/// these threads as well, by no call that they write down.
const KINDS: [&str; 2] = ["tlb_shootdown", "call_function"];

/// How many were named, and how many of them wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judged {
    /// Interrupts whose raiser was said to be a thread of the process, or to have the number of one.
    pub named: u64,
    /// Of these, how many it cannot have raised.
    pub wrong: u64,
    /// What was said wrongly, for people.
    pub examples: Vec<String>,
}

impl Judged {
    /// Adds what was said wrongly.
    pub fn accuse(&mut self, count: u64, what: String) {
        self.wrong += count;
        self.examples.push(what);
    }
}

/// Holds the raisers that were named against the log: the thread must be one of it, with its own name and system call,
/// and cannot have raised more often than it called.
pub fn judge(log: &Log, raisers: &[Named]) -> Judged {
    let mut judged = Judged::default();
    let mut by_thread: HashMap<u32, u64> = HashMap::new();
    let threads: HashMap<u32, &Raising> = log.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let concerned = raisers.iter().filter(|raiser| KINDS.contains(&raiser.kind.as_str()));
    for raiser in concerned.filter(|raiser| raiser.pid == log.pid || threads.contains_key(&raiser.tid)) {
        judged.named += raiser.count;
        let Named { comm, pid, tid, syscall, function, count, .. } = raiser;
        let own = threads.get(tid).filter(|_| *pid == log.pid);
        if own.is_some_and(|own| own.name == *comm && own.syscall == *syscall) {
            *by_thread.entry(*tid).or_default() += count;
        } else {
            judged.accuse(*count, format!("{count} of {function} by {comm} ({tid} of process {pid}) in '{syscall}'"));
        }
    }
    for (tid, count) in by_thread {
        let calls = threads.get(&tid).map_or(0, |thread| thread.calls.len() as u64);
        if count > calls {
            judged.accuse(count - calls, format!("{count} by thread {tid}, which made {calls} calls"));
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let thread = |tid, syscall: &str, count: u64| Raising {
            tid,
            name: format!("do_{syscall}"),
            syscall: syscall.to_owned(),
            calls: (0..count).map(|number| (number * 10, number * 10 + 5)).collect(),
        };
        Log { pid: 7, threads: vec![thread(8, "munmap", 3), thread(9, "madvise", 2)] }
    }

    fn named(kind: &str, pid: u32, tid: u32, syscall: &str, count: u64) -> Named {
        let (kind, comm) = (kind.to_owned(), format!("do_{syscall}"));
        Named { kind, function: "flush".into(), syscall: syscall.to_owned(), comm, pid, tid, count }
    }

    fn wrong(raisers: &[Named]) -> (u64, u64) {
        let judged = judge(&log(), raisers);
        assert_eq!(judged.wrong == 0, judged.examples.is_empty());
        (judged.named, judged.wrong)
    }

    #[test]
    fn a_thread_is_only_right_with_its_own_call_name_and_process() {
        let own = |count| named("tlb_shootdown", 7, 8, "munmap", count);
        assert_eq!(wrong(&[own(3), named("call_function", 7, 9, "madvise", 2)]), (5, 0));
        assert_eq!(wrong(&[named("tlb_shootdown", 7, 8, "madvise", 2)]), (2, 2), "another thread's call");
        assert_eq!(wrong(&[named("tlb_shootdown", 7, 8, "", 1)]), (1, 1), "no call");
        assert_eq!(wrong(&[named("tlb_shootdown", 7, 10, "munmap", 1)]), (1, 1), "no thread that raises");
        assert_eq!(wrong(&[named("tlb_shootdown", 6, 8, "munmap", 1)]), (1, 1), "another process");
        assert_eq!(wrong(&[Named { comm: "poller".into(), ..own(1) }]), (1, 1), "another name");
    }

    #[test]
    fn nobody_raises_more_than_it_calls() {
        let own = |count| named("tlb_shootdown", 7, 8, "munmap", count);
        assert_eq!(wrong(&[own(2), own(2)]), (4, 1));
    }

    #[test]
    fn strangers_and_other_interrupts_are_nobody_s_fault() {
        let raisers = [named("tlb_shootdown", 6, 5, "mprotect", 9), named("reschedule", 7, 8, "futex", 9)];
        assert_eq!(wrong(&raisers), (0, 0));
    }
}
