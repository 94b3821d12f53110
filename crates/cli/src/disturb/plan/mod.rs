//! `surefoot disturb run --experiment FILE` and `--preset NAME`: several workloads under several disturbances.

mod extras;
mod file;
pub mod lines;
mod list;
mod resume;
mod text;
mod warnings;

pub use file::no_preset;
pub use list::list;

use super::run::lines::stall as stall_of;
use super::run::{RunOptions, guard, person};
use crate::exit::Outcome;
use crate::people::tell;
use crate::units::duration;
use crate::{output, people};
use lines::{DifferenceLine, EffectLine, GivenUpLine, PlanLine, RowLine, RunLine, StallLine, SummaryLine};
use resume::Kept;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_disturb::plan::{self, Plan, Told};
use surefoot_disturb::preset::{Preset, Row};
use surefoot_disturb::safety::{self, Permit};
use surefoot_disturb::workload::ready::Setting;
use surefoot_hostfs::{Root, cpus, signals};

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
            let (name, plan) = file::read(path, options, &setting)?;
            Ok(Asked { name, preset: None, is_quick, plan })
        }
        (None, None) => anyhow::bail!("neither --preset nor --experiment is there"),
    }
}

pub fn run(options: &RunOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let is_logged = options.log.record.is_some() || options.log.html.is_some();
    anyhow::ensure!(
        !is_logged,
        "--record and --html are of one workload under one disturbance; keep this with --resume or --json"
    );
    let Asked { name, preset, is_quick, plan } = asked(options, &root)?;
    for treatment in plan.cases.iter().flat_map(|case| &case.treatments) {
        safety::check(&treatment.spec, &root)
            .map_err(|fault| anyhow::Error::from(fault).context(format!("disturbance '{}'", treatment.name)))?;
    }
    let stop = signals::stop_flag()?;
    let began = Instant::now();
    let prepared = plan.prepare(&root)?;
    let permit = prepared.is_of_cores.then(|| Permit::ask(&root, person(), options.even_if_in_use)).transpose()?;
    let head = PlanLine::of(&name, preset, is_quick, &plan);
    let mut kept = options.resume.as_ref().map(|path| Kept::open(path, &head, &plan)).transpose()?;
    let known = kept.as_mut().map(Kept::take_known).unwrap_or_default();
    let mut out = io::BufWriter::new(people::stdout());
    if options.json {
        output::stream(&mut out, "disturb run --experiment")?;
        output::line(&mut out, &head)?;
        known.iter().try_for_each(|done| output::line(&mut out, &RunLine::of(&plan, done)))?;
        out.flush()?;
    }
    if !known.is_empty() {
        tell!("{} of {} runs are known from before", known.len(), plan.places().len());
    }
    let progress = Progress { is_shown: io::stderr().is_terminal(), plan: &plan };
    let mut broken: Option<anyhow::Error> = None;
    let outcome = plan.run(&root, prepared, known, stop, |told| {
        progress.told(&told);
        let written = tell_of(&mut out, options.json, kept.as_mut(), &plan, &told);
        broken = broken.take().or(written.err());
    })?;
    if let Some(error) = broken {
        return Err(error);
    }
    let extras = preset.map(|preset| extras::of(preset, is_quick, &root, stop)).unwrap_or_default();
    let warnings = warnings::of(&plan, &outcome, permit.as_ref(), &root);
    let rows = preset.map(|preset| preset.rows(&plan.cases, &outcome, &extras)).unwrap_or_default();
    let report = Report {
        name: &name,
        preset,
        plan: &plan,
        outcome: &outcome,
        rows: &rows,
        warnings: &warnings,
        took: began.elapsed(),
    };
    if options.json {
        report.lines(&mut out)?;
    } else {
        out.write_all(text::of(&report).as_bytes())?;
    }
    out.flush()?;
    let has_failed = |found: &plan::CaseOutcome| matches!(found.gave_up, Some(plan::Found::Failed(_)));
    Ok(if outcome.cases.iter().any(has_failed) { Outcome::Found } else { Outcome::Done })
}

fn tell_of(
    out: &mut impl Write,
    is_json: bool,
    kept: Option<&mut Kept>,
    plan: &Plan,
    told: &Told<'_>,
) -> anyhow::Result<()> {
    match told {
        Told::Run { done, stalls, .. } => {
            let line = RunLine::of(plan, done);
            if let Some(kept) = kept {
                kept.add(&line)?;
            }
            if is_json {
                let spec =
                    done.place.treatment.map(|treatment| &plan.cases[done.place.case].treatments[treatment].spec);
                // Interrupts and packets have no length, and there are thousands a second.
                let with_lengths = stalls.iter().filter(|_| spec.is_some_and(|spec| spec.what.has_lengths()));
                with_lengths
                    .map(|stall| StallLine { stall: stall_of(&done.run, stall) })
                    .try_for_each(|line| output::line(out, &line))?;
                output::line(out, &line)?;
                out.flush()?;
            }
        }
        // Told again at the end, with those that this host cannot do.
        Told::GaveUp { .. } => {}
    }
    Ok(())
}

/// All that is told at the end.
pub struct Report<'a> {
    pub name: &'a str,
    pub preset: Option<Preset>,
    pub plan: &'a Plan,
    pub outcome: &'a plan::Outcome,
    pub rows: &'a [Row],
    pub warnings: &'a [String],
    pub took: Duration,
}

impl Report<'_> {
    fn lines(&self, out: &mut impl Write) -> io::Result<()> {
        for (case, found) in self.plan.cases.iter().zip(&self.outcome.cases) {
            if let Some(line) = GivenUpLine::of(case, None, found.gave_up.as_ref()) {
                output::line(out, &line)?;
            }
            for (treatment, treated) in case.treatments.iter().zip(&found.treatments) {
                if let Some(line) = GivenUpLine::of_treatment(case, treatment, treated) {
                    output::line(out, &line)?;
                }
                for (measure, measured) in case.measures.iter().zip(&treated.measures) {
                    if let Some(line) = EffectLine::of(self.plan, case, treatment, treated, measure, measured) {
                        output::line(out, &line)?;
                    }
                    if let Some(line) = DifferenceLine::of(case, treatment, treated, measure, measured) {
                        output::line(out, &line)?;
                    }
                }
            }
        }
        for row in self.rows {
            output::line(out, &RowLine::of(self.preset, row))?;
        }
        output::line(out, &SummaryLine::of(self))
    }
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

/// A file name as errors say it.
fn named(path: &Path) -> String {
    path.display().to_string()
}
