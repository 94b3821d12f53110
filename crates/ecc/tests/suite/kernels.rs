//! Every path against the scalar reference: on every length, at every alignment, touching nothing else.

use super::{Guarded, Random, codewords, get, paths, put};
use surefoot_ecc::{Batch, Check, Code, Decoder, Mode, Outcome, Path, Report};

/// Miri interprets a thousand times more slowly, and looks for something else: undefined behaviour.
const LENGTH_MAX: usize = if cfg!(miri) { 70 } else { 4096 };
const LENGTH_STEP: usize = if cfg!(miri) { 69 } else { 1 };

/// What the scalar reference makes of damaged columns; columns do not depend on each other, so that the result for the
/// first x columns is the beginning of the result for all.
struct Expected {
    sound: Vec<Vec<u8>>,
    damaged: Vec<Vec<u8>>,
    corrected: Vec<Vec<u8>>,
    syndromes: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
}

impl Expected {
    /// Of every ten columns, four are sound, four have one error, one has two, and one is garbage.
    fn new(code: Code, mode: Mode) -> Expected {
        let mut random = Random::new(21);
        let sound = codewords(code, LENGTH_MAX, &mut random);
        let (mut damaged, mut corrected) = (sound.clone(), sound.clone());
        let mut syndromes = vec![vec![0; LENGTH_MAX]; code.parity()];
        let mut outcomes = Vec::new();
        for column in 0..LENGTH_MAX {
            let mut word = get(&sound, column);
            match random.below(10) {
                0..4 => {}
                4..8 => word[random.below(code.n())] ^= random.nonzero(),
                8 => (0..2).for_each(|_| word[random.below(code.n())] ^= random.nonzero()),
                _ => word = random.bytes(code.n()),
            }
            put(&mut damaged, column, &word);
            put(&mut syndromes, column, &code.syndromes(&word).unwrap());
            outcomes.push(code.decode(&mut word, Decoder { mode, ..Decoder::default() }).unwrap());
            put(&mut corrected, column, &word);
        }
        Expected { sound, damaged, corrected, syndromes, outcomes }
    }

    fn report(&self, length: usize) -> Report {
        let mut report = Report::default();
        for (column, outcome) in self.outcomes[..length].iter().enumerate() {
            match outcome {
                Outcome::Clean => report.clean += 1,
                Outcome::Corrected(error) => {
                    report.corrected += 1;
                    report.corrected_at[error.position] += 1;
                }
                Outcome::CorrectedTwo(errors) => {
                    report.corrected += 1;
                    errors.iter().for_each(|error| report.corrected_at[error.position] += 1);
                }
                Outcome::Detected => {
                    report.detected += 1;
                    report.first_detected = report.first_detected.or(Some(column));
                }
                Outcome::CorrectedOutside => panic!("the location check is on"),
            }
        }
        report
    }

    fn first_dirty(&self, length: usize) -> Check {
        let dirty = (0..length).find(|&column| self.syndromes[0][column] | self.syndromes[1][column] != 0);
        dirty.map_or(Check::Clean, |first_column| Check::Dirty { first_column })
    }
}

/// Every operation on the first `length` columns, symbol i lying `offset(i)` bytes off a boundary.
fn try_all(batch: Batch, mode: Mode, expected: &Expected, length: usize, offset: impl Fn(usize) -> usize + Copy) {
    let code = batch.code();
    let what = format!("{code} {}", batch.path());
    let k = code.k();

    let data = Guarded::of(&expected.sound[..k], length, offset);
    let garbage = vec![vec![0x77; LENGTH_MAX]; code.parity()];
    let mut parity = Guarded::of(&garbage, length, |index| offset(index + k));
    batch.encode(&data.slices(), &mut parity.slices_mut()).unwrap();
    parity.assert_equal(&expected.sound[k..], &format!("{what}: encode"));
    data.assert_equal(&expected.sound[..k], &format!("{what}: data of encode"));

    let mut symbols = Guarded::of(&expected.damaged, length, offset);
    assert_eq!(batch.check(&symbols.slices()).unwrap(), expected.first_dirty(length), "{what}: check, {length}");
    let mut syndromes = Guarded::of(&garbage, length, offset);
    batch.syndromes(&symbols.slices(), &mut syndromes.slices_mut()).unwrap();
    syndromes.assert_equal(&expected.syndromes, &format!("{what}: syndromes"));

    symbols.assert_equal(&expected.damaged, &format!("{what}: check and syndromes"));
    let report = batch.correct(&mut symbols.slices_mut(), mode).unwrap();
    assert_eq!(report, expected.report(length), "{what}: correct, {length}");
    symbols.assert_equal(&expected.corrected, &format!("{what}: correct"));
}

/// A path's own loops, for every length; the alignment of each symbol changes with the length.
fn every_length(path: Path) {
    for code in Code::ALL {
        let batch = Batch::with_path(code, path).unwrap();
        let expected = Expected::new(code, Mode::CorrectOne);
        for length in (1..=LENGTH_MAX).step_by(LENGTH_STEP) {
            try_all(batch, Mode::CorrectOne, &expected, length, |index| length * 29 + index * 13);
        }
    }
}

#[test]
fn every_path_equals_the_scalar_reference_on_every_length() {
    std::thread::scope(|scope| {
        for path in paths() {
            scope.spawn(move || every_length(path));
        }
    });
}

#[test]
fn every_path_equals_the_scalar_reference_at_every_alignment() {
    for code in Code::ALL {
        let expected = Expected::new(code, Mode::CorrectOne);
        for path in paths() {
            let batch = Batch::with_path(code, path).unwrap();
            for alignment in 0..64 {
                for length in [1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 320, 511, 600] {
                    try_all(batch, Mode::CorrectOne, &expected, length, |_| alignment);
                }
            }
        }
    }
}

#[test]
fn detection_alone_and_two_errors_equal_the_scalar_reference_too() {
    for code in Code::ALL {
        for mode in [Mode::Detect, Mode::CorrectTwo] {
            if 2 * mode.errors() >= code.distance() {
                continue;
            }
            let expected = Expected::new(code, mode);
            for path in paths() {
                let batch = Batch::with_path(code, path).unwrap();
                for length in (1..200).chain([1000, 1023, 1024, 1025, 2048, 2500, 4095, 4096]) {
                    try_all(batch, mode, &expected, length, |index| index + length);
                }
            }
        }
    }
}

#[test]
fn one_wrong_symbol_in_every_codeword_is_corrected_wherever_it_is() {
    for code in Code::ALL {
        let sound = codewords(code, 255 * code.n(), &mut Random::new(22));
        let mut damaged = sound.clone();
        for column in 0..255 * code.n() {
            damaged[column / 255][column] ^= (column % 255 + 1) as u8;
        }
        for path in paths() {
            let mut symbols = damaged.clone();
            let report = Batch::with_path(code, path).unwrap().correct(&mut symbols, Mode::CorrectOne).unwrap();
            assert!(symbols == sound, "{code} {path}");
            assert!(report.corrected_at[..code.n()].iter().all(|&count| count == 255));
        }
    }
}

#[test]
fn a_single_dirty_column_is_named_wherever_it_is() {
    let length = 333;
    for code in Code::ALL {
        let mut symbols = codewords(code, length, &mut Random::new(23));
        for path in paths() {
            let batch = Batch::with_path(code, path).unwrap();
            for column in 0..length {
                let sound = get(&symbols, column);
                symbols[2][column] ^= 0x55;
                symbols[9][column] ^= 0x66;
                assert_eq!(batch.check(&symbols), Ok(Check::Dirty { first_column: column }), "{code} {path}");
                let report = batch.correct(&mut symbols, Mode::Detect).unwrap();
                assert_eq!((report.detected, report.first_detected), (1, Some(column)), "{code} {path}");
                put(&mut symbols, column, &sound);
            }
        }
    }
}

#[test]
fn the_best_path_is_available_and_used() {
    assert!(Path::best().is_available());
    assert_eq!(Batch::new(Code::Rs19_16).path(), Path::best());
    for path in Path::ALL {
        assert_eq!(Batch::with_path(Code::Rs18_16, path).is_ok(), path.is_available(), "{path}");
    }
    assert!(Path::Portable.is_available());
}

/// The scalar reference of a shortened code is the whole one, over zeros.
#[test]
fn one_row_of_a_shortened_code_equals_the_scalar_reference() {
    for code in [Code::Rs18_16, Code::Rs19_16] {
        for count in 1..=code.k() {
            let mut random = Random::new(24 + count as u64);
            let data: Vec<Vec<u8>> = (0..count).map(|_| random.bytes(600)).collect();
            let mut expected = vec![vec![0; 600]; code.parity()];
            for column in 0..600 {
                let mut word = get(&data, column);
                word.resize(code.n(), 0);
                code.encode(&mut word).unwrap();
                put(&mut expected, column, &word[code.k()..]);
            }
            for path in paths() {
                let batch = Batch::with_path(code, path).unwrap();
                for (row, expected) in expected.iter().enumerate() {
                    for length in [1, 15, 16, 63, 64, 65, 127, 128, 129, 257, 600] {
                        let data = Guarded::of(&data, length, |index| index * 13 + length);
                        let mut parity = Guarded::of(&[vec![0x77; 600]], length, |index| index * 29 + row);
                        batch.encode_row(row, &data.slices(), parity.slices_mut()[0]).unwrap();
                        parity.assert_equal(
                            std::slice::from_ref(expected),
                            &format!("{code} {path}: row {row} of {count}"),
                        );
                    }
                }
            }
        }
    }
}
