//! What `--shard i/n` writes and `--merge` reads: JSON lines, a header with everything that the run depends on, then the
//! counts of each cell.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::str::{FromStr, Lines};
use surefoot_console::output;
use surefoot_ecc::coverage::monte_carlo::Outcomes;
use surefoot_ecc::coverage::{Key, Selection};
use surefoot_store::shards::{ShardChoice, ShardFiles};

const FILES: ShardFiles = ShardFiles {
    kind: "coverage_shard",
    version: 1,
    bytes_max: 1 << 20,
    command: "surefoot ecc coverage",
    same: "seed, trials, number of shards, codes, faults, conventions and methods",
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    seed: u64,
    trials: u64,
    codes: Vec<String>,
    faults: Vec<String>,
    conventions: Vec<String>,
    methods: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    code: String,
    fault: String,
    convention: String,
    corrected_count: u64,
    detected_count: u64,
    silent_count: u64,
}

/// Writes a shard.
pub fn write(
    out: &mut impl Write,
    selection: &Selection,
    shard: ShardChoice,
    counts: &[Outcomes],
) -> anyhow::Result<()> {
    let texts = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let run = Run {
        seed: selection.seed,
        trials: selection.trials,
        codes: texts(selection.schemes.iter().map(|one| one.name()).collect()),
        faults: selection.faults.iter().map(ToString::to_string).collect(),
        conventions: texts(selection.conventions.iter().map(|one| one.name()).collect()),
        methods: texts(selection.methods.iter().map(|one| one.name()).collect()),
    };
    output::line(out, &FILES.header(shard, run))?;
    for (key, counts) in selection.trial_keys().iter().zip(counts) {
        output::line(out, &row(key, *counts))?;
    }
    Ok(())
}

fn row(key: &Key, counts: Outcomes) -> Row {
    Row {
        code: key.scheme.name().into(),
        fault: key.fault.to_string(),
        convention: key.convention.name().into(),
        corrected_count: counts.corrected,
        detected_count: counts.detected,
        silent_count: counts.silent,
    }
}

/// Puts all the shards of a run together.
pub fn merge(files: &[PathBuf]) -> anyhow::Result<(Selection, Vec<Outcomes>)> {
    let found = |run: &Run, shard, lines: Lines<'_>| counts(run, shard, lines).map_err(|why| format!("{why:#}"));
    let merged = FILES.merge(files, found, |sums: &mut Vec<Outcomes>, part| {
        sums.iter_mut().zip(part).for_each(|(sum, part)| sum.add(part));
    });
    let (run, sums) = merged.map_err(anyhow::Error::msg)?;
    Ok((selection(&run)?, sums))
}

/// The counts of a shard's cells.
fn counts(run: &Run, shard: ShardChoice, mut lines: Lines<'_>) -> anyhow::Result<Vec<Outcomes>> {
    let selection = selection(run)?;
    let keys = selection.trial_keys();
    let mut counts = Vec::with_capacity(keys.len());
    for (index, key) in keys.iter().enumerate() {
        let number = index + 2;
        let line = lines
            .next()
            .with_context(|| format!("ends before line {number}: {} cells are missing", keys.len() - index))?;
        let row: Row = serde_json::from_str(line).with_context(|| format!("line {number} is not a row of a shard"))?;
        let is_expected = (row.code.as_str(), row.fault.as_str(), row.convention.as_str())
            == (key.scheme.name(), key.fault.to_string().as_str(), key.convention.name());
        ensure!(
            is_expected,
            "line {number} is {} {} {}, which does not belong there",
            row.code,
            row.fault,
            row.convention
        );
        let parts = [row.corrected_count, row.detected_count, row.silent_count];
        let total = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part));
        let range = shard.range(selection.trials_of(key));
        ensure!(
            total == Some(range.end - range.start),
            "line {number}: the counts are not those of {} trials",
            range.end - range.start
        );
        counts.push(Outcomes { corrected: parts[0], detected: parts[1], silent: parts[2] });
    }
    ensure!(lines.next().is_none(), "more lines than cells");
    Ok(counts)
}

fn selection(run: &Run) -> anyhow::Result<Selection> {
    fn parse<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(names: &[String]) -> anyhow::Result<Vec<T>> {
        names.iter().map(|name| name.parse().map_err(anyhow::Error::new)).collect()
    }
    Ok(Selection {
        schemes: parse(&run.codes)?,
        faults: parse(&run.faults)?,
        conventions: parse(&run.conventions)?,
        methods: parse(&run.methods)?,
        trials: run.trials,
        seed: run.seed,
    })
}
