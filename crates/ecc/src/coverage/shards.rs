//! Coverage of the software layout: 16 data and 3 parity shards of 4 KiB under RS(19,16), one codeword per byte column.
//!
//! Every byte that goes wrong in a shard is one wrong symbol of one of the 4,096 codewords. A stripe is right if all its
//! codewords are, silently wrong if some are wrong and none is reported, and detected otherwise.
//!
//! | fault | what goes wrong, at random, at least one bit |
//! |---|---|
//! | bit | one bit of one shard |
//! | line | an aligned cache line, 64 bytes of one shard |
//! | row | a DRAM row of one x4 chip: a nibble of every 8 bytes over 8 KiB, the same in each. Contiguous: two neighbouring shards of the stripe (the 19th has its neighbour outside). Spread: one shard |
//! | page | a whole shard |
//!
//! The two faults of a pair hit different shards; two faults in one shard are a larger fault of that shard.
//!
//! **Without checksums** each codeword is decoded by itself, one symbol corrected and two detected, locations checked.
//!
//! **With a CRC32C per shard** (19 of them, kept apart) it is how checkpoints are read. A shard of data whose checksum is
//! right is taken as it is, without a look at the others. One whose checksum is wrong makes the reader look at the whole
//! stripe: all shards that their checksums show are erasures, up to three of them are repaired, and what is left of the
//! code's distance detects others; a repaired shard must match its checksum. Four or more are reported at once. So it is
//! about the 16 shards of data: right, silently wrong, or refused. Parity that is bad harms nobody by itself.
//!
//! A damaged shard escapes its checksum with probability 2^-32 (exactly (2^(m-32) - 1) / (2^m - 1) for m random bits of full
//! rank; never, for a single bit), and is silent then where no other shard of data is shown to be bad. The closed form
//! goes over all ways to escape. Where four shards are damaged and not all are shown, what comes out depends on the bytes:
//! below 10^-18, and all of it counts as silent, so that the silent share is an upper bound there.

use super::exact::{Span, tally};
use super::{Convention, Fault, Kind, Layout};

/// Shards of a stripe.
pub const SHARDS: usize = 19;
/// Of these, the first ones, which are data; the others are parity.
pub const DATA_SHARDS: usize = 16;
/// Bytes of a shard, and so codewords of a stripe.
pub const SHARD_BYTES: usize = 4096;
/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// What a fault at a certain place reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The first shard.
    pub first: usize,
    /// How many shards, one behind the other.
    pub shards: usize,
    /// Its byte columns: from `start`, every `stride`-th, `columns` of them.
    pub start: usize,
    /// The distance between its columns, in bytes.
    pub stride: usize,
    /// How many columns.
    pub columns: usize,
    /// The bits of each byte.
    pub mask: u8,
}

impl Reach {
    /// The bits that it may damage in a byte of a shard.
    pub fn bits(&self, shard: usize, column: usize) -> u8 {
        let is_hit = (self.first..self.first + self.shards).contains(&shard)
            && column >= self.start
            && (column - self.start).is_multiple_of(self.stride)
            && (column - self.start) / self.stride < self.columns;
        if is_hit { self.mask } else { 0 }
    }

    fn bits_per_shard(&self) -> u32 {
        self.columns as u32 * self.mask.count_ones()
    }

    /// Whether both may hit the same shard.
    pub fn overlaps(&self, other: &Reach) -> bool {
        self.first < other.first + other.shards && other.first < self.first + self.shards
    }
}

/// The shards that a fault may hit, all equally likely: the first one, and how many.
pub fn shard_choices(kind: Kind, convention: Convention) -> Vec<(usize, usize)> {
    if kind == Kind::Row && convention == Convention::Contiguous {
        return (0..SHARDS).step_by(2).map(|first| (first, 2.min(SHARDS - first))).collect();
    }
    (0..SHARDS).map(|shard| (shard, 1)).collect()
}

/// The places within the shards, all equally likely.
pub fn places(kind: Kind) -> Vec<Reach> {
    let reach = |start, stride, columns, mask| Reach { first: 0, shards: 1, start, stride, columns, mask };
    match kind {
        Kind::Line => (0..SHARD_BYTES / LINE_BYTES).map(|line| reach(line * LINE_BYTES, 1, LINE_BYTES, 0xFF)).collect(),
        // Chip j of 16 gives nibble j of each 64-bit word.
        Kind::Row => (0..16).map(|chip| reach(chip / 2, 8, SHARD_BYTES / 8, 0x0F << (4 * (chip % 2)))).collect(),
        Kind::Page => vec![reach(0, 1, SHARD_BYTES, 0xFF)],
        // Memory faults are no faults of a stripe, but for a bit.
        _ => (0..8 * SHARD_BYTES).map(|bit| reach(bit / 8, 1, 1, 1 << (bit % 8))).collect(),
    }
}

/// Shares corrected, detected and silent.
pub type Shares = [f64; 3];

/// The shares of a fault without checksums. Codewords are counted exactly; the product over 4,096 of them is rounded.
pub fn without_checksums(layout: &Layout, fault: Fault, convention: Convention) -> Shares {
    let mut sum = [0.0; 3];
    let mut weight_sum = 0.0;
    for (weight, reaches) in classes(fault, convention) {
        let shares = stripe(layout, &reaches);
        for (sum, share) in sum.iter_mut().zip(shares) {
            *sum += weight * share;
        }
        weight_sum += weight;
    }
    sum.map(|sum| sum / weight_sum)
}

/// The shares of a fault with a checksum per shard, of what a reader of the data gets.
pub fn with_checksums(fault: Fault, convention: Convention) -> Shares {
    let mut sum = [0.0; 3];
    let mut weight_sum = 0.0;
    for (weight, reaches) in classes(fault, convention) {
        let shares = located_stripe(&reaches);
        for (sum, share) in sum.iter_mut().zip(shares) {
            *sum += weight * share;
        }
        weight_sum += weight;
    }
    sum.map(|sum| sum / weight_sum)
}

/// The choices of shards and places with their weights; places that end alike for reasons of symmetry are put together.
fn classes(fault: Fault, convention: Convention) -> Vec<(f64, Vec<Reach>)> {
    let at = |(first, shards): (usize, usize), place: Reach| Reach { first, shards, ..place };
    match fault {
        Fault::Single(kind) => {
            let place = places(kind)[0];
            shard_choices(kind, convention).into_iter().map(|shards| (1.0, vec![at(shards, place)])).collect()
        }
        Fault::Pair(first, second) => {
            let mut classes = Vec::new();
            let meetings = meetings(&places(first), &places(second));
            for one in shard_choices(first, convention) {
                for other in shard_choices(second, convention) {
                    // Two faults of one kind have no order: one of both is enough.
                    let is_double = first == second && other < one;
                    if is_double || at(one, NOWHERE).overlaps(&at(other, NOWHERE)) {
                        continue;
                    }
                    let pairs = meetings.iter();
                    classes.extend(pairs.map(|&(weight, a, b)| (weight, vec![at(one, a), at(other, b)])));
                }
            }
            classes
        }
    }
}

/// A place that reaches nothing.
const NOWHERE: Reach = Reach { first: 0, shards: 1, start: 0, stride: 1, columns: 0, mask: 0 };

/// What tells pairs of places apart: columns that both hit, and bits of each.
type Class = (usize, u32, u32);

/// Pairs of places up to symmetry: what counts is how many columns both hit, and with which bits. Codewords are alike
/// from column to column, and so are the bits of a byte up to their number.
fn meetings(first: &[Reach], second: &[Reach]) -> Vec<(f64, Reach, Reach)> {
    // Bits are many and alike within a byte: it is enough to look at bit 0 of each.
    let thin = |places: &[Reach]| -> Vec<Reach> {
        if places.len() > SHARD_BYTES { places.iter().copied().step_by(8).collect() } else { places.to_vec() }
    };
    let (first, second) = (thin(first), thin(second));
    // Turning the first fault's place over all columns meets every case that turning both would meet.
    let mut classes: Vec<(Class, f64, Reach, Reach)> = Vec::new();
    for &a in &first {
        let Some(&b) = second.first() else { continue };
        let key = (common_columns(&a, &b), a.mask.count_ones(), b.mask.count_ones());
        match classes.iter_mut().find(|class| class.0 == key) {
            Some(class) => class.1 += 1.0,
            None => classes.push((key, 1.0, a, b)),
        }
    }
    classes.into_iter().map(|(_, weight, a, b)| (weight, a, b)).collect()
}

fn common_columns(a: &Reach, b: &Reach) -> usize {
    (0..SHARD_BYTES).filter(|&column| a.bits(a.first, column) != 0 && b.bits(b.first, column) != 0).count()
}

/// A stripe, each of its columns decoded by itself.
fn stripe(layout: &Layout, reaches: &[Reach]) -> Shares {
    // All patterns, less those where a fault damages nothing: of those, only with very few bits is there a difference
    // that a double sees, but the formula is the same.
    let mut sum = [0.0; 3];
    let mut total = 0.0;
    for present in 0..1u32 << reaches.len() {
        let some: Vec<Reach> = reaches
            .iter()
            .enumerate()
            .filter(|(index, _)| present >> index & 1 == 1)
            .map(|(_, &reach)| reach)
            .collect();
        let absent_bits: u32 = reaches
            .iter()
            .enumerate()
            .filter(|(index, _)| present >> index & 1 == 0)
            .map(|(_, reach)| reach.bits_per_shard() * reach.shards as u32)
            .sum();
        let sign = if (reaches.len() as u32 - present.count_ones()).is_multiple_of(2) { 1.0 } else { -1.0 };
        // The share of the patterns where the absent faults happen to damage nothing.
        let weight = sign * f64::exp2(-f64::from(absent_bits));
        for (sum, share) in sum.iter_mut().zip(unconditional_stripe(layout, &some)) {
            *sum += weight * share;
        }
        total += weight;
    }
    sum.map(|sum| (sum / total).clamp(0.0, 1.0))
}

/// A stripe whose faults may also damage nothing.
fn unconditional_stripe(layout: &Layout, reaches: &[Reach]) -> Shares {
    // Columns with the same bits in the same shards have the same tally.
    let mut configurations: Vec<(Vec<(usize, Span)>, i32)> = Vec::new();
    for column in 0..SHARD_BYTES {
        let mut parts = Vec::new();
        for reach in reaches {
            for shard in reach.first..reach.first + reach.shards {
                let mask = u16::from(reach.bits(shard, column));
                if mask != 0 {
                    parts.push((shard, Span { offset: 0, mask }));
                }
            }
        }
        if parts.is_empty() {
            continue;
        }
        match configurations.iter_mut().find(|known| known.0 == parts) {
            Some(known) => known.1 += 1,
            None => configurations.push((parts, 1)),
        }
    }
    let (mut right, mut unreported) = (1.0, 1.0);
    for (parts, columns) in configurations {
        let tally = tally(layout, &parts);
        let total = (tally.right + tally.detected + tally.wrong) as f64;
        right *= (tally.right as f64 / total).powi(columns);
        unreported *= ((tally.right + tally.wrong) as f64 / total).powi(columns);
    }
    [right, 1.0 - unreported, unreported - right]
}

/// How it ends when the data of a stripe is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// All data is right.
    Corrected,
    /// The reader refuses it.
    Detected,
    /// Some data is wrong, and nothing says so.
    Silent,
}

/// How it ends when data is read with checksums, by which shards are damaged and whether their checksums show it; `None`
/// where that depends on the bytes: with four damaged ones of which at least one is not shown.
pub fn end_of_read(damaged: &[(usize, bool)]) -> Option<End> {
    let count = |wanted: bool| damaged.iter().filter(|(_, is_shown)| *is_shown == wanted).count();
    let is_data_bad = |wanted: bool| damaged.iter().any(|&(shard, shown)| shard < DATA_SHARDS && shown == wanted);
    let (shown, escaped) = (count(true), count(false));
    match () {
        // No page is found to be bad, so nobody looks at the stripe as a whole.
        () if !is_data_bad(true) && is_data_bad(false) => Some(End::Silent),
        () if !is_data_bad(true) => Some(End::Corrected),
        () if shown > SHARDS - DATA_SHARDS => Some(End::Detected),
        () if escaped == 0 => Some(End::Corrected),
        // Distance 4: beside the erasures, errors that nothing locates are seen as long as there are three in all.
        () if shown + escaped <= SHARDS - DATA_SHARDS => Some(End::Detected),
        () => None,
    }
}

/// Data that is read with checksums: the shares over all ways to escape them.
fn located_stripe(reaches: &[Reach]) -> Shares {
    let damaged: Vec<(usize, f64)> = reaches
        .iter()
        .flat_map(|reach| {
            (reach.first..reach.first + reach.shards).map(|shard| (shard, escape(reach.bits_per_shard())))
        })
        .collect();
    let mut shares = [0.0; 3];
    for shown in 0..1u32 << damaged.len() {
        let is_shown = |index: usize| shown >> index & 1 == 1;
        let share: f64 = damaged
            .iter()
            .enumerate()
            .map(|(at, (_, escape))| if is_shown(at) { 1.0 - escape } else { *escape })
            .product();
        let ends: Vec<(usize, bool)> =
            damaged.iter().enumerate().map(|(at, (shard, _))| (*shard, is_shown(at))).collect();
        let silent = match end_of_read(&ends) {
            Some(End::Corrected) => {
                shares[0] += share;
                continue;
            }
            Some(End::Detected) => 0.0,
            Some(End::Silent) => 1.0,
            // Three erasures are filled in wrongly, and the checksums of those shards must match by chance.
            None if shown.count_ones() == 3 => f64::exp2(-32.0),
            None => 1.0,
        };
        shares[1] += share * (1.0 - silent);
        shares[2] += share * silent;
    }
    shares
}

/// The probability that random damage of so many bits, at least one, escapes a CRC32C.
fn escape(bits: u32) -> f64 {
    // The bits of lines, rows and pages reach all 2^32 checksums equally often (a test computes the rank); CRC32C sees
    // every single bit.
    if bits <= 32 { 0.0 } else { f64::exp2(-32.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Scheme;
    use crate::coverage::stripe_trials::crc32c_of_damage;

    fn shares(fault: &str, convention: Convention) -> Shares {
        without_checksums(&Layout::of_shards(), fault.parse().unwrap(), convention)
    }

    #[test]
    fn one_bad_shard_is_always_corrected_and_two_bad_rows_never() {
        for fault in ["bit", "line", "page"] {
            for convention in Scheme::Shards.conventions() {
                assert_eq!(shares(fault, *convention), [1.0, 0.0, 0.0], "{fault}");
            }
        }
        assert_eq!(shares("row", Convention::Spread), [1.0, 0.0, 0.0]);
        // 18 of 19 shards share their row; of a column's 256 patterns in two nibbles 31 have one wrong symbol at most.
        let row = shares("row", Convention::Contiguous);
        assert!((row[0] - 0.1).abs() < 1e-12 && row[2] == 0.0, "{row:?}");
    }

    #[test]
    fn pairs_are_corrected_as_often_as_they_miss_each_other() {
        let close = |shares: Shares, corrected: f64| {
            assert!((shares[0] - corrected).abs() < 1e-12 && shares[2] == 0.0, "{shares:?} {corrected}");
        };
        close(shares("bit+bit", Convention::Spread), 4095.0 / 4096.0);
        // The one byte of a line or page that the bit meets is right in 1 of 256 cases.
        close(shares("bit+line", Convention::Spread), 63.0 / 64.0 + 1.0 / 64.0 / 256.0);
        close(shares("bit+page", Convention::Spread), 1.0 / 256.0);
        close(shares("row+row", Convention::Spread), 14.0 / 16.0);
        assert!(shares("page+page", Convention::Spread)[0] < 1e-300);
    }

    #[test]
    fn checksums_turn_up_to_three_bad_shards_into_erasures() {
        let located = |fault: &str, convention| with_checksums(fault.parse().unwrap(), convention);
        let near = |share: f64, wanted: f64| assert!((share / wanted - 1.0).abs() < 1e-6, "{share} {wanted}");
        assert_eq!(located("bit+bit", Convention::Spread), [1.0, 0.0, 0.0], "no single bit escapes");
        // Three shards, unless it is the one of ten rows that reaches a single shard, which is parity; a page beside a row
        // is in one of the other 17 or 18.
        let three = located("row+page", Convention::Contiguous);
        assert!(three[0] > 1.0 - 1e-9, "{three:?}");
        // Two of the ten rows: 36 pairs without the last hit four shards, and are reported.
        let four = located("row+row", Convention::Contiguous);
        assert!((four[1] - 36.0 / 45.0).abs() < 1e-9, "{four:?}");
        near(four[0], 9.0 / 45.0);
    }

    #[test]
    fn a_page_that_escapes_its_checksum_is_silent_unless_another_one_makes_the_reader_look() {
        let located = |fault: &str| with_checksums(fault.parse().unwrap(), Convention::Spread);
        let p = f64::exp2(-32.0);
        let near = |share: f64, wanted: f64| assert!((share / wanted - 1.0).abs() < 1e-6, "{share} {wanted}");
        for fault in ["line", "row", "page"] {
            let alone = located(fault);
            assert_eq!(alone[1], 0.0, "nothing makes anybody look: {alone:?}");
            near(alone[2], p * 16.0 / 19.0);
        }
        // Both of data in 240 of 342 cases, and then the other one makes the reader look; one of data beside one of parity in
        // 96, and then whether that is bad is not looked at.
        let two = located("page+page");
        near(two[1], p * (240.0 * 2.0 + 96.0) / 342.0);
        near(two[2], p * 96.0 / 342.0);
        let ends = [
            (&[(3, false)][..], Some(End::Silent)),
            (&[(17, false)], Some(End::Corrected)),
            (&[(3, false), (17, true)], Some(End::Silent)),
            (&[(3, true), (17, false)], Some(End::Detected)),
            (&[(3, true), (4, false), (5, false)], Some(End::Detected)),
            (&[(3, true), (4, true), (17, true)], Some(End::Corrected)),
            (&[(3, true), (4, true), (5, true), (6, true)], Some(End::Detected)),
            (&[(3, true), (4, true), (5, true), (6, false)], None),
        ];
        for (damaged, end) in ends {
            assert_eq!(end_of_read(damaged), end, "{damaged:?}");
        }
    }

    /// The damage of every fault but a bit reaches all 2^32 checksums.
    #[test]
    fn the_checksum_has_full_rank_on_lines_rows_and_pages() {
        for kind in [Kind::Line, Kind::Row, Kind::Page] {
            for place in places(kind) {
                let mut basis = [0u32; 32];
                let mut rank = 0;
                'bits: for column in 0..SHARD_BYTES {
                    for bit in (0..8).map(|bit| 1u8 << bit).filter(|bit| place.bits(0, column) & bit != 0) {
                        let mut damage = vec![0; SHARD_BYTES];
                        damage[column] = bit;
                        let mut sum = crc32c_of_damage(&damage);
                        assert!(sum != 0, "every single bit is seen");
                        while sum != 0 && basis[sum.trailing_zeros() as usize] != 0 {
                            sum ^= basis[sum.trailing_zeros() as usize];
                        }
                        if sum != 0 {
                            basis[sum.trailing_zeros() as usize] = sum;
                            rank += 1;
                        }
                        if rank == 32 {
                            break 'bits;
                        }
                    }
                }
                assert_eq!(rank, 32, "{kind:?} {place:?}");
            }
        }
    }
}
