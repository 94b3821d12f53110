//! What one turn of a polling loop costs with the in-loop library, beyond the counter read that it cannot do without.

use crate::child::stop_flag;
use crate::numbers::{Spread, duration, median};
use crate::run::Bench;
use crate::table::Row;
use anyhow::Context;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_inloop::{Loop, Options, ticks};

/// Turns of a round: short enough that most rounds see no interrupt, long against reading the clock.
const TURNS: u32 = 20_000;

/// The limit, nanoseconds.
const LIMIT_NS: f64 = 2.0;

pub fn run(bench: &Bench) -> anyhow::Result<Row> {
    let rounds = if bench.quick { 200 } else { 2_000 };
    bench.say(&format!("inloop: {rounds} rounds of {TURNS} turns each, in turns"));
    // The rings lie in memory that no disk is behind.
    let directory = Path::new("/dev/shm").join(format!("surefoot-bench-{}", std::process::id()));
    std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
    let measured = bench.on(bench.cpu, || measure(&directory, rounds));
    std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let pairs = measured?;
    let beyond: Vec<f64> = pairs.iter().map(|(turn, bare)| turn - bare).collect();
    let shares: Vec<f64> = beyond.iter().map(|ns| ns / LIMIT_NS).collect();
    let middle = |side: fn(&(f64, f64)) -> f64| {
        median(&pairs.iter().map(side).collect::<Vec<_>>()).map_or(String::new(), duration)
    };
    Ok(Row::new("inloop", "one turn beyond the counter read")
        .ours(format!("{} ({} a turn)", median(&beyond).map_or(String::new(), duration), middle(|pair| pair.0)))
        .against(format!("the read alone: {}", middle(|pair| pair.1)))
        .ratio(Spread::of(&shares))
        .at_most(1.0, "<= 2 ns"))
}

/// Nanoseconds per turn and per counter read, in turns.
fn measure(directory: &Path, rounds: usize) -> anyhow::Result<Vec<(f64, f64)>> {
    let options = Options { directory: directory.to_owned(), ..Options::new(Duration::from_millis(1)) };
    let mut gaps = Loop::open_with("bench", &options)?;
    let mut pairs = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        if stop_flag()?.load(Ordering::Relaxed) {
            anyhow::bail!("ended by a signal");
        }
        let bare = repeat(ticks);
        let turn = repeat(|| black_box(&mut gaps).turn());
        pairs.push((turn, bare));
    }
    Ok(pairs)
}

/// Nanoseconds per call; the result of each counts as used.
#[inline(always)]
fn repeat<T>(mut action: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..TURNS {
        black_box(action());
    }
    start.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
