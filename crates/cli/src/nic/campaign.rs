//! `surefoot nic campaign`: what bits that flip or stick do to the traffic of an interface.

mod blocks;
pub mod describe;
mod file;
pub mod lines;
pub mod options;
mod report;
mod text;

use crate::exit::Outcome;
use crate::output;
use anyhow::{Context, bail};
use lines::FaultLine;
use options::{CampaignCommand, CampaignOptions, Choice};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::whole::Place;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::device::TrapPolicy;
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

fn campaign(options: &CampaignOptions) -> anyhow::Result<Outcome> {
    let mut experiment = chosen(&options.choice)?;
    if let Some(repeat) = options.repeat {
        experiment.repeat = repeat;
    }
    let sample = options.sample.or_else(|| Preset::named(&experiment.name).and_then(Preset::sample));
    let golden = Golden::run(&experiment, options.seed)?;
    let all = experiment.faults(golden.firmware(), golden.window(), sample, options.seed)?;
    let range = options.shard.range(all.len() as u64);
    let range = range.start as usize..range.end as usize;
    let faults = &all[range.clone()];
    let mut lab = Lab::new(golden);
    let mut report = report::Report::default();
    let mut file = options.output.as_deref().map(file::ResultFile::open).transpose()?;
    let done = match &mut file {
        Some(file) => {
            let part = file::Part { experiment: &experiment, seed: options.seed, all: &all, range: range.clone() };
            file.resume(&part, &mut report)?
        }
        None => 0,
    };
    let mut out = io::BufWriter::new(crate::people::stdout());
    if options.json {
        output::stream(&mut out, "nic campaign")?;
    }
    let mut progress = Progress::new(faults.len());
    for (place, fault) in faults.iter().enumerate().skip(done) {
        let number = (range.start + place + 1) as u64;
        let place_of = Place { number, of: all.len() as u64, experiment: experiment.digest() };
        let line = FaultLine::of(&lab.record(fault)?, Some(place_of));
        if let Some(file) = &mut file {
            file.append(&line)?;
        } else if options.json {
            output::line(&mut out, &line)?;
        }
        report.add(&line).map_err(anyhow::Error::msg).context("a line of its own")?;
        progress.show(place + 1);
    }
    progress.end(&lab, faults.len() - done);
    report.print(&mut out, options.json)?;
    out.flush()?;
    Ok(report.outcome())
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
        let _ = write!(crate::people::stderr(), "\r{done} of {} faults", self.total);
    }

    /// Says how quick it was; to people, and so not part of what is the same for the same seed.
    fn end(&self, lab: &Lab, count: usize) {
        if self.shown.is_some() {
            let _ = write!(crate::people::stderr(), "\r");
        }
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-9);
        crate::people::tell!(
            "{count} faults in {seconds:.2} s, {:.0} per second on one core: {} run ({} of them to the first moment without a difference), {} masked by construction",
            count as f64 / seconds,
            lab.run_count,
            lab.early_count,
            lab.pruned_count
        );
    }
}
