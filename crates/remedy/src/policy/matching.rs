use std::collections::BTreeMap;
use surefoot_model::{Alert, Room, Severity};

/// Which alerts a policy is for; what is not said may be anything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Match {
    /// The room that says so, or the label `room` of an alert.
    pub room: Option<Room>,
    /// At least so bad. An alert that does not say how bad it is, or in a word that is not known, is not one of these.
    pub severity: Option<Severity>,
    /// One of these faults, such as `memory/rate`; a `*` at the end stands for anything.
    pub fault: Vec<String>,
    /// What it is about, such as `dimm A1`; a `*` at the end stands for anything.
    pub subject: Option<String>,
    /// Labels that an alert must have, with their values; a `*` at the end of a value stands for anything.
    pub labels: BTreeMap<String, String>,
}

impl Match {
    /// Whether an alert is one of these.
    pub fn holds(&self, alert: &Alert) -> bool {
        let room_of_label = || alert.labels.get("room").map(String::as_str);
        let is_room = |room: Room| match alert.room {
            Some(of_alert) => of_alert == room,
            None => room_of_label() == Some(room.as_str()),
        };
        self.room.is_none_or(is_room)
            && self.severity.is_none_or(|least| alert.said_severity().is_some_and(|said| said >= least))
            && (self.fault.is_empty() || self.fault.iter().any(|fault| is_like(fault, &alert.fault)))
            && self.subject.as_ref().is_none_or(|subject| is_like(subject, &alert.subject))
            && self.labels.iter().all(|(name, value)| alert.labels.get(name).is_some_and(|has| is_like(value, has)))
    }
}

fn is_like(wanted: &str, text: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => wanted == text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::AlertOrigin;

    fn alert() -> Alert {
        Alert {
            host: "h1".into(),
            key: "memory/rate/dimm/A1".into(),
            service: "web".into(),
            fault: "memory/rate".into(),
            subject: "dimm A1".into(),
            room: Some(Room::Memory),
            severity: Severity::Warning,
            sentence: String::new(),
            evidence: Vec::new(),
            labels: BTreeMap::from([("rack".to_owned(), "r12".to_owned())]),
            origin: AlertOrigin::Finding,
            is_firing: true,
            since_realtime_ns: 1,
        }
    }

    #[test]
    fn an_alert_that_does_not_say_how_bad_it_is_is_of_no_severity() {
        let of = |word: &str| {
            let labels = BTreeMap::from([("severity".to_owned(), word.to_owned())]);
            Alert { origin: AlertOrigin::Alertmanager, labels, ..alert() }
        };
        let asks = |severity| Match { severity: Some(severity), ..Match::default() };
        assert!(asks(Severity::Warning).holds(&of("warning")) && asks(Severity::Notice).holds(&of("page")));
        for word in ["bogus", "", "P1"] {
            assert!(Severity::ALL.iter().all(|&least| !asks(least).holds(&of(word))), "{word}");
            assert!(Match::default().holds(&of(word)), "{word}");
        }
    }

    #[test]
    fn what_is_not_said_may_be_anything() {
        assert!(Match::default().holds(&alert()));
    }

    #[test]
    fn each_condition_must_hold() {
        let yes = Match {
            room: Some(Room::Memory),
            severity: Some(Severity::Warning),
            fault: vec!["stall/lost-time".into(), "memory/*".into()],
            subject: Some("dimm*".into()),
            labels: BTreeMap::from([("rack".to_owned(), "r1*".to_owned())]),
        };
        assert!(yes.holds(&alert()));
        for no in [
            Match { room: Some(Room::Nic), ..yes.clone() },
            Match { severity: Some(Severity::Critical), ..yes.clone() },
            Match { fault: vec!["memory".into()], ..yes.clone() },
            Match { subject: Some("dimm".into()), ..yes.clone() },
            Match { labels: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]), ..yes.clone() },
            Match { labels: BTreeMap::from([("row".to_owned(), "*".to_owned())]), ..yes.clone() },
        ] {
            assert!(!no.holds(&alert()), "{no:?}");
        }
    }

    #[test]
    fn the_room_of_an_alert_may_stand_in_its_labels() {
        let mut told = Alert { room: None, origin: AlertOrigin::Alertmanager, ..alert() };
        let memory = Match { room: Some(Room::Memory), ..Match::default() };
        assert!(!memory.holds(&told));
        told.labels.insert("room".into(), "memory".into());
        assert!(memory.holds(&told));
    }
}
