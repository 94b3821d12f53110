//! On which core a thread was during a gap.

use crate::gap::tapes::Tapes;
use surefoot_hostfs::Root;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_model::{CpuId, Digits};
use surefoot_probes::layout::Turn;

/// Readings of the loop are not ordered, and anchors have an error: together less than this, nanoseconds.
const SLACK_NS: u64 = 1_000;

/// How long the answer of /proc is good, nanoseconds: whoever asks for it opens files, and that must not be at every look.
const HOME_GOOD_FOR_NS: u64 = 1_000_000_000;

/// Where a gap was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapCore {
    /// On a watched core from start to end; other threads may have run there meanwhile.
    On {
        /// The core.
        cpu: CpuId,
        /// The thread that the tape has there at the start: the loop's, or the one whose switch to it is not on the tape.
        own: u32,
    },
    /// On a core that is not watched.
    NotWatched,
    /// It began on one core and ended on another, of which at least one is watched; or nothing tells.
    Unknown,
}

/// What /proc says about a thread's core now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// It may run on this one only.
    Pinned(CpuId),
    /// It was on this one last.
    Last(CpuId),
    /// It has ended, or /proc does not tell.
    Unknown,
}

impl Home {
    /// This, or the other where /proc does not tell.
    pub(crate) fn or(self, other: Home) -> Home {
        if self == Home::Unknown { other } else { self }
    }
}

/// The home of a thread, and when /proc was asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedHome {
    home: Home,
    asked_ns: u64,
}

impl AskedHome {
    /// Asks now.
    pub(crate) fn ask(root: &Root, (pid, tid): (u32, u32), now_ns: u64) -> Self {
        AskedHome { home: home(root, pid, tid), asked_ns: now_ns }
    }

    /// The home, asked anew where the last answer is old. Once the thread has ended, where it was before.
    pub(crate) fn now(&mut self, root: &Root, of: (u32, u32), now_ns: u64) -> Home {
        if now_ns.saturating_sub(self.asked_ns) >= HOME_GOOD_FOR_NS {
            let Self { home, asked_ns } = Self::ask(root, of, now_ns);
            *self = AskedHome { home: home.or(self.home), asked_ns };
        }
        self.home
    }
}

/// Where thread `tid` was from start to end, by the tapes of the watched cores. Where they do not show it, by its home.
pub(crate) fn place(
    tapes: &Tapes,
    cpus: &[CpuId],
    tid: u32,
    (start_ns, end_ns): (u64, u64),
    home: impl FnOnce() -> Home,
) -> GapCore {
    let of_core = |&cpu: &CpuId| Seen::of(cpu, tapes.around(cpu, start_ns, end_ns + SLACK_NS), start_ns, end_ns);
    decide(&cpus.iter().map(of_core).collect::<Vec<_>>(), tid, home)
}

/// Whose the tape of a core says that the core was.
#[derive(Debug, Clone, Copy)]
struct Seen {
    cpu: CpuId,
    /// The thread at the start; `None` where the tape does not reach back.
    at_start: Option<u32>,
    at_end: Option<u32>,
}

impl Seen {
    fn of(cpu: CpuId, turns: &[Turn], start_ns: u64, end_ns: u64) -> Self {
        // A turn names the core's thread also when an interrupt of it begins.
        let at = |time_ns: u64| {
            let known = turns.partition_point(|turn| turn.at_ns <= time_ns.saturating_add(SLACK_NS));
            known.checked_sub(1).map(|last| turns[last].pid)
        };
        Seen { cpu, at_start: at(start_ns), at_end: at(end_ns) }
    }

    fn place(&self, tid: u32) -> GapCore {
        GapCore::On { cpu: self.cpu, own: self.at_start.unwrap_or(tid) }
    }
}

fn decide(seen: &[Seen], tid: u32, home: impl FnOnce() -> Home) -> GapCore {
    let start = seen.iter().find(|seen| seen.at_start == Some(tid));
    let end = seen.iter().find(|seen| seen.at_end == Some(tid));
    match (start, end) {
        (Some(start), Some(end)) if start.cpu == end.cpu => return start.place(tid),
        // The tape begins within the gap.
        (None, Some(end)) if end.at_start.is_none() => return end.place(tid),
        _ => {}
    }
    let watched = |cpu| seen.iter().find(|seen| seen.cpu == cpu);
    match home() {
        // The loop ran right before and after the gap, and it can run nowhere else.
        Home::Pinned(cpu) => watched(cpu).map_or(GapCore::NotWatched, |seen| seen.place(tid)),
        Home::Last(cpu) if start.is_none() && end.is_none() => match watched(cpu) {
            Some(seen) if seen.at_end.is_none() => seen.place(tid),
            Some(_) => GapCore::Unknown,
            None => GapCore::NotWatched,
        },
        _ => GapCore::Unknown,
    }
}

/// The home of a thread.
pub(crate) fn home(root: &Root, pid: u32, tid: u32) -> Home {
    let read = |name: &str| root.read(root.proc(format!("{pid}/task/{tid}/{name}")));
    if let Some(cpu) = read("status").ok().as_deref().and_then(only_core) {
        return Home::Pinned(cpu);
    }
    let stat = read("stat").ok().as_deref().and_then(TaskStat::parse);
    stat.map_or(Home::Unknown, |stat| Home::Last(stat.processor))
}

/// The core of a thread's status that allows one only.
fn only_core(status: &str) -> Option<CpuId> {
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    allowed.trim().digits().map(CpuId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    fn turn(at_ns: u64, depth: u8, pid: u32) -> Turn {
        Turn { at_ns, cause: if depth > 0 { 3 } else { 1 }, depth, left: 0, pid }
    }

    /// Where thread 7 was from 10 to 20 us, by the tapes of the cores 0, 1, and so on.
    fn placed(tapes: &[&[Turn]], home: Home) -> GapCore {
        let seen = tapes.iter().enumerate().map(|(cpu, turns)| Seen::of(CpuId(cpu as u32), turns, 10_000, 20_000));
        decide(&seen.collect::<Vec<_>>(), 7, || home)
    }

    fn on(cpu: u32, own: u32) -> GapCore {
        GapCore::On { cpu: CpuId(cpu), own }
    }

    #[test]
    fn the_core_whose_thread_it_was_at_both_ends_is_its_core() {
        let preempted = [turn(5_000, 0, 7), turn(10_050, 1, 7), turn(12_000, 0, 9), turn(19_000, 0, 7)];
        let other = [turn(5_000, 0, 8), turn(15_000, 1, 8)];
        assert_eq!(placed(&[&other, &preempted], Home::Last(CpuId(0))), on(1, 7));
        // The conversion is off by less than a microsecond.
        let late = [turn(10_600, 1, 7), turn(20_900, 0, 7)];
        assert_eq!(placed(&[&other, &late], Home::Unknown), on(1, 7));
        assert_eq!(placed(&[&other, &[turn(13_000, 0, 7)]], Home::Unknown), on(1, 7));
    }

    #[test]
    fn a_thread_that_was_moved_is_on_neither_core() {
        let left = [turn(5_000, 0, 7), turn(11_000, 0, 8)];
        let came = [turn(5_000, 0, 9), turn(18_000, 0, 7)];
        assert_eq!(placed(&[&left, &came], Home::Last(CpuId(1))), GapCore::Unknown);
        assert_eq!(placed(&[&left], Home::Last(CpuId(0))), GapCore::Unknown);
        assert_eq!(placed(&[&came], Home::Last(CpuId(0))), GapCore::Unknown);
    }

    #[test]
    fn a_pinned_thread_is_on_its_core_even_if_a_switch_to_it_is_not_on_the_tape() {
        let other = [turn(5_000, 0, 8)];
        assert_eq!(placed(&[&other, &[turn(5_000, 0, 9), turn(15_000, 1, 9)]], Home::Pinned(CpuId(1))), on(1, 9));
        assert_eq!(placed(&[&[turn(5_000, 0, 7), turn(12_000, 0, 8)]], Home::Pinned(CpuId(0))), on(0, 7));
        assert_eq!(placed(&[&other], Home::Pinned(CpuId(3))), GapCore::NotWatched);
    }

    #[test]
    fn where_tapes_are_silent_the_last_core_decides() {
        let other = [turn(5_000, 0, 8)];
        assert_eq!(placed(&[&other, &[]], Home::Last(CpuId(1))), on(1, 7));
        assert_eq!(placed(&[&other], Home::Last(CpuId(3))), GapCore::NotWatched);
        assert_eq!(placed(&[&other], Home::Last(CpuId(0))), GapCore::Unknown, "the tape knows another thread there");
        assert_eq!(placed(&[&other], Home::Unknown), GapCore::Unknown);
    }

    #[test]
    fn proc_is_asked_for_the_home_once_a_second_and_a_thread_that_ended_keeps_it() {
        let status = |core: u32| format!("Name:\tx\nCpus_allowed_list:\t{core}\n");
        let tree = HostTree::new().file("proc/9/task/9/status", status(1));
        let root = Root::at(tree.path());
        let mut asked = AskedHome::ask(&root, (9, 9), 5);
        tree.write("proc/9/task/9/status", status(2));
        assert_eq!(asked.now(&root, (9, 9), 5 + HOME_GOOD_FOR_NS - 1), Home::Pinned(CpuId(1)));
        assert_eq!(asked.now(&root, (9, 9), 5 + HOME_GOOD_FOR_NS), Home::Pinned(CpuId(2)));
        std::fs::remove_dir_all(tree.path().join("proc/9")).unwrap();
        assert_eq!(asked.now(&root, (9, 9), 5 + 3 * HOME_GOOD_FOR_NS), Home::Pinned(CpuId(2)));
    }

    #[test]
    fn the_home_is_read_behind_the_name() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let tree = HostTree::new().file("proc/9/task/9/stat", format!("9 (a) 1 2 b) R {}", fields.join(" ")));
        assert_eq!(home(&Root::at(tree.path()), 9, 9), Home::Last(CpuId(39)));
        tree.write("proc/9/task/9/stat", "9 (a) R 1 2");
        assert_eq!(home(&Root::at(tree.path()), 9, 9), Home::Unknown);
        assert_eq!(only_core("Name:\tx\nCpus_allowed:\t2\nCpus_allowed_list:\t1\n"), Some(CpuId(1)));
        assert_eq!(only_core("Cpus_allowed_list:\t0-1\n"), None);
        let own = std::process::id();
        assert_ne!(home(&Root::host(), own, own), Home::Unknown);
        assert_eq!(home(&Root::host(), own, u32::MAX), Home::Unknown);
        assert_eq!(Home::Unknown.or(Home::Last(CpuId(2))), Home::Last(CpuId(2)));
        assert_eq!(Home::Pinned(CpuId(1)).or(Home::Last(CpuId(2))), Home::Pinned(CpuId(1)));
    }
}
