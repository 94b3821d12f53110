//! Injections per second on one core: `cargo bench -p surefoot-nic --bench campaign`. Prints a line per experiment and build: the
//! median of five campaigns over the same faults, with the slowest and the quickest.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::time::Instant;
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::firmware::Build;

fn main() {
    for build in [Build::Detecting, Build::Tolerant] {
        for preset in [Preset::SendChunk, Preset::Code] {
            let experiment = Experiment { build, ..Experiment::preset(preset) };
            let golden = Golden::run(&experiment, 1).unwrap();
            let sample = preset.sample();
            let faults = experiment.faults(golden.firmware(), golden.window(), sample, 1).unwrap();
            let mut lab = Lab::new(golden);
            let mut rates: Vec<f64> = (0..5)
                .map(|_| {
                    let begun = Instant::now();
                    for fault in &faults {
                        std::hint::black_box(lab.record(fault).unwrap());
                    }
                    faults.len() as f64 / begun.elapsed().as_secs_f64()
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            let runs = 5 * faults.len() as u64;
            println!(
                "{} {}: {:.0} injections/s (slowest {:.0}, quickest {:.0}); {} faults, {:.0} % pruned, {:.0} % ended early",
                preset.name(),
                build.name(),
                rates[2],
                rates[0],
                rates[4],
                faults.len(),
                100.0 * lab.pruned_count as f64 / runs as f64,
                100.0 * lab.early_count as f64 / runs as f64
            );
        }
    }
}
