//! What of a block a fault may damage, under the rules of a convention.

use super::{Fault, Kind, Layout};
use crate::LocationCheck;

/// How a faulty pin damages its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PinPattern {
    /// At random, at least one.
    Random,
    /// All of them are wrong.
    AllBits,
}

/// Where the two faults of a pair lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairPlace {
    /// Anywhere in the block, independently.
    Anywhere,
    /// So that at least one codeword contains bits of both.
    SameCodeword,
}

/// When a block counts as silently wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SilentRule {
    /// One of its codewords is wrong without notice, and none is reported as uncorrectable.
    NoneReported,
    /// One of its codewords is wrong without notice, even if another is reported.
    AnyCodeword,
}

/// The assumptions that tell the conventions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Where pairs lie.
    pub pair_place: PairPlace,
    /// How pins fail.
    pub pin_pattern: PinPattern,
    /// Whether the decoder rejects locations outside the code. RS codes only: the decoders of the other two compare with
    /// the columns that exist.
    pub location_check: LocationCheck,
    /// What counts as silent.
    pub silent_rule: SilentRule,
}

impl Rules {
    /// What the hardware does: faults fall anywhere, pins fail at random, locations are checked, and a reported word
    /// stops the consumer of the block.
    pub const PHYSICAL: Rules = Rules {
        pair_place: PairPlace::Anywhere,
        pin_pattern: PinPattern::Random,
        location_check: LocationCheck::On,
        silent_rule: SilentRule::NoneReported,
    };

    /// The assumptions that Table 4 of MEMSYS'16 implies, as far as any set of assumptions comes near to it: the pair
    /// rows of RS(19,16) need both faults in one codeword; the silent shares need a decoder that accepts any location,
    /// pins that always hit both of their symbols, and blocks that count as silent although their other codeword is
    /// reported.
    pub const PAPER: Rules = Rules {
        pair_place: PairPlace::SameCodeword,
        pin_pattern: PinPattern::AllBits,
        location_check: LocationCheck::Off,
        silent_rule: SilentRule::AnyCodeword,
    };
}

/// The bits of a slice that a fault at a certain place reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The bits.
    pub mask: u32,
    /// Whether it damages all of them, instead of at random at least one.
    pub is_fixed: bool,
}

impl Extent {
    /// How many error patterns it has, all equally likely.
    pub fn patterns(self) -> u64 {
        if self.is_fixed { 1 } else { (1u64 << self.mask.count_ones()) - 1 }
    }
}

/// Every place that a fault of this kind may have in a chip's slice, all equally likely.
pub fn extents(kind: Kind, layout: &Layout, rules: Rules) -> Vec<Extent> {
    let bits = 4 * layout.beats;
    let masks: Vec<u32> = match kind {
        Kind::Bit | Kind::Column => (0..bits).map(|bit| 1 << bit).collect(),
        Kind::Word => (0..layout.beats).map(|beat| 0xF << (4 * beat)).collect(),
        Kind::Pin => (0..4).map(|pin| (0x1111_1111 << pin) & layout.slice_mask()).collect(),
        // Lines, rows and pages are no faults of a slice; a chip is all that such a fault could be in a block.
        Kind::Chip | Kind::Line | Kind::Row | Kind::Page => vec![layout.slice_mask()],
    };
    let is_fixed = kind == Kind::Pin && rules.pin_pattern == PinPattern::AllBits;
    masks.into_iter().map(|mask| Extent { mask, is_fixed }).collect()
}

/// Every place of a pair of faults in the slices of two different chips, all equally likely.
pub fn pair_extents(first: Kind, second: Kind, layout: &Layout, rules: Rules) -> Vec<(Extent, Extent)> {
    let seconds = extents(second, layout, rules);
    let pairs =
        extents(first, layout, rules).into_iter().flat_map(|one| seconds.iter().map(move |&other| (one, other)));
    pairs
        .filter(|&(one, other)| rules.pair_place == PairPlace::Anywhere || share_codeword(layout, one, other))
        .collect()
}

fn share_codeword(layout: &Layout, one: Extent, other: Extent) -> bool {
    (0..layout.codewords).any(|codeword| layout.part(one.mask, codeword) != 0 && layout.part(other.mask, codeword) != 0)
}

/// Every choice of faulty chips, all equally likely: one, or two different ones. Where the faults of a pair are of one
/// kind, their order means nothing and each choice is there once. For a single fault the second chip has no meaning.
pub fn chip_choices(fault: Fault, layout: &Layout) -> Vec<(usize, usize)> {
    match fault {
        Fault::Single(_) => (0..layout.chips).map(|chip| (chip, (chip + 1) % layout.chips)).collect(),
        Fault::Pair(first, second) => (0..layout.chips)
            .flat_map(|one| (0..layout.chips).map(move |other| (one, other)))
            .filter(|&(one, other)| if first == second { one < other } else { one != other })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Scheme;

    #[test]
    fn extents_are_those_of_an_x4_chip() {
        let layout = Layout::new(Scheme::Rs36_32, LocationCheck::On);
        let count = |kind| {
            let all = extents(kind, &layout, Rules::PHYSICAL);
            (all.len(), all[0].mask.count_ones(), all[0].patterns())
        };
        assert_eq!(count(Kind::Bit), (32, 1, 1));
        assert_eq!(count(Kind::Column), (32, 1, 1));
        assert_eq!(count(Kind::Word), (8, 4, 15));
        assert_eq!(count(Kind::Pin), (4, 8, 255));
        assert_eq!(count(Kind::Chip), (1, 32, u64::from(u32::MAX)));
        assert_eq!(extents(Kind::Pin, &layout, Rules::PAPER)[0].patterns(), 1);
        let chipkill = Layout::new(Scheme::Chipkill, LocationCheck::On);
        assert_eq!(extents(Kind::Chip, &chipkill, Rules::PHYSICAL)[0].mask, 0xFFFF);
        assert_eq!(extents(Kind::Pin, &chipkill, Rules::PHYSICAL)[0].mask, 0x1111);
    }

    #[test]
    fn the_paper_puts_pairs_into_one_codeword() {
        let layout = Layout::new(Scheme::Rs19_16, LocationCheck::On);
        assert_eq!(pair_extents(Kind::Bit, Kind::Bit, &layout, Rules::PHYSICAL).len(), 1024);
        assert_eq!(pair_extents(Kind::Bit, Kind::Bit, &layout, Rules::PAPER).len(), 256);
        assert_eq!(pair_extents(Kind::Bit, Kind::Pin, &layout, Rules::PAPER).len(), 128);
        assert_eq!(chip_choices(Fault::Pair(Kind::Bit, Kind::Bit), &layout).len(), 153);
        assert_eq!(chip_choices(Fault::Pair(Kind::Bit, Kind::Pin), &layout).len(), 306);
    }
}
