//! What `--shard i/n` writes and `--merge` reads: a JSON line with everything that the prediction depends on, and one per
//! draw of the shard.

use super::lines::About;
use anyhow::{Context, bail, ensure};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use surefoot_console::output;
use surefoot_disturb::predict::shard::{self, DrawLine, Header};
use surefoot_disturb::predict::{Draw, Prediction};
use surefoot_store::shards::ShardChoice;
use surefoot_store::shards::expect_same_release;

/// No shard is larger.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A part of a prediction.
pub struct Shard {
    /// Which part.
    pub shard: ShardChoice,
    /// What the prediction is of.
    pub about: About,
    /// The draws of this part.
    pub found: Prediction,
}

impl Shard {
    /// Writes its file.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let ShardChoice { number, of } = self.shard;
        output::line(out, &Header::new(number, of, self.found.base_ns, &self.about))?;
        self.found.draws.iter().try_for_each(|draw| output::line(out, &DrawLine::from(draw)))?;
        Ok(())
    }
}

/// Puts all the shards of a prediction together.
///
/// # Errors
/// A file is no shard, or of another prediction, or one is missing.
pub fn merge(files: &[PathBuf]) -> anyhow::Result<(About, Prediction)> {
    let mut parts: Vec<(Header<About>, Vec<Draw>, &Path)> = Vec::new();
    for file in files {
        let at = || format!("--merge {}", file.display());
        let (header, draws) = read(file).with_context(at)?;
        if let Some((_, _, other)) = parts.iter().find(|(known, ..)| known.shard == header.shard) {
            bail!("{}: shard {} of {} is in {} already", at(), header.shard, header.shards, other.display());
        }
        if let Some((first, ..)) = parts.first() {
            expect_same_release([&header.release, &first.release])
                .map_err(|why| anyhow::anyhow!("{} and {}: {why}", at(), files[0].display()))?;
            ensure!(
                header.is_of_the_same(first),
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

fn read(path: &Path) -> anyhow::Result<(Header<About>, Vec<Draw>)> {
    let mut text = String::new();
    let file = surefoot_foreign::hold(path)?.regular()?.open()?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "larger than any shard: {FILE_BYTES_MAX} bytes at most");
    Ok(shard::read(&text, |about: &About| about.draws)?)
}
