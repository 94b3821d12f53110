//! `surefoot nic campaign report`: the lines of one or more files as tables.

use super::file::LINE_BYTES_MAX;
use super::lines::{FaultLine, TableLine};
use super::options::ReportOptions;
use super::text;
use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_nic::campaign::experiment::FAULTS_MAX;
use surefoot_nic::campaign::sums::Sums;

/// The lines of campaigns, summed up.
#[derive(Default)]
pub struct Report(Sums);

impl Report {
    /// Adds a line.
    pub fn add(&mut self, line: &FaultLine) -> Result<(), String> {
        let (id, row) = line.row()?;
        self.0.add(id, line.place(), &row)
    }

    pub fn print(&self, out: &mut impl Write, json: bool) -> io::Result<()> {
        for (campaign, (table, whole)) in self.0.campaigns() {
            let line = TableLine::of(&campaign.experiment, &campaign.build, campaign.seed, table, whole);
            if json {
                output::line(out, &line)?;
            } else {
                out.write_all(text::of(&line).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether the tolerant interface broke its promise.
    pub fn outcome(&self) -> Outcome {
        if self.0.has_broken_promise() { Outcome::Found } else { Outcome::Done }
    }
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let mut report = Report::default();
    // The same line twice is one fault; two lines that differ are not of one campaign.
    let mut seen: HashMap<String, u64> = HashMap::new();
    for path in &options.files {
        let at = || path.display().to_string();
        let file = super::file::open_to_read(path).with_context(|| format!("cannot read {}", at()))?;
        let mut reader = BufReader::new(file);
        for number in 1.. {
            let mut bytes = Vec::new();
            let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            if read.with_context(|| format!("cannot read {}", at()))? == 0 {
                break;
            }
            let line: FaultLine = serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "line {number} of {} is not one that `surefoot nic campaign --output` wrote; if it was interrupted there, start it again first",
                    at()
                )
            })?;
            let said = crc(&bytes);
            match seen.insert(line.id.clone(), said) {
                Some(before) => ensure!(
                    before == said,
                    "line {number} of {} says of the fault {} what another line does not: the files are of another sample, or of different versions of the experiment",
                    at(),
                    line.id
                ),
                None => report.add(&line).map_err(|why| anyhow::anyhow!("line {number} of {}: {why}", at()))?,
            }
            ensure!(seen.len() as u64 <= FAULTS_MAX, "more than {FAULTS_MAX} faults; report fewer files at once");
        }
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    ensure!(!seen.is_empty(), "the files have no fault in them; `surefoot nic campaign --output FILE` writes some");
    if options.json {
        output::stream(&mut out, "nic campaign report")?;
    }
    report.print(&mut out, options.json)?;
    out.flush()?;
    // A promise that was broken stays broken, whatever is in the parts that are missing.
    let (outcome, missing_count) = (report.outcome(), report.0.missing_count());
    ensure!(
        outcome == Outcome::Found || missing_count == 0,
        "{missing_count} faults are missing; the tables say which. Name the files of all shards, and start again the campaigns that were interrupted: they go on at their end"
    );
    Ok(outcome)
}

/// Enough of a line to tell it from another one.
fn crc(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.trim_ascii_end());
    hasher.finish()
}
