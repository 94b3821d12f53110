//! `surefoot memory`: every module and its errors, whether their accounting works, what reporting costs, and the interval.

pub mod bmc;
pub mod close;
pub mod cost;
pub mod doctor;
pub mod fault;
pub mod import;
pub mod owner;
pub mod page_offline;
mod reported;
pub mod simulate;
pub mod status;
pub mod tune;
pub mod watch;

use clap::Subcommand;
use surefoot_console::exit::Outcome;
use surefoot_model::FaultClosing;

#[derive(Subcommand)]
pub enum MemoryCommand {
    /// Show every module: errors, rates, the fault that they point to, and how exact the counts are.
    Status(status::StatusOptions),
    /// Follow memory errors as they are reported, module by module.
    Watch(watch::WatchOptions),
    /// Show what reports of memory errors cost in the last day, by cause, from the ledger of lost time.
    Cost(cost::CostOptions),
    /// Check whether the accounting of memory errors itself works.
    Doctor(doctor::DoctorOptions),
    /// Read errors that others recorded: rasdaemon, mcelog, kernel logs, event logs.
    Import(import::ImportOptions),
    /// Take the pages of a failing cell or row out of use, or those with many errors; shows them, and with --yes does it.
    PageOffline(page_offline::PageOfflineOptions),
    /// Show whose memory a page is, or was before the kernel lost it: process, mapping, file, and whether there is another copy.
    Owner(owner::OwnerOptions),
    /// Close the fault of a module that was repaired in place or reseated; shows what would be recorded, and with --yes does it.
    Repaired(close::CloseOptions),
    /// Close the fault of a module that was replaced by another; shows what would be recorded, and with --yes does it.
    Replaced(close::CloseOptions),
    /// Close the fault of a module that you judge harmless; shows what would be recorded, and with --yes does it.
    Cleared(close::CloseOptions),
    /// Simulate how errors are reported, and what that costs and loses.
    Simulate(simulate::SimulateOptions),
    /// Choose the polling interval that loses nothing at the least stall.
    Tune(tune::TuneOptions),
}

pub fn run(command: &MemoryCommand) -> anyhow::Result<Outcome> {
    match command {
        MemoryCommand::Status(options) => status::run(options),
        MemoryCommand::Watch(options) => watch::run(options),
        MemoryCommand::Cost(options) => cost::run(options),
        MemoryCommand::Doctor(options) => doctor::run(options),
        MemoryCommand::Import(options) => import::run(options),
        MemoryCommand::PageOffline(options) => page_offline::run(options),
        MemoryCommand::Owner(options) => owner::run(options),
        MemoryCommand::Repaired(options) => close::run(options, FaultClosing::Repaired),
        MemoryCommand::Replaced(options) => close::run(options, FaultClosing::Replaced),
        MemoryCommand::Cleared(options) => close::run(options, FaultClosing::Cleared),
        MemoryCommand::Simulate(options) => simulate::run(options),
        MemoryCommand::Tune(options) => tune::run(options),
    }
}
