//! The setting that somebody meant who wrote a name that there is not.

use crate::config::SETTINGS;

/// Letters that may be wrong, missing or too many: of a short name fewer.
const WRONG_MAX: usize = 3;

/// Longer names are nobody's slip, and are not compared.
const NAME_CHARACTERS_MAX: usize = 64;

/// What to do about a name that there is not, to follow that sentence: the name that is nearest, in the form in which it is
/// asked for, or else where all of them are shown. One short line, because each rank of a job says it.
pub(crate) fn instead_of(name: &str, form: impl Fn(&str) -> String) -> String {
    let distances = SETTINGS.iter().map(|(known, _)| (distance(&form(known), name), *known));
    let least = distances.filter(|(wrong, known)| *wrong <= WRONG_MAX.min(known.len() / 2)).min();
    let all = "`surefoot checkpoint settings` shows all that there are";
    match least {
        Some((_, known)) => format!("the nearest is {}; {all}", form(known)),
        None => all.to_owned(),
    }
}

/// How many letters are to be changed, added or taken away to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(NAME_CHARACTERS_MAX).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], above + 1);
        for (at, own) in other.iter().enumerate() {
            let changed = before + usize::from(*own != letter);
            before = row[at + 1];
            row[at + 1] = changed.min(before + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_that_with_the_fewest_slips() {
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("flaw", "lawn")), (3, 3, 2));
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
