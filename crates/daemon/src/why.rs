//! What matters most on a host now: one finding, the command that goes on from it, and what nobody looked at.

use serde::{Deserialize, Serialize};
use surefoot_model::{Finding, Room, Severity, by_urgency};
use surefoot_rooms::rules::{self, Next};

/// What matters most now.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// The worst finding; `None` where nothing is known yet.
    pub finding: Option<Finding>,
    /// What to run next on its account.
    pub next: Option<Next>,
    /// What a person does about it; empty where nothing is to be done, or the finding is of another release.
    pub to_do: &'static str,
    /// Findings above OK beside it.
    pub others: usize,
    /// Rooms that look at nothing, and why: of these nothing is known.
    pub not_watched: Vec<Unwatched>,
}

/// A room that looks at nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Unwatched {
    /// Which.
    pub room: Room,
    /// Why, and what to do.
    pub why: String,
}

impl Why {
    /// Out of all findings of a moment, on a host with these cores.
    pub fn of(findings: Vec<Finding>, not_watched: Vec<Unwatched>, cores: &str) -> Self {
        // That there is nothing to see in a room that looks at nothing is no praise; what it complains of counts.
        let is_seen = |finding: &Finding| {
            finding.severity > Severity::Ok || not_watched.iter().all(|unwatched| unwatched.room != finding.room)
        };
        let seen: Vec<Finding> = findings.into_iter().filter(is_seen).collect();
        let above = seen.iter().filter(|finding| finding.severity > Severity::Ok).count();
        let finding = seen.into_iter().min_by(by_urgency);
        let others =
            above.saturating_sub(usize::from(finding.as_ref().is_some_and(|worst| worst.severity > Severity::Ok)));
        Why {
            next: finding.as_ref().and_then(|worst| rules::next(worst, cores)),
            to_do: finding.as_ref().and_then(rules::of).map_or("", |rule| rule.to_do),
            finding,
            others,
            not_watched,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::Subject;

    fn finding(room: Room, rule: &str, severity: Severity) -> Finding {
        Finding::new(room, rule, Subject::host(), severity, format!("It is {rule}."))
    }

    #[test]
    fn the_worst_finding_is_told_with_what_to_run() {
        let all = vec![
            finding(Room::Watch, "sources", Severity::Ok),
            finding(Room::Nic, "problems", Severity::Notice),
            finding(Room::Stall, "lost-time", Severity::Warning),
        ];
        let why = Why::of(all, Vec::new(), "0,2-3");
        assert_eq!(why.finding.unwrap().rule, "lost-time");
        assert_eq!((why.others, &*why.next.unwrap().command), (1, "surefoot stall who --cpu 0,2-3 --duration 10s"));
        assert!(why.to_do.contains("stall audit"));
    }

    /// A room that looks at nothing says "no job keeps checkpoints"; that is not what matters most.
    #[test]
    fn what_nobody_looks_at_is_no_praise() {
        let blind = Unwatched { room: Room::Checkpoint, why: "Name directories.".to_owned() };
        let all = vec![finding(Room::Checkpoint, "jobs", Severity::Ok), finding(Room::Watch, "sources", Severity::Ok)];
        let why = Why::of(all.clone(), vec![blind.clone()], "0");
        assert_eq!(why.finding.unwrap().room, Room::Watch);
        assert_eq!((why.others, why.next), (0, None));
        let complaint = finding(Room::Checkpoint, "directory", Severity::Warning);
        let why = Why::of([all.clone(), vec![complaint]].concat(), vec![blind.clone()], "0");
        assert_eq!(why.finding.unwrap().rule, "directory", "what cannot be looked at is told");
        let blind_too = Unwatched { room: Room::Watch, ..blind.clone() };
        assert_eq!(Why::of(all, vec![blind, blind_too], "0").finding, None, "nothing is known");
    }
}
