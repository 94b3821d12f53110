//! /proc/PID/stat, and the same file of a thread: one line of 52 fields, as proc_pid_stat(5) numbers them.

use crate::Root;
use crate::error::shorten;
use crate::settings::TEXT_LIMIT_BYTES;
use surefoot_model::{CpuId, Digits};

/// Flags of a task, from the kernel's sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;
const NO_SETAFFINITY: u64 = 0x0400_0000;

/// What a task's stat tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStat {
    /// Its name, without control characters.
    pub name: String,
    /// Its state: `R` runs, `S` sleeps, `Z` has ended and waits for its parent.
    pub state: char,
    /// Its parent's number; 0 for the kernel's own.
    pub parent: u32,
    /// The kernel's flags (`PF_*`).
    pub flags: u64,
    /// When it was started, clock ticks since boot; tells it from a later one with the same number.
    pub start_ticks: u64,
    /// Where the stack of its program begins, which each execve draws anew; 0 without a program, and for who may not know.
    pub start_stack: u64,
    /// The core on which it runs or ran last.
    pub processor: CpuId,
}

impl TaskStat {
    /// That of a process's first thread; `None` when there is no such process.
    pub fn of_process(root: &Root, pid: u32) -> Option<Self> {
        Self::parse(&root.read_up_to(root.proc(format!("{pid}/stat")), TEXT_LIMIT_BYTES).ok()?)
    }

    /// Reads the text of the file; `None` when it is torn or something else.
    pub fn parse(text: &str) -> Option<Self> {
        // The name may hold blanks and parentheses, so the fields are counted from the last closing one.
        let (before, after) = text.rsplit_once(')')?;
        let name = shorten(before.split_once('(')?.1);
        // The first of these is field 3.
        let mut fields = after.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.digits()?;
        let flags = fields.nth(9 - 5)?.digits()?;
        let start_ticks = fields.nth(22 - 10)?.digits()?;
        let start_stack = fields.nth(28 - 23)?.digits()?;
        let processor = fields.nth(39 - 29)?.digits().map(CpuId)?;
        Some(TaskStat { name, state, parent, flags, start_ticks, start_stack, processor })
    }

    /// Whether it is a thread of the kernel.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether the kernel refuses to move it.
    pub fn is_bound(&self) -> bool {
        self.flags & NO_SETAFFINITY != 0
    }

    /// Whether it has ended, also when nobody has collected its exit code yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Each field from the fourth on holds its own number but the flags.
    fn line(name: &str, state: char, flags: u64) -> String {
        let fields: Vec<String> =
            (4..=52).map(|field| if field == 9 { flags.to_string() } else { field.to_string() }).collect();
        format!("7 ({name}) {state} {}\n", fields.join(" "))
    }

    #[test]
    fn each_field_is_taken_from_its_place() {
        let stat = TaskStat::parse(&line("x", 'S', 0)).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.start_ticks, stat.processor), ("x", 'S', 22, CpuId(39)));
        assert_eq!(stat.start_stack, 28);
    }

    #[test]
    fn kernel_threads_are_told_by_their_flag_whatever_their_name() {
        let kinds = |name: &str, flags: u64| {
            let stat = TaskStat::parse(&line(name, 'I', flags)).unwrap();
            (stat.is_kernel_thread(), stat.is_bound())
        };
        assert_eq!(kinds("kthreadd", 2_129_984), (true, false));
        assert_eq!(kinds("a) b (c", 69_238_880), (true, true));
        assert_eq!(kinds("init", 4_194_560), (false, false));
        let ended = |state| TaskStat::parse(&line("x", state, 0)).unwrap().has_ended();
        assert_eq!([ended('Z'), ended('X'), ended('R')], [true, true, false]);
    }

    #[test]
    fn a_torn_line_is_none() {
        let whole = line("a) b", 'S', 0);
        let cut = |end: &str| &whole[..whole.find(end).unwrap()];
        for torn in ["", "7", "7 (a", "7 a) S 1 2", cut(" 39"), cut(" 22"), cut(" S")] {
            assert_eq!(TaskStat::parse(torn), None, "{torn}");
        }
    }

    #[test]
    fn the_running_host_tells_of_this_process() {
        let stat = TaskStat::of_process(&Root::host(), std::process::id()).unwrap();
        assert!(!stat.has_ended() && !stat.is_kernel_thread() && stat.start_ticks > 0);
        assert_eq!(TaskStat::of_process(&Root::host(), u32::MAX), None);
    }

    proptest! {
        #[test]
        fn any_name_leaves_the_fields_where_they_are(name in ".{0,15}", state in "[RSDZTtXI]", flags: u64) {
            let stat = TaskStat::parse(&line(&name, state.chars().next().unwrap(), flags)).unwrap();
            prop_assert_eq!((stat.start_ticks, stat.processor, stat.flags), (22, CpuId(39), flags));
            prop_assert_eq!(stat.name, shorten(&name));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), words in "[() SR0-9-]{0,200}") {
            let _ = (TaskStat::parse(&text), TaskStat::parse(&words));
        }
    }
}
