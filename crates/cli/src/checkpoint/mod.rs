//! `surefoot checkpoint`: looks at checkpoints of any job and at drives, ends jobs, protects files of other programs, plans and
//! simulates.

pub mod drain;
pub mod drive;
pub mod jobs;
pub mod list;
pub mod lost;
pub mod options;
pub mod plan;
mod progress;
pub mod protect;
pub mod remove;
pub mod restore;
pub mod settings;
pub mod simulate;
pub mod verify;

use options::CheckpointCommand;
use surefoot_console::exit::Outcome;

pub fn run(command: &CheckpointCommand) -> anyhow::Result<Outcome> {
    match command {
        CheckpointCommand::List(options) => list::run(options),
        CheckpointCommand::Verify(options) => verify::run(options, verify::Act::Verify),
        CheckpointCommand::Scrub(options) => verify::run(options, verify::Act::Scrub),
        CheckpointCommand::Restore(options) => restore::run(options),
        CheckpointCommand::Drain(options) => drain::run(options),
        CheckpointCommand::Remove(options) => remove::run(options),
        CheckpointCommand::Protect(options) => protect::protect(options),
        CheckpointCommand::Repair(options) => protect::repair(options),
        CheckpointCommand::Plan(options) => plan::run(options),
        CheckpointCommand::Simulate(options) => simulate::run(options),
        CheckpointCommand::Settings(options) => settings::run(options),
        CheckpointCommand::Drive(options) => drive::run(options),
    }
}
