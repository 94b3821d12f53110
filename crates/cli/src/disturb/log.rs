//! The options that say where an experiment is kept.

use clap::Args;
use std::path::PathBuf;
use surefoot_console::people;
use surefoot_experiment::log::{Log, Places};
use surefoot_hostfs::Root;

#[derive(Args, Clone, Default)]
pub struct LogOptions {
    /// Record the experiment in this new file, for `surefoot stall replay` and `surefoot watch --replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write a report as one page of HTML with tables and charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the journal, from which a watch learns of the experiment, in this directory [default: /run/surefoot/experiments as root,
    /// surefoot/experiments in XDG_RUNTIME_DIR otherwise]
    #[arg(long, value_name = "DIR")]
    pub journals: Option<PathBuf>,
}

impl LogOptions {
    /// Opens what was asked for.
    pub fn open(&self, root: &Root) -> anyhow::Result<Log> {
        let LogOptions { record, html, journals } = self.clone();
        Log::open(&Places { record, html, journals }, root, |text| people::tell!("{text}"))
    }
}
