//! `surefoot disturb work`: what ready-made workloads do that no kept tool measures. Other commands start it.

use crate::args::{CpuList, cpu_list};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::people;
use surefoot_disturb::workload::own::{Pace, Service, connect, deadline, pipe, process};

/// The requests of the deadline service, as its ready-made workload says.
const SERVICE: Service = Service { per_s: 500, deadline: Duration::from_millis(50), work: Duration::from_micros(50) };

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// TCP connections over the loopback device.
    Connect,
    /// Processes that end at once.
    Process,
    /// What goes through a pipe.
    Pipe,
    /// Requests with a deadline.
    Deadline,
}

#[derive(Args)]
pub struct WorkOptions {
    /// What is done
    work: Work,
    /// Run for N seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// The cores of the two sides
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cores: Option<CpuList>,
}

pub fn run(options: &WorkOptions) -> anyhow::Result<Outcome> {
    let is_possible = options.seconds.is_finite() && (0.001..=86_400.0).contains(&options.seconds);
    anyhow::ensure!(is_possible, "--seconds {}: 0.001 to 86400 are possible", options.seconds);
    let length = Duration::from_secs_f64(options.seconds);
    let cores = options.cores.as_ref().map(|list| list.0.as_slice()).unwrap_or_default();
    let sides = [cores.first().copied(), cores.last().copied()];
    let paced = |pace: Pace| json!({"count": pace.count, "per_s": pace.per_s, "p50_us": pace.p50_us, "p99_us": pace.p99_us, "max_us": pace.max_us});
    let told = match options.work {
        Work::Connect => paced(connect(length, sides)?),
        Work::Process => paced(process(length)?),
        Work::Pipe => json!({"mib_per_s": pipe(length, sides)?}),
        Work::Deadline => {
            let found = deadline(&SERVICE, length, sides)?;
            json!({
                "offered": found.offered,
                "on_time": found.on_time,
                "on_time_share": found.share(),
                "late_percent": 100.0 * (1.0 - found.share()),
                "p50_ms": found.p50_ms,
                "p99_ms": found.p99_ms,
            })
        }
    };
    writeln!(people::stdout(), "{told}")?;
    Ok(Outcome::Done)
}
