//! The recovery journal of releases before deeds, whose steps of the last hour still count against the limits.

use serde::Deserialize;
use surefoot_model::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Observed, Room, Subject, SubjectKind, Withheld,
};

/// Where it was.
pub(super) const FILE: &str = "/var/lib/surefoot/nic-recovery.jsonl";

#[derive(Deserialize)]
struct Step {
    at_realtime_ns: u64,
    interface: String,
    kind: Kind,
    target: String,
    reason: String,
    outcome: Outcome,
    detail: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    ReporterRecover,
    LinkCycle,
    FunctionReset,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Planned,
    Withheld,
    Begun,
    Done,
    Failed,
}

/// A line of it as a deed.
pub(super) fn parse(line: &[u8]) -> Option<Deed> {
    let step: Step = serde_json::from_slice(line).ok()?;
    let action = match step.kind {
        Kind::ReporterRecover => DeedAction::ReporterRecover,
        Kind::LinkCycle => DeedAction::LinkCycle,
        Kind::FunctionReset => DeedAction::FunctionReset,
    };
    let outcome = match step.outcome {
        Outcome::Planned => DeedOutcome::Planned,
        Outcome::Withheld => DeedOutcome::Withheld { why: Withheld::Other { why: step.detail } },
        Outcome::Begun => DeedOutcome::Begun,
        Outcome::Done => DeedOutcome::Done { observed: Observed::Note { text: step.detail } },
        Outcome::Failed => DeedOutcome::Failed { error: step.detail },
    };
    let is_whole = step.target == step.interface;
    Some(Deed {
        at_realtime_ns: step.at_realtime_ns,
        begun_realtime_ns: step.at_realtime_ns,
        room: Room::Nic,
        subject: Subject::new(SubjectKind::Interface, step.interface),
        actor: Actor::Unknown,
        action,
        target: if is_whole { DeedTarget::Subject } else { DeedTarget::Part { name: step.target } },
        reason: DeedReason::Seen { evidence: vec![step.reason] },
        outcome,
    })
}
