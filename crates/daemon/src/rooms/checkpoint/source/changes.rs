//! From one look to the next: what is told is what changed.

use super::jobs::FoundJob;
use std::collections::BTreeMap;
use surefoot_model::{CheckpointEvent, CheckpointLook, JournalEntry, JournalEvent};

/// Lines of one event: an event that is too large would find no room in the queues of a watch.
const LINES_MAX: usize = 500;

/// What was told of each job so far.
#[derive(Default)]
pub(super) struct Changes {
    told: BTreeMap<String, FoundJob>,
}

impl Changes {
    /// Takes a look; returns what is to be told of it: jobs and lines before the look that frames them.
    pub(super) fn take(&mut self, look: CheckpointLook, found: Vec<FoundJob>) -> Vec<CheckpointEvent> {
        let is_there = |name: &String| found.iter().any(|found| found.job.name == *name);
        // What is gone makes room for what is new, so it is told first.
        let gone: Vec<String> = self.told.keys().filter(|name| !is_there(name)).cloned().collect();
        let mut events: Vec<CheckpointEvent> = gone.into_iter().map(|job| CheckpointEvent::Gone { job }).collect();
        let mut told = std::mem::take(&mut self.told);
        for found in found {
            let before = told.remove(&found.job.name);
            let begun = events.len();
            events.extend(changed(before.as_ref(), &found));
            clamp(&mut events, begun, look.looked_realtime_ns);
            self.told.insert(found.job.name.clone(), found);
        }
        events.push(CheckpointEvent::Look(look));
        events
    }
}

/// Nothing happened after the look at which it was found: a time to come becomes that of the look.
fn clamp(events: &mut [CheckpointEvent], begun: usize, now_ns: u64) {
    for event in &mut events[begun..] {
        if let CheckpointEvent::Journal { entries, .. } = event {
            entries.iter_mut().for_each(|entry| entry.realtime_ns = entry.realtime_ns.min(now_ns));
        }
    }
}

/// What is to be told of a job.
fn changed(before: Option<&FoundJob>, now: &FoundJob) -> Vec<CheckpointEvent> {
    let mut events = Vec::new();
    if before.is_none_or(|before| before.job != now.job) {
        events.push(CheckpointEvent::Job(now.job.clone()));
    }
    // A journal only grows at its end; where its last known line is gone, it is another one, and all of it is new.
    let last = before.and_then(|before| before.entries.last());
    let known = last.and_then(|last| now.entries.iter().rposition(|entry| entry == last));
    let is_another = last.is_some() && known.is_none();
    let is_skipping = before.is_some_and(|before| before.skipped_count != now.skipped_count);
    let mut fresh = now.entries[known.map_or(0, |at| at + 1)..].to_vec();
    if let (Some(last), true, Some(first)) = (last, is_another, fresh.first()) {
        // What the one before held to its end nobody can tell.
        let event = JournalEvent::Unread { since_realtime_ns: last.realtime_ns };
        fresh.insert(0, JournalEntry { realtime_ns: first.realtime_ns, lost_count: 0, event });
    }
    if fresh.is_empty() && !is_another && !is_skipping {
        return events;
    }
    // Lines that were told before and have since left the part that is read are not left out.
    let left_out_count = if known.is_none() { now.left_out_count } else { 0 };
    let lines = |entries: &[JournalEntry], is_first: bool| CheckpointEvent::Journal {
        job: now.job.name.clone(),
        entries: entries.to_vec(),
        left_out_count: if is_first { left_out_count } else { 0 },
        skipped_count: now.skipped_count,
        is_another: is_another && is_first,
    };
    let first = fresh.len().min(LINES_MAX);
    events.push(lines(&fresh[..first], true));
    events.extend(fresh[first..].chunks(LINES_MAX).map(|entries| lines(entries, false)));
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::CheckpointJob;

    fn entry(realtime_ns: u64) -> JournalEntry {
        let event = JournalEvent::Restart {
            generation: None,
            report: "there was no checkpoint".into(),
            outcome: None,
            tier: None,
        };
        JournalEntry { realtime_ns, lost_count: 0, event }
    }

    fn found(is_running: bool, entries: std::ops::Range<u64>) -> FoundJob {
        let job = CheckpointJob { name: "a".into(), is_running: Some(is_running), ..CheckpointJob::default() };
        FoundJob { job, entries: entries.map(entry).collect(), ..FoundJob::default() }
    }

    fn words(events: &[CheckpointEvent]) -> Vec<String> {
        let word = |event: &CheckpointEvent| match event {
            CheckpointEvent::Look(_) => "look".to_owned(),
            CheckpointEvent::Job(job) => format!("job {}", job.name),
            CheckpointEvent::Journal { entries, left_out_count, is_another, .. } => {
                let another = if *is_another { "another journal: " } else { "" };
                format!("{another}{} lines, {left_out_count} left out", entries.len())
            }
            CheckpointEvent::Gone { job } => format!("gone {job}"),
        };
        events.iter().map(word).collect()
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut changes = Changes::default();
        let look = || CheckpointLook { looked_realtime_ns: 1_000, ..CheckpointLook::default() };
        let mut take = |found: Vec<FoundJob>| words(&changes.take(look(), found));
        assert_eq!(take(vec![]), ["look"]);
        assert_eq!(take(vec![found(true, 0..3)]), ["job a", "3 lines, 0 left out", "look"]);
        assert_eq!(take(vec![found(true, 0..3)]), ["look"]);
        assert_eq!(take(vec![found(true, 0..4)]), ["1 lines, 0 left out", "look"]);
        // The beginning of the journal is no longer read.
        let shorter = FoundJob { left_out_count: 2, ..found(true, 2..5) };
        assert_eq!(take(vec![shorter.clone()]), ["1 lines, 0 left out", "look"]);
        assert_eq!(take(vec![shorter]), ["look"]);
        assert_eq!(take(vec![found(false, 2..5)]), ["job a", "look"]);
        // Another journal in its place.
        let another = FoundJob { left_out_count: 1, ..found(false, 100..102) };
        assert_eq!(take(vec![another]), ["another journal: 3 lines, 1 left out", "look"]);
        assert_eq!(take(vec![found(false, 0..0)]), ["another journal: 0 lines, 0 left out", "look"]);
        assert_eq!(take(vec![]), ["gone a", "look"]);
    }

    #[test]
    fn another_journal_says_since_when_lines_may_be_missing_and_many_lines_are_several_events() {
        let mut changes = Changes::default();
        let look = || CheckpointLook { looked_realtime_ns: 1 << 40, ..CheckpointLook::default() };
        changes.take(look(), vec![found(true, 0..3)]);
        let events = changes.take(look(), vec![found(true, 90..91)]);
        let CheckpointEvent::Journal { entries, is_another: true, .. } = &events[0] else { panic!("{events:?}") };
        let unread = JournalEvent::Unread { since_realtime_ns: 2 };
        assert_eq!(entries[..], [JournalEntry { realtime_ns: 90, lost_count: 0, event: unread }, entry(90)]);
        let events = words(&changes.take(look(), vec![found(true, 90..1_300)]));
        let lines = |count| format!("{count} lines, 0 left out");
        assert_eq!(events, [lines(500), lines(500), lines(209), "look".to_owned()]);
    }

    #[test]
    fn what_is_gone_makes_room_before_what_is_new_asks_for_it() {
        let mut changes = Changes::default();
        changes.take(CheckpointLook::default(), vec![found(true, 0..0)]);
        let mut other = found(true, 0..0);
        other.job.name = "b".into();
        assert_eq!(words(&changes.take(CheckpointLook::default(), vec![other])), ["gone a", "job b", "look"]);
    }

    #[test]
    fn a_line_from_the_future_happened_at_the_look() {
        let look = CheckpointLook { looked_realtime_ns: 5, ..CheckpointLook::default() };
        let events = Changes::default().take(look, vec![found(true, 4..9)]);
        let CheckpointEvent::Journal { entries, .. } = &events[1] else { panic!("{events:?}") };
        assert_eq!(entries.iter().map(|entry| entry.realtime_ns).collect::<Vec<_>>(), [4, 5, 5, 5, 5]);
    }
}
