//! The raisers' programs beside the collector's: the same ledger, one more event now and then.

use crate::Error;
use crate::gap::tapes::Traced;
use crate::who::{Watch, WhoConfig};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CpuId, Event};

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
        Ok(WhoSide { watch: Watch::attach_for_good(root, traced, config)?, told: Instant::now() })
    }

    /// Waits, and looks meanwhile.
    pub(crate) fn look_for(&mut self, time: Duration, traced: &mut Traced) {
        let start = Instant::now();
        while let Some(rest) = time.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
            std::thread::sleep(self.watch.rest().min(rest));
            self.watch.look(traced);
        }
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
