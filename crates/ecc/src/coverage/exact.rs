//! Exact counts: how many of all error patterns are corrected, detected and silent.
//!
//! Nothing is sampled and nothing rounded: counts are integers up to the last division. Three things make 10^21 patterns
//! countable:
//! - The codewords of a block are disjoint, so that their outcomes multiply. That a fault damages *at least one* of its
//!   bits ties them together again; inclusion and exclusion over "this fault damages nothing" unties them.
//! - A decoder sees syndromes only, and syndromes are linear. The error patterns of a codeword with a given syndrome are
//!   a coset; either none of them or a known power of two lies within the faults' bits. So it is enough to walk over the
//!   syndromes that the decoder accepts (65,026 at most), not over the 2^32 patterns.
//! - A correction is right if and only if the error is the one that the decoder undoes; those are counted directly.

use super::extent::{Extent, Rules, SilentRule, chip_choices, extents, pair_extents};
use super::layout::Verdict;
use super::{Fault, Layout};

/// How many equally likely cases end how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The data is right.
    pub corrected: u128,
    /// The block is reported as uncorrectable.
    pub detected: u128,
    /// The data is wrong, and nothing is reported.
    pub silent: u128,
}

impl Counts {
    /// All cases.
    pub fn total(self) -> u128 {
        self.corrected + self.detected + self.silent
    }

    /// The shares corrected, detected and silent.
    pub fn shares(self) -> [f64; 3] {
        let total = self.total().max(1) as f64;
        [self.corrected, self.detected, self.silent].map(|count| count as f64 / total)
    }

    /// Whether both have the same shares, exactly.
    pub fn is_alike(self, other: Counts) -> bool {
        let (mine, theirs) = (self.total(), other.total());
        let alike = |a: u128, b: u128| wide_product(a, theirs) == wide_product(b, mine);
        alike(self.corrected, other.corrected) && alike(self.silent, other.silent)
    }
}

/// The 256-bit product, high half first.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const HALF: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & HALF, b >> 64, b & HALF);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & HALF);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & HALF))
}

/// The error patterns that one chip may have in one codeword: every `offset ^ m` with the bits of m within `mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Bits that are wrong in any case, unless the mask holds them too.
    pub offset: u16,
    /// Bits that may be wrong.
    pub mask: u16,
}

impl Span {
    fn contains(self, bits: u16) -> bool {
        (bits ^ self.offset) & !self.mask == 0
    }
}

/// How many error patterns of one codeword end how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// The codeword is right afterwards.
    pub right: u64,
    /// It is reported.
    pub detected: u64,
    /// It is wrong, and nothing is reported.
    pub wrong: u64,
}

/// Counts the error patterns that one codeword may have when these (different) chips have these spans.
pub fn tally(layout: &Layout, parts: &[(usize, Span)]) -> Tally {
    let free_bits: u32 = parts.iter().map(|(_, span)| span.mask.count_ones()).sum();
    // A pattern costs a few loads of a table, a syndrome of the other way one load: the smaller number wins.
    if 1u64 << free_bits <= layout.decoder().leaders().len() as u64 {
        tally_by_patterns(layout, parts)
    } else {
        tally_by_syndromes(layout, parts, free_bits)
    }
}

/// Decodes every pattern.
pub(super) fn tally_by_patterns(layout: &Layout, parts: &[(usize, Span)]) -> Tally {
    let mut tally = Tally::default();
    let mut errors: Vec<(usize, u16)> = parts.iter().map(|&(chip, span)| (chip, span.offset & !span.mask)).collect();
    loop {
        let syndrome = errors.iter().fold(0, |sum, &(chip, bits)| sum ^ layout.syndrome(chip, bits));
        match layout.verdict(syndrome) {
            Verdict::Detect => tally.detected += 1,
            verdict if is_right(verdict, &errors) => tally.right += 1,
            _ => tally.wrong += 1,
        }
        // The next pattern: the masks are the digits of a number that counts up, and ends by coming back to 0.
        let mut has_next = false;
        for (error, &(_, span)) in errors.iter_mut().zip(parts) {
            let fixed = error.1 & !span.mask;
            let next = (error.1 & span.mask).wrapping_sub(span.mask) & span.mask;
            error.1 = fixed | next;
            if next != 0 {
                has_next = true;
                break;
            }
        }
        if !has_next {
            return tally;
        }
    }
}

/// Whether a verdict leaves the codeword right.
fn is_right(verdict: Verdict, errors: &[(usize, u16)]) -> bool {
    match verdict {
        Verdict::Clean => errors.iter().all(|error| error.1 == 0),
        Verdict::Correct { chip, bits } => {
            let is_undone = |&(other, error): &(usize, u16)| error == if other == usize::from(chip) { bits } else { 0 };
            errors.iter().all(is_undone) && errors.iter().any(|error| error.0 == usize::from(chip))
        }
        Verdict::Outside | Verdict::Detect => false,
    }
}

/// Walks over the syndromes that the decoder accepts, and counts the patterns that have them.
fn tally_by_syndromes(layout: &Layout, parts: &[(usize, Span)], free_bits: u32) -> Tally {
    let offset = parts.iter().fold(0, |sum, &(chip, span)| sum ^ layout.syndrome(chip, span.offset & !span.mask));
    let generators = parts.iter().flat_map(|&(chip, span)| {
        let bits = (0..16).map(|bit| 1u16 << bit).filter(move |bit| span.mask & bit != 0);
        bits.map(move |bit| layout.syndrome(chip, bit))
    });
    let space = Space::spanned_by(generators, layout.syndrome_bits);
    let checks = space.check_tables();
    let solutions = 1u64 << (free_bits - space.dimension());
    let mut accepted = 0u64;
    let mut right = 0u64;
    for &(syndrome, verdict) in layout.decoder().leaders() {
        accepted += u64::from(checks.pass(syndrome ^ offset));
        right += u64::from(is_within(verdict, parts));
    }
    let wrong = accepted * solutions - right;
    Tally { right, wrong, detected: (1u64 << free_bits) - right - wrong }
}

/// Whether the error that a verdict undoes is one of these patterns.
fn is_within(verdict: Verdict, parts: &[(usize, Span)]) -> bool {
    match verdict {
        Verdict::Clean => parts.iter().all(|(_, span)| span.contains(0)),
        Verdict::Correct { chip, bits } => {
            let chip = usize::from(chip);
            parts.iter().any(|part| part.0 == chip)
                && parts.iter().all(|&(other, span)| span.contains(if other == chip { bits } else { 0 }))
        }
        Verdict::Outside | Verdict::Detect => false,
    }
}

/// A subspace of the syndromes over GF(2).
struct Space {
    /// Basis vectors in reduced form: the i-th is the only one with its pivot bit.
    basis: Vec<(u32, u32)>,
    bits: u32,
}

impl Space {
    fn spanned_by(generators: impl Iterator<Item = u32>, bits: u32) -> Space {
        let mut basis: Vec<(u32, u32)> = Vec::new();
        for generator in generators {
            let reduced =
                basis.iter().fold(generator, |sum, &(vector, pivot)| if sum & pivot != 0 { sum ^ vector } else { sum });
            if reduced != 0 {
                let pivot = 1 << reduced.trailing_zeros();
                for (vector, _) in &mut basis {
                    if *vector & pivot != 0 {
                        *vector ^= reduced;
                    }
                }
                basis.push((reduced, pivot));
            }
        }
        Space { basis, bits }
    }

    fn dimension(&self) -> u32 {
        self.basis.len() as u32
    }

    /// The linear checks that exactly the members of the space pass, as a table for each byte of a syndrome.
    fn check_tables(&self) -> Checks {
        let pivots = self.basis.iter().fold(0, |sum, &(_, pivot)| sum | pivot);
        // A free bit of a member is the sum of that bit over the basis vectors whose pivots the member has.
        let free = (0..self.bits).map(|bit| 1u32 << bit).filter(|bit| pivots & bit == 0);
        let rows = free.map(|bit| {
            let holders = self.basis.iter().filter(|(vector, _)| vector & bit != 0);
            holders.fold(bit, |row, &(_, pivot)| row | pivot)
        });
        let mut tables = Box::new([[0u32; 256]; 4]);
        for (number, row) in rows.enumerate() {
            for (index, table) in tables.iter_mut().enumerate() {
                let part = row >> (8 * index) & 0xFF;
                for (byte, entry) in table.iter_mut().enumerate() {
                    *entry |= ((byte as u32 & part).count_ones() & 1) << number;
                }
            }
        }
        Checks { tables }
    }
}

/// Which linear checks a syndrome fails, byte by byte.
struct Checks {
    tables: Box<[[u32; 256]; 4]>,
}

impl Checks {
    fn pass(&self, syndrome: u32) -> bool {
        let [a, b, c, d] = syndrome.to_le_bytes().map(usize::from);
        let [first, second, third, fourth] = self.tables.as_ref();
        first[a] ^ second[b] ^ third[c] ^ fourth[d] == 0
    }
}

/// Counts, over all places of the fault and all its error patterns, how many blocks end how. The layout must have the
/// location check of the rules.
///
/// Line, row and page are faults of software layouts; see [`super::shards`].
pub fn counts(layout: &Layout, fault: Fault, rules: Rules) -> Counts {
    let [none_reported, any_codeword] = counts_by_silent_rule(layout, fault, rules);
    match rules.silent_rule {
        SilentRule::NoneReported => none_reported,
        SilentRule::AnyCodeword => any_codeword,
    }
}

/// The counts under both rules of what is silent, [`SilentRule::NoneReported`] first, for the work of one.
pub fn counts_by_silent_rule(layout: &Layout, fault: Fault, rules: Rules) -> [Counts; 2] {
    let nothing = Extent { mask: 0, is_fixed: true };
    let places: Vec<(Extent, Extent)> = match fault {
        Fault::Single(kind) => extents(kind, layout, rules).into_iter().map(|extent| (extent, nothing)).collect(),
        Fault::Pair(first, second) => pair_extents(first, second, layout, rules),
    };
    let mut firsts = Side::default();
    let mut seconds = Side::default();
    let places: Vec<(usize, usize)> =
        places.iter().map(|&(one, other)| (firsts.add(layout, one), seconds.add(layout, other))).collect();
    let patterns = |&(one, other): &(usize, usize)| {
        i128::from(firsts.extents[one].patterns()) * i128::from(seconds.extents[other].patterns())
    };
    let patterns_of_chips: i128 = places.iter().map(patterns).sum();
    let mut sum = Sum::default();
    for chips in chip_choices(fault, layout) {
        let mut tallies: Vec<Option<Tally>> = vec![None; firsts.spans.len() * seconds.spans.len()];
        sum.total += patterns_of_chips;
        for &(one, other) in &places {
            for first in &firsts.terms[one] {
                for second in &seconds.terms[other] {
                    let pairs = first.spans[..layout.codewords].iter().zip(second.spans);
                    let product = Product::of(pairs.map(|(&first, second)| {
                        *tallies[first * seconds.spans.len() + second].get_or_insert_with(|| {
                            tally(layout, &[(chips.0, firsts.spans[first]), (chips.1, seconds.spans[second])])
                        })
                    }));
                    sum.add(&product, first.sign * second.sign);
                }
            }
        }
    }
    sum.counts()
}

/// The most codewords of a block.
const CODEWORDS_MAX: usize = 8;

/// The places of one fault: its extents as terms, and the spans that these have in codewords, each once.
#[derive(Default)]
struct Side {
    extents: Vec<Extent>,
    terms: Vec<Vec<Term>>,
    spans: Vec<Span>,
}

/// A set of patterns that are independent from codeword to codeword, to be added or subtracted.
struct Term {
    /// Which span it has in each codeword.
    spans: [usize; CODEWORDS_MAX],
    sign: i128,
}

impl Side {
    /// The number of an extent, which is new or known.
    ///
    /// The patterns of a fault are all patterns over its bits, less the one that damages nothing: the sums and
    /// differences of [`Term`]s.
    fn add(&mut self, layout: &Layout, extent: Extent) -> usize {
        if let Some(known) = self.extents.iter().position(|known| *known == extent) {
            return known;
        }
        let terms = if extent.is_fixed {
            vec![self.term(layout, extent.mask, 0, 1)]
        } else {
            vec![self.term(layout, 0, extent.mask, 1), self.term(layout, 0, 0, -1)]
        };
        self.extents.push(extent);
        self.terms.push(terms);
        self.extents.len() - 1
    }

    fn term(&mut self, layout: &Layout, offset: u32, mask: u32, sign: i128) -> Term {
        let mut spans = [0; CODEWORDS_MAX];
        for (codeword, number) in spans.iter_mut().enumerate().take(layout.codewords) {
            let span = Span { offset: layout.part(offset, codeword), mask: layout.part(mask, codeword) };
            *number = self.spans.iter().position(|known| *known == span).unwrap_or_else(|| {
                self.spans.push(span);
                self.spans.len() - 1
            });
        }
        Term { spans, sign }
    }
}

/// Numbers of patterns of a block whose codewords are all right; right or wrong; right or detected; anything.
struct Product {
    right: i128,
    unreported: i128,
    not_wrong: i128,
    all: i128,
}

impl Product {
    fn of(codewords: impl Iterator<Item = Tally>) -> Product {
        let mut product = Product { right: 1, unreported: 1, not_wrong: 1, all: 1 };
        for tally in codewords {
            let [right, detected, wrong] = [tally.right, tally.detected, tally.wrong].map(i128::from);
            product.right *= right;
            product.unreported *= right + wrong;
            product.not_wrong *= right + detected;
            product.all *= right + detected + wrong;
        }
        product
    }
}

#[derive(Default)]
struct Sum {
    corrected: i128,
    silent: [i128; 2],
    total: i128,
}

impl Sum {
    fn add(&mut self, product: &Product, sign: i128) {
        self.corrected += sign * product.right;
        self.silent[0] += sign * (product.unreported - product.right);
        self.silent[1] += sign * (product.all - product.not_wrong);
    }

    fn counts(&self) -> [Counts; 2] {
        self.silent.map(|silent| {
            let detected = self.total - self.corrected - silent;
            let [corrected, detected, silent] = [self.corrected, detected, silent]
                .map(|count| u128::try_from(count).expect("inclusion and exclusion end in numbers of patterns"));
            Counts { corrected, detected, silent }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocationCheck;
    use crate::coverage::{Kind, Scheme};

    #[test]
    fn both_ways_of_counting_agree() {
        for scheme in Scheme::ALL {
            for check in [LocationCheck::On, LocationCheck::Off] {
                let layout = Layout::new(scheme, check);
                let mask = ((1u32 << layout.codeword_bits) - 1) as u16;
                let spans = [
                    (Span::default(), Span { offset: 0, mask: 0x00FF & mask }),
                    (Span { offset: 0, mask: 0x1111 & mask }, Span { offset: 0, mask: 0x2222 & mask }),
                    (Span { offset: 0x1111 & mask, mask: 0 }, Span { offset: 1, mask: 0x0FF0 & mask }),
                    (Span { offset: 3 & mask, mask: 0xF3F0 & mask }, Span { offset: 0, mask: 0x7 }),
                ];
                for (first, second) in spans {
                    for chips in [(0, 1), (3, layout.chips - 1)] {
                        let parts = [(chips.0, first), (chips.1, second)];
                        let free_bits = first.mask.count_ones() + second.mask.count_ones();
                        let by_patterns = tally_by_patterns(&layout, &parts);
                        assert_eq!(by_patterns, tally_by_syndromes(&layout, &parts, free_bits), "{scheme:?} {parts:?}");
                        assert_eq!(by_patterns.right + by_patterns.detected + by_patterns.wrong, 1 << free_bits);
                    }
                }
            }
        }
    }

    #[test]
    fn four_wrong_symbols_are_miscorrected_as_often_as_the_weights_of_the_code_say() {
        // (n - w)(q - 1) codewords of weight d = 5 hold any w = d - 1 = 4 given symbols.
        let all = Span { offset: 0, mask: 0xFFFF };
        for (check, length) in [(LocationCheck::On, 36), (LocationCheck::Off, 255)] {
            let layout = Layout::new(Scheme::Rs36_32, check);
            for chips in [(0, 1), (4, 17)] {
                let tally = tally(&layout, &[(chips.0, all), (chips.1, all)]);
                assert_eq!(tally.wrong, (length - 4) * 255);
                assert_eq!(tally.right, 1 + 4 * 255);
            }
        }
    }

    #[test]
    fn three_wrong_symbols_of_the_shards_code() {
        // RS(19,16): (19 - 3) * 255 codewords of weight 4 hold any three given symbols.
        let layout = Layout::of_shards();
        let all = Span { offset: 0, mask: 0xFF };
        let tally = tally(&layout, &[(0, all), (9, all), (18, all)]);
        assert_eq!(tally.wrong, 16 * 255);
    }

    #[test]
    fn shares_are_compared_exactly() {
        let counts = |corrected, detected, silent| Counts { corrected, detected, silent };
        assert!(counts(1 << 100, 3 << 100, 0).is_alike(counts(5, 15, 0)));
        assert!(!counts((1 << 100) + 1, (3 << 100) - 1, 0).is_alike(counts(5, 15, 0)));
        assert_eq!(wide_product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
    }

    #[test]
    fn a_pin_of_rs_36_32() {
        let layout = Layout::new(Scheme::Rs36_32, LocationCheck::On);
        let counts = counts(&layout, Fault::Single(Kind::Pin), Rules::PHYSICAL);
        assert!(counts.is_alike(Counts { corrected: 48, detected: 207, silent: 0 }), "{counts:?}");
    }
}
