//! What a record says, in one line for people.

use crate::rooms;
use surefoot_model::{Room, SourceReport, SourceState};
use surefoot_store::history::KeptRecord;

/// A body that no words are known for is shown as it is, as far as a line goes.
const BODY_CHARACTERS_MAX: usize = 160;

/// What happened, in the words of its room where that has some.
pub fn words_of(record: &KeptRecord) -> String {
    let known = match record.room {
        Room::Watch => serde_json::from_value(record.body.clone()).ok().map(|report: SourceReport| source(&report)),
        _ => rooms::words_of(record),
    };
    known.unwrap_or_else(|| {
        let body: String = record.body.to_string().chars().take(BODY_CHARACTERS_MAX).collect();
        format!("{} {body}", record.kind)
    })
}

fn source(report: &SourceReport) -> String {
    match report.state {
        SourceState::Works => "works again".to_owned(),
        SourceState::Failed => format!("fails: {}", report.why),
        SourceState::Ended => format!("ended: {}", report.why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use surefoot_model::Subject;

    fn said(room: Room, body: serde_json::Value) -> String {
        words_of(&KeptRecord { room, kind: "kind".into(), subject: Subject::host(), at_realtime_ns: 0, body })
    }

    #[test]
    fn a_source_says_how_it_does() {
        let failed = json!({"at_ns": 1, "source": "memory", "state": "failed", "why": "no EDAC"});
        assert_eq!(said(Room::Watch, failed), "fails: no EDAC");
    }

    #[test]
    fn what_has_no_words_is_shown_as_it_is() {
        assert_eq!(
            said(Room::Checkpoint, json!({"event": "of a newer release"})),
            r#"kind {"event":"of a newer release"}"#
        );
        assert_eq!(said(Room::Memory, json!({"x": "y".repeat(500)})).chars().count(), "kind ".len() + 160);
    }
}
