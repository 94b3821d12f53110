//! What the parts that a host tells of now say after those that are known of it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Part, SubjectKind};

/// A part that was last told to be in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) part: Part,
    pub(super) since_ns: u64,
    /// Whether the newest report told of it.
    pub(super) is_there: bool,
}

/// What became of a part that was known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// Another took its place, and it is not on the host any more.
    Swapped {
        /// The serial number of the other.
        by: String,
    },
    /// It is in another place of the host now.
    Moved {
        /// Where.
        to: String,
    },
    /// It is gone, and what has its place now was on the host before.
    Gone,
}

/// The difference between two reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Parts in places where they were not.
    pub(super) come: Vec<Part>,
    /// Parts that left their place, and what became of them.
    pub(super) left: Vec<(Known, Left)>,
    /// Parts that are told of again, or not any more: an empty slot and a number that firmware does not tell look the same, so that
    /// nothing follows but that it was not seen.
    pub(super) seen: Vec<(Known, bool)>,
}

/// Compares a report with what is known. Of a kind that the report does not tell of, nothing changes.
pub(super) fn compare(known: &[Known], told: &[Part]) -> Difference {
    let kinds: BTreeSet<SubjectKind> = told.iter().map(|part| part.kind).collect();
    let mut difference = Difference::default();
    for kind in kinds {
        let known: Vec<&Known> = known.iter().filter(|known| known.part.kind == kind).collect();
        let told: Vec<&Part> = told.iter().filter(|part| part.kind == kind).collect();
        of_kind(kind, &known, &told, &mut difference);
    }
    difference
}

fn of_kind(kind: SubjectKind, known: &[&Known], told: &[&Part], difference: &mut Difference) {
    let at_place: BTreeMap<&str, &Part> = told.iter().map(|part| (&*part.place, *part)).collect();
    let place_of: BTreeMap<&str, &str> = told.iter().map(|part| (&*part.serial, &*part.place)).collect();
    let was: BTreeSet<&str> = known.iter().map(|known| &*known.part.serial).collect();
    let stays = |known: &Known| at_place.get(&*known.part.place).is_some_and(|part| part.serial == known.part.serial);
    let is_new = |part: &Part| !was.contains(&*part.serial);
    let mut left = Vec::new();
    for known in known {
        let (place, serial) = (&*known.part.place, &*known.part.serial);
        let became = match (at_place.get(place), place_of.get(serial)) {
            _ if stays(known) => {
                if !known.is_there {
                    difference.seen.push(((*known).clone(), true));
                }
                continue;
            }
            (_, Some(to)) => Left::Moved { to: (*to).to_owned() },
            // A drive's name is no place: after a start the drives that are left may share the names otherwise.
            (Some(now), None) if kind != SubjectKind::Drive || is_new(now) => Left::Swapped { by: now.serial.clone() },
            (Some(_), None) => Left::Gone,
            (None, None) => {
                if known.is_there {
                    difference.seen.push(((*known).clone(), false));
                }
                continue;
            }
        };
        left.push(((*known).clone(), became));
    }
    let is_in_place = |part: &Part| known.iter().any(|known| known.part.place == part.place && stays(known));
    difference.come.extend(told.iter().filter(|part| !is_in_place(part)).map(|part| (*part).clone()));
    // One drive went and one came, and the names of the others moved.
    let taken: BTreeSet<String> = left
        .iter()
        .filter_map(|(_, became)| match became {
            Left::Swapped { by } => Some(by.clone()),
            _ => None,
        })
        .collect();
    let free: Vec<&&Part> = told.iter().filter(|part| is_new(part) && !taken.contains(&part.serial)).collect();
    let mut gone = left.iter_mut().filter(|(_, became)| *became == Left::Gone);
    if let (Some((_, became)), None, [by]) = (gone.next(), gone.next(), &free[..]) {
        *became = Left::Swapped { by: by.serial.clone() };
    }
    difference.left.extend(left);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: SubjectKind, place: &str, serial: &str) -> Part {
        Part { kind, name: serial.into(), place: place.into(), serial: serial.into(), model: String::new() }
    }

    fn parts(kind: SubjectKind, told: &[(&str, &str)]) -> Vec<Part> {
        told.iter().map(|(place, serial)| part(kind, place, serial)).collect()
    }

    fn known(kind: SubjectKind, told: &[(&str, &str)]) -> Vec<Known> {
        parts(kind, told).into_iter().map(|part| Known { part, since_ns: 1, is_there: true }).collect()
    }

    /// What left, as `A1 X -> Y` of a swap, `A1 X > B1` of a move and `A1 X` of what is gone; then what came.
    fn told(kind: SubjectKind, before: &[(&str, &str)], now: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let difference = compare(&known(kind, before), &parts(kind, now));
        let left = difference.left.iter().map(|(known, left)| {
            let what = format!("{} {}", known.part.place, known.part.serial);
            match left {
                Left::Swapped { by } => format!("{what} -> {by}"),
                Left::Moved { to } => format!("{what} > {to}"),
                Left::Gone => what,
            }
        });
        let come = difference.come.iter().map(|part| format!("{} {}", part.place, part.serial));
        (left.collect(), come.collect())
    }

    fn is(left: &[&str], come: &[&str]) -> (Vec<String>, Vec<String>) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        (owned(left), owned(come))
    }

    #[test]
    fn a_module_in_the_slot_of_another_is_a_swap() {
        let of = |before: &[(&str, &str)], now: &[(&str, &str)]| told(SubjectKind::Dimm, before, now);
        assert_eq!(of(&[], &[("A1", "X")]), is(&[], &["A1 X"]));
        assert_eq!(of(&[("A1", "X"), ("B1", "Y")], &[("A1", "Z"), ("B1", "Y")]), is(&["A1 X -> Z"], &["A1 Z"]));
        // The two changed places: neither was replaced.
        let crossed = of(&[("A1", "X"), ("B1", "Y")], &[("A1", "Y"), ("B1", "X")]);
        assert_eq!(crossed, is(&["A1 X > B1", "B1 Y > A1"], &["A1 Y", "B1 X"]));
        // Another module of the host took the place of one that went.
        assert_eq!(of(&[("A1", "X"), ("B1", "Y")], &[("A1", "Y")]), is(&["A1 X -> Y", "B1 Y > A1"], &["A1 Y"]));
    }

    #[test]
    fn what_is_not_told_is_no_swap() {
        let before = known(SubjectKind::Dimm, &[("A1", "X"), ("B1", "Y")]);
        let difference = compare(&before, &parts(SubjectKind::Dimm, &[("B1", "Y")]));
        assert!(difference.left.is_empty() && difference.come.is_empty(), "{difference:?}");
        assert_eq!(difference.seen, [(before[0].clone(), false)]);
        // Told again after a while: the same part, since when it was.
        let away = [Known { is_there: false, ..before[0].clone() }];
        let again = compare(&away, &parts(SubjectKind::Dimm, &[("A1", "X")]));
        assert_eq!((again.seen.len(), again.come.len(), again.left.len()), (1, 0, 0));
        // A report of drives alone says nothing of modules, and one of nothing says nothing.
        assert_eq!(compare(&before, &parts(SubjectKind::Drive, &[("sda", "Z")])).seen, []);
        assert_eq!(compare(&before, &[]), Difference::default());
    }

    #[test]
    fn names_of_drives_that_moved_are_no_swaps() {
        let of = |before: &[(&str, &str)], now: &[(&str, &str)]| told(SubjectKind::Drive, before, now);
        assert_eq!(of(&[("sda", "X")], &[("sda", "Z")]), is(&["sda X -> Z"], &["sda Z"]));
        assert_eq!(of(&[("sda", "X"), ("sdb", "Y")], &[("sda", "Y")]), is(&["sda X", "sdb Y > sda"], &["sda Y"]));
        // X went and Z came, and Y has the name that X had.
        let shifted = of(&[("sda", "X"), ("sdb", "Y")], &[("sda", "Y"), ("sdb", "Z")]);
        assert_eq!(shifted, is(&["sda X -> Z", "sdb Y > sda"], &["sda Y", "sdb Z"]));
    }
}
