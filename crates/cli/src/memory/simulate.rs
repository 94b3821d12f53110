//! `surefoot memory simulate`.

pub mod chart;
pub mod errors;
pub mod figure;
pub mod lines;
pub mod options;
mod shard_file;
pub mod text;
pub mod work;

pub use options::SimulateOptions;
use shard_file::Run;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_memory::simulate::{Fleet, FleetOutcome, run as simulate};
use surefoot_store::shards::ShardChoice;
use work::Load;

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
    let load = Load::of(&errors, &options.errors, &options.path, &mut path)?;
    let given = &options.fleet;
    let pattern = match &load {
        Load::Pattern(pattern) => *pattern,
        Load::Trace(_) => {
            let is_one = given.hosts == 1 && given.faulty_share == 1.0 && given.shard.is_none();
            anyhow::ensure!(is_one, "--errors: a trace is of one host; leave --hosts, --faulty-share and --shard out");
            surefoot_memory::simulate::Pattern::Steady { per_s: 0.0 }
        }
    };
    let (hosts, faulty_share, seed) = (given.hosts, given.faulty_share, options.errors.seed);
    let fleet = Fleet { hosts, faulty_share, pattern, seed };
    fleet.check(&path)?;
    let found = match &load {
        Load::Pattern(_) => work::run_fleet(&path, &fleet, given.shard.unwrap_or(ShardChoice::WHOLE)),
        Load::Trace(_) => FleetOutcome::of(&simulate(&path, load.arrivals(&path, seed))),
    };
    Ok((Run { errors: errors.text, path, fleet }, found, given.shard))
}
