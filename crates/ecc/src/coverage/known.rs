//! Tests against numbers and paths from outside: the closed forms that were derived by hand before this code existed, and
//! brute force with the scalar decoder over whole words.

use super::exact::{Span, Tally, counts, tally};
use super::{Counts, Fault, Kind, Layout, Rules, Scheme, secded};
use crate::{Code, Decoder, LocationCheck};

const PATTERNS_OF_A_CHIP: u128 = u32::MAX as u128;

fn physical(scheme: Scheme, fault: &str) -> Counts {
    counts(&Layout::new(scheme, LocationCheck::On), fault.parse().unwrap(), Rules::PHYSICAL)
}

fn paper(scheme: Scheme, fault: &str) -> Counts {
    counts(&Layout::new(scheme, LocationCheck::Off), fault.parse().unwrap(), Rules::PAPER)
}

/// The share corrected, as a fraction; the rest detected.
fn corrected(scheme: Scheme, fault: &str, numerator: u128, denominator: u128) {
    let wanted = Counts { corrected: numerator, detected: denominator - numerator, silent: 0 };
    let found = physical(scheme, fault);
    assert!(found.is_alike(wanted), "{scheme:?} {fault}: {:?} for {numerator}/{denominator}", found.shares());
}

#[test]
fn rs_36_32_corrects_what_the_closed_forms_say() {
    let of = |fault, numerator, denominator| corrected(Scheme::Rs36_32, fault, numerator, denominator);
    for fault in ["bit", "column", "word"] {
        of(fault, 1, 1);
    }
    of("pin", 48, 255);
    of("chip", 511 * 511 - 1, PATTERNS_OF_A_CHIP);
    for fault in ["bit+bit", "bit+column", "bit+word", "column+word", "word+word"] {
        of(fault, 1, 2);
    }
    for fault in ["bit+pin", "word+pin"] {
        of(fault, 6, 255);
    }
    of("pin+pin", 72, 255 * 255);
    for fault in ["bit+chip", "word+chip"] {
        of(fault, 510, PATTERNS_OF_A_CHIP);
    }
    // Each codeword: nothing wrong, or one symbol of the pin (3 + 3 ways) or of the chip (255 + 255 ways).
    let pin_chip = physical(Scheme::Rs36_32, "pin+chip");
    let right = 517 * 517 - 7 * 7 - 511 * 511 + 1;
    assert_eq!(pin_chip.corrected * 255 * PATTERNS_OF_A_CHIP, right * pin_chip.total());
    let chip_chip = physical(Scheme::Rs36_32, "chip+chip");
    assert!((chip_chip.shares()[0] / 2.8e-14 - 1.0).abs() < 0.01);
}

#[test]
fn rs_19_16_corrects_what_the_closed_forms_say() {
    let of = |fault, numerator, denominator| corrected(Scheme::Rs19_16, fault, numerator, denominator);
    for fault in ["bit", "column", "word", "pin", "chip"] {
        of(fault, 1, 1);
    }
    for fault in ["bit+bit", "bit+word", "word+word"] {
        of(fault, 3, 4);
    }
    for fault in ["bit+pin", "word+pin"] {
        of(fault, 63, 255);
    }
    of("pin+pin", 1890, 255 * 255);
    for fault in ["bit+chip", "word+chip"] {
        of(fault, (1 << 24) - 1, PATTERNS_OF_A_CHIP);
    }
    let share = |fault| physical(Scheme::Rs19_16, fault).shares();
    assert!((share("pin+chip")[0] / 0.000_187 - 1.0).abs() < 0.01);
    assert!((share("chip+chip")[0] / 3.2e-9 - 1.0).abs() < 0.02);
    assert_eq!(share("chip+chip")[2], 0.0);
}

#[test]
fn rs_18_16_detects_everything_here() {
    for fault in Scheme::Rs18_16.faults() {
        corrected(Scheme::Rs18_16, &fault.to_string(), 0, 1);
    }
}

#[test]
fn silent_shares_of_rs_36_32() {
    // 32 * 255 of 256^4 patterns of two chips in a codeword; in a block both codewords must be taken for right.
    let all = Span { offset: 0, mask: 0xFFFF };
    let share = |check| {
        let layout = Layout::new(Scheme::Rs36_32, check);
        tally(&layout, &[(2, all), (9, all)]).wrong as f64 / 2f64.powi(32)
    };
    assert!((share(LocationCheck::On) / 1.900e-6 - 1.0).abs() < 1e-3);
    assert!((share(LocationCheck::Off) / 1.4902e-5 - 1.0).abs() < 1e-3);
    assert!((share(LocationCheck::On) * 256f64.powi(4) / 255f64.powi(4) / 1.930e-6 - 1.0).abs() < 1e-3);
    let block = physical(Scheme::Rs36_32, "chip+chip").shares()[2];
    // Silent and right codewords mix: (R + W)^2 - R^2 of 2^64 patterns.
    let (right, wrong) = (1021f64, 8160f64);
    let wanted = ((right + wrong).powi(2) - right.powi(2)) / 2f64.powi(64);
    assert!((block / wanted - 1.0).abs() < 1e-6, "{block}");
    // The part of it where both are wrong is what a hand calculation without right codewords finds: 3.6e-12.
    assert!((wrong * wrong / 2f64.powi(64) / 3.6e-12 - 1.0).abs() < 0.01);
    assert_eq!(physical(Scheme::Rs36_32, "pin+pin").silent, 0);
}

#[test]
fn the_paper_s_convention_comes_near_to_its_figures() {
    let silent = |fault| paper(Scheme::Rs36_32, fault).shares()[2];
    assert!((silent("chip+chip") / 2.98e-5 - 1.0).abs() < 0.01);
    assert!((silent("pin+chip") / 3.05e-5 - 1.0).abs() < 0.01);
    assert_eq!(silent("pin+pin"), 0.0);
    assert_eq!(paper(Scheme::Rs36_32, "pin").corrected, 0);
    for fault in ["bit+bit", "bit+word", "bit+pin"] {
        let counts = paper(Scheme::Rs19_16, fault);
        assert_eq!(counts.detected, counts.total());
    }
}

/// A whole word with data, damaged and decoded by the scalar code.
fn brute_force(code: Code, parts: &[(usize, u16)], units_per_chip: usize, decoder: Decoder) -> Tally {
    let mut word: Vec<u8> = (0..code.n()).map(|i| (i * 89 + 7) as u8).collect();
    code.encode(&mut word).unwrap();
    let free_bits: u32 = parts.iter().map(|part| part.1.count_ones()).sum();
    let mut tally = Tally::default();
    for number in 0..1u32 << free_bits {
        let mut damaged = word.clone();
        let mut bits = number;
        for &(chip, mask) in parts {
            for bit in (0..16).filter(|bit| mask >> bit & 1 == 1) {
                damaged[chip * units_per_chip + bit / 8] ^= ((bits & 1) as u8) << (bit % 8);
                bits >>= 1;
            }
        }
        match code.decode(&mut damaged, decoder).unwrap() {
            crate::Outcome::Detected => tally.detected += 1,
            crate::Outcome::CorrectedOutside => tally.wrong += 1,
            _ if damaged == word => tally.right += 1,
            _ => tally.wrong += 1,
        }
    }
    tally
}

#[test]
fn counts_are_those_of_brute_force_over_whole_words() {
    for check in [LocationCheck::On, LocationCheck::Off] {
        let decoder = Decoder { location_check: check, ..Decoder::default() };
        let compare = |scheme, code, units_per_chip, parts: &[(usize, u16)]| {
            let layout = Layout::new(scheme, check);
            let spans: Vec<(usize, Span)> =
                parts.iter().map(|&(chip, mask)| (chip, Span { offset: 0, mask })).collect();
            let found = tally(&layout, &spans);
            assert_eq!(found, brute_force(code, parts, units_per_chip, decoder), "{scheme:?} {parts:?}");
            found
        };
        compare(Scheme::Rs36_32, Code::Rs36_32, 2, &[(0, 0x1111), (17, 0x2222)]);
        compare(Scheme::Rs36_32, Code::Rs36_32, 2, &[(5, 0x8421), (6, 0x0FF0)]);
        compare(Scheme::Rs19_16, Code::Rs19_16, 1, &[(3, 0x3F), (15, 0xF3)]);
        if check == LocationCheck::On {
            let three = compare(Scheme::Shards, Code::Rs19_16, 1, &[(0, 0x1F), (8, 0x1F), (18, 0x1F)]);
            assert!(three.wrong > 0, "three wrong symbols are sometimes taken for one");
        }
    }
}

/// Bit by bit from the block: where a bit lies is computed anew here, from the description of the layout.
#[test]
fn a_block_of_rs_36_32_is_laid_out_as_described() {
    let layout = Layout::new(Scheme::Rs36_32, LocationCheck::On);
    for chip in 0..18 {
        for beat in 0..8 {
            for pin in 0..4 {
                let slice = 1u32 << (4 * beat + pin);
                let codeword = beat / 4;
                let symbol = 2 * chip + (beat % 4) / 2;
                let value = 1u8 << (4 * (beat % 2) + pin);
                let column = Code::Rs36_32.column(symbol).map(|element| crate::field::multiply(element, value));
                for other in 0..2 {
                    let wanted = if other == codeword { u32::from_le_bytes(column) } else { 0 };
                    assert_eq!(layout.syndrome(chip, layout.part(slice, other)), wanted);
                }
            }
        }
    }
}

/// SECDED over whole words: a decoder that compares the syndrome with each column in turn.
#[test]
fn secded_counts_are_those_of_a_decoder_by_comparison() {
    let layout = Layout::new(Scheme::Secded, LocationCheck::On);
    for (first, second) in [(0, 1), (2, 17), (13, 15)] {
        let mut wanted = Tally::default();
        for errors in 0..256u32 {
            let wrong_bits: Vec<usize> =
                (0..8).filter(|bit| errors >> bit & 1 == 1).map(|bit| 4 * [first, second][bit / 4] + bit % 4).collect();
            let syndrome = wrong_bits.iter().fold(0, |sum, &bit| sum ^ secded::COLUMNS[bit]);
            let named = secded::COLUMNS.iter().position(|&column| column == syndrome);
            match (syndrome, named) {
                (0, _) if wrong_bits.is_empty() => wanted.right += 1,
                (0, _) => wanted.wrong += 1,
                (_, None) => wanted.detected += 1,
                (_, Some(bit)) if wrong_bits == [bit] => wanted.right += 1,
                (_, Some(_)) => wanted.wrong += 1,
            }
        }
        let span = Span { offset: 0, mask: 0xF };
        assert_eq!(tally(&layout, &[(first, span), (second, span)]), wanted);
    }
}

#[test]
fn no_fault_is_lost_between_the_outcomes() {
    for scheme in [Scheme::Rs19_16, Scheme::Secded, Scheme::Chipkill] {
        let layout = Layout::new(scheme, LocationCheck::On);
        let pins = u128::from(layout.beats == 8) * 255 + u128::from(layout.beats == 4) * 15;
        let single = counts(&layout, Fault::Single(Kind::Pin), Rules::PHYSICAL);
        assert_eq!(single.total(), layout.chips as u128 * 4 * pins);
    }
}
