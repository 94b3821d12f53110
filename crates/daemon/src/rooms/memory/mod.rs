//! Memory errors: every module, the fault that its errors point to, whether the accounting works, and what it costs.

mod counts_file;
mod series;
pub(crate) mod source;
mod tree;

pub use counts_file::CountsFile;
use surefoot_rooms::memory::view::ANSWER_BYTES_MAX;
pub(super) use tree::{Begin, Tree};

use crate::config::{Config, Mode};
use crate::http::metrics::Scrape;
use crate::rooms::answer::within;
use crate::rooms::{Chart, NowValue, Room, Route};
use crate::sources::Start;
use axum::body::Bytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use surefoot_hostfs::Root;
use surefoot_http::lock;
use surefoot_http::{ApiError, json_text, parameters};
use surefoot_memory::bmc::Sources;
use surefoot_memory::presence;
use surefoot_memory::tune::Cores;
use surefoot_model::{Event, Finding, Part};
use surefoot_rooms::Taken;
use surefoot_rooms::memory::{Answer, IntervalAnswer, State, findings};
use surefoot_rooms::moment::Moment;
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Public, Seen};
use surefoot_settings::Live;

/// Why a recording shows none.
const NOT_RECORDED: &str = "this recording holds no memory errors; the host that it is of had no source of them, or the \
                            release that made it did not look";
/// Before the first look.
const NOT_YET: &str = "the first look at the memory errors has not ended yet";

/// What its address answers.
const SAYS: &str = "Memory modules, their errors and faults, and what reporting them costs.";
/// What the other answers.
const INTERVAL_SAYS: &str = "What each interval of polling for memory errors would cost and lose.";

/// What the room is told at the start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A recorded tree whose memory errors are looked at, instead of this host's.
    pub host_root: Option<PathBuf>,
    /// Management controllers that are asked as well.
    pub bmc: Sources,
    /// The file that keeps the counts between runs.
    pub state: Option<PathBuf>,
    /// The history, whose reports of errors, imported ones among them, tell of faults.
    pub history: Option<PathBuf>,
}

impl Options {
    /// Where memory errors are looked for.
    pub fn root(&self, root: &Root) -> Root {
        self.host_root.as_ref().map_or_else(|| root.clone(), Root::at)
    }

    /// Whether there is anything to ask: a source on this host or tree, or a management controller.
    pub fn is_any(&self, root: &Root) -> bool {
        self.bmc.is_any() || presence::unsupported(&self.root(root)).is_none()
    }

    /// The source.
    pub fn source(self, root: &Root, settings: &Live) -> Start {
        let of = self.root(root);
        source::source(&of, self, settings)
    }
}

/// What its routes answer, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    vec![
        crate::schema::answer::<Answer>(of, "GET /api/v1/memory", SAYS),
        crate::schema::answer::<IntervalAnswer>(of, "GET /api/v1/memory/interval", INTERVAL_SAYS),
    ]
}

/// The room of memory errors.
pub(crate) struct Memory {
    /// Why this host has none to show; `None` where it has, and in a replay.
    unsupported: Option<String>,
    /// Whose memory is looked at; `None` in a replay.
    root: Option<Root>,
    /// The cores that a recorded tree tells of: it is not read again when somebody asks, for its file system may not answer then.
    tree_cores: Option<Cores>,
    state: Mutex<State>,
    intervals: Intervals,
}

/// The picture of the intervals, which takes some tenths of a second to draw and hardly changes.
#[derive(Default)]
struct Intervals(Mutex<Option<(f64, Cores, Bytes)>>);

impl Intervals {
    fn answer(&self, worst_per_s: f64, cores: Cores) -> Result<Bytes, ApiError> {
        // One is drawn at a time, and again where the rate is another by a tenth.
        let mut kept = lock(&self.0);
        let is_same = |then: f64| (then - worst_per_s).abs() <= then.abs() / 10.0;
        if let Some((_, _, text)) = kept.as_ref().filter(|(then, of_cores, _)| is_same(*then) && *of_cores == cores) {
            return Ok(text.clone());
        }
        let answer =
            IntervalAnswer::of(worst_per_s, cores).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let text = json_text(&answer);
        *kept = Some((worst_per_s, cores, text.clone()));
        Ok(text)
    }
}

impl Memory {
    pub(crate) fn new(config: &Config) -> Self {
        let options = &config.rooms.memory;
        let root = options.root(&Root::host());
        let why = || presence::unsupported(&root).filter(|_| !options.bmc.is_any()).map(|why| why.to_string());
        let unsupported = (config.mode == Mode::Live).then(why).flatten();
        let root = (config.mode == Mode::Live).then_some(root);
        let tree_cores = root.as_ref().filter(|root| !root.is_host()).map(Cores::of);
        Memory { unsupported, root, tree_cores, state: Mutex::default(), intervals: Intervals::default() }
    }
}

impl Room for Memory {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Memory
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        lock(&self.state).take(event);
        if !matches!(**event, Event::Memory(_)) {
            return Taken::NotMine;
        }
        // Who looks at memory errors asks for them.
        Taken::Kept { is_news: false }
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        // A recording does not tell which bound held.
        let limit = (!moment.is_replay()).then_some(moment.settings.settings.memory.rate_limit_per_s);
        findings::of_set(&lock(&self.state), limit)
    }

    fn parts(&self) -> Vec<Part> {
        let state = lock(&self.state);
        state.look_if_supported().into_iter().flat_map(|look| &look.dimms).filter_map(findings::part_of).collect()
    }

    fn series(&self, scrape: &mut Scrape) {
        let state = lock(&self.state).clone();
        scrape.write(state, |state, moment, series| series::encode(&state, moment.now_realtime_ns, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        let room = Arc::clone(&self);
        let all = Route::new("/api/v1/memory", SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            let why = self.why_not_watched(&shared.moment());
            let all = (lock(&self.state).clone(), Public(why));
            Ok(viewer.show(all, |(state, Public(why))| within(ANSWER_BYTES_MAX, Answer::of(&state, why), Answer::cut)))
        });
        let interval = Route::new("/api/v1/memory/interval", INTERVAL_SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            // Those of the host, or of the tree, whose memory is looked at; of a recording those of the host that it is of.
            let cores = match (&room.root, room.tree_cores) {
                (_, Some(cores)) => cores,
                (Some(root), None) => Cores::of(root),
                (None, None) => Cores::told(shared.moment().host.map(|host| host.cpus.len())),
            };
            let worst_per_s = lock(&room.state).worst_per_s();
            let text = room.intervals.answer(worst_per_s, cores)?;
            Ok(viewer.show(Public(text), |Public(text)| text))
        });
        vec![all, interval]
    }

    fn chart(&self, _: &Moment, viewer: Viewer) -> Seen<Option<Chart>> {
        let points: Vec<(u64, f64)> = lock(&self.state).rises.iter().copied().collect();
        viewer.show(Public(points), |Public(points)| {
            (!points.is_empty()).then_some(Chart {
                title: "Corrected memory errors since the look before",
                unit: "count",
                points,
                now: NowValue::Last,
            })
        })
    }

    fn why_unseen(&self, moment: &Moment) -> Option<String> {
        let look = lock(&self.state).look.as_ref().map(|look| look.unsupported.clone());
        match look {
            Some(unsupported) => unsupported,
            None if moment.is_replay() => Some(NOT_RECORDED.to_owned()),
            None => Some(self.unsupported.clone().unwrap_or_else(|| NOT_YET.to_owned())),
        }
    }
}
