//! `surefoot memory doctor`.

use super::status::root;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::paragraph;
use surefoot_console::units::counted;
use surefoot_memory::doctor;
use surefoot_model::{Certainty, CheckResult, MemoryCheck, Severity};

#[derive(Args)]
pub struct DoctorOptions {
    /// A recorded tree with proc and sys instead of this host
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "check")]
pub struct CheckLine<'a> {
    #[serde(flatten)]
    check: &'a MemoryCheck,
}

pub fn run(options: &DoctorOptions) -> anyhow::Result<Outcome> {
    let checks = doctor::check(&root(options.host_root.as_ref())?)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory doctor")?;
        checks.iter().try_for_each(|check| output::line(&mut out, &CheckLine { check }))?;
    } else {
        out.write_all(text(&checks).as_bytes())?;
    }
    out.flush()?;
    let is_wrong = checks.iter().any(|check| check.severity >= Severity::Warning);
    Ok(if is_wrong { Outcome::Found } else { Outcome::Done })
}

const COLUMNS: usize = 110;
const INDENT: usize = 14;

fn text(checks: &[MemoryCheck]) -> String {
    let of = |result: CheckResult| checks.iter().filter(move |check| check.result == result);
    let [found, passed, not_checked] =
        [CheckResult::Found, CheckResult::Passed, CheckResult::NotChecked].map(|result| of(result).count());
    let mut text = format!(
        "Accounting of memory errors: {}: {found} found something, {passed} passed, {not_checked} not checked\n",
        counted(checks.len() as u64, "check", "checks")
    );
    for check in of(CheckResult::Found) {
        let sure = if check.certainty == Certainty::Probable { ", probable" } else { "" };
        text += &format!("\n{} {}{sure}\n", check.severity.as_str().to_uppercase(), check.rule);
        let parts = [("evidence", &check.evidence), ("consequence", &check.consequence), ("remedy", &check.remedy)];
        for (name, words) in parts.into_iter().filter(|(_, words)| !words.is_empty()) {
            text += &format!("  {name:<width$}", width = INDENT - 2);
            text += &paragraph(words, INDENT, INDENT, COLUMNS);
        }
    }
    text += &short("Not checked:", of(CheckResult::NotChecked));
    text += &short("Passed:", of(CheckResult::Passed));
    text
}

fn short<'a>(head: &str, checks: impl Iterator<Item = &'a MemoryCheck>) -> String {
    let lines: String = checks.map(|check| format!("  {}: {}\n", check.rule, check.evidence)).collect();
    if lines.is_empty() { lines } else { format!("\n{head}\n{lines}") }
}
