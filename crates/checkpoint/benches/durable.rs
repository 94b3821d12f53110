//! The durable sequence (data, fsync, manifest, rename, fsync of the directory, commit) beside a tuned plain writer: fio
//! with O_DIRECT and fsync at the end, at its best of several engines, sizes and depths.
//!
//! `cargo bench -p surefoot-checkpoint --bench durable -- [MEGABYTES] [ROUNDS]`; a directory on the disk is taken from
//! SUREFOOT_BENCH_DISK, the temporary one by default; writes under way at once from SUREFOOT_BENCH_DEPTH. Writers take turns in rounds, in another order each time; a round's
//! ratio is to the faster of fio's two best settings in that round. fio takes the room of its file before its clock
//! starts, ours after.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use surefoot_checkpoint::generation::{Commit, RegionEntry};
use surefoot_checkpoint::image::{Protection, Source};
use surefoot_checkpoint::measure::Spread;
use surefoot_checkpoint::tier::{Durable, DurableOptions, Memory};
use surefoot_checkpoint::{Disk, GenerationId, Manifest};

/// The share of fio's speed that is asked for.
const LIMIT: f64 = 0.8;

/// Settings of fio that are kept after all were tried.
const KEPT: usize = 2;

/// Our own ways of writing, and how many of them are held against the limit: with parity there is more to write.
const OURS: [&str; 3] = [
    "from the slot, as in the background",
    "from the program, when memory cannot be used",
    "from the program, with parity on the disk",
];
const HELD: usize = 2;

/// Runs of each setting when all are tried.
const TRIES: usize = 2;

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let bytes = numbers.first().copied().unwrap_or(1024) << 20;
    let rounds = numbers.get(1).copied().unwrap_or(9).max(1);
    let base = std::env::var_os("SUREFOOT_BENCH_DISK").map_or_else(std::env::temp_dir, PathBuf::from);
    let home = tempfile::tempdir_in(base).expect("a directory for the benchmark");
    if Command::new("fio").arg("--version").output().is_err() {
        println!("not run: there is no fio; install it");
        return ExitCode::SUCCESS;
    }
    println!("{} MiB, O_DIRECT: {}", bytes >> 20, if takes_direct(home.path()) { "yes" } else { "no" });
    let settings = best_settings(home.path(), bytes);
    let mut ours = Ours::new(home.path(), bytes);
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); OURS.len() + settings.len()];
    for round in 0..=rounds {
        let mut of_round = vec![0.0; speeds.len()];
        for turn in 0..speeds.len() {
            let who = (turn + round) % speeds.len();
            of_round[who] = match who {
                0 => ours.drain(),
                1 => ours.straight(false),
                2 => ours.straight(true),
                _ => fio(home.path(), bytes, &settings[who - OURS.len()]),
            };
        }
        // The first one touches memory for the first time.
        if round > 0 {
            speeds.iter_mut().zip(of_round).for_each(|(speeds, speed)| speeds.push(speed));
        }
    }
    print(&settings, &speeds)
}

fn print(settings: &[Setting], speeds: &[Vec<f64>]) -> ExitCode {
    let names = OURS.map(str::to_owned).into_iter().chain(settings.iter().map(Setting::name));
    for (name, speeds) in names.zip(speeds) {
        let spread = Spread::of(speeds.iter().map(|speed| speed / 1e6)).expect("a round");
        println!("{name:>46} {:6.0} MB/s ({:.0} to {:.0})", spread.median, spread.lower, spread.upper);
    }
    let mut is_met = true;
    for (number, name) in ["from the slot / fio", "from the program / fio", "with parity / fio"].into_iter().enumerate()
    {
        let ratio = |round: usize| {
            let fio = speeds[OURS.len()..].iter().map(|speeds| speeds[round]).fold(0.0, f64::max);
            speeds[number][round] / fio
        };
        let spread = Spread::of((0..speeds[0].len()).map(ratio)).expect("a round");
        is_met &= number >= HELD || spread.median >= LIMIT;
        let verdict = match spread.median >= LIMIT {
            _ if number >= HELD => String::new(),
            true => format!(" limit >= {LIMIT}: met"),
            false => format!(" limit >= {LIMIT}: MISSED"),
        };
        let Spread { median, lower, upper, count, .. } = spread;
        println!("{name:>46} {median:6.2} ({lower:.2} to {upper:.2}; {count} rounds){verdict}");
    }
    if is_met { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Whether the file system opens files past the page cache.
fn takes_direct(directory: &Path) -> bool {
    let path = directory.join("direct");
    let opened = fs::OpenOptions::new().write(true).create(true).custom_flags(libc::O_DIRECT).open(&path);
    let _ = fs::remove_file(path);
    opened.is_ok()
}

/// How fio writes.
#[derive(Debug, Clone)]
struct Setting {
    engine: &'static str,
    block_mib: usize,
    /// Writes under way at once: of one thread, or with psync of as many threads.
    depth: usize,
}

impl Setting {
    fn name(&self) -> String {
        format!("fio {} {} MiB x {}", self.engine, self.block_mib, self.depth)
    }
}

/// The fastest of some settings on this disk.
fn best_settings(directory: &Path, bytes: usize) -> Vec<Setting> {
    let mut tried: Vec<(f64, Setting)> = Vec::new();
    for engine in ["io_uring", "libaio", "psync"] {
        for (block_mib, depth) in [(1, 8), (1, 32), (4, 4), (4, 16), (8, 8)] {
            let setting = Setting { engine, block_mib, depth };
            let speeds = (0..TRIES).map(|_| fio(directory, bytes, &setting));
            let speed = speeds.fold(0.0, f64::max);
            println!("{:>46} {:6.0} MB/s, best of {TRIES}", setting.name(), speed / 1e6);
            tried.push((speed, setting));
        }
    }
    tried.sort_by(|one, other| other.0.total_cmp(&one.0));
    tried.into_iter().take(KEPT).map(|(_, setting)| setting).collect()
}

/// Bytes per second of fio, by its own clock; 0 where it cannot run so.
fn fio(directory: &Path, bytes: usize, setting: &Setting) -> f64 {
    let path = directory.join("fio");
    let (threads, depth) = if setting.engine == "psync" { (setting.depth, 1) } else { (1, setting.depth) };
    // Whole blocks for each thread, the threads' parts one behind the other.
    let block_bytes = setting.block_mib << 20;
    let each = (bytes / threads).div_ceil(block_bytes) * block_bytes;
    let output = Command::new("fio")
        .args(["--name=plain", "--rw=write", "--direct=1", "--end_fsync=1", "--fallocate=native", "--refill_buffers=0"])
        .args(["--thread", "--group_reporting", "--output-format=json"])
        .args([
            format!("--filename={}", path.display()),
            format!("--size={each}"),
            format!("--offset_increment={each}"),
        ])
        .args([format!("--ioengine={}", setting.engine), format!("--bs={block_bytes}")])
        .args([format!("--iodepth={depth}"), format!("--numjobs={threads}")])
        .output()
        .expect("fio starts");
    let _ = fs::remove_file(&path);
    let text = String::from_utf8_lossy(&output.stdout);
    // What it cannot do it says before.
    let Some(start) = text.find('{') else { return 0.0 };
    let report: serde_json::Value = serde_json::from_str(&text[start..]).unwrap_or_default();
    let write = &report["jobs"][0]["write"];
    match (write["io_bytes"].as_f64(), write["runtime"].as_f64()) {
        (Some(written), Some(ms)) if output.status.success() && ms > 0.0 => written / (ms / 1e3),
        _ => 0.0,
    }
}

struct Ours {
    bytes: usize,
    memory: Memory,
    durable: Durable,
    with_parity: Durable,
    manifest: Manifest,
    state: Box<[u8]>,
}

impl Ours {
    fn new(home: &Path, bytes: usize) -> Self {
        let state: Box<[u8]> = (0..bytes).map(|at| ((at * 31) >> 7) as u8).collect();
        let slots = fs::metadata("/dev/shm").map_or_else(|_| home.to_owned(), |_| PathBuf::from("/dev/shm"));
        let name = format!("surefoot-bench-{}", std::process::id());
        let memory = Memory::open(&slots, &name, 0, 2).expect("the memory tier");
        let depth = std::env::var("SUREFOOT_BENCH_DEPTH").ok().and_then(|depth| depth.parse().ok());
        let defaults = DurableOptions::default();
        let options = DurableOptions { keep: 1, queue_depth: depth.unwrap_or(defaults.queue_depth), ..defaults };
        let durable = Durable::open(std::sync::Arc::new(Disk), home, "bench", options.clone());
        let options = DurableOptions { protection: Protection::Shard, ..options };
        let with_parity = Durable::open(std::sync::Arc::new(Disk), home, "parity", options);
        let manifest = Manifest {
            job: "bench".into(),
            generation: GenerationId { number: 0, nonce: 1 },
            rank: 0,
            ranks: 1,
            taken_realtime_ns: 0,
            payload_bytes: bytes as u64,
            protection: Protection::Shard,
            table_crc32c: 0,
            regions: vec![RegionEntry { name: "state".into(), bytes: bytes as u64 }],
            epoch: 0,
        };
        let (durable, with_parity) = (durable.expect("the durable tier"), with_parity.expect("the durable tier"));
        Ours { bytes, memory, durable, with_parity, manifest, state }
    }

    /// From an image in memory, as it is written in the background.
    fn drain(&mut self) -> f64 {
        self.manifest.generation.number += 1;
        let source = Source::new(vec![&self.state[..]]);
        let slot = self.memory.save(self.manifest.clone(), &source, &mut |_| {}).expect("a slot");
        let part = self.memory.part(slot).expect("its image");
        let begun = Instant::now();
        self.durable.write(&part).expect("a durable write");
        self.commit(&self.durable, begun)
    }

    /// From the program's memory.
    fn straight(&mut self, has_parity: bool) -> f64 {
        self.manifest.generation.number += 1;
        let source = Source::new(vec![&self.state[..]]);
        let durable = if has_parity { &self.with_parity } else { &self.durable };
        let begun = Instant::now();
        durable.write_source(&self.manifest, &source).expect("a durable write");
        self.commit(durable, begun)
    }

    /// Marks it as complete, and makes room for the next when the clock has stopped. Returns bytes per second.
    fn commit(&self, durable: &Durable, begun: Instant) -> f64 {
        durable.commit(Commit { generation: self.manifest.generation, ranks: 1, epoch: 0 }).expect("a commit");
        let speed = self.bytes as f64 / begun.elapsed().as_secs_f64();
        durable.prune().expect("room again");
        speed
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(job) = self.memory.directory().parent() {
            let _ = fs::remove_dir_all(job);
        }
    }
}
