//! `surefoot disturb run`.

mod options;
mod progress;

pub use options::{HELP, RunOptions};

use super::plan;
use crate::args::GUARD_WORKLOAD;
use anyhow::Context;
use progress::Progress;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::{output, people};
use surefoot_disturb::Fault;
use surefoot_disturb::disturbance::{Spec, choose};
use surefoot_disturb::experiment::{Experiment, Names, Told};
use surefoot_disturb::safety::{self, Permit};
use surefoot_disturb::workload::ready::Ready;
use surefoot_disturb::workload::{Guard, Metric, Workload, ready};
use surefoot_experiment::log::Log;
use surefoot_experiment::plan::file::no_preset;
use surefoot_experiment::run::lines::{self, Line};
use surefoot_experiment::run::{text, warnings};
use surefoot_hostfs::{Root, privilege};
use surefoot_model::InjectedStall;
use surefoot_sys::signals;

/// What stands before the name of a ready-made workload.
const READY: &str = "preset:";
/// Pairs of runs, unless it is said.
const REPETITIONS: usize = 10;

pub fn run(options: &RunOptions) -> anyhow::Result<Outcome> {
    if plan::is_asked(options) {
        return plan::run(options);
    }
    let root = Root::host();
    let mut log = options.log.open(&root)?;
    let experiment = options.experiment(&root)?;
    let done = told(options, &experiment, &root, &mut log);
    if let Err(error) = &done {
        log.went_wrong(|| lines::began(&experiment, None), &format!("{error:#}"));
    }
    // Why the experiment went wrong is more than that its record could not be written.
    let closed = log.close();
    done.and_then(|outcome| closed.map(|()| outcome))
}

/// Does it, and tells of it in the log and on standard output.
fn told(options: &RunOptions, experiment: &Experiment, root: &Root, log: &mut Log) -> anyhow::Result<Outcome> {
    experiment.check()?;
    safety::check(&experiment.spec, root)?;
    let stop = signals::stop_flag()?;
    let mut chosen = choose(&experiment.spec, root)?;
    let permit = chosen.is_of_cores.then(|| Permit::ask(root, person(), options.even_if_in_use)).transpose()?;
    let mut out = io::BufWriter::new(people::stdout());
    let mut progress = Progress::new(experiment.run_count());
    let mut broken = None;
    if options.json {
        output::stream(&mut out, "disturb run")?;
    }
    log.begin(lines::began(experiment, Some(&chosen)));
    let found = experiment.run(&mut chosen, stop, |told| {
        let Told::Run(run, stalls) = told;
        progress.done(run);
        // Interrupts and packets have no length, and there are thousands a second.
        let stalls = if experiment.spec.what.has_lengths() { stalls } else { &[] };
        let stalls: Vec<InjectedStall> = stalls.iter().map(|stall| lines::stall(run, stall)).collect();
        let run = lines::run(run);
        if options.json {
            let mut lines = || -> io::Result<()> {
                stalls.iter().try_for_each(|stall| output::line(&mut out, &Line::Stall(*stall)))?;
                output::line(&mut out, &Line::Run(run.clone()))?;
                out.flush()
            };
            broken = broken.take().or(lines().err());
        }
        log.run(run, &stalls);
    })?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    let overruled = permit.map(|permit| permit.overruled).unwrap_or_default();
    let warnings = warnings::of(experiment, &chosen, &found, &overruled, root);
    let effect = lines::effect(experiment, &chosen, &found, warnings);
    let is_disturbed = effect.stall_count > 0;
    match is_disturbed {
        true => log.finished(&effect),
        false => log.went_wrong(|| lines::began(experiment, Some(&chosen)), text::NOTHING_DISTURBED),
    }
    if options.json {
        output::line(&mut out, &Line::Effect(Box::new(effect)))?;
    } else {
        out.write_all(text::of(&effect).as_bytes())?;
    }
    out.flush()?;
    Ok(if is_disturbed { Outcome::Done } else { Outcome::Found })
}

/// Surefoot itself, by the link that also leads to a program that was replaced since it started.
pub(super) fn guard() -> Guard {
    Guard { program: "/proc/self/exe".into(), arguments: vec![GUARD_WORKLOAD.into()] }
}

/// The person who asks, also through sudo.
pub(super) fn person() -> u32 {
    let through = std::env::var("SUDO_UID").ok().and_then(|number| number.parse().ok());
    through.unwrap_or_else(privilege::effective_user)
}

impl RunOptions {
    fn experiment(&self, root: &Root) -> anyhow::Result<Experiment> {
        // The command line has refused what lacks them.
        let (disturbance, workload) =
            self.disturbance.as_ref().zip(self.workload.as_ref()).context("--disturbance and --workload are needed")?;
        let ready = workload.strip_prefix(READY).map(|name| self.ready(name, root)).transpose()?;
        let command = ready.as_ref().map_or(workload, |ready| &ready.command);
        let measure = ready.as_ref().and_then(|ready| ready.measures.first()).filter(|_| self.metric.is_none());
        let metric = measure.map(|measure| &measure.metric).or(self.metric.as_ref());
        let (workload, metric) = (Workload::new(command.clone(), guard()), metric.cloned().unwrap_or(Metric::Wall));
        let mut names = Names::of(&workload, &metric);
        if let Some(ready) = &ready {
            names.workload = ready.name.to_owned();
        }
        if let Some(measure) = measure.filter(|measure| !matches!(measure.metric, Metric::Wall)) {
            names.metric.clone_from(&measure.name);
        }
        Ok(Experiment {
            spec: Spec { even_on_bare_metal: self.even_on_bare_metal, ..disturbance.0.clone() },
            workload,
            metric,
            names,
            repetitions: self.repetitions.unwrap_or(REPETITIONS),
            seed: self.seed,
            time_limit: self.time_limit,
            total_limit: self.total_limit,
        })
    }

    /// A ready-made workload that can run here.
    fn ready(&self, name: &str, root: &Root) -> anyhow::Result<Ready> {
        let ready = ready::named(name, &plan::setting(self.quick, root)?);
        let ready = ready.ok_or_else(|| Fault::Refused(no_preset(name)))?;
        if let Some(why) = &ready.unsupported {
            let remedy = "surefoot disturb workloads tells of all".to_owned();
            return Err(Fault::Unsupported { why: format!("{name}: {why}"), remedy }.into());
        }
        Ok(ready)
    }
}
