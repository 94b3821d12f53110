//! Runs in parts: which part `--shard i/n` is, and the files that it writes and `--merge` puts together.
//!
//! A file has a JSON line with everything that the run depends on, then what its part found.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::{FromStr, Lines};

/// More shards than this are no array job any more.
const SHARDS_MAX: u32 = 4096;

/// Part `number` (from 1) of `of` parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardChoice {
    /// Which part, from 1.
    pub number: u32,
    /// How many parts there are.
    pub of: u32,
}

impl ShardChoice {
    /// The only part of one.
    pub const WHOLE: ShardChoice = ShardChoice { number: 1, of: 1 };

    /// Its trials.
    pub fn range(self, trials: u64) -> Range<u64> {
        let until = |number: u32| {
            let share = u128::from(trials) * u128::from(number) / u128::from(self.of);
            u64::try_from(share).unwrap_or(trials)
        };
        until(self.number - 1)..until(self.number)
    }
}

impl FromStr for ShardChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write part and parts, such as 1/4, which is the first of four";
        let (number, of) = text.split_once('/').ok_or(FORM)?;
        let parse = |part: &str| part.parse::<u32>().map_err(|_| format!("'{part}' is not a number; {FORM}"));
        let (number, of) = (parse(number)?, parse(of)?);
        if !(1..=SHARDS_MAX).contains(&of) {
            return Err(format!("{of} parts, but 1 to {SHARDS_MAX} are possible"));
        }
        if !(1..=of).contains(&number) {
            return Err(format!("part {number} of {of}, but the parts are 1 to {of}"));
        }
        Ok(ShardChoice { number, of })
    }
}

/// This release.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Refuses shards of different releases; releases before it was stated are one.
///
/// # Errors
/// Which releases these are.
pub fn expect_same_release(releases: [&str; 2]) -> Result<(), String> {
    let [one, other] = releases.map(|release| if release.is_empty() { "one that is not stated" } else { release });
    if one == other {
        return Ok(());
    }
    Err(format!("shards of two releases of Surefoot, {one} and {other}; run all shards with the same one"))
}

/// The files of one command's shards.
pub struct ShardFiles {
    /// What the first line is marked with.
    pub kind: &'static str,
    /// The only version that is read.
    pub version: u32,
    /// No file is larger.
    pub bytes_max: u64,
    /// The command that writes them.
    pub command: &'static str,
    /// What has to be the same in all shards of a run.
    pub same: &'static str,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header<R> {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    /// The release that wrote it: another one may find something else with the same options. Empty where that is not stated.
    #[serde(default)]
    release: String,
    shard: u32,
    shards: u32,
    #[serde(flatten)]
    run: R,
}

impl ShardFiles {
    /// The first line of a shard of this run.
    pub fn header<R: Serialize>(&self, shard: ShardChoice, run: R) -> impl Serialize {
        let ShardChoice { number, of } = shard;
        let release = RELEASE.to_owned();
        Header { kind: self.kind.into(), version: self.version, release, shard: number, shards: of, run }
    }

    /// Puts all shards of a run together. `found` reads what follows the first line of a file, to the end; `add` takes the next
    /// file's to that of those before.
    ///
    /// # Errors
    /// A file is none of these, or of another run than the first, or there twice, or one is missing.
    pub fn merge<R: DeserializeOwned + PartialEq, F>(
        &self,
        files: &[PathBuf],
        found: impl Fn(&R, ShardChoice, Lines<'_>) -> Result<F, String>,
        add: impl Fn(&mut F, F),
    ) -> Result<(R, F), String> {
        let mut known: Option<(Header<R>, F)> = None;
        let mut seen: Vec<(u32, &Path)> = Vec::new();
        for file in files {
            let at = || format!("--merge {}", file.display());
            let (header, part) = self.read(file, &found).map_err(|why| format!("{}: {why}", at()))?;
            if let Some((_, other)) = seen.iter().find(|(number, _)| *number == header.shard) {
                return Err(format!(
                    "{}: shard {} of {} is in {} already",
                    at(),
                    header.shard,
                    header.shards,
                    other.display()
                ));
            }
            seen.push((header.shard, file));
            match &mut known {
                None => known = Some((header, part)),
                Some((first, all)) => {
                    expect_same_release([&header.release, &first.release])
                        .map_err(|why| format!("{} and {}: {why}", at(), files[0].display()))?;
                    if (header.shards, &header.run) != (first.shards, &first.run) {
                        let (at, other, same) = (at(), files[0].display(), self.same);
                        return Err(format!(
                            "{at}: this shard is of another run than {other}: {same} must be the same"
                        ));
                    }
                    add(all, part);
                }
            }
        }
        let Some((header, all)) = known else { return Err("--merge: name the files of all shards".into()) };
        let is_here = |number: &u32| seen.iter().any(|(seen, _)| seen == number);
        let missing: Vec<String> =
            (1..=header.shards).filter(|number| !is_here(number)).take(10).map(|number| number.to_string()).collect();
        if !missing.is_empty() {
            let (here, shards, missing) = (seen.len(), header.shards, missing.join(", "));
            return Err(format!("--merge: {here} of {shards} shards are here; missing, among others: {missing}"));
        }
        Ok((header.run, all))
    }

    fn read<R: DeserializeOwned, F>(
        &self,
        path: &Path,
        found: impl Fn(&R, ShardChoice, Lines<'_>) -> Result<F, String>,
    ) -> Result<(Header<R>, F), String> {
        let mut text = String::new();
        let held = surefoot_foreign::hold(path).and_then(|held| held.regular()?.open());
        let file = held.map_err(|error| error.to_string())?;
        file.take(self.bytes_max + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > self.bytes_max {
            return Err(format!("larger than any shard: {} bytes at most", self.bytes_max));
        }
        let mut lines = text.lines();
        let header: Header<R> = serde_json::from_str(lines.next().unwrap_or_default()).map_err(|error| {
            format!("line 1 is not a header of a shard; `{} --shard i/n` writes one: {error}", self.command)
        })?;
        if header.kind != self.kind {
            return Err(format!("line 1 is of type '{}', not {}", header.kind, self.kind));
        }
        if header.version != self.version {
            return Err(format!("version {}, but this is for version {}", header.version, self.version));
        }
        let shard: ShardChoice = format!("{}/{}", header.shard, header.shards).parse()?;
        let part = found(&header.run, shard, lines)?;
        Ok((header, part))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_cover_all_trials_once() {
        for trials in [1, 7, 1_000_000, u64::MAX] {
            for of in [1, 3, 4096] {
                let ends = (1..=of).map(|number| ShardChoice { number, of }.range(trials));
                let last = ends.fold(0, |at, range| {
                    assert_eq!(range.start, at);
                    range.end
                });
                assert_eq!(last, trials);
            }
        }
    }

    #[test]
    fn shards_of_two_releases_are_not_put_together() {
        assert!(expect_same_release([RELEASE, RELEASE]).is_ok() && expect_same_release(["", ""]).is_ok());
        let why = expect_same_release([RELEASE, ""]).unwrap_err();
        assert!(why.contains(RELEASE) && why.contains("not stated"), "{why}");
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["1/2", "2/2"].map(|shard| write(folder.path(), shard, 7, "1"));
        let text = std::fs::read_to_string(&two).unwrap();
        assert!(text.contains(RELEASE));
        std::fs::write(&two, text.replace(RELEASE, "0.0.0-other")).unwrap();
        let found = |_: &serde_json::Value, _: ShardChoice, _: Lines<'_>| Ok(());
        let why = FILES.merge(&[one, two], found, |_: &mut (), ()| ()).unwrap_err();
        assert!(why.contains("two releases") && why.contains("0.0.0-other"), "{why}");
    }

    #[test]
    fn shards_are_part_and_parts() {
        assert_eq!("2/4".parse(), Ok(ShardChoice { number: 2, of: 4 }));
        for (text, said) in
            [("4", "such as 1/4"), ("0/4", "1 to 4"), ("5/4", "1 to 4"), ("1/0", "1 to 4096"), ("a/4", "'a'")]
        {
            assert!(text.parse::<ShardChoice>().unwrap_err().contains(said), "{text}");
        }
    }

    const FILES: ShardFiles = ShardFiles {
        kind: "shard_of_a_test",
        version: 1,
        bytes_max: 200,
        command: "surefoot try",
        same: "all options",
    };

    /// Writes a shard whose run depends on a seed, and which found a number.
    fn write(folder: &Path, shard: &str, seed: u64, found: &str) -> PathBuf {
        let file = folder.join(format!("{}-{seed}-{found}", shard.replace('/', "-")));
        let header = FILES.header(shard.parse().unwrap(), serde_json::json!({ "seed": seed }));
        std::fs::write(&file, format!("{}\n{found}", serde_json::to_string(&header).unwrap())).unwrap();
        file
    }

    fn merge(files: &[PathBuf]) -> Result<(u64, u64), String> {
        let found = |_: &serde_json::Value, _: ShardChoice, mut lines: Lines<'_>| {
            lines.next().ok_or("it ends before the number")?.parse::<u64>().map_err(|error| error.to_string())
        };
        let merged = FILES.merge(files, found, |sum, part| *sum += part);
        merged.map(|(run, sum)| (run["seed"].as_u64().unwrap(), sum))
    }

    #[test]
    fn shards_of_a_run_are_put_together_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, three] = ["1/3", "2/3", "3/3"].map(|shard| write(folder.path(), shard, 7, "5"));
        assert_eq!(merge(&[three, one, two]), Ok((7, 15)));
        assert_eq!(merge(&[write(folder.path(), "1/1", 9, "4")]), Ok((9, 4)));
    }

    #[test]
    fn what_is_no_whole_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let one = write(folder.path(), "1/3", 7, "5");
        let put = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let marked = |kind: &str, version: u32, shard: u32| {
            format!("{{\"type\":\"{kind}\",\"version\":{version},\"shard\":{shard},\"shards\":3,\"seed\":7}}\n5")
        };
        for (others, said) in [
            (vec![], "1 of 3 shards are here; missing, among others: 2, 3"),
            (vec![write(folder.path(), "1/3", 7, "6")], "shard 1 of 3 is in"),
            (vec![write(folder.path(), "2/3", 8, "5")], "of another run than"),
            (vec![write(folder.path(), "2/4", 7, "5")], "all options must be the same"),
            (vec![write(folder.path(), "2/3", 7, "")], "it ends before the number"),
            (vec![put("poem", "a poem")], "`surefoot try --shard i/n` writes one"),
            (vec![put("other", &marked("another", 1, 2))], "line 1 is of type 'another', not shard_of_a_test"),
            (vec![put("later", &marked("shard_of_a_test", 2, 2))], "version 2, but this is for version 1"),
            (vec![put("beyond", &marked("shard_of_a_test", 1, 4))], "part 4 of 3"),
            (vec![put("large", &"x".repeat(201))], "larger than any shard: 200 bytes at most"),
            (vec![folder.path().to_owned()], "it is not a regular file"),
        ] {
            let error = merge(&[vec![one.clone()], others].concat()).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
        assert!(merge(&[]).unwrap_err().contains("name the files of all shards"));
    }
}
