//! A change and its two deeds: one before it and one after it.

use super::act::{self, Applied, Step};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_hostfs::Root;
use surefoot_hostfs::privilege::effective_user;
use surefoot_journal::deeds::{Record, Unusable};
use surefoot_model::{Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Observed, Room, Subject};

/// Why a change, or its outcome, is not in the journal.
#[derive(Debug, thiserror::Error)]
pub enum Unrecorded {
    /// The journal cannot be written, so the setting was not changed.
    #[error("{} was not changed, because that cannot be recorded: {why}", path.display())]
    Change {
        /// The setting's file.
        path: PathBuf,
        /// What is wrong with the journal.
        why: Unusable,
    },
    /// The setting was changed, or was to be, and the outcome could not be written.
    #[error("the outcome of the change of {} is not recorded: {why}", path.display())]
    Outcome {
        /// The setting's file.
        path: PathBuf,
        /// What is wrong with the journal.
        why: Unusable,
    },
}

/// Does a step as [`act::apply`] does, and records it. A step that cannot be recorded is not done. `seen` gets the outcome before
/// it is recorded.
///
/// # Errors
/// [`Unrecorded`].
pub fn apply(
    root: &Root,
    step: &Step,
    wait: Duration,
    record: &Record,
    is_over: &dyn Fn() -> bool,
    seen: impl FnOnce(&Applied),
) -> Result<(), Unrecorded> {
    let (begun, mut unusable, mut has_begun) = (begins(step), None, false);
    let begin = || {
        has_begun = true;
        record.append(&begun).map_err(|why| unusable.insert(why).to_string())
    };
    let outcome = act::apply(root, step, wait, begin, is_over);
    if let Some(why) = unusable {
        return Err(Unrecorded::Change { path: step.path.clone(), why });
    }
    seen(&outcome);
    // A change that did not begin is no deed of this process, and would hide another one that is under way.
    if has_begun {
        let ended = record.append(&ends(&begun, &outcome));
        ended.map_err(|why| Unrecorded::Outcome { path: step.path.clone(), why })?;
    }
    Ok(())
}

/// The deed of a change that begins now, by the user of this process.
fn begins(step: &Step) -> Deed {
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
fn ends(begun: &Deed, applied: &Applied) -> Deed {
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
