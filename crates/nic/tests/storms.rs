//! Nothing lost, nothing twice: seeded storms of failures, and an interface that is stopped after every instruction.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::selftest::SelfTestConfig;
use surefoot_nic::world::LinkFaults;
use surefoot_nic::world::storm::{self, StormConfig};
use surefoot_nic::world::traffic::{Kind, TrafficConfig};

fn config(seed: u64, is_slow: bool) -> StormConfig {
    let verifies = seed.is_multiple_of(2);
    // Directed messages that no library confirms are written over before a slow program has read them.
    let kind = if seed.is_multiple_of(3) && (verifies || !is_slow) { Kind::Directed } else { Kind::Normal };
    let faults = match seed % 4 {
        0 => LinkFaults::default(),
        1 => LinkFaults { lost: 600, ..LinkFaults::default() },
        2 => LinkFaults { doubled: 600, late: 600, ..LinkFaults::default() },
        _ => LinkFaults { lost: 300, doubled: 300, late: 300, damaged: 300 },
    };
    StormConfig {
        seed,
        failure_count: 20,
        apart_ns: [600_000, 2_000_000, 4_000_000][(seed % 3) as usize],
        daemon_dies_every: [0, 4, 3][(seed / 3 % 3) as usize],
        faults,
        traffic: TrafficConfig {
            message_count: 400,
            message_bytes: [12, 700, 4096, 6000, 9000][(seed % 5) as usize],
            window: 1 + (seed % 8) as u32,
            both_ways: !seed.is_multiple_of(7),
            kind,
            seed,
        },
        verifies,
        self_test: (seed % 5 == 3).then_some(SelfTestConfig {
            interval_ns: 3_000_000,
            limit_ns: 20_000_000,
            loss_every: 4,
            ..SelfTestConfig::default()
        }),
        is_slow,
    }
}

/// A storm that failed.
const LATE: u64 = 6_807;

#[test]
fn storms_lose_and_double_nothing() {
    storms(false);
}

/// The same beside programs that look at their ports after half a microsecond or 10 ms, in bursts, and now and then stand still for a second.
#[test]
fn storms_beside_slow_programs_lose_and_double_nothing() {
    storms(true);
}

fn storms(is_slow: bool) {
    // A second of a program that stands still takes as long as fifty storms of others.
    let usual = if is_slow { 5 } else { 30 };
    let storms: u64 = std::env::var("SUREFOOT_STORMS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let firmware = Arc::new(Firmware::built(Build::Tolerant));
    let (mut failures, mut recoveries) = (0, 0);
    let mut bad = Vec::new();
    // `SUREFOOT_STORM=N` repeats one.
    let only: Option<u64> = std::env::var("SUREFOOT_STORM").ok().and_then(|text| text.parse().ok());
    // In the last one, what was refused and arrived all the same was once written over by the message after it.
    let all = only.map_or(1..=storms, |seed| seed..=seed).chain((only.is_none() && storms < LATE).then_some(LATE));
    for seed in all {
        let result = storm::run(&firmware, &config(seed, is_slow)).unwrap();
        failures += result.failure_count;
        recoveries += result.recovery_count;
        // Only what was sent before the other port was open may have been refused.
        let is_refused = result.verdict.refused_count > 16;
        if !result.is_perfect() || is_refused {
            let verdict = format!("{:?}", result.verdict);
            let verdict: String = verdict.chars().take(600).collect();
            let counts = [u64::from(result.failure_count), result.reload_count, result.recovery_count];
            bad.push(format!(
                "seed {seed}: done {} at {} us, failures, reloads, recoveries {counts:?}, buffers {:?}, {verdict}",
                result.is_done,
                result.end_ns / 1000,
                result.has_all_buffers
            ));
        }
    }
    println!("{storms} storms, {failures} failures, {recoveries} recoveries, {} not perfect", bad.len());
    assert!(bad.is_empty(), "{:#?}", &bad[..bad.len().min(5)]);
    assert!(recoveries > 0);
}
