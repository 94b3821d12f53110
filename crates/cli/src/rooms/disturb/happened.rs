//! What happened to an experiment, in one line for people.

use surefoot_model::{ExperimentBegan, ExperimentEnded, one_line};
use surefoot_store::history::KeptRecord;

/// `None` for a record of another release.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    let body = record.body.clone();
    match record.kind.as_str() {
        "experiment_began" => serde_json::from_value(body).ok().map(|began: ExperimentBegan| {
            let of = if began.series.is_empty() { String::new() } else { format!(" ({})", began.series) };
            one_line(&format!("experiment {}{of}: {}; workload: {}", began.experiment, began.what(), began.workload))
        }),
        "experiment_ended" => serde_json::from_value(body).ok().map(|ended: ExperimentEnded| {
            let result = match &ended.effect {
                Some(effect) => {
                    let (low, high) = (effect.interval_low, effect.interval_high);
                    format!("ratio {:.4} ({low:.4} to {high:.4})", effect.ratio)
                }
                None if ended.summary.is_empty() => ended.why.clone(),
                None => ended.summary.clone(),
            };
            one_line(&format!("experiment {} {}: {result}", ended.experiment, ended.outcome.as_str()))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use surefoot_model::{Room, Subject};

    #[test]
    fn the_history_says_what_was_done_and_what_came_of_it() {
        let record = |kind: &str, body| KeptRecord {
            room: Room::Disturb,
            kind: kind.into(),
            subject: Subject::host(),
            at_realtime_ns: 1,
            body,
        };
        let began = json!({
            "experiment": "a", "at_ns": 1, "at_realtime_ns": 2, "pid": 3, "disturbance": "freeze", "method": "bpf",
            "is_of_cores": true, "cores": [0], "length_ns": 1000, "period_ns": 1_000_000, "workload": "x\ny", "metric": "wall",
            "run_count": 3,
        });
        let said = words_of(&record("experiment_began", began));
        assert_eq!(said.as_deref(), Some("experiment a: holds core 0 for 1 us every 1 ms; workload: x?y"));
        let ended = json!({"experiment": "a", "at_ns": 1, "at_realtime_ns": 2, "outcome": "refused", "why": "in use"});
        let said = words_of(&record("experiment_ended", ended));
        assert_eq!(said.as_deref(), Some("experiment a refused: in use"));
        let ended =
            json!({"experiment": "a", "at_ns": 1, "at_realtime_ns": 2, "outcome": "finished", "summary": "9 runs"});
        let said = words_of(&record("experiment_ended", ended));
        assert_eq!(said.as_deref(), Some("experiment a finished: 9 runs"));
        assert_eq!(words_of(&record("experiment_ended", json!({"of": "another release"}))), None);
        assert_eq!(words_of(&record("other", json!({}))), None);
    }
}
