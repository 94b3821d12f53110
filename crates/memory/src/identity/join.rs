//! Places of EDAC and slots of firmware: which is which, and how sure that is.
//!
//! Only names are compared. Order and size are no evidence: boards number their slots in ways of their own.

use crate::identity::firmware::Installed;
use surefoot_model::{Certainty, Digits};

/// Whether a label names a slot.
type Rule = fn(&Label, &Slot) -> bool;

/// A label, made ready once: all pairs are compared at each look.
struct Label {
    /// Its words with a blank before and behind each.
    padded: String,
    numbers: Option<[u32; 4]>,
}

/// A slot, in the same way.
struct Slot {
    padded: String,
    /// Bank and slot together.
    full: String,
    numbers: Option<[u32; 4]>,
}

/// The slot of each label, with the certainty of it. A slot goes to one label at most, and a label to one slot.
///
/// - Certain: the label *is* the slot's name, alone or behind the bank's, as `ras-mc-ctl --register-labels` and ghes_edac write it.
/// - Probable: the label contains the slot's name as a word, or both tell the same numbers of socket, controller, channel and slot.
pub(crate) fn join(labels: &[&str], slots: &[Installed]) -> Vec<Option<(usize, Certainty)>> {
    let labels: Vec<Label> =
        labels.iter().map(|label| Label { padded: padded(label), numbers: numbers(label) }).collect();
    let slots: Vec<Slot> = slots.iter().map(Slot::of).collect();
    let mut joined = vec![None; labels.len()];
    let mut is_taken = vec![false; slots.len()];
    let rules: [(Rule, Certainty); 3] =
        [(is_name, Certainty::Certain), (contains_name, Certainty::Probable), (same_numbers, Certainty::Probable)];
    for (is_it, certainty) in rules {
        let fits = |label: usize, slot: usize| is_it(&labels[label], &slots[slot]);
        let mut found = Vec::new();
        for label in (0..labels.len()).filter(|label| joined[*label].is_none()) {
            let mut fitting = (0..slots.len()).filter(|slot| !is_taken[*slot] && fits(label, *slot));
            if let (Some(slot), None) = (fitting.next(), fitting.next()) {
                found.push((label, slot));
            }
        }
        for &(label, slot) in &found {
            if found.iter().filter(|other| other.1 == slot).count() == 1 {
                joined[label] = Some((slot, certainty));
            }
        }
        joined.iter().flatten().for_each(|(slot, _)| is_taken[*slot] = true);
    }
    joined
}

impl Slot {
    fn of(slot: &Installed) -> Self {
        let bank = padded(&slot.bank_locator);
        let own = padded(&slot.locator);
        let full = format!("{}{own}", bank.trim_end());
        Slot { padded: own, full, numbers: numbers(&slot.bank_locator) }
    }
}

/// Letters and digits in lower case, with one blank before, between and behind words; nothing where there is no word.
fn padded(text: &str) -> String {
    let mut padded = String::with_capacity(text.len() + 2);
    for word in text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
        padded.push(' ');
        padded.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
    }
    if !padded.is_empty() {
        padded.push(' ');
    }
    padded
}

fn is_name(label: &Label, slot: &Slot) -> bool {
    !slot.padded.is_empty() && (label.padded == slot.padded || label.padded == slot.full)
}

fn contains_name(label: &Label, slot: &Slot) -> bool {
    // A name such as `A1` alone is too short to be found by chance in another one.
    slot.padded.len() >= 6 && label.padded.contains(&slot.padded)
}

/// Whether label and slot tell socket, controller, channel and slot alike, as the labels of Intel's drivers
/// (`CPU_SrcID#0_MC#1_Chan#2_DIMM#0`) and the bank locators of some boards (`P0_Node1_Channel2_Dimm0`) do.
fn same_numbers(label: &Label, slot: &Slot) -> bool {
    label.numbers.is_some() && label.numbers == slot.numbers
}

fn numbers(text: &str) -> Option<[u32; 4]> {
    let mut found = [None; 4];
    let text = padded(text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    for pair in words.windows(2) {
        if let Some(place) = layer(pair[0])
            && let Some(number) = pair[1].digits()
        {
            found[place].get_or_insert(number);
        }
    }
    for word in words {
        let begin = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if let Some(place) = layer(begin)
            && let Some(number) = word[begin.len()..].digits()
        {
            found[place].get_or_insert(number);
        }
    }
    Some([found[0]?, found[1]?, found[2]?, found[3]?])
}

/// Which of socket, controller, channel and slot a word names.
fn layer(word: &str) -> Option<usize> {
    match word {
        "srcid" | "p" | "cpu" | "socket" => Some(0),
        "mc" | "node" | "imc" => Some(1),
        "chan" | "channel" | "ch" => Some(2),
        "dimm" | "slot" => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(bank: &str, locator: &str) -> Installed {
        Installed { locator: locator.into(), bank_locator: bank.into(), ..Installed::default() }
    }

    #[test]
    fn a_label_that_is_the_name_of_a_slot_is_certain() {
        let slots = [slot("BANK 0", "DIMM_A1"), slot("BANK 1", "DIMM_A2")];
        let certain = |slot| Some((slot, Certainty::Certain));
        assert_eq!(join(&["DIMM_A2", "dimm a1"], &slots), [certain(1), certain(0)]);
        assert_eq!(join(&["BANK 1 DIMM_A2"], &slots), [certain(1)]);
        assert_eq!(join(&["", "DIMM_B1"], &slots), [None, None]);
    }

    #[test]
    fn a_label_that_contains_it_or_has_the_same_numbers_is_probable() {
        let probable = |slot| Some((slot, Certainty::Probable));
        let slots = [slot("", "DIMM_A1"), slot("", "DIMM_A10")];
        assert_eq!(join(&["CPU0 DIMM_A10", "CPU0 DIMM_A1"], &slots), [probable(1), probable(0)]);
        let slots = [slot("P0_Node1_Channel2_Dimm0", "P1-DIMMF1"), slot("P0_Node1_Channel2_Dimm1", "P1-DIMMF2")];
        let labels = ["CPU_SrcID#0_MC#1_Chan#2_DIMM#1", "CPU_SrcID#1_MC#1_Chan#2_DIMM#1"];
        assert_eq!(join(&labels, &slots), [probable(1), None]);
    }

    #[test]
    fn what_fits_twice_is_not_joined() {
        let slots = [slot("", "DIMM 0"), slot("", "DIMM 0")];
        assert_eq!(join(&["DIMM 0"], &slots), [None], "two slots of one name");
        let slots = [slot("", "DIMM_A1")];
        assert_eq!(join(&["DIMM_A1", "DIMM_A1"], &slots), [None, None], "two labels of one name");
    }
}
