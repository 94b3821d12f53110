//! What is true of a host's stream of events at one moment. Rooms are told the time; they have no clock.

use crate::drops::Dropped;
use crate::viewer::{Private, Viewer};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use surefoot_model::{Capability, CpuId, Event, Finding, Headline, HostDescription, Notice, Room, StreamClock};
use surefoot_settings::{Effective, Reload, SETTINGS};

/// Where the events come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    /// This host, now.
    #[default]
    Live,
    /// A recording. The age of the data is counted from its end.
    Replay {
        /// The recording's name, as the page shows it.
        file: String,
    },
    /// A made-up day that goes on as it is published. Its headline, page and answers say that it is made up, everybody may see all of
    /// it, and its history is in memory alone.
    Demo {
        /// Where to look on the page, and why.
        tour: Vec<Stop>,
    },
}

impl Mode {
    /// The headline of these findings; of made-up ones it says so.
    pub fn headline_of(&self, findings: &[Finding]) -> Headline {
        self.worded(Headline::of(findings))
    }

    /// The headline as it is shown in this mode.
    pub fn worded(&self, headline: Headline) -> Headline {
        match self {
            Mode::Demo { .. } => Headline { sentence: format!("Demo data: {}", headline.sentence), ..headline },
            Mode::Live | Mode::Replay { .. } => headline,
        }
    }
}

/// Something to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TourStop")]
pub struct Stop {
    /// The view of the page, as in its address.
    pub view: &'static str,
    /// One sentence.
    pub sentence: &'static str,
}

/// The stream at one moment.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// Where the events come from.
    pub mode: Mode,
    /// What is set.
    pub settings: Arc<Effective>,
    /// How the last reload of the settings went.
    pub reload: Reload,
    /// Why the history cannot be written now; `None` where it can, and where none is kept.
    pub history_fails: Option<String>,
    /// The number of the newest live event before this moment.
    pub sequence: u64,
    /// Now on the clock of the events; in a replay the end of the data.
    pub now_ns: u64,
    /// The same on the clock of the world.
    pub now_realtime_ns: u64,
    /// How old the newest data are; `None` before the first.
    pub age_ns: Option<u64>,
    /// Older data say nothing about now.
    pub stale_ns: u64,
    /// The host; `None` before it is described.
    pub host: Option<HostDescription>,
    /// What works on it.
    pub capabilities: Vec<Capability>,
    /// What times of the stream are on the clock of the world.
    pub clock: StreamClock,
    /// The events that are notices, oldest first.
    pub notice_events: Vec<Arc<Event>>,
}

impl Moment {
    /// Why a room is not watched, where it is switched off.
    pub fn switched_off(&self, room: Room) -> Option<String> {
        let switch = SETTINGS.iter().find(|one| one.key.strip_suffix(".watched") == Some(room.as_str()))?;
        let (key, is_watched) = (switch.key, switch.value_in(&self.settings.settings)? == "true");
        let is_off = !is_watched && !self.is_replay();
        is_off.then(|| format!("switched off in {} ({key} = false)", self.settings.origin(key)))
    }

    /// The notices, oldest first.
    pub fn notices(&self) -> impl DoubleEndedIterator<Item = &Notice> {
        self.notice_events
            .iter()
            .filter_map(|event| if let Event::Notice(notice) = &**event { Some(notice) } else { None })
    }

    /// The cores that are watched; empty as long as the host is unknown.
    pub fn watched(&self) -> &[CpuId] {
        self.host.as_ref().map_or(&[], |host| &host.cpus)
    }

    /// Whether this is a recording, of a host or made up.
    pub fn is_replay(&self) -> bool {
        self.mode != Mode::Live
    }
}

/// The findings of a moment, the most urgent first, and their headline.
#[derive(Debug, Clone)]
pub struct Findings {
    /// All of them.
    pub all: Vec<Finding>,
    /// The worst in a sentence.
    pub headline: Headline,
}

/// The stream, what all rooms find, and what was lost on the way, at one moment.
pub struct Now {
    /// The stream.
    pub moment: Moment,
    /// What all rooms find.
    pub findings: Findings,
    /// What was lost on the way.
    pub dropped: Dropped,
}

impl Private for Now {
    fn seen_by(self, viewer: Viewer) -> Self {
        let all = viewer.seen(self.findings.all);
        let moment = self.moment.seen_by(viewer);
        Now { findings: Findings { headline: moment.mode.headline_of(&all), all }, moment, dropped: self.dropped }
    }
}

/// Notices may name what others run, and so may the workload.
impl Private for Moment {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            self.notice_events.clear();
            if let Some(host) = &mut self.host {
                host.workload.clear();
            }
        }
        self
    }
}
