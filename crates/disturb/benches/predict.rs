//! `cargo bench -p surefoot-disturb --bench predict`: events a second and core for each pattern, and the largest job.

use std::time::Instant;
use surefoot_disturb::predict::{Freeze, Group, Job, Network, Noise, Pattern, Phase, Setting, predict};

fn setting(pattern: Pattern, nodes: u64, iterations: u64) -> Setting {
    let freeze = Freeze { length_ns: 2_000_000, period_ns: 1_000_000_000, phase: Phase::Random };
    Setting {
        job: Job { pattern, nodes, ranks_per_node: 1, compute_ns: 1_000_000, bytes: 8, iterations },
        network: Network::default(),
        groups: vec![Group { noise: Noise::Freeze(freeze), nodes: None }],
        seed: 1,
    }
}

fn main() {
    println!("{:>10} {:>7} {:>16}", "pattern", "nodes", "M events/s, core");
    for pattern in Pattern::ALL {
        for nodes in [64, 4096, 65_536] {
            let setting = setting(pattern, nodes, (20_000_000 / nodes / 30).max(1));
            let mut rates: Vec<f64> = (0..5)
                .map(|draw| {
                    let began = Instant::now();
                    let found = predict(&setting, draw..draw + 1, 1).expect("it can be simulated");
                    found.event_count() as f64 / began.elapsed().as_secs_f64() / 1e6
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            println!("{:>10} {nodes:>7} {:>7.1} ({:.1} to {:.1})", pattern.name(), rates[2], rates[0], rates[4]);
        }
    }
    let largest = setting(Pattern::Allreduce, 65_536, 1_000);
    let began = Instant::now();
    let found = predict(&largest, 0..8, 2).expect("it can be simulated");
    let took = began.elapsed().as_secs_f64();
    println!(
        "allreduce, 65,536 nodes, 1,000 iterations, 8 draws on 2 threads: {took:.1} s, {} events, slowdown {:.2}",
        found.event_count(),
        found.summary().expect("8 draws").slowdown
    );
}
