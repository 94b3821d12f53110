//! `surefoot disturb run --experiment FILE` and `--preset NAME`: several workloads under several disturbances.

mod list;

pub use list::list;

use super::run::{RunOptions, guard, person};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::people::tell;
use surefoot_console::units::duration;
use surefoot_console::{output, people};
use surefoot_disturb::disturbance::Stall;
use surefoot_disturb::plan::{self, Done, Plan, Told};
use surefoot_disturb::preset::{Drawn, Preset};
use surefoot_disturb::safety::{self, Permit};
use surefoot_disturb::workload::ready::Setting;
use surefoot_experiment::log::Log;
use surefoot_experiment::plan::file::{self, Beside};
use surefoot_experiment::plan::lines::{PlanLine, RunLine, StallLine};
use surefoot_experiment::plan::report::Report;
use surefoot_experiment::plan::resume::Kept;
use surefoot_experiment::plan::{extras, record, text, warnings};
use surefoot_experiment::run::lines::stall as stall_of;
use surefoot_hostfs::{Root, cpus};
use surefoot_memory::simulate::{Shape, shape};
use surefoot_model::InjectedStall;
use surefoot_sys::signals;

/// A quick preset has ended by then, also on a machine that is slower than expected.
const QUICK_LIMIT: Duration = Duration::from_secs(9 * 60);

/// What was asked for.
struct Asked {
    name: String,
    preset: Option<Preset>,
    is_quick: bool,
    plan: Plan,
}

/// Whether it is several workloads that are asked for.
pub fn is_asked(options: &RunOptions) -> bool {
    options.preset.is_some() || options.experiment.is_some()
}

/// The host as ready-made workloads see it.
pub fn setting(is_quick: bool, root: &Root) -> anyhow::Result<Setting> {
    Ok(Setting { cores: cpus::online(root)?, is_quick })
}

fn asked(options: &RunOptions, root: &Root) -> anyhow::Result<Asked> {
    let setting = setting(options.quick, root)?;
    let (limits, is_quick) = ((options.time_limit, options.total_limit), options.quick);
    match (&options.preset, &options.experiment) {
        (Some(choice), _) => {
            let preset = choice.0;
            let total_limit = if is_quick { QUICK_LIMIT.min(limits.1) } else { limits.1 };
            let plan = Plan {
                cases: preset.cases(&setting, &guard()),
                repetitions: options.repetitions.unwrap_or(preset.repetitions(is_quick)),
                warms_up: !is_quick,
                seed: options.seed,
                time_limit: limits.0,
                total_limit,
            };
            Ok(Asked { name: preset.name().into(), preset: Some(preset), is_quick, plan })
        }
        (None, Some(path)) => {
            let (name, plan) = file::read(path, &beside(options), &setting)?;
            Ok(Asked { name, preset: None, is_quick, plan })
        }
        (None, None) => anyhow::bail!("neither --preset nor --experiment is there"),
    }
}

fn beside(options: &RunOptions) -> Beside {
    let &RunOptions { repetitions, seed, time_limit, total_limit, .. } = options;
    Beside { repetitions, seed, time_limit, total_limit, guard: guard() }
}

pub fn run(options: &RunOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let mut log = options.log.open(&root)?;
    let asked = asked(options, &root)?;
    let head = PlanLine::of(&asked.name, asked.preset, asked.is_quick, &asked.plan);
    let done = told(options, &asked, &head, &root, &mut log);
    if let Err(error) = &done {
        log.went_wrong(|| record::began_of_lines(&head), &format!("{error:#}"));
    }
    // Why the experiment went wrong is more than that its record could not be written.
    let closed = log.close();
    done.and_then(|outcome| closed.map(|()| outcome))
}

/// Does it, and tells of it in the log, in the file of its runs and on standard output.
fn told(options: &RunOptions, asked: &Asked, head: &PlanLine, root: &Root, log: &mut Log) -> anyhow::Result<Outcome> {
    let Asked { name, preset, is_quick, plan } = asked;
    for treatment in plan.cases.iter().flat_map(|case| &case.treatments) {
        safety::check(&treatment.spec, root)
            .map_err(|fault| anyhow::Error::from(fault).context(format!("disturbance '{}'", treatment.name)))?;
    }
    let stop = signals::stop_flag()?;
    let began = Instant::now();
    let prepared = plan.prepare(root)?;
    let permit = prepared.is_of_cores.then(|| Permit::ask(root, person(), options.even_if_in_use)).transpose()?;
    let mut kept = options.resume.as_ref().map(|path| Kept::open(path, head, plan)).transpose()?;
    let known = kept.as_mut().map(Kept::take_known).unwrap_or_default();
    let mut out = io::BufWriter::new(people::stdout());
    log.begin(record::began(head, prepared.is_of_cores, prepared.cores.iter().copied().collect()));
    known.iter().for_each(|done| log.known(RunLine::of(plan, done).told()));
    if options.json {
        output::stream(&mut out, "disturb run --experiment")?;
        output::line(&mut out, head)?;
        known.iter().try_for_each(|done| output::line(&mut out, &RunLine::of(plan, done)))?;
        out.flush()?;
    }
    if !known.is_empty() {
        tell!("{} of {} runs are known from before", known.len(), plan.places().len());
    }
    let progress = Progress { is_shown: io::stderr().is_terminal(), plan };
    let mut broken: Option<anyhow::Error> = None;
    let outcome = plan.run(root, prepared, known, stop, |told| {
        progress.told(&told);
        // What was given up is told again at the end, with what this host cannot do.
        let Told::Run { done, stalls, .. } = told else { return };
        let (line, stalls) = (RunLine::of(plan, done), with_lengths(plan, done, stalls));
        let written = written(&mut out, options.json, kept.as_mut(), &line, &stalls);
        broken = broken.take().or(written.err());
        log.run(line.told(), &stalls);
    })?;
    if let Some(error) = broken {
        return Err(error);
    }
    let is_time_left = began.elapsed() < options.total_limit;
    let extras = preset
        .map(|preset| {
            extras::of(preset, *is_quick, options.reference.as_ref(), is_time_left, root, stop, |number| {
                let Shape { words, above_zero, is_fitted } = shape(number)?;
                Ok(Drawn { words, above_zero, is_fitted })
            })
        })
        .unwrap_or_default();
    let warnings = warnings::of(plan, &outcome, permit.as_ref(), root);
    let rows = preset.map(|preset| preset.rows(&plan.cases, &outcome, &extras)).unwrap_or_default();
    let (rows, warnings, took) = (&rows, &warnings, began.elapsed());
    let report = Report { name, preset: *preset, plan, outcome: &outcome, rows, warnings, took };
    let lines = report.lines();
    lines.record(log);
    if options.json {
        lines.write(&mut out)?;
    } else {
        out.write_all(text::of(&report).as_bytes())?;
    }
    out.flush()?;
    let has_failed = |found: &plan::CaseOutcome| matches!(found.gave_up, Some(plan::NoResult::Failed(_)));
    let is_incomplete = outcome.cases.iter().any(has_failed) || !outcome.has_answer();
    Ok(if is_incomplete { Outcome::Found } else { Outcome::Done })
}

/// The stalls of a run that are told one by one: interrupts and packets have no length, and there are thousands a second.
fn with_lengths(plan: &Plan, done: &Done, stalls: &[Stall]) -> Vec<InjectedStall> {
    let spec = done.place.treatment.map(|treatment| &plan.cases[done.place.case].treatments[treatment].spec);
    let stalls = if spec.is_some_and(|spec| spec.what.has_lengths()) { stalls } else { &[] };
    stalls.iter().map(|stall| stall_of(&done.run, stall)).collect()
}

fn written(
    out: &mut impl Write,
    is_json: bool,
    kept: Option<&mut Kept>,
    line: &RunLine,
    stalls: &[InjectedStall],
) -> anyhow::Result<()> {
    kept.map_or(Ok(()), |kept| kept.add(line))?;
    if is_json {
        stalls.iter().try_for_each(|stall| output::line(out, &StallLine { stall: *stall }))?;
        output::line(out, line)?;
        out.flush()?;
    }
    Ok(())
}

/// How far it is, on a terminal.
struct Progress<'a> {
    is_shown: bool,
    plan: &'a Plan,
}

impl Progress<'_> {
    fn told(&self, told: &Told<'_>) {
        match told {
            Told::Run { done, left, left_time, .. } if self.is_shown => {
                let case = &self.plan.cases[done.place.case];
                let treatment = done.place.treatment.map_or("undisturbed", |place| &case.treatments[place].name);
                let wall = duration(done.run.wall_ns);
                let left_ns = u64::try_from(left_time.as_nanos()).unwrap_or(u64::MAX);
                tell!("{}, {treatment}: {wall}; {left} runs and about {} left", case.name, duration(left_ns));
            }
            Told::Run { .. } => {}
            Told::GaveUp { case, why } => tell!("{} is left out from now on: {why}", self.plan.cases[*case].name),
        }
    }
}
