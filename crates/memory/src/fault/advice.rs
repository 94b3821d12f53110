//! What to do about a fault.
//!
//! | fault | stays | advice | why |
//! |---|---|---|---|
//! | lost bits, any | | replace, critical | data are lost already; the next loss may be anywhere |
//! | cell | yes | take the page out | one page holds it; the kernel moves what is in it |
//! | row | yes | post-package repair | firmware swaps the row for a spare one at POST; until then its pages are taken out |
//! | adjacent rows | yes | post-package repair of each | each takes a spare row of its bank group, and DDR4 need not have more than one |
//! | column | yes | replace | it crosses all rows: no pages and no spare row cover it |
//! | bank | yes | replace, within days | the code corrects it until a second chip fails at the same word |
//! | several banks, rank | yes | replace, critical | or the channel, the connector or the controller, which look the same from here |
//! | undetermined, all at one address | yes | take the page out | whatever fails, this part of it does |
//! | any | no, or not known | watch | particles flip bits of healthy memory |
//!
//! Corrected errors alone are no reason to replace a module (Cisco says so, and Cielo's records: Levy et al., SC 2018). Linux
//! has no post-package repair for modules on the host's own channels: firmware does it at POST, with one spare row or more for
//! each bank group of DDR4 (JEDEC), and the hard kind cannot be undone.

use super::mode::Found;
use surefoot_model::{Certainty, DimmFault, FaultMode, MemoryAction, Persistence, Severity};

/// How to find the module where the errors tell their place at best.
pub const FIND_MODULE: &str = "Find the module in the event log of the management controller (`ipmitool -v sel list`), or register the \
                               board's labels (`ras-mc-ctl --register-labels`) so that the next report names it; failing both, test \
                               the modules of that place one at a time.";

pub(super) struct Advice {
    pub action: MemoryAction,
    pub urgency: Severity,
    pub text: String,
}

fn advice(action: MemoryAction, urgency: Severity, text: &str) -> Advice {
    Advice { action, urgency, text: text.to_owned() }
}

/// The advice for a fault; `lost_count` errors lost bits.
pub(super) fn of(found: &Found, persistence: Persistence, lost_count: u64) -> Advice {
    use MemoryAction::{OfflinePages, PostPackageRepair, Replace, Watch};
    if found.mode == FaultMode::None {
        return advice(Watch, Severity::Ok, "Nothing to do.");
    }
    if lost_count > 0 {
        return lost(found.mode);
    }
    let is_permanent = persistence == Persistence::Permanent;
    match (found.mode, is_permanent) {
        (FaultMode::Cell, true) => advice(
            OfflinePages,
            Severity::Notice,
            "Take the page of the cell out of use (`surefoot memory page-offline --dry-run` lists it). Nothing else is needed.",
        ),
        // Only errors that are all at one address have a place without coordinates.
        (FaultMode::Undetermined, true) => advice(
            OfflinePages,
            Severity::Notice,
            "Take the page of this address out of use (`surefoot memory page-offline --dry-run` lists it). If errors then come at \
             other addresses, more than a cell has failed: let the driver or firmware report rows and columns.",
        ),
        (FaultMode::Cell, false) => {
            advice(Watch, Severity::Notice, "Nothing yet: healthy memory flips a bit now and then.")
        }
        (FaultMode::Row, true) => advice(
            PostPackageRepair,
            Severity::Warning,
            "Take the row's pages out of use now, and have firmware repair the row by a spare one at the next boot (soft \
             post-package repair first: the hard one cannot be undone and spends a spare row of the bank group).",
        ),
        (FaultMode::Rows, true) => advice(
            PostPackageRepair,
            Severity::Warning,
            "Take the pages of these rows out of use now, and have firmware repair each row by a spare one at the next boot (soft \
             post-package repair first: the hard one cannot be undone). They need as many spare rows as they are: where the bank \
             group has fewer (DDR4 guarantees one), plan to replace the module.",
        ),
        (FaultMode::Column, true) => advice(
            Replace,
            Severity::Warning,
            "Plan to replace the module: a column crosses all rows of the bank, so neither pages nor a spare row cover it.",
        ),
        (FaultMode::Bank, true) => advice(
            Replace,
            Severity::Warning,
            "Replace the module within days: the code corrects these errors until a second fault meets them in one word. Where \
             firmware offers bank sparing (ADDDC on Intel), let it bridge the time.",
        ),
        (FaultMode::Banks | FaultMode::Rank, _) => several(persistence, found.certainty),
        (FaultMode::Row | FaultMode::Rows | FaultMode::Column | FaultMode::Bank, _) => advice(
            Watch,
            Severity::Notice,
            "Nothing yet: it was not seen to come back. Once it is seen over more than three days, it is permanent and the advice changes.",
        ),
        _ => advice(
            Watch,
            Severity::Notice,
            "No action yet: the reports do not say where in the module the errors are. Let the platform's driver (with its \
             decoder) or firmware report rows and columns.",
        ),
    }
}

/// The advice of a fault whose module nobody can name: nothing is replaced before the module is found.
pub(crate) fn at_place(fault: &mut DimmFault, place: &str) {
    if fault.action != MemoryAction::Replace {
        return;
    }
    let first = match fault.urgency {
        Severity::Critical => "Move work away now.",
        _ => "A DIMM has to be replaced.",
    };
    let others = match fault.mode {
        FaultMode::Banks | FaultMode::Rank => " The channel, the connector or the controller look the same from here.",
        _ => "",
    };
    fault.advice = format!("{first} The DIMM is unknown; its place is {place}. {FIND_MODULE}{others}");
}

fn lost(mode: FaultMode) -> Advice {
    let extra = match mode {
        FaultMode::Cell | FaultMode::Row | FaultMode::Rows => {
            " Until then take its pages out of use (`surefoot memory page-offline --dry-run` lists what was seen of them)."
        }
        _ => "",
    };
    let text = format!("Move work away and replace the module: bits were lost that the code could not correct.{extra}");
    Advice { action: MemoryAction::Replace, urgency: Severity::Critical, text }
}

fn several(persistence: Persistence, certainty: Certainty) -> Advice {
    let (action, urgency, first) = match (persistence, certainty) {
        (Persistence::Permanent, _) => (MemoryAction::Replace, Severity::Critical, "Replace the module now."),
        (Persistence::Undetermined, Certainty::Certain) => {
            (MemoryAction::Replace, Severity::Warning, "Replace the module if it goes on.")
        }
        // Ten flips of a healthy module may lie as those of a rank would.
        (Persistence::Undetermined, _) => (
            MemoryAction::Watch,
            Severity::Warning,
            "Nothing yet: wait for more errors to tell a lost rank from stray flips.",
        ),
        (Persistence::Transient, _) => (MemoryAction::Watch, Severity::Warning, "Nothing yet: it has not come back."),
    };
    let text = format!(
        "{first} The channel, the connector or the controller look the same from here: where the other modules of the channel \
         show it too, or it stays with the slot when the module is moved, the module is not to blame."
    );
    Advice { action, urgency, text }
}
