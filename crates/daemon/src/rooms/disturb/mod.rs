//! Experiments that disturb this host and measure what that does to a workload; and predictions for many nodes.

mod predictions;
mod series;
mod source;

pub use crate::rooms::shown::ShownFile as PredictionFile;
pub use predictions::FILES_MAX;
pub(super) use source::{Experiments, Journals};
pub use source::{events_of, source};

use crate::config::{Config, Mode};
use crate::http::metrics::Scrape;
use crate::rooms::answer::within;
use crate::rooms::{Room, Route};
use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use predictions::Predictions;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use surefoot_http::{ApiError, lock, parameters};
use surefoot_model::{Event, Finding};
use surefoot_rooms::Taken;
use surefoot_rooms::disturb::view::{ANSWER_BYTES_MAX, NotKept};
use surefoot_rooms::disturb::{Answer, State, findings};
use surefoot_rooms::moment::Moment;
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Confidential, Public, Seen};

/// What the room is told at the start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the journals of experiments lie.
    pub directories: Vec<PathBuf>,
    /// Whether somebody named them. Otherwise each is this user's own, below /run, where no other user can mount anything.
    pub is_named: bool,
    /// Files of predictions that the page shows.
    pub predictions: Vec<Arc<PredictionFile>>,
}

/// Why a recording shows none.
const NOT_RECORDED: &str = "this recording holds no experiments; record one with: surefoot disturb run --record FILE";
/// Where nobody has made one.
const NOT_MADE: &str = "no experiment was made here since the host started; `surefoot disturb run` makes one";

/// What its address answers.
const SAYS: &str =
    "Experiments that disturb this host, predictions for many nodes, and with experiment=NAME its runs and stalls.";

/// What its route answers, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    vec![crate::schema::answer::<Answer>(of, "GET /api/v1/disturb", SAYS)]
}

/// The experiment that is asked for beside the list.
///
/// # Errors
/// Another parameter than `experiment`.
fn wanted(uri: &Uri) -> Result<Option<String>, ApiError> {
    Ok(parameters(uri, &["experiment"])?.into_iter().next().map(|(_, name)| name))
}

/// The room of experiments.
pub(crate) struct Disturb {
    is_live: bool,
    state: Mutex<State>,
    predictions: Mutex<Predictions>,
}

impl Disturb {
    pub(crate) fn new(config: &Config) -> Self {
        let predictions = Mutex::new(Predictions::new(&config.rooms.disturb.predictions));
        Disturb { is_live: config.mode == Mode::Live, state: Mutex::default(), predictions }
    }

    fn answer(&self, wanted: Option<&str>, viewer: Viewer) -> Result<Seen<Bytes>, ApiError> {
        let state = lock(&self.state).in_short(wanted);
        let is_none_named = lock(&self.predictions).is_none_named();
        // The files are who named them; what they say of other machines is for those who see everything here.
        let predictions = Confidential::new(&self.predictions);
        let all = (state, predictions, Public((wanted, is_none_named, self.why())));
        let answer = viewer.show(all, |(state, predictions, Public((wanted, is_none_named, why)))| {
            let why = (state.is_empty() && is_none_named).then(|| why.to_owned());
            let none = |none: NotKept| ApiError::new(StatusCode::NOT_FOUND, none.to_string());
            let mut answer = Answer::of(&state, wanted, why).map_err(none)?;
            if let Some(predictions) = predictions.shown() {
                let mut predictions = lock(predictions);
                let (kept, problems) = predictions.read_on();
                answer.predictions = kept.to_vec();
                answer.problems.extend(problems);
            }
            Ok(within(ANSWER_BYTES_MAX, answer, Answer::cut))
        });
        answer.transpose()
    }

    fn why(&self) -> &'static str {
        if self.is_live { NOT_MADE } else { NOT_RECORDED }
    }
}

impl Room for Disturb {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Disturb
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        let Event::Disturb(seen) = &**event else { return Taken::NotMine };
        lock(&self.state).take(seen);
        // Who looks at experiments asks for them.
        Taken::Kept { is_news: false }
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        findings::of_set(&lock(&self.state), moment.now_realtime_ns, &moment.settings.settings.disturb)
    }

    fn series(&self, scrape: &mut Scrape) {
        let state = lock(&self.state).in_short(None);
        scrape.write(state, |state, moment, series| series::encode(&state, moment.now_realtime_ns, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        vec![Route::slow("/api/v1/disturb", SAYS, move |_, viewer, uri| self.answer(wanted(uri)?.as_deref(), viewer))]
    }

    fn why_unseen(&self, _: &Moment) -> Option<String> {
        let state = lock(&self.state);
        let is_unread = state.last_look().is_some_and(|look| look.directories_unread > 0);
        (state.is_empty() && !is_unread).then(|| self.why().to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_experiment_is_asked_for_by_name_and_nothing_else_is() {
        let of = |query: &str| wanted(&format!("/api/v1/disturb{query}").parse().unwrap());
        assert_eq!(of("").unwrap(), None);
        assert_eq!(of("?experiment=a").unwrap().as_deref(), Some("a"));
        assert!(of("?job=1").is_err());
    }
}
