//! How long the calling thread could run and waited for its core, as the scheduler counts it.
//!
//! Without tracing this alone tells a task that took the core from a hypervisor that did: the first makes the thread wait in
//! a queue of this kernel, the second does not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// Reads the wait of the thread that opened it.
pub(crate) struct RunDelay {
    file: File,
    last_ns: u64,
}

impl RunDelay {
    /// Of the calling thread; `None` where the kernel does not count it.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let file = File::open(Root::host().proc("thread-self/schedstat")).ok()?;
        let mut delay = RunDelay { file, last_ns: 0 };
        let (ran_ns, waited_ns) = delay.read()?;
        // A kernel that keeps no such times shows zeroes, and this thread has run.
        delay.last_ns = waited_ns;
        (ran_ns > 0).then_some(delay)
    }

    /// As if this file told it of a thread that has not waited yet.
    #[cfg(test)]
    pub(super) fn of_file(file: File) -> Self {
        RunDelay { file, last_ns: 0 }
    }

    /// How long it has waited since the last call; `None` if that cannot be read, and then the next call counts from there.
    pub(crate) fn since_ns(&mut self) -> Option<u64> {
        let (_, waited_ns) = self.read()?;
        let since_ns = waited_ns.checked_sub(self.last_ns)?;
        self.last_ns = waited_ns;
        Some(since_ns)
    }

    /// How long the thread has run and waited; allocates nothing.
    fn read(&self) -> Option<(u64, u64)> {
        let mut text = [0u8; 64];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::digits);
        Some((numbers.next()??, numbers.next()??))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_hostfs::clock;
    use surefoot_sys::thread;
    use surefoot_testkit::not_run::not_run;

    /// Two threads that spin on one core wait for each other half of the time.
    #[test]
    fn a_thread_that_shares_its_core_waits_for_it_and_knows_how_long() {
        const TEST: &str = "a_thread_that_shares_its_core_waits_for_it_and_knows_how_long";
        const LONG_NS: u64 = 400_000_000;
        let cpu = thread::affinity().unwrap()[0];
        let both = std::sync::Barrier::new(2);
        let spin = || {
            thread::pin_to(cpu).unwrap();
            both.wait();
            // Before its waiting is counted: what it waits in between is in both.
            let start_ns = clock::monotonic_ns();
            let mut delay = RunDelay::of_this_thread()?;
            while clock::monotonic_ns() - start_ns < LONG_NS {
                std::hint::spin_loop();
            }
            Some((delay.since_ns().unwrap(), clock::monotonic_ns() - start_ns))
        };
        let found = std::thread::scope(|scope| {
            let threads = [scope.spawn(spin), scope.spawn(spin)];
            threads.map(|thread| thread.join().unwrap())
        });
        for found in found {
            let Some((waited_ns, took_ns)) = found else {
                return not_run(TEST, "the kernel does not count how long threads wait");
            };
            assert!(waited_ns > 0 && waited_ns <= took_ns, "{waited_ns} of {took_ns} ns");
        }
    }
}
