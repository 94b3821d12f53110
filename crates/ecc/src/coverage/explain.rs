//! Why the two conventions differ, cell by cell: found by changing one assumption after the other.

use super::exact::{Counts, counts_by_silent_rule};
use super::extent::{PairPlace, PinPattern, Rules};
use super::{Fault, Kind, Layout, Scheme};
use crate::LocationCheck;

/// One assumption in which the paper's convention differs from the physical one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Both faults of a pair hit one codeword.
    PairPlace,
    /// A faulty pin damages all its bits.
    PinPattern,
    /// The decoder accepts locations outside the code.
    LocationCheck,
    /// A block counts as silent although a codeword of it is reported.
    SilentRule,
}

/// A cell under both conventions, and what leads from one to the other.
#[derive(Debug, Clone)]
pub struct Explained {
    /// By [`Rules::PHYSICAL`].
    pub physical: Counts,
    /// By [`Rules::PAPER`].
    pub paper: Counts,
    /// The assumptions that change the shares, each on top of those before, with the counts that it leads to.
    pub steps: Vec<(Step, Counts)>,
}

impl Step {
    /// What is assumed, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Step::PairPlace => "the paper puts both faults into one codeword",
            Step::PinPattern => "its pin damages all of its bits, so that it always hits every symbol it can",
            Step::LocationCheck => "its decoder accepts locations outside the code",
            Step::SilentRule => "it counts a block as silent although another codeword of it is reported",
        }
    }
}

/// Counts a cell under both conventions. The layouts are those of one scheme, with and without location check.
pub fn explain(scheme: Scheme, checked: &Layout, unchecked: &Layout, fault: Fault) -> Explained {
    let mut rules = Rules::PHYSICAL;
    let mut now = counts_by_silent_rule(checked, fault, rules);
    let physical = now[0];
    let mut steps = Vec::new();
    let mut note = |step, before: Counts, after: Counts| {
        if !before.is_alike(after) {
            steps.push((step, after));
        }
    };
    if matches!(fault, Fault::Pair(..)) {
        rules.pair_place = PairPlace::SameCodeword;
        let next = counts_by_silent_rule(checked, fault, rules);
        note(Step::PairPlace, now[0], next[0]);
        now = next;
    }
    if fault.kinds().contains(&Kind::Pin) {
        rules.pin_pattern = PinPattern::AllBits;
        let next = counts_by_silent_rule(checked, fault, rules);
        note(Step::PinPattern, now[0], next[0]);
        now = next;
    }
    // The other decoders compare with the columns that there are: the location check is no choice.
    if matches!(scheme, Scheme::Rs36_32 | Scheme::Rs18_16 | Scheme::Rs19_16) {
        rules.location_check = LocationCheck::Off;
        let next = counts_by_silent_rule(unchecked, fault, rules);
        note(Step::LocationCheck, now[0], next[0]);
        now = next;
    }
    note(Step::SilentRule, now[0], now[1]);
    Explained { physical, paper: now[1], steps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::exact::counts;

    #[test]
    fn the_last_step_ends_at_the_paper() {
        for (scheme, fault, steps) in [
            (Scheme::Rs19_16, "pin+pin", vec![Step::PinPattern]),
            (Scheme::Rs19_16, "bit+bit", vec![Step::PairPlace]),
            (Scheme::Rs19_16, "chip", vec![]),
            (Scheme::Rs36_32, "pin", vec![Step::PinPattern]),
            (Scheme::Rs36_32, "chip+chip", vec![Step::LocationCheck, Step::SilentRule]),
            (Scheme::Secded, "word+word", vec![Step::PairPlace]),
        ] {
            let fault = fault.parse().unwrap();
            let (checked, unchecked) =
                (Layout::new(scheme, LocationCheck::On), Layout::new(scheme, LocationCheck::Off));
            let explained = explain(scheme, &checked, &unchecked, fault);
            assert_eq!(explained.physical, counts(&checked, fault, Rules::PHYSICAL));
            assert_eq!(explained.paper, counts(&unchecked, fault, Rules::PAPER));
            assert_eq!(explained.steps.iter().map(|step| step.0).collect::<Vec<_>>(), steps, "{scheme:?} {fault}");
            let last = explained.steps.last().map_or(explained.physical, |step| step.1);
            assert!(last.is_alike(explained.paper));
        }
    }
}
