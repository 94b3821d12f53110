//! Processes and threads, as /proc lists them.

mod stat;

pub use stat::TaskStat;

use crate::cpus::parse_list;
use crate::settings::{MOST_ENTRIES, TEXT_LIMIT_BYTES, numbered};
use crate::{Error, Root};
use std::collections::HashMap;
use std::sync::Arc;
use surefoot_model::{CpuId, Digits};

/// The most numbers that [`kernel_threads`] and [`threads`] return.
const NUMBERS_MAX: usize = 16_384;

/// The most threads that [`Tasks::read`] takes; what is over is counted.
const THREADS_MAX: usize = 32_768;

/// The numbers of all kernel threads; empty where /proc cannot be listed.
pub fn kernel_threads(root: &Root) -> Vec<u32> {
    let pids = numbered(&root.proc(""), "").unwrap_or_default().into_iter();
    pids.filter(|pid| TaskStat::of_process(root, *pid).is_some_and(|stat| stat.is_kernel_thread()))
        .take(NUMBERS_MAX)
        .collect()
}

/// Every process that can be seen, with its first thread's stat, and whether these may not be all: /proc has more entries than are
/// listed.
///
/// # Errors
/// [`Error::Read`] where /proc cannot be listed.
pub fn processes(root: &Root) -> Result<(Vec<(u32, TaskStat)>, bool), Error> {
    let pids = numbered(&root.proc(""), "")?;
    // Beside processes /proc has some hundred files.
    let may_be_more = pids.len() + 1_000 >= MOST_ENTRIES;
    Ok((pids.into_iter().filter_map(|pid| Some((pid, TaskStat::of_process(root, pid)?))).collect(), may_be_more))
}

/// The real user of a process; `None` when it has ended.
pub fn user(root: &Root, pid: u32) -> Option<u32> {
    let text = root.read_up_to(root.proc(format!("{pid}/status")), TEXT_LIMIT_BYTES).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.digits()
}

/// The numbers of a process's threads; empty when it has ended.
pub fn threads(root: &Root, pid: u32) -> Vec<u32> {
    let mut numbers = numbered(&root.proc(format!("{pid}/task")), "").unwrap_or_default();
    numbers.truncate(NUMBERS_MAX);
    numbers
}

/// A thread: where it may run, where it ran last, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The process that it belongs to.
    pub pid: u32,
    /// Its name, without control characters.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// Whether the kernel refuses to move it.
    pub bound: bool,
    /// The core on which it runs or ran last.
    pub processor: CpuId,
    /// The cores that it may use, shared between the threads that have the same.
    pub allowed: Arc<[CpuId]>,
    /// How often it gave up a core or lost it, since it began.
    pub switches: u64,
}

/// All threads of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tasks {
    /// The threads, in the order of /proc.
    pub tasks: Vec<Task>,
    /// Threads beyond 32,768 that were left out.
    pub dropped: u64,
}

impl Tasks {
    /// Reads every thread that can be seen. Threads that end meanwhile are left out.
    ///
    /// # Errors
    /// When /proc cannot be listed.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let mut found = Tasks::default();
        let mut allowed: HashMap<String, Arc<[CpuId]>> = HashMap::new();
        let mut pids = numbered(&root.proc(""), "")?;
        pids.sort_unstable();
        for pid in pids {
            let threads = numbered(&root.proc(format!("{pid}/task")), "").unwrap_or_default();
            // A recorded tree may hold processes without their threads.
            let folders: Vec<(u32, String)> = if threads.is_empty() {
                vec![(pid, pid.to_string())]
            } else {
                threads.into_iter().map(|tid| (tid, format!("{pid}/task/{tid}"))).collect()
            };
            for (tid, folder) in folders {
                if found.tasks.len() >= THREADS_MAX {
                    found.dropped += 1;
                } else if let Some(task) = read_task(root, pid, tid, &folder, &mut allowed) {
                    found.tasks.push(task);
                }
            }
        }
        Ok(found)
    }
}

fn read_task(
    root: &Root,
    pid: u32,
    tid: u32,
    folder: &str,
    allowed: &mut HashMap<String, Arc<[CpuId]>>,
) -> Option<Task> {
    let read = |file: &str| root.read_up_to(root.proc(folder).join(file), TEXT_LIMIT_BYTES).ok();
    let stat = TaskStat::parse(&read("stat")?)?;
    let status = read("status")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let switches = |name| field(name).and_then(|count| count.digits::<u64>()).unwrap_or(0);
    let list = field("Cpus_allowed_list:")?;
    let cores = match allowed.get(list) {
        Some(cores) => Arc::clone(cores),
        None => {
            let cores: Arc<[CpuId]> = parse_list(list).ok()?.into();
            allowed.insert(list.to_owned(), Arc::clone(&cores));
            cores
        }
    };
    Some(Task {
        tid,
        pid,
        kernel: stat.is_kernel_thread(),
        bound: stat.is_bound(),
        processor: stat.processor,
        name: stat.name,
        allowed: cores,
        switches: switches("voluntary_ctxt_switches:").saturating_add(switches("nonvoluntary_ctxt_switches:")),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn this_process_is_not_a_kernel_thread() {
        assert!(!kernel_threads(&Root::host()).contains(&std::process::id()));
        assert!(threads(&Root::host(), std::process::id()).contains(&std::process::id()));
        assert!(threads(&Root::host(), u32::MAX).is_empty());
    }

    #[test]
    fn tasks_tell_where_they_may_run() {
        let stat = |name: &str, flags: u64, cpu: u32| {
            format!("9 ({name}) S 2 0 0 0 -1 {flags} {}{cpu} 0 0 0", "0 ".repeat(29))
        };
        let status = "Name:\tx\nCpus_allowed_list:\t1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t3\n";
        let tree = HostTree::new()
            .file("proc/9/stat", stat("kworker/1:0-ev) (en", 0x0420_8060, 1))
            .file("proc/9/status", status)
            .file("proc/20/task/20/stat", stat("a\u{1b}b", 0x40_0000, 0))
            .file("proc/20/task/20/status", status)
            .file("proc/20/task/21/stat", "21 (torn")
            .file("proc/20/task/21/status", status);
        let tasks = Tasks::read(&Root::at(tree.path())).unwrap().tasks;
        assert_eq!(tasks.len(), 2, "{tasks:?}");
        assert_eq!((tasks[0].name.as_str(), tasks[0].kernel, tasks[0].bound), ("kworker/1:0-ev) (en", true, true));
        assert_eq!((tasks[0].processor, tasks[0].switches, &*tasks[0].allowed), (CpuId(1), 7, &[CpuId(1)][..]));
        assert_eq!((tasks[1].name.as_str(), tasks[1].kernel, tasks[1].bound), ("a b", false, false));
        assert!(Arc::ptr_eq(&tasks[0].allowed, &tasks[1].allowed));
    }
}
