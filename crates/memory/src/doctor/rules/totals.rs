//! A driver's totals must be those of its modules.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "totals-disagree", check };

fn check(facts: &Facts) -> Verdict {
    let controllers = &facts.reading.controllers;
    let wrong: Vec<&str> =
        controllers.iter().filter(|one| one.adds_up() == Some(false)).map(|one| one.id.as_str()).collect();
    if !wrong.is_empty() {
        return Verdict::Found(found(
            Severity::Warning,
            format!(
                "of {} the total is not the sum of its modules and of the errors without one, in three readings",
                wrong.join(", ")
            ),
            "some errors are counted in one place and not in the other: neither the total nor the modules' counts hold alone",
            "take the larger of both for true, and report it to the maintainers of the driver",
        ));
    }
    let untold: Vec<&str> =
        controllers.iter().filter(|one| one.adds_up().is_none()).take(4).map(|one| one.id.as_str()).collect();
    match controllers.iter().filter(|one| one.adds_up().is_some()).count() {
        0 => Verdict::CannotTell("no controller shows all the numbers that must add up".into()),
        _ if !untold.is_empty() => Verdict::CannotTell(format!(
            "{} not all the numbers that must add up",
            if let [one] = untold[..] { format!("{one} shows") } else { format!("{} show", untold.join(", ")) }
        )),
        count => Verdict::Fine(format!(
            "the totals of {} are those of their modules",
            counted(count as u64, "controller", "controllers")
        )),
    }
}
