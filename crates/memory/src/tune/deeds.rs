//! The deeds of a change: one before it and one after it.

use super::act::{Applied, Step};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_hostfs::privilege::effective_user;
use surefoot_model::{Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Observed, Room, Subject};

/// The deed of a change that begins now, by the user of this process.
pub fn begins(step: &Step) -> Deed {
    let now_ns = now_ns();
    let setting = |text: &str| text.chars().take(64).collect::<String>();
    Deed {
        at_realtime_ns: now_ns,
        begun_realtime_ns: now_ns,
        room: Room::Memory,
        subject: Subject::host(),
        actor: Actor::Command { uid: effective_user() },
        action: DeedAction::ChangeSetting,
        target: DeedTarget::Setting {
            name: step.path.display().to_string(),
            from: Some(setting(&step.from)),
            to: setting(&step.to),
        },
        reason: DeedReason::Asked,
        outcome: DeedOutcome::Begun,
    }
}

/// The deed of its end, with the outcome that was observed.
pub fn ends(begun: &Deed, applied: &Applied) -> Deed {
    let outcome = match applied {
        Applied::Verified { evidence } => {
            DeedOutcome::Done { observed: Observed::Effect { evidence: evidence.clone() } }
        }
        Applied::ReadBack => DeedOutcome::Done { observed: Observed::ReadBack },
        Applied::RolledBack { evidence } => DeedOutcome::TakenBack { note: evidence.clone() },
        Applied::Failed { why } => DeedOutcome::Failed { error: why.clone() },
    };
    begun.with_outcome(outcome, now_ns())
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
