//! What is to be said of the watch itself. Pure.

use super::state::State;
use super::{rules, settings};
use crate::moment::Moment;
use surefoot_model::units::time_text;
use surefoot_model::{Finding, Room, Severity, Subject, SubjectKind};

/// What is not traced is counted over this time.
const MINUTE_NS: u64 = 60_000_000_000;

/// Everything that is to be said at a moment; `unread_deeds` lines of the journal of deeds could not be read.
pub fn of(state: &State, moment: &Moment, unread_deeds: u64) -> Vec<Finding> {
    let (of, of_stall) = (&moment.settings.settings.watch, &moment.settings.settings.stall);
    let recent_ns = u64::try_from(of.loss_notice_for.as_nanos()).unwrap_or(u64::MAX);
    let recently = match recent_ns {
        MINUTE_NS => "the last minute".to_owned(),
        _ => format!("the last {}", time_text(of.loss_notice_for)),
    };
    let mut findings = Vec::from_iter(settings::finding(&moment.reload));
    for report in state.failing() {
        let subject = Subject::new(SubjectKind::Source, &report.source);
        let sentence = format!("The source '{}' fails: {}.", report.source, report.why);
        // The reason may name a directory that is root's to know.
        let public =
            rules::SOURCE.finding(subject.clone(), Severity::Warning, format!("The source '{}' fails.", report.source));
        findings.push(rules::SOURCE.finding(subject, Severity::Warning, sentence).with_public(&public));
    }
    let is_recent = |at_ns: Option<u64>| at_ns.is_some_and(|at_ns| moment.now_ns.saturating_sub(at_ns) <= recent_ns);
    if is_recent(state.unseen_ns) {
        let sentence = format!("Events were dropped in {recently}; what is shown is incomplete.");
        findings.push(rules::DROPPED.finding(Subject::host(), Severity::Notice, sentence));
    }
    if is_recent(state.raisers_ns) {
        let sentence =
            format!("Records of who raised interrupts were lost in {recently}; some raisers are missing or short.");
        findings.push(rules::LOST_RECORDS.finding(Subject::host(), Severity::Notice, sentence));
    }
    if let Some(why) = &moment.history_fails {
        let say = |sentence| rules::HISTORY.finding(Subject::host(), Severity::Warning, sentence);
        let public = say("The history is not being written.".to_owned());
        findings.push(say(format!("The history is not being written: {why}. It is tried again.")).with_public(&public));
    } else if is_recent(state.history_ns) {
        let sentence = "The history lost events in the last minute; the past has a hole.";
        findings.push(rules::HISTORY.finding(Subject::host(), Severity::Warning, sentence.to_owned()));
    }
    let untraced = state.untraced_since(moment.now_ns.saturating_sub(MINUTE_NS));
    if untraced >= of.untraced_per_min {
        let what = "interrupts, exits and program runs";
        let sentence = format!(
            "In the last minute the kernel did not trace {untraced} {what} (threshold {}); since the start {}.",
            of.untraced_per_min,
            lost(state, unread_deeds)
        );
        findings.push(rules::UNTRACED.finding(Subject::host(), Severity::Notice, sentence));
    }
    // Without lost time there is nothing that comes at each moment; each source says by itself when it fails.
    if !moment.is_replay() && of_stall.watched {
        findings.extend(age(moment.age_ns, moment.stale_ns));
    }
    if findings.is_empty() && moment.age_ns.is_some() {
        // The total stays, and is no notice once nothing is being lost.
        let sentence = match lost(state, unread_deeds) {
            lost if lost.is_empty() => "Every source works, and no data were dropped.".to_owned(),
            lost => format!("Every source works; since the start {lost}."),
        };
        findings.push(rules::SOURCES.finding(Subject::host(), Severity::Ok, sentence));
    }
    findings
}

/// What was lost since the start, in words; nothing where nothing was.
fn lost(state: &State, unread_deeds: u64) -> String {
    let totals = state.totals();
    let missed = totals.probes.values().fold(0u64, |sum, probe| sum.saturating_add(probe.missed));
    let counts = [
        (state.events_dropped(), ["event", "events"], "dropped"),
        (totals.torn, ["snapshot", "snapshots"], "of a core skipped"),
        (state.raisers_lost, ["record", "records"], "of raisers lost"),
        (missed, ["program run", "program runs"], "skipped by the kernel"),
        (unread_deeds, ["line", "lines"], "of the journal of deeds not readable"),
        (totals.untraced_interrupts, ["interrupt", "interrupts"], "not traced"),
        (totals.unreported, ["exit", "exits"], "not traced"),
    ];
    let told = counts.iter().filter(|(count, ..)| *count > 0).map(|(count, [one, many], what)| {
        let things = if *count == 1 { one } else { many };
        format!("{count} {things} {what}")
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Whether it says no more than that the watch has just begun, as it does each time: that is nothing to keep for later.
pub fn is_of_the_start(finding: &Finding, moment: &Moment) -> bool {
    moment.age_ns.is_none() && finding.room == Room::Watch && finding.key == age_key()
}

fn age_key() -> String {
    rules::DATA_AGE.finding(Subject::host(), Severity::Ok, String::new()).key
}

/// What the age of the newest data says.
fn age(age_ns: Option<u64>, stale_ns: u64) -> Option<Finding> {
    let say = |severity, sentence| Some(rules::DATA_AGE.finding(Subject::host(), severity, sentence));
    match age_ns {
        None => say(Severity::Notice, "There are no data yet.".to_owned()),
        Some(age_ns) if age_ns > stale_ns => say(
            Severity::Warning,
            format!("The newest data are {} s old (threshold {} s).", age_ns / 1_000_000_000, stale_ns / 1_000_000_000),
        ),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drops::Dropped;
    use crate::moment::Mode;
    use std::sync::Arc;
    use surefoot_model::{Event, SelfCost, SourceReport, SourceState, WhoReport, Window};

    fn report(state: SourceState, why: &str) -> Arc<Event> {
        Arc::new(Event::Source(SourceReport { at_ns: 1, source: "stall".into(), state, why: why.into() }))
    }

    fn replay() -> Moment {
        Moment { mode: Mode::Replay { file: "x".into() }, ..Moment::default() }
    }

    fn keys(state: &State, moment: &Moment) -> Vec<String> {
        of(state, moment, 0).into_iter().map(|finding| finding.key).collect()
    }

    #[test]
    fn why_a_source_fails_is_not_public() {
        let moment = replay();
        let mut state = State::default();
        state.take(&report(SourceState::Failed, "/srv/secret cannot be read"));
        let finding = of(&state, &moment, 0).remove(0);
        assert!(finding.sentence.contains("/srv/secret"), "{finding:?}");
        assert_eq!(finding.for_everybody().sentence, "The source 'stall' fails.");
    }

    #[test]
    fn a_source_that_fails_is_told_of_until_it_works_again() {
        let moment = replay();
        let mut state = State::default();
        state.take(&report(SourceState::Failed, "/proc/stat cannot be read"));
        let found = of(&state, &moment, 0);
        assert_eq!(found[0].sentence, "The source 'stall' fails: /proc/stat cannot be read.");
        assert_eq!((found[0].key.as_str(), found[0].severity), ("watch/source/source/stall", Severity::Warning));
        state.take(&report(SourceState::Works, ""));
        assert_eq!(keys(&state, &moment), [""; 0], "without data there is nothing to praise");
    }

    #[test]
    fn what_is_dropped_is_told_of_for_a_minute() {
        let mut moment = replay();
        let mut state = State::default();
        let dropped = Dropped { queue: 1, history: 1, ..Dropped::default() };
        state.note_dropped(&dropped, 5);
        state.note_dropped(&dropped, 10);
        moment.now_ns = 5 + MINUTE_NS;
        assert_eq!(keys(&state, &moment), ["watch/dropped/host", "watch/history/host"]);
        moment.now_ns += 1;
        moment.age_ns = Some(0);
        assert_eq!(keys(&state, &moment), ["watch/sources/host"]);
        let later = &of(&state, &moment, 0)[0];
        assert_eq!(later.severity, Severity::Ok, "the cause has ended");
        assert!(later.sentence.contains("since the start 2 events dropped."), "{later:?}");
    }

    #[test]
    fn a_recording_of_what_lost_events_is_not_said_to_be_whole() {
        let mut moment = replay();
        let mut state = State::default();
        state.take(&Arc::new(Event::Window(Window {
            start_ns: 0,
            end_ns: 1_000,
            cores: Vec::new(),
            faulty: Vec::new(),
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost: SelfCost { dropped: 243, torn: 1, ..SelfCost::default() },
        })));
        (moment.now_ns, moment.age_ns) = (1_000 + MINUTE_NS, Some(0));
        assert_eq!(keys(&state, &moment), ["watch/dropped/host"]);
        moment.now_ns += 1;
        let sentence = &of(&state, &moment, 0)[0].sentence;
        assert_eq!(sentence, "Every source works; since the start 243 events dropped, 1 snapshot of a core skipped.");
    }

    #[test]
    fn lines_of_deeds_that_could_not_be_read_are_totalled() {
        let mut moment = replay();
        moment.age_ns = Some(0);
        let found = of(&State::default(), &moment, 7);
        let said = "since the start 7 lines of the journal of deeds not readable";
        assert!(found[0].sentence.contains(said), "{found:?}");
        assert!(!of(&State::default(), &moment, 0)[0].sentence.contains("deeds"));
    }

    #[test]
    fn losses_of_every_kind_are_told_of() {
        let mut moment = replay();
        moment.age_ns = Some(0);
        let mut state = State::default();
        let sentence = |state: &State, moment: &Moment| of(state, moment, 0)[0].sentence.clone();
        assert_eq!(sentence(&state, &moment), "Every source works, and no data were dropped.");
        assert_eq!(of(&state, &moment, 0)[0].severity, Severity::Ok);
        let report = |start_ns, end_ns, records_dropped, marks_lost| {
            let who = WhoReport { start_ns, end_ns, records_dropped, marks_lost, ..WhoReport::default() };
            Arc::new(Event::Who(Box::new(who)))
        };
        // Each report is from the start of its watch, so only what it has more than the last is new.
        for (start_ns, end_ns, dropped, marks) in [(1, 5, 2, 1), (1, 10, 2, 1), (11, 12, 1, 0)] {
            state.take(&report(start_ns, end_ns, dropped, marks));
        }
        moment.now_ns = 12 + MINUTE_NS;
        assert_eq!(keys(&state, &moment), ["watch/lost-records/host"]);
        moment.now_ns += 1;
        state.take(&Arc::new(Event::Window(Window {
            start_ns: 0,
            end_ns: 1_000,
            cores: Vec::new(),
            faulty: Vec::new(),
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost: SelfCost { untraced_interrupts: 58, unreported: 2, ..SelfCost::default() },
        })));
        moment.now_ns = 1_000 + MINUTE_NS;
        let lost = "since the start 4 records of raisers lost, 58 interrupts not traced, 2 exits not traced";
        let now = "In the last minute the kernel did not trace 60 interrupts, exits and program runs (threshold 60)";
        assert_eq!(sentence(&state, &moment), format!("{now}; {lost}."));
        let of_now = &of(&state, &moment, 0)[0];
        assert_eq!((of_now.key.as_str(), of_now.severity), ("watch/untraced/host", Severity::Notice));
        moment.now_ns += 1;
        let ended = &of(&state, &moment, 0)[0];
        assert_eq!((ended.key.as_str(), ended.severity), ("watch/sources/host", Severity::Ok));
        assert!(ended.sentence.contains(&format!("{lost}.")), "{ended:?}");
    }

    #[test]
    fn only_that_there_are_no_data_yet_is_not_kept() {
        let mut moment = Moment::default();
        let mut state = State::default();
        state.take(&report(SourceState::Failed, "gone"));
        let kept = |moment: &Moment| -> Vec<String> {
            let found = of(&state, moment, 0).into_iter().filter(|finding| !is_of_the_start(finding, moment));
            found.map(|finding| finding.key).collect()
        };
        assert_eq!(kept(&moment), ["watch/source/source/stall"]);
        moment.age_ns = Some(moment.stale_ns + 1);
        assert_eq!(kept(&moment), ["watch/source/source/stall", "watch/data-age/host"]);
    }

    #[test]
    fn old_data_are_said_to_be_old() {
        assert_eq!(age(None, 10_000_000_000).map(|finding| finding.severity), Some(Severity::Notice));
        assert_eq!(age(Some(10_000_000_000), 10_000_000_000), None);
        let old = age(Some(15_900_000_000), 10_000_000_000).map(|finding| (finding.severity, finding.sentence));
        assert_eq!(old, Some((Severity::Warning, "The newest data are 15 s old (threshold 10 s).".to_owned())));
    }
}
