//! Closing a fault: two lines in the journal of deeds, and nothing else.

use super::{Wanted, action};
use crate::counted;
use surefoot_journal::deeds::{Record, Unusable};
use surefoot_model::{
    Actor, ClosedModule, Deed, DeedOutcome, DeedReason, DeedTarget, Dimm, FaultClosing, Observed, Room, Subject,
    SubjectKind, one_line,
};

/// The longest reason.
pub const REASON_BYTES_MAX: usize = 512;

/// A person's reason as it is kept: one line, within the limit.
pub fn reason(text: &str) -> String {
    let line = one_line(text.trim());
    let end = (0..=line.len().min(REASON_BYTES_MAX)).rev().find(|&end| line.is_char_boundary(end)).unwrap_or(0);
    line[..end].to_owned()
}

/// What is asked.
#[derive(Debug)]
pub struct Plan<'a> {
    /// How the fault is closed.
    pub closing: FaultClosing,
    /// The module.
    pub wanted: Wanted<'a>,
    /// What it is, see [`crate::look::Looker::module_now`].
    pub found: ClosedModule,
    /// The person's words.
    pub reason: &'a str,
    /// Who asks.
    pub uid: u32,
    /// When the module was looked at, `CLOCK_REALTIME`: errors from then on are new ones.
    pub at_realtime_ns: u64,
}

/// What would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// A closing, which a deed with this outcome begins.
    Close {
        /// The deed that begins it.
        begun: Box<Deed>,
        /// What was verified of it, in a sentence.
        evidence: String,
        /// Whether the evidence proves what is claimed. Nothing but a person can tell whether a repair was made.
        is_verified: bool,
    },
    /// Nothing: why.
    NotNeeded(String),
    /// It is refused: why.
    Refused(String),
}

/// Decides what closing the fault comes to; pure.
pub fn plan(ask: &Plan<'_>) -> Planned {
    let (evidence, is_verified) = match &ask.wanted {
        Wanted::Here(dimm) => {
            if let Some(why) = nothing_open(dimm) {
                return Planned::NotNeeded(why);
            }
            match of_present(ask, dimm) {
                Ok(told) => told,
                Err(why) => return Planned::Refused(why),
            }
        }
        Wanted::Gone(stay, now) => {
            let slot = if stay.label.is_empty() { &stay.place } else { &stay.label };
            let (module, slot) = (one_line(&stay.module), one_line(slot));
            if let Some(closing) = stay.closed {
                return Planned::NotNeeded(format!("the fault of {module} is closed already, as {}", closing.as_str()));
            }
            match now {
                Some(now) if now.serial.is_some() && now.serial == stay.serial => {
                    return Planned::Refused(still_there(&module, &slot));
                }
                Some(now) => match &now.serial {
                    Some(serial) => {
                        let serial = one_line(serial);
                        (format!("{slot} held {module} and holds serial number {serial} now"), stay.serial.is_some())
                    }
                    None => (format!("{slot} held {module}; the serial number there now cannot be read"), false),
                },
                None => (format!("{slot} held {module} and is empty now"), true),
            }
        }
    };
    let name = match &ask.wanted {
        Wanted::Here(dimm) => &dimm.id,
        Wanted::Gone(stay, _) => &stay.module,
    };
    let begun = Deed {
        at_realtime_ns: ask.at_realtime_ns,
        begun_realtime_ns: ask.at_realtime_ns,
        room: Room::Memory,
        subject: Subject::new(SubjectKind::Dimm, name.clone()),
        actor: Actor::Command { uid: ask.uid },
        action: action(ask.closing),
        target: DeedTarget::Module(Box::new(ask.found.clone())),
        reason: DeedReason::Stated { text: reason(ask.reason) },
        outcome: DeedOutcome::Begun,
    };
    Planned::Close { begun: Box::new(begun), evidence, is_verified }
}

/// Why there is nothing to close, if there is nothing.
fn nothing_open(dimm: &Dimm) -> Option<String> {
    let is_unknown = crate::is_any_unread(dimm);
    let has_errors = dimm.corrected_since() > 0 || dimm.uncorrected_since() > 0;
    if has_errors || dimm.fault.is_some() || dimm.is_over_rate || is_unknown {
        return None;
    }
    let name = one_line(&dimm.id);
    Some(match &dimm.closed {
        Some(closed) => {
            format!("the fault of {name} is closed already, as {}, and no error came since", closed.closing.as_str())
        }
        None => format!("{name} has no errors, so there is no fault to close"),
    })
}

/// What is known of a module that is here.
fn of_present(ask: &Plan<'_>, dimm: &Dimm) -> Result<(String, bool), String> {
    let errors = format!(
        "{} corrected and {} until now are closed",
        dimm.corrected_since(),
        counted(dimm.uncorrected_since(), "uncorrected error", "uncorrected errors")
    );
    if ask.closing != FaultClosing::Replaced {
        return Ok((errors, true));
    }
    let slot = [&ask.found.label, &ask.found.place].into_iter().find(|name| !name.is_empty()).unwrap_or(&dimm.id);
    match &ask.found.serial {
        Some(_) => Err(still_there(&one_line(&dimm.id), &one_line(slot))),
        None => {
            let slot = one_line(slot);
            Ok((
                format!("the serial number in {slot} cannot be read, so that it was replaced is unverified; {errors}"),
                false,
            ))
        }
    }
}

fn still_there(module: &str, slot: &str) -> String {
    format!(
        "{module} is still in {slot} by its serial number, so it was not replaced; use `memory repaired` if it was repaired or \
         reseated, `memory cleared` if its errors are harmless"
    )
}

/// Records a closing: that it begins, and that it is done. Gives the second deed. Nothing is closed if only the first one is written.
///
/// # Errors
/// [`Unusable`] when the journal cannot be written.
pub fn close(record: &Record, begun: &Deed, evidence: &str, now: impl Fn() -> u64) -> Result<Deed, Unusable> {
    record.append(begun)?;
    let observed = Observed::Note { text: evidence.to_owned() };
    let done = begun.with_outcome(DeedOutcome::Done { observed }, now());
    record.append(&done)?;
    Ok(done)
}
