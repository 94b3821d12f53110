//! The tasks that take a watched core: who woke each onto it, and why it was allowed there.
//!
//! A task that takes the core is on the core's tape. The newest wake-up of it for that core, before it ran, is why it
//! came; where it runs again without one, it was ready there all the time: it shares the core.

use crate::ledger::names::printable;
use std::collections::{BTreeMap, HashMap};
use surefoot_hostfs::Root;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_model::{Cause, CpuId, Intruder};
use surefoot_probes::Raised;

/// Wake-ups that wait, with their stacks up to 2 KiB each; beyond, all go and are counted.
const WAITING: usize = 4096;

/// Wake-ups of one task for one core that wait: records come before the turns of the same look.
const PER_TASK: usize = 64;

/// A wake-up that no run has followed for so long, nanoseconds, goes: the task went to another core, or ended. Tasks that come
/// and go would leave theirs for good.
const LOST_NS: u64 = 5_000_000_000;

/// Tasks that are asked where they may run: of each cause on each core, and in all. Each is four files, read once.
const ASKED_PER_CAUSE: usize = 4;
const ASKED: usize = 256;

/// What stands for the raiser of a run that no wake-up began.
pub(super) const NO_WAKEUP: &str = "(no wake-up: it was ready there, or moved there)";

/// Wake-ups that wait for the runs that they began.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    of_tasks: HashMap<(CpuId, u32), Vec<Raised>>,
    waiting: usize,
    forgotten: u64,
}

impl Wakeups {
    /// Takes the record of a wake-up.
    pub(super) fn raised(&mut self, raised: Raised) {
        if self.waiting >= WAITING {
            self.drop_lost(raised.at_ns);
        }
        let list = self.of_tasks.entry((raised.cpu, raised.key as u32)).or_default();
        if list.len() >= PER_TASK {
            list.remove(0);
            self.waiting -= 1;
            self.forgotten += 1;
        }
        list.push(raised);
        self.waiting += 1;
    }

    /// Drops the wake-ups that no run will follow, and where there are too many others, all.
    fn drop_lost(&mut self, now_ns: u64) {
        let before = self.waiting;
        self.of_tasks.retain(|_, list| {
            list.retain(|raised| raised.at_ns.saturating_add(LOST_NS) >= now_ns);
            !list.is_empty()
        });
        self.waiting = self.of_tasks.values().map(Vec::len).sum();
        // To look through them again and again would take all the time.
        if self.waiting > WAITING / 2 {
            self.of_tasks.clear();
            self.waiting = 0;
        }
        self.forgotten += (before - self.waiting) as u64;
    }

    /// The wake-up that began a run of the task on this core; those before it woke what was awake.
    pub(super) fn of_run(&mut self, cpu: CpuId, tid: u32, at_ns: u64) -> Option<Raised> {
        let list = self.of_tasks.get_mut(&(cpu, tid))?;
        let until = list.iter().take_while(|raised| raised.at_ns <= at_ns).count();
        let newest = list.drain(..until).next_back();
        self.waiting -= until;
        if list.is_empty() {
            self.of_tasks.remove(&(cpu, tid));
        }
        newest
    }

    /// Wake-ups that had to make room.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// What is known of the tasks that took the cores.
#[derive(Debug, Default)]
pub(super) struct Asked {
    of: BTreeMap<(CpuId, Cause), Vec<Intruder>>,
    count: usize,
}

impl Asked {
    /// Asks a task that is new under this cause where it may run, while it lives.
    pub(super) fn ask(&mut self, root: &Root, cpu: CpuId, cause: &Cause, tid: u32) {
        let known = self.of.entry((cpu, cause.clone())).or_default();
        if tid == 0 || known.len() >= ASKED_PER_CAUSE || known.iter().any(|one| one.tid == tid) || self.count >= ASKED {
            return;
        }
        self.count += 1;
        known.push(ask(root, tid).unwrap_or_else(|| Intruder { comm: cause.name.clone(), tid, ..Intruder::default() }));
    }

    /// Those of a cause, in the order in which they came.
    pub(super) fn of(&self, cpu: CpuId, cause: &Cause) -> Vec<Intruder> {
        self.of.get(&(cpu, cause.clone())).cloned().unwrap_or_default()
    }
}

/// What /proc says of a task; `None` when it has ended.
fn ask(root: &Root, tid: u32) -> Option<Intruder> {
    let stat_text = root.read(root.proc(format!("{tid}/stat"))).ok()?;
    let stat = TaskStat::parse(&stat_text)?;
    let status = root.read(root.proc(format!("{tid}/status"))).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    // A worker's own file has the workqueue that it works for besides.
    let comm = root.read(root.proc(format!("{tid}/comm"))).unwrap_or_default();
    let comm = match comm.trim_end() {
        "" => stat.name.clone(),
        comm => printable(comm.as_bytes()),
    };
    let groups = root.read(root.proc(format!("{tid}/cgroup"))).unwrap_or_default();
    let cgroup = groups.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| *path != "/");
    Some(Intruder {
        comm,
        tid,
        is_kernel: stat.is_kernel_thread(),
        is_bound: stat.is_bound(),
        allowed: printable(allowed.trim().as_bytes()),
        cgroup: printable(cgroup.unwrap_or_default().as_bytes()),
        policy: policy(&stat_text),
    })
}

/// The scheduling, of fields 19, 40 and 41 of the stat.
fn policy(stat: &str) -> String {
    let Some((_, after)) = stat.rsplit_once(')') else { return String::new() };
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<i64>().ok());
    match (field(41), field(40), field(19)) {
        (Some(1), Some(priority), _) => format!("SCHED_FIFO priority {priority}"),
        (Some(2), Some(priority), _) => format!("SCHED_RR priority {priority}"),
        (Some(3), ..) => "SCHED_BATCH".into(),
        (Some(5), ..) => "SCHED_IDLE".into(),
        (Some(6), ..) => "SCHED_DEADLINE".into(),
        (Some(0), _, Some(0)) => "SCHED_OTHER".into(),
        (Some(0), _, Some(nice)) => format!("SCHED_OTHER nice {nice}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::joiner::tests::raised;
    use surefoot_model::CauseKind;
    use surefoot_probes::RaisedKind;
    use surefoot_testkit::HostTree;

    const HERE: CpuId = CpuId(1);

    #[test]
    fn a_run_is_of_the_newest_wakeup_before_it_and_a_later_run_has_none() {
        let mut wakeups = Wakeups::default();
        for at_ns in [10, 20, 40] {
            wakeups.raised(raised(RaisedKind::Wake, at_ns, 7, 0));
        }
        wakeups.raised(raised(RaisedKind::Wake, 12, 8, 0));
        let mut of = |tid, at_ns| wakeups.of_run(HERE, tid, at_ns).map(|raised| raised.at_ns);
        assert_eq!(of(7, 5), None, "the future raises nothing");
        assert_eq!(of(7, 30), Some(20));
        assert_eq!(of(7, 35), None, "it runs again without a wake-up");
        assert_eq!(of(7, 50), Some(40));
        assert_eq!((of(8, 50), of(8, 60), of(9, 60)), (Some(12), None, None));
        assert_eq!(wakeups.of_run(CpuId(2), 7, 90), None, "another core has its own");
    }

    #[test]
    fn wakeups_that_nobody_takes_are_limited_and_counted() {
        let mut wakeups = Wakeups::default();
        for at_ns in 0..PER_TASK as u64 + 3 {
            wakeups.raised(raised(RaisedKind::Wake, at_ns, 7, 0));
        }
        assert_eq!(wakeups.forgotten(), 3);
        for tid in 0..2 * WAITING as u64 {
            wakeups.raised(raised(RaisedKind::Wake, 1, 100 + tid, 0));
        }
        assert!(wakeups.waiting <= WAITING && wakeups.forgotten() >= WAITING as u64);
    }

    #[test]
    fn wakeups_of_tasks_that_went_elsewhere_do_not_stay_and_those_of_late_do() {
        let mut wakeups = Wakeups::default();
        let last = 3 * WAITING as u64;
        for tid in 1..=last {
            wakeups.raised(raised(RaisedKind::Wake, tid * 10_000_000, tid, 0));
        }
        assert_eq!(wakeups.waiting, wakeups.of_tasks.values().map(Vec::len).sum::<usize>());
        assert_eq!(wakeups.waiting as u64 + wakeups.forgotten(), last);
        let of = |tid: u64, wakeups: &mut Wakeups| wakeups.of_run(HERE, tid as u32, u64::MAX).is_some();
        assert!((last - 500..=last).all(|tid| of(tid, &mut wakeups)), "those of the last five seconds are there");
    }

    fn stat(flags: u64, nice: i64, priority: u32, policy: u32) -> String {
        let fields: Vec<String> = (4..=52)
            .map(|field| match field {
                9 => flags.to_string(),
                19 => nice.to_string(),
                40 => priority.to_string(),
                41 => policy.to_string(),
                other => other.to_string(),
            })
            .collect();
        format!("7 (x) S {}\n", fields.join(" "))
    }

    #[test]
    fn a_task_says_where_it_may_run_and_one_that_ended_keeps_the_name_it_ran_by() {
        let tree = HostTree::new()
            .file("proc/7/stat", stat(0, 5, 0, 0))
            .file("proc/7/status", "Name:\tx\nCpus_allowed_list:\t0-1\n")
            .file("proc/7/comm", "rustc\n")
            .file("proc/7/cgroup", "1:x:/old\n0::/build.slice\n")
            .file("proc/8/stat", stat(0x0420_0000, 0, 0, 0))
            .file("proc/8/status", "Cpus_allowed_list:\t1\n")
            .file("proc/8/comm", "kworker/1:0-mm_percpu_wq\n");
        let root = Root::at(tree.path());
        let cause = Cause::new(CauseKind::Preemption, "rustc");
        let mut asked = Asked::default();
        for tid in [7, 7, 8, 0, 9] {
            asked.ask(&root, HERE, &cause, tid);
        }
        let found = asked.of(HERE, &cause);
        assert_eq!(found.len(), 3, "{found:?}");
        let words = |one: &Intruder| [&one.comm, &one.allowed, &one.cgroup, &one.policy].map(String::clone);
        assert_eq!(words(&found[0]), ["rustc", "0-1", "/build.slice", "SCHED_OTHER nice 5"]);
        assert_eq!((found[1].comm.as_str(), found[1].is_bound), ("kworker/1:0-mm_percpu_wq", true));
        assert_eq!((found[2].comm.as_str(), found[2].tid, found[2].allowed.as_str()), ("rustc", 9, ""));
        assert_eq!(asked.of(CpuId(0), &cause), []);
        for tid in 20..40 {
            asked.ask(&root, HERE, &cause, tid);
        }
        assert_eq!(asked.of(HERE, &cause).len(), ASKED_PER_CAUSE);
        assert_eq!(policy(&stat(0, 0, 50, 1)), "SCHED_FIFO priority 50");
    }
}
