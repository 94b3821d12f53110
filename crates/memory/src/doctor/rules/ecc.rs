//! A module whose errors nobody corrects has none to count.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "ecc-off", check };

/// `dimm_edac_mode` of modules without a code, and of those with one (`edac_caps` in drivers/edac).
const OFF: &str = "none";
const CODES: [&str; 7] = ["PARITY", "EC", "SECDED", "S2ECD2ED", "S4ECD4ED", "S8ECD8ED", "S16ECD16ED"];

fn check(facts: &Facts) -> Verdict {
    let places = facts.reading.controllers.iter().flat_map(|one| one.places.iter().map(move |place| (one, place)));
    let (told, silent): (Vec<_>, Vec<_>) = places.partition(|(_, place)| !place.edac_mode.is_empty());
    if told.is_empty() {
        return Verdict::CannotTell("no module tells its mode of correction (dimm_edac_mode)".into());
    }
    let off: Vec<_> = told.iter().filter(|(_, place)| place.edac_mode.eq_ignore_ascii_case(OFF)).collect();
    let Some((controller, place)) = off.first() else {
        // The kernel's own words `Unknown` and `Reserved` are among these.
        if let Some((controller, place)) = told.iter().find(|(_, place)| !CODES.contains(&place.edac_mode.as_str())) {
            return Verdict::CannotTell(format!(
                "{}/{}/dimm_edac_mode is {}, which is none of the codes that Surefoot knows",
                controller.id, place.name, place.edac_mode
            ));
        }
        if let Some((controller, place)) = silent.first() {
            return Verdict::CannotTell(format!(
                "{} of {} modules or ranks do not tell their mode of correction (dimm_edac_mode), {}/{} among them",
                silent.len(),
                silent.len() + told.len(),
                controller.id,
                place.name
            ));
        }
        return Verdict::Fine(format!(
            "all {} modules or ranks have a code, such as {}",
            told.len(),
            told[0].1.edac_mode
        ));
    };
    Verdict::Found(found(
        Severity::Warning,
        format!(
            "{}/{}/dimm_edac_mode is {}: {} of {} modules or ranks are without a code",
            controller.id,
            place.name,
            place.edac_mode,
            off.len(),
            told.len() + silent.len()
        ),
        "their errors are neither corrected nor counted: wrong bits go into programs and files",
        "turn ECC on in firmware setup; where the modules cannot (8 chips a side), put in modules with ECC",
    ))
}
