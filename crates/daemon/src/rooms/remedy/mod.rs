//! Remedies, as a host sees them: its periodic checks. What was done here is among the host's deeds; cases are at `remedy serve`.

mod series;
mod source;

pub use source::checks;

use crate::config::Config;
use crate::http::metrics::Scrape;
use crate::rooms::{Room, Route};
use crate::sources::Start;
use std::sync::{Arc, Mutex};
use surefoot_hostfs::Root;
use surefoot_http::lock;
use surefoot_http::{json_text, parameters};
use surefoot_model::{Event, Finding};
use surefoot_remedy::checks::CheckFile;
use surefoot_rooms::Taken;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::remedy::{Answer, State, findings};
use surefoot_rooms::viewer::Public;

/// Why a recording shows none.
const NOT_RECORDED: &str = "this recording holds no checks of its host";
/// Without checks.
const NOT_ASKED: &str = "no periodic checks were asked for; start the watch with --checks FILE";
/// Before the first check.
const NOT_YET: &str = "the first check has not ended yet";

/// What its address answers.
const SAYS: &str = "Periodic checks of the host.";

/// What the room is told at the start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The checks that are run; `None` for none.
    pub checks: Option<CheckFile>,
}

impl Options {
    /// The source of the checks that were asked for.
    pub fn source(self, root: &Root) -> Option<Start> {
        Some(source::source(root, self.checks?))
    }
}

/// What its route answers, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    vec![crate::schema::answer::<Answer>(of, "GET /api/v1/remedy", SAYS)]
}

/// The room of remedies.
pub(crate) struct Remedy {
    is_asked_for: bool,
    state: Mutex<State>,
}

impl Remedy {
    pub(crate) fn new(config: &Config) -> Self {
        Remedy { is_asked_for: config.rooms.remedy.checks.is_some(), state: Mutex::default() }
    }
}

impl Room for Remedy {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Remedy
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        if lock(&self.state).take(event) { Taken::Kept { is_news: false } } else { Taken::NotMine }
    }

    fn findings(&self, _: &Moment) -> Vec<Finding> {
        findings::of(&lock(&self.state))
    }

    fn series(&self, scrape: &mut Scrape) {
        let state = lock(&self.state).clone();
        scrape.write(state, |state, moment, series| series::encode(&state, moment.now_realtime_ns, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        vec![Route::new("/api/v1/remedy", SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            let why = self.why_not_watched(&shared.moment());
            let all = (lock(&self.state).clone(), Public(why));
            Ok(viewer.show(all, |(state, Public(why))| json_text(&Answer::of(&state, why))))
        })]
    }

    fn why_unseen(&self, moment: &Moment) -> Option<String> {
        match () {
            () if !lock(&self.state).is_empty() => None,
            () if moment.is_replay() => Some(NOT_RECORDED.to_owned()),
            () if !self.is_asked_for => Some(NOT_ASKED.to_owned()),
            () => Some(NOT_YET.to_owned()),
        }
    }
}
