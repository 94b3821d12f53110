//! `firmware:NAME=VALUE`: one setting of the firmware, by the host's baseboard controller.
//!
//! What stood there is remembered before anything is changed, so that `restore` finds it whatever happens between.

use super::redfish::{Attributes, Bmc, Refused, typed};
use super::{Order, Outcome};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use surefoot_outside::http::redfish::System;

/// What a change of settings remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memo {
    /// What the changed settings were.
    pub before: Attributes,
    /// The machine that they are of.
    #[serde(default)]
    pub system: System,
}

/// Changes the setting: remembers it at the first call, and changes it at the second.
pub fn run(bmc: &Bmc, name: &str, value: &str, order: &Order, stop: &AtomicBool) -> Outcome {
    change(bmc, name, value, order, stop).unwrap_or_else(|refused| refused.outcome(&order.memo))
}

fn change(bmc: &Bmc, name: &str, value: &str, order: &Order, stop: &AtomicBool) -> Result<Outcome, Refused> {
    let known = match order.remembered::<Memo>() {
        Ok(known) => known,
        Err(failed) => return Ok(failed),
    };
    let remembered = known.as_ref().map(|memo| memo.system.clone()).unwrap_or_default();
    let machine = bmc.same_machine(&remembered, stop)?;
    let (now, to_come) = bmc.attributes(&machine, stop)?;
    let wanted = typed(&now, name, value)?;
    if known.is_none() {
        let before = [(name.to_owned(), to_come[name].clone())].into();
        let memo = serde_json::to_string(&Memo { before, system: machine.system }).unwrap_or_default();
        let detail = format!("{name} was {}{}", now[name], machine.doubt);
        return Ok(Outcome::GoesOn { detail, memo, again_in_ns: 0 });
    }
    if to_come.get(name) != Some(&wanted) {
        bmc.set(&machine, &[(name.to_owned(), wanted.clone())].into(), stop)?;
    }
    let when = if now.get(name) == Some(&wanted) { "" } else { "; it takes effect when the host restarts" };
    Ok(Outcome::Done { detail: format!("{name} = {wanted}{when}{}", machine.doubt), memo: order.memo.clone() })
}

/// Puts back what a change remembered, and says what was found afterwards.
pub fn restore(bmc: &Bmc, order: &Order, stop: &AtomicBool) -> Outcome {
    let memo = match order.remembered::<Memo>() {
        Ok(Some(memo)) => memo,
        Ok(None) => return Outcome::NotNeeded { detail: "nothing had been changed".to_owned() },
        Err(failed) => return failed,
    };
    let put = || -> Result<Outcome, Refused> {
        let machine = bmc.same_machine(&memo.system, stop)?;
        let (now, to_come) = bmc.attributes(&machine, stop)?;
        let is_to_come = memo.before.iter().all(|(name, value)| to_come.get(name) == Some(value));
        let is_now = memo.before.iter().all(|(name, value)| now.get(name) == Some(value));
        let names: Vec<String> = memo.before.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let names = names.join(", ");
        if !is_to_come {
            bmc.set(&machine, &memo.before, stop)?;
        }
        let detail = match (is_to_come, is_now) {
            (true, true) => format!("{names} still holds: there was nothing to put back"),
            (true, false) => format!("{names} is already set for the next restart"),
            (false, true) => format!("{names} holds, and is set again for the next restart"),
            (false, false) => format!("{names} again, from the next restart on"),
        };
        Ok(Outcome::Done { detail, memo: order.memo.clone() })
    };
    put().unwrap_or_else(|refused| refused.outcome(&order.memo))
}
