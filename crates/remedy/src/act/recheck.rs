//! `recheck`: whether the alert still holds, by everyone who knows of it, each with the age of its answer.

use super::Outcome;
use surefoot_model::{AlertReading, AlertSource, Observed};

/// What a recheck comes to.
///
/// The agent and Alertmanager say what is so now; the store has what was reported to it last, and counts where neither of them can tell. An
/// alert that one of them still has is not over. Where nobody can tell, the step fails for now.
pub fn judge(readings: Vec<AlertReading>) -> Outcome {
    let by = |is_live: bool| {
        let of_kind = readings.iter().filter(move |reading| (reading.source != AlertSource::Store) == is_live);
        of_kind.filter_map(|reading| reading.holds).reduce(|one, other| one || other)
    };
    let holds = by(true).or_else(|| by(false));
    let observed = Observed::Alert { readings };
    match holds {
        Some(true) => Outcome::done(observed, ""),
        Some(false) => Outcome::Gone { detail: observed.to_string() },
        None => {
            let detail = format!("no source can tell whether the alert still holds: {observed}");
            Outcome::Failed { detail, memo: String::new(), is_passing: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(source: AlertSource, holds: Option<bool>) -> AlertReading {
        AlertReading { source, holds, age_s: Some(7), why: String::new() }
    }

    #[test]
    fn who_asks_now_counts_before_what_was_reported_earlier() {
        let [agent, manager, store] = [AlertSource::Agent, AlertSource::Alertmanager, AlertSource::Store];
        for (said, holds) in [
            ([(agent, None), (manager, None), (store, Some(true))], Some(true)),
            ([(agent, None), (manager, None), (store, Some(false))], Some(false)),
            ([(agent, Some(false)), (manager, None), (store, Some(true))], Some(false)),
            ([(agent, Some(false)), (manager, Some(true)), (store, Some(false))], Some(true)),
            ([(agent, Some(true)), (manager, Some(false)), (store, Some(false))], Some(true)),
            ([(agent, None), (manager, None), (store, None)], None),
        ] {
            let outcome = judge(said.iter().map(|(source, holds)| reading(*source, *holds)).collect());
            match (&outcome, holds) {
                (Outcome::Done { .. }, Some(true)) | (Outcome::Gone { .. }, Some(false)) => {}
                (Outcome::Failed { is_passing: true, .. }, None) => {}
                other => panic!("{said:?}: {other:?}"),
            }
            assert!(outcome.words().contains("agent: "), "{}", outcome.words());
        }
        let gone = judge(vec![reading(agent, Some(false)), reading(store, Some(true))]).words();
        assert_eq!(gone, "agent: over (7 s ago), store: firing (7 s ago)");
        assert!(matches!(judge(Vec::new()), Outcome::Failed { .. }));
    }
}
