//! What happened to an interface, in one line for people.

use surefoot_model::{InterfaceChange, one_line};
use surefoot_store::history::KeptRecord;

/// `None` for a record of another release.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    let body = record.body.clone();
    match record.kind.as_str() {
        "interface_state" => serde_json::from_value(body).ok().map(|change: InterfaceChange| {
            let why = one_line(&change.evidence.join("; "));
            format!("{}: {} -> {}: {why}", one_line(&change.interface), change.from.as_str(), change.to.as_str())
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
    fn changes_of_the_history_say_what_and_why() {
        let record = |kind: &str, body| KeptRecord {
            room: Room::Nic,
            kind: kind.into(),
            subject: Subject::host(),
            at_realtime_ns: 1,
            body,
        };
        let change = json!({
            "at_ns": 1, "at_realtime_ns": 2, "interface": "eth0", "from": "ok", "to": "hung", "evidence": ["a", "b"],
        });
        assert_eq!(words_of(&record("interface_state", change)).as_deref(), Some("eth0: ok -> hung: a; b"));
        assert_eq!(words_of(&record("interface_state", json!({"of": "another release"}))), None);
        assert_eq!(words_of(&record("other", json!({}))), None);
    }
}
