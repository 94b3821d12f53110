//! The file that describes an experiment.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::io::Read;
use std::path::Path;
use surefoot_nic::campaign::experiment::build_named;
use surefoot_nic::campaign::{Experiment, Preset, Target};
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::device::registers::NAMES;
use surefoot_nic::host::bus::Guard;
use surefoot_nic::world::traffic::Kind;

/// No description is longer.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// An experiment as a JSON file describes it; what is left out is as in the preset `send-chunk`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    target: TargetDescription,
    build: Option<String>,
    repeat: Option<u32>,
    /// The interface that is hit: 0 or 1.
    interface: Option<usize>,
    message_count: Option<u32>,
    message_bytes: Option<Vec<u32>>,
    every_us: Option<u64>,
    both_ways: Option<bool>,
    /// normal or directed.
    service: Option<String>,
    iommu: Option<bool>,
    trap_interrupt: Option<bool>,
    watchdog: Option<bool>,
    self_test: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TargetDescription {
    Function(String),
    Code,
    Data,
    Registers,
    /// Names of special registers, as in device.h.
    Special(Vec<String>),
}

/// Reads one.
pub fn read(option: &str, path: &Path) -> anyhow::Result<Experiment> {
    let at = || format!("{option}: {}", path.display());
    let file = surefoot_daemon::rooms::nic::campaign::result_file::open_to_read(path)
        .with_context(|| format!("{option}: cannot read {}", path.display()))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(at)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", at());
    parse(&text).with_context(at)
}

fn parse(text: &str) -> anyhow::Result<Experiment> {
    let value: serde_json::Value = serde_json::from_str(text).context("it is no JSON")?;
    ensure!(
        value.is_object(),
        "it is not a JSON object: write {{\"name\": NAME, \"target\": TARGET}}, and what else is to differ"
    );
    // From the text once more, for its lines and columns.
    experiment(serde_json::from_str(text)?)
}

fn experiment(of: Description) -> anyhow::Result<Experiment> {
    let usual = Experiment::preset(Preset::SendChunk);
    ensure!(Preset::named(&of.name).is_none(), "'{}' is the name of a preset; give it another one", of.name);
    let target = match of.target {
        TargetDescription::Function(name) => Target::Function(name),
        TargetDescription::Code => Target::Code,
        TargetDescription::Data => Target::Data,
        TargetDescription::Registers => Target::Registers,
        TargetDescription::Special(names) => {
            Target::Special(names.iter().map(|name| special(name)).collect::<Result<_, _>>()?)
        }
    };
    let build = match &of.build {
        Some(name) => {
            build_named(name).with_context(|| format!("'{name}' is none of plain, detecting and tolerant"))?
        }
        None => usual.build,
    };
    let kind = match of.service.as_deref() {
        None | Some("normal") => Kind::Normal,
        Some("directed") => Kind::Directed,
        Some(other) => bail!("'{other}' is none of the services normal and directed"),
    };
    let experiment = Experiment {
        name: of.name,
        build,
        target,
        kind,
        repeat: of.repeat.unwrap_or(usual.repeat),
        place: of.interface.unwrap_or(usual.place),
        trap_policy: if of.trap_interrupt == Some(true) { TrapPolicy::Interrupt } else { TrapPolicy::Halt },
        guard: if of.iommu == Some(true) { Guard::Iommu } else { Guard::None },
        message_count: of.message_count.unwrap_or(usual.message_count),
        message_bytes: of.message_bytes.unwrap_or(usual.message_bytes),
        every_ns: of.every_us.map_or(usual.every_ns, |us| us.saturating_mul(1000)),
        both_ways: of.both_ways.unwrap_or(usual.both_ways),
        hears_watchdog: of.watchdog.unwrap_or(usual.hears_watchdog),
        tests_itself: of.self_test.unwrap_or(usual.tests_itself),
    };
    experiment.check()?;
    Ok(experiment)
}

fn special(name: &str) -> anyhow::Result<u32> {
    let found = NAMES.iter().find(|(_, of)| *of == name).map(|(offset, _)| *offset);
    found.with_context(|| {
        let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        format!("'{name}' is no special register; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_an_experiment() {
        let text = r#"{"name": "receive", "target": {"function": "recv"}, "build": "tolerant", "interface": 1, "iommu": true,
            "message_bytes": [100], "every_us": 20, "service": "directed"}"#;
        let one = parse(text).unwrap();
        assert_eq!((one.target, one.place, one.every_ns), (Target::Function("recv".into()), 1, 20_000));
        assert_eq!((one.kind, one.guard), (Kind::Directed, Guard::Iommu));
        let special = parse(r#"{"name": "timers", "target": {"special": ["IT0", "IT1"]}}"#).unwrap();
        assert_eq!(special.target, Target::Special(vec![4, 8]));
    }

    #[test]
    fn what_is_no_description_says_why() {
        for (text, why) in [
            (r#"{"name": "a", "target": "code", "speed": 1}"#, "unknown field `speed`"),
            (r#"{"name": "a"}"#, "missing field `target`"),
            ("no", "it is no JSON"),
            ("[]", "it is not a JSON object: write {\"name\": NAME, \"target\": TARGET}"),
            (r#"{"name": "code", "target": "code"}"#, "the name of a preset"),
            (r#"{"name": "a b", "target": "code"}"#, "letters, digits"),
            (r#"{"name": "a", "target": {"special": ["EAR"]}}"#, "'EAR' is no special register"),
            (r#"{"name": "a", "target": "code", "build": "best"}"#, "none of plain"),
            (r#"{"name": "a", "target": "code", "interface": 2}"#, "there is no 2"),
            (r#"{"name": "a", "target": "code", "message_bytes": []}"#, "message lengths"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
