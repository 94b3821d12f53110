//! What a line of a job's journal says, in one line for people.

use surefoot_console::units::duration;
use surefoot_console::when;
use surefoot_model::{JournalEntry, JournalEvent};
use surefoot_store::history::KeptRecord;

/// `None` for a line of another release.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    serde_json::from_value(record.body.clone()).ok().map(|entry: JournalEntry| journal(&entry.event))
}

fn seconds(seconds: f64) -> String {
    duration((seconds * 1e9) as u64)
}

fn journal(event: &JournalEvent) -> String {
    match event {
        JournalEvent::Opened { ranks, policy, weakness, .. } => {
            let weakness = weakness.as_deref().filter(|weakness| !weakness.is_empty());
            let weakness = weakness.map_or(String::new(), |weakness| format!("; {weakness}"));
            format!("session began: {ranks} ranks, policy {policy}{weakness}")
        }
        JournalEvent::Decision(decided) => {
            let place = decided.place.replace('_', " ");
            let what = match decided.generation {
                Some(number) => format!("checkpoint {number} to {place}"),
                None => format!("no checkpoint ({place})"),
            };
            let why = decided.reasons.first().map_or(String::new(), |reason| format!(": {reason}"));
            match decided.failure.as_str() {
                "" => format!("{what}{why}"),
                failure => format!("{what} failed: {failure}"),
            }
        }
        JournalEvent::Asked(answered) => {
            let why = answered.reasons.first().map_or(String::new(), |reason| format!(": {reason}"));
            format!("asked, told {}{why}", answered.place.replace('_', " "))
        }
        JournalEvent::Durable { tier, generation, age_s, took_s, is_durable, .. } => {
            let (age, took) = (seconds(*age_s), seconds(*took_s));
            let doubt = if is_durable == &Some(true) { "" } else { " (the medium is not known)" };
            format!("checkpoint {generation} is {tier}{doubt} at an age of {age}; writing took {took}")
        }
        JournalEvent::Unread { since_realtime_ns } => {
            let since = i64::try_from(*since_realtime_ns).unwrap_or(i64::MAX);
            format!(
                "lines written between {} UTC and this time may be missing: the journal was replaced between two looks",
                when::second(since)
            )
        }
        JournalEvent::Removed { tier, uid } => {
            let tier = match tier.as_str() {
                "memory" => "in memory",
                "durable" => "on the SSD",
                "shared" => "in the shared directory",
                _ => "in a tier that this version does not know",
            };
            format!("UID {uid} removed all checkpoints {tier}")
        }
        JournalEvent::NotDurable { tier, generation, why } => {
            format!("checkpoint {generation} did not become {tier}: {why}")
        }
        JournalEvent::Restart { generation: Some(number), report, .. } => {
            format!("restarted from checkpoint {number}: {report}")
        }
        JournalEvent::Restart { generation: None, report, .. } if event.is_failure() => {
            format!("no checkpoint could be restored: {report}")
        }
        JournalEvent::Restart { .. } => "the job began without a checkpoint".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use surefoot_model::{Room, Subject};

    #[test]
    fn each_line_of_a_journal_has_its_words() {
        let entry = |body: serde_json::Value| {
            let (room, subject) = (Room::Checkpoint, Subject::host());
            words_of(&KeptRecord { room, kind: "kind".into(), subject, at_realtime_ns: 0, body }).unwrap()
        };
        for (body, words) in [
            (json!({"realtime_ns": 1, "event": "opened", "job": "t", "ranks": 4, "policy": "endurance"}), "4 ranks"),
            (
                json!({"realtime_ns": 1, "event": "durable", "tier": "shared", "generation": 7, "age_s": 1.5,
                       "took_s": 0.5, "bytes": 1, "is_durable": true}),
                "checkpoint 7 is shared at an age of 1.50 s; writing took 500 ms",
            ),
            (
                json!({"realtime_ns": 1, "event": "durable", "tier": "durable", "generation": 7, "age_s": 1.5,
                       "took_s": 0.5, "bytes": 1}),
                "checkpoint 7 is durable (the medium is not known) at an age",
            ),
            (
                json!({"realtime_ns": 1, "event": "opened", "job": "t", "ranks": 4, "policy": "endurance",
                       "weakness": "partner=yes protects nothing: all ranks are on one node"}),
                "policy endurance; partner=yes protects nothing: all ranks",
            ),
            (
                json!({"realtime_ns": 1, "event": "not_durable", "tier": "durable", "generation": 7, "why": "full"}),
                "checkpoint 7 did not become durable: full",
            ),
            (
                json!({"realtime_ns": 1, "event": "restart", "generation": null, "report": "damaged", "outcome": "failed"}),
                "no checkpoint could be restored: damaged",
            ),
            (
                json!({"realtime_ns": 1, "event": "restart", "generation": null, "report": "", "outcome": "no_checkpoint"}),
                "the job began without a checkpoint",
            ),
            (json!({"realtime_ns": 1, "event": "restart", "generation": 3, "report": "ok"}), "from checkpoint 3: ok"),
            (
                json!({"realtime_ns": 1, "event": "removed", "tier": "durable", "uid": 1000}),
                "UID 1000 removed all checkpoints on the SSD",
            ),
        ] {
            assert!(entry(body.clone()).contains(words), "{body}: {}", entry(body.clone()));
        }
    }
}
