//! `surefoot nic campaign`: what bits that flip or stick do to the traffic of an interface.

mod blocks;
pub mod describe;
pub mod lines;
pub mod options;
mod report;
mod text;

use anyhow::{Context, bail, ensure};
use lines::FaultLine;
use options::{CampaignCommand, CampaignOptions, Choice};
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_daemon::rooms::nic::campaign::result_file::{Part, Report, ResultFile, open_to_read};
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::whole::Place;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::Firmware;
use surefoot_nic::host::bus::Guard;

pub fn run(options: &CampaignOptions) -> anyhow::Result<Outcome> {
    match &options.command {
        Some(CampaignCommand::Report(of_report)) => report::run(of_report),
        Some(CampaignCommand::Blocks(of_blocks)) => blocks::run(of_blocks),
        None => campaign(options),
    }
}

/// The experiment that the options choose.
pub fn chosen(choice: &Choice) -> anyhow::Result<Experiment> {
    let mut experiment = match (choice.preset, &choice.experiment) {
        (Some(preset), _) => Experiment::preset(preset.into()),
        (None, Some(path)) => describe::read("--experiment", path)?,
        (None, None) => bail!(
            "no experiment: name one with --preset send-chunk, dma-registers, code, data or registers, or describe one with --experiment FILE"
        ),
    };
    if let Some(build) = choice.build {
        experiment.build = build.into();
    }
    if choice.iommu {
        experiment.guard = Guard::Iommu;
    }
    if choice.trap_interrupt {
        experiment.trap_policy = TrapPolicy::Interrupt;
    }
    experiment.check()?;
    Ok(experiment)
}

/// No control program of an interface is longer.
const PROGRAM_BYTES_MAX: u64 = 4 << 20;

/// Runs an experiment without a fault, with the control program that the options choose.
pub fn golden(choice: &Choice, experiment: &Experiment, seed: u64) -> anyhow::Result<Golden> {
    let Some(path) = &choice.program else { return Ok(Golden::run(experiment, seed)?) };
    let at = || format!("--program: {}", path.display());
    let file = open_to_read(path).with_context(|| format!("--program: cannot read {}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(PROGRAM_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(at)?;
    ensure!(bytes.len() as u64 <= PROGRAM_BYTES_MAX, "{} has more than {PROGRAM_BYTES_MAX} bytes", at());
    let firmware = Firmware::read(&bytes).with_context(at)?;
    Golden::run_with(experiment, seed, Arc::new(firmware)).with_context(at)
}

fn campaign(options: &CampaignOptions) -> anyhow::Result<Outcome> {
    let mut experiment = chosen(&options.choice)?;
    if let Some(repeat) = options.repeat {
        experiment.repeat = repeat;
    }
    let golden = golden(&options.choice, &experiment, options.seed)?;
    let of = experiment.place_count(golden.firmware())? * u64::from(experiment.repeat);
    let usual = || Preset::named(&experiment.name).and_then(Preset::sample).filter(|usual| *usual < of);
    let sample = options.sample.or_else(usual);
    let digest = golden.digest();
    let all = experiment.faults(golden.firmware(), golden.window(), sample, options.seed)?;
    let range = options.shard.range(all.len() as u64);
    let range = range.start as usize..range.end as usize;
    let faults = &all[range.clone()];
    let mut lab = Lab::new(golden);
    let mut report = Report::default();
    let mut file = options.output.as_deref().map(ResultFile::open).transpose().context("--output")?;
    let done = match &mut file {
        Some(file) => {
            let part = Part { experiment: &experiment, digest, seed: options.seed, all: &all, range: range.clone() };
            file.resume(&part, &mut report).context("--output")?
        }
        None => 0,
    };
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "nic campaign")?;
    }
    let mut progress = Progress::new(faults.len());
    for (place, fault) in faults.iter().enumerate().skip(done) {
        let number = (range.start + place + 1) as u64;
        let place_of = Place { number, of: all.len() as u64, experiment: digest };
        let line = FaultLine::of(&lab.record(fault)?, Some(place_of));
        if let Some(file) = &mut file {
            file.append(&line).context("--output")?;
        } else if options.json {
            output::line(&mut out, &line)?;
        }
        report.add(&line).map_err(anyhow::Error::msg).context("a line written by this run")?;
        progress.show(place + 1);
    }
    progress.end(&lab, faults.len() - done);
    report::print(&report, &mut out, options.json)?;
    out.flush()?;
    Ok(report::outcome(&report))
}

/// How far a campaign is, on a terminal.
struct Progress {
    total: usize,
    begun: Instant,
    shown: Option<Instant>,
}

impl Progress {
    fn new(total: usize) -> Self {
        Progress { total, begun: Instant::now(), shown: None }
    }

    fn show(&mut self, done: usize) {
        if !io::stderr().is_terminal() || self.shown.is_some_and(|at| at.elapsed() < Duration::from_millis(250)) {
            return;
        }
        self.shown = Some(Instant::now());
        let _ = write!(surefoot_console::people::stderr(), "\r{done} of {} faults", self.total);
    }

    /// Says how quick it was; to people, and so not part of what is the same for the same seed.
    fn end(&self, lab: &Lab, count: usize) {
        if self.shown.is_some() {
            let _ = write!(surefoot_console::people::stderr(), "\r");
        }
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-9);
        let rate = count as f64 / seconds;
        let digits = if rate < 10.0 { 1 } else { 0 };
        surefoot_console::tell!(
            "{count} faults in {seconds:.2} s, {rate:.digits$} per second on one core: {} run ({} of them ended early, as the run without the fault would go on), {} masked by construction",
            lab.run_count,
            lab.early_count,
            lab.pruned_count
        );
    }
}
