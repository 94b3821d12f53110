//! How fast a hang is found and mended by the clock, between processes.
//!
//! `cargo bench -p surefoot-nic --bench hang`. Prints the median and the lowest and the highest. What fault tolerance costs while
//! nothing fails, `surefoot-bench nic` measures.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first thing that is wrong")]

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_nic::firmware::Build;
use surefoot_nic::live::directory::RunDirectory;
use surefoot_nic::live::part::{self, Program};
use surefoot_nic::live::run::{self, HangAt, LinkKind, RunConfig};

fn spread(name: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    println!("  {name:<36} {median:>10.2} {unit} ({:.2} to {:.2})", values[0], values[values.len() - 1]);
}

fn hangs(link: LinkKind) {
    let config = RunConfig {
        message_count: 20_000,
        message_bytes: 1_000,
        window: 4,
        hang_at: (1..=40).map(|number| HangAt { count: number * 480, node: number % 2 }).collect(),
        seed: 1,
        link,
        build: Build::Tolerant,
        spin_ns: 50_000,
        directory: RunDirectory::create(Path::new(&format!("/dev/shm/surefoot-nic-bench-{}", std::process::id())))
            .unwrap(),
        program: Program { path: "/proc/self/exe".into(), arguments: vec!["part".into()] },
        patience: Duration::from_secs(60),
        stop: &AtomicBool::new(false),
        progress: &|_, _| {},
    };
    match run::run(&config) {
        Ok(result) => {
            let us = |values: &[u64]| values.iter().map(|ns| *ns as f64 / 1e3).collect::<Vec<_>>();
            println!(
                "{link:?}: {} of {} delivered, {} lost, {} twice; {} failures, {} recoveries, {:?}",
                result.verdict.delivered_count,
                config.message_count,
                result.verdict.lost_count,
                result.verdict.duplicated_count,
                result.failure_count,
                result.recovery_count,
                result.detected_by
            );
            assert!(result.is_done && result.verdict.is_perfect(), "{:?}", result.verdict);
            spread("from the hang to its detection", "us", us(&result.detection_ns));
            spread("from there until the ports are back", "us", us(&result.recovery_ns));
        }
        Err(error) => println!("{link:?}: {error}"),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "part") {
        let program = Program { path: "/proc/self/exe".into(), arguments: vec!["part".into()] };
        if let Err(error) = part::run(&words[1..], &program) {
            eprintln!("{error}");
            std::process::exit(2);
        }
        return;
    }
    println!("load before: {}", std::fs::read_to_string("/proc/loadavg").unwrap().trim());
    hangs(LinkKind::Udp);
    hangs(LinkKind::Veth);
    println!("load after: {}", std::fs::read_to_string("/proc/loadavg").unwrap().trim());
}
