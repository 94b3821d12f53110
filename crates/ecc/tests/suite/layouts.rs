//! The two layouts against their definitions, bit by bit and byte by byte.

use super::distance::sets;
use super::{Random, paths};
use surefoot_ecc::layout::chip::{BEATS, CHIPS, LINE_BYTES, Lines, PINS, place_of};
use surefoot_ecc::layout::shard::Stripes;
use surefoot_ecc::{Batch, Check, Code, Error, Mode};

/// Where a chip's pin lies in a beat: byte and bit of the line, or of its check bytes.
enum Bit {
    OfLine(usize, usize),
    OfChecks(usize, usize),
}

fn bit_of(chip: usize, pin: usize, beat: usize) -> Bit {
    if chip < 16 {
        Bit::OfLine(beat * 8 + chip / 2, chip % 2 * PINS + pin)
    } else {
        Bit::OfChecks(beat, (chip - 16) * PINS + pin)
    }
}

fn get(line: &[u8], checks: &[u8], chip: usize, pin: usize, beat: usize) -> u8 {
    let (byte, bit) = match bit_of(chip, pin, beat) {
        Bit::OfLine(byte, bit) => (line[byte], bit),
        Bit::OfChecks(byte, bit) => (checks[byte], bit),
    };
    byte >> bit & 1
}

fn flip(line: &mut [u8], checks: &mut [u8], chip: usize, pin: usize, beat: usize) {
    match bit_of(chip, pin, beat) {
        Bit::OfLine(byte, bit) => line[byte] ^= 1 << bit,
        Bit::OfChecks(byte, bit) => checks[byte] ^= 1 << bit,
    }
}

/// The codewords of one line by the definition; R is taken from behind the other check bytes.
fn words_of(code: Code, codewords: usize, line: &[u8], checks: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![vec![0; code.n()]; codewords];
    for chip in 0..CHIPS {
        for pin in 0..PINS {
            for beat in 0..BEATS {
                let place = place_of(code, chip, pin, beat).unwrap();
                words[place.codeword][place.symbol] |= get(line, checks, chip, pin, beat) << place.bit;
            }
        }
    }
    for (word, third) in words.iter_mut().zip(&checks[8..]) {
        word[18] = *third;
    }
    words
}

#[test]
fn every_bit_of_a_line_has_a_place_of_its_own() {
    for code in Code::ALL {
        let mut places = std::collections::HashSet::new();
        for chip in 0..CHIPS {
            for (pin, beat) in (0..PINS * BEATS).map(|index| (index % PINS, index / PINS)) {
                assert!(places.insert(place_of(code, chip, pin, beat).unwrap()));
            }
        }
        assert_eq!(places.len(), 18 * 32);
        assert_eq!((place_of(code, 18, 0, 0), place_of(code, 0, 4, 0), place_of(code, 0, 0, 8)), (None, None, None));
    }
}

#[test]
fn lines_are_encoded_as_their_definition_says() {
    for code in Code::ALL {
        for path in paths() {
            let lines = Lines::with_batch(Batch::with_path(code, path).unwrap());
            for count in [1, 2, 127, 128, 129, 300] {
                let data = Random::new(51).bytes(count * LINE_BYTES);
                let mut checks = vec![0xEE; count * lines.check_bytes()];
                lines.encode(&data, &mut checks).unwrap();
                for (line, checks) in data.chunks(LINE_BYTES).zip(checks.chunks(lines.check_bytes())) {
                    for word in words_of(code, lines.codewords(), line, checks) {
                        assert_eq!(code.syndromes(&word), Ok([0; 4]), "{code} {path} {count}");
                    }
                }
                assert_eq!(lines.check(&data, &checks), Ok(Check::Clean));
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_found_in_its_place_and_corrected() {
    for code in Code::ALL {
        let lines = Lines::new(code);
        let count = 130;
        let data = Random::new(52).bytes(count * LINE_BYTES);
        let mut checks = vec![0; count * lines.check_bytes()];
        lines.encode(&data, &mut checks).unwrap();
        for chip in 0..CHIPS {
            for (pin, beat) in (0..PINS * BEATS).map(|index| (index % PINS, index / PINS)) {
                let line = (chip * 31 + pin * 7 + beat * 3) % count;
                let (mut damaged, mut damaged_checks) = (data.clone(), checks.clone());
                let check_bytes = lines.check_bytes();
                flip(&mut damaged[line * 64..][..64], &mut damaged_checks[line * check_bytes..], chip, pin, beat);
                let place = place_of(code, chip, pin, beat).unwrap();
                let first_column = line * lines.codewords() + place.codeword;
                assert_eq!(lines.check(&damaged, &damaged_checks), Ok(Check::Dirty { first_column }));
                let report = lines.correct(&mut damaged, &mut damaged_checks, Mode::CorrectOne).unwrap();
                assert_eq!((report.corrected, report.corrected_at[place.symbol]), (1, 1));
                assert_eq!(report.columns(), count * lines.codewords());
                assert!(damaged == data && damaged_checks == checks);
            }
        }
    }
}

/// Damages one chip of all lines at random.
fn fail(chip: usize, data: &mut [u8], checks: &mut [u8], check_bytes: usize, random: &mut Random) {
    for (line, checks) in data.chunks_mut(LINE_BYTES).zip(checks.chunks_mut(check_bytes)) {
        let bits = random.next();
        for (pin, beat) in (0..PINS * BEATS).map(|index| (index % PINS, index / PINS)) {
            if bits >> (beat * PINS + pin) & 1 == 1 {
                flip(line, checks, chip, pin, beat);
            }
        }
    }
}

#[test]
fn a_failed_chip_is_corrected_by_the_two_level_code_and_detected_by_rs36_32() {
    let mut random = Random::new(53);
    for code in Code::ALL {
        let lines = Lines::new(code);
        let data = random.bytes(200 * LINE_BYTES);
        let mut checks = vec![0; 200 * lines.check_bytes()];
        lines.encode(&data, &mut checks).unwrap();
        for chip in 0..CHIPS {
            let (mut damaged, mut damaged_checks) = (data.clone(), checks.clone());
            fail(chip, &mut damaged, &mut damaged_checks, lines.check_bytes(), &mut random);
            let (before, checks_before) = (damaged.clone(), damaged_checks.clone());
            let report = lines.correct(&mut damaged, &mut damaged_checks, Mode::CorrectOne).unwrap();
            if code == Code::Rs36_32 {
                // Both symbols of a chip are wrong, but for one in 128: too much for one correction.
                assert!(report.detected > 380, "{report:?}");
                (damaged, damaged_checks) = (before, checks_before);
            } else {
                assert_eq!((report.detected, report.corrected_at[chip]), (0, report.corrected));
                assert!(damaged == data && damaged_checks == checks);
                fail(chip, &mut damaged, &mut damaged_checks, lines.check_bytes(), &mut random);
            }
            let report = lines.repair(&mut damaged, &mut damaged_checks, &[chip], Mode::Detect).unwrap();
            assert_eq!(report.detected, 0);
            assert!(damaged == data && damaged_checks == checks, "{code}: chip {chip} is known to have failed");
        }
    }
}

#[test]
fn lines_of_wrong_lengths_and_strange_chips_are_refused() {
    let lines = Lines::new(Code::Rs36_32);
    let refused = lines.encode(&[0; 63], &mut [0; 8]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "63 bytes are not one or more whole lines of 64 bytes: pad the last one with zeros"
    );
    assert!(lines.check(&[], &[]).is_err());
    let refused = lines.encode(&[0; 128], &mut [0; 8]).unwrap_err();
    assert_eq!(refused.to_string(), "16 check bytes are needed, but there are 8");
    let (line, checks) = (&mut [0; 64], &mut [0; 8]);
    let refused = lines.repair(line, checks, &[18], Mode::Detect).unwrap_err();
    assert_eq!(refused, Error::ChipOutside { chip: 18, last: 17 });
    let refused = lines.repair(line, checks, &[0, 1, 2], Mode::Detect).unwrap_err();
    assert_eq!(refused, Error::TooManyErasures { code: Code::Rs36_32, limit: 4, given: 6 });
    assert!(lines.repair(line, checks, &[1, 1], Mode::Detect).is_err());
    assert!(lines.repair(line, checks, &[usize::MAX], Mode::Detect).is_err());
    assert!(lines.repair(line, checks, &[1, 2], Mode::CorrectOne).is_err());
}

#[test]
fn stripes_are_encoded_as_their_definition_says() {
    for code in Code::ALL {
        for shard_bytes in [1, 7, 64, 100, 4096] {
            let stripes = Stripes::new(code, shard_bytes).unwrap();
            let data = Random::new(54).bytes(3 * stripes.data_bytes());
            let mut parity = vec![0xEE; 3 * stripes.parity_bytes()];
            stripes.encode(&data, &mut parity).unwrap();
            assert_eq!(stripes.check(&data, &parity), Ok(Check::Clean));
            for stripe in 0..3 {
                for byte in 0..shard_bytes {
                    let shard = |bytes: &[u8], first: usize, shard: usize| bytes[first + shard * shard_bytes + byte];
                    let mut word: Vec<u8> =
                        (0..code.k()).map(|i| shard(&data, stripe * stripes.data_bytes(), i)).collect();
                    let first = stripe * stripes.parity_bytes();
                    word.extend((0..code.parity()).map(|i| shard(&parity, first, i)));
                    assert_eq!(code.syndromes(&word), Ok([0; 4]), "{code} {shard_bytes}");
                }
            }
        }
    }
}

#[test]
fn lost_and_damaged_shards_of_a_stripe_come_back() {
    let mut random = Random::new(55);
    let code = Code::Rs19_16;
    let stripes = Stripes::new(code, 100).unwrap();
    let data = random.bytes(2 * stripes.data_bytes());
    let mut parity = vec![0; 2 * stripes.parity_bytes()];
    stripes.encode(&data, &mut parity).unwrap();
    for lost in sets(19, 3) {
        let (mut damaged, mut damaged_parity) = (data.clone(), parity.clone());
        for &shard in &lost {
            let bytes = random.bytes(100);
            match shard.checked_sub(16) {
                None => damaged[1600 + shard * 100..][..100].copy_from_slice(&bytes),
                Some(shard) => damaged_parity[300 + shard * 100..][..100].copy_from_slice(&bytes),
            }
        }
        let report = stripes.repair(&mut damaged, &mut damaged_parity, 1, &lost, Mode::Detect).unwrap();
        assert_eq!((report.clean, report.detected), (100, 0));
        assert!(damaged == data && damaged_parity == parity, "{lost:?}");
    }
    let (mut damaged, mut damaged_parity) = (data.clone(), parity.clone());
    damaged[1600 + 5 * 100..][..100].fill(0);
    damaged_parity[7] ^= 1;
    assert_eq!(stripes.check(&damaged, &damaged_parity), Ok(Check::Dirty { first_column: 7 }));
    let report = stripes.correct(&mut damaged, &mut damaged_parity, Mode::CorrectOne).unwrap();
    assert_eq!((report.detected, report.columns(), report.corrected_at[16]), (0, 200, 1));
    assert!(damaged == data && damaged_parity == parity);
    damaged[1600 + 3] ^= 1;
    damaged[1700 + 3] ^= 1;
    let report = stripes.correct(&mut damaged, &mut damaged_parity, Mode::CorrectOne).unwrap();
    assert_eq!((report.detected, report.first_detected), (1, Some(103)));
}

#[test]
fn stripes_of_wrong_lengths_are_refused() {
    assert_eq!(Stripes::new(Code::Rs19_16, 0), Err(Error::EmptyShards));
    let refused = Stripes::new(Code::Rs19_16, usize::MAX).unwrap_err();
    assert!(matches!(refused, Error::ShardTooLong { given: usize::MAX, .. }), "{refused}");
    let stripes = Stripes::new(Code::Rs19_16, 10).unwrap();
    let refused = stripes.encode(&[0; 161], &mut [0; 30]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "161 bytes are not one or more whole stripes of 160 bytes: pad the last one with zeros"
    );
    let refused = stripes.encode(&[0; 160], &mut [0; 31]).unwrap_err();
    assert_eq!(refused.to_string(), "30 bytes of parity are needed, but there are 31");
    assert!(stripes.check(&[], &[]).is_err());
    let refused = stripes.repair(&mut [0; 160], &mut [0; 30], 1, &[], Mode::Detect).unwrap_err();
    assert_eq!(refused.to_string(), "there is no stripe 1 to repair: stripes are 0 to 0");
}
