//! Injections per second on one core: `cargo bench -p surefoot-nic --bench campaign`. Prints a line per experiment and build: the
//! median of five campaigns over the same faults, with the slowest and the quickest; by the clock, and per second of processor
//! time, which other work on the machine disturbs less.
//!
//! Words choose: `-- send-chunk detecting 1` is one campaign of one of them.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::time::Instant;
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::firmware::Build;

/// Processor time of this thread.
fn processor_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is a local that the call only writes to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn spread(mut rates: Vec<f64>) -> String {
    rates.sort_by(f64::total_cmp);
    format!("{:.0} (slowest {:.0}, quickest {:.0})", rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(5);
    let is_wanted = |names: &[&str], name: &str| {
        let mut named = words.iter().filter(|word| names.contains(&word.as_str())).peekable();
        named.peek().is_none() || named.any(|word| word == name)
    };
    for build in [Build::Detecting, Build::Tolerant] {
        for preset in [Preset::SendChunk, Preset::Code] {
            if !is_wanted(&["detecting", "tolerant"], build.name())
                || !is_wanted(&["send-chunk", "code"], preset.name())
            {
                continue;
            }
            let experiment = Experiment { build, ..Experiment::preset(preset) };
            let golden = Golden::run(&experiment, 1).unwrap();
            let sample = preset.sample();
            let faults = experiment.faults(golden.firmware(), golden.window(), sample, 1).unwrap();
            let mut lab = Lab::new(golden);
            let (mut by_clock, mut by_processor) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let (begun, processor_begun_s) = (Instant::now(), processor_s());
                for fault in &faults {
                    std::hint::black_box(lab.record(fault).unwrap());
                }
                by_clock.push(faults.len() as f64 / begun.elapsed().as_secs_f64());
                by_processor.push(faults.len() as f64 / (processor_s() - processor_begun_s));
            }
            let runs = (rounds * faults.len()) as f64;
            println!(
                "{} {}: {} injections/s by the clock, {} of processor time; {} faults, {:.0} % pruned, {:.0} % ended early",
                preset.name(),
                build.name(),
                spread(by_clock),
                spread(by_processor),
                faults.len(),
                100.0 * lab.pruned_count as f64 / runs,
                100.0 * lab.early_count as f64 / runs
            );
        }
    }
}
