//! `--resume FILE`: what is done is kept in a file, and an experiment that was ended goes on from it.
//!
//! The file has the lines of `--json` that matter: the plan, then each run. A plan that is another one is refused. A line that was being
//! written when the machine stopped is left out, and its run done again.

use super::lines::{PlanLine, RunLine};
use super::named;
use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_disturb::disturbance::Losses;
use surefoot_disturb::experiment::{Condition, Run};
use surefoot_disturb::plan::{Compared, Done, Measure, Plan, RunId};
use surefoot_journal::{Limits, NotLocked, Writer};
use surefoot_model::ExperimentRun;

const LIMITS: Limits = Limits { line_bytes: 16 << 20, file_bytes: 1 << 30 };

/// The file.
pub struct Kept {
    path: PathBuf,
    writer: Writer,
    known: Vec<Done>,
}

impl Kept {
    /// Opens it, or begins it.
    ///
    /// # Errors
    /// It is of another experiment, or damaged.
    pub fn open(path: &Path, head: &PlanLine, plan: &Plan) -> anyhow::Result<Kept> {
        let opened = surefoot_store::output::open(path).with_context(|| format!("--resume: {}", named(path)))?;
        anyhow::ensure!(opened.file.metadata()?.is_file(), "--resume: {}: it is not a regular file", named(path));
        let mut writer = Writer::reopen(&opened.file, LIMITS)?;
        writer.lock(Duration::ZERO).map_err(|why| match why {
            NotLocked::Held => anyhow::anyhow!("--resume: {} is in use by another experiment", named(path)),
            NotLocked::System(error) => anyhow::anyhow!("--resume: {} cannot be locked: {error}", named(path)),
        })?;
        let (known, is_new) = read(writer.file(), head, plan).with_context(|| format!("--resume: {}", named(path)))?;
        let mut kept = Kept { path: path.to_path_buf(), writer, known };
        if is_new {
            kept.write(head)?;
        }
        Ok(kept)
    }

    /// The runs that were done before.
    pub fn take_known(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.known)
    }

    /// Keeps a run.
    pub fn add(&mut self, line: &RunLine) -> anyhow::Result<()> {
        self.write(line)
    }

    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        self.writer.append(line).with_context(|| format!("--resume: {}", named(&self.path)))
    }
}

/// The runs, and whether there is nothing yet.
fn read(file: &File, head: &PlanLine, plan: &Plan) -> anyhow::Result<(Vec<Done>, bool)> {
    let mut lines = BufReader::new(file.take(LIMITS.file_bytes));
    let (mut known, mut is_new) = (Vec::new(), true);
    let wanted = serde_json::to_value(head)?;
    for number in 1.. {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let parsed = serde_json::from_slice::<Value>(&line);
        anyhow::ensure!(
            number > 1 || parsed.as_ref().is_ok_and(|value| value["type"].is_string()),
            "it is no file of runs; name a new one"
        );
        let Ok(value) = parsed else {
            // Only what was written last may be torn; after a later start it stands before other lines.
            continue;
        };
        match value["type"].as_str() {
            Some("plan") => {
                anyhow::ensure!(
                    value == wanted,
                    "line {number} is of another experiment: name a new file, or run that one (workloads, disturbances, \
                     --seed, --repetitions and --quick must be the same)"
                );
                is_new = false;
            }
            Some("run") if !is_new => {
                known.push(done(&value, plan).with_context(|| format!("line {number}"))?);
            }
            Some("run") => anyhow::bail!("line {number}: a run before the plan that it is of"),
            _ => {}
        }
    }
    Ok((known, is_new))
}

/// A run as its line says it.
fn done(value: &Value, plan: &Plan) -> anyhow::Result<Done> {
    let line: RunLine = serde_json::from_value(value.clone()).context("no run of `disturb run --experiment`")?;
    let case = plan.cases.iter().position(|case| case.name == line.workload);
    let case = case.with_context(|| format!("workload '{}' is none of the plan", line.workload))?;
    let known = &plan.cases[case];
    let treatment = |name: &String| {
        let place = known.treatments.iter().position(|treatment| treatment.name == *name);
        place.with_context(|| format!("disturbance '{name}' is none of the workload"))
    };
    let treatment = line.disturbance.as_ref().map(treatment).transpose()?;
    let repetition = line.run.repetition;
    anyhow::ensure!(
        repetition.is_none_or(|number| number < plan.repetitions as u64)
            && (repetition.is_some() || treatment.is_none()),
        "'repetition' is none of the plan"
    );
    let measured = |measure: &Measure| {
        let is_fit = |value: &f64| measure.compared == Compared::Difference || *value > 0.0;
        let value = line.values.get(&measure.name).copied().filter(is_fit);
        value.with_context(|| format!("'values.{}' is no number that fits", measure.name))
    };
    let values = known.measures.iter().map(measured).collect::<anyhow::Result<Vec<f64>>>()?;
    let condition = match (repetition, treatment) {
        (None, _) => Condition::WarmUp,
        (_, None) => Condition::Undisturbed,
        (_, Some(_)) => Condition::Disturbed,
    };
    let ExperimentRun { missed_stalls: missed, dropped_stalls: dropped, cut_stalls: cut, .. } = line.run;
    let run = Run {
        number: line.run.run,
        repetition,
        condition,
        value: values[0],
        start_ns: line.run.start_ns,
        wall_ns: line.run.wall_ns,
        stall_count: line.run.stall_count,
        injected_share: line.run.injected_share,
        losses: Losses { missed, dropped, cut },
        left_behind: line.run.left_behind,
        dropped_bytes: line.run.dropped_bytes,
        load: line.run.load,
    };
    Ok(Done { place: RunId { case, repetition, treatment }, run, values })
}
