//! `surefoot memory cost`: what reports of memory errors cost in a time that is past, by cause.

use crate::history::options::FILE_DEFAULT;
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration, parse_time, rfc3339};
use surefoot_hostfs::clock;
use surefoot_memory::cost::{Past, Spent};
use surefoot_memory::simulate::Work;
use surefoot_model::{CostBasis, ErrorReport, Room, Verdict, one_line};
use surefoot_store::history::{GAPS_MAX, GapFilter, View};

#[derive(Args)]
pub struct CostOptions {
    /// How far back to look, such as 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_time)]
    last: Duration,
    /// History that a watch keeps
    #[arg(long, value_name = "FILE", default_value = FILE_DEFAULT)]
    history: PathBuf,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// What one cause took.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "cost_spent")]
pub struct SpentLine<'a> {
    /// What was done for reports: `corrected_error_interrupt`, `logged_line`, `smi` or `poll`.
    what: &'a str,
    /// How often; null where that is not known.
    count: Option<u64>,
    /// Whether there were more, or may have been.
    is_at_least: bool,
    /// Time of cores; null where the count is not known.
    total_ns: Option<u64>,
    /// Whether the time was measured here.
    basis: CostBasis,
    /// Who measured it, or why it is not known.
    source: &'a str,
}

/// Errors of a module that were reported in this time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "cost_module")]
pub struct CostModuleLine<'a> {
    /// As it was reported; null for errors of no known module.
    module: Option<&'a str>,
    error_count: u64,
}

/// The sum; the last line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "memory_cost")]
pub struct SumLine {
    /// The time that was asked for, nanoseconds since 1970.
    from_realtime_ns: u64,
    to_realtime_ns: u64,
    /// How much of it the ledger of lost time watched.
    watched_ns: u64,
    report_count: u64,
    /// What is known, in sum, per day that was watched; null without a ledger.
    per_day_ns: Option<u64>,
    /// Rows of the history that could not be understood.
    unknown_count: u64,
}

pub fn run(options: &CostOptions) -> anyhow::Result<Outcome> {
    let to_realtime_ns = clock::realtime_ns();
    let last_ns = u64::try_from(options.last.as_nanos()).unwrap_or(u64::MAX);
    let from_realtime_ns = to_realtime_ns.saturating_sub(last_ns);
    let range = i64::try_from(from_realtime_ns)?..i64::try_from(to_realtime_ns)?;
    let view = View::open(&options.history).context("the history that a watch keeps is needed (--history)")?;
    let mut past = Past::default();
    let mut unknown_count = view.for_each_minute(range.clone(), |window| {
        past.window(&window.cores, window.end_ns.abs_diff(window.start_ns));
        ControlFlow::Continue(())
    })?;
    for verdict in [Verdict::Smi, Verdict::CorrectedErrorLogging] {
        let filter =
            GapFilter { range: Some(range.clone()), verdict: Some(verdict), limit: GAPS_MAX, ..GapFilter::default() };
        let gaps = view.gaps(&filter)?;
        gaps.rows.iter().for_each(|kept| past.gap(&kept.gap));
        // Where as many came as an answer holds there may be more.
        let is_full = gaps.rows.len() >= GAPS_MAX;
        past.gaps_left_out(gaps.left_out_count + u64::from(is_full));
        unknown_count += gaps.unknown_count;
    }
    let records = view.records(range, Some(Room::Memory))?;
    unknown_count += records.unknown_count;
    for record in records.rows {
        if let Ok(report) = serde_json::from_value::<ErrorReport>(record.body) {
            past.report(&report);
        }
    }
    let sum = SumLine {
        from_realtime_ns,
        to_realtime_ns,
        watched_ns: past.watched_ns(),
        report_count: past.report_count(),
        per_day_ns: past.per_day_ns(),
        unknown_count,
    };
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    match options.json {
        true => lines(&mut out, &past, &sum)?,
        false => out.write_all(text(&past, &sum, last_ns).as_bytes())?,
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn lines(out: &mut impl Write, past: &Past, sum: &SumLine) -> io::Result<()> {
    output::stream(out, "memory cost")?;
    for Spent { work, count, is_at_least, total_ns, basis, source } in past.spent() {
        output::line(out, &SpentLine { what: work.name(), count, is_at_least, total_ns, basis, source })?;
    }
    for (module, &error_count) in past.modules() {
        let module = Some(module.as_str()).filter(|name| !name.is_empty());
        output::line(out, &CostModuleLine { module, error_count })?;
    }
    output::line(out, sum)
}

fn text(past: &Past, sum: &SumLine, last_ns: u64) -> String {
    let mut text = format!(
        "{} to {}: {}; lost time was watched for {} of {}\n\n",
        rfc3339(sum.from_realtime_ns),
        rfc3339(sum.to_realtime_ns),
        counted(sum.report_count, "report of errors", "reports of errors"),
        duration(sum.watched_ns),
        duration(last_ns)
    );
    let mut table = Table::new(&["cause", "times", "time of cores", "from"], &[0, 3]);
    for spent in past.spent() {
        let cause = match spent.work {
            Work::Interrupt => "corrected-error interrupts",
            Work::Line => "lines on the console",
            Work::Smi => "SMIs",
            _ => "polls",
        };
        let at_least = if spent.is_at_least && spent.count != Some(0) { "≥" } else { "" };
        let or_unknown = |text: Option<String>| text.map_or("unknown".to_owned(), |text| format!("{at_least}{text}"));
        table.row(vec![
            cause.to_owned(),
            or_unknown(spent.count.map(|count| count.to_string())),
            or_unknown(spent.total_ns.map(duration)),
            spent.source.to_owned(),
        ]);
    }
    text += &table.text();
    text += "\n";
    if !past.modules().is_empty() {
        let mut table = Table::new(&["module", "errors reported"], &[0]);
        for (module, count) in past.modules() {
            let name = if module.is_empty() { "not known".to_owned() } else { one_line(module) };
            table.row(vec![name, count.to_string()]);
        }
        text += &table.text();
        text += "\n";
    }
    text += &match sum.per_day_ns {
        Some(per_day_ns) => format!("The known part costs {} of core time per day.\n", duration(per_day_ns)),
        None => "The ledger of lost time did not watch, so the cost of a day is not known: `surefoot watch` keeps a history of it.\n"
            .to_owned(),
    };
    if sum.unknown_count > 0 {
        text += &format!("{} of the history not understood.\n", counted(sum.unknown_count, "row", "rows"));
    }
    text
}
