//! `firmware:NAME=VALUE`: one setting of the firmware, by the host's baseboard controller.
//!
//! What stood there is remembered before anything is changed, so that `restore` finds it whatever happens between.

use super::redfish::{Attributes, Bmc, Machine, Refused, typed};
use super::shown::{cut, remarked};
use super::{Order, Outcome};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use surefoot_model::Observed;
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
        let detail = remarked(&format!("{name} was {}", now[name]), &machine.doubt);
        return Ok(Outcome::GoesOn { detail, memo, again_in_ns: 0 });
    }
    if to_come.get(name) != Some(&wanted) {
        bmc.set(&machine, &[(name.to_owned(), wanted.clone())].into(), stop)?;
    }
    let observed = read_back(bmc, &machine, &[(name.to_owned(), wanted)].into(), stop)?;
    Ok(Outcome::Done { observed, remark: machine.doubt, memo: order.memo.clone() })
}

/// What the controller has for these settings now. Refused where it is neither in force nor set for the next restart.
pub(super) fn read_back(
    bmc: &Bmc,
    machine: &Machine,
    wanted: &Attributes,
    stop: &AtomicBool,
) -> Result<Observed, Refused> {
    let (now, to_come) = bmc.attributes(machine, stop)?;
    let holds = |has: &Attributes| wanted.iter().all(|(name, value)| has.get(name) == Some(value));
    if let Some((name, value)) = wanted.iter().find(|(name, value)| to_come.get(*name) != Some(value)) {
        let has = to_come.get(name).map_or("nothing".to_owned(), ToString::to_string);
        let why = format!("{name} reads back as {has}, and not as {value}");
        return Err(Refused { why, is_passing: true });
    }
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values = wanted.iter().map(|(name, value)| (name.clone(), cut(&text(value)))).collect();
    Ok(Observed::Settings { values, in_force: holds(&now) })
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
        let (_, to_come) = bmc.attributes(&machine, stop)?;
        let is_to_come = memo.before.iter().all(|(name, value)| to_come.get(name) == Some(value));
        if !is_to_come {
            bmc.set(&machine, &memo.before, stop)?;
        }
        let remark = if is_to_come { "nothing had to be put back".to_owned() } else { String::new() };
        let observed = read_back(bmc, &machine, &memo.before, stop)?;
        Ok(Outcome::Done { observed, remark, memo: order.memo.clone() })
    };
    put().unwrap_or_else(|refused| refused.outcome(&order.memo))
}
