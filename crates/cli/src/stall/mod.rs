//! `surefoot stall`: lost time, and who took it.

pub mod audit;
pub mod lines;
pub mod probe;
pub mod record;
pub mod report;
pub mod threads;
pub mod who;

use crate::args::StallCommand;
use surefoot_console::exit::Outcome;

pub fn run(command: &StallCommand) -> anyhow::Result<Outcome> {
    match command {
        StallCommand::Probe(options) => probe::run(options),
        StallCommand::Who(options) => who::run(options),
        StallCommand::Audit(options) => audit::run(options),
        StallCommand::Report(options) => report::run(options),
        StallCommand::Record(options) => record::record(options),
        StallCommand::Replay(options) => record::replay(options),
    }
}
