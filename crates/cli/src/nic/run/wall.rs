//! A run by the machine's clock.

use super::options::{Link, RunOptions};
use super::result::{ResultLine, Spread};
use crate::nic::part::{program, told};
use anyhow::{Context, bail};
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_console::people::tell;
use surefoot_nic::firmware::Build;
use surefoot_nic::live::directory::{self, RunDirectory};
use surefoot_nic::live::run::{self, LinkKind, RunConfig};
use surefoot_sys::signals;

/// Without a delivery for so long, something is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Each part looks for something to do for so long before it sleeps.
const SPIN_NS: u64 = 50_000;
/// How often people are told how far a run is.
const TELL: Duration = Duration::from_millis(250);

pub fn run(options: &RunOptions) -> anyhow::Result<ResultLine> {
    let (link, name) = match options.link() {
        Link::Memory => bail!("--link memory is within one process: use --link udp or veth"),
        Link::Udp => (LinkKind::Udp, "udp"),
        Link::Veth => (LinkKind::Veth, "veth"),
    };
    let directory = made(&options.run.clone().unwrap_or_else(default_directory))?;
    directory::remove_left(default_directory().parent().unwrap_or(Path::new("/")));
    let stop = signals::stop_flag()?;
    let also = if options.serve { "; programs open ports there until Ctrl-C" } else { "" };
    tell!("surefoot nic run: directory {}{also}", directory.path().display());
    let progress = Progress::new(options.messages);
    let config = RunConfig {
        message_count: if options.serve { 0 } else { options.messages },
        message_bytes: options.size,
        window: options.window,
        hang_at: options.hangs(),
        seed: options.seed,
        link,
        build: Build::Tolerant,
        spin_ns: SPIN_NS,
        directory,
        program: program(),
        patience: PATIENCE,
        stop,
        progress: &|delivered, failures| progress.show(delivered, failures),
    };
    let result = run::run(&config);
    progress.end();
    let result = result.map_err(told)?;
    if result.unwritten_count > 0 {
        tell!(
            "surefoot nic run: {} steps of the daemons could not be written down, as on a full disk: detections and recoveries \
             are missing from the result",
            result.unwritten_count
        );
    }
    Ok(ResultLine {
        clock: "wall",
        link: name,
        only_served: options.serve,
        message_bytes: if options.serve { 0 } else { options.size },
        asked_count: options.hang_at.len() as u64,
        failure_count: result.failure_count,
        recovery_count: result.recovery_count,
        detection_ns: Spread::of(result.detection_ns),
        recovery_ns: Spread::of(result.recovery_ns),
        detected_by: result.detected_by,
        elapsed_ns: result.elapsed_ns,
        dropped_count: result.dropped_count,
        is_complete: result.is_done,
        ..ResultLine::of(&result.verdict)
    })
}

/// How far a run is, on a terminal.
struct Progress {
    total: u32,
    begun: Instant,
    shown: Cell<Option<Instant>>,
}

impl Progress {
    fn new(total: u32) -> Self {
        Progress { total, begun: Instant::now(), shown: Cell::new(None) }
    }

    fn show(&self, delivered: u32, failures: u64) {
        let is_early = self.shown.get().is_some_and(|at| at.elapsed() < TELL);
        if is_early || !io::stderr().is_terminal() {
            return;
        }
        self.shown.set(Some(Instant::now()));
        let rate = f64::from(delivered) / self.begun.elapsed().as_secs_f64().max(1e-3);
        let hung = if failures == 0 { String::new() } else { format!(", {failures} hangs") };
        let _ = write!(
            surefoot_console::people::stderr(),
            "\r{delivered} of {} messages delivered, {rate:.0} in a second{hung} ",
            self.total
        );
    }

    fn end(&self) {
        if self.shown.get().is_some() {
            tell!("");
        }
    }
}

/// A new run directory. Root is led to it by no link of another user's.
fn made(path: &Path) -> anyhow::Result<RunDirectory> {
    let cannot = || format!("--run: cannot make {}", path.display());
    let parent = surefoot_store::output::directory(path).with_context(cannot)?;
    let name = path.file_name().with_context(cannot)?;
    RunDirectory::create_in(&parent, name, path).map_err(told)
}

/// In memory where there is such a file system: what is shared is written all the time.
fn default_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    base.join(format!("{}{}", directory::NAMES[0], std::process::id()))
}
