//! The threads that a command is about, named before it begins: those of `--comm`, and those that a core belongs to.

use anyhow::{bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces};
use surefoot_hostfs::tasks::{Task, Tasks};
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{CpuId, one_line};

/// The bytes of a thread's name that the kernel keeps.
const NAME_BYTES_MAX: usize = 15;

/// Names and tasks that one sentence lists.
const LISTED_MAX: usize = 8;

/// What is added where numbers and names are those of a PID namespace.
fn of_namespace() -> &'static str {
    match Namespaces::of_this_process().place(Kind::Pid) {
        Namespace::Other(_) => " in this PID namespace, whose numbers are not the host's",
        _ => "",
    }
}

/// Refuses a process that is not there: its preemptions could never be seen.
pub fn check_pid(pid: Option<u32>, root: &Root) -> anyhow::Result<()> {
    match pid {
        Some(pid) if !root.proc(pid.to_string()).exists() => {
            bail!("--pid {pid}: there is no such process{}", of_namespace())
        }
        _ => Ok(()),
    }
}

/// Refuses a name that no thread can have.
pub fn check_comm(comm: Option<&str>) -> anyhow::Result<()> {
    let Some(comm) = comm else { return Ok(()) };
    ensure!(
        comm.len() <= NAME_BYTES_MAX,
        "--comm {}: names of threads have at most {NAME_BYTES_MAX} bytes; this thread is called '{}' if the kernel has cut it",
        one_line(comm),
        one_line(comm.get(..NAME_BYTES_MAX).unwrap_or(comm))
    );
    Ok(())
}

/// Says so of a name that no thread has now: one may come.
pub fn tell_comm(comm: Option<&str>, root: &Root) {
    if let Some(said) = missing(comm, root) {
        surefoot_console::tell!("{said}");
    }
}

/// Refuses a name that no thread has now, for a question about now.
pub fn expect_comm(comm: Option<&str>, root: &Root) -> anyhow::Result<()> {
    missing(comm, root).map_or(Ok(()), |said| Err(anyhow::Error::msg(said)))
}

/// That no thread has this name; `None` also where the tasks cannot be read.
fn missing(comm: Option<&str>, root: &Root) -> Option<String> {
    Tasks::read(root).ok().and_then(|tasks| without(comm?, &tasks.tasks))
}

/// That no thread has this name, and which names there are; `None` where one has it.
fn without(comm: &str, tasks: &[Task]) -> Option<String> {
    if tasks.iter().any(|task| task.name == comm) {
        return None;
    }
    let names: BTreeSet<&str> = tasks.iter().filter(|task| !task.kernel).map(|task| task.name.as_str()).collect();
    let wanted = comm.to_lowercase();
    let is_alike = |name: &&&str| {
        let name = name.to_lowercase();
        name.contains(&wanted) || wanted.contains(&name)
    };
    let alike: Vec<&str> = names.iter().filter(is_alike).copied().collect();
    let (intro, listed) =
        if alike.is_empty() { ("names that run", names.into_iter().collect()) } else { ("similar names", alike) };
    let more = match listed.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed: Vec<String> = listed.into_iter().take(LISTED_MAX).map(one_line).collect();
    let listed = if listed.is_empty() { String::new() } else { format!("; {intro}: {}{more}", listed.join(", ")) };
    Some(format!("--comm {}: no thread has this name now{}{listed}", one_line(comm), of_namespace()))
}

/// Names the tasks that are pinned to one of these cores each, which therefore belongs to them.
pub fn tell_owners(cpus: &[CpuId], pid: Option<u32>, root: &Root) {
    let Ok(tasks) = Tasks::read(root) else { return };
    owners(cpus, pid, &tasks.tasks).iter().for_each(|said| surefoot_console::tell!("{said}"));
}

fn owners(watched: &[CpuId], pid: Option<u32>, tasks: &[Task]) -> Vec<String> {
    let mut of_core: BTreeMap<CpuId, Vec<&Task>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.kernel && !task.bound) {
        if let [core] = *task.allowed
            && watched.contains(&core)
        {
            of_core.entry(core).or_default().push(task);
        }
    }
    let told = of_core.into_iter().map(|(core, tasks)| {
        let more = match tasks.len().saturating_sub(LISTED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<String> = tasks
            .iter()
            .take(LISTED_MAX)
            .map(|task| format!("{} (thread {} of process {})", one_line(&task.name), task.tid, task.pid))
            .collect();
        let workload = match pid {
            Some(_) => String::new(),
            None => "; --pid PROCESS counts what others take from it as lost".to_owned(),
        };
        let list = cpus::format_list(&[core]);
        format!("pinned to core {list} alone: {}{more}{workload}", named.join(", "))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn task(tid: u32, name: &str, allowed: &[u32]) -> Task {
        let allowed = allowed.iter().copied().map(CpuId).collect();
        Task {
            tid,
            pid: tid,
            name: name.into(),
            kernel: false,
            bound: false,
            processor: CpuId(0),
            allowed,
            switches: 1,
        }
    }

    #[test]
    fn a_name_that_no_thread_has_is_told_with_those_there_are() {
        let tasks =
            [task(1, "poller-0", &[0]), task(2, "bash", &[0, 1]), Task { kernel: true, ..task(3, "kworker", &[0]) }];
        assert_eq!(without("bash", &tasks), None);
        assert_eq!(
            without("Poller", &tasks).unwrap(),
            "--comm Poller: no thread has this name now; similar names: poller-0"
        );
        assert_eq!(
            without("x", &tasks).unwrap(),
            "--comm x: no thread has this name now; names that run: bash, poller-0"
        );
        let many: Vec<Task> = (0..20).map(|number| task(number, &format!("t{number:02}"), &[0])).collect();
        assert!(without("x", &many).unwrap().ends_with("t07 and 12 more"));
    }

    #[test]
    fn a_name_that_is_too_long_for_the_kernel_is_refused() {
        let refused = check_comm(Some("a-name-of-20-letters")).unwrap_err().to_string();
        assert!(refused.contains("'a-name-of-20-le'"), "{refused}");
    }

    #[test]
    fn who_is_pinned_to_a_watched_core_is_named() {
        let kernel = Task { kernel: true, bound: true, ..task(9, "ksoftirqd/1", &[1]) };
        let tasks = [task(7, "poller", &[1]), task(8, "other", &[0]), task(6, "free", &[0, 1]), kernel];
        let said = owners(&[CpuId(1)], None, &tasks);
        assert_eq!(
            said,
            [
                "pinned to core 1 alone: poller (thread 7 of process 7); --pid PROCESS counts what others take from it as lost"
            ]
        );
        assert_eq!(owners(&[CpuId(1)], Some(7), &tasks), ["pinned to core 1 alone: poller (thread 7 of process 7)"]);
        assert_eq!(owners(&[CpuId(2)], None, &tasks), [""; 0]);
    }
}
