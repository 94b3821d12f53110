//! Runs the benchmarks that were asked for, and prints.

use crate::child::{Scratch, stop_flag};
use crate::table::{Outcome, Row, markdown};
use crate::{Name, cost, detectors, dimms, loop_period, machine, memory, named, stalls, who};
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// What every benchmark needs.
pub struct Bench {
    /// Short and few rounds.
    pub quick: bool,
    /// The core that is measured: the last one.
    pub cpu: CpuId,
    /// The core for everything else: the first one; the same where there is one only.
    pub other: CpuId,
    /// The command under test.
    pub surefoot: PathBuf,
    /// This program, for its parts.
    pub own: PathBuf,
    /// Where outputs go.
    pub scratch: Scratch,
    /// The host.
    pub root: Root,
}

impl Bench {
    /// Says what is under way.
    pub fn say(&self, what: &str) {
        eprintln!("{what}");
    }

    /// One of the parts of this program, as a command.
    pub fn part(&self, name: &str, arguments: &[(&str, u64)]) -> Command {
        let mut command = Command::new(&self.own);
        command.arg(name);
        for (option, value) in arguments {
            command.arg(format!("--{option}")).arg(value.to_string());
        }
        command
    }

    /// Runs `action` in a thread on one core; what it starts stays there, too, unless it chooses another.
    pub fn on<T: Send>(&self, cpu: CpuId, action: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                thread::pin_to(cpu)?;
                action()
            });
            thread.join().map_err(|_| anyhow::anyhow!("a measuring thread panicked"))?
        })
    }
}

type Benchmark = fn(&Bench) -> anyhow::Result<Vec<Row>>;

/// Runs the benchmarks; says whether every limit that was tried is met.
pub fn all(names: &[Name], quick: bool, json: Option<&Path>, surefoot: Option<PathBuf>) -> anyhow::Result<bool> {
    stop_flag()?;
    let root = Root::host();
    let online = cpus::online(&root)?;
    let own = std::env::current_exe()?;
    let surefoot = match surefoot {
        Some(path) => path,
        None => build(&own)?,
    };
    let bench = Bench {
        quick,
        cpu: *online.last().context("no core is online")?,
        other: online[0],
        surefoot,
        own,
        scratch: Scratch::new()?,
        root,
    };
    print!("{}", machine::description(&bench.root));
    println!(
        "measured    core {}{}\n",
        bench.cpu,
        if quick { ", short rounds: these numbers prove little" } else { "" }
    );
    let wanted = |name| names.is_empty() || names.contains(&name);
    let benchmarks: [(Name, &'static str, Benchmark); 8] = [
        (Name::Loop, "loop", loop_period::run),
        (Name::Stalls, "stalls", stalls::run),
        (Name::Detectors, "detectors", detectors::run),
        (Name::Named, "named", named::run),
        (Name::Cost, "cost", cost::run),
        (Name::Memory, "memory", memory::run),
        (Name::Dimms, "dimms", dimms::run),
        (Name::Who, "who", who::run),
    ];
    let mut rows = Vec::new();
    for (name, title, run) in benchmarks {
        if wanted(name) {
            // One that fails does not cost the others their turn.
            rows.extend(run(&bench).unwrap_or_else(|why| vec![Row::new(title, "failed").not_run(format!("{why:#}"))]));
        }
    }
    println!("{}", markdown(&rows));
    println!("load after  {}", machine::load(&bench.root));
    if let Some(path) = json {
        write_json(path, &rows).with_context(|| path.display().to_string())?;
    }
    Ok(rows.iter().all(|row| row.outcome != Outcome::Missed))
}

/// Builds the command under test where this program was built, so that both are of the same profile.
fn build(own: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "--package", "surefoot-cli"]);
    let status = command.status().context("cannot start cargo; name a command with --surefoot")?;
    anyhow::ensure!(status.success(), "surefoot cannot be built; name a command with --surefoot");
    let path = own.with_file_name("surefoot");
    anyhow::ensure!(path.exists(), "{} is not there; name a command with --surefoot", path.display());
    Ok(path)
}

fn write_json(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    for row in rows {
        serde_json::to_writer(&mut out, row)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}
