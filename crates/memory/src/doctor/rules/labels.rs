//! Without labels nobody finds the slot.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use crate::identity::is_default_label;
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "labels-missing", check };

fn check(facts: &Facts) -> Verdict {
    let controllers = &facts.reading.controllers;
    let all: usize = controllers.iter().map(|one| one.places.len()).sum();
    if all == 0 {
        return Verdict::CannotTell("there is no module with a label".into());
    }
    let places = controllers.iter().flat_map(|one| one.places.iter().map(move |place| (one, place)));
    let unlabelled: Vec<_> = places.filter(|(one, place)| is_default_label(one, &place.label)).collect();
    let Some((controller, place)) = unlabelled.first() else {
        return Verdict::Fine(format!("all {all} modules or ranks have a label"));
    };
    Verdict::Found(found(
        Severity::Notice,
        format!(
            "{} of {all} modules or ranks have no label, such as {}/{} ({})",
            unlabelled.len(),
            controller.id,
            place.name,
            if place.label.is_empty() { "empty" } else { &place.label }
        ),
        "which slot a failing module is in is not told, and its serial number is not known for certain",
        "register the board's labels: ras-mc-ctl --register-labels (from /etc/ras/dimm_labels.d), by `dmidecode -t memory`",
    ))
}
