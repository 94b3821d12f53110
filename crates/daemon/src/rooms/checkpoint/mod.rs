//! Checkpoints of jobs: what lies in the directories that were named, what jobs decided, and how worn the drives are.

mod key_file;
mod series;
mod source;

pub(super) use source::Looker;
pub use source::source;
use surefoot_rooms::checkpoint::view::ANSWER_BYTES_MAX;

use crate::config::Config;
use crate::http::metrics::Scrape;
use crate::rooms::answer::within;
use crate::rooms::{Chart, NowValue, Room, Route};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use surefoot_http::lock;
use surefoot_http::parameters;
use surefoot_model::{Event, Finding, Part};
use surefoot_rooms::Taken;
use surefoot_rooms::checkpoint::{Answer, State, findings};
use surefoot_rooms::moment::Moment;
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Confidential, Public, Seen};

/// Why nothing is known yet.
const NOT_YET: &str = "the first look at the checkpoint directories has not ended yet";
/// What to do where no directory was named.
const NOT_NAMED: &str = "no checkpoint directory is configured; start with: surefoot watch --checkpoints DIR";
/// The same of a recording.
const NOT_RECORDED: &str =
    "this recording holds no checkpoints; record them with: surefoot stall record --checkpoints DIR";

/// What its address answers.
const SAYS: &str = "Checkpoints of jobs, and the drives beneath them.";

/// What its route answers, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    vec![crate::schema::answer::<Answer>(of, "GET /api/v1/checkpoints", SAYS)]
}

/// The room of checkpoints.
pub(crate) struct Checkpoint {
    /// The directories that the source looks into, for the time before its first look.
    directories: Vec<PathBuf>,
    state: Mutex<State>,
}

impl Checkpoint {
    pub(crate) fn new(config: &Config) -> Self {
        let ids = config.run_directory.as_deref().map(key_file::ids_of).unwrap_or_default();
        Checkpoint { directories: config.rooms.checkpoints.clone(), state: Mutex::new(State::with_ids(ids)) }
    }
}

impl Room for Checkpoint {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Checkpoint
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        let Event::Checkpoint(seen) = &**event else { return Taken::NotMine };
        lock(&self.state).take(seen);
        // Who looks at checkpoints asks for them.
        Taken::Kept { is_news: false }
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        findings::of_set(&lock(&self.state), moment.now_realtime_ns, &moment.settings.settings.checkpoint)
    }

    fn parts(&self) -> Vec<Part> {
        let state = lock(&self.state);
        let drives = state.look().and_then(|look| look.drives.as_ref());
        drives.into_iter().flat_map(|drives| &drives.drives).filter_map(findings::part_of).collect()
    }

    fn series(&self, scrape: &mut Scrape) {
        let state = lock(&self.state).clone();
        scrape.write(state, |state, moment, series| series::encode(&state, moment.now_realtime_ns, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        vec![Route::new("/api/v1/checkpoints", SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            let moment = shared.moment();
            let why = self.why_not_watched(&moment);
            let all = (lock(&self.state).clone(), Public((&self.directories, why, moment.now_realtime_ns)));
            Ok(viewer.show(all, |(state, Public((directories, why, now_realtime_ns)))| {
                within(ANSWER_BYTES_MAX, Answer::of(&state, directories, why, now_realtime_ns), Answer::cut)
            }))
        })]
    }

    fn chart(&self, _: &Moment, viewer: Viewer) -> Seen<Option<Chart>> {
        // The age of whose copy it is, it does not say.
        let chart = Confidential::new(age_chart(&lock(&self.state)));
        viewer.show(chart, |chart| chart.shown().flatten())
    }

    fn why_unseen(&self, moment: &Moment) -> Option<String> {
        match () {
            () if lock(&self.state).look().is_some() => None,
            () if moment.is_replay() => Some(NOT_RECORDED.to_owned()),
            () if self.directories.is_empty() => Some(NOT_NAMED.to_owned()),
            () => Some(NOT_YET.to_owned()),
        }
    }
}

/// The age of the oldest durable copy of a running job; it grows until the next look.
fn age_chart(state: &State) -> Option<Chart> {
    let points: Vec<(u64, f64)> = state.ages.iter().copied().collect();
    let (newest_ns, _) = *points.last()?;
    // A look at which no job runs has no point.
    let is_newest = state.look().is_some_and(|look| look.looked_realtime_ns == newest_ns);
    let now = if is_newest { NowValue::Ages } else { NowValue::None };
    Some(Chart { title: "Age of the oldest durable copy", unit: "s", points, now })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{CheckpointEvent, CheckpointLook};

    #[test]
    fn the_age_grows_until_a_look_finds_no_running_job() {
        let mut state = State::default();
        let look = |at| CheckpointLook { looked_realtime_ns: at, ..CheckpointLook::default() };
        assert_eq!(age_chart(&state), None);
        state.ages.push_back((7, 40.0));
        state.take(&CheckpointEvent::Look(look(7)));
        let now = |state: &State| age_chart(state).map(|chart| chart.now);
        assert_eq!(now(&state), Some(NowValue::Ages));
        state.take(&CheckpointEvent::Look(look(8)));
        assert_eq!(now(&state), Some(NowValue::None));
    }
}
