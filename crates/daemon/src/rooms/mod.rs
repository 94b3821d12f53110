//! What the watch adds to each room of `surefoot-rooms`, which folds events, judges and answers: a lock, the sources that read the machine
//! (`source.rs` or `source/`), the routes, the series for /metrics (`series.rs`) and one small chart for the overview.
//!
//! A new room is one line in `all`.

pub mod answer;
pub mod apart;
pub mod checkpoint;
pub mod disturb;
pub mod memory;
pub mod nic;
pub mod remedy;
pub mod shown;
pub mod stall;
pub(crate) mod turns;
pub mod watch;

use crate::config::Config;
use crate::http::metrics::Scrape;
use crate::keep::shared::Shared;
use axum::body::Bytes;
use axum::http::Uri;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use surefoot_http::ApiError;
use surefoot_model::{Event, Finding, LostRate, Part};
use surefoot_rooms::Taken;
use surefoot_rooms::drops::Drops;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Public, Seen};
use surefoot_settings::Live;

/// What the rooms are told at the start, each a field of its own where it needs one.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is set of the watch.
    pub settings: Live,
    /// Directories of checkpoints that a source looks into: of a tier, of a job, or anything above.
    pub checkpoints: Vec<PathBuf>,
    /// Where memory errors are looked for.
    pub memory: memory::Options,
    /// Fault campaigns that the page shows.
    pub campaigns: nic::campaign::Options,
    /// Experiments and predictions that the page shows.
    pub disturb: disturb::Options,
    /// Periodic checks.
    pub remedy: remedy::Options,
}

/// The rooms, in the order of the page: the one line that a new room adds.
pub(crate) fn all(config: &Config, drops: &Arc<Drops>) -> Vec<Arc<dyn Room>> {
    vec![
        Arc::new(stall::Stall::new(config, Arc::clone(drops))),
        Arc::new(memory::Memory::new(config)),
        Arc::new(checkpoint::Checkpoint::new(config)),
        Arc::new(nic::Nic::new(config)),
        Arc::new(disturb::Disturb::new(config)),
        Arc::new(remedy::Remedy::new(config)),
        Arc::new(watch::Watch::new(config, Arc::clone(drops))),
    ]
}

/// What the routes of the rooms answer, as JSON Schema.
#[cfg(test)]
pub(crate) fn schemas(generator: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    [
        stall::schemas(generator),
        memory::schemas(generator),
        checkpoint::schemas(generator),
        nic::schemas(generator),
        disturb::schemas(generator),
        remedy::schemas(generator),
        watch::schemas(generator),
    ]
    .concat()
}

/// What every room does. Its state is behind a lock of its own, so that a long answer of one does not hold up another.
pub(crate) trait Room: Send + Sync {
    /// Which one it is.
    fn room(&self) -> surefoot_model::Room;

    /// Takes an event in, if it is one of its own.
    fn take(&self, event: &Arc<Event>) -> Taken;

    /// What it finds at this moment.
    fn findings(&self, moment: &Moment) -> Vec<Finding>;

    /// What the host's cores lost in the last minute, if this room is the one that knows.
    fn lost(&self, _moment: &Moment) -> Option<LostRate> {
        None
    }

    /// The host's parts that it knows by their serial numbers.
    fn parts(&self) -> Vec<Part> {
        Vec::new()
    }

    /// Writes its metric families, whose names begin with the room's.
    fn series(&self, scrape: &mut Scrape);

    /// Its addresses under /api/v1.
    fn routes(self: Arc<Self>) -> Vec<Route>;

    /// What changed lately, small; `None` where a line would say nothing.
    fn chart(&self, _moment: &Moment, viewer: Viewer) -> Seen<Option<Chart>> {
        viewer.show(Public(()), |_| None)
    }

    /// Why it looks at nothing, and what to do; `None` where it does look.
    fn why_not_watched(&self, moment: &Moment) -> Option<String> {
        moment.switched_off(self.room()).or_else(|| self.why_unseen(moment))
    }

    /// Why nothing was seen so far, where it is switched on.
    fn why_unseen(&self, _moment: &Moment) -> Option<String> {
        None
    }
}

/// An address below the root.
pub(crate) struct Route {
    /// Below the root, such as `/api/v1/who`.
    pub(crate) path: &'static str,
    /// What it answers, a sentence.
    pub(crate) about: &'static str,
    pub(crate) answer: Box<Answer>,
    pub(crate) weight: Weight,
}

/// What an answer costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Little.
    Light,
    /// It may be several MiB: few of them are in memory at one time.
    Large,
    /// It takes long as well: the server's one thread goes on meanwhile.
    Slow,
}

/// Answers a question with the text of a JSON object.
type Answer = dyn Fn(&Shared, Viewer, &Uri) -> Result<Seen<Bytes>, ApiError> + Send + Sync;

impl Route {
    pub(crate) fn new(
        path: &'static str,
        about: &'static str,
        answer: impl Fn(&Shared, Viewer, &Uri) -> Result<Seen<Bytes>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Route { path, about, answer: Box::new(answer), weight: Weight::Large }
    }

    /// One that reads files or computes before it answers.
    pub(crate) fn slow(
        path: &'static str,
        about: &'static str,
        answer: impl Fn(&Shared, Viewer, &Uri) -> Result<Seen<Bytes>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Route { weight: Weight::Slow, ..Route::new(path, about, answer) }
    }

    /// One with a short answer.
    pub(crate) fn light(
        path: &'static str,
        about: &'static str,
        answer: impl Fn(&Shared, Viewer, &Uri) -> Result<Seen<Bytes>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Route { weight: Weight::Light, ..Route::new(path, about, answer) }
    }
}

/// One line over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Chart {
    /// What it shows, in a few words.
    pub(crate) title: &'static str,
    /// `ns_per_s`, `s` or `count`.
    pub(crate) unit: &'static str,
    /// `CLOCK_REALTIME` nanoseconds and the value, oldest first.
    pub(crate) points: Vec<(u64, f64)>,
    /// The value now.
    pub(crate) now: NowValue,
}

/// What the last point of a chart says of the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NowValue {
    /// The value is still that of the last point.
    Last,
    /// The value is an age: it has grown by the time since the last point.
    Ages,
    /// There is no value now.
    None,
}
