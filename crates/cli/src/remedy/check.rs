//! `surefoot remedy check run`: the periodic checks of this host, each once and now.

use crate::rooms::remedy::table;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::{output, people};
use surefoot_daemon::rooms::remedy::checks;
use surefoot_hostfs::{Root, clock};
use surefoot_model::{CheckState, HostCheck, one_line};
use surefoot_remedy::checks::{CheckFile, Runner};

#[derive(Subcommand)]
pub enum CheckCommand {
    /// Run the checks of this host once, and say what each found and cost; exit code 1 when one is a warning or critical.
    Run(RunOptions),
}

#[derive(Args)]
pub struct RunOptions {
    /// The file of checks, TOML; without it the built-in checks
    #[arg(long, value_name = "FILE")]
    checks: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "host_check")]
pub struct HostCheckLine<'a> {
    #[serde(flatten)]
    check: &'a HostCheck,
}

pub fn run(command: &CheckCommand) -> anyhow::Result<Outcome> {
    let CheckCommand::Run(options) = command;
    let file = options.checks.as_deref().map_or_else(|| Ok(CheckFile::default()), CheckFile::read)?;
    let results = Runner::new(checks(&file, &Root::host()), clock::realtime_ns()).once();
    let mut out = io::BufWriter::new(people::stdout());
    if options.json {
        output::stream(&mut out, "remedy check run")?;
        results.iter().try_for_each(|check| output::line(&mut out, &HostCheckLine { check }))?;
    } else {
        out.write_all(table(results.iter()).as_bytes())?;
        for check in results.iter().filter(|check| check.state != CheckState::Ok && !check.evidence.is_empty()) {
            writeln!(out, "\n{}:", check.name)?;
            check.evidence.iter().try_for_each(|line| writeln!(out, "  {}", one_line(line)))?;
        }
    }
    out.flush()?;
    let is_wrong = results.iter().any(|check| check.state >= CheckState::Warning);
    Ok(if is_wrong { Outcome::Found } else { Outcome::Done })
}
