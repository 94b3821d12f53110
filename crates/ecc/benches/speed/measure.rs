//! The measurements: what is compared with what, on which buffers.

use std::fmt;
use std::hint::black_box;
use surefoot_ecc::{Batch, Check, Code, Mode, Path};

/// What two contenders did in the same rounds.
pub struct Row {
    /// What is measured, on what, beside what.
    pub measure: String,
    /// Bytes of data per second, in GB: ours and the other's, median.
    pub ours_gb_per_s: f64,
    pub its_gb_per_s: f64,
    /// Ours through its, per round: lower quartile, median, upper quartile.
    pub ratio: [f64; 3],
    pub rounds: usize,
    /// What the median of the ratio, or of our speed, must reach.
    pub limit: Option<Limit>,
    /// Why it was not measured.
    pub not_run: Option<String>,
}

pub enum Limit {
    RatioAtLeast(f64),
    GbPerSAtLeast(f64),
}

impl Row {
    pub fn is_met(&self) -> Option<bool> {
        match self.limit.as_ref()? {
            _ if self.not_run.is_some() => None,
            Limit::RatioAtLeast(limit) => Some(self.ratio[1] >= *limit),
            Limit::GbPerSAtLeast(limit) => Some(self.ours_gb_per_s >= *limit),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.not_run {
            return write!(formatter, "{:46} not run: {why}", self.measure);
        }
        let [low, middle, high] = self.ratio;
        let ratio = format!("{middle:.2} ({low:.2} to {high:.2}; {})", self.rounds);
        write!(formatter, "{:46} {:>10.2} {:>10.2}  {ratio:24}", self.measure, self.ours_gb_per_s, self.its_gb_per_s)?;
        match &self.limit {
            None => Ok(()),
            Some(Limit::RatioAtLeast(limit)) => write!(formatter, " ratio >= {limit}: {}", self.verdict()),
            Some(Limit::GbPerSAtLeast(limit)) => write!(formatter, " ours >= {limit} GB/s: {}", self.verdict()),
        }
    }
}

impl Row {
    fn verdict(&self) -> &'static str {
        if self.is_met() == Some(true) { "met" } else { "missed" }
    }
}

/// Where the data lies.
#[derive(Clone, Copy)]
pub struct WorkingSet {
    name: &'static str,
    shard_bytes: usize,
    /// Times that a round goes over the data.
    pub repeats: usize,
}

/// 16 shards of 16 KiB: 256 KiB of data and 48 KiB of parity stay in a second-level cache.
const CACHE: WorkingSet = WorkingSet { name: "in cache", shard_bytes: 16 << 10, repeats: 200 };
/// 16 shards of 16 MiB: 256 MiB of data, more than any cache of one socket here.
pub const MEMORY: WorkingSet = WorkingSet { name: "from memory", shard_bytes: 16 << 20, repeats: 1 };

/// 19 shards, filled, the last three being parity.
pub struct Shards(pub Vec<Vec<u8>>);

impl Shards {
    pub fn new(shard_bytes: usize, count: usize) -> Shards {
        let mut random = surefoot_random::Random::new(1);
        let mut shard = || {
            let words = (0..shard_bytes.div_ceil(8)).flat_map(|_| random.word().to_le_bytes());
            words.take(shard_bytes).collect()
        };
        Shards((0..count).map(|_| shard()).collect())
    }
}

/// Everything, as a list of rows; `say` is told what is being measured.
pub fn all(quick: bool, say: &mut dyn FnMut(&str)) -> Vec<Row> {
    let mut rows = Vec::new();
    let rounds = if quick { 3 } else { 25 };
    for place in [CACHE, MEMORY] {
        let place = if quick && place.repeats == 1 { WorkingSet { shard_bytes: 1 << 20, ..place } } else { place };
        say(&format!("limits of the machine, {}", place.name));
        rows.extend(beside_the_machine(place, rounds));
        say(&format!("peers, {}", place.name));
        rows.extend(beside_peers(place, rounds));
        say(&format!("paths, {}", place.name));
        rows.extend(paths(place, rounds));
    }
    rows.extend(streams(quick, rounds, say));
    say("correction");
    rows.extend(correction(rounds));
    rows
}

/// Check and encode from memory, and what the hardware gives to who reads that many streams.
pub fn bound_by_memory(quick: bool, say: &mut dyn FnMut(&str)) -> Vec<Row> {
    let rounds = if quick { 3 } else { 25 };
    say("limits of the machine, from memory");
    let place = if quick { WorkingSet { shard_bytes: 1 << 20, ..MEMORY } } else { MEMORY };
    let mut rows = beside_the_machine(place, rounds);
    rows.extend(streams(quick, rounds, say));
    rows
}

fn streams(quick: bool, rounds: usize, say: &mut dyn FnMut(&str)) -> Vec<Row> {
    say("streams");
    crate::streams::rows(if quick { 1 << 20 } else { MEMORY.shard_bytes }, rounds)
}

/// Times both contenders in turns. `bytes` are the bytes of data that one run goes over.
pub fn compare(
    measure: String,
    bytes: usize,
    rounds: usize,
    repeats: usize,
    ours: &mut dyn FnMut(),
    its: &mut dyn FnMut(),
) -> Row {
    let mut seconds = [Vec::new(), Vec::new()];
    ours();
    its();
    for _ in 0..rounds {
        seconds[0].push(time(repeats, ours));
        seconds[1].push(time(repeats, its));
    }
    let ratios = seconds[0].iter().zip(&seconds[1]).map(|(ours, its)| its / ours).collect();
    let gb_per_s = |seconds: &Vec<f64>| (bytes * repeats) as f64 / quartiles(seconds.clone())[1] / 1e9;
    Row {
        measure,
        ours_gb_per_s: gb_per_s(&seconds[0]),
        its_gb_per_s: gb_per_s(&seconds[1]),
        ratio: quartiles(ratios),
        rounds,
        limit: None,
        not_run: None,
    }
}

fn time(repeats: usize, run: &mut dyn FnMut()) -> f64 {
    let start = thread_seconds();
    for _ in 0..repeats {
        run();
    }
    thread_seconds() - start
}

/// Processor time of this thread: on a busy machine it leaves out the turns of others, though not what they do to the
/// caches and to memory.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the time is ours; this clock is part of every Linux.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

/// Check beside a plain read of the same bytes, encode beside a plain copy of the data.
fn beside_the_machine(place: WorkingSet, rounds: usize) -> Vec<Row> {
    let WorkingSet { name, shard_bytes, repeats } = place;
    let mut shards = Shards::new(shard_bytes, 19).0;
    let (data, parity) = shards.split_at_mut(16);
    let batch = Batch::new(Code::Rs19_16);
    batch.encode(data, parity).expect("the shapes are right");
    let pair = Batch::new(Code::Rs18_16);
    let mut check = compare(
        format!("check RS(18,16) / plain read, {name}"),
        18 * shard_bytes,
        rounds,
        repeats,
        &mut || assert_eq!(pair.check(black_box(&shards[..18])), Ok(Check::Clean)),
        &mut || shards[..18].iter().for_each(|shard| _ = black_box(plain_read(black_box(shard)))),
    );
    let mut copies: Vec<Vec<u8>> = vec![vec![1; shard_bytes]; 16];
    let (data, parity) = shards.split_at_mut(16);
    let mut encode = compare(
        format!("encode RS(19,16) / plain copy, {name}"),
        16 * shard_bytes,
        rounds,
        repeats,
        &mut || batch.encode(black_box(&*data), black_box(parity)).expect("the shapes are right"),
        &mut || copies.iter_mut().zip(&*data).for_each(|(to, from)| black_box(to).copy_from_slice(black_box(from))),
    );
    if name == MEMORY.name {
        check.limit = Some(Limit::RatioAtLeast(0.9));
        encode.limit = Some(Limit::RatioAtLeast(0.75));
    }
    vec![check, encode]
}

/// Encode 16+3 beside each library, on the same buffers.
fn beside_peers(place: WorkingSet, rounds: usize) -> Vec<Row> {
    let WorkingSet { name, shard_bytes, repeats } = place;
    let mut shards = Shards::new(shard_bytes, 19).0;
    let batch = Batch::new(Code::Rs19_16);
    let mut rows = Vec::new();
    for mut peer in crate::peers::all(shard_bytes) {
        let measure = format!("encode 16+3 / {}, {name}", peer.name());
        if let Some(why) = peer.is_missing() {
            rows.push(missing(measure, why));
            continue;
        }
        let (data, parity) = shards.split_at_mut(16);
        let mut its_parity = vec![vec![1u8; shard_bytes]; 3];
        let mut row = compare(
            measure,
            16 * shard_bytes,
            rounds,
            repeats,
            &mut || batch.encode(black_box(&*data), black_box(parity)).expect("the shapes are right"),
            &mut || peer.encode(black_box(data), black_box(&mut its_parity)),
        );
        if peer.gives_the_same() {
            assert_eq!(parity, its_parity, "{} gives other parity", peer.name());
        }
        row.limit = Some(Limit::RatioAtLeast(1.0));
        rows.push(row);
    }
    rows
}

fn missing(measure: String, why: String) -> Row {
    Row { measure, ours_gb_per_s: 0.0, its_gb_per_s: 0.0, ratio: [0.0; 3], rounds: 0, limit: None, not_run: Some(why) }
}

/// What each path does, through the portable one.
fn paths(place: WorkingSet, rounds: usize) -> Vec<Row> {
    let WorkingSet { name, shard_bytes, repeats } = place;
    let rounds = rounds.min(9);
    let mut rows = Vec::new();
    for code in Code::ALL {
        let mut shards = Shards::new(shard_bytes, code.n()).0;
        for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
            let batch = Batch::with_path(code, path).expect("the path is available");
            let portable = Batch::with_path(code, Path::Portable).expect("the portable path is everywhere");
            let (data, parity) = shards.split_at_mut(code.k());
            let mut other = vec![vec![1u8; shard_bytes]; code.parity()];
            rows.push(compare(
                format!("encode {code}, {path} / portable, {name}"),
                code.k() * shard_bytes,
                rounds,
                repeats,
                &mut || batch.encode(black_box(&*data), black_box(parity)).expect("the shapes are right"),
                &mut || portable.encode(black_box(&*data), black_box(&mut other)).expect("the shapes are right"),
            ));
            rows.push(compare(
                format!("check {code}, {path} / portable, {name}"),
                code.n() * shard_bytes,
                rounds,
                repeats,
                &mut || assert_eq!(batch.check(black_box(&shards)), Ok(Check::Clean)),
                &mut || assert_eq!(portable.check(black_box(&shards)), Ok(Check::Clean)),
            ));
        }
    }
    rows
}

/// Correction of one wrong symbol in every codeword, at positions that change from column to column, and repair of
/// three lost shards, each with the copy that damages the shards again beside it.
fn correction(rounds: usize) -> Vec<Row> {
    let shard_bytes = CACHE.shard_bytes;
    let mut rows = Vec::new();
    for code in Code::ALL {
        let mut sound = Shards::new(shard_bytes, code.n()).0;
        let (data, parity) = sound.split_at_mut(code.k());
        Batch::new(code).encode(data, parity).expect("the shapes are right");
        let mut damaged = sound.clone();
        for column in 0..shard_bytes {
            damaged[column * 7 % code.n()][column] ^= (column % 255 + 1) as u8;
        }
        let mut work = damaged.clone();
        for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
            let batch = Batch::with_path(code, path).expect("the path is available");
            let bytes = code.k() * shard_bytes;
            let mut row = time_alone(
                format!("correct {code}, 1 error per codeword, {path}"),
                bytes,
                rounds,
                &mut work,
                &damaged,
                &mut |work| {
                    let report = batch.correct(work, Mode::CorrectOne).expect("the shapes are right");
                    assert_eq!((report.corrected, report.detected), (shard_bytes, 0));
                },
            );
            assert!(work == sound);
            if path == Path::best() {
                row.limit = Some(Limit::GbPerSAtLeast(1.0));
            }
            rows.push(row);
            let lost: Vec<usize> = (0..code.parity()).map(|index| index * 3).collect();
            rows.push(time_alone(
                format!("repair {code}, {} shards lost, {path}", lost.len()),
                bytes,
                rounds,
                &mut work,
                &sound,
                &mut |work| _ = batch.repair(work, &lost, Mode::Detect).expect("the shapes are right"),
            ));
        }
        rows.push(correct_one_by_one(code, rounds, &damaged));
    }
    rows
}

/// Times one contender; `its` is the copy that restores what it works on, which is not part of its time.
fn time_alone(
    measure: String,
    bytes: usize,
    rounds: usize,
    work: &mut [Vec<u8>],
    from: &[Vec<u8>],
    run: &mut dyn FnMut(&mut [Vec<u8>]),
) -> Row {
    const REPEATS: usize = 20;
    let (mut ours, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (mut ours_seconds, mut copy_seconds) = (0.0, 0.0);
        for _ in 0..REPEATS {
            let start = thread_seconds();
            work.iter_mut().zip(from).for_each(|(to, from)| to.copy_from_slice(from));
            let middle = thread_seconds();
            run(black_box(work));
            ours_seconds += thread_seconds() - middle;
            copy_seconds += middle - start;
        }
        ours.push(ours_seconds);
        copies.push(copy_seconds);
    }
    let ratio = quartiles(ours.iter().zip(&copies).map(|(ours, copy)| copy / ours).collect());
    let gb_per_s = |seconds: Vec<f64>| (bytes * REPEATS) as f64 / quartiles(seconds)[1] / 1e9;
    Row {
        measure: format!("{measure} / copy"),
        ours_gb_per_s: gb_per_s(ours),
        its_gb_per_s: gb_per_s(copies),
        ratio,
        rounds,
        limit: None,
        not_run: None,
    }
}

/// The same beside the `reed-solomon` crate, which corrects one codeword per call.
fn correct_one_by_one(code: Code, rounds: usize, damaged: &[Vec<u8>]) -> Row {
    let words = 4096;
    let decoder = reed_solomon::Decoder::new(code.parity());
    let encoder = reed_solomon::Encoder::new(code.parity());
    // Its code is another one, so that it gets codewords of its own, with the same damage.
    let its_words: Vec<Vec<u8>> = (0..words)
        .map(|column| {
            let data: Vec<u8> = damaged[..code.k()].iter().map(|shard| shard[column]).collect();
            let mut word = encoder.encode(&data).to_vec();
            word[column * 7 % code.n()] ^= (column % 255 + 1) as u8;
            word
        })
        .collect();
    let mut work: Vec<Vec<u8>> = damaged.iter().map(|shard| shard[..words].to_vec()).collect();
    let batch = Batch::new(code);
    let bytes = code.k() * words;
    let mut row = compare(
        format!("correct {code} / reed-solomon 0.2, in cache"),
        bytes,
        rounds,
        1,
        &mut || {
            work.iter_mut().zip(damaged).for_each(|(to, from)| to.copy_from_slice(&from[..words]));
            assert_eq!(batch.correct(&mut work, Mode::CorrectOne).map(|report| report.corrected), Ok(words));
        },
        &mut || {
            for word in &its_words {
                assert!(black_box(decoder.correct(black_box(word), None)).is_ok());
            }
        },
    );
    row.limit = Some(Limit::RatioAtLeast(5.0));
    row
}

/// The xor of all bytes, eight at a time in several chains: as fast as memory is read.
pub fn plain_read(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was found.
        return unsafe { read_with_avx512(bytes) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was found.
        return unsafe { read_with_avx2(bytes) };
    }
    xor_of_words(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn read_with_avx512(bytes: &[u8]) -> u64 {
    xor_of_words(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn read_with_avx2(bytes: &[u8]) -> u64 {
    xor_of_words(bytes)
}

#[inline(always)]
fn xor_of_words(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 64];
    let (chunks, rest) = bytes.as_chunks::<512>();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *sum ^= u64::from_ne_bytes(*word);
        }
    }
    sums.iter().fold(0, |all, sum| all ^ sum) ^ rest.iter().fold(0, |all, byte| all ^ u64::from(*byte))
}
