//! `surefoot memory simulate`.

pub mod chart;
pub mod errors;
pub mod figure;
pub mod lines;
pub mod options;
mod shard_file;
pub mod text;

use errors::{Errors, Kind, read_trace};
pub use options::SimulateOptions;
use options::{ErrorOptions, PathOptions};
use shard_file::Run;
use std::io::{self, IsTerminal, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_memory::simulate::{Fleet, FleetOutcome, Load, Path, run as simulate};
use surefoot_store::shards::ShardChoice;

/// Errors where none are named: the rate at which ICPE'20 calls a module faulty.
pub const STEADY: &str = "poisson:10/s";

pub fn run(options: &SimulateOptions) -> anyhow::Result<Outcome> {
    options.check()?;
    if let Some(number) = options.figure {
        return figure::run(options, number);
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    let (run, found) = match options.fleet.merge.as_slice() {
        [] => match simulated(options)? {
            (run, found, Some(shard)) => {
                shard_file::write(&mut out, &run, shard, &found)?;
                out.flush()?;
                return Ok(Outcome::Done);
            }
            (run, found, None) => (run, found),
        },
        files => shard_file::merge(files)?,
    };
    let result = lines::result(&run.path, &run.errors, run.fleet.hosts, &found);
    let costs = lines::costs_of(&run.path);
    if options.json {
        output::stream(&mut out, "memory simulate")?;
        costs.iter().try_for_each(|cost| output::line(&mut out, cost))?;
        output::line(&mut out, &result)?;
    } else {
        out.write_all(text::run(&run, &result, &costs).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn simulated(options: &SimulateOptions) -> anyhow::Result<(Run, FleetOutcome, Option<ShardChoice>)> {
    let mut path = options.path();
    let errors = options.errors.errors_or(STEADY);
    let load = load(&errors, &options.errors, &options.path, &mut path)?;
    let given = &options.fleet;
    let pattern = match &load {
        Load::Pattern(pattern) => *pattern,
        Load::Trace { .. } => {
            let is_one = given.hosts == 1 && given.faulty_share == 1.0 && given.shard.is_none();
            anyhow::ensure!(is_one, "--errors: a trace is of one host; leave --hosts, --faulty-share and --shard out");
            surefoot_memory::simulate::Pattern::Steady { per_s: 0.0 }
        }
    };
    let (hosts, faulty_share, seed) = (given.hosts, given.faulty_share, options.errors.seed);
    let fleet = Fleet { hosts, faulty_share, pattern, seed };
    fleet.check(&path)?;
    let found = match &load {
        Load::Pattern(_) => run_fleet(&path, &fleet, given.shard.unwrap_or(ShardChoice::WHOLE)),
        Load::Trace { .. } => FleetOutcome::of(&simulate(&path, load.arrivals(&path, seed))),
    };
    Ok((Run { errors: errors.text, path, fleet }, found, given.shard))
}

/// Reads the errors that are named, and completes the path by them and the options.
pub fn load(
    named: &Errors,
    errors: &ErrorOptions,
    path_options: &PathOptions,
    path: &mut Path,
) -> anyhow::Result<Load> {
    let mut load = match &named.kind {
        Kind::Pattern(pattern) => Load::Pattern(*pattern),
        Kind::Trace(file) => Load::Trace { name: file.display().to_string(), arrivals: read_trace(file)? },
    };
    let beyond = load.complete(path, errors.duration, path_options.banks)?;
    if let (Load::Trace { arrivals, .. }, 1..) = (&load, beyond) {
        let all = arrivals.len() + beyond;
        surefoot_console::tell!("surefoot: {beyond} of {all} lines of the trace are beyond --duration");
    }
    Ok(load)
}

/// Simulates a part of a fleet, with a count on the terminal.
fn run_fleet(path: &Path, fleet: &Fleet, shard: ShardChoice) -> FleetOutcome {
    let hosts = shard.range(fleet.hosts);
    let (total, is_shown) = (hosts.end - hosts.start, io::stderr().is_terminal());
    // A terminal that went away is no reason to stop.
    let show = |text: String| _ = is_shown.then(|| io::stderr().write_all(text.as_bytes()));
    let found = fleet.run_on_all_cores(path, hosts, &|done| show(format!("\r{done} of {total} hosts")));
    show(format!("\r{:40}\r", ""));
    found
}
