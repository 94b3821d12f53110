//! `surefoot nic`: network interfaces.

pub mod campaign;
pub mod health;
pub mod inject;
pub mod page;
pub mod part;
pub mod run;

use clap::Subcommand;
use surefoot_console::exit::Outcome;

#[derive(Subcommand)]
pub enum NicCommand {
    /// Show how each network interface does, probe a neighbour, and recover one that hangs.
    Health(Box<health::HealthOptions>),
    /// Flip bits of an interface, one after the other, and show what each does to the traffic, who notices, and what
    /// recovery makes of it.
    Campaign(Box<campaign::options::CampaignOptions>),
    /// Send messages between two programmable interfaces that may hang on the way, and judge what arrived.
    Run(Box<run::RunOptions>),
    /// Replay one fault of a campaign, and show step by step what it does: the flip, the first difference, detection,
    /// recovery. Or make an interface of a run by the clock hang.
    Inject(Box<inject::InjectOptions>),
    /// Be a part of a run; for the process that starts it.
    #[command(hide = true)]
    Part(part::PartOptions),
}

pub fn run(command: &NicCommand) -> anyhow::Result<Outcome> {
    match command {
        NicCommand::Health(options) => health::run(options),
        NicCommand::Campaign(options) => campaign::run(options),
        NicCommand::Run(options) => run::run(options),
        NicCommand::Inject(options) => inject::run(options),
        NicCommand::Part(options) => part::run(options),
    }
}
