//! What `--shard i/n` writes and `--merge` reads: JSON lines, a header with everything that the run depends on, then the
//! counts of each cell.

use super::cells::{Key, Selection};
use super::options::ShardChoice;
use crate::output;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use surefoot_ecc::coverage::monte_carlo::Outcomes;

/// The only version so far.
const VERSION: u32 = 1;
/// The mark of the header.
const KIND: &str = "coverage_shard";
/// No shard of this table is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    shard: u32,
    shards: u32,
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
    let header = Header {
        kind: KIND.into(),
        version: VERSION,
        shard: shard.number,
        shards: shard.of,
        seed: selection.seed,
        trials: selection.trials,
        codes: texts(selection.schemes.iter().map(|one| one.name()).collect()),
        faults: selection.faults.iter().map(ToString::to_string).collect(),
        conventions: texts(selection.conventions.iter().map(|one| one.name()).collect()),
        methods: texts(selection.methods.iter().map(|one| one.name()).collect()),
    };
    output::line(out, &header)?;
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
    let mut known: Option<(Header, Selection, Vec<Outcomes>)> = None;
    let mut seen: Vec<(u32, &Path)> = Vec::new();
    for file in files {
        let at = || format!("--merge {}", file.display());
        let (header, selection, counts) = read(file).with_context(at)?;
        if let Some((_, other)) = seen.iter().find(|(number, _)| *number == header.shard) {
            bail!("{}: shard {} of {} is in {} already", at(), header.shard, header.shards, other.display());
        }
        seen.push((header.shard, file));
        match &mut known {
            None => known = Some((header, selection, counts)),
            Some((first, _, sums)) => {
                let is_alike = Header { shard: first.shard, ..header.clone() } == *first;
                ensure!(
                    is_alike,
                    "{}: this shard is of another run than {}: seed, trials, number of shards, codes, faults, conventions \
                     and methods must be the same",
                    at(),
                    files[0].display()
                );
                sums.iter_mut().zip(counts).for_each(|(sum, part)| sum.add(part));
            }
        }
    }
    let Some((header, selection, sums)) = known else { bail!("--merge: name the files of all shards") };
    let missing: Vec<String> = (1..=header.shards)
        .filter(|number| seen.iter().all(|(seen, _)| seen != number))
        .take(10)
        .map(|number| number.to_string())
        .collect();
    ensure!(
        missing.is_empty(),
        "--merge: {} of {} shards are here; missing, among others: {}",
        seen.len(),
        header.shards,
        missing.join(", ")
    );
    Ok((selection, sums))
}

fn read(path: &Path) -> anyhow::Result<(Header, Selection, Vec<Outcomes>)> {
    let mut text = String::new();
    // A pipe that nobody writes to is not waited for.
    let file = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "larger than any shard: {FILE_BYTES_MAX} bytes at most");
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default())
        .context("line 1 is not a header of a shard; `surefoot ecc coverage --shard i/n` writes one")?;
    ensure!(header.kind == KIND, "line 1 is of type '{}', not {KIND}", header.kind);
    ensure!(header.version == VERSION, "version {}, but this is for version {VERSION}", header.version);
    let shard: ShardChoice = format!("{}/{}", header.shard, header.shards).parse().map_err(anyhow::Error::msg)?;
    let selection = selection(&header)?;
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
    Ok((header, selection, counts))
}

fn selection(header: &Header) -> anyhow::Result<Selection> {
    fn parse<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(names: &[String]) -> anyhow::Result<Vec<T>> {
        names.iter().map(|name| name.parse().map_err(anyhow::Error::new)).collect()
    }
    Ok(Selection {
        schemes: parse(&header.codes)?,
        faults: parse(&header.faults)?,
        conventions: parse(&header.conventions)?,
        methods: parse(&header.methods)?,
        trials: header.trials,
        seed: header.seed,
    })
}
