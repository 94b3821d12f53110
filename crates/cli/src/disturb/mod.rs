//! `surefoot disturb`: what stalls do to a workload.

pub mod drift;
mod html;
pub mod length;
pub mod log;
pub mod page;
pub mod plan;
pub mod predict;
pub mod report;
pub mod run;
pub mod work;

use crate::exit::Outcome;
use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub enum DisturbCommand {
    /// Run a workload with and without a disturbance of this host, and tell what it does to the workload.
    #[command(after_help = run::HELP)]
    Run(Box<run::RunOptions>),
    /// Tell how long the stalls of a driver are from counting them alone, beside what they are known to be.
    #[command(after_help = length::HELP)]
    Length(Box<length::LengthOptions>),
    /// Tell whether stalls make the wall clock lose time, beside a reference that they do not touch.
    #[command(after_help = drift::HELP)]
    Drift(Box<drift::DriftOptions>),
    /// Tell what an experiment came to, from its lines, recording or journal; also as one page of HTML.
    Report(report::ReportOptions),
    /// List the ready-made workloads, and what each of them lacks here.
    Workloads(WorkloadsOptions),
    /// Do the work of a ready-made workload; other commands start it.
    #[command(hide = true)]
    Work(work::WorkOptions),
    /// Predict how many times as long a job on many nodes takes whose nodes stop now and then.
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
