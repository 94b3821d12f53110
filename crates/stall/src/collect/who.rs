//! The raisers' programs beside the collector's: the same ledger, one more event now and then.

use crate::Error;
use crate::gap::tapes::Traced;
use crate::who::{Watch, WhoConfig, refuse_in_a_namespace};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CpuId, Event};
use surefoot_sys::thread;

/// How often the report so far flows as an event.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The watch, and when it told last.
pub(crate) struct WhoSide {
    watch: Watch,
    told: Instant,
}

impl WhoSide {
    /// Attaches beside the programs; `missing` says why there are none.
    pub(crate) fn attach(
        root: &Root,
        traced: Option<&mut Traced>,
        config: &WhoConfig,
        missing: &str,
    ) -> Result<Self, Error> {
        let Some(traced) = traced else {
            return Err(Error::Probes(surefoot_probes::Error::Unsupported {
                why: format!("naming raisers needs eBPF, which is not to be had ({missing})"),
                remedy: "leave out --who to watch with less".into(),
            }));
        };
        refuse_in_a_namespace()?;
        Ok(WhoSide { watch: Watch::attach_for_good(root, traced, config)?, told: Instant::now() })
    }

    /// Waits, and looks meanwhile. Whether much happens.
    pub(crate) fn look_for(&mut self, time: Duration, traced: &mut Traced) -> bool {
        let start = Instant::now();
        while let Some(left) = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            thread::rest(part(left, self.watch.rest()));
            self.watch.look(traced);
        }
        self.watch.is_busy()
    }

    /// The cores whose tapes it reads.
    pub(crate) fn cpus(&self) -> &[CpuId] {
        self.watch.cpus()
    }

    /// What there is to tell after a window.
    pub(crate) fn events(&mut self, traced: &mut Traced) -> Vec<Event> {
        let mut events: Vec<Event> = self.watch.take_notices().into_iter().map(Event::Notice).collect();
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            events.push(Event::Who(Box::new(self.watch.report_so_far(traced))));
        }
        events
    }

    /// The report up to now.
    pub(crate) fn last_word(&mut self, traced: &mut Traced) -> Event {
        self.watch.look(traced);
        Event::Who(Box::new(self.watch.report_so_far(traced)))
    }
}

/// The first of as few equal parts as no one is longer than `longest`: no look is to be followed by another one at once,
/// because the time ends.
fn part(left: Duration, longest: Duration) -> Duration {
    let parts = left.as_nanos().div_ceil(longest.as_nanos().max(1)).clamp(1, u128::from(u32::MAX));
    left / parts as u32
}

#[cfg(test)]
mod tests {
    use super::part;
    use std::time::Duration;

    #[test]
    fn the_time_between_two_looks_of_the_collector_is_divided_evenly() {
        let ms = Duration::from_millis;
        assert_eq!(part(ms(100), ms(100)), ms(100));
        assert_eq!(part(ms(100), ms(90)), ms(50));
        assert_eq!(part(ms(100), ms(20)), ms(20));
        assert_eq!(part(ms(3), ms(5)), ms(3));
        assert_eq!(part(ms(3), Duration::ZERO), Duration::ZERO.max(ms(3) / 3_000_000));
    }
}
