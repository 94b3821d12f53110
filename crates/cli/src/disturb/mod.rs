//! `surefoot disturb`: what stalls do to a workload.

pub mod drift;
pub mod length;
pub mod log;
pub mod page;
pub mod plan;
pub mod predict;
pub mod report;
pub mod run;
pub mod work;

use clap::{Args, Subcommand};
use surefoot_console::exit::Outcome;

#[derive(Subcommand)]
pub enum DisturbCommand {
    /// Run a workload with and without a disturbance of this host, and compare.
    #[command(after_help = run::HELP)]
    Run(Box<run::RunOptions>),
    /// Measure the length of stalls by counting, and compare it with the known length.
    #[command(after_help = length::HELP)]
    Length(Box<length::LengthOptions>),
    /// Measure drift of the wall clock under stalls, against a reference clock that they do not affect.
    #[command(after_help = drift::HELP)]
    Drift(Box<drift::DriftOptions>),
    /// Show the result of an experiment from its lines, recording or journal, as text or HTML.
    Report(report::ReportOptions),
    /// List the ready-made workloads, and what each lacks on this host.
    Workloads(WorkloadsOptions),
    /// Do the work of a ready-made workload; other commands start it.
    #[command(hide = true)]
    Work(work::WorkOptions),
    /// Predict the slowdown of a job on many nodes whose nodes stall.
    Predict(Box<predict::PredictOptions>),
}

#[derive(Args)]
pub struct WorkloadsOptions {
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

pub fn run(command: &DisturbCommand) -> anyhow::Result<Outcome> {
    match command {
        DisturbCommand::Run(options) => run::run(options),
        DisturbCommand::Length(options) => length::run(options),
        DisturbCommand::Drift(options) => drift::run(options),
        DisturbCommand::Report(options) => report::run(options),
        DisturbCommand::Workloads(options) => plan::list(options),
        DisturbCommand::Work(options) => work::run(options),
        DisturbCommand::Predict(options) => predict::run(options),
    }
}
