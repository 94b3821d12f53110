//! What this machine's tiers take, in seconds: memory beside plain copies and files, the disk beside plain writes.

use super::directories::OwnDirectory;
use super::options::BenchOptions;
use anyhow::Context;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use surefoot_checkpoint::measure::{Spread, tiers};
use surefoot_checkpoint::medium::{Kind, Medium};
use surefoot_console::exit::Outcome;
use surefoot_console::output::line;
use surefoot_console::table::Table;
use surefoot_console::words::size;

/// Rounds without --rounds.
const ROUNDS: u32 = 9;

/// Bytes without --size.
const BYTES: f64 = 256e6;

/// The largest checkpoint that is measured here.
const BYTES_MAX: f64 = 64e9;

#[derive(Serialize)]
#[serde(tag = "type", rename = "tier")]
pub struct TierLine<'a> {
    directory: &'a Path,
    /// How it was measured: as `memory`, or as `durable` with every write waited for.
    tier: &'static str,
    /// What the directory lies on, such as `ext4 on sda1`.
    medium: String,
    measure: &'static str,
    size_bytes: usize,
    median_s: f64,
    lower_quartile_s: f64,
    upper_quartile_s: f64,
    bytes_per_s: f64,
    against: Option<&'static str>,
    ratio: Option<f64>,
    round_count: usize,
}

pub fn run(options: &BenchOptions) -> anyhow::Result<Outcome> {
    let bytes = options.size.unwrap_or(BYTES);
    anyhow::ensure!(bytes <= BYTES_MAX, "--size: at most {} can be measured", size(BYTES_MAX));
    let rounds = options.rounds.unwrap_or(ROUNDS) as usize;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    for directory in &options.directories {
        let rows = measure(directory, bytes as usize, rounds)?;
        if options.json {
            rows.iter().try_for_each(|row| line(&mut out, row))?;
        } else {
            out.write_all(text(directory, bytes, &rows).as_bytes())?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

fn measure(directory: &Path, bytes: usize, rounds: usize) -> anyhow::Result<Vec<TierLine<'_>>> {
    let own = OwnDirectory::below("DIR", directory)?;
    let is_shown = io::stderr().is_terminal();
    let mut step = |round: usize| {
        if is_shown {
            let _ =
                write!(io::stderr(), "\r{}: round {round} of {rounds}   ", surefoot_console::people::path(directory));
        }
    };
    let medium = Medium::of(own.path()).with_context(|| directory.display().to_string())?;
    let tier = if medium.kind == Kind::Memory { "memory" } else { "durable" };
    let rows = if tier == "memory" {
        let found = tiers::memory(own.path(), bytes, rounds, &mut step)?;
        vec![
            row("copy", found.copy_s, None),
            row("fresh_file", found.fresh_file_s, None),
            row("checkpoint", found.save_s, Some(("copy", found.copy_s))),
            row("read", found.read_s, None),
            row("restart", found.restart_s, Some(("read", found.read_s))),
        ]
    } else {
        let found = tiers::durable(own.path(), bytes, rounds, &mut step)?;
        vec![
            row("plain_write_and_fsync", found.plain_s, None),
            row("checkpoint", found.save_s, Some(("plain_write_and_fsync", found.plain_s))),
            row("restart", found.restart_s, None),
        ]
    };
    if is_shown {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
    let line = |row: Row| TierLine {
        directory,
        tier,
        medium: medium.said.clone(),
        measure: row.measure,
        size_bytes: bytes,
        median_s: row.seconds.median,
        lower_quartile_s: row.seconds.lower,
        upper_quartile_s: row.seconds.upper,
        bytes_per_s: bytes as f64 / row.seconds.median,
        against: row.against.map(|(name, _)| name),
        ratio: row.against.map(|(_, other)| row.seconds.median / other.median),
        round_count: row.seconds.count,
    };
    Ok(rows.into_iter().map(line).collect())
}

/// What was measured, and what it stands beside.
struct Row {
    measure: &'static str,
    seconds: Spread,
    against: Option<(&'static str, Spread)>,
}

fn row(measure: &'static str, seconds: Spread, against: Option<(&'static str, Spread)>) -> Row {
    Row { measure, seconds, against }
}

fn text(directory: &Path, bytes: f64, rows: &[TierLine<'_>]) -> String {
    let tier = rows.first().map_or("", |row| row.tier);
    let medium = rows.first().map_or("", |row| &row.medium);
    let rounds = rows.first().map_or(0, |row| row.round_count);
    let mut table = Table::new(&["", "seconds", "quartiles", "speed", "against", "ratio"], &[0, 4]);
    for row in rows {
        table.row(vec![
            row.measure.replace('_', " "),
            format!("{:.4}", row.median_s),
            format!("{:.4} to {:.4}", row.lower_quartile_s, row.upper_quartile_s),
            format!("{}/s", size(row.bytes_per_s)),
            row.against.unwrap_or_default().replace('_', " "),
            row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    let mut text = format!(
        "{} ({tier}, on {medium}), {}, medians of {rounds} rounds\n{}",
        surefoot_console::people::path(directory),
        size(bytes),
        table.text()
    );
    if let Some(row) = rows.iter().find(|row| row.measure == "checkpoint") {
        text += &format!("For plan: --{tier}-bytes-per-s {:.0}\n", row.bytes_per_s);
    }
    text + "\n"
}
