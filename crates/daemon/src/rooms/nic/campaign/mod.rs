//! Fault campaigns of a modelled interface on the page: tables, lists of faults, and the movie of one fault.
//!
//! These are no events: what is shown is not of this host, and a campaign's file is a recording of its own, the same bytes
//! for the same seed. So the room reads the files when somebody asks, as the history is read.

pub mod result_file;

mod files;
mod movie;
mod question;

pub use crate::rooms::shown::ShownFile as CampaignFile;
pub use files::FILES_MAX;
pub(super) use files::Files;
pub(super) use movie::Movies;

use super::super::Route;
use super::Nic;
use crate::http::access::AccessView;
use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use std::sync::Arc;
use surefoot_http::lock;
use surefoot_http::{ApiError, json_text, parameters};
use surefoot_nic::campaign::Experiment;
use surefoot_rooms::nic::campaign::reports::Reports;
use surefoot_rooms::nic::campaign::view::{Answer, NotThere, Question};
use surefoot_rooms::viewer::{Confidential, Public};

/// What the page shows of campaigns.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The files of campaigns.
    pub files: Vec<Arc<CampaignFile>>,
    /// Experiments beside the presets of which faults can be replayed.
    pub experiments: Vec<Experiment>,
}

/// What the addresses answer.
const SAYS: &str = "Fault campaigns of a modelled network interface: a table of each, and with table=EXPERIMENT:BUILD:SEED its faults.";
const MOVIE_SAYS: &str = "One fault of a campaign step by step, replayed: fault=ID.";

/// What to do where no file was named.
const NOT_NAMED: &str = "no campaign is shown; start with: surefoot watch --nic-campaign FILE";

/// What the routes answer, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    use surefoot_rooms::nic::campaign::movie::MovieAnswer;
    vec![
        crate::schema::answer::<Answer>(of, "GET /api/v1/nic/campaign", SAYS),
        crate::schema::answer::<MovieAnswer>(of, "GET /api/v1/nic/movie", MOVIE_SAYS),
    ]
}

/// The addresses, which read files and replay faults, and so answer beside the server's own thread.
pub(super) fn routes(room: &Arc<Nic>) -> Vec<Route> {
    let (of_campaign, of_movie) = (Arc::clone(room), Arc::clone(room));
    vec![
        Route::slow("/api/v1/nic/campaign", SAYS, move |shared, viewer, uri| {
            let question = question::of(uri)?;
            let is_none_named = lock(&of_campaign.files).is_empty();
            let why = if is_none_named { NOT_NAMED.to_owned() } else { not_shown(&shared.access.view(viewer)) };
            let all = (Confidential::new(&of_campaign.files), Public((question, why)));
            let shown = viewer.show(all, |(files, Public((question, why)))| {
                let Some(files) = files.shown() else { return answer(&Reports::default(), &question, Some(why)) };
                let mut files = lock(files);
                let why = files.is_empty().then_some(why);
                answer(files.read_on(), &question, why)
            });
            shown.transpose()
        }),
        Route::slow("/api/v1/nic/movie", MOVIE_SAYS, move |shared, viewer, uri| {
            let all = (Confidential::new(&of_movie.movies), Public((uri, not_shown(&shared.access.view(viewer)))));
            let answer = viewer.show(all, |(movies, Public((uri, why)))| match movies.shown() {
                None => Err(ApiError::new(StatusCode::FORBIDDEN, why)),
                Some(movies) => movies.answer(&fault_of(uri)?),
            });
            answer.transpose()
        }),
    ]
}

fn answer(reports: &Reports, question: &Question, why: Option<String>) -> Result<Bytes, ApiError> {
    let none = |none: NotThere| ApiError::new(StatusCode::NOT_FOUND, none.to_string());
    Answer::of(reports, question, why).map(|answer| json_text(&answer)).map_err(none)
}

/// Replaying costs processor time, and files of campaigns are their writer's: both are for who may see everything.
fn not_shown(access: &AccessView) -> String {
    format!("Fault campaigns are not shown to this user. {}", access.why)
}

fn fault_of(uri: &Uri) -> Result<String, ApiError> {
    let given = parameters(uri, &["fault"])?;
    match given.into_iter().next() {
        Some((_, id)) => Ok(id),
        None => Err(ApiError::bad_request("which fault: give its id as fault=ID".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Config;
    use crate::keep::shared::Shared;
    use crate::rooms;
    use std::path::Path;
    use surefoot_nic::firmware::{Build, Firmware};
    use surefoot_rooms::viewer::Viewer;

    #[test]
    fn who_may_not_see_everything_sees_no_campaign_and_starts_no_replay() {
        let this_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let files = vec![Arc::new(CampaignFile::open(&this_file).unwrap())];
        let campaigns = Options { files, experiments: Vec::new() };
        let config = Config { rooms: rooms::Options { campaigns, ..rooms::Options::default() }, ..Config::default() };
        let (shared, room) = (Shared::new(&config, None), Arc::new(Nic::new(&config)));
        let [campaign, movie] = &routes(&room)[..] else { panic!("two addresses") };
        let ask = |route: &Route, sees_all, query: &str| {
            let uri: Uri = format!("{}{query}", route.path).parse().unwrap();
            let answer = (route.answer)(&shared, Viewer { uid: Some(1000), sees_all, named: None }, &uri);
            answer
                .map(|text| String::from_utf8(text.into_answer().to_vec()).unwrap())
                .map_err(|error| format!("{error:?}"))
        };
        let hidden = ask(campaign, false, "").unwrap();
        assert!(hidden.contains("not shown to this user") && hidden.contains(r#""files":[]"#), "{hidden}");
        assert!(ask(campaign, true, "").unwrap().contains("Cargo.toml"));
        let firmware = Firmware::built(Build::Detecting);
        let chunk = firmware.function("send_chunk_normal_low").unwrap().address;
        let fault = &format!("?fault=send-chunk:detecting:1:code:{chunk:#x}:0@152738");
        let refused = ask(movie, false, fault).unwrap_err();
        assert!(refused.contains("403") && refused.contains("not shown to this user"), "{refused}");
        assert!(ask(movie, true, fault).unwrap().contains(r#""scene":"struck""#));
        assert!(ask(movie, true, "").unwrap_err().contains("fault=ID"));
    }
}
