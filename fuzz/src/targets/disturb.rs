use crate::scratch;
use serde_json::Value;
use surefoot_daemon::rooms::disturb::events_of;
use surefoot_disturb::predict::shard;
use surefoot_model::{DisturbEvent, ExperimentBegan, is_harmful};
use surefoot_rooms::disturb::{Answer, PredictionView, State};

/// A name that a journal may have.
const NAME: &str = "20261125T120000-7-0";

/// The journal of an experiment, as a watch reads it: what it tells is of that experiment, says no harmful letter, and folds to an
/// answer.
pub fn experiment_journal(bytes: &[u8]) {
    scratch::with_folder(|folder| {
        scratch::write(folder, &ExperimentBegan::journal(NAME), bytes);
        let events = events_of(folder);
        let mut state = State::default();
        for event in &events {
            assert!(event.experiment().is_none_or(|name| name == NAME), "{event:?}");
            if let DisturbEvent::Began(began) = event {
                let texts = [&began.workload, &began.metric, &began.series, &began.part, &began.disturbance];
                assert!(!texts.into_iter().any(|text| text.chars().any(is_harmful)), "{began:?}");
            }
            state.take(event);
        }
        let answer = serde_json::to_string(&Answer::at_end(&state)).unwrap_or_else(|error| panic!("{error}"));
        assert!(!answer.is_empty());
        state.experiments().for_each(|one| drop((one.stalls_by_core(), one.standing(), one.began.what())));
    });
}

/// A shard of a prediction: one that is read has the draws that it says; and each line as a prediction of a file that a watch shows.
pub fn prediction_shard(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let draws = |about: &Value| about["draws"].as_u64().unwrap_or(0);
    if let Ok((header, found)) = shard::read::<Value>(&text, draws) {
        assert!(header.shard >= 1 && header.shard <= header.shards);
        assert!(found.len() as u64 <= draws(&header.about));
    }
    for line in text.lines() {
        let _ = serde_json::from_str::<PredictionView>(line).map(|view| view.is_possible());
    }
}
