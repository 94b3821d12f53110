//! What is kept of experiments, line by line or event by event, as events.

use crate::plan::lines::{DifferenceLine, EffectLine, GivenUpLine, PlanLine, RowLine, RunLine, SummaryLine};
use crate::plan::record;
use crate::run::lines::Line;
use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use surefoot_console::exit::Outcome;
use surefoot_model::{
    CpuId, DisturbEvent, Event, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentOutcome, ExperimentRow,
    StreamClock,
};
use surefoot_rooms::disturb::{PredictionView, State};

/// No file of lines is longer.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// No line is longer.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Predictions of one file.
const PREDICTIONS_MAX: usize = 2_000;
/// What a recording begins with.
const RECORDING: &[u8] = b"SUREFOOT";
const NOT: &str = "not of `surefoot disturb run --json` or `disturb predict --json`, nor of a journal";

/// Reads a recording: hands out each event, and says whether it is whole.
pub type ReadRecording = fn(&Path, &mut dyn FnMut(Event)) -> anyhow::Result<Outcome>;

/// What was read so far.
#[derive(Default)]
pub struct Reading {
    /// The experiments.
    pub state: State,
    /// The wall clock beside the monotonic one.
    pub clock: StreamClock,
    /// Lines of `--json` whose effect has not come yet.
    waiting: Vec<DisturbEvent>,
    /// The head of several workloads whose summary has not come yet.
    plan: Option<PlanLine>,
    count: u32,
    /// Lines of other kinds.
    passed_over: u64,
    /// The predictions.
    pub predictions: Vec<PredictionView>,
    /// Messages of what was not as it should be.
    pub notices: Vec<String>,
}

impl Reading {
    /// Reads all of a file.
    ///
    /// # Errors
    /// It is nothing that is kept of an experiment.
    pub fn file(&mut self, path: &Path, recording: ReadRecording) -> anyhow::Result<Outcome> {
        let found = surefoot_foreign::hold(path)?.regular()?;
        let file = found.open()?;
        ensure!(found.about().bytes <= FILE_BYTES_MAX, "larger than any experiment: {FILE_BYTES_MAX} bytes at most");
        let mut reader = BufReader::new(file.take(FILE_BYTES_MAX));
        if reader.fill_buf()?.starts_with(RECORDING) {
            return recording(path, &mut |event| self.event(&event));
        }
        let (mut number, mut is_torn) = (0u64, false);
        let mut line = Vec::new();
        loop {
            line.clear();
            number += 1;
            let read = (&mut reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
            match read {
                0 => break,
                LINE_BYTES_MAX => bail!("line {number}: longer than any line of an experiment"),
                _ => match self.line(&line).with_context(|| format!("line {number}")) {
                    // What was being written when the machine stopped, or the disk was full.
                    Err(_) if number > 1 && !line.ends_with(b"\n") => is_torn = true,
                    read => read?,
                },
            }
        }
        if self.passed_over > 0 {
            self.notices.push(format!("{} lines of other kinds are passed over", self.passed_over));
        }
        if is_torn {
            self.notices.push(format!("{}: its last line is cut off, and left out", path.display()));
        }
        if !self.cut_short() {
            return Ok(if is_torn { Outcome::Found } else { Outcome::Done });
        }
        let path = path.display();
        self.notices.push(format!("{path}: it ends before the effect; the experiment was cut short"));
        Ok(Outcome::Found)
    }

    fn event(&mut self, event: &Event) {
        self.clock.take(event);
        if let Event::Disturb(seen) = event {
            self.state.take(seen);
        }
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let value: Value = serde_json::from_slice(line).context(NOT)?;
        if value.get("seen").is_some() {
            let event: DisturbEvent = parsed(value)?;
            self.event(&Event::Disturb(event));
            return Ok(());
        }
        let Some(kind) = value.get("type").and_then(Value::as_str) else { bail!("{NOT}: it has no 'type'") };
        if self.plan.is_some() && self.of_several(kind, &value)? {
            return Ok(());
        }
        match kind {
            "stall" | "run" | "effect" => self.of_one(parsed(value)?),
            "plan" => {
                self.cut_short();
                self.plan = Some(parsed(value)?);
            }
            "prediction" => {
                let read: PredictionView =
                    serde_json::from_value(value).context("not of `surefoot disturb predict --json`")?;
                ensure!(self.predictions.len() < PREDICTIONS_MAX, "more than {PREDICTIONS_MAX} predictions");
                ensure!(read.is_possible(), "a prediction has nodes, and numbers above 0");
                self.predictions.push(read);
            }
            other => self.passed_over += u64::from(!matches!(other, "stream" | "draw")),
        }
        Ok(())
    }

    /// A line of one workload under one disturbance.
    fn of_one(&mut self, line: Line) {
        let experiment = self.name();
        match line {
            Line::Stall(stall) => {
                self.waiting.push(DisturbEvent::Stalls { experiment, stalls: vec![stall], left_out_count: 0 });
            }
            Line::Run(run) => self.waiting.push(DisturbEvent::Run { experiment, run: Box::new(run) }),
            Line::Effect(effect) => self.close(Some(effect)),
        }
    }

    /// A line of several; `false` of one that others may be as well.
    fn of_several(&mut self, kind: &str, value: &Value) -> anyhow::Result<bool> {
        let row = match kind {
            "run" => {
                let (experiment, run) = (self.name(), Box::new(parsed::<RunLine>(value.clone())?.told()));
                self.waiting.push(DisturbEvent::Run { experiment, run });
                return Ok(true);
            }
            "summary" => {
                self.close_several(Some(parsed(value.clone())?));
                return Ok(true);
            }
            "effect" => parsed::<EffectLine>(value.clone())?.told(),
            "difference" => parsed::<DifferenceLine>(value.clone())?.told(),
            "given_up" => parsed::<GivenUpLine>(value.clone())?.told(),
            "row" => parsed::<RowLine>(value.clone())?.told(),
            _ => return Ok(false),
        };
        let row: Box<ExperimentRow> = row.into();
        self.waiting.push(DisturbEvent::Row { experiment: self.name(), row });
        Ok(true)
    }

    /// What has begun and has no end is closed without; whether there was any.
    fn cut_short(&mut self) -> bool {
        let is_open = self.plan.is_some() || !self.waiting.is_empty();
        match self.plan {
            Some(_) => self.close_several(None),
            None if is_open => self.close(None),
            None => {}
        }
        is_open
    }

    fn close_several(&mut self, summary: Option<SummaryLine>) {
        let Some(head) = self.plan.take() else { return };
        let began = ExperimentBegan { experiment: self.name(), ..record::began_of_lines(&head) };
        let ended = match summary {
            None => self.vanished(),
            Some(summary) => ExperimentEnded {
                summary: summary.words(),
                warnings: summary.warnings,
                ..ExperimentEnded::new(self.name(), (0, 0), ExperimentOutcome::Finished, String::new())
            },
        };
        self.told(began, ended);
    }

    /// What was to be done is in the effect alone; on which cores it was done, the stalls tell.
    fn began_by_stalls(&self) -> ExperimentBegan {
        let stalls = self.waiting.iter().flat_map(|event| match event {
            DisturbEvent::Stalls { stalls, .. } => stalls.as_slice(),
            _ => &[],
        });
        let mut cores: Vec<CpuId> = stalls.filter_map(|stall| stall.core).collect();
        cores.sort_unstable();
        cores.dedup();
        ExperimentBegan {
            experiment: self.name(),
            is_of_cores: !cores.is_empty(),
            cores,
            workload: "not known: the lines end before they tell it".into(),
            ..ExperimentBegan::default()
        }
    }

    fn vanished(&self) -> ExperimentEnded {
        let why = "its lines end before the effect".to_owned();
        ExperimentEnded::new(self.name(), (0, 0), ExperimentOutcome::Vanished, why)
    }

    /// The lines themselves name no experiment.
    fn name(&self) -> String {
        format!("{:06}", self.count)
    }

    /// An experiment is complete, or the file is.
    fn close(&mut self, effect: Option<Box<ExperimentEffect>>) {
        let experiment = self.name();
        let began = match effect.as_deref() {
            Some(effect) => ExperimentBegan {
                experiment: experiment.clone(),
                disturbance: effect.method.clone(),
                method: effect.method.clone(),
                is_of_cores: record::is_of_cores(&effect.method),
                cores: effect.cores.clone(),
                length_ns: effect.length_ns,
                period_ns: effect.period_ns,
                workload: effect.workload.clone(),
                metric: effect.metric.clone(),
                run_count: effect.repetitions.saturating_mul(2).saturating_add(1),
                ..ExperimentBegan::default()
            },
            None => self.began_by_stalls(),
        };
        let ended = match effect {
            None => self.vanished(),
            effect => ExperimentEnded {
                effect,
                ..ExperimentEnded::new(experiment, (0, 0), ExperimentOutcome::Finished, String::new())
            },
        };
        self.told(began, ended);
    }

    /// The next one has another name.
    fn told(&mut self, began: ExperimentBegan, ended: ExperimentEnded) {
        let waiting = std::mem::take(&mut self.waiting);
        self.count += 1;
        let all = [vec![DisturbEvent::Began(Box::new(began))], waiting, vec![DisturbEvent::Ended(ended)]].concat();
        all.iter().for_each(|event| self.state.take(event));
    }
}

fn parsed<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context(NOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &str) -> (State, anyhow::Result<Outcome>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut reading = Reading::default();
        let outcome = reading.file(file.path(), |_, _| panic!("no recording"));
        (reading.state, outcome)
    }

    const RUN: &str = r#"{"type":"run","run":1,"repetition":0,"condition":"disturbed","value":1.5,"start_ns":1,"wall_ns":1,"stall_count":1,"injected_share":0.1,"missed_stalls":0,"dropped_stalls":0,"cut_stalls":0,"left_behind":0,"dropped_bytes":0,"load":null}"#;

    #[test]
    fn a_file_that_ends_too_early_shows_what_there_is_and_says_so() {
        let stall = r#"{"type":"stall","run":1,"core":0,"start_ns":1,"length_ns":2,"target_ns":1}"#;
        let (state, outcome) = read(&format!("{}\n{stall}\n{RUN}\n", r#"{"type":"stream","schema":2}"#));
        let one = state.experiments().next().unwrap();
        assert_eq!((one.runs.len(), one.stalls.len(), one.standing()), (1, 1, "vanished"));
        assert!(matches!(outcome, Ok(Outcome::Found)));
        // By its stalls it was of cores; of what it was to be, nothing is made up.
        assert!(one.began.is_of_cores && one.began.workload.starts_with("not known"), "{:?}", one.began);
        let (state, outcome) = read(&format!("{stall}\n{RUN}\n{}", &RUN[..100]));
        let runs = state.experiments().map(|one| one.runs.len()).sum::<usize>();
        assert!(runs == 1 && matches!(outcome, Ok(Outcome::Found)), "the line that is cut off is left out");
    }

    #[test]
    fn what_is_no_experiment_is_refused_with_its_line() {
        for (text, said) in [
            ("nothing\n".to_owned(), "line 1: not of `surefoot disturb run --json` or"),
            (
                format!("{RUN}\n{{\"a\":1}}\n"),
                "line 2: not of `surefoot disturb run --json` or `disturb predict --json`, nor of a journal: it has no 'type'",
            ),
            (RUN.replace("\"value\":1.5", "\"value\":null"), "line 1: not of"),
            (format!("\"{}\"", "x".repeat(LINE_BYTES_MAX)), "line 1: longer than any line"),
        ] {
            let error = format!("{:#}", read(&text).1.unwrap_err());
            assert!(error.starts_with(said), "{error}");
        }
        let mut reading = Reading::default();
        let error = reading.file(Path::new("/dev/zero"), |_, _| panic!("no recording")).unwrap_err();
        assert!(error.to_string().starts_with("it is not a regular file"), "{error}");
    }
}
