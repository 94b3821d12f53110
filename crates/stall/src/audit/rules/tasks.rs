//! Threads that may run on the core.

use super::{Facts, Judgement, Known, Rule, fine, fix, known};
use crate::audit::measure::listed;
use surefoot_hostfs::tasks::Task;

/// Threads that one command moves; more are moved by running the audit again.
const MOVED_AT_ONCE: usize = 100;

pub const RULES: &[Rule] = &[
    Rule {
        name: "kernel_threads",
        expected: "no thread of the kernel that could be elsewhere may run on the core",
        why: "only the threads that belong to the core itself have to be there",
        source: "kernel admin-guide/kernel-per-CPU-kthreads",
        judge: kernel_threads,
        evidence: |facts, measured| {
            Ok(format!("threads of the kernel: {}", measured.threads_on(facts.cpu(), |ran| ran.kernel)?))
        },
    },
    Rule {
        name: "user_tasks",
        expected: "only threads that are meant for the isolated cores may run on the core",
        why: "a thread that may run elsewhere too can be started or woken here beside the workload",
        source: "sched_setaffinity(2), cpuset(7)",
        judge: user_tasks,
        evidence: |facts, measured| {
            Ok(format!("user threads: {}", measured.threads_on(facts.cpu(), |ran| !ran.kernel)?))
        },
    },
];

fn names(tasks: &[&Task]) -> String {
    listed(tasks.iter().map(|task| task.name.clone()))
}

/// Workers follow the workqueue mask, threads of interrupts their line, callback threads have a rule of their own.
fn governed_elsewhere(task: &Task) -> bool {
    ["kworker/", "irq/", "rcuo"].iter().any(|prefix| task.name.starts_with(prefix))
}

fn kernel_threads(facts: &Facts<'_>) -> Known<Judgement> {
    let tasks = known(&facts.settings.tasks)?;
    if !tasks.tasks.iter().any(|task| task.kernel) {
        return Err("no thread of the kernel can be seen from here (a container?)".to_owned());
    }
    let movable: Vec<&Task> = tasks
        .tasks
        .iter()
        .filter(|task| task.kernel && !task.bound && !governed_elsewhere(task) && task.allowed.contains(&facts.cpu()))
        .collect();
    if movable.is_empty() {
        return fine("none");
    }
    let numbers: Vec<String> = movable.iter().take(MOVED_AT_ONCE).map(|task| task.tid.to_string()).collect();
    fix(
        format!("{} may run on it: {}", movable.len(), names(&movable)),
        facts.to_housekeeping(|list, _| {
            format!("for thread in {}; do taskset -pc {list} $thread; done", numbers.join(" "))
        }),
    )
}

fn user_tasks(facts: &Facts<'_>) -> Known<Judgement> {
    let tasks = known(&facts.settings.tasks)?;
    let audited = &facts.settings.audited;
    let here = |task: &&Task| !task.kernel && task.allowed.contains(&facts.cpu());
    let (guests, meant): (Vec<&Task>, Vec<&Task>) =
        tasks.tasks.iter().filter(here).partition(|task| task.allowed.iter().any(|cpu| !audited.contains(cpu)));
    let dropped =
        if tasks.dropped > 0 { format!("; {} threads were not looked at", tasks.dropped) } else { String::new() };
    if guests.is_empty() {
        return fine(format!("none but {} meant for it{dropped}", meant.len()));
    }
    fix(
        format!("{} may run on it and elsewhere: {}{dropped}", guests.len(), names(&guests)),
        facts.to_housekeeping(|list, _| {
            if facts.settings.host.has_systemd {
                return format!(
                    "for unit in init.scope system.slice user.slice; do systemctl set-property $unit AllowedCPUs={list}; done"
                );
            }
            let threads: Vec<String> = guests.iter().take(MOVED_AT_ONCE).map(|task| task.tid.to_string()).collect();
            // What cannot be pasted as it is stands behind a comment's sign.
            let more = guests.len().saturating_sub(MOVED_AT_ONCE);
            let rest = if more > 0 { format!("  # and {more} more threads alike") } else { String::new() };
            format!("for thread in {}; do taskset -pc {list} $thread; done{rest}", threads.join(" "))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Try, good, measured, ran, task};

    #[test]
    fn kernel_threads() {
        let try_it = Try::new("kernel_threads");
        try_it.ok(&task(good(), 60, "ksoftirqd/2", true, true, "2"));
        try_it.ok(&task(good(), 61, "kworker/u8:1", true, false, "0-3"));
        let tree = task(good(), 62, "kswapd0", true, false, "0-3");
        let found = try_it.fix(&tree);
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("1 may run on it: kswapd0", "for thread in 62; do taskset -pc 0-1 $thread; done")
        );
        let mut measured = measured("", "", 1.0);
        measured.ran = Ok(vec![ran(2, "kswapd0", true, 4), ran(2, "poller", false, 1), ran(1, "other", true, 1)]);
        let found = try_it.fix_with(&tree, &measured);
        assert_eq!(found.evidence, "threads of the kernel: 1 was seen running on it in 2.0 s: kswapd0 (4 switches)");
        try_it.cannot(&good().without("proc/30"));
    }

    #[test]
    fn user_tasks() {
        let try_it = Try::new("user_tasks");
        assert_eq!(try_it.ok(&task(good(), 70, "poller", false, false, "2-3")).actual, "none but 1 meant for it");
        let found = try_it.fix(&task(good(), 71, "sshd", false, false, "0-3"));
        assert_eq!(found.actual, "1 may run on it and elsewhere: sshd");
        assert_eq!(found.fix, "for thread in 71; do taskset -pc 0-1 $thread; done", "systemd does not run there");
        let found = try_it.fix(&task(good().folder("run/systemd/system"), 71, "sshd", false, false, "0-3"));
        assert!(found.fix.ends_with("systemctl set-property $unit AllowedCPUs=0-1; done"), "{}", found.fix);
    }
}
