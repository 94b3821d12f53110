//! The ground truth: `bench/raisers.c`, whose threads raise interrupts for a core and write down each call.

use crate::child::{Running, output};
use crate::numbers::median;
use crate::run::Bench;
use anyhow::Context;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = include_str!("../../raisers.c");

/// How long the program may take to be ready, and to do what it is told.
const LIMIT: Duration = Duration::from_secs(60);

/// What the raising threads do between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// They sleep, so that threads that share a core take turns.
    Sleep,
    /// They spin, so that each call finds the core awake.
    Spin,
}

/// What the program wrote down.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Log {
    /// Its process.
    pub pid: u32,
    /// Its raising threads.
    pub threads: Vec<Raising>,
}

/// One raising thread.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Raising {
    /// The kernel's number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The only system call by which it raises.
    pub syscall: String,
    /// Start and end of each call, in order; `CLOCK_MONOTONIC` nanoseconds.
    pub calls: Vec<(u64, u64)>,
}

impl Log {
    /// Calls of all threads.
    pub fn call_count(&self) -> u64 {
        self.threads.iter().map(|thread| thread.calls.len() as u64).sum()
    }

    /// Median length of a call, nanoseconds.
    pub fn median_ns(&self) -> Option<f64> {
        let lengths = self.threads.iter().flat_map(|thread| &thread.calls);
        median(&lengths.map(|(start_ns, end_ns)| end_ns.saturating_sub(*start_ns) as f64).collect::<Vec<_>>())
    }
}

/// Builds the program.
pub fn build(bench: &Bench) -> anyhow::Result<PathBuf> {
    let (source, program) = (bench.scratch.file("raisers.c"), bench.scratch.file("raisers"));
    std::fs::write(&source, SOURCE)?;
    // Frame pointers, along which the kernel walks a user stack.
    let build = |compiler| {
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"]).args([&program, &source]);
        output(&mut command)
    };
    build("cc").or_else(|_| build("clang")).context("no C compiler builds raisers.c")?;
    Ok(program)
}

/// The program at work.
pub struct Raisers {
    running: Running,
}

impl Raisers {
    /// Starts it and waits until all its threads are there. The poller spins from then on.
    pub fn start(
        bench: &Bench,
        program: &PathBuf,
        count: u64,
        pause_us: u64,
        rest: Rest,
        kinds: &[&str],
    ) -> anyhow::Result<Raisers> {
        let mut command = Command::new(program);
        command.args([bench.cpu.0.into(), bench.other.0.into(), count, pause_us].map(|number| number.to_string()));
        command.arg(if rest == Rest::Sleep { "sleep" } else { "spin" }).args(kinds);
        let mut running = Running::start(&mut command, &bench.scratch.file("raisers.out"))?;
        running.wait_for("ready\n", LIMIT)?;
        Ok(Raisers { running })
    }

    /// Lets the threads raise, and returns what they did. They stay, but do nothing more.
    pub fn raise(&mut self) -> anyhow::Result<Log> {
        self.running.signal("USR1")?;
        self.running.wait_for("]}]}\n", LIMIT)?;
        let text = self.running.output()?;
        let line = text.lines().find(|line| line.starts_with('{')).context("raisers.c wrote no log")?;
        Ok(serde_json::from_str(line)?)
    }

    /// Ends the program.
    pub fn end(self) -> anyhow::Result<()> {
        self.running.interrupt().map(|_| ())
    }
}
