use crate::{Case, Finding, Severity, Subject, SubjectKind, UnreadCase};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// A part of a host that is known by its serial number: a memory module or a drive.
///
/// Whoever knows a part only by its place tells no part: what has no serial number cannot be told apart from what takes its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Part {
    /// What it is.
    pub kind: SubjectKind,
    /// What findings call it, see [`Subject::name`].
    pub name: String,
    /// Where it is: the label of a module's slot, or the kernel's name of a drive.
    pub place: String,
    /// Its serial number.
    pub serial: String,
    /// The maker's name of the kind: a module's part number, a drive's model; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

/// Parts of one model in a host, among those that are known by their serial numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct PartCount {
    /// What they are.
    pub kind: SubjectKind,
    /// See [`Part::model`].
    pub model: String,
    /// How many.
    pub count: u64,
    /// Those of them with a warning or worse.
    pub faulty: u64,
}

impl PartCount {
    /// The models of a host that are counted each by itself.
    pub const OF_HOST_MAX: usize = 16;
    /// The model under which those beyond are counted together.
    pub const OTHERS: &'static str = "other models";

    /// Counts the parts of a host by model, of which most there are first.
    pub fn of(parts: &[Part], findings: &[Finding]) -> Vec<PartCount> {
        let faulty: HashSet<(SubjectKind, &str)> = findings
            .iter()
            .filter(|finding| finding.severity >= Severity::Warning)
            .map(|finding| (finding.subject.kind, &*finding.subject.name))
            .collect();
        let mut counts: Vec<PartCount> = Vec::new();
        for part in parts {
            let is_faulty = faulty.contains(&(part.kind, &*part.name));
            PartCount { kind: part.kind, model: part.model.clone(), count: 1, faulty: u64::from(is_faulty) }
                .add_to(&mut counts);
        }
        counts.sort_by(|one, two| two.count.cmp(&one.count).then_with(|| one.model.cmp(&two.model)));
        PartCount::fitted(counts)
    }

    /// At most [`PartCount::OF_HOST_MAX`], with those beyond counted together.
    pub fn fitted(mut counts: Vec<PartCount>) -> Vec<PartCount> {
        if counts.len() > PartCount::OF_HOST_MAX {
            // One place for the others of each kind: modules and drives.
            for more in counts.split_off(PartCount::OF_HOST_MAX - 2) {
                PartCount { model: PartCount::OTHERS.into(), ..more }.add_to(&mut counts);
            }
        }
        counts
    }

    fn add_to(self, counts: &mut Vec<PartCount>) {
        match counts.iter_mut().find(|one| one.kind == self.kind && one.model == self.model) {
            Some(one) => {
                one.count = one.count.saturating_add(self.count);
                one.faulty = one.faulty.saturating_add(self.faulty);
            }
            None => counts.push(self),
        }
    }
}

impl Part {
    /// The parts of a host that are told: no host has more that are told apart here.
    pub const OF_HOST_MAX: usize = 160;

    /// What findings about it are about.
    pub fn subject(&self) -> Subject {
        Subject::new(self.kind, &*self.name)
    }

    /// Whether both are the same part, wherever it is.
    pub fn is_same(&self, other: &Part) -> bool {
        self.kind == other.kind && self.serial == other.serial
    }

    /// Those of a host's parts whose serial number and place tell one from another, at most [`Part::OF_HOST_MAX`]; and how many others
    /// there are. A number that two of them have, a filler, and a place that two of them have say nothing.
    pub fn told_apart(parts: Vec<Part>) -> (Vec<Part>, u64) {
        let count = parts.len();
        let is_one = |part: &&Part| {
            let has_twin = |same: fn(&Part, &Part) -> bool| parts.iter().filter(|other| same(part, other)).count() > 1;
            let is_in_place_of = |one: &Part, other: &Part| one.kind == other.kind && one.place == other.place;
            is_serial(&part.serial) && !part.place.is_empty() && !has_twin(Part::is_same) && !has_twin(is_in_place_of)
        };
        let told: Vec<Part> = parts.iter().filter(is_one).take(Part::OF_HOST_MAX).cloned().collect();
        let left_out = (count - told.len()) as u64;
        (told, left_out)
    }
}

/// A part in a place of a host, from when until when.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartStay {
    /// When it was first told to be there, `CLOCK_REALTIME`.
    pub since_realtime_ns: u64,
    /// When something else was told to be there, or it elsewhere, `CLOCK_REALTIME`; 0 for not yet.
    pub until_realtime_ns: u64,
    /// The host.
    pub host: String,
    /// See [`Part::place`].
    pub place: String,
    /// The serial number of what took its place; empty for nothing that is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replaced_by: String,
}

/// What is kept of the part that a case is about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartBook {
    /// Cases of its host that may be about the part or its place, and cases of other hosts that are about the part itself.
    pub cases: Vec<Case>,
    /// Where it was, the oldest first; none for a part without a serial number.
    pub stays: Vec<PartStay>,
    /// Older cases of the part that are left out.
    pub left_out: u64,
    /// Cases of the same hosts that cannot be read: they may be about the part, too.
    pub unread: Vec<UnreadCase>,
}

/// The longest serial number.
const SERIAL_CHARACTERS_MAX: usize = 64;
/// A shorter one is no serial number.
const SERIAL_CHARACTERS_MIN: usize = 3;

/// Whether a text may be a serial number. What many makers write into all their parts is none.
pub fn is_serial(text: &str) -> bool {
    let count = text.chars().count();
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix("0x").unwrap_or(&lower);
    let is_counted = ["0123456789", "1234567890"].iter().any(|row| row.contains(digits));
    let mut letters = digits.chars();
    let first = letters.next();
    let is_one_letter = letters.all(|letter| Some(letter) == first);
    (SERIAL_CHARACTERS_MIN..=SERIAL_CHARACTERS_MAX).contains(&count)
        && text.trim() == text
        && !text.chars().any(crate::is_harmful)
        && !is_filler(text)
        && !is_counted
        && !is_one_letter
}

/// Whether a text is what firmware writes where it knows nothing.
pub fn is_filler(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "unknown",
        "not specified",
        "not available",
        "no dimm",
        "none",
        "n/a",
        "na",
        "empty",
        "to be filled by o.e.m.",
        "default string",
        "undefined",
        "null",
        "serial",
        "sernum",
    ];
    let text = text.trim().to_ascii_lowercase();
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    let is_one_letter = |letter: char| digits.chars().all(|other| other == letter);
    text.is_empty() || is_one_letter('0') || is_one_letter('f') || is_one_letter('-') || WORDS.contains(&text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(place: &str, serial: &str) -> Part {
        Part {
            kind: SubjectKind::Dimm,
            name: serial.into(),
            place: place.into(),
            serial: serial.into(),
            model: String::new(),
        }
    }

    #[test]
    fn what_makers_write_into_all_parts_is_no_serial_number() {
        for text in ["03A10001", "S5GXNX0T", "2137E5C1AAAA", "plain"] {
            assert!(is_serial(text), "{text}");
        }
        let long = "a1".repeat(40);
        let hostile = ["S1\n", "S1\u{202e}X", " S12", "S12 "];
        let fillers = ["", "Unknown", "00000000", "0x00000000", "FFFFFFFF", "11111111", "123456789", "0123456789"];
        let words = ["NO DIMM", "Not Specified", "To Be Filled By O.E.M.", "Default string", "N/A", "--", "1", &long];
        for text in hostile.iter().chain(&fillers).chain(&words) {
            assert!(!is_serial(text), "{text:?}");
        }
    }

    #[test]
    fn of_parts_with_one_number_or_one_place_none_is_told() {
        let twice =
            [part("A1", "S100"), part("A2", "S100"), part("B1", "S200"), part("B1", "S201"), part("C1", "S300")];
        assert_eq!(Part::told_apart(twice.to_vec()), (vec![part("C1", "S300")], 4));
        // A drive may have the number of a module.
        let drive = Part { kind: SubjectKind::Drive, ..part("sda", "S300") };
        assert_eq!(Part::told_apart(vec![part("C1", "S300"), drive]).1, 0);
        let many: Vec<Part> = (0..300).map(|number| part(&format!("A{number}"), &format!("S4{number}"))).collect();
        assert_eq!(Part::told_apart(many).0.len(), Part::OF_HOST_MAX);
    }

    #[test]
    fn parts_are_counted_by_model_with_those_in_trouble_and_none_beyond_the_limit_is_lost() {
        let of = |place: &str, model: &str| Part { model: model.into(), ..part(place, place) };
        let bad = |name: &str, severity| {
            Finding::new(crate::Room::Memory, "rate", Subject::new(SubjectKind::Dimm, name), severity, "x")
        };
        let parts = [of("A1", "M1"), of("A2", "M1"), of("A3", "M2")];
        let counted = PartCount::of(&parts, &[bad("A2", Severity::Critical), bad("A3", Severity::Notice)]);
        let said: Vec<_> = counted.iter().map(|one| (&*one.model, one.count, one.faulty)).collect();
        assert_eq!(said, [("M1", 2, 1), ("M2", 1, 0)]);
        let many: Vec<Part> = (0..60).map(|at| of(&format!("P{at}"), &format!("M{at}"))).collect();
        let counted = PartCount::of(&many, &[]);
        assert!(counted.len() <= PartCount::OF_HOST_MAX, "{}", counted.len());
        assert_eq!(counted.iter().map(|one| one.count).sum::<u64>(), 60);
    }
}
