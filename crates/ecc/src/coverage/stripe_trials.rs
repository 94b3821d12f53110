//! Monte Carlo over stripes of shards: random damage to 4 KiB shards, checksums, repair, and a look at what is wrong then.
//! With checksums they go through what a reader of a checkpoint does, see [`super::shards`].
//!
//! Only the damage is there: code and checksum are linear, so that the data does not matter. The checksum of the damage
//! is what the checksum of the damaged shard differs by.

use super::layout::Verdict;
use super::monte_carlo::Outcomes;
use super::shards::{DATA_SHARDS, End, Reach, SHARD_BYTES, SHARDS, places, shard_choices};
use super::{Convention, Fault, Kind, Layout};
use crate::matrix::{Elimination, times};
use crate::{Code, Mode, Outcome};
use std::ops::Range;
use surefoot_random::{Stream, scaled_32 as below};

/// Random words that belong to one trial: more than two pages take.
const WORDS_PER_TRIAL: u64 = 4096;

/// Words before the damage of the first fault, and between the faults.
const WORDS_PER_FAULT: u64 = 2000;

/// The most shards that two faults damage: two rows of two shards.
const DAMAGED_MAX: usize = 4;

/// The trials of one cell.
#[derive(Debug, Clone)]
pub struct StripeTrials<'a> {
    layout: &'a Layout,
    has_checksums: bool,
    stream: Stream,
    shards: Vec<[(usize, usize); 2]>,
    places: [Vec<Reach>; 2],
}

/// The damage of one trial: which shards, and the wrong bits of each of their bytes.
struct Damage {
    shards: usize,
    of: [(usize, Vec<u8>); DAMAGED_MAX],
}

impl<'a> StripeTrials<'a> {
    /// Prepares a cell; the layout is [`Layout::of_shards`], the stream the cell's own.
    pub fn new(
        layout: &'a Layout,
        has_checksums: bool,
        fault: Fault,
        convention: Convention,
        stream: Stream,
    ) -> StripeTrials<'a> {
        let kinds = fault.kinds();
        let choices = |index: usize| kinds.get(index).map(|&kind| shard_choices(kind, convention));
        let mut shards = Vec::new();
        for one in choices(0).unwrap_or_default() {
            match choices(1) {
                None => shards.push([one, (0, 0)]),
                Some(others) => {
                    let apart = |other: &(usize, usize)| one.0 + one.1 <= other.0 || other.0 + other.1 <= one.0;
                    shards.extend(others.into_iter().filter(apart).map(|other| [one, other]));
                }
            }
        }
        let places = [0, 1].map(|index| kinds.get(index).map(|&kind: &Kind| places(kind)).unwrap_or_default());
        StripeTrials { layout, has_checksums, stream, shards, places }
    }

    /// Runs the trials with these numbers.
    pub fn run(&self, numbers: Range<u64>) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let mut damage = Damage { shards: 0, of: std::array::from_fn(|_| (0, vec![0; SHARD_BYTES])) };
        for number in numbers {
            self.draw(number, &mut damage);
            let located: Vec<bool> = damage.of[..damage.shards]
                .iter()
                .map(|(_, bytes)| self.has_checksums && crc32c_of_damage(bytes) != 0)
                .collect();
            match self.end(&damage, &located) {
                End::Corrected => outcomes.corrected += 1,
                End::Detected => outcomes.detected += 1,
                End::Silent => outcomes.silent += 1,
            }
        }
        outcomes
    }

    fn draw(&self, number: u64, damage: &mut Damage) {
        let word = |index| self.stream.word(number.wrapping_mul(WORDS_PER_TRIAL).wrapping_add(index));
        let shards = self.shards[below(word(0) as u32, self.shards.len() as u32) as usize];
        let place_bits = word(1);
        damage.shards = 0;
        for (fault, places) in self.places.iter().enumerate().filter(|(_, places)| !places.is_empty()) {
            let bits = (place_bits >> (32 * fault)) as u32;
            let place = places[below(bits, places.len() as u32) as usize];
            let mut at = 2 + fault as u64 * WORDS_PER_FAULT;
            for shard in shards[fault].0..shards[fault].0 + shards[fault].1 {
                let (name, bytes) = &mut damage.of[damage.shards];
                *name = shard;
                fill(bytes, &place, || {
                    at += 1;
                    word(at)
                });
                damage.shards += 1;
            }
        }
    }

    /// How a stripe ends, when the checksums show these of the damaged shards.
    fn end(&self, damage: &Damage, shown: &[bool]) -> End {
        let shards = &damage.of[..damage.shards];
        if !self.has_checksums {
            return self.end_unlocated(shards);
        }
        let is_data_shown = shards.iter().zip(shown).any(|((shard, _), is_shown)| *is_shown && *shard < DATA_SHARDS);
        if !is_data_shown {
            // Every page of data is taken as it is.
            return if shards.iter().any(|(shard, _)| *shard < DATA_SHARDS) { End::Silent } else { End::Corrected };
        }
        let erasures: Vec<usize> =
            shards.iter().zip(shown).filter(|(_, is_shown)| **is_shown).map(|((shard, _), _)| *shard).collect();
        if erasures.len() > Code::Rs19_16.parity() {
            return End::Detected;
        }
        if erasures.len() == shards.len() { self.end_located(shards) } else { end_mixed(shards, &erasures) }
    }

    /// Each column decoded by itself.
    fn end_unlocated(&self, shards: &[(usize, Vec<u8>)]) -> End {
        let mut is_wrong = false;
        for column in 0..SHARD_BYTES {
            let syndrome =
                shards.iter().fold(0, |sum, (shard, bytes)| sum ^ self.layout.syndrome(*shard, bytes[column].into()));
            let undone = match self.layout.verdict(syndrome) {
                Verdict::Detect => return End::Detected,
                Verdict::Correct { chip, bits } => Some((usize::from(chip), bits)),
                Verdict::Clean | Verdict::Outside => None,
            };
            is_wrong |= shards.iter().any(|(shard, bytes)| {
                let wanted = undone.filter(|undone| undone.0 == *shard).map_or(0, |undone| undone.1);
                u16::from(bytes[column]) != wanted
            });
            is_wrong |= undone.is_some_and(|undone| shards.iter().all(|(shard, _)| *shard != undone.0));
        }
        if is_wrong { End::Silent } else { End::Corrected }
    }

    /// All damaged shards are erasures: the values that the syndromes give must be the damage.
    fn end_located(&self, shards: &[(usize, Vec<u8>)]) -> End {
        let code = Code::Rs19_16;
        let mut columns = [[0; crate::SYNDROMES_MAX]; crate::SYNDROMES_MAX];
        for (column, (shard, _)) in columns.iter_mut().zip(shards) {
            *column = code.column(*shard);
        }
        let Some(elimination) = Elimination::of(&columns[..shards.len()], code.parity()) else { return End::Detected };
        for column in 0..SHARD_BYTES {
            let syndrome =
                shards.iter().fold(0, |sum, (shard, bytes)| sum ^ self.layout.syndrome(*shard, bytes[column].into()));
            let values = times(&elimination.matrix, code.parity(), syndrome.to_le_bytes());
            if shards.iter().zip(values).any(|((_, bytes), value)| bytes[column] != value) {
                return End::Silent;
            }
        }
        End::Corrected
    }
}

/// Some damaged shards are erasures, others escaped their checksums: what is left of the distance has to detect them.
fn end_mixed(shards: &[(usize, Vec<u8>)], erasures: &[usize]) -> End {
    let mut left = vec![vec![0; SHARD_BYTES]; SHARDS];
    for column in 0..SHARD_BYTES {
        let mut word = [0; SHARDS];
        for (shard, bytes) in shards {
            word[*shard] = bytes[column];
        }
        match Code::Rs19_16.repair(&mut word, erasures, Mode::Detect) {
            Ok(Outcome::Detected) | Err(_) => return End::Detected,
            Ok(_) => left.iter_mut().zip(word).for_each(|(bytes, byte)| bytes[column] = byte),
        }
    }
    // What was filled in must match its checksum.
    if erasures.iter().any(|&shard| crc32c_of_damage(&left[shard]) != 0) {
        return End::Detected;
    }
    if left[..DATA_SHARDS].iter().flatten().all(|&byte| byte == 0) { End::Corrected } else { End::Silent }
}

/// Damages a shard at a place, at random but not by nothing.
fn fill(bytes: &mut [u8], place: &Reach, mut word: impl FnMut() -> u64) {
    bytes.fill(0);
    let columns = (0..place.columns).map(|index| place.start + index * place.stride);
    let mut random = [0; 8];
    let mut any = 0;
    for (index, column) in columns.enumerate() {
        if index % 8 == 0 {
            random = word().to_le_bytes();
        }
        bytes[column] = random[index % 8] & place.mask;
        any |= bytes[column];
    }
    // For a bit this is what makes it wrong; for anything larger it does not happen.
    if any == 0 {
        bytes[place.start] = 1 << place.mask.trailing_zeros();
    }
}

/// What damage changes the CRC32C (Castagnoli) of a shard by.
pub fn crc32c_of_damage(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| CRC32C[((sum ^ u32::from(byte)) & 0xFF) as usize] ^ sum >> 8)
}

/// The remainders of single bytes by the reflected polynomial 0x82F63B78.
const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::shards::{end_of_read, without_checksums};
    use crate::coverage::{Scheme, interval95};

    #[test]
    fn the_checksum_is_crc32c() {
        // The check value of the catalogue of CRC algorithms; start and final value are those of the standard.
        let standard = |bytes: &[u8]| {
            let sum =
                bytes.iter().fold(!0u32, |sum, &byte| CRC32C[((sum ^ u32::from(byte)) & 0xFF) as usize] ^ sum >> 8);
            !sum
        };
        assert_eq!(standard(b"123456789"), 0xE306_9283);
        // Linear: the checksums of data and damaged data differ by that of the damage.
        assert_eq!(standard(b"123456789") ^ standard(b"12345678\x00"), crc32c_of_damage(b"\0\0\0\0\0\0\0\09"));
    }

    #[test]
    fn trials_agree_with_the_formula() {
        let layout = Layout::of_shards();
        for &convention in Scheme::Shards.conventions() {
            for fault in Scheme::Shards.faults() {
                let stream = Stream::new(1, &format!("{fault} {convention:?}"));
                let outcomes = StripeTrials::new(&layout, false, fault, convention, stream).run(0..100);
                let exact = without_checksums(&layout, fault, convention);
                let seen = [outcomes.corrected, outcomes.detected, outcomes.silent];
                for (count, share) in seen.into_iter().zip(exact) {
                    let interval = interval95(count, 100);
                    // Three times the interval: none of 84 may miss that.
                    let width = interval.high - interval.low;
                    assert!(share > interval.low - width && share < interval.high + width, "{fault} {convention:?}");
                }
            }
        }
    }

    #[test]
    fn located_shards_are_repaired() {
        let layout = Layout::of_shards();
        for fault in ["page", "page+page", "row+page", "row+row", "bit+row"] {
            let fault = fault.parse().unwrap();
            let trials = StripeTrials::new(&layout, true, fault, Convention::Contiguous, Stream::new(4, "located"));
            let outcomes = trials.run(0..40);
            assert_eq!(outcomes.silent, 0);
            assert_eq!(outcomes.detected > 0, fault.to_string() == "row+row", "{fault}: {outcomes:?}");
        }
    }

    /// What happens once in 2^32: a damaged shard that its checksum does not show.
    #[test]
    fn escapes_end_as_the_closed_form_assumes() {
        let layout = Layout::of_shards();
        let mut damage = Damage { shards: 0, of: std::array::from_fn(|_| (0, vec![0; SHARD_BYTES])) };
        let mut seen = std::collections::BTreeMap::new();
        for fault in ["page", "page+page", "row+page", "row+row"] {
            let parsed = fault.parse().unwrap();
            let trials = StripeTrials::new(&layout, true, parsed, Convention::Contiguous, Stream::new(9, "escapes"));
            for number in 0..16 {
                trials.draw(number, &mut damage);
                let names: Vec<usize> = damage.of[..damage.shards].iter().map(|(shard, _)| *shard).collect();
                for shown in 0..1u32 << names.len() {
                    let is_shown: Vec<bool> = (0..names.len()).map(|index| shown >> index & 1 == 1).collect();
                    let damaged: Vec<(usize, bool)> = names.iter().copied().zip(is_shown.iter().copied()).collect();
                    let end = trials.end(&damage, &is_shown);
                    // What depends on the bytes is nearly always reported: a checksum would have to match by chance.
                    assert_eq!(end, end_of_read(&damaged).unwrap_or(End::Detected), "{fault} {damaged:?}");
                    *seen.entry(format!("{end:?}")).or_insert(0) += 1;
                }
            }
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    }
}
