//! The tasks that take a watched core: who woke each onto it, and why it was allowed there.
//!
//! A task that takes the core is on the core's tape. What brought it there last, before it ran, is why it came: a wake-up,
//! a move by the scheduler, or its own beginning. Where it runs again without one, it was ready there all the time: it
//! shares the core.

use super::system_calls;
use crate::ledger::names::printable;
use std::collections::{BTreeMap, HashMap};
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Cause, CpuId, Digits, Intruder};
use surefoot_probes::{Raised, RaisedKind, moved_from};

/// Wake-ups that wait, with their stacks up to 2 KiB each; beyond, all go and are counted.
const WAITING: usize = 4096;

/// Wake-ups of one task for one core that wait: records come before the turns of the same look.
const PER_TASK: usize = 64;

/// A wake-up that no run has followed for so long, nanoseconds, goes: the task went to another core, or ended. Tasks that come
/// and go would leave theirs for good.
const LOST_NS: u64 = 5_000_000_000;

/// Tasks whose move or beginning is remembered; beyond, their later runs say only that they were ready.
const BROUGHT: usize = 256;

/// Tasks that are asked where they may run: of each cause on each core, and in all. Each is four files, read once.
const ASKED_PER_CAUSE: usize = 4;
const ASKED: usize = 256;

/// Whether a task asked for a move itself, so that it is the raiser: it changed an affinity, a cpuset or a node.
pub(super) fn is_asked_for(raised: &Raised, frames: &[String]) -> bool {
    const CALLS: [&str; 4] = ["__set_cpus_allowed_ptr", "sched_setaffinity", "set_cpus_allowed_ptr", "cpuset_attach"];
    let called = raised.system_call.map(system_calls::name).is_some_and(|name| name == "sched_setaffinity");
    let ran = || frames.iter().any(|frame| CALLS.iter().any(|call| frame.starts_with(call)));
    !raised.in_interrupt && (called || ran())
}

/// Which part of the scheduler moved a task, by the functions that it ran through, innermost first; `context` is the
/// interrupt in which it did, where it was one.
pub(super) fn mover(raised: &Raised, frames: &[String], context: Option<&Cause>) -> String {
    const PARTS: [(&[&str], &str); 10] = [
        (&["active_load_balance_cpu_stop"], "active load balancing"),
        (&["migrate_swap_stop", "task_numa", "numa_migrate"], "NUMA balancing"),
        (&["sched_balance_newidle", "newidle_balance", "balance_fair"], "new-idle balancing"),
        (&["push_rt_task", "pull_rt_task", "push_dl_task", "pull_dl_task"], "real-time balancing"),
        (&["__balance_push_cpu_stop", "balance_push", "sched_cpu_dying"], "taking a core offline"),
        (&["sched_balance", "load_balance", "rebalance_domains", "_nohz_idle_balance"], "load balancing"),
        (&["__set_cpus_allowed_ptr", "sched_setaffinity", "cpuset_attach"], "a change of its affinity"),
        (&["sched_exec"], "balancing at exec"),
        (&["migration_cpu_stop"], "the stopper thread (a change of its affinity, or exec)"),
        (&["sched_core", "try_steal_cookie"], "core scheduling"),
    ];
    let ran = |names: &[&str]| frames.iter().any(|frame| names.iter().any(|name| frame.starts_with(name)));
    let part = PARTS.iter().find(|(names, _)| ran(names)).map(|(_, part)| *part);
    let part = part.or_else(|| match context {
        Some(cause) if cause.name == "SCHED" => Some("load balancing"),
        _ if raised.comm.starts_with(b"migration/") => Some("the stopper thread"),
        _ => None,
    });
    let (from, _) = moved_from(raised.function);
    match part {
        Some(part) => format!("moved from core {from} by {part} on core {}", raised.from),
        None => format!("moved from core {from}, on core {}", raised.from),
    }
}

/// What brought tasks to the cores, waiting for the runs that it began.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    of_tasks: HashMap<(CpuId, u32), Vec<Raised>>,
    waiting: usize,
    /// Tasks that were moved to a core or began there, and have not been woken there since: why they are there at all.
    brought: HashMap<(CpuId, u32), Raised>,
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
        // A move that no run follows says nothing of a run that is there.
        let wakeups = |lists: &HashMap<(CpuId, u32), Vec<Raised>>| {
            lists.values().flatten().filter(|raised| raised.kind == RaisedKind::Wake).count() as u64
        };
        let before = wakeups(&self.of_tasks);
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
        self.forgotten += before - wakeups(&self.of_tasks);
    }

    /// What began a run of the task on this core: the newest wake-up, those before it woke what was awake; or the move, or
    /// the task's beginning, since which it is there.
    pub(super) fn of_run(&mut self, cpu: CpuId, tid: u32, at_ns: u64) -> Option<Raised> {
        let place = (cpu, tid);
        let newest = self.of_tasks.get_mut(&place).and_then(|list| {
            let until = list.iter().take_while(|raised| raised.at_ns <= at_ns).count();
            self.waiting -= until;
            list.drain(..until).next_back()
        });
        if self.of_tasks.get(&place).is_some_and(Vec::is_empty) {
            self.of_tasks.remove(&place);
        }
        match &newest {
            None => return self.brought.get(&place).cloned(),
            Some(raised) if raised.kind == RaisedKind::Wake => {
                self.brought.remove(&place);
            }
            Some(raised) => {
                if self.brought.len() >= BROUGHT {
                    self.brought.clear();
                }
                self.brought.insert(place, raised.clone());
            }
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
        known.push(ask(root, cpu, tid).unwrap_or_else(|| Intruder {
            comm: cause.name.clone(),
            tid,
            ..Intruder::default()
        }));
    }

    /// Those of a cause, in the order in which they came.
    pub(super) fn of(&self, cpu: CpuId, cause: &Cause) -> Vec<Intruder> {
        self.of.get(&(cpu, cause.clone())).cloned().unwrap_or_default()
    }
}

/// What /proc says of a task; `None` when it has ended.
fn ask(root: &Root, cpu: CpuId, tid: u32) -> Option<Intruder> {
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
    let is_bound = stat.is_bound();
    let because = if is_bound { String::new() } else { because(root, cpu, allowed.trim(), cgroup) };
    Some(Intruder {
        comm,
        tid,
        is_kernel: stat.is_kernel_thread(),
        is_bound,
        because,
        allowed: printable(allowed.trim().as_bytes()),
        cgroup: printable(cgroup.unwrap_or_default().as_bytes()),
        policy: policy(&stat_text),
    })
}

/// What lets a task with this list of cores onto one of them.
fn because(root: &Root, cpu: CpuId, allowed: &str, cgroup: Option<&str>) -> String {
    let (Ok(cores), Ok(online)) = (cpus::parse_list(allowed), cpus::online(root)) else { return String::new() };
    if !cores.contains(&cpu) {
        return format!("not on core {cpu} any more");
    }
    let isolated = cpus::isolated(root).is_ok_and(|isolated| isolated.contains(&cpu));
    let although = if isolated { format!("although core {cpu} is isolated, ") } else { String::new() };
    let set = cgroup.and_then(|path| cpuset(root, path));
    let is_every = |cores: &[CpuId]| online.iter().all(|core| cores.contains(core));
    match set {
        // A mask that is narrower than its cpuset was set for the task itself.
        Some((path, set)) if !is_every(&set) && set.iter().all(|core| cores.contains(core)) => {
            format!("{although}its cpuset {} has cores {}", printable(path.as_bytes()), cpus::format_list(&set))
        }
        _ if !is_every(&cores) => format!("{although}its own affinity mask names core {cpu}"),
        _ if isolated => format!("{although}its own affinity mask names every core"),
        _ => format!("no affinity mask, cpuset or isolcpus= keeps it off core {cpu}"),
    }
}

/// The cores of the nearest control group with a cpuset, from this one up.
fn cpuset<'a>(root: &Root, path: &'a str) -> Option<(&'a str, Vec<CpuId>)> {
    const LEVELS: usize = 32;
    let mut path = path.trim_end_matches('/');
    for _ in 0..LEVELS {
        // The name is another user's: nothing above the control groups is read.
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let file = format!("fs/cgroup/{}/cpuset.cpus.effective", path.trim_start_matches('/'));
        if let Ok(text) = root.read(root.sys(file)) {
            let set = cpus::parse_list(text.trim()).ok()?;
            return Some((if path.is_empty() { "/" } else { path }, set));
        }
        path = &path[..path.rfind('/')?];
    }
    None
}

/// The scheduling, of fields 19, 40 and 41 of the stat.
fn policy(stat: &str) -> String {
    let Some((_, after)) = stat.rsplit_once(')') else { return String::new() };
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.signed_digits::<i64>());
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
    fn a_task_that_was_moved_is_there_for_that_until_it_is_woken_there() {
        let mut wakeups = Wakeups::default();
        let told = |wakeups: &mut Wakeups, at_ns| wakeups.of_run(HERE, 7, at_ns).map(|raised| raised.kind);
        wakeups.raised(raised(RaisedKind::Move, 10, 7, 0));
        assert_eq!(told(&mut wakeups, 20), Some(RaisedKind::Move));
        assert_eq!(told(&mut wakeups, 30), Some(RaisedKind::Move), "it shares the core since");
        wakeups.raised(raised(RaisedKind::Wake, 40, 7, 0));
        assert_eq!((told(&mut wakeups, 50), told(&mut wakeups, 60)), (Some(RaisedKind::Wake), None));
        for tid in 0..2 * BROUGHT as u64 {
            wakeups.raised(raised(RaisedKind::New, 70, 100 + tid, 0));
            assert!(wakeups.of_run(HERE, 100 + tid as u32, 80).is_some());
        }
        assert!(wakeups.brought.len() <= BROUGHT);
    }

    #[test]
    fn who_moved_a_task_is_told_by_the_functions_or_the_interrupt() {
        let moved = |from: u64, frames: &[&str], context: Option<&str>| {
            let frames: Vec<String> = frames.iter().map(|frame| (*frame).to_owned()).collect();
            let raised = raised(RaisedKind::Move, 10, 7, from << 32 | 15);
            let context = context.map(|name| Cause::new(CauseKind::Softirq, name));
            (mover(&raised, &frames, context.as_ref()), is_asked_for(&raised, &frames))
        };
        let by = |part: &str| format!("moved from core 3 by {part} on core 0");
        let newidle = ["set_task_cpu", "detach_task", "sched_balance_rq", "sched_balance_newidle", "schedule"];
        assert_eq!(moved(3, &newidle, None), (by("new-idle balancing"), false));
        assert_eq!(moved(3, &["load_balance", "rebalance_domains"], None).0, by("load balancing"));
        assert_eq!(moved(3, &[], Some("SCHED")).0, by("load balancing"));
        let asked = ["set_task_cpu", "move_queued_task", "__set_cpus_allowed_ptr", "sched_setaffinity"];
        assert_eq!(moved(3, &asked, None), (by("a change of its affinity"), true));
        assert_eq!(moved(3, &["strange"], None).0, "moved from core 3, on core 0");
    }

    #[test]
    fn what_lets_a_task_onto_a_core_is_told() {
        let host = |isolated: &str| {
            HostTree::new()
                .file("sys/devices/system/cpu/online", "0-3\n")
                .file("sys/devices/system/cpu/isolated", isolated)
                .file("sys/fs/cgroup/jobs.slice/cpuset.cpus.effective", "1-2\n")
                .file("sys/fs/cgroup/all.slice/cpuset.cpus.effective", "0-3\n")
        };
        let (plain, isolated) = (host("\n"), host("1\n"));
        let told = |tree: &HostTree, allowed, cgroup| because(&Root::at(tree.path()), HERE, allowed, cgroup);
        let nothing = "no affinity mask, cpuset or isolcpus= keeps it off core 1";
        assert_eq!(told(&plain, "0-3", None), nothing);
        assert_eq!(told(&plain, "0-3", Some("/all.slice/a.service")), nothing);
        assert_eq!(told(&plain, "1", None), "its own affinity mask names core 1");
        assert_eq!(told(&plain, "1-2", Some("/jobs.slice/x")), "its cpuset /jobs.slice has cores 1-2");
        assert_eq!(told(&plain, "1", Some("/jobs.slice")), "its own affinity mask names core 1");
        let although = told(&isolated, "0-3", None);
        assert_eq!(although, "although core 1 is isolated, its own affinity mask names every core");
        assert_eq!(told(&plain, "0", None), "not on core 1 any more");
        assert_eq!(told(&plain, "1-2", Some("/../../../etc")), "its own affinity mask names core 1");
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
