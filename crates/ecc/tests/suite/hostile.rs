//! What a caller can get wrong, and what damage can look like: an error with its limit, or a count; never a panic.

use super::{Random, codewords, paths};
use proptest::prelude::*;
use surefoot_ecc::{Batch, Code, Decoder, Error, Mode, Outcome, Path};

fn empty(count: usize) -> Vec<Vec<u8>> {
    vec![Vec::new(); count]
}

fn filled(count: usize, length: usize) -> Vec<Vec<u8>> {
    vec![vec![0; length]; count]
}

#[test]
fn wrong_counts_are_refused() {
    let batch = Batch::new(Code::Rs19_16);
    let refused = batch.encode(&filled(15, 8), &mut filled(3, 8)).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) takes 16 data slices, but 15 were given");
    let refused = batch.encode(&filled(16, 8), &mut filled(4, 8)).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) takes 3 parity slices, but 4 were given");
    let refused = batch.check::<Vec<u8>>(&[]).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) takes 19 slices, but 0 were given");
    let refused = batch.syndromes(&filled(19, 8), &mut filled(2, 8)).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) takes 3 syndrome slices, but 2 were given");
    let refused = batch.correct(&mut filled(1000, 8), Mode::CorrectOne).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) takes 19 slices, but 1000 were given");
    let refused = Code::Rs36_32.encode(&mut [0; 35]).unwrap_err();
    assert_eq!(refused.to_string(), "RS(36,32) takes 36 symbols, but 35 were given");
    assert!(Code::Rs36_32.syndromes(&[]).is_err());
}

#[test]
fn rows_that_cannot_be_had_by_themselves_are_refused() {
    let batch = Batch::new(Code::Rs19_16);
    let mut parity = [0; 8];
    let refused = batch.encode_row(3, &filled(16, 8), &mut parity).unwrap_err();
    assert_eq!(refused.to_string(), "RS(19,16) has no separate parity row 3: encode all rows");
    assert!(Batch::new(Code::Rs36_32).encode_row(0, &filled(32, 8), &mut parity).is_err());
    assert_eq!(
        batch.encode_row(0, &filled(17, 8), &mut parity).unwrap_err().to_string(),
        "RS(19,16) takes 16 data slices, but 17 were given"
    );
    assert!(batch.encode_row::<Vec<u8>>(0, &[], &mut parity).is_err());
    assert_eq!(batch.encode_row(0, &filled(2, 0), &mut []), Err(Error::EmptyShards));
    assert!(batch.encode_row(0, &filled(2, 7), &mut parity).is_err());
}

#[test]
fn empty_and_unequal_slices_are_refused() {
    for path in paths() {
        let batch = Batch::with_path(Code::Rs18_16, path).unwrap();
        assert_eq!(batch.encode(&empty(16), &mut empty(2)), Err(Error::EmptyShards));
        assert_eq!(batch.check(&empty(18)), Err(Error::EmptyShards));
        assert_eq!(batch.correct(&mut empty(18), Mode::Detect), Err(Error::EmptyShards));
        let mut shards = filled(18, 100);
        shards[7].pop();
        let refused = batch.repair(&mut shards, &[7], Mode::Detect).unwrap_err();
        assert_eq!(refused, Error::UnequalShards { shard: 7, wanted: 100, given: 99 });
        assert!(refused.to_string().contains("shard 7 has 99 bytes, but shard 0 has 100"), "{refused}");
        let refused = batch.encode(&filled(16, 9), &mut filled(2, 8)).unwrap_err();
        assert_eq!(refused, Error::UnequalShards { shard: 16, wanted: 9, given: 8 });
        let mut parity = filled(2, 9);
        parity[1].clear();
        assert_eq!(
            batch.encode(&filled(16, 9), &mut parity),
            Err(Error::UnequalShards { shard: 17, wanted: 9, given: 0 })
        );
    }
    assert_eq!(Error::EmptyShards.to_string(), "the shards have 0 bytes: give at least 1 byte per shard");
}

#[test]
fn a_path_of_another_processor_is_refused() {
    for path in Path::ALL.into_iter().filter(|path| !path.is_available()) {
        let refused = Batch::with_path(Code::Rs18_16, path).unwrap_err();
        assert_eq!(refused, Error::PathUnavailable { path, needs: path.needs() });
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    let batch = Batch::new(Code::Rs19_16);
    let mut shards = codewords(Code::Rs19_16, 50, &mut Random::new(31));
    shards[3][4] ^= 1;
    let before = shards.clone();
    assert!(batch.repair(&mut shards, &[1, 2, 3, 4], Mode::Detect).is_err());
    assert!(batch.repair(&mut shards, &[1, 19], Mode::Detect).is_err());
    assert!(batch.repair(&mut shards, &[1, 2], Mode::CorrectOne).is_err());
    assert!(batch.correct(&mut shards, Mode::CorrectTwo).is_err());
    assert_eq!(shards, before);
}

/// A seeded and bounded fuzz run: calls of every kind with lengths, counts, erasures and modes that may or may not fit.
#[test]
fn calls_made_up_at_random_are_served_or_refused() {
    let mut random = Random::new(0xF022);
    let (mut served, mut refused) = (0, 0);
    for _ in 0..40_000 {
        let code = Code::ALL[random.below(3)];
        let available: Vec<Path> = paths().collect();
        let batch = Batch::with_path(code, available[random.below(available.len())]).unwrap();
        let count = if random.below(4) > 0 { code.n() } else { random.below(64) };
        let length = [0, 1, 31, 32, 33, 64, 100, 129, 300][random.below(9)];
        let mut shards: Vec<Vec<u8>> = (0..count).map(|_| random.bytes(length)).collect();
        if random.below(5) == 0 && count > 0 {
            let odd = random.below(count);
            let odd_length = [0, 1, length + 1][random.below(3)];
            shards[odd] = random.bytes(odd_length);
        }
        let erasures: Vec<usize> = (0..random.below(6)).map(|_| random.below(code.n() + 2)).collect();
        let mode = [Mode::Detect, Mode::CorrectOne, Mode::CorrectTwo][random.below(3)];
        let fits = count == code.n() && length > 0 && shards.iter().all(|shard| shard.len() == length);
        let result = batch.repair(&mut shards, &erasures, mode);
        let mut distinct = erasures.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let allowed = distinct.len() == erasures.len()
            && distinct.iter().all(|&position| position < code.n())
            && 2 * mode.errors() + erasures.len() < code.distance();
        assert_eq!(result.is_ok(), fits && allowed, "{code} {count} {length} {erasures:?} {mode:?}: {result:?}");
        if let Ok(report) = result {
            served += 1;
            assert_eq!(report.columns(), length);
            // What was not detected is a codeword now.
            let mut syndromes = filled(code.parity(), length);
            batch.syndromes(&shards, &mut syndromes).unwrap();
            let dirty = (0..length).filter(|&column| syndromes.iter().any(|row| row[column] != 0)).count();
            assert!(dirty <= report.detected);
        } else {
            refused += 1;
        }
    }
    assert!(served > 3_000 && refused > 3_000, "{served} served, {refused} refused");
}

/// An `AsMut` that gives another slice each time it is asked.
struct Fickle {
    slices: [Vec<u8>; 2],
    asked: usize,
}

impl AsMut<[u8]> for Fickle {
    fn as_mut(&mut self) -> &mut [u8] {
        self.asked += 1;
        &mut self.slices[self.asked % 2]
    }
}

#[test]
fn a_slice_that_changes_between_questions_is_asked_once() {
    let fickle = || Fickle { slices: [vec![], vec![0; 64]], asked: 0 };
    let mut shards: Vec<Fickle> = (0..19).map(|_| fickle()).collect();
    let report = Batch::new(Code::Rs19_16).correct(&mut shards, Mode::CorrectOne).unwrap();
    assert_eq!(report.clean, 64);
    assert!(shards.iter().all(|shard| shard.asked == 1));
}

proptest! {
    #[test]
    fn a_batch_equals_its_words(
        code in prop::sample::select(Code::ALL.to_vec()),
        path in prop::sample::select(paths().collect::<Vec<_>>()),
        seed in 1u64..,
        length in 1usize..300,
        error_share in 0usize..5,
    ) {
        let mut random = Random::new(seed);
        let mut symbols = codewords(code, length, &mut random);
        for column in 0..length {
            let mut word = super::get(&symbols, column);
            for _ in 0..random.below(error_share + 1) {
                word[random.below(code.n())] ^= random.nonzero();
            }
            super::put(&mut symbols, column, &word);
        }
        let before = symbols.clone();
        let report = Batch::with_path(code, path).unwrap().correct(&mut symbols, Mode::CorrectOne).unwrap();
        let (mut clean, mut corrected) = (0, 0);
        for column in 0..length {
            let mut word = super::get(&before, column);
            match code.decode(&mut word, Decoder::default()).unwrap() {
                Outcome::Clean => clean += 1,
                Outcome::Corrected(_) => corrected += 1,
                _ => {}
            }
            prop_assert_eq!(super::get(&symbols, column), word);
        }
        prop_assert_eq!((report.clean, report.corrected, report.columns()), (clean, corrected, length));
    }

    #[test]
    fn codes_are_linear(code in prop::sample::select(Code::ALL.to_vec()), seed in 1u64..) {
        let mut random = Random::new(seed);
        let mut words = [random.bytes(code.n()), random.bytes(code.n())];
        let mut sum: Vec<u8> = words[0].iter().zip(&words[1]).map(|(one, other)| one ^ other).collect();
        for word in words.iter_mut().chain([&mut sum]) {
            code.encode(word).unwrap();
        }
        let expected: Vec<u8> = words[0].iter().zip(&words[1]).map(|(one, other)| one ^ other).collect();
        prop_assert_eq!(sum, expected);
    }
}
