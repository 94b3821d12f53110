//! What experiments come to: that one runs, because it explains what the other rooms see, and that one went wrong. Pure.

use super::state::{Experiment, State};
use surefoot_model::{ExperimentOutcome, Finding, Room, Severity, Subject, SubjectKind};

/// One that went wrong is told of for so long.
const TOLD_FOR_NS: u64 = 3_600_000_000_000;

/// Everything that is to be said at a time; nothing where no experiment is known.
pub fn of(state: &State, now_realtime_ns: u64) -> Vec<Finding> {
    let mut findings: Vec<Finding> = state.running().map(running).collect();
    findings.extend(went_wrong(state, now_realtime_ns));
    if findings.is_empty() && !state.is_empty() {
        findings.push(Finding::new(Room::Disturb, "experiments", Subject::host(), Severity::Ok, quiet(state)));
    }
    findings
}

fn subject(one: &Experiment) -> Subject {
    Subject::new(SubjectKind::Experiment, &one.began.experiment)
}

/// The word of root, or of nobody in particular, is the host's own.
fn owner(one: &Experiment) -> Option<u32> {
    one.began.uid.filter(|uid| *uid != 0)
}

fn running(one: &Experiment) -> Finding {
    let began = &one.began;
    let (done, all) = (one.runs_done(), began.run_count);
    let sentence = format!("An experiment {}: {done} of {all} runs are done.", began.what());
    let who = match began.uid {
        Some(uid) => format!("process {} of user {uid}", began.pid),
        None => format!("process {}", began.pid),
    };
    let how = if began.method.is_empty() { &began.disturbance } else { &began.method };
    let everybody = vec![format!("{who}, by {how}")];
    let evidence = [everybody.clone(), vec![format!("workload: {}", began.workload)]].concat();
    let finding = |evidence| {
        Finding::new(Room::Disturb, "runs", subject(one), Severity::Notice, sentence.clone())
            .with_evidence(evidence)
            .since(began.at_realtime_ns)
    };
    // That a core stands still is felt by everybody; what its workload is, is not everybody's to know.
    let told = finding(evidence).with_public(&finding(everybody));
    if began.is_of_cores { told } else { told.of_user(owner(one)) }
}

/// The newest experiment, if it went wrong and that is not long ago.
fn went_wrong(state: &State, now_realtime_ns: u64) -> Option<Finding> {
    let newest = state.experiments().next_back()?;
    let ended = newest.ended.as_ref()?;
    if now_realtime_ns.saturating_sub(ended.at_realtime_ns) > TOLD_FOR_NS {
        return None;
    }
    let (rule, sentence) = match ended.outcome {
        ExperimentOutcome::Finished => return None,
        ExperimentOutcome::Refused => ("refused", "The newest experiment was refused"),
        ExperimentOutcome::Failed => ("failed", "The newest experiment failed"),
        ExperimentOutcome::Vanished => ("vanished", "The newest experiment ended without a word"),
    };
    let sentence = format!("{sentence}: {}.", ended.why.trim_end_matches('.'));
    let finding = Finding::new(Room::Disturb, rule, subject(newest), Severity::Notice, sentence);
    // Why may quote what a user's workload said.
    Some(finding.since(ended.at_realtime_ns).of_user(owner(newest)))
}

fn quiet(state: &State) -> String {
    let count = state.experiments().count();
    let kept = if count == 1 { "1 is kept".to_owned() } else { format!("{count} are kept") };
    let newest = state.newest(ExperimentOutcome::Finished);
    let last = newest.and_then(|one| one.ended.as_ref()).map_or(String::new(), |ended| match &ended.effect {
        Some(effect) => {
            let (low, high) = (effect.interval_low, effect.interval_high);
            let ratio = effect.ratio;
            format!("; the newest that finished made its number {ratio:.3} times as large ({low:.3} to {high:.3})")
        }
        None if ended.summary.is_empty() => String::new(),
        None => format!("; the newest that finished came to {}", ended.summary),
    });
    format!("No experiment runs; {kept}{last}.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::state::tests::{folded, told};
    use super::*;

    #[test]
    fn one_that_runs_says_what_it_does_to_the_cores_and_hides_what_it_runs() {
        let findings = of(&folded(&told("a", None)), 6_000);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.sentence, "An experiment holds core 1 for 2 ms every 1 s: 1 of 3 runs are done.");
        assert_eq!((finding.key.as_str(), finding.severity), ("disturb/runs/experiment/a", Severity::Notice));
        assert_eq!((finding.since_realtime_ns, finding.uid), (5_000, None));
        assert!(finding.evidence.iter().any(|line| line.contains("./secret")));
        let public = finding.clone().for_everybody();
        assert_eq!(public.evidence, ["process 7 of user 1000, by bpf"]);
    }

    #[test]
    fn one_that_went_wrong_is_told_of_for_an_hour_to_its_user() {
        let state = folded(&told("a", Some(ExperimentOutcome::Failed)));
        let finding = of(&state, 10_000).remove(0);
        assert_eq!(finding.sentence, "The newest experiment failed: the workload ended with code 1.");
        assert_eq!((finding.uid, finding.severity), (Some(1000), Severity::Notice));
        let later = of(&state, 9_001 + TOLD_FOR_NS);
        assert_eq!(later[0].sentence, "No experiment runs; 1 is kept.");
        assert!(of(&State::default(), 0).is_empty());
    }

    #[test]
    fn the_newest_result_is_told_where_nothing_runs() {
        let finding = of(&folded(&told("a", Some(ExperimentOutcome::Finished))), 9_000).remove(0);
        let words = "No experiment runs; 1 is kept; the newest that finished made its number 1.200 times as large (1.100 to 1.300).";
        assert_eq!((finding.sentence.as_str(), finding.severity), (words, Severity::Ok));
        let finding = of(&folded(&super::super::state::tests::several("a")), 9_000).remove(0);
        assert!(finding.sentence.ends_with("came to 2 numbers, of which 1 shows an effect."), "{finding:?}");
    }
}
