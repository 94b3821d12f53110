//! What is true of the stream of events as a whole: the host, what works on it, notices, and how far it has come.

use crate::config::Mode;
use crate::http::access::Viewer;
use crate::http::seen::Private;
use crate::keep::ring::Ring;
use std::sync::Arc;
use surefoot_hostfs::clock;
use surefoot_model::{Capability, CpuId, Event, HostDescription, Notice, Room, StreamClock};
use surefoot_settings::{Effective, Live, Reload, SETTINGS};

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

/// The stream at one moment.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) mode: Mode,
    /// What is set.
    pub(crate) settings: Arc<Effective>,
    /// How the last reload of the settings went.
    pub(crate) reload: Reload,
    /// Why the history cannot be written now; `None` where it can, and where none is kept.
    pub(crate) history_fails: Option<String>,
    /// The number of the newest live event before this moment.
    pub(crate) sequence: u64,
    /// Now on the clock of the events; in a replay the end of the data.
    pub(crate) now_ns: u64,
    /// The same on the clock of the world.
    pub(crate) now_realtime_ns: u64,
    /// How old the newest data are; `None` before the first.
    pub(crate) age_ns: Option<u64>,
    /// Older data say nothing about now.
    pub(crate) stale_ns: u64,
    pub(crate) host: Option<HostDescription>,
    pub(crate) capabilities: Vec<Capability>,
    /// What times of the stream are on the clock of the world.
    pub(crate) clock: StreamClock,
    notices: Vec<Arc<Event>>,
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
            notices: self.notices.events().cloned().collect(),
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

impl Moment {
    /// Why a room is not watched, where it is switched off.
    pub(crate) fn switched_off(&self, room: Room) -> Option<String> {
        let switch = SETTINGS.iter().find(|one| one.key.strip_suffix(".watched") == Some(room.as_str()))?;
        let (key, is_watched) = (switch.key, switch.value_in(&self.settings.settings)? == "true");
        let is_off = !is_watched && !self.is_replay();
        is_off.then(|| format!("switched off in {} ({key} = false)", self.settings.origin(key)))
    }

    /// The notices, oldest first.
    pub(crate) fn notices(&self) -> impl DoubleEndedIterator<Item = &Notice> {
        self.notices.iter().filter_map(|event| if let Event::Notice(notice) = &**event { Some(notice) } else { None })
    }

    /// The cores that are watched; empty as long as the host is unknown.
    pub(crate) fn watched(&self) -> &[CpuId] {
        self.host.as_ref().map_or(&[], |host| &host.cpus)
    }

    /// Whether this is a recording, of a host or made up.
    pub(crate) fn is_replay(&self) -> bool {
        self.mode != Mode::Live
    }
}

/// Notices may name what others run, and so may the workload.
impl Private for Moment {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            self.notices.clear();
            if let Some(host) = &mut self.host {
                host.workload.clear();
            }
        }
        self
    }
}
