//! Files of the tiers that are changed, exchanged, cut, lost or replaced while the job is down.

use super::super::session::{Back, Tiers, always_both, files, job, restarted};
use super::{Outcome, Row, Seed};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::image::Protection;
use surefoot_checkpoint::{Config, Disk, Manifest, Policy};

use Outcome::{Elsewhere, Older, Refused, Repaired, Whole};

const PAGE_BYTES: usize = 4096;

/// Steps that the job makes before something happens to its files.
const STEPS: u64 = 3;

/// Where the job saves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    Memory,
    /// Without parity, straight from the program's memory.
    Checked,
    /// With parity, from a copy in memory that is lost.
    Shard,
    /// With parity, straight from the program's memory.
    Straight,
    /// In memory and on the SSD, without parity there.
    Both,
    /// In memory, with a copy at a partner.
    Partner,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Tier::Memory => "memory",
            Tier::Checked => "SSD",
            Tier::Shard => "SSD with parity",
            Tier::Straight => "SSD with parity, straight",
            Tier::Both => "memory and SSD",
            Tier::Partner => "memory and partner",
        }
    }

    fn config(self, tiers: &Tiers) -> Config {
        let mut config = tiers.config(match self {
            Tier::Memory | Tier::Partner => Policy::Fixed(Fixed::Memory),
            Tier::Checked | Tier::Straight => Policy::Fixed(Fixed::Durable),
            Tier::Both | Tier::Shard => always_both(),
        });
        config.partner = self == Tier::Partner;
        if let (Some(durable), Tier::Shard | Tier::Straight) = (&mut config.durable, self) {
            durable.options.protection = Protection::Shard;
        }
        config
    }

    fn is_on_ssd(self) -> bool {
        matches!(self, Tier::Checked | Tier::Shard | Tier::Straight)
    }
}

/// A job of two ranks that has saved, and is down.
struct Down {
    tiers: Tiers,
    tier: Tier,
    config: Config,
}

/// The files of one rank's part of one checkpoint.
struct Part {
    image: PathBuf,
    manifests: Vec<PathBuf>,
}

impl Down {
    fn new(tier: Tier) -> Self {
        let tiers = Tiers::new();
        let config = tier.config(&tiers);
        job(2, &config, |mut rank| {
            for step in 1..=STEPS {
                rank.save(step);
                rank.job.wait_for_copies().unwrap();
            }
        });
        if tier == Tier::Shard {
            fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
        }
        Down { tiers, tier, config }
    }

    /// The files of a rank's part of the newest checkpoint, or of one before it.
    fn part(&self, rank: u32, before: usize) -> Part {
        if self.tier.is_on_ssd() {
            let generations = generations(&self.tiers.home.path().join("ssd/job"));
            let directory = &generations[generations.len() - 1 - before];
            let file = |kind: &str| directory.join(format!("rank-{rank:05}.{kind}"));
            return Part { image: file("image"), manifests: vec![file("manifest")] };
        }
        let images = self.tiers.memory_files(rank, "image");
        let image = images[STEPS as usize - 1 - before].clone();
        let manifests = ["manifest", "copy"].map(|kind| image.with_extension(kind)).to_vec();
        Part { image, manifests }
    }

    fn newest(&self) -> Part {
        self.part(0, 0)
    }

    /// Restarts the job and says what came of it.
    fn restart(&self) -> Outcome {
        outcome(&restarted(2, &self.config, STEPS), self.tier)
    }
}

/// The directories of the generations on an SSD, the oldest first.
fn generations(job: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(job).unwrap().map(|entry| entry.unwrap().path());
    let mut generations: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    generations.sort();
    generations
}

/// What a restart of all ranks came to.
fn outcome(back: &[Back], tier: Tier) -> Outcome {
    let steps: Vec<Option<u64>> = back.iter().map(|(step, _)| *step).collect();
    let restored: Vec<&Result<_, String>> = back.iter().map(|(_, restored)| restored).collect();
    if let Some(Err(why)) = restored.first() {
        assert!(restored.iter().all(|restored| restored.is_err()), "some ranks came back: {back:?}");
        assert!(why.contains("no checkpoint can be restored"), "not clear: {why}");
        return Refused;
    }
    let reports: Vec<&str> = restored
        .iter()
        .map(|restored| match restored {
            Ok(Some(restored)) => restored.report.as_str(),
            other => panic!("a job that had saved comes back with {other:?}"),
        })
        .collect();
    let step = steps[0].unwrap_or_else(|| panic!("wrong data: {back:?}"));
    assert!(steps.iter().all(|other| *other == Some(step)), "wrong data, or not the same on all ranks: {back:?}");
    let any = |word: &str| reports.iter().any(|report| report.contains(word));
    match () {
        () if step < STEPS => {
            assert!(reports.iter().all(|report| !report.is_empty()), "{back:?}");
            Older
        }
        () if any("refused: ") => Elsewhere,
        () if any("from its partner") || tier == Tier::Both && any("from the SSD") => Elsewhere,
        () if any(" repaired") => Repaired,
        () => Whole,
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

fn flip_bits(seed: &mut Seed, image: &Path, count: u64) {
    change(image, |bytes| {
        for _ in 0..count {
            let at = seed.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << seed.below(8);
        }
    });
}

/// Zeroes pages of one row of an image with these columns; five rows are what the state of both ranks has.
fn zero_pages(seed: &mut Seed, image: &Path, columns: u64, count: u64) {
    let rows = 5;
    let (row, first) = (seed.below(rows), seed.below(columns));
    let file = fs::File::options().write(true).open(image).unwrap();
    for number in 0..count {
        let page = (first + number) % columns * rows + row;
        file.write_all_at(&[0; PAGE_BYTES], page * PAGE_BYTES as u64).unwrap();
    }
}

fn truncate(seed: &mut Seed, image: &Path) {
    let file = fs::File::options().write(true).open(image).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(seed.below(length)).unwrap();
}

/// Writes a manifest that is well formed, with right checksums, and says something else in one place. One that says
/// another order of regions of the same names and lengths is not among them: who forges that may as well forge the image.
fn say_otherwise(seed: &mut Seed, part: &Part) {
    let path = part.manifests[0].clone();
    let mut manifest = Manifest::read(&Disk, &path).unwrap();
    let lie = seed.below(1 << 44);
    match seed.below(8) {
        0 => manifest.payload_bytes = lie,
        1 => manifest.rank = lie as u32,
        2 => manifest.ranks = lie as u32,
        3 => manifest.table_crc32c ^= 1 << seed.below(32),
        4 => manifest.generation.number = lie,
        5 => manifest.generation.nonce ^= lie | 1,
        6 => manifest.protection = *seed.one_of(&[Protection::Chip, Protection::Checked, Protection::Shard]),
        _ => manifest.regions[0].bytes = lie,
    }
    if seed.below(2) == 0 {
        // In such a way that its own sums are right.
        manifest.regions[0].bytes = manifest.payload_bytes.saturating_sub(manifest.regions[1].bytes);
        manifest.payload_bytes = manifest.regions[0].bytes + manifest.regions[1].bytes;
        manifest.ranks = manifest.ranks.max(manifest.rank.saturating_add(1));
    }
    let bytes = manifest.to_bytes().unwrap_or_else(|_| b"SFCKPT01 but nothing of a manifest".to_vec());
    part.manifests.iter().for_each(|path| fs::write(path, &bytes).unwrap());
}

/// Puts any bytes into the manifest, or over a part of it.
fn garble(seed: &mut Seed, part: &Part) {
    for path in &part.manifests {
        change(path, |bytes| {
            let (start, length) = (seed.below(bytes.len() as u64) as usize, seed.below(600) as usize);
            let end = (start + length).min(bytes.len());
            // Past the text there is nothing but filling.
            let start = if seed.below(2) == 0 { start % 400 } else { start };
            bytes[start.min(end)..end].iter_mut().for_each(|byte| *byte = seed.below(256) as u8);
            if seed.below(4) == 0 {
                bytes.truncate(start);
            }
        });
    }
}

type Damage = fn(&Down, &mut Seed);

/// What may come of a damage in a tier.
type Allowed = (Tier, &'static [Outcome]);

/// What is done to the files of rank 0's newest checkpoint, and what may come of it in each tier.
const DAMAGES: &[(&str, Damage, &[Allowed])] = &[
    ("nothing", |_, _| (), &[(Tier::Memory, &[Whole]), (Tier::Checked, &[Whole]), (Tier::Both, &[Whole])]),
    (
        "1 to 3 flipped bits",
        |down, seed| {
            let count = 1 + seed.below(3);
            flip_bits(seed, &down.newest().image, count);
        },
        &[
            (Tier::Memory, &[Whole, Repaired]),
            (Tier::Checked, &[Whole, Repaired, Older]),
            (Tier::Shard, &[Whole, Repaired]),
            (Tier::Straight, &[Whole, Repaired]),
            (Tier::Both, &[Whole, Repaired]),
        ],
    ),
    (
        "1,000 flipped bits",
        |down, seed| flip_bits(seed, &down.newest().image, 1000),
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "1 to 3 zeroed pages of a row",
        |down, seed| {
            let count = 1 + seed.below(3);
            zero_pages(seed, &down.newest().image, if down.tier == Tier::Checked { 14 } else { 19 }, count);
        },
        &[
            (Tier::Memory, &[Whole, Repaired]),
            (Tier::Checked, &[Older]),
            (Tier::Shard, &[Whole, Repaired]),
            (Tier::Straight, &[Whole, Repaired]),
        ],
    ),
    (
        "4 zeroed pages of a row",
        // The last columns of the payload are zero where there is none of it.
        |down, seed| zero_pages(seed, &down.newest().image, 14, 4),
        &[
            (Tier::Memory, &[Older]),
            (Tier::Shard, &[Older]),
            (Tier::Straight, &[Older]),
            (Tier::Both, &[Elsewhere]),
            (Tier::Partner, &[Elsewhere]),
        ],
    ),
    (
        "image cut short",
        |down, seed| truncate(seed, &down.newest().image),
        &[
            (Tier::Memory, &[Repaired, Older]),
            (Tier::Checked, &[Repaired, Older]),
            (Tier::Straight, &[Repaired, Older]),
            (Tier::Both, &[Repaired, Elsewhere]),
            (Tier::Partner, &[Repaired, Elsewhere]),
        ],
    ),
    (
        "image gone",
        |down, _| fs::remove_file(down.newest().image).unwrap(),
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "images of two ranks exchanged",
        |down, _| exchange(&down.newest().image, &down.part(1, 0).image),
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "images of two generations exchanged",
        |down, _| exchange(&down.newest().image, &down.part(0, 1).image),
        // In memory there is a third; of those on the SSD two are kept.
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Refused]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "all files of two ranks exchanged",
        |down, _| {
            let (one, other) = (down.newest(), down.part(1, 0));
            exchange(&one.image, &other.image);
            one.manifests.iter().zip(&other.manifests).for_each(|(one, other)| exchange(one, other));
        },
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    ("files of another job", files_of_another_job, &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older])]),
    (
        "manifest of an older generation",
        |down, _| {
            let (new, old) = (down.newest(), down.part(0, 1));
            new.manifests.iter().zip(&old.manifests).for_each(|(new, old)| _ = fs::copy(old, new).unwrap());
        },
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "one of two manifests gone",
        |down, seed| fs::remove_file(seed.one_of(&down.newest().manifests)).unwrap(),
        &[(Tier::Memory, &[Whole])],
    ),
    (
        "manifest gone: killed between the phases",
        |down, _| down.part(1, 0).manifests.iter().for_each(|path| fs::remove_file(path).unwrap()),
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "manifest of another version",
        |down, seed| {
            let version = *seed.one_of(&[b"00", b"03", b"99", b"\xFF\xFF"]);
            for path in down.newest().manifests {
                change(&path, |bytes| bytes[6..8].copy_from_slice(version));
            }
        },
        &[(Tier::Memory, &[Older]), (Tier::Checked, &[Older]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "all manifests of another version",
        |down, _| {
            for before in 0..if down.tier.is_on_ssd() { 2 } else { STEPS as usize } {
                for path in [0, 1].into_iter().flat_map(|rank| down.part(rank, before).manifests) {
                    change(&path, |bytes| bytes[6..8].copy_from_slice(b"03"));
                }
            }
        },
        &[(Tier::Memory, &[Refused]), (Tier::Checked, &[Refused]), (Tier::Both, &[Elsewhere])],
    ),
    (
        "manifest garbled",
        |down, seed| garble(seed, &down.newest()),
        &[(Tier::Memory, &[Whole, Older]), (Tier::Checked, &[Whole, Older]), (Tier::Both, &[Whole, Elsewhere])],
    ),
    (
        "manifest that lies",
        |down, seed| say_otherwise(seed, &down.newest()),
        // What it says may be the truth, or of no consequence.
        &[(Tier::Memory, &[Whole, Older]), (Tier::Checked, &[Whole, Older]), (Tier::Both, &[Whole, Elsewhere])],
    ),
    (
        "a rank's files gone",
        |down, seed| lose_rank(down, seed.below(2) as u32),
        &[
            (Tier::Memory, &[Refused]),
            (Tier::Checked, &[Refused]),
            (Tier::Both, &[Whole, Elsewhere]),
            (Tier::Partner, &[Elsewhere]),
        ],
    ),
];

fn files_of_another_job(down: &Down, _: &mut Seed) {
    let other = Config { job: "other".into(), ..down.config.clone() };
    job(2, &other, |mut rank| (1..=STEPS).for_each(|step| _ = rank.save(step)));
    let theirs = Down { tiers: Tiers::at(down.tiers.home.path().into()), tier: down.tier, config: other };
    let tier = if down.tier.is_on_ssd() { "ssd" } else { "memory" };
    let (ours, directory) = (down.newest(), theirs.tiers.home.path().join(tier));
    let part = |kind: &str| {
        let all = if down.tier.is_on_ssd() {
            let generations = generations(&directory.join("other"));
            generations.iter().flat_map(|generation| files(generation, kind)).collect()
        } else {
            files(&directory.join("other/rank-00000"), kind)
        };
        let mut all: Vec<PathBuf> = all;
        all.sort();
        all.into_iter().rfind(|path| down.tier == Tier::Memory || path.ends_with(format!("rank-00000.{kind}"))).unwrap()
    };
    fs::copy(part("image"), &ours.image).unwrap();
    for path in &ours.manifests {
        fs::copy(part(path.extension().unwrap().to_str().unwrap()), path).unwrap();
    }
}

fn lose_rank(down: &Down, rank: u32) {
    if down.tier.is_on_ssd() {
        for before in 0..2 {
            let part = down.part(rank, before);
            fs::remove_file(part.image).unwrap();
            part.manifests.iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        return;
    }
    for kind in ["rank", "partner"] {
        let directory = down.tiers.home.path().join(format!("memory/job/{kind}-{rank:05}"));
        assert!(fs::remove_dir_all(directory).is_ok() || kind == "partner");
    }
}

pub fn rows() -> Vec<Row> {
    let row = |fault: &'static str, damage: Damage, tier: Tier, allowed: &'static [Outcome]| {
        Row::new(fault, tier.name(), allowed, move |seed| {
            let down = Down::new(tier);
            damage(&down, seed);
            down.restart()
        })
    };
    let tiers = |&(fault, damage, tiers): &'static (&'static str, Damage, &'static [Allowed])| {
        tiers.iter().map(move |&(tier, allowed)| row(fault, damage, tier, allowed))
    };
    DAMAGES.iter().flat_map(tiers).collect()
}
