//! Runs the paper's microbenchmark, every policy with every size, in turns.

use super::directories::OwnDirectory;
use super::figures::{Cell, Figures};
use super::options::BenchOptions;
use super::printed::Measured;
use super::program::{LimitedMemory, Program, why_no_limited_memory};
use super::setup::{Directories, PAPER_RANKS, Saver, Setup};
use super::{output, picture, tables};
use anyhow::Context;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_checkpoint::simulate::Kind;
use surefoot_checkpoint::{Disk, Storage};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::words::{size, time};
use surefoot_heal::limits::memory_available_bytes;

/// More runs than this are no table any more.
const RUNS_MAX: usize = 5_000;

/// The speed of memory by which the time is estimated: low rather than high.
const MEMORY_BYTES_PER_S: f64 = 4e9;

/// A run may take so many times as long as estimated, and a minute.
const PATIENCE: f64 = 20.0;

/// What was measured.
pub struct Results {
    pub setup: Setup,
    /// Megabytes of each of the paper's processes, ascending.
    pub sizes_mb: Vec<f64>,
    pub savers: Vec<Saver>,
    /// A cell per saver and size, saver by saver.
    pub cells: Vec<Cell>,
    /// Each run with its round.
    pub runs: Vec<(usize, Saver, f64, Figures)>,
    /// What was not run, and why.
    pub not_run: Vec<(Saver, String)>,
    /// What there is to know of where it ran.
    pub notes: Vec<String>,
}

pub fn run(options: &BenchOptions) -> anyhow::Result<Outcome> {
    let svg = options.svg.as_deref().map(|path| Destination::open("--svg", path)).transpose()?;
    let csv = options.csv.as_deref().map(|path| Destination::open("--csv", path)).transpose()?;
    let bench = Bench::new(options)?;
    bench.say_estimate();
    let measured = bench.all()?;
    let results = bench.results(measured);
    drop(bench);
    if let Some(svg) = svg {
        svg.write(|out| out.write_all(picture::svg(&results).as_bytes()))?;
    }
    if let Some(csv) = csv {
        csv.write(|out| output::csv(out, &results))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::json(&mut out, &results)?;
    } else {
        out.write_all(tables::text(&results).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// A run that has ended.
struct Ended {
    round: usize,
    saver: Saver,
    size_mb: f64,
    measured: Measured,
}

struct Bench {
    setup: Setup,
    sizes_mb: Vec<f64>,
    savers: Vec<Saver>,
    rounds: usize,
    program: Program,
    memory: OwnDirectory,
    durable: OwnDirectory,
    not_run: Vec<(Saver, String)>,
    stop: &'static AtomicBool,
}

impl Bench {
    fn new(options: &BenchOptions) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let setup = Setup {
            iterations: options.iterations,
            scale: options.scale,
            ranks: options.ranks.unwrap_or(cores.min(PAPER_RANKS)),
            ssd_bytes_per_s: options.ssd_mb_s * 1e6,
            staleness_max_s: options.staleness_s,
            ..Setup::default()
        };
        let mut sizes_mb = options.sizes_mb.clone();
        sizes_mb.sort_by(f64::total_cmp);
        sizes_mb.dedup();
        let chosen = |saver: &Saver| options.policies.is_empty() || options.policies.contains(saver);
        let savers: Vec<Saver> = Saver::all().into_iter().filter(chosen).collect();
        let rounds = options.rounds.unwrap_or(1) as usize;
        let runs = savers.len() * sizes_mb.len() * rounds;
        anyhow::ensure!(runs <= RUNS_MAX, "--sizes-mb, --rounds: {runs} runs are more than {RUNS_MAX}");
        let program = Program::compile(options.library.as_deref())?;
        let memory = OwnDirectory::below("--memory", &options.memory)?;
        let durable = OwnDirectory::below("--durable", &options.durable)?;
        let stop = surefoot_sys::signals::stop_flag()?;
        let mut bench = Bench { setup, sizes_mb, savers, rounds, program, memory, durable, not_run: Vec::new(), stop };
        bench.expect_room()?;
        bench.leave_out_what_cannot_run()?;
        Ok(bench)
    }

    /// Refuses what would not fit, before anything runs.
    fn expect_room(&self) -> anyhow::Result<()> {
        let largest = self.setup.node_bytes(self.sizes_mb.last().copied().unwrap_or(0.0) * 1e6);
        let needed = |of: fn(&Setup, f64, Saver) -> f64| {
            self.savers.iter().map(|&saver| of(&self.setup, largest, saver)).fold(0.0, f64::max)
        };
        let free = |path: &Path| Disk.free_bytes(path).with_context(|| path.display().to_string());
        let in_memory = free(self.memory.path())?.min(memory_available_bytes(Path::new("/")).unwrap_or(u64::MAX));
        for (option, needed, free) in [
            ("--memory", needed(Setup::memory_needed_bytes), in_memory),
            ("--durable", needed(Setup::durable_needed_bytes), free(self.durable.path())?),
        ] {
            anyhow::ensure!(
                needed <= free as f64,
                "{option}: {} are needed and {} are free; take a smaller --scale or smaller --sizes-mb",
                size(needed),
                size(free as f64)
            );
        }
        Ok(())
    }

    fn leave_out_what_cannot_run(&mut self) -> anyhow::Result<()> {
        let limited = Saver::Library(Kind::SizeLimited);
        if !self.savers.contains(&limited) {
            return Ok(());
        }
        let directory = self.memory.fresh("tier")?;
        let memory = LimitedMemory { directory: &directory, bytes: self.setup.limited_memory_bytes() };
        if let Some(why) = why_no_limited_memory(&memory) {
            self.savers.retain(|&saver| saver != limited);
            self.not_run.push((limited, why));
        }
        Ok(())
    }

    fn estimate_s(&self, saver: Saver, size_mb: f64) -> f64 {
        self.setup.estimate_s(saver, self.setup.node_bytes(size_mb * 1e6), MEMORY_BYTES_PER_S)
    }

    fn estimate_all_s(&self) -> f64 {
        let each = self.savers.iter().flat_map(|&saver| self.sizes_mb.iter().map(move |&size_mb| (saver, size_mb)));
        self.rounds as f64 * each.map(|(saver, size_mb)| self.estimate_s(saver, size_mb)).sum::<f64>()
    }

    fn say_estimate(&self) {
        let runs = self.savers.len() * self.sizes_mb.len() * self.rounds;
        surefoot_console::tell!("{runs} runs, about {}", time(self.estimate_all_s()));
        for (saver, why) in &self.not_run {
            surefoot_console::tell!("{} is not run: {why}", saver.name());
        }
    }

    /// Every round, in each of which policies take turns in another order, size by size.
    fn all(&self) -> anyhow::Result<Vec<Ended>> {
        let mut progress = Progress::new(self.estimate_all_s());
        let mut ended = Vec::new();
        for round in 0..self.rounds {
            for &size_mb in &self.sizes_mb {
                let mut turns = self.savers.clone();
                let first = round % turns.len().max(1);
                turns.rotate_left(first);
                for saver in turns {
                    progress.show(&format!("{} with {size_mb} MB", saver.name()));
                    let measured = self.one(saver, size_mb);
                    let measured = measured.with_context(|| format!("{} with {size_mb} MB", saver.name()))?;
                    progress.done_s += self.estimate_s(saver, size_mb);
                    ended.push(Ended { round, saver, size_mb, measured });
                }
            }
        }
        Ok(ended)
    }

    /// One run, in directories that nothing was in before.
    fn one(&self, saver: Saver, size_mb: f64) -> anyhow::Result<Measured> {
        let node_bytes = self.setup.node_bytes(size_mb * 1e6);
        let (memory, durable) = (self.memory.fresh("tier")?, self.durable.fresh("tier")?);
        let arguments = self.setup.arguments(saver, node_bytes, Directories { memory: &memory, durable: &durable });
        let limited = LimitedMemory { directory: &memory, bytes: self.setup.limited_memory_bytes() };
        let limited = (saver == Saver::Library(Kind::SizeLimited)).then_some(&limited);
        let at_most = Duration::from_secs_f64(60.0 + PATIENCE * self.estimate_s(saver, size_mb));
        let text = self.program.run(self.setup.ranks, &arguments, limited, at_most, self.stop)?;
        Ok(Measured::read(&text)?)
    }

    fn results(&self, ended: Vec<Ended>) -> Results {
        let none_beside = |run: &Ended| {
            let is_none = |other: &&Ended| {
                other.saver == Saver::Library(Kind::None) && (other.round, other.size_mb) == (run.round, run.size_mb)
            };
            ended.iter().find(is_none).map(|none| &none.measured)
        };
        let runs: Vec<(usize, Saver, f64, Figures)> = ended
            .iter()
            .map(|run| (run.round, run.saver, run.size_mb, Figures::of(&self.setup, &run.measured, none_beside(run))))
            .collect();
        let mut cells = Vec::new();
        for &saver in &self.savers {
            for &size_mb in &self.sizes_mb {
                let of_cell = runs.iter().filter(|(_, of, mb, _)| (*of, *mb) == (saver, size_mb));
                let rounds = of_cell.map(|(.., figures)| figures.clone()).collect();
                cells.push(Cell { saver, node_bytes: self.setup.node_bytes(size_mb * 1e6), rounds });
            }
        }
        let notes = cells.iter().zip(self.savers.iter().flat_map(|_| &self.sizes_mb)).filter_map(failures).collect();
        Results {
            setup: self.setup,
            sizes_mb: self.sizes_mb.clone(),
            savers: self.savers.clone(),
            cells,
            runs,
            not_run: self.not_run.clone(),
            notes,
        }
    }
}

/// Which checkpoints failed: a row of the table that some are missing from is to be read with care.
fn failures((cell, size_mb): (&Cell, &f64)) -> Option<String> {
    let failed: u64 = cell.rounds.iter().map(|run| run.failed_count).sum();
    let name = cell.saver.name();
    (failed > 0)
        .then(|| format!("{name} with {size_mb} MB: {failed} checkpoints failed in all rounds, and count as skipped"))
}

/// A line on standard error, where that is a terminal.
struct Progress {
    is_shown: bool,
    began: Instant,
    done_s: f64,
    all_s: f64,
    shown_chars: usize,
}

impl Progress {
    fn new(all_s: f64) -> Self {
        let is_shown = io::stderr().is_terminal();
        Progress { is_shown, began: Instant::now(), done_s: 0.0, all_s, shown_chars: 0 }
    }

    fn show(&mut self, what: &str) {
        if !self.is_shown {
            return;
        }
        let text = progress_line(what, self.done_s, self.all_s, self.began.elapsed());
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        let chars = text.chars().count();
        let rest = " ".repeat(self.shown_chars.saturating_sub(chars));
        self.shown_chars = chars;
        // A terminal that went away is no reason to stop.
        let _ = write!(io::stderr(), "\r{text}{rest}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown_chars > 0 {
            self.write("");
            let _ = write!(io::stderr(), "\r");
        }
    }
}

/// How far it is, and how long it will take by how long it took so far.
fn progress_line(what: &str, done_s: f64, all_s: f64, took: Duration) -> String {
    const WIDTH: usize = 30;
    let share = if all_s > 0.0 { (done_s / all_s).clamp(0.0, 1.0) } else { 1.0 };
    let filled = (share * WIDTH as f64) as usize;
    let left_s = if done_s > 0.0 { took.as_secs_f64() / done_s } else { 1.0 } * (all_s - done_s).max(0.0);
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
    format!("[{bar}] {:3.0} %  about {} left  {what}", share * 100.0, time(left_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_long() {
        let text = progress_line("ssd with 700 MB", 300.0, 600.0, Duration::from_secs(360));
        assert_eq!(text, "[###############...............]  50 %  about 6.00 min left  ssd with 700 MB");
        assert!(progress_line("", 0.0, 0.0, Duration::ZERO).contains("100 %"));
    }
}
