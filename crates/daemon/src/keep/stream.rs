//! What is true of the stream of events as a whole: the host, what works on it, notices, and how far it has come.

use std::sync::Arc;
use surefoot_hostfs::clock;
use surefoot_model::{Capability, Event, HostDescription, StreamClock};
use surefoot_rooms::moment::{Mode, Moment};
use surefoot_rooms::ring::Ring;
use surefoot_settings::Live;

/// Notices that are kept, and memory for them.
const NOTICES_MAX: usize = 100;
const NOTICES_BYTES_MAX: usize = 1 << 20;

/// The stream so far.
pub(crate) struct Stream {
    mode: Mode,
    settings: Live,
    host: Option<HostDescription>,
    capabilities: Vec<Capability>,
    notices: Ring,
    clock: StreamClock,
    /// Length and end of the newest window; looks of other sources, which come in between, must not hide that it is late.
    window: Option<(u64, u64)>,
    /// Events that were told to the live clients.
    pub(crate) sequence: u64,
}

impl Stream {
    pub(crate) fn new(mode: Mode, settings: Live) -> Self {
        let notices = Ring::new(NOTICES_MAX, NOTICES_BYTES_MAX);
        Stream {
            mode,
            settings,
            host: None,
            capabilities: Vec::new(),
            notices,
            clock: StreamClock::default(),
            window: None,
            sequence: 0,
        }
    }

    /// Takes note of an event; tells whether it is kept here.
    pub(crate) fn take(&mut self, event: &Arc<Event>) -> bool {
        self.clock.take(event);
        match &**event {
            Event::Host(host) => self.host = Some(host.clone()),
            Event::Capabilities { capabilities } => self.capabilities.clone_from(capabilities),
            Event::Window(window) => {
                self.window = Some((window.end_ns.saturating_sub(window.start_ns), window.end_ns));
            }
            Event::Notice(_) => return self.notices.push(Arc::clone(event)),
            // Kept by the clock; pages show times by it.
            Event::Clock(_) => return true,
            _ => {}
        }
        false
    }

    /// Where the events come from.
    pub(crate) fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Now on the clock of the events. A recording's time stands still at its end.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.mode {
            Mode::Live => clock::monotonic_ns(),
            Mode::Replay { .. } | Mode::Demo { .. } => self.clock.newest_ns.unwrap_or(0),
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        let now_ns = self.now_ns();
        let settings = self.settings.now();
        let of = &settings.settings.watch;
        let stale_ns = u64::try_from(of.stale_after.as_nanos()).unwrap_or(u64::MAX);
        let window_ns = self.window.map_or(0, |(length_ns, _)| length_ns);
        Moment {
            history_fails: None,
            mode: self.mode.clone(),
            reload: self.settings.last_reload(),
            sequence: self.sequence,
            now_ns,
            now_realtime_ns: self.realtime_ns(now_ns),
            age_ns: self
                .window
                .map(|(_, end_ns)| end_ns)
                .or(self.clock.newest_ns)
                .map(|newest_ns| now_ns.saturating_sub(newest_ns)),
            stale_ns: window_ns.saturating_mul(of.stale_windows).max(stale_ns),
            settings,
            host: self.host.clone(),
            capabilities: self.capabilities.clone(),
            clock: self.clock.clone(),
            notice_events: self.notices.events().cloned().collect(),
        }
    }

    fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        match self.mode {
            // Before the host's description comes, this machine's own clock will do.
            Mode::Live if self.clock.first_offset_ns().is_none() => clock::realtime_ns(),
            _ => self.clock.realtime_ns(monotonic_ns),
        }
    }
}
