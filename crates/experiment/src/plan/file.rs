//! An experiment file: JSON that names disturbances, workloads and how often.

use super::named;
use crate::run::spec::SpecChoice;
use anyhow::Context;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use surefoot_console::units::parse_duration;
use surefoot_disturb::disturbance::Spec;
use surefoot_disturb::plan::{Case, Compared, Measure, Plan, Treatment};
use surefoot_disturb::workload::ready::{self, Setting};
use surefoot_disturb::workload::{Guard, Metric, Workload};

/// A file may be so large.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with \"disturbances\" and \"workloads\"")]
struct ExperimentFile {
    name: Option<String>,
    repetitions: Option<Whole>,
    seed: Option<Whole>,
    time_limit: Option<Time>,
    total_limit: Option<Time>,
    warm_up: Option<bool>,
    disturbances: Vec<DisturbanceFile>,
    workloads: Vec<CaseFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with \"name\" and \"spec\"")]
struct DisturbanceFile {
    name: String,
    spec: SpecText,
}

/// A workload of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with \"command\" or \"preset\"")]
struct CaseFile {
    name: Option<String>,
    command: Option<String>,
    /// A ready-made one instead of a command.
    preset: Option<String>,
    measures: Option<Vec<MeasureFile>>,
    /// The names of its disturbances; all, unless they are named.
    disturbances: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with \"name\" and \"metric\"")]
struct MeasureFile {
    name: String,
    metric: MetricText,
    #[serde(default)]
    compared: ComparedText,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ComparedText {
    #[default]
    Ratio,
    Difference,
}

/// Its errors are of numbers, and not of how a program keeps them.
#[derive(Debug, Clone, Copy)]
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reading;
        impl Visitor<'_> for Reading {
            type Value = Whole;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a whole number")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }
        from.deserialize_u64(Reading)
    }
}

/// Each is read where it stands, so that an error names its line.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct SpecText(Spec);

impl TryFrom<String> for SpecText {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<SpecChoice>().map(|choice| SpecText(choice.0))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct MetricText(Metric);

impl TryFrom<String> for MetricText {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(MetricText)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Time(Duration);

impl TryFrom<String> for Time {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        parse_duration(&text).map(Time)
    }
}

/// What is asked for beside the file.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Goes before what the file says.
    pub repetitions: Option<usize>,
    /// Where the file has none.
    pub seed: u64,
    /// Where the file has none.
    pub time_limit: Duration,
    /// Where the file has none.
    pub total_limit: Duration,
    /// What ends a workload when this process ends.
    pub guard: Guard,
}

/// Reads it: its name and its plan.
///
/// # Errors
/// It cannot be read, or what is wrong in it, with its line or field.
pub fn read(path: &Path, beside: &Beside, setting: &Setting) -> anyhow::Result<(String, Plan)> {
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular()?.open());
    let file = file.with_context(|| format!("--experiment: {}", named(path)))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("--experiment: {}", named(path)))?;
    anyhow::ensure!(
        text.len() as u64 <= FILE_BYTES_MAX,
        "--experiment: {} has more than {FILE_BYTES_MAX} bytes",
        named(path)
    );
    let plan = plan(&text, beside, setting);
    plan.map_err(|why| anyhow::anyhow!("{}: {why}", named(path)))
}

fn plan(text: &str, beside: &Beside, setting: &Setting) -> Result<(String, Plan), String> {
    let file: ExperimentFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let treatments: Vec<Treatment> =
        file.disturbances.into_iter().map(|one| Treatment { name: one.name, spec: one.spec.0 }).collect();
    distinct("disturbances", treatments.iter().map(|treatment| treatment.name.as_str()))?;
    let cases =
        file.workloads.into_iter().enumerate().map(|(place, one)| one.case(place, &treatments, setting, &beside.guard));
    let cases = cases.collect::<Result<Vec<Case>, String>>()?;
    distinct("workloads", cases.iter().map(|case| case.name.as_str()))?;
    let plan = Plan {
        cases,
        repetitions: beside.repetitions.or(file.repetitions.map(|number| number.0 as usize)).unwrap_or(10),
        warms_up: file.warm_up.unwrap_or(true),
        seed: file.seed.map_or(beside.seed, |number| number.0),
        time_limit: file.time_limit.map_or(beside.time_limit, |time| time.0),
        total_limit: file.total_limit.map_or(beside.total_limit, |time| time.0),
    };
    Ok((file.name.unwrap_or_else(|| "experiment".into()), plan))
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > 100 {
            return Err(format!("{what}: a name of {} bytes: 1 to 100 are possible", name.len()));
        }
        if !seen.insert(name) {
            return Err(format!("{what}: '{name}' is there twice"));
        }
    }
    Ok(())
}

impl CaseFile {
    fn case(self, place: usize, treatments: &[Treatment], setting: &Setting, guard: &Guard) -> Result<Case, String> {
        let field = format!("workloads[{place}]");
        let own = self.measures.map(|measures| measures.into_iter().map(MeasureFile::measure).collect::<Vec<_>>());
        let treatments = match &self.disturbances {
            None => treatments.to_vec(),
            Some(names) => {
                distinct(&format!("{field}.disturbances"), names.iter().map(String::as_str))?;
                chosen(&field, names, treatments)?
            }
        };
        let measures = own.iter().flatten().map(|measure| measure.name.as_str());
        distinct(&format!("{field}.measures"), measures)?;
        match (self.command, self.preset) {
            (Some(command), None) if command.trim().is_empty() => Err(format!("{field}.command: it is empty")),
            (Some(command), None) => Ok(Case {
                name: self.name.unwrap_or_else(|| short(&command)),
                workload: Workload::new(command, guard.clone()),
                measures: own.unwrap_or_else(|| vec![wall()]),
                treatments,
                unsupported: None,
                lasts: None,
            }),
            (None, Some(preset)) => {
                let known = surefoot_disturb::preset::case(&preset, treatments, setting, guard);
                let mut case = known.ok_or_else(|| format!("{field}.preset: {}", no_preset(&preset)))?;
                case.name = self.name.unwrap_or(case.name);
                case.measures = own.unwrap_or(case.measures);
                Ok(case)
            }
            _ => Err(format!("{field}: write either command or preset")),
        }
    }
}

/// What to write instead of a workload that there is not.
pub fn no_preset(name: &str) -> String {
    let known: Vec<&str> = ready::names().collect();
    format!("'{name}' is no ready-made workload: {}", known.join(", "))
}

fn chosen(field: &str, names: &[String], treatments: &[Treatment]) -> Result<Vec<Treatment>, String> {
    let find = |name: &String| {
        let found = treatments.iter().find(|treatment| treatment.name == *name);
        found.cloned().ok_or_else(|| format!("{field}.disturbances: '{name}' is none of the file's disturbances"))
    };
    names.iter().map(find).collect()
}

fn wall() -> Measure {
    Measure { name: "wall_ns".into(), metric: Metric::Wall, compared: Compared::Ratio }
}

fn short(command: &str) -> String {
    command.chars().take(60).collect()
}

impl MeasureFile {
    fn measure(self) -> Measure {
        let compared = match self.compared {
            ComparedText::Ratio => Compared::Ratio,
            ComparedText::Difference => Compared::Difference,
        };
        Measure { name: self.name, metric: self.metric.0, compared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::CpuId;

    fn plan_of(text: &str, repetitions: Option<usize>) -> Result<(String, Plan), String> {
        let guard = Guard { program: "none".into(), arguments: vec![] };
        let (time_limit, total_limit) = (Duration::from_secs(600), Duration::from_secs(3_600));
        let beside = Beside { repetitions, seed: 1, time_limit, total_limit, guard };
        plan(text, &beside, &Setting { cores: vec![CpuId(0), CpuId(1)], is_quick: true })
    }

    const GOOD: &str = r#"{
      "name": "both",
      "repetitions": 4,
      "time_limit": "30s",
      "disturbances": [
        {"name": "short", "spec": "freeze:length=2ms,period=1s"},
        {"name": "long", "spec": "freeze:length=105ms,period=1s,cores=1"}
      ],
      "workloads": [
        {"name": "model", "command": "./model", "measures": [
          {"name": "steps", "metric": "regex:([0-9]+) steps"},
          {"name": "lost", "metric": "json:lost", "compared": "difference"}]},
        {"preset": "cpu-integer", "disturbances": ["long"]}
      ]
    }"#;

    #[test]
    fn a_file_says_what_is_run_and_options_go_before_it() {
        let (name, plan) = plan_of(GOOD, None).unwrap();
        assert_eq!((name.as_str(), plan.repetitions, plan.time_limit), ("both", 4, Duration::from_secs(30)));
        assert_eq!((plan.cases.len(), plan.cases[0].treatments.len(), plan.cases[1].treatments.len()), (2, 2, 1));
        assert_eq!(plan.cases[0].measures[1].compared, Compared::Difference);
        assert_eq!(plan.cases[1].name, "cpu-integer");
        assert_eq!(plan_of(GOOD, Some(7)).unwrap().1.repetitions, 7);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_or_field() {
        for (old, new, said) in [
            ("freeze:length=2ms", "melt:length=2ms", "'melt' is no disturbance"),
            ("freeze:length=2ms", "melt:length=2ms", "line 6"),
            ("\"repetitions\"", "\"repetition\"", "unknown field `repetition`"),
            ("\"repetitions\": 4", "\"repetitions\": \"4\"", "expected a whole number at line 3"),
            ("\"repetitions\": 4", "\"repetitions\": -4", "expected a whole number at line 3"),
            ("regex:([0-9]+)", "regex:(", "is no regular expression"),
            ("\"30s\"", "\"30\"", "has no unit"),
            (
                "\"cpu-integer\"",
                "\"cpu-melt\"",
                "workloads[1].preset: 'cpu-melt' is no ready-made workload: cpu-integer",
            ),
            ("[\"long\"]", "[\"longer\"]", "workloads[1].disturbances: 'longer' is none"),
            ("\"name\": \"long\"", "\"name\": \"short\"", "disturbances: 'short' is there twice"),
            ("\"command\": \"./model\", ", "", "workloads[0]: write either command or preset"),
            ("\"difference\"", "\"minus\"", "unknown variant `minus`"),
            ("}\n    ]\n", "}\n", "line"),
        ] {
            let text = GOOD.replacen(old, new, 1);
            if text != GOOD {
                let error = plan_of(&text, None).unwrap_err();
                assert!(error.contains(said), "{old} -> {new}: {error}");
            }
        }
        assert!(plan_of("", None).unwrap_err().contains("line 1"));
        let list = plan_of("[]", None).unwrap_err();
        assert!(list.contains("expected an object with \"disturbances\" and \"workloads\""), "{list}");
    }
}
