//! What is done next. Pure: everything that a decision rests on is in the [`World`], the [`Policies`] and the [`Controller`].
//!
//! The life of a case:
//!
//! ```text
//! alert ─► waiting ─► running: step, step, ... ─► returned        all steps are done and the host is back
//!            │  ▲        │                    └─► with_person     a step failed for good, or the policy ends with the host out
//!            │  └────────┤ a limit, an approval, a pause, a wait before the next attempt
//!            └─► cleared │ the alert was over before anything was done
//!                        └─► closing steps: settings restored, host returned or ticket filed; ends_as says what comes then
//! ```
//!
//! A step is begun by a [`Change`] that holds the [`surefoot_model::Lease`]; whoever wrote it down does it. Where the lease runs out,
//! the step is in doubt, and another controller looks what became of it.

mod advance;
mod closing;
mod conclude;
mod limits;
mod open;
mod request;
mod twins;

pub use closing::is_left_drained;
pub use conclude::{conclude, found};
pub use limits::{Out, allowed_out, is_out};
pub use open::{HeldBack, HeldReason, held_back};
pub use request::{Refused, Request, request, waits_for_approval};

use crate::policy::Policies;
use crate::{Change, World};
use limits::Limits;
use surefoot_model::{AuditEntry, Case};

/// How long a controller may do a step without saying that it still lives.
pub const LEASE_NS: u64 = 15 * 1_000_000_000;

/// The longest lease. One that ends twice as far ahead was given by a clock that went back, whoever gave it: controllers of one store may
/// have different leases, as while one after the other is started with another.
pub const LEASE_NS_MAX: u64 = 600 * 1_000_000_000;

/// At most so many changes in one decision, so that a transaction stays short; the rest follows in the next.
pub const CHANGES_MAX: usize = 1_000;

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Its name, which no other that lives has: a controller that starts anew takes another.
    pub name: String,
    /// How many steps it can begin now.
    pub free_count: usize,
    /// See [`LEASE_NS`]; at most [`LEASE_NS_MAX`].
    pub lease_ns: u64,
}

/// The changes that are due now, each with its line of the audit trail. Of each case there is at most one.
pub fn decide(world: &World, policies: &Policies, controller: &Controller) -> Vec<(Change, AuditEntry)> {
    let mut changes = Vec::new();
    let mut limits = Limits::of(world, policies);
    let mut free_count = controller.free_count;
    // Steps that go on come before new ones, and the worst cases before others, so that a burst of small trouble does not stand in
    // the way of large.
    let mut order: Vec<&Case> = world.open.iter().collect();
    order.sort_by_key(|case| (case.began_realtime_ns == 0, std::cmp::Reverse(case.severity), case.id));
    for case in order {
        if changes.len() >= CHANGES_MAX {
            return changes;
        }
        let mut next = advance::Next { world, policies, controller, limits: &mut limits, free_count: &mut free_count };
        changes.extend(next.of(case).map(|(case, entry)| (Change::Update(Box::new(case)), entry)));
    }
    for case in &world.closed {
        changes.extend(
            advance::mend_clock(case, world, controller).map(|(case, entry)| (Change::Update(Box::new(case)), entry)),
        );
    }
    open::open(world, policies, controller, &limits, &mut changes);
    changes
}

/// The action of a change that says nothing new: it has no line in the audit trail.
const NO_LINE: &str = "";

/// A line of the audit trail of a case.
fn entry(at_realtime_ns: u64, case: u64, actor: &str, action: &str, target: &str, reason: &str) -> AuditEntry {
    AuditEntry {
        at_realtime_ns,
        case,
        actor: actor.to_owned(),
        action: action.to_owned(),
        target: target.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The actor of a controller's lines.
fn actor(name: &str) -> String {
    format!("controller {name}")
}
