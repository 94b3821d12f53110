//! What experiments come to: that one runs, because it explains what the other rooms see, and that one went wrong. Pure.

use super::rules;
use super::state::{Experiment, State};
use std::collections::BTreeMap;
use std::time::Duration;
use surefoot_model::{ExperimentOutcome, Finding, Severity, Subject, SubjectKind};

/// Everything that is to be said at a time; nothing where no experiment is known.
pub fn of(state: &State, now_realtime_ns: u64) -> Vec<Finding> {
    of_set(state, now_realtime_ns, &surefoot_settings::Disturb::default())
}

/// As [`of`], with limits that are set.
pub fn of_set(state: &State, now_realtime_ns: u64, set: &surefoot_settings::Disturb) -> Vec<Finding> {
    let mut findings = all_running(state, set.running_of_user);
    findings.extend(unread(state));
    findings.extend(went_wrong(state, now_realtime_ns, set.failed_for));
    if findings.is_empty() && !state.is_empty() {
        let say = |last: &str| {
            let sentence = format!("No experiment runs; {}{last}.", kept(state));
            rules::EXPERIMENTS.finding(Subject::host(), Severity::Ok, sentence)
        };
        findings.push(say(&last_result(state)).with_public(&say("")));
    }
    findings
}

/// The finding about directories that could not be looked into.
fn unread(state: &State) -> Option<Finding> {
    let look = state.last_look().filter(|look| look.directories_unread > 0)?;
    let first = look.problems.first().map_or("", String::as_str);
    let (what, public) = match look.directories_unread {
        1 => (
            format!("Journals of experiments cannot be read: {first}."),
            "Journals of experiments cannot be read.".to_owned(),
        ),
        count => {
            let public = format!("{count} directories with journals of experiments cannot be read.");
            (format!("{count} directories with journals of experiments cannot be read, the first: {first}."), public)
        }
    };
    let say = |sentence| rules::UNREAD.finding(Subject::host(), Severity::Notice, sentence);
    Some(say(what).with_public(&say(public)))
}

fn subject(one: &Experiment) -> Subject {
    Subject::new(SubjectKind::Experiment, &one.began.experiment)
}

/// Each experiment that runs; of a user other than root the newest, and how many more.
fn all_running(state: &State, own_max: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut of_users: BTreeMap<u32, u64> = BTreeMap::new();
    for one in state.running().collect::<Vec<_>>().into_iter().rev() {
        let count = one.began.stranger().map_or(0, |uid| {
            let count = of_users.entry(uid).or_default();
            *count += 1;
            *count
        });
        if count <= own_max {
            findings.push(running(one));
        }
    }
    let over = of_users.into_iter().filter(|(_, count)| *count > own_max);
    findings.extend(over.map(|(uid, count)| {
        let sentence =
            format!("{} more experiments of user {uid} run than the {own_max} with a finding each.", count - own_max);
        rules::MORE_RUN.finding(Subject::host(), Severity::Notice, sentence).of_user(Some(uid))
    }));
    findings
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
        rules::RUNS
            .finding(subject(one), Severity::Notice, sentence.clone())
            .with_evidence(evidence)
            .since(began.at_realtime_ns)
    };
    // Only root's word is the host's own: everybody can write a journal.
    finding(evidence).with_public(&finding(everybody)).of_user(began.stranger())
}

/// The newest experiment of each user, if it went wrong and that is not long ago.
fn went_wrong(state: &State, now_realtime_ns: u64, told_for: Duration) -> Vec<Finding> {
    let newest: BTreeMap<Option<u32>, &Experiment> =
        state.experiments().map(|one| (one.began.stranger(), one)).collect();
    let since_ns = state.since_realtime_ns;
    newest.into_values().filter_map(|one| one_went_wrong(one, since_ns, now_realtime_ns, told_for)).collect()
}

fn one_went_wrong(
    newest: &Experiment,
    since_realtime_ns: Option<u64>,
    now_realtime_ns: u64,
    told_for: Duration,
) -> Option<Finding> {
    let ended = newest.ended.as_ref()?;
    if u128::from(now_realtime_ns.saturating_sub(ended.at_realtime_ns)) > told_for.as_nanos() {
        return None;
    }
    let (rule, sentence) = match ended.outcome {
        ExperimentOutcome::Finished => return None,
        // Nothing was disturbed, and the command told its user: a watch that starts later does not tell it once more.
        ExperimentOutcome::Refused if since_realtime_ns.is_none_or(|since| ended.at_realtime_ns < since) => {
            return None;
        }
        ExperimentOutcome::Refused => (rules::REFUSED, "The newest experiment was refused"),
        ExperimentOutcome::Failed => (rules::FAILED, "The newest experiment failed"),
        ExperimentOutcome::Vanished => {
            (rules::VANISHED, "The newest experiment was killed before it reported a result")
        }
    };
    let say = |sentence| rule.finding(subject(newest), Severity::Notice, sentence);
    // The reason may quote the workload's command and output, also of root's, and health.json is readable by everybody.
    let finding = say(format!("{sentence}: {}.", ended.why.trim_end_matches('.')));
    let finding = finding.with_public(&say(format!("{sentence}.")));
    Some(finding.since(ended.at_realtime_ns).of_user(newest.began.stranger()))
}

fn kept(state: &State) -> String {
    match state.experiments().count() {
        1 => "1 is kept".to_owned(),
        count => format!("{count} are kept"),
    }
}

/// The newest result, to follow what is kept; for root alone, because a summary may quote what a workload printed.
fn last_result(state: &State) -> String {
    // In the words of root's journals alone.
    let is_hosts = |one: &&Experiment| one.began.stranger().is_none();
    let finished = |one: &&Experiment| one.ended.as_ref().is_some_and(|end| end.outcome == ExperimentOutcome::Finished);
    let newest = state.experiments().filter(is_hosts).rfind(finished);
    newest.and_then(|one| one.ended.as_ref()).map_or(String::new(), |ended| match &ended.effect {
        Some(effect) => {
            let (low, high) = (effect.interval_low, effect.interval_high);
            let ratio = effect.ratio;
            format!("; last result: ratio {ratio:.3} ({low:.3}-{high:.3})")
        }
        None if ended.summary.is_empty() => String::new(),
        None => format!("; last result: {}", ended.summary),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::state::tests::{folded, told};
    use super::*;
    use surefoot_model::{DisturbEvent, ExperimentLook};

    /// What these settings come to for a user's ten experiments, and for one that failed half an hour ago.
    fn effect(set: &surefoot_settings::Disturb) -> String {
        let names: Vec<String> = (0..10).map(|number| format!("e{number}")).collect();
        let running: Vec<_> = names.iter().flat_map(|name| told(name, None)).collect();
        let failed = told("a", Some(ExperimentOutcome::Failed));
        let half_an_hour_ns = 1_800_000_000_000;
        format!("{:?}", [of_set(&folded(&running), 6_000, set), of_set(&folded(&failed), 9_000 + half_an_hour_ns, set)])
    }

    /// Each of the settings changes what is found.
    #[test]
    fn each_setting_changes_what_is_found() {
        let usual = surefoot_settings::Disturb::default();
        let others = [
            surefoot_settings::Disturb { failed_for: std::time::Duration::from_secs(60), ..usual.clone() },
            surefoot_settings::Disturb { running_of_user: usual.running_of_user + 4, ..usual.clone() },
        ];
        let of_usual = effect(&usual);
        others.iter().for_each(|other| assert_ne!(effect(other), of_usual, "{other:?}"));
    }

    #[test]
    fn one_that_runs_says_what_it_does_to_the_cores_and_hides_what_it_runs() {
        let findings = of(&folded(&told("a", None)), 6_000);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.sentence, "An experiment holds core 1 for 2 ms every 1 s: 1 of 3 runs are done.");
        assert_eq!((finding.key.as_str(), finding.severity), ("disturb/runs/experiment/a", Severity::Notice));
        assert_eq!((finding.since_realtime_ns, finding.uid), (5_000, Some(1000)), "his word is not the host's");
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
        let later = of(&state, 9_001 + 3_600_000_000_000);
        assert_eq!(later[0].sentence, "No experiment runs; 1 is kept.");
        assert!(of(&State::default(), 0).is_empty());
    }

    /// An experiment that is refused while the watch looks is a finding; the watch that is started next says nothing of it.
    #[test]
    fn a_refused_experiment_is_not_told_again_by_the_next_watch() {
        let events = told("a", Some(ExperimentOutcome::Refused));
        let ended_ns = events.iter().find_map(|event| match event {
            DisturbEvent::Ended(ended) => Some(ended.at_realtime_ns),
            _ => None,
        });
        let ended_ns = ended_ns.unwrap();
        let rules = |first_look_ns: Option<u64>| {
            let look = |at| DisturbEvent::Look(ExperimentLook { looked_realtime_ns: at, ..ExperimentLook::default() });
            let mut state = State::default();
            first_look_ns.into_iter().for_each(|at| state.take(&look(at)));
            events.iter().for_each(|event| state.take(event));
            state.take(&look(ended_ns + 500));
            of(&state, ended_ns + 1_000).into_iter().map(|finding| finding.rule.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(rules(Some(ended_ns - 500)), ["refused"], "it ended while the watch looked");
        assert_eq!(rules(None), ["experiments"], "it had ended before the first look");
    }

    /// `health.json` and the overview of a user without rights have the public words.
    #[test]
    fn nothing_that_an_experiment_of_root_said_is_public() {
        let public = |outcome| {
            let mut events = told("a", Some(outcome));
            of_root(&mut events);
            let mut state = folded(&events);
            state.since_realtime_ns = Some(1);
            let finding = of(&state, 9_000).remove(0);
            assert_eq!(finding.uid, None, "health.json takes it");
            finding.for_everybody().sentence
        };
        assert_eq!(public(ExperimentOutcome::Failed), "The newest experiment failed.");
        assert_eq!(public(ExperimentOutcome::Refused), "The newest experiment was refused.");
        assert_eq!(public(ExperimentOutcome::Finished), "No experiment runs; 1 is kept.");
        let mut events = super::super::state::tests::several("a");
        of_root(&mut events);
        let finding = of(&folded(&events), 9_000).remove(0);
        assert_eq!(finding.for_everybody().sentence, "No experiment runs; 1 is kept.");
    }

    #[test]
    fn the_newest_result_is_told_where_nothing_runs() {
        let mut events = told("a", Some(ExperimentOutcome::Finished));
        let finding = of(&folded(&events), 9_000).remove(0);
        assert_eq!(finding.sentence, "No experiment runs; 1 is kept.", "the result of a user other than root");
        of_root(&mut events);
        let finding = of(&folded(&events), 9_000).remove(0);
        let words = "No experiment runs; 1 is kept; last result: ratio 1.200 (1.100-1.300).";
        assert_eq!((finding.sentence.as_str(), finding.severity), (words, Severity::Ok));
        let mut events = super::super::state::tests::several("a");
        of_root(&mut events);
        let finding = of(&folded(&events), 9_000).remove(0);
        assert!(finding.sentence.ends_with("last result: 2 numbers, of which 1 shows an effect."), "{finding:?}");
    }

    fn of_root(events: &mut [DisturbEvent]) {
        for event in events {
            if let DisturbEvent::Began(began) = event {
                began.uid = Some(0);
            }
        }
    }

    #[test]
    fn a_users_journals_hide_nothing_of_roots_and_are_a_few_findings() {
        let mut events = told("2026-root", Some(ExperimentOutcome::Failed));
        of_root(&mut events);
        events.extend((0..40).flat_map(|number| told(&format!("99-forged-{number:02}"), None)));
        let findings = of(&folded(&events), 10_000);
        let of_host: Vec<&str> =
            findings.iter().filter(|one| one.uid.is_none()).map(|one| one.sentence.as_str()).collect();
        assert_eq!(of_host, ["The newest experiment failed: the workload ended with code 1."]);
        assert_eq!(findings.len() as u64, 1 + 4 + 1);
        assert!(
            findings
                .iter()
                .any(|one| one.sentence == "36 more experiments of user 1000 run than the 4 with a finding each."),
            "{findings:?}"
        );
    }
}
