//! What the tasks of this process's PID namespace are called in it, and what the kernel and its programs call them.

use crate::Error;
use crate::load::open_task_numbers;
use crate::patient;
use crate::shared::same_layout;
use libbpf_rs::{Iter, Link, Object};
use std::io::Read;

/// Tasks that are read at most; the kernel's own limit of numbers is 4,194,304.
const TASKS_MAX: usize = 1 << 18;

/// The numbers of one task.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskNumbers {
    /// The thread's, in this process's namespace.
    pub tid: u32,
    /// Its process's, likewise.
    pub pid: u32,
    /// The thread's, as the kernel has it.
    pub kernels_tid: u32,
    /// Its process's, likewise.
    pub kernels_pid: u32,
}

same_layout!(TaskNumbers, task_numbers: tid, pid, kernels_tid, kernels_pid);

/// Reads the numbers of all tasks of a namespace.
pub struct TaskNumbersReader {
    // Detached before it is unloaded.
    link: Link,
    _object: Object,
}

impl TaskNumbersReader {
    /// Loads the program that tells them. It is attached to nothing that runs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the privilege, and [`Error::Refused`] on a kernel that does not list its tasks to
    /// programs (before 5.8).
    pub fn open() -> Result<Self, Error> {
        let (object, ()) = patient::load(|| Ok((open_task_numbers()?, ())))?;
        let refused = |error: libbpf_rs::Error| Error::Refused { why: format!("no list of tasks: {error}") };
        let mut programs = object.progs_mut();
        let program = programs.next().ok_or_else(|| Error::Refused { why: "no program lists tasks".into() })?;
        let link = program.attach().map_err(refused)?;
        drop(programs);
        Ok(TaskNumbersReader { link, _object: object })
    }

    /// All tasks of the calling thread's PID namespace, as they are now.
    ///
    /// # Errors
    /// [`Error::Refused`] when the kernel does not tell them all.
    pub fn read(&self) -> Result<Vec<TaskNumbers>, Error> {
        let refused = |why: String| Error::Refused { why: format!("no list of tasks: {why}") };
        let mut bytes = Vec::new();
        let iter = Iter::new(&self.link).map_err(|error| refused(error.to_string()))?;
        let limit = TASKS_MAX * size_of::<TaskNumbers>();
        iter.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
        if bytes.len() > limit {
            return Err(refused(format!("there are more than {TASKS_MAX}")));
        }
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at * 4..at * 4 + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let numbers = |bytes: &[u8]| TaskNumbers {
            tid: word(bytes, 0),
            pid: word(bytes, 1),
            kernels_tid: word(bytes, 2),
            kernels_pid: word(bytes, 3),
        };
        Ok(bytes.chunks_exact(size_of::<TaskNumbers>()).map(numbers).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::not_run::not_run;

    #[test]
    fn every_task_of_the_namespace_is_told_with_both_numbers() {
        let test = "every_task_of_the_namespace_is_told_with_both_numbers";
        let reader = match TaskNumbersReader::open() {
            Ok(reader) => reader,
            Err(error) => return not_run(test, &error.to_string()),
        };
        // SAFETY: takes no argument.
        let tid = unsafe { libc::gettid() } as u32;
        let own = |all: &[TaskNumbers]| all.iter().find(|task| task.tid == tid).copied();
        let all = reader.read().unwrap();
        let found = own(&all).unwrap_or_else(|| panic!("thread {tid} is not among {} tasks", all.len()));
        assert_eq!(found.pid, std::process::id());
        let is_initial = std::fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]";
        if is_initial {
            assert!(all.iter().all(|task| (task.tid, task.pid) == (task.kernels_tid, task.kernels_pid)));
        }
        // Threads that are new are told, too.
        let another = std::thread::spawn(move || {
            // SAFETY: as above.
            let tid = unsafe { libc::gettid() } as u32;
            reader.read().unwrap().iter().any(|task| task.tid == tid)
        });
        assert!(another.join().unwrap());
    }
}
