//! `surefoot remedy`: cases, from an alert to a repaired host.

mod agent;
mod ask;
mod cases;
pub mod check;
pub mod hosts;
pub mod lines;
mod place;
mod serve;
mod show;
pub mod simulate;
mod trail;
mod words;

use clap::Subcommand;
use surefoot_console::exit::Outcome;

#[derive(Subcommand)]
pub enum RemedyCommand {
    /// Take alerts and findings in, open cases and have their steps done, until Ctrl-C.
    Serve(Box<serve::ServeOptions>),
    /// Tell a controller what the watch of this host finds, and do what it orders where --orders allows it, until Ctrl-C.
    Agent(Box<agent::AgentOptions>),
    /// List cases: what is wrong with which host, and where its remedy stands.
    Cases(cases::CasesOptions),
    /// Show one case with its steps and everything that was done.
    Show(show::ShowOptions),
    /// Show the newest lines of the audit trail: who did what, when and why, also what is of no case.
    Trail(trail::TrailOptions),
    /// Approve the step that a case waits with; of a case that is with a person, that its host may be given back.
    Approve(ask::ApproveOptions),
    /// Begin nothing more of a case, or of all (without a number).
    Pause(ask::AskAllOptions),
    /// Go on with a paused case, or with all (without a number).
    Resume(ask::AskAllOptions),
    /// End a case; what it changed is taken back.
    Cancel(ask::AskOptions),
    /// Report that the part of a case was replaced, and by what (--reason); its repair count restarts.
    Replaced(ask::AskOptions),
    /// Tell that the part of a case that was replaced tested good.
    TestedGood(ask::AskOptions),
    /// Take a host name away from the machine that has it: a second one that reports by this name, or the next one, has it then.
    Release(ask::ReleaseOptions),
    /// Periodic checks of this host.
    Check {
        #[command(subcommand)]
        command: check::CheckCommand,
    },
    /// Try a policy out on a made-up or recorded fleet: availability, repairs, work of people.
    Simulate(simulate::SimulateOptions),
}

pub fn run(command: &RemedyCommand) -> anyhow::Result<Outcome> {
    use surefoot_remedy::decide::Request;
    match command {
        RemedyCommand::Serve(options) => serve::run(options),
        RemedyCommand::Agent(options) => agent::run(options),
        RemedyCommand::Cases(options) => cases::run(options),
        RemedyCommand::Show(options) => show::run(options),
        RemedyCommand::Trail(options) => trail::run(options),
        RemedyCommand::Approve(options) => ask::approve(options),
        RemedyCommand::Pause(options) => ask::all(options, Request::Pause),
        RemedyCommand::Resume(options) => ask::all(options, Request::Resume),
        RemedyCommand::Cancel(options) => ask::one(options, Request::Cancel),
        RemedyCommand::Replaced(options) => ask::one(options, Request::Replaced),
        RemedyCommand::TestedGood(options) => ask::one(options, Request::TestedGood),
        RemedyCommand::Release(options) => ask::release(options),
        RemedyCommand::Check { command } => check::run(command),
        RemedyCommand::Simulate(options) => simulate::run(options),
    }
}

/// The name of this host, as schedulers and name services have it.
fn node_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_ascii_lowercase()
}
