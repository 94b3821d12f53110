//! `surefoot stall who --json` at work, and what it says.

use crate::child::{Running, output, pause};
use crate::run::Bench;
use anyhow::Context;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long it may take until it watches.
const LIMIT: Duration = Duration::from_secs(60);

/// How long after the last interrupt it is ended, so that it has read what is there.
const READING: Duration = Duration::from_millis(200);

/// What it is asked to take from the raisers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// No stacks.
    None,
    /// Kernel and user stack of each raise.
    Both,
}

/// It watches.
pub struct Watch {
    running: Running,
    trace: Option<PathBuf>,
}

/// What it said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// The raisers of all interrupts, each with the kind of interrupt.
    pub raisers: Vec<Named>,
    /// The last line.
    pub closing: Closing,
    /// Its process.
    pub pid: u32,
    /// The trace file, where it can write one.
    pub trace: Option<String>,
}

/// One raiser.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Named {
    /// The kind of interrupt, such as `tlb_shootdown`.
    #[serde(skip)]
    pub kind: String,
    /// The function that was asked for.
    pub function: String,
    /// The system call; empty outside one.
    pub syscall: String,
    /// The thread's name.
    pub comm: String,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// How often.
    pub count: u64,
}

#[derive(Deserialize)]
struct InterruptLine {
    kind: String,
    raisers: Vec<Named>,
}

/// The last line that it prints.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Closing {
    /// Called functions whose raiser was found exactly.
    pub joined_count: u64,
    /// Called functions that arrived from elsewhere.
    pub called_count: u64,
    /// Records that are without a stack because their core raised too many.
    pub records_without_stack: u64,
    /// Records that were lost.
    pub records_dropped: u64,
    /// What watching cost.
    pub cost: Cost,
}

/// What watching cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Cost {
    /// Interrupts that it says it caused on watched cores.
    pub self_interrupts: u64,
}

/// Whether this `surefoot` can write a trace file with one slice per arrival.
pub fn can_trace(bench: &Bench) -> bool {
    let said = output(Command::new(&bench.surefoot).args(["stall", "who", "--help"]));
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("--trace"))
}

impl Watch {
    /// Starts it on the measured core and waits until it watches.
    pub fn start(bench: &Bench, stacks: Stacks, trace: Option<&Path>) -> anyhow::Result<Watch> {
        let mut command = Command::new(&bench.surefoot);
        command.args(["stall", "who", "--json", "--duration", "10m", "--cpu", &bench.cpu.to_string()]);
        // The rate of the benchmark is above what is sampled by default, and each raise shall pay.
        match stacks {
            Stacks::None => command.arg("--no-stacks"),
            Stacks::Both => command.args(["--stacks-per-s", "1000000"]),
        };
        if let Some(path) = trace {
            command.arg("--trace").arg(path);
        }
        let mut running = Running::start(&mut command, &bench.scratch.file("who.out"))?;
        running.wait_for_error("watching", LIMIT)?;
        Ok(Watch { running, trace: trace.map(Path::to_owned) })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Ends it and returns what it said.
    pub fn stop(self) -> anyhow::Result<Said> {
        pause(READING)?;
        let pid = self.pid();
        let text = self.running.interrupt()?;
        let mut said = parse(&text)?;
        said.pid = pid;
        if let Some(path) = self.trace {
            said.trace = Some(std::fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
        Ok(said)
    }
}

fn parse(text: &str) -> anyhow::Result<Said> {
    let mut said = Said::default();
    let mut closing = None;
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).context("who printed no JSON")?;
        match value["type"].as_str() {
            Some("interrupt") => {
                let InterruptLine { kind, raisers } = serde_json::from_value(value)?;
                said.raisers.extend(raisers.into_iter().map(|raiser| Named { kind: kind.clone(), ..raiser }));
            }
            Some("who") => closing = Some(serde_json::from_value(value)?),
            _ => {}
        }
    }
    said.closing = closing.context("who printed no closing line")?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_are_read_and_others_passed_over() {
        let closing = r#"{"type":"who","joined_count":3,"called_count":4,"records":9,"records_without_stack":1,"records_dropped":0,"cost":{"self_interrupts":2}}"#;
        let text = format!(
            "{}\n{}\n{closing}\n",
            r#"{"type":"interrupt","cpu":1,"kind":"timer","raisers":[{"function":"f","syscall":"read","comm":"c","pid":1,"tid":2,"count":3}]}"#,
            r#"{"type":"loop","pid":1}"#
        );
        let said = parse(&text).unwrap();
        assert_eq!((said.raisers.len(), said.raisers[0].kind.as_str(), said.raisers[0].count), (1, "timer", 3));
        assert_eq!((said.closing.joined_count, said.closing.cost.self_interrupts), (3, 2));
        assert!(parse("").is_err() && parse("x\n").is_err());
    }
}
