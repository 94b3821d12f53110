//! `loop`: what one turn of the probe's loop takes, against a loop that does nothing but read the counter.

use crate::child::stop_flag;
use crate::numbers::{Spread, duration};
use crate::run::Bench;
use crate::table::Row;
use std::sync::atomic::Ordering;
use surefoot_hostfs::clock::{TscClock, tsc};
use surefoot_stall::spin::{Jumps, spin_until};
use surefoot_sys::thread;

/// Length of a round, nanoseconds: short enough that most rounds see no other task, long against the 16,384 turns
/// between two looks of the probe's loop at its end.
const ROUND_NS: u64 = 4_000_000;

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (cpu, rounds) = (bench.cpu, if bench.quick { 100 } else { 1000 });
    bench.say(&format!("loop: {rounds} rounds of 4 ms each, in turns"));
    // On a thread of its own, so that the pinning ends with it.
    let measured = std::thread::spawn(move || measure(cpu, rounds)).join();
    let pairs = measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))??;
    let median = |side: fn(&(f64, f64)) -> f64| Spread::of(&pairs.iter().map(side).collect::<Vec<_>>());
    let ratios: Vec<f64> = pairs.iter().map(|(ours, bare)| ours / bare).collect();
    let row = Row::new("loop", "one turn of the probe's loop, against a bare counter loop")
        .ours(median(|pair| pair.0).map_or(String::new(), |ours| duration(ours.median)))
        .against(median(|pair| pair.1).map_or(String::new(), |bare| duration(bare.median)))
        .ratio(Spread::of(&ratios))
        .at_most(1.15, "<= 1.15");
    Ok(vec![row])
}

/// Nanoseconds per turn of both loops, in turns.
fn measure(cpu: surefoot_model::CpuId, rounds: usize) -> anyhow::Result<Vec<(f64, f64)>> {
    let clock = TscClock::calibrate().map_err(|why| anyhow::anyhow!("{}", why.why))?;
    thread::pin_to(cpu)?;
    let (span, threshold) = (clock.ticks(ROUND_NS), clock.ticks(1_000));
    let jumps = Jumps::default();
    let mut taken = Vec::new();
    let mut pairs = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        if stop_flag()?.load(Ordering::Relaxed) {
            anyhow::bail!("ended by a signal");
        }
        let ours = period(&clock, |end| spin_until(end, threshold, &jumps), span);
        jumps.take(&mut taken);
        taken.clear();
        let bare = period(&clock, bare_until, span);
        pairs.push((ours, bare));
    }
    Ok(pairs)
}

fn period(clock: &TscClock, spin: impl FnOnce(u64) -> u64, span: u64) -> f64 {
    let start = tsc();
    let turns = spin(start + span);
    clock.duration_ns(tsc() - start) as f64 / turns.max(1) as f64
}

/// The least that a loop on the counter can do; returns its turns.
#[inline(never)]
fn bare_until(end: u64) -> u64 {
    let mut turns = 0;
    while tsc() < end {
        turns += 1;
    }
    turns
}
