//! Into the debug mode and out of it: settings, a restart, and a look whether they hold.

use crate::act::reboot::{self, Times};
use crate::act::redfish::{Attributes, Bmc, Refused, typed};
use crate::act::{Order, Outcome, PriorAttempt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use surefoot_model::Observed;
use surefoot_outside::http::redfish::System;

/// How far a switch has come, and what is needed to take it back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Memo {
    /// What the settings were before anything was changed.
    before: Attributes,
    /// The machine that they are of.
    #[serde(default)]
    system: System,
    /// Whether this step is the way back: `before` is then what is wanted.
    #[serde(default)]
    is_back: bool,
    /// Whether the settings stand for the next restart.
    #[serde(default)]
    is_set: bool,
    /// How far the restart has come, in the restart's own words.
    #[serde(default)]
    restart: String,
}

impl Memo {
    fn of(order: &Order) -> Option<Memo> {
        serde_json::from_str(&order.memo).ok()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Switches to these settings: one part at each call, each remembered before the next.
pub fn debug(bmc: &Bmc, times: &Times, wanted: &Attributes, order: &Order, stop: &AtomicBool) -> Outcome {
    let memo = match order.remembered::<Memo>() {
        Ok(Some(memo)) => memo,
        Ok(None) => return remember(bmc, wanted, stop).unwrap_or_else(|refused| refused.outcome(&order.memo)),
        Err(failed) => return failed,
    };
    go_on(bmc, times, wanted, memo, order, stop)
}

/// Puts back what the switch remembered; nothing where it had not begun.
pub fn restore(bmc: &Bmc, times: &Times, order: &Order, stop: &AtomicBool) -> Outcome {
    let memo = match order.remembered::<Memo>() {
        Ok(Some(memo)) => memo,
        Ok(None) => return Outcome::NotNeeded { detail: "nothing had been changed".to_owned() },
        Err(failed) => return failed,
    };
    // Handed over from the switch, with how far that had come.
    let memo = if memo.is_back {
        memo
    } else {
        Memo { before: memo.before, system: memo.system, is_back: true, ..Memo::default() }
    };
    let wanted = memo.before.clone();
    go_on(bmc, times, &wanted, memo, order, stop)
}

/// Every part looks first at what is there; only a restart is not asked for twice.
pub fn find(bmc: &Bmc, order: &Order) -> PriorAttempt {
    match Memo::of(order) {
        Some(memo) if memo.is_set && !memo.restart.is_empty() => {
            let inner = Order { memo: memo.restart.clone(), ..order.clone() };
            match reboot::find_by_bmc(bmc, &inner) {
                // The settings are still to be looked at: the step goes on from there.
                PriorAttempt::Effect { .. } => PriorAttempt::MayRepeat,
                other => other,
            }
        }
        _ => PriorAttempt::MayRepeat,
    }
}

fn remember(bmc: &Bmc, wanted: &Attributes, stop: &AtomicBool) -> Result<Outcome, Refused> {
    let machine = bmc.machine(stop)?;
    let (now, pending) = bmc.attributes(&machine, stop)?;
    let mut before = Attributes::new();
    for name in wanted.keys() {
        // That there is such a setting is asked before anything is changed.
        typed(&now, name, &plain(&wanted[name]))?;
        before.insert(name.clone(), pending.get(name).or(now.get(name)).cloned().unwrap_or_default());
    }
    let detail = format!("settings remembered: {}", shown(&before));
    Ok(Outcome::GoesOn {
        detail,
        memo: Memo { before, system: machine.system, ..Memo::default() }.text(),
        again_in_ns: 0,
    })
}

fn go_on(bmc: &Bmc, times: &Times, wanted: &Attributes, memo: Memo, order: &Order, stop: &AtomicBool) -> Outcome {
    let text = memo.text();
    let next = || -> Result<Outcome, Refused> {
        if !memo.is_set {
            let machine = bmc.same_machine(&memo.system, stop)?;
            let (now, pending) = bmc.attributes(&machine, stop)?;
            let typed = in_kind(&now, wanted)?;
            if !holds(&pending, &typed) {
                bmc.set(&machine, &typed, stop)?;
            }
            let memo = Memo { is_set: true, ..memo.clone() };
            return Ok(Outcome::GoesOn {
                detail: format!("set for the next restart: {}", shown(&typed)),
                memo: memo.text(),
                again_in_ns: 0,
            });
        }
        if memo.restart.is_empty() {
            bmc.same_machine(&memo.system, stop)?;
        }
        let inner = Order { memo: memo.restart.clone(), ..order.clone() };
        match reboot::by_bmc(bmc, times, &inner, stop) {
            Outcome::GoesOn { detail, memo: restart, again_in_ns } => {
                Ok(Outcome::GoesOn { detail, memo: Memo { restart, ..memo.clone() }.text(), again_in_ns })
            }
            Outcome::Waits { waits_for, memo: restart, again_in_ns } => {
                Ok(Outcome::Waits { waits_for, memo: Memo { restart, ..memo.clone() }.text(), again_in_ns })
            }
            done @ Outcome::Done { .. } => verified(bmc, wanted, &done.words(), &memo, stop),
            Outcome::Failed { detail, is_passing, .. } => Err(Refused { why: detail, is_passing }),
            other @ (Outcome::Gone { .. } | Outcome::NotNeeded { .. }) => Ok(other),
        }
    };
    next().unwrap_or_else(|refused| refused.outcome(&text))
}

/// Whether the firmware started with what it was told.
fn verified(bmc: &Bmc, wanted: &Attributes, detail: &str, memo: &Memo, stop: &AtomicBool) -> Result<Outcome, Refused> {
    let machine = bmc.same_machine(&memo.system, stop)?;
    let (now, _) = bmc.attributes(&machine, stop)?;
    let typed = in_kind(&now, wanted)?;
    if holds(&now, &typed) {
        let values = typed.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        let observed = Observed::Settings { values, in_force: true };
        return Ok(Outcome::Done { observed, remark: detail.to_owned(), memo: memo.text() });
    }
    let has: Attributes = typed.keys().map(|name| (name.clone(), now.get(name).cloned().unwrap_or_default())).collect();
    let why = format!("{detail}; the firmware has {} where {} was set", shown(&has), shown(&typed));
    Err(Refused { why, is_passing: false })
}

fn in_kind(now: &Attributes, wanted: &Attributes) -> Result<Attributes, Refused> {
    wanted.iter().map(|(name, value)| Ok((name.clone(), typed(now, name, &plain(value))?))).collect()
}

fn holds(is: &Attributes, wanted: &Attributes) -> bool {
    wanted.iter().all(|(name, value)| is.get(name) == Some(value))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shown(settings: &Attributes) -> String {
    let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = {}", plain(value))).collect();
    words.join(", ")
}
