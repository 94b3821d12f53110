//! A detector under stalls that are known: `surefoot disturb run` stalls the core, and the detector is its workload.

use crate::child::Running;
use crate::run::Bench;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long an experiment may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// A stretch of time of the measured core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub start_ns: u64,
    pub length_ns: u64,
}

impl Stretch {
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.length_ns
    }

    /// The same, but for so much at its end.
    pub fn without_end(self, ns: u64) -> Stretch {
        Stretch { length_ns: self.length_ns.saturating_sub(ns), ..self }
    }

    /// How long both are at once.
    pub fn shared_ns(&self, other: &Stretch) -> u64 {
        self.end_ns().min(other.end_ns()).saturating_sub(self.start_ns.max(other.start_ns))
    }
}

/// One run of a detector.
#[derive(Debug, Clone)]
pub struct Ran {
    pub is_disturbed: bool,
    pub whole: Stretch,
    /// What was injected, of which it is told one by one.
    pub stalls: Vec<Stretch>,
    /// How many were injected.
    pub stall_count: u64,
    /// What the detector printed.
    pub said: PathBuf,
}

impl Ran {
    /// Its last seconds, after what a detector needs to begin.
    pub fn last_of(&self, seconds: u64) -> Stretch {
        let start_ns = self.whole.end_ns().saturating_sub(seconds * 1_000_000_000).max(self.whole.start_ns);
        Stretch { start_ns, length_ns: self.whole.end_ns() - start_ns }
    }
}

/// Runs a detector with and without a disturbance, by turns. The shell's `"$OUT"` in the command is the file of its run; `name` is used once.
pub fn run(bench: &Bench, name: &str, spec: &str, command: &str, repetitions: u64) -> anyhow::Result<Vec<Ran>> {
    bench.say(&format!("detectors: {name}"));
    let folder = bench.scratch.file(name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // In the order in which the runs began.
    let workload = format!("OUT=\"{}/$(date +%s%N)\"; {command}", folder.display());
    let mut disturb = Command::new(&bench.surefoot);
    disturb.args(["disturb", "run", "--even-if-in-use", "--json", "--seed", "16", "--disturbance", spec]);
    disturb.args(["--workload", &workload, "--repetitions", &repetitions.to_string()]);
    let said = Running::start(&mut disturb, &bench.scratch.file(&format!("{name}.json")))?.finish(PATIENCE)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    parse(&said, files)
}

/// The runs but that to warm up, from the lines of `disturb run` and the files of its runs.
fn parse(said: &str, files: Vec<PathBuf>) -> anyhow::Result<Vec<Ran>> {
    let lines: Vec<Value> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
    ensure!(of_type("run").count() == files.len(), "{} runs wrote {} files", of_type("run").count(), files.len());
    let stretch = |line: &Value, length: &str| -> anyhow::Result<Stretch> {
        let number = |name: &str| line[name].as_u64().with_context(|| format!("no {name} in {line}"));
        Ok(Stretch { start_ns: number("start_ns")?, length_ns: number(length)? })
    };
    let runs = of_type("run").zip(files).filter(|(line, _)| line["condition"] != "warm_up");
    runs.map(|(line, said)| {
        let stalls = of_type("stall").filter(|stall| stall["run"] == line["run"]);
        Ok(Ran {
            is_disturbed: line["condition"] == "disturbed",
            whole: stretch(line, "wall_ns")?,
            stalls: stalls.map(|stall| stretch(stall, "length_ns")).collect::<anyhow::Result<_>>()?,
            stall_count: line["stall_count"].as_u64().unwrap_or(0),
            said,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn runs_meet_their_stalls_and_their_files() {
        let said = r#"{"type":"run","run":0,"condition":"warm_up","start_ns":1,"wall_ns":9,"stall_count":0}
{"type":"stall","run":1,"core":1,"start_ns":30,"length_ns":5,"target_ns":31}
{"type":"run","run":1,"condition":"disturbed","start_ns":20,"wall_ns":40,"stall_count":1}
{"type":"run","run":2,"condition":"undisturbed","start_ns":70,"wall_ns":40,"stall_count":0}"#;
        let files: Vec<PathBuf> = ["a", "b", "c"].map(PathBuf::from).into();
        let found = parse(said, files.clone()).unwrap();
        assert_eq!(
            found.iter().map(|ran| (ran.is_disturbed, &*ran.said)).collect::<Vec<_>>(),
            [(true, &*files[1]), (false, &*files[2])]
        );
        assert_eq!(found[0].stalls, [Stretch { start_ns: 30, length_ns: 5 }]);
        assert_eq!(found[0].whole.end_ns(), 60);
        assert!(parse(said, vec![]).is_err());
    }
}
