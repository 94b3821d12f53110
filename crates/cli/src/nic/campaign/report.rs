//! `surefoot nic campaign report`: the lines of one or more files as tables.

use super::file::LINE_BYTES_MAX;
use super::lines::{FaultLine, TableLine};
use super::options::ReportOptions;
use super::text;
use crate::exit::Outcome;
use crate::output;
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use surefoot_nic::campaign::experiment::FAULTS_MAX;
use surefoot_nic::campaign::table::Table;

/// What the lines of campaigns come to, by experiment, build and seed.
#[derive(Default)]
pub struct Report {
    tables: BTreeMap<(String, String, u64), Table>,
}

impl Report {
    /// Adds a line.
    pub fn add(&mut self, line: &FaultLine) -> Result<(), String> {
        let (id, row) = line.row()?;
        self.tables.entry((id.experiment, id.stack.to_string(), id.seed)).or_default().add(&row);
        Ok(())
    }

    pub fn print(&self, out: &mut impl Write, json: bool) -> io::Result<()> {
        for ((experiment, build, seed), table) in &self.tables {
            let line = TableLine::of(experiment, build, *seed, table);
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
        let broken = |((_, build, _), table): (&(String, String, u64), &Table)| {
            build.starts_with("tolerant") && table.broken_count() > 0
        };
        if self.tables.iter().any(broken) { Outcome::Found } else { Outcome::Done }
    }
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let mut report = Report::default();
    // The same line twice is one fault; two lines that differ are not of one campaign.
    let mut seen: HashMap<String, u64> = HashMap::new();
    for path in &options.files {
        let at = || path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {}", at()))?;
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
                    "line {number} of {} says of the fault {} what another line does not: the files are of different versions of the experiment",
                    at(),
                    line.id
                ),
                None => report.add(&line).map_err(|why| anyhow::anyhow!("line {number} of {}: {why}", at()))?,
            }
            ensure!(seen.len() as u64 <= FAULTS_MAX, "more than {FAULTS_MAX} faults; report fewer files at once");
        }
    }
    let mut out = io::BufWriter::new(crate::people::stdout());
    ensure!(!seen.is_empty(), "the files have no fault in them; `surefoot nic campaign --output FILE` writes some");
    if options.json {
        output::stream(&mut out, "nic campaign report")?;
    }
    report.print(&mut out, options.json)?;
    out.flush()?;
    Ok(report.outcome())
}

/// Enough of a line to tell it from another one.
fn crc(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.trim_ascii_end());
    hasher.finish()
}
