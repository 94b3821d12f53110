//! The setting that somebody meant who wrote a name that there is not.

use crate::config::SETTINGS;
use surefoot_model::slips;

/// What to do about a name that there is not, to follow that sentence: the name that is nearest, in the form in which it is
/// asked for, or else where all of them are shown. One short line, because each rank of a job says it.
pub(crate) fn instead_of(name: &str, form: impl Fn(&str) -> String) -> String {
    let distances = SETTINGS.iter().filter_map(|(known, _)| Some((slips(&form(known), name)?, *known)));
    // The form has letters that are always right.
    let least = distances.filter(|(wrong, known)| *wrong <= known.len() / 2).min();
    let all = "`surefoot checkpoint settings` shows all that there are";
    match least {
        Some((_, known)) => format!("the nearest is {}; {all}", form(known)),
        None => all.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_that_with_the_fewest_slips() {
        let instead = |name: &str| instead_of(name, str::to_owned);
        for (wrong, meant) in [
            ("durabel", "durable"),
            ("stalenes_max_s", "staleness_max_s"),
            ("memory_slots", "memory.slots"),
            ("policies", "policy"),
            ("durable.keeps", "durable.keep"),
        ] {
            assert!(instead(wrong).starts_with(&format!("the nearest is {meant}; ")), "{wrong}: {}", instead(wrong));
        }
        for wrong in ["colour", "", "x", &"y".repeat(100_000)] {
            assert!(!instead(wrong).contains("nearest") && instead(wrong).len() < 80, "{}", instead(wrong));
        }
    }
}
