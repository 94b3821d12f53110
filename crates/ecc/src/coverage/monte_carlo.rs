//! Monte Carlo over memory blocks: random faults through a decoder, faster than 10^8 codewords per second and core.
//!
//! A trial takes two random words: one for the bits that go wrong, one for the chips and the places. Only the wrong bits
//! exist: syndromes are linear, so that the data does not matter. A codeword's syndrome is the sum of two or four
//! entries of a table, and the filter of [`super::layout`] rejects nearly every syndrome of a large error at once.

use super::extent::{Extent, Rules, SilentRule, chip_choices, extents, pair_extents};
use super::layout::Verdict;
use super::{Fault, Layout};
use std::ops::Range;
use surefoot_random::{Stream, scaled_32 as below};

/// How many trials ended how. Sums of parts are the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// The data is right.
    pub corrected: u64,
    /// The block is reported as uncorrectable.
    pub detected: u64,
    /// The data is wrong, and nothing is reported.
    pub silent: u64,
}

impl Outcomes {
    /// All trials.
    pub fn total(self) -> u64 {
        self.corrected + self.detected + self.silent
    }

    /// Adds the outcomes of another part.
    pub fn add(&mut self, part: Outcomes) {
        self.corrected += part.corrected;
        self.detected += part.detected;
        self.silent += part.silent;
    }
}

/// The trials of one cell of the table, ready to be run in parts.
#[derive(Debug, Clone)]
pub struct Trials<'a> {
    layout: &'a Layout,
    rule: SilentRule,
    stream: Stream,
    chips: Vec<(u8, u8)>,
    places: Vec<(Draw, Draw)>,
    patterns: Vec<u32>,
}

/// How a fault's bits are drawn: a number from 1 to `count`, or an entry of the table of patterns.
#[derive(Debug, Clone, Copy)]
struct Draw {
    count: u32,
    /// Where its patterns begin in the table; none for a whole slice, whose patterns are the numbers themselves.
    table: Option<u32>,
}

impl<'a> Trials<'a> {
    /// Prepares a cell: the layout must have the location check of the rules, and `stream` be the cell's own.
    pub fn new(layout: &'a Layout, fault: Fault, rules: Rules, stream: Stream) -> Trials<'a> {
        let nothing = Extent { mask: 0, is_fixed: true };
        let extents: Vec<(Extent, Extent)> = match fault {
            Fault::Single(kind) => extents(kind, layout, rules).into_iter().map(|extent| (extent, nothing)).collect(),
            Fault::Pair(first, second) => pair_extents(first, second, layout, rules),
        };
        let mut known: Vec<(Extent, Draw)> = Vec::new();
        let mut patterns = Vec::new();
        let mut draw = |extent: Extent| {
            if let Some((_, draw)) = known.iter().find(|(other, _)| *other == extent) {
                return *draw;
            }
            let draw = Draw::of(extent, layout, &mut patterns);
            known.push((extent, draw));
            draw
        };
        let places = extents.into_iter().map(|(one, other)| (draw(one), draw(other))).collect();
        let chips = chip_choices(fault, layout).into_iter().map(|(one, other)| (one as u8, other as u8)).collect();
        Trials { layout, rule: rules.silent_rule, stream, chips, places, patterns }
    }

    /// Runs the trials with these numbers.
    pub fn run(&self, numbers: Range<u64>) -> Outcomes {
        // The compiler unrolls the codewords of a block only if it knows their number.
        match self.layout.codeword_bits {
            16 => self.run_layout::<2, 16>(numbers),
            8 => self.run_layout::<4, 8>(numbers),
            _ if self.layout.codewords == 8 => self.run_layout::<8, 4>(numbers),
            _ => self.run_layout::<4, 4>(numbers),
        }
    }

    fn run_layout<const CODEWORDS: usize, const BITS: u32>(&self, numbers: Range<u64>) -> Outcomes {
        match BITS {
            16 => self.run_rows::<CODEWORDS, BITS, 2>(numbers),
            _ => self.run_rows::<CODEWORDS, BITS, 1>(numbers),
        }
    }

    fn run_rows<const CODEWORDS: usize, const BITS: u32, const BYTES: usize>(&self, numbers: Range<u64>) -> Outcomes {
        // One row of 256 entries for each byte of a chip's part of a codeword.
        let chips: &[[[u32; 256]; BYTES]] = self.layout.contributions().as_chunks().0.as_chunks().0;
        let decoder = self.layout.decoder();
        let total = numbers.end.saturating_sub(numbers.start);
        let mut outcomes = Outcomes::default();
        for number in numbers {
            let ((one, other), (first, second)) = self.draw(number);
            let (one_rows, other_rows) = (&chips[usize::from(one)], &chips[usize::from(other)]);
            let mut accepted = 0;
            let mut syndromes = [0; CODEWORDS];
            for (codeword, syndrome) in syndromes.iter_mut().enumerate() {
                let shift = codeword as u32 * BITS;
                *syndrome = part_syndrome::<BITS, BYTES>(one_rows, first >> shift)
                    ^ part_syndrome::<BITS, BYTES>(other_rows, second >> shift);
                accepted |= u32::from(decoder.may_accept(*syndrome)) << codeword;
            }
            if accepted != 0 {
                let chips = (usize::from(one), usize::from(other));
                self.judge(&syndromes, accepted, chips, (first, second), &mut outcomes);
            }
        }
        // What the filter let through is judged; the rest is reported.
        outcomes.detected = total - outcomes.corrected - outcomes.silent;
        outcomes
    }

    /// The chips of a trial, and their wrong bits.
    #[inline(always)]
    fn draw(&self, number: u64) -> ((u8, u8), (u32, u32)) {
        let place = self.stream.word(2 * number);
        let bits = self.stream.word(2 * number + 1);
        let chips = self.chips[below(place as u32, self.chips.len() as u32) as usize];
        let (first, second) = self.places[below((place >> 32) as u32, self.places.len() as u32) as usize];
        (chips, (first.pattern(bits as u32, &self.patterns), second.pattern((bits >> 32) as u32, &self.patterns)))
    }

    /// Decides a block of which the filter let at least one codeword pass; what is reported is not counted.
    #[cold]
    #[inline(never)]
    fn judge(
        &self,
        syndromes: &[u32],
        accepted: u32,
        chips: (usize, usize),
        slices: (u32, u32),
        outcomes: &mut Outcomes,
    ) {
        let (mut is_reported, mut is_wrong) = (false, false);
        for (codeword, &syndrome) in syndromes.iter().enumerate() {
            let verdict = if accepted >> codeword & 1 == 1 { self.layout.verdict(syndrome) } else { Verdict::Detect };
            let (first, second) = (self.layout.part(slices.0, codeword), self.layout.part(slices.1, codeword));
            let is_right = match verdict {
                Verdict::Clean => (first, second) == (0, 0),
                Verdict::Correct { chip, bits } => {
                    let chip = usize::from(chip);
                    (chip == chips.0 && (first, second) == (bits, 0))
                        || (chip == chips.1 && (first, second) == (0, bits))
                }
                Verdict::Outside => false,
                Verdict::Detect => {
                    is_reported = true;
                    continue;
                }
            };
            is_wrong |= !is_right;
        }
        let is_silent = is_wrong && (!is_reported || self.rule == SilentRule::AnyCodeword);
        outcomes.silent += u64::from(is_silent);
        outcomes.corrected += u64::from(!is_silent && !is_reported);
    }
}

impl Draw {
    fn of(extent: Extent, layout: &Layout, patterns: &mut Vec<u32>) -> Draw {
        if extent.mask == layout.slice_mask() && !extent.is_fixed {
            return Draw { count: extent.patterns() as u32, table: None };
        }
        let start = patterns.len() as u32;
        let table = Some(start);
        if extent.is_fixed {
            patterns.push(extent.mask);
            return Draw { count: 1, table };
        }
        let mut pattern = 0u32;
        loop {
            pattern = pattern.wrapping_sub(extent.mask) & extent.mask;
            if pattern == 0 {
                return Draw { count: patterns.len() as u32 - start, table };
            }
            patterns.push(pattern);
        }
    }

    #[inline]
    fn pattern(self, bits: u32, patterns: &[u32]) -> u32 {
        let number = below(bits, self.count);
        match self.table {
            None => number + 1,
            Some(start) => patterns[(start + number) as usize],
        }
    }
}

/// The syndrome of the lowest bits of a slice.
#[inline(always)]
fn part_syndrome<const BITS: u32, const BYTES: usize>(rows: &[[u32; 256]; BYTES], slice: u32) -> u32 {
    match BITS {
        16 => rows[0][(slice & 0xFF) as usize] ^ rows[BYTES - 1][(slice >> 8 & 0xFF) as usize],
        8 => rows[0][(slice & 0xFF) as usize],
        _ => rows[0][(slice & 0xF) as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::interval::interval95;
    use crate::coverage::{Kind, Scheme, exact};

    #[test]
    fn parts_sum_up_to_the_whole() {
        let layout = Layout::new(Scheme::Rs36_32, Rules::PAPER.location_check);
        let fault = Fault::Pair(Kind::Pin, Kind::Word);
        let trials = Trials::new(&layout, fault, Rules::PHYSICAL, Stream::new(5, "parts"));
        let whole = trials.run(0..10_000);
        assert_eq!(whole.total(), 10_000);
        let mut sum = Outcomes::default();
        for part in [0..1, 1..777, 777..777, 777..10_000] {
            sum.add(trials.run(part));
        }
        assert_eq!(sum, whole);
    }

    /// Every cell against its exact value. With 600 intervals of 95 %, some 30 must miss; five deviations none.
    #[test]
    fn trials_agree_with_the_exact_counts() {
        let (mut intervals, mut missed) = (0, 0);
        for scheme in [Scheme::Rs18_16, Scheme::Rs19_16, Scheme::Chipkill, Scheme::Secded] {
            for rules in [Rules::PHYSICAL, Rules::PAPER] {
                let layout = Layout::new(scheme, rules.location_check);
                for fault in scheme.faults() {
                    let exact = exact::counts(&layout, fault, rules).shares();
                    let stream = Stream::new(1, &format!("{scheme:?} {fault} {rules:?}"));
                    let outcomes = Trials::new(&layout, fault, rules, stream).run(0..20_000);
                    let seen = [outcomes.corrected, outcomes.detected, outcomes.silent];
                    for (count, share) in seen.into_iter().zip(exact) {
                        let interval = interval95(count, 20_000);
                        intervals += 1;
                        missed += usize::from(share < interval.low - 1e-12 || share > interval.high + 1e-12);
                        let deviation = (share * (1.0 - share) / 20_000.0).sqrt() + 1e-4;
                        let distance = (count as f64 / 20_000.0 - share).abs();
                        assert!(distance < 5.0 * deviation, "{scheme:?} {fault} {rules:?}: {count} for {share}");
                    }
                }
            }
        }
        assert!(missed * 100 < intervals * 8, "{missed} of {intervals}");
    }
}
