//! Erasures in all combinations, and errors beside them as far as the distance goes.

use super::distance::sets;
use super::{Random, codewords, get, paths};
use surefoot_ecc::{Batch, Code, Error, Mode, Outcome, SymbolError};

#[test]
fn every_combination_of_erasures_is_repaired_in_a_word() {
    let mut random = Random::new(11);
    for code in Code::ALL {
        for count in 1..=code.parity() {
            for erasures in sets(code.n(), count) {
                let mut word = random.bytes(code.n());
                code.encode(&mut word).unwrap();
                let mut damaged = word.clone();
                erasures.iter().for_each(|&position| damaged[position] = random.nonzero());
                assert_eq!(
                    code.repair(&mut damaged, &erasures, Mode::Detect),
                    Ok(Outcome::Clean),
                    "{code} {erasures:?}"
                );
                assert_eq!(damaged, word, "{code} {erasures:?}");
            }
        }
    }
}

#[test]
fn every_combination_of_erasures_is_repaired_in_a_batch_on_every_path() {
    let mut random = Random::new(12);
    // Not a multiple of any vector, so that whole vectors and the rest are both repaired.
    let columns = 2 * 64 + 64 + 37;
    for code in Code::ALL {
        let sound = codewords(code, columns, &mut random);
        for path in paths() {
            let batch = Batch::with_path(code, path).unwrap();
            for count in 1..=code.parity() {
                // All sets of four for RS(36,32) take their time; every seventh still meets every pair.
                let step = if count == 4 { 7 } else { 1 };
                for erasures in sets(code.n(), count).into_iter().step_by(step) {
                    let mut damaged = sound.clone();
                    erasures.iter().for_each(|&position| damaged[position] = random.bytes(columns));
                    let report = batch.repair(&mut damaged, &erasures, Mode::Detect).unwrap();
                    assert_eq!((report.clean, report.first_detected), (columns, None));
                    assert!(damaged == sound, "{code} {path} {erasures:?}");
                }
            }
        }
    }
}

/// One error beside every allowed combination of erasures, at every position.
#[test]
fn one_error_beside_erasures_is_corrected() {
    let mut random = Random::new(13);
    for (code, count) in [(Code::Rs19_16, 1), (Code::Rs36_32, 1), (Code::Rs36_32, 2)] {
        let columns = code.n() - count;
        let sound = codewords(code, columns, &mut random);
        for erasures in sets(code.n(), count) {
            let mut damaged = sound.clone();
            erasures.iter().for_each(|&position| damaged[position] = random.bytes(columns));
            let others: Vec<usize> = (0..code.n()).filter(|position| !erasures.contains(position)).collect();
            for (column, &position) in others.iter().enumerate() {
                let value = random.nonzero();
                damaged[position][column] ^= value;
                let mut word = get(&damaged, column);
                let outcome = code.repair(&mut word, &erasures, Mode::CorrectOne);
                assert_eq!(outcome, Ok(Outcome::Corrected(SymbolError { position, value })));
                assert_eq!(word, get(&sound, column));
            }
            for path in paths() {
                let mut mended = damaged.clone();
                let batch = Batch::with_path(code, path).unwrap();
                let report = batch.repair(&mut mended, &erasures, Mode::CorrectOne).unwrap();
                assert_eq!((report.corrected, report.detected), (columns, 0), "{code} {path} {erasures:?}");
                assert!(mended == sound, "{code} {path} {erasures:?}");
                assert!(others.iter().all(|&position| report.corrected_at[position] == 1));
            }
        }
    }
}

/// What the spare syndromes promise: errors beyond the mode, within the distance, are detected, never called right.
#[test]
fn errors_beside_erasures_are_detected_as_far_as_the_distance_goes() {
    let mut random = Random::new(14);
    for code in Code::ALL {
        for erased in 0..code.parity() {
            for mode in [Mode::Detect, Mode::CorrectOne] {
                if 2 * mode.errors() + erased >= code.distance() {
                    continue;
                }
                for errors in mode.errors() + 1..=code.parity() - erased - mode.errors() {
                    for _ in 0..400 {
                        let mut positions: Vec<usize> = (0..code.n()).collect();
                        (0..positions.len()).for_each(|i| positions.swap(i, random.below(code.n())));
                        let (erasures, rest) = positions.split_at(erased);
                        let mut word = random.bytes(code.n());
                        code.encode(&mut word).unwrap();
                        rest[..errors].iter().for_each(|&position| word[position] ^= random.nonzero());
                        erasures.iter().for_each(|&position| word[position] ^= random.nonzero());
                        let before = word.clone();
                        assert_eq!(code.repair(&mut word, erasures, mode), Ok(Outcome::Detected));
                        assert_eq!(word, before);
                        for path in paths() {
                            let mut columns: Vec<Vec<u8>> = word.iter().map(|byte| vec![*byte; 70]).collect();
                            let batch = Batch::with_path(code, path).unwrap();
                            let report = batch.repair(&mut columns, erasures, mode).unwrap();
                            assert_eq!((report.detected, report.first_detected), (70, Some(0)));
                            assert!(columns.iter().zip(&before).all(|(symbol, byte)| *symbol == vec![*byte; 70]));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn more_than_the_distance_allows_is_refused_with_the_limit() {
    let mut word = [0; 19];
    let refused = Code::Rs19_16.repair(&mut word, &[0, 1], Mode::CorrectOne).unwrap_err();
    assert_eq!(refused, Error::BeyondDistance { code: Code::Rs19_16, errors: 1, erasures: 2, distance: 4 });
    assert_eq!(refused.to_string(), "correcting 1 errors beside 2 erasures needs distance 5, but RS(19,16) has 4");
    let refused = Code::Rs19_16.repair(&mut word, &[0, 1, 2, 3], Mode::Detect).unwrap_err();
    assert_eq!(refused.to_string(), "4 erasures, but RS(19,16) repairs at most 3");
    let refused = Code::Rs18_16.repair(&mut word[..18], &[18], Mode::Detect).unwrap_err();
    assert_eq!(refused.to_string(), "erasure at symbol 18, but RS(18,16) has the symbols 0 to 17");
    let refused = Code::Rs19_16.repair(&mut word, &[4, 4], Mode::Detect).unwrap_err();
    assert_eq!(refused.to_string(), "symbol 4 is named as an erasure twice: name each once");
    let refused =
        Code::Rs18_16.decode(&mut word[..18], surefoot_ecc::Decoder { mode: Mode::CorrectTwo, ..Default::default() });
    assert_eq!(refused, Err(Error::BeyondDistance { code: Code::Rs18_16, errors: 2, erasures: 0, distance: 3 }));
}
