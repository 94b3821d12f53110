//! What a periodic check of a host says.

use crate::weight::texts;
use crate::{Finding, Happened, HappenedBody, Room, Severity, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

/// How a check found its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// All is well.
    Ok,
    /// Nobody knows: the check could not be done, took too long, or said nothing that can be understood.
    #[default]
    Unknown,
    /// Somebody should act, in days.
    Warning,
    /// Somebody must act now.
    Critical,
}

impl CheckState {
    /// Every state, from well to bad.
    pub const ALL: [CheckState; 4] = [CheckState::Ok, CheckState::Unknown, CheckState::Warning, CheckState::Critical];

    /// The word in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckState::Ok => "ok",
            CheckState::Unknown => "unknown",
            CheckState::Warning => "warning",
            CheckState::Critical => "critical",
        }
    }

    /// How bad a finding of it is. That nobody knows is worth knowing, and no reason to take a host out of service.
    pub fn severity(self) -> Severity {
        match self {
            CheckState::Ok => Severity::Ok,
            CheckState::Unknown => Severity::Notice,
            CheckState::Warning => Severity::Warning,
            CheckState::Critical => Severity::Critical,
        }
    }
}

/// One run of a periodic check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct HostCheck {
    /// When it ended, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When it ended, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// The name of the check.
    pub name: String,
    /// What it found.
    pub state: CheckState,
    /// One sentence for people, with its full stop.
    pub sentence: String,
    /// What that rests on, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Since when it is in this state, `CLOCK_REALTIME`.
    pub since_realtime_ns: u64,
    /// Whether the run before this one found another state, or there was none.
    pub is_change: bool,
    /// How long the run took.
    pub took_ns: u64,
    /// The processor time that it took: of its thread, and of its program with all that this waited for.
    pub processor_ns: u64,
    /// How often it is run.
    pub period_ns: u64,
}

impl HostCheck {
    /// How the rules of findings of checks begin; the name of the check follows.
    pub const RULE: &'static str = "check-";

    /// The finding of this check; everybody may read its name and state, and nothing of what the check printed.
    pub fn finding(&self) -> Finding {
        let (rule, subject) = (format!("{}{}", HostCheck::RULE, self.name), Subject::host());
        let of = |sentence: &str| Finding::new(Room::Remedy, &rule, subject.clone(), self.state.severity(), sentence);
        of(&self.sentence)
            .with_evidence(self.evidence.clone())
            .with_public(&of(&self.public_sentence()))
            .since(self.since_realtime_ns)
    }

    /// The check with its name and state, without what it printed.
    pub fn for_everybody(self) -> HostCheck {
        HostCheck { sentence: self.public_sentence(), evidence: Vec::new(), ..self }
    }

    fn public_sentence(&self) -> String {
        format!("Check {}: {}.", self.name, self.state.as_str())
    }

    /// See [`crate::Event::comes_to_ns`].
    pub(crate) fn comes_to_ns(&self) -> Option<u64> {
        Some(self.at_ns)
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<HostCheck>() + self.name.len() + self.sentence.len() + texts(&self.evidence)
    }

    /// See [`crate::Event::happened`]: that a state changed, not each look.
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        if !self.is_change {
            return Vec::new();
        }
        let (subject, body) = (Subject::new(SubjectKind::Host, ""), HappenedBody::HostCheck(self));
        vec![Happened { room: Room::Remedy, kind: "check", subject, at_realtime_ns: self.at_realtime_ns, body }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_finding_of_the_room_of_remedies_as_bad_as_its_state() {
        let check = HostCheck { name: "clock".into(), sentence: "It is late.".into(), ..HostCheck::default() };
        for state in CheckState::ALL {
            let finding = HostCheck { state, since_realtime_ns: 7, ..check.clone() }.finding();
            assert_eq!((finding.key.as_str(), finding.severity), ("remedy/check-clock/host", state.severity()));
            assert_eq!((finding.since_realtime_ns, finding.sentence.as_str()), (7, "It is late."));
        }
        let secret = HostCheck { evidence: vec!["the key is gone".into()], ..check.clone() };
        let public = secret.finding().for_everybody();
        assert_eq!((public.sentence.as_str(), public.evidence.len()), ("Check clock: unknown.", 0));
        assert_eq!(secret.clone().for_everybody().finding().for_everybody(), public);
        assert!(check.happened().is_empty());
        assert_eq!(HostCheck { is_change: true, ..check }.happened().len(), 1);
    }
}
