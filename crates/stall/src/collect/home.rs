//! Where the threads of a watch run when every core is watched: all on one core, while little happens.
//!
//! A thread that wakes another one on an idle core sends that core an interrupt, and each wake-up there takes a timer and
//! ticks. On one core the threads of a watch wake each other for nothing, and the other cores are left alone. While much
//! happens, or when the core has no time for them, they run wherever there is room.

use crate::config::{Config, allowed_cores, housekeeping_core};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// What the names of this program's threads begin with. Those that are tied to a core by their work have others.
const OWN_THREADS: &str = "surefoot";

/// A rest that ends so much later than it should: the core has no time for us.
const LATE: Duration = Duration::from_millis(20);

/// Threads that were let go stay so for this time at first; for twice as long each time that it was too short.
const APART: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// Where the threads are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Grouping {
    Together,
    Apart { since: Instant },
}

/// The core that they share, and whether they do.
#[derive(Debug)]
pub(crate) struct Home {
    core: CpuId,
    place: Grouping,
    apart_for: Duration,
}

impl Home {
    /// Brings the threads together, where they may run on watched cores because there are no others.
    pub(crate) fn gather(config: &Config, root: &Root) -> Option<Self> {
        let allowed = allowed_cores();
        let all_are_watched = allowed.len() > 1 && allowed.iter().all(|cpu| config.cpus.contains(cpu));
        // Threads that were kept off some cores are where they should be; a sentinel needs its core for itself.
        let is_free = thread::affinity().is_ok_and(|now| now == allowed) && config.sentinel.is_none();
        if !(config.gather && all_are_watched && is_free) {
            return None;
        }
        let home = Home { core: housekeeping_core(&[], root)?, place: Grouping::Together, apart_for: APART.0 };
        home.settle();
        Some(home)
    }

    /// After a rest: by how much it was too long, and whether much happens.
    pub(crate) fn rested(&mut self, late: Duration, is_busy: bool) {
        if self.decide(late >= LATE || is_busy, Instant::now()) {
            self.settle();
        }
    }

    /// Whether the threads are to go elsewhere now.
    fn decide(&mut self, is_crowded: bool, now: Instant) -> bool {
        match self.place {
            Grouping::Together if is_crowded => self.place = Grouping::Apart { since: now },
            Grouping::Apart { .. } if is_crowded => {
                self.place = Grouping::Apart { since: now };
                return false;
            }
            Grouping::Apart { since } if now.duration_since(since) >= self.apart_for => {
                self.place = Grouping::Together;
                self.apart_for = (self.apart_for * 2).min(APART.1);
            }
            _ => return false,
        }
        true
    }

    fn settle(&self) {
        let here = [self.core];
        let cores = if self.place == Grouping::Together { &here[..] } else { allowed_cores() };
        // A refusal leaves them where they were, which disturbs but does not falsify.
        thread::pin_threads(OWN_THREADS, cores);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_apart_at_once_and_come_together_after_a_quiet_while_that_grows() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut home = Home { core: CpuId(0), place: Grouping::Together, apart_for: APART.0 };
        assert!(!home.decide(false, at(1)), "they stay together");
        assert!(home.decide(true, at(2)));
        assert!(!home.decide(true, at(5)) && !home.decide(false, at(14)), "ten seconds since it was crowded last");
        assert!(home.decide(false, at(15)) && home.place == Grouping::Together);
        assert!(home.decide(true, at(16)));
        assert!(!home.decide(false, at(35)) && home.decide(false, at(36)), "twice as long");
        for _ in 0..20 {
            home.decide(true, at(40));
            home.decide(false, at(40) + APART.1);
        }
        assert_eq!(home.apart_for, APART.1);
    }

    #[test]
    fn threads_are_left_alone_unless_they_are_asked_to_gather() {
        let config = Config { cpus: allowed_cores().to_vec(), ..Config::default() };
        assert!(Home::gather(&config, &Root::host()).is_none());
        let some = allowed_cores().iter().copied().skip(1).collect();
        assert!(Home::gather(&Config { cpus: some, gather: true, ..Config::default() }, &Root::host()).is_none());
        assert_eq!(thread::affinity().ok().as_deref(), Some(allowed_cores()));
    }
}
