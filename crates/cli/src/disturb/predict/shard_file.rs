//! What `--shard i/n` writes and `--merge` reads: a JSON line with everything that the prediction depends on, and one per
//! draw of the shard.

use super::lines::About;
use crate::ecc::options::ShardChoice;
use crate::output;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use surefoot_disturb::predict::{DRAWS_MAX, Draw, Prediction};

/// The only version so far.
const VERSION: u32 = 1;
const KIND: &str = "prediction_shard";
/// No shard is larger.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A part of a prediction.
pub struct Shard {
    pub shard: ShardChoice,
    pub about: About,
    pub found: Prediction,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    shard: u32,
    shards: u32,
    base_ns: u64,
    about: About,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawOfShard {
    end_ns: u64,
    event_count: u64,
}

impl Shard {
    pub fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let header = Header {
            kind: KIND.into(),
            version: VERSION,
            shard: self.shard.number,
            shards: self.shard.of,
            base_ns: self.found.base_ns,
            about: self.about.clone(),
        };
        output::line(out, &header)?;
        for &Draw { end_ns, event_count } in &self.found.draws {
            output::line(out, &DrawOfShard { end_ns, event_count })?;
        }
        Ok(())
    }
}

/// Puts all the shards of a prediction together.
///
/// # Errors
/// A file is no shard, or of another prediction, or one is missing.
pub fn merge(files: &[PathBuf]) -> anyhow::Result<(About, Prediction)> {
    let mut parts: Vec<(Header, Vec<Draw>, &Path)> = Vec::new();
    for file in files {
        let at = || format!("--merge {}", file.display());
        let (header, draws) = read(file).with_context(at)?;
        if let Some((_, _, other)) = parts.iter().find(|(known, ..)| known.shard == header.shard) {
            bail!("{}: shard {} of {} is in {} already", at(), header.shard, header.shards, other.display());
        }
        if let Some((first, ..)) = parts.first() {
            ensure!(
                Header { shard: first.shard, ..header.clone() } == *first,
                "{}: this shard is of another prediction than {}: all options and the number of shards must be the same",
                at(),
                files[0].display()
            );
        }
        parts.push((header, draws, file));
    }
    parts.sort_by_key(|(header, ..)| header.shard);
    let Some((first, ..)) = parts.first().cloned() else { bail!("--merge: name the files of all shards") };
    let is_here = |number: &u32| parts.iter().any(|(header, ..)| header.shard == *number);
    let missing: Vec<String> =
        (1..=first.shards).filter(|number| !is_here(number)).take(10).map(|number| number.to_string()).collect();
    ensure!(
        missing.is_empty(),
        "--merge: {} of {} shards are here; missing, among others: {}",
        parts.len(),
        first.shards,
        missing.join(", ")
    );
    let draws = parts.into_iter().flat_map(|(_, draws, _)| draws).collect();
    Ok((first.about, Prediction { base_ns: first.base_ns, draws }))
}

fn read(path: &Path) -> anyhow::Result<(Header, Vec<Draw>)> {
    let mut text = String::new();
    // A pipe that nobody writes to is not waited for.
    let file = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "larger than any shard: {FILE_BYTES_MAX} bytes at most");
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default())
        .context("line 1 is not a header of a shard; `surefoot disturb predict --shard i/n` writes one")?;
    ensure!(header.kind == KIND, "line 1 is of type '{}', not {KIND}", header.kind);
    ensure!(header.version == VERSION, "version {}, but this is for version {VERSION}", header.version);
    ensure!((2..=DRAWS_MAX).contains(&header.about.draws), "line 1: {} draws", header.about.draws);
    let shard: ShardChoice = format!("{}/{}", header.shard, header.shards).parse().map_err(anyhow::Error::msg)?;
    let mut draws = Vec::new();
    for (number, line) in lines.enumerate() {
        let DrawOfShard { end_ns, event_count } =
            serde_json::from_str(line).with_context(|| format!("line {} is not a draw", number + 2))?;
        draws.push(Draw { end_ns, event_count });
    }
    let range = shard.range(header.about.draws);
    let wanted = range.end - range.start;
    ensure!(
        draws.len() as u64 == wanted,
        "{} draws, but shard {} of {} has {wanted}; the file is cut or damaged",
        draws.len(),
        header.shard,
        header.shards
    );
    Ok((header, draws))
}
