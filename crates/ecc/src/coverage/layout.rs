//! Where the bits of a memory block lie, and what the decoder of its code makes of a syndrome.
//!
//! A block is 512 data bits with their check bits, as one access moves them. The part of it that one x4 chip holds, its
//! *slice*, is a `u32`: bit 4·beat + pin. A codeword takes the same number of bits from every slice, codeword c the c-th
//! such group: so every layout here is a division of the slice into 16, 8 or 4 bits.
//!
//! | code | chips | beats | codewords | bits of a chip in a codeword | symbols |
//! |---|---|---|---|---|---|
//! | RS(36,32) | 18 | 8 | 2 | 16 | 2i and 2i + 1 of chip i; each two beats, the earlier in the low four bits |
//! | RS(18,16), RS(19,16) | 18 | 8 | 4 | 8 | i of chip i, two beats; symbol 18 lies in another rank, without faults |
//! | x4 chipkill | 36 | 4 | 4 | 4 | i of chip i, one beat |
//! | SECDED(72,64) | 18 | 8 | 8 | 4 | bits 4i to 4i + 3 of chip i, one beat |

use super::{Scheme, chipkill, secded};
use crate::field::{ORDER, multiply, power_of_alpha};
use crate::{Code, LocationCheck};

/// What a decoder does with a syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The syndrome is 0: it takes the word for correct.
    Clean,
    /// It changes these bits of this chip's part of the codeword.
    Correct {
        /// The chip, from 0.
        chip: u8,
        /// The bits, within the chip's part of a codeword.
        bits: u16,
    },
    /// It reports a correction at a symbol that the code does not use. Only without location check.
    Outside,
    /// It reports an uncorrectable error.
    Detect,
}

/// A code laid over the chips of a block, with its syndromes in tables.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Chips that may be faulty.
    pub chips: usize,
    /// Beats of a block.
    pub beats: u32,
    /// Bits of a chip in a codeword.
    pub codeword_bits: u32,
    /// Codewords of a block.
    pub codewords: usize,
    /// Bits of a symbol, the unit that the decoder corrects.
    pub unit_bits: u32,
    /// The minimum distance, in units.
    pub distance: usize,
    /// How many units the decoder corrects: 0 or 1.
    pub corrects: usize,
    /// If the code is maximum distance separable: its length as far as the decoder accepts locations.
    pub separable_length: Option<usize>,
    /// Bits of a syndrome.
    pub syndrome_bits: u32,
    contributions: Vec<u32>,
    decoder: Decoder,
}

/// The rows of the table of contributions that one chip has: a byte each.
const TABLE_BYTES: usize = 256;

impl Layout {
    /// The layout of a memory code; software layouts use that of [`Layout::of_shards`].
    pub fn new(scheme: Scheme, check: LocationCheck) -> Layout {
        match scheme {
            Scheme::Rs36_32 => Layout::reed_solomon(Code::Rs36_32, 18, 16, 1, check),
            Scheme::Rs18_16 => Layout::reed_solomon(Code::Rs18_16, 18, 8, 0, check),
            Scheme::Rs19_16 => Layout::reed_solomon(Code::Rs19_16, 18, 8, 1, check),
            Scheme::Chipkill => Layout::chipkill(),
            Scheme::Secded => Layout::secded(),
            Scheme::Shards | Scheme::ShardsCrc => Layout::of_shards(),
        }
    }

    /// RS(19,16) over one byte column of 19 shards: each shard is a "chip" with one symbol.
    pub fn of_shards() -> Layout {
        Layout::reed_solomon(Code::Rs19_16, 19, 8, 1, LocationCheck::On)
    }

    fn reed_solomon(code: Code, chips: usize, codeword_bits: u32, corrects: usize, check: LocationCheck) -> Layout {
        let unit =
            |symbol: usize, value: u8| u32::from_le_bytes(code.column(symbol).map(|element| multiply(element, value)));
        let outside: Vec<u32> = match (check, corrects) {
            (LocationCheck::Off, 1) => (0..ORDER)
                .filter(|&exponent| code.position_of_locator(exponent).is_none())
                .flat_map(|exponent| (1..=255).map(move |value| outside_syndrome(code, exponent, value)))
                .collect(),
            _ => Vec::new(),
        };
        let length = match (check, code) {
            (LocationCheck::On, _) => code.n(),
            (LocationCheck::Off, Code::Rs36_32) => ORDER,
            // The hyperoval: every locator, and the unit columns of the parity symbols.
            (LocationCheck::Off, _) => ORDER + code.parity(),
        };
        let mut layout = Layout {
            chips,
            beats: 8,
            codeword_bits,
            codewords: 32 / codeword_bits as usize,
            unit_bits: 8,
            distance: code.distance(),
            corrects,
            separable_length: Some(length),
            syndrome_bits: 8 * code.parity() as u32,
            contributions: Vec::new(),
            decoder: Decoder::new(Vec::new()),
        };
        layout.fill(code.n(), unit, &outside);
        layout
    }

    fn chipkill() -> Layout {
        let mut layout = Layout {
            chips: chipkill::SYMBOLS,
            beats: 4,
            codeword_bits: 4,
            codewords: 4,
            unit_bits: 4,
            distance: 4,
            corrects: 1,
            separable_length: None,
            syndrome_bits: 16,
            contributions: Vec::new(),
            decoder: Decoder::new(Vec::new()),
        };
        layout.fill(chipkill::SYMBOLS, chipkill::syndrome, &[]);
        layout
    }

    fn secded() -> Layout {
        let mut layout = Layout {
            chips: 18,
            beats: 8,
            codeword_bits: 4,
            codewords: 8,
            unit_bits: 1,
            distance: 4,
            corrects: 1,
            separable_length: None,
            syndrome_bits: 8,
            contributions: Vec::new(),
            decoder: Decoder::new(Vec::new()),
        };
        layout.fill(secded::BITS, |bit, value| u32::from(secded::COLUMNS[bit]) * u32::from(value), &[]);
        layout
    }

    /// Makes the tables from the syndromes of single units.
    fn fill(&mut self, units: usize, unit_syndrome: impl Fn(usize, u8) -> u32, outside: &[u32]) {
        let units_per_chip = (self.codeword_bits / self.unit_bits) as usize;
        let bytes = self.bytes_per_chip();
        self.contributions = vec![0; units.div_ceil(units_per_chip) * bytes * TABLE_BYTES];
        let value_mask = ((1u32 << self.unit_bits) - 1) as u8;
        let per_byte = units_per_chip / bytes;
        let mut leaders = vec![(0, Verdict::Clean)];
        for unit in 0..units {
            let (chip, within) = (unit / units_per_chip, unit % units_per_chip);
            let shift = within as u32 * self.unit_bits;
            let row = (chip * bytes + within / per_byte) * TABLE_BYTES;
            for byte in 0..=255u8 {
                let value = (byte >> (shift % 8)) & value_mask;
                self.contributions[row + usize::from(byte)] ^= unit_syndrome(unit, value);
            }
            if self.corrects == 1 {
                leaders.extend((1..=value_mask).map(|value| {
                    let bits = u16::from(value) << shift;
                    (unit_syndrome(unit, value), Verdict::Correct { chip: chip as u8, bits })
                }));
            }
        }
        leaders.extend(outside.iter().map(|&syndrome| (syndrome, Verdict::Outside)));
        self.decoder = Decoder::new(leaders);
    }

    /// Bytes of a chip's part of a codeword.
    pub fn bytes_per_chip(&self) -> usize {
        self.codeword_bits.div_ceil(8) as usize
    }

    /// Units of a chip in a codeword.
    pub fn units_per_chip(&self) -> u32 {
        self.codeword_bits / self.unit_bits
    }

    /// The bits of a slice that lie in a codeword, moved to the low end.
    pub fn part(&self, slice: u32, codeword: usize) -> u16 {
        let mask = (1u32 << self.codeword_bits) - 1;
        (slice >> (codeword as u32 * self.codeword_bits) & mask) as u16
    }

    /// All the bits of a slice.
    pub fn slice_mask(&self) -> u32 {
        u32::MAX >> (32 - 4 * self.beats)
    }

    /// The syndrome that wrong bits of a chip add to a codeword.
    pub fn syndrome(&self, chip: usize, bits: u16) -> u32 {
        let [low, high] = bits.to_le_bytes().map(usize::from);
        let row = chip * self.bytes_per_chip() * TABLE_BYTES;
        let mut syndrome = self.contributions[row + low];
        if self.codeword_bits > 8 {
            syndrome ^= self.contributions[row + TABLE_BYTES + high];
        }
        syndrome
    }

    /// The table behind [`Layout::syndrome`]: 256 entries for each byte of each chip.
    pub(super) fn contributions(&self) -> &[u32] {
        &self.contributions
    }

    /// What the decoder makes of a syndrome.
    pub fn verdict(&self, syndrome: u32) -> Verdict {
        self.decoder.verdict(syndrome)
    }

    /// The decoder's tables.
    pub(super) fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

/// The syndromes of an error at a locator that no symbol has.
fn outside_syndrome(code: Code, exponent: usize, value: u8) -> u32 {
    let mut syndromes = [0; 4];
    for (row, syndrome) in syndromes.iter_mut().enumerate().take(code.parity()) {
        *syndrome = multiply(value, power_of_alpha(row * exponent));
    }
    u32::from_le_bytes(syndromes)
}

/// A radius-1 decoder as a table from every syndrome that it does not reject to what it does.
///
/// In front stands a filter of one bit per hash: nearly every syndrome of a large error misses it, so that most words
/// cost a multiplication and one load.
#[derive(Debug, Clone)]
pub(super) struct Decoder {
    filter: Box<[u64; FILTER_WORDS]>,
    slots: Vec<Option<(u32, Verdict)>>,
    leaders: Vec<(u32, Verdict)>,
}

/// The filter has 2^20 bits, 128 KiB: it stays in the second-level cache.
const FILTER_BITS_LOG2: u32 = 20;
const FILTER_WORDS: usize = 1 << (FILTER_BITS_LOG2 - 6);

/// Multiplicative hashing: the odd number next to 2^32 over the golden ratio.
const HASH_FACTOR: u32 = 0x9E37_79B1;

impl Decoder {
    fn new(leaders: Vec<(u32, Verdict)>) -> Decoder {
        let mut filter = Box::new([0; FILTER_WORDS]);
        let mut slots = vec![None; (4 * leaders.len()).next_power_of_two()];
        let slots_log2 = slots.len().trailing_zeros();
        for &(syndrome, verdict) in &leaders {
            let bit = hash(syndrome, FILTER_BITS_LOG2);
            filter[bit / 64] |= 1 << (bit % 64);
            let mut slot = hash(syndrome, slots_log2);
            while slots[slot].is_some() {
                slot = (slot + 1) % slots.len();
            }
            slots[slot] = Some((syndrome, verdict));
        }
        Decoder { filter, slots, leaders }
    }

    /// Whether the syndrome may be one that is not rejected; seldom wrong, and never for one that is not.
    #[inline]
    pub(super) fn may_accept(&self, syndrome: u32) -> bool {
        let bit = hash(syndrome, FILTER_BITS_LOG2);
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    #[inline]
    fn verdict(&self, syndrome: u32) -> Verdict {
        if !self.may_accept(syndrome) {
            return Verdict::Detect;
        }
        let mut slot = hash(syndrome, self.slots.len().trailing_zeros());
        while let Some((key, verdict)) = self.slots[slot] {
            if key == syndrome {
                return verdict;
            }
            slot = (slot + 1) % self.slots.len();
        }
        Verdict::Detect
    }

    /// Every syndrome that is not rejected.
    pub(super) fn leaders(&self) -> &[(u32, Verdict)] {
        &self.leaders
    }
}

#[inline]
fn hash(syndrome: u32, bits: u32) -> usize {
    (syndrome.wrapping_mul(HASH_FACTOR) >> (32 - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder as Scalar, Mode, Outcome};

    fn code_of(scheme: Scheme) -> Option<(Code, Mode)> {
        match scheme {
            Scheme::Rs36_32 => Some((Code::Rs36_32, Mode::CorrectOne)),
            Scheme::Rs18_16 => Some((Code::Rs18_16, Mode::Detect)),
            Scheme::Rs19_16 | Scheme::Shards => Some((Code::Rs19_16, Mode::CorrectOne)),
            _ => None,
        }
    }

    /// Random syndromes, and all of those that are near to accepted ones, mean the same as to the scalar decoder.
    #[test]
    fn verdicts_are_those_of_the_scalar_decoder() {
        for scheme in [Scheme::Rs36_32, Scheme::Rs18_16, Scheme::Rs19_16, Scheme::Shards] {
            for check in [LocationCheck::On, LocationCheck::Off] {
                if scheme == Scheme::Shards && check == LocationCheck::Off {
                    continue;
                }
                let (code, mode) = code_of(scheme).unwrap();
                let layout = Layout::new(scheme, check);
                let accepted: Vec<u32> = layout.decoder.leaders().iter().map(|leader| leader.0).collect();
                let random = (0..50_000u32).map(|i| i.wrapping_mul(0x85EB_CA6B) ^ i << 13);
                let near = accepted.iter().flat_map(|&syndrome| [syndrome, syndrome ^ 1, syndrome ^ 0x4000]);
                for syndrome in random.chain(near) {
                    let syndrome = syndrome & (u32::MAX >> (32 - layout.syndrome_bits));
                    let scalar = Scalar { mode, location_check: check };
                    let said = code.locate(syndrome.to_le_bytes(), scalar).unwrap();
                    let wanted = match said {
                        Outcome::Clean => Verdict::Clean,
                        Outcome::Detected => Verdict::Detect,
                        Outcome::CorrectedOutside => Verdict::Outside,
                        Outcome::Corrected(error) => {
                            let per_chip = layout.units_per_chip() as usize;
                            let bits = u16::from(error.value) << (8 * (error.position % per_chip));
                            Verdict::Correct { chip: (error.position / per_chip) as u8, bits }
                        }
                        Outcome::CorrectedTwo(_) => unreachable!(),
                    };
                    assert_eq!(layout.verdict(syndrome), wanted, "{scheme:?} {check:?} {syndrome:#x}");
                }
            }
        }
    }

    #[test]
    fn every_error_of_one_unit_is_undone_where_one_is_corrected() {
        for scheme in Scheme::ALL {
            let layout = Layout::new(scheme, LocationCheck::On);
            for chip in 0..layout.chips {
                for unit in 0..layout.units_per_chip() {
                    for value in 1..1u16 << layout.unit_bits {
                        let bits = value << (unit * layout.unit_bits);
                        let wanted = match layout.corrects {
                            1 => Verdict::Correct { chip: chip as u8, bits },
                            _ => Verdict::Detect,
                        };
                        assert_eq!(layout.verdict(layout.syndrome(chip, bits)), wanted, "{scheme:?} {chip} {bits:#x}");
                    }
                }
            }
        }
    }

    #[test]
    fn syndromes_are_linear_over_a_chip() {
        for scheme in Scheme::ALL {
            let layout = Layout::new(scheme, LocationCheck::On);
            let mask = ((1u32 << layout.codeword_bits) - 1) as u16;
            for chip in 0..layout.chips {
                for i in 0..500u16 {
                    let (a, b) = (i.wrapping_mul(40_503) & mask, i.wrapping_mul(24_593) & mask);
                    assert_eq!(
                        layout.syndrome(chip, a) ^ layout.syndrome(chip, b),
                        layout.syndrome(chip, a ^ b),
                        "{scheme:?}"
                    );
                }
            }
        }
    }
}
