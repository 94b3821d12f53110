//! `surefoot disturb report`: what an experiment came to, from what was kept of it.

use super::html;
use super::run::lines::Line;
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::units::counted;
use crate::{output, people, record, rooms};
use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use surefoot_daemon::rooms::disturb::{PredictionView, State};
use surefoot_disturb::disturbance::Method;
use surefoot_model::{
    DisturbEvent, Event, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentOutcome, StreamClock,
};

/// No file of lines is longer.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// No line is longer.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Predictions of one file.
const PREDICTIONS_MAX: usize = 2_000;
/// What a recording begins with.
const RECORDING: &[u8] = b"SUREFOOT";

#[derive(Args)]
pub struct ReportOptions {
    /// The output of `surefoot disturb run --json` or `disturb predict --json`, a recording, or the journal of an experiment
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the report as one page of HTML with tables and charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the predictions as a picture: slowdown over nodes, with intervals
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let open = |option, path: &Option<PathBuf>| -> anyhow::Result<Option<Destination>> {
        let destination = path.as_ref().map(|path| Destination::open(option, path)).transpose()?;
        let is_same = destination.as_ref().is_some_and(|destination| destination.is_same(&options.file));
        ensure!(!is_same, "{option}: that is the file that is read; name another one");
        Ok(destination)
    };
    let (html, svg) = (open("--html", &options.html)?, open("--svg", &options.svg)?);
    let mut read = Reading::default();
    let outcome = read.file(&options.file).with_context(|| options.file.display().to_string())?;
    let predictions = &read.predictions;
    let is_nothing = read.state.is_empty() && predictions.is_empty();
    ensure!(!is_nothing, "{}: it holds no experiment and no prediction", options.file.display());
    ensure!(svg.is_none() || !predictions.is_empty(), "--svg: {} holds no prediction", options.file.display());
    let mut out = output::patient();
    if options.json {
        output::stream(&mut out, "disturb report")?;
    }
    rooms::disturb::print(&mut out, &read.state, read.clock.end_realtime_ns(), options.json)?;
    for one in predictions.iter().filter(|_| !options.json) {
        let (low, high) = (one.interval_low, one.interval_high);
        let nodes = counted(one.nodes, "node", "nodes");
        writeln!(out, "{} on {nodes}: {:.4} times as long ({low:.4} to {high:.4})", one.pattern, one.slowdown)?;
    }
    out.flush()?;
    if let Some(destination) = html {
        let path = destination.path().to_owned();
        html::write(destination, &read.state, predictions)?;
        people::tell!("report in {}", path.display());
    }
    if let Some(destination) = svg {
        destination.write(|out| out.write_all(html::picture(predictions).as_bytes()))?;
    }
    Ok(outcome)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    state: State,
    clock: StreamClock,
    /// Lines of `--json` whose effect has not come yet.
    waiting: Vec<DisturbEvent>,
    count: u32,
    /// Lines of other kinds.
    passed_over: u64,
    predictions: Vec<PredictionView>,
}

impl Reading {
    fn file(&mut self, path: &Path) -> anyhow::Result<Outcome> {
        // A pipe that nobody writes to is not waited for.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        let about = file.metadata()?;
        ensure!(about.is_file(), "it is not a regular file");
        ensure!(about.len() <= FILE_BYTES_MAX, "larger than any experiment: {FILE_BYTES_MAX} bytes at most");
        let mut reader = BufReader::new(file.take(FILE_BYTES_MAX));
        if reader.fill_buf()?.starts_with(RECORDING) {
            return record::read(path, |event| self.event(&event));
        }
        let mut number = 0u64;
        let mut line = Vec::new();
        loop {
            line.clear();
            number += 1;
            let read = (&mut reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
            match read {
                0 => break,
                LINE_BYTES_MAX => bail!("line {number}: longer than any line of an experiment"),
                _ => self.line(&line).with_context(|| format!("line {number}"))?,
            }
        }
        if self.passed_over > 0 {
            people::tell!("surefoot: {} lines of other kinds are passed over", self.passed_over);
        }
        if self.waiting.is_empty() {
            return Ok(Outcome::Done);
        }
        people::tell!("surefoot: {}: it ends before the effect; the experiment was cut short", path.display());
        self.close(None);
        Ok(Outcome::Found)
    }

    fn event(&mut self, event: &Event) {
        self.clock.take(event);
        if let Event::Disturb(seen) = event {
            self.state.take(seen);
        }
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let not = "not of `surefoot disturb run --json`, nor of a journal";
        let value: Value = serde_json::from_slice(line).context(not)?;
        if value.get("seen").is_some() {
            let event: DisturbEvent = serde_json::from_value(value).context(not)?;
            self.event(&Event::Disturb(event));
            return Ok(());
        }
        match value.get("type").and_then(Value::as_str) {
            Some("stall" | "run" | "effect") => {}
            Some("prediction") => {
                let read: PredictionView =
                    serde_json::from_value(value).context("not of `surefoot disturb predict --json`")?;
                ensure!(self.predictions.len() < PREDICTIONS_MAX, "more than {PREDICTIONS_MAX} predictions");
                ensure!(read.is_possible(), "a prediction has nodes, and numbers above 0");
                self.predictions.push(read);
                return Ok(());
            }
            Some(kind) => {
                self.passed_over += u64::from(!matches!(kind, "stream" | "draw"));
                return Ok(());
            }
            None => bail!("{not}: it has no 'type'"),
        }
        let experiment = self.name();
        match serde_json::from_value(value).context(not)? {
            Line::Stall(stall) => {
                self.waiting.push(DisturbEvent::Stalls { experiment, stalls: vec![stall], left_out_count: 0 });
            }
            Line::Run(run) => self.waiting.push(DisturbEvent::Run { experiment, run: Box::new(run) }),
            Line::Effect(effect) => self.close(Some(effect)),
        }
        Ok(())
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
                is_of_cores: Method::ALL.iter().all(|one| one.name() != effect.method || one.is_of_cores()),
                cores: effect.cores.clone(),
                length_ns: effect.length_ns,
                period_ns: effect.period_ns,
                workload: effect.workload.clone(),
                metric: effect.metric.clone(),
                run_count: 1 + 2 * effect.repetitions,
                ..ExperimentBegan::default()
            },
            None => ExperimentBegan { experiment: experiment.clone(), ..ExperimentBegan::default() },
        };
        let (outcome, why) = match &effect {
            Some(_) => (ExperimentOutcome::Finished, String::new()),
            None => (ExperimentOutcome::Vanished, "its lines end before the effect".into()),
        };
        let ended = ExperimentEnded { experiment, at_ns: 0, at_realtime_ns: 0, outcome, why, effect };
        let waiting = std::mem::take(&mut self.waiting);
        self.count += 1;
        let all = [vec![DisturbEvent::Began(Box::new(began))], waiting, vec![DisturbEvent::Ended(ended)]].concat();
        all.iter().for_each(|event| self.state.take(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (State, anyhow::Result<Outcome>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut reading = Reading::default();
        let outcome = reading.file(file.path());
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
    }

    #[test]
    fn what_is_no_experiment_is_refused_with_its_line() {
        for (text, said) in [
            ("nothing\n".to_owned(), "line 1: not of `surefoot disturb run --json`"),
            (
                format!("{RUN}\n{{\"a\":1}}\n"),
                "line 2: not of `surefoot disturb run --json`, nor of a journal: it has no 'type'",
            ),
            (RUN.replace("\"value\":1.5", "\"value\":null"), "line 1: not of"),
            (format!("\"{}\"", "x".repeat(LINE_BYTES_MAX)), "line 1: longer than any line"),
        ] {
            let error = format!("{:#}", read(&text).1.unwrap_err());
            assert!(error.starts_with(said), "{error}");
        }
        let mut reading = Reading::default();
        let error = reading.file(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}
