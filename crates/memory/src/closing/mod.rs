//! Faults that a person closed: `surefoot memory repaired`, `replaced` and `cleared`, as `fmadm` has it for illumos.
//!
//! A closing is a deed in the host's journal and changes nothing else. The watch reads it from there: what came before stays readable,
//! and verdicts rest on what came since. Only a deed that was done counts: a process that was killed between its two lines closed
//! nothing.

mod act;
mod find;
mod journal;

pub use act::{Plan, Planned, REASON_BYTES_MAX, close, plan, reason};
pub use find::{NotFound, Wanted, wanted};
pub use journal::Journal;

use serde::{Deserialize, Serialize};
use surefoot_model::{
    ClosedModule, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, FaultClosing, Room, SubjectKind,
};

/// The action of the deed that records a closing.
pub fn action(closing: FaultClosing) -> DeedAction {
    match closing {
        FaultClosing::Repaired => DeedAction::FaultRepaired,
        FaultClosing::Replaced => DeedAction::FaultReplaced,
        FaultClosing::Cleared => DeedAction::FaultCleared,
    }
}

/// The closing that an action records; `None` for every other action.
pub fn recorded_by(recorded: DeedAction) -> Option<FaultClosing> {
    let all = [FaultClosing::Repaired, FaultClosing::Replaced, FaultClosing::Cleared];
    all.into_iter().find(|closing| action(*closing) == recorded)
}

/// A closing that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// The module, as [`surefoot_model::Dimm::id`] was then.
    pub module: String,
    /// How.
    pub closing: FaultClosing,
    /// When, `CLOCK_REALTIME`: its errors until then are closed.
    pub at_realtime_ns: u64,
    /// The person's words.
    pub reason: String,
    /// What the module was, and what its counters had.
    pub found: ClosedModule,
}

impl Closing {
    /// The closing that a deed records; `None` for every other deed, and for one that was not done.
    pub fn of(deed: &Deed) -> Option<Closing> {
        let closing = recorded_by(deed.action)?;
        let DeedTarget::Module(found) = &deed.target else { return None };
        let DeedReason::Stated { text } = &deed.reason else { return None };
        let is_it = deed.room == Room::Memory && deed.subject.kind == SubjectKind::Dimm;
        let is_done = matches!(deed.outcome, DeedOutcome::Done { .. });
        (is_it && is_done).then(|| Closing {
            module: deed.subject.name.clone(),
            closing,
            at_realtime_ns: deed.begun_realtime_ns,
            reason: reason(text),
            found: (**found).clone(),
        })
    }
}
