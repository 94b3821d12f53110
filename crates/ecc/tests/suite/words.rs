//! The scalar reference, by exhaustion: every single error, every double one, every decoder.

use super::Random;
use surefoot_ecc::field::multiply;
use surefoot_ecc::{Code, Decoder, LocationCheck, Mode, Outcome, SYNDROMES_MAX, SymbolError};

const ONE: Decoder = Decoder { mode: Mode::CorrectOne, location_check: LocationCheck::On };
const TWO: Decoder = Decoder { mode: Mode::CorrectTwo, location_check: LocationCheck::On };
const DETECT: Decoder = Decoder { mode: Mode::Detect, location_check: LocationCheck::On };

/// The syndromes of an error pattern: the code is linear, so that no codeword is needed.
fn syndromes(code: Code, errors: &[SymbolError]) -> [u8; SYNDROMES_MAX] {
    let mut sum = [0; SYNDROMES_MAX];
    for error in errors {
        for (syndrome, element) in sum.iter_mut().zip(code.column(error.position)) {
            *syndrome ^= multiply(element, error.value);
        }
    }
    sum
}

#[test]
fn every_single_error_is_corrected_by_every_correcting_decoder_and_detected_by_the_other() {
    for code in Code::ALL {
        for position in 0..code.n() {
            for value in 1..=255 {
                let error = SymbolError { position, value };
                let seen = syndromes(code, &[error]);
                assert_eq!(code.locate(seen, DETECT), Ok(Outcome::Detected));
                assert_eq!(code.locate(seen, ONE), Ok(Outcome::Corrected(error)));
                let off = Decoder { location_check: LocationCheck::Off, ..ONE };
                assert_eq!(code.locate(seen, off), Ok(Outcome::Corrected(error)));
                if code == Code::Rs36_32 {
                    assert_eq!(code.locate(seen, TWO), Ok(Outcome::Corrected(error)));
                }
            }
        }
    }
}

/// Calls `check` with every pair of positions and every pair of values.
fn every_double_error(code: Code, mut check: impl FnMut([SymbolError; 2], [u8; SYNDROMES_MAX])) {
    for first in 0..code.n() {
        for second in first + 1..code.n() {
            for value in 1..=255 {
                let one = SymbolError { position: first, value };
                let base = syndromes(code, &[one]);
                for value in 1..=255 {
                    let other = SymbolError { position: second, value };
                    let mut seen = syndromes(code, &[other]);
                    seen.iter_mut().zip(base).for_each(|(sum, addend)| *sum ^= addend);
                    check([one, other], seen);
                }
            }
        }
    }
}

#[test]
fn every_double_error_is_detected_where_the_distance_says_so() {
    for (code, decoder) in [(Code::Rs18_16, DETECT), (Code::Rs19_16, ONE), (Code::Rs36_32, ONE)] {
        every_double_error(code, |errors, seen| {
            let outcome = code.locate(seen, decoder).unwrap();
            assert!(outcome == Outcome::Detected, "{code} {errors:?}: {outcome:?}");
        });
    }
}

#[test]
fn rs18_16_that_corrects_one_takes_some_double_errors_for_another_single_one() {
    let mut wrong = 0;
    every_double_error(Code::Rs18_16, |_, seen| {
        wrong += u64::from(matches!(Code::Rs18_16.locate(seen, ONE), Ok(Outcome::Corrected(_))));
    });
    // Codewords of weight 3 through two given symbols: (n - 2)(q - 1); each pair of symbols has as many.
    assert_eq!(wrong, 153 * 16 * 255);
}

#[test]
fn double_errors_are_corrected_by_rs36_32_where_it_is_asked_for() {
    let code = Code::Rs36_32;
    let mut random = Random::new(7);
    for first in 0..36 {
        for second in first + 1..36 {
            for _ in 0..300 {
                let errors = [(first, random.nonzero()), (second, random.nonzero())];
                let errors = errors.map(|(position, value)| SymbolError { position, value });
                assert_eq!(code.locate(syndromes(code, &errors), TWO), Ok(Outcome::CorrectedTwo(errors)));
            }
        }
    }
}

#[test]
fn triple_errors_are_detected_by_rs36_32_with_one_corrected_and_by_rs19_16_with_none() {
    let mut random = Random::new(8);
    for (code, decoder) in [(Code::Rs36_32, ONE), (Code::Rs19_16, DETECT)] {
        for positions in super::distance::sets(code.n(), 3) {
            for _ in 0..40 {
                let errors: Vec<_> =
                    positions.iter().map(|&position| SymbolError { position, value: random.nonzero() }).collect();
                assert_eq!(code.locate(syndromes(code, &errors), decoder), Ok(Outcome::Detected), "{errors:?}");
            }
        }
    }
}

#[test]
fn the_location_check_takes_the_share_of_miscorrections_that_the_formula_says() {
    // Every syndrome vector but 0, which stands for every garbage word: 19·255 of 256³ are called corrected with the
    // check, and (19 + 239)·255 without.
    let code = Code::Rs19_16;
    let off = Decoder { location_check: LocationCheck::Off, ..ONE };
    let (mut corrected, mut outside) = (0u64, 0u64);
    for word in 1..1u32 << 24 {
        let [s0, s1, s2, _] = word.to_le_bytes();
        match code.locate([s0, s1, s2, 0], off).unwrap() {
            Outcome::Corrected(_) => corrected += 1,
            Outcome::CorrectedOutside => outside += 1,
            _ => {}
        }
    }
    assert_eq!((corrected, outside), (19 * 255, (255 - 16) * 255));
}

#[test]
fn only_the_syndromes_of_the_code_count() {
    assert_eq!(Code::Rs18_16.locate([0, 0, 1, 1], ONE), Ok(Outcome::Clean));
    assert_eq!(Code::Rs19_16.locate([0, 0, 0, 1], ONE), Ok(Outcome::Clean));
}

#[test]
fn a_detected_word_is_left_as_it_was() {
    let mut random = Random::new(9);
    for code in Code::ALL {
        let mut word = random.bytes(code.n());
        code.encode(&mut word).unwrap();
        word[1] ^= 3;
        word[5] ^= 7;
        let before = word.clone();
        let decoder = if code == Code::Rs18_16 { DETECT } else { ONE };
        assert_eq!(code.decode(&mut word, decoder), Ok(Outcome::Detected));
        assert_eq!(word, before);
    }
}
