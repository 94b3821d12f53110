//! How long the kernel handles what was reported: it queues machine checks, and a worker decodes, traces and logs them.
//!
//! The worker's function is one of a kernel without modules, and its work is one for the whole machine, so that what begins ends
//! before the next begins. Its events are filtered in the kernel: no other work writes a line.

use super::instance::Instance;
use surefoot_hostfs::Root;
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::Tracefs;

/// What handles the queue (`mce_gen_pool_process` in the kernel's arch/x86/kernel/cpu/mce).
const FUNCTION: &str = "mce_gen_pool_process";
const GROUP: &str = "workqueue";
const BEGINS: &str = "workqueue_execute_start";
const ENDS: &str = "workqueue_execute_end";

/// How often records were handled, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handled {
    /// Runs of the worker, each for one record or for several that came together.
    pub count: u64,
    /// All of them, nanoseconds.
    pub total_ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
}

/// Times the worker.
#[derive(Debug, Default)]
pub(super) struct Handling {
    began_ns: Option<u64>,
    handled: Handled,
}

impl Handling {
    /// Lets the worker's events be traced; `None` where this kernel has none, or hides where its functions are.
    pub(super) fn enable(instance: &Instance, tracefs: &Tracefs, root: &Root) -> Option<Self> {
        let has_function =
            |name| tracefs.event_format(GROUP, name).is_ok_and(|format| format.field("function").is_some());
        if !has_function(BEGINS) || !has_function(ENDS) {
            return None;
        }
        let address = Symbols::load(root).ok()?.address(FUNCTION).filter(|&address| address != 0)?;
        let filter = format!("function == {address:#x}");
        for name in [BEGINS, ENDS] {
            instance.filter(GROUP, name, &filter).ok()?;
        }
        [BEGINS, ENDS].iter().all(|name| instance.enable(GROUP, name).is_ok()).then(Handling::default)
    }

    /// Takes a line of the worker's events in; whether it was one.
    pub(super) fn take(&mut self, name: &str, text: &str, at_ns: u64) -> bool {
        if !text.ends_with(FUNCTION) {
            return false;
        }
        match name {
            BEGINS => self.began_ns = Some(at_ns),
            ENDS => {
                let Some(took_ns) = self.began_ns.take().and_then(|began_ns| at_ns.checked_sub(began_ns)) else {
                    return true;
                };
                self.handled.count += 1;
                self.handled.total_ns = self.handled.total_ns.saturating_add(took_ns);
                self.handled.longest_ns = self.handled.longest_ns.max(took_ns);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn handled(&self) -> Handled {
        self.handled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_ends_is_timed_and_nothing_else() {
        let mut handling = Handling::default();
        let work = "work struct 00000000ab12: function mce_gen_pool_process";
        // Its beginning was not seen.
        assert!(handling.take(ENDS, work, 900));
        assert_eq!(handling.handled(), Handled::default());
        for (begins, ends) in [(1_000, 4_000), (10_000, 11_000)] {
            assert!(handling.take(BEGINS, work, begins) && handling.take(ENDS, work, ends));
        }
        assert!(!handling.take(BEGINS, "work struct 00000000ab12: function vmstat_update", 20_000));
        assert!(!handling.take("mce_record", "CPU: 0, function mce_gen_pool_process", 20_000));
        // The clock of another core may be behind.
        assert!(handling.take(BEGINS, work, 30_000) && handling.take(ENDS, work, 29_999));
        assert_eq!(handling.handled(), Handled { count: 2, total_ns: 4_000, longest_ns: 3_000 });
    }
}
