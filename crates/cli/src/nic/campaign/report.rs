//! `surefoot nic campaign report`: the lines of one or more files as tables.

use super::options::ReportOptions;
use super::text;
use anyhow::ensure;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_daemon::rooms::nic::campaign::result_file::Report;

pub fn print(report: &Report, out: &mut impl Write, json: bool) -> io::Result<()> {
    report.tables().try_for_each(|line| match json {
        true => output::line(out, &line),
        false => out.write_all(text::of(&line).as_bytes()),
    })
}

/// Whether the tolerant interface broke its promise.
pub fn outcome(report: &Report) -> Outcome {
    if report.has_broken_promise() { Outcome::Found } else { Outcome::Done }
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let report = Report::read(&options.files)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "nic campaign report")?;
    }
    print(&report, &mut out, options.json)?;
    out.flush()?;
    // A promise that was broken stays broken, whatever is in the parts that are missing.
    let (outcome, missing_count) = (outcome(&report), report.missing_count());
    ensure!(
        outcome == Outcome::Found || missing_count == 0,
        "{missing_count} faults are missing; the tables say which. Name the files of all shards, and start again the campaigns that were interrupted: they go on at their end"
    );
    Ok(outcome)
}
