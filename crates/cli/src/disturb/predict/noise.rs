//! What `--noise` says.

use crate::stall::record;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use surefoot_console::units::{counted, duration, parse_ns};
use surefoot_disturb::predict::{Freeze, Group, Noise, Phase, Recorded};
use surefoot_model::{CpuId, Event, did_you_mean};

const FORM: &str = "write freeze:length=2ms,period=1s,phase=random or recorded:file=FILE, and nodes=K where not all nodes \
                    have it";
/// A recording with more stalls of one core is another kind of noise.
const STALLS_MAX: usize = 10_000_000;

/// Noise, and how many nodes have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoiseChoice {
    kind: Kind,
    phase: Phase,
    nodes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Freeze { length_ns: u64, period_ns: u64 },
    Recorded { file: PathBuf },
}

impl FromStr for NoiseChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or(FORM)?;
        let mut values: BTreeMap<&str, &str> = BTreeMap::new();
        for part in rest.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is no key=value; {FORM}"))?;
            if values.insert(key, value).is_some() {
                return Err(format!("'{key}' is there twice"));
            }
        }
        const KEYS: [&str; 5] = ["length", "period", "file", "phase", "nodes"];
        if let Some(key) = values.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("unknown key '{key}'{}; {FORM}", did_you_mean(key, KEYS)));
        }
        let phase = match values.remove("phase") {
            None | Some("random") => Phase::Random,
            Some("same") => Phase::Same,
            Some("staggered") => Phase::Staggered,
            Some(other) => return Err(format!("'{other}' is no phase: same, random or staggered")),
        };
        let number = |text: &str| match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("nodes={text}: write a number from 1 on")),
        };
        let nodes = values.remove("nodes").map(number).transpose()?;
        let mut needed = |key: &str| values.remove(key).ok_or_else(|| format!("'{key}' is missing; {FORM}"));
        let kind = match kind {
            "freeze" => {
                Kind::Freeze { length_ns: parse_ns(needed("length")?)?, period_ns: parse_ns(needed("period")?)? }
            }
            "recorded" => Kind::Recorded { file: needed("file")?.into() },
            other => return Err(format!("'{other}' is no noise; {FORM}")),
        };
        match values.first_key_value() {
            None => Ok(NoiseChoice { kind, phase, nodes }),
            Some((key, _)) => Err(format!("this noise takes no '{key}'; {FORM}")),
        }
    }
}

impl NoiseChoice {
    /// For the simulation, and in words.
    ///
    /// # Errors
    /// The recording cannot be read, or has no stalls.
    pub fn group(&self) -> anyhow::Result<(Group, String)> {
        let phase = match self.phase {
            _ if self.nodes == Some(1) => "at a random time",
            Phase::Same => "all at the same moment",
            Phase::Random => "each at a random time",
            Phase::Staggered => "evenly one after the other",
        };
        let (noise, words) = match &self.kind {
            &Kind::Freeze { length_ns, period_ns } => (
                Noise::Freeze(Freeze { length_ns, period_ns, phase: self.phase }),
                format!("stalls of {} every {}, {phase}", duration(length_ns), duration(period_ns)),
            ),
            Kind::Recorded { file } => {
                let recorded = of_recording(file, self.phase)
                    .with_context(|| format!("--noise recorded:file={}", file.display()))?;
                let stalls: usize = recorded.cores.iter().map(Vec::len).sum();
                let lost_ns: u64 = recorded.cores.iter().flatten().map(|(_, length_ns)| length_ns).sum();
                let cores = counted(recorded.cores.len() as u64, "core", "cores");
                let stalls = counted(stalls as u64, "stall", "stalls");
                let words = format!(
                    "as recorded, {stalls} of {} in all on {cores} in {}, {phase}",
                    duration(lost_ns),
                    duration(recorded.span_ns)
                );
                (Noise::Recorded(recorded), words)
            }
        };
        let who = self.nodes.map_or("all (other) nodes".to_owned(), |nodes| counted(nodes, "node", "nodes"));
        Ok((Group { noise, nodes: self.nodes }, format!("{who}: {words}")))
    }
}

/// The gaps of a recording, core by core, from its first window to its last.
fn of_recording(file: &Path, phase: Phase) -> anyhow::Result<Recorded> {
    let mut gaps: BTreeMap<CpuId, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut from_ns, mut until_ns, mut is_too_much) = (u64::MAX, 0, false);
    // What is damaged is said there; what is left of it is no worse a noise.
    record::read(file, |event| match event {
        Event::Window(window) => {
            (from_ns, until_ns) = (from_ns.min(window.start_ns), until_ns.max(window.end_ns));
            for core in &window.cores {
                gaps.entry(core.cpu).or_default();
            }
        }
        Event::Gap(gap) => {
            let of_core = gaps.entry(gap.cpu).or_default();
            is_too_much |= of_core.len() >= STALLS_MAX;
            if !is_too_much {
                of_core.push((gap.start_ns, gap.start_ns.saturating_add(gap.duration_ns)));
            }
        }
        _ => {}
    })?;
    ensure!(!is_too_much, "more than {STALLS_MAX} stalls of one core");
    ensure!(from_ns < until_ns, "it has no windows; `surefoot stall record` writes them");
    let cores: Vec<Vec<(u64, u64)>> = gaps.into_values().map(|of_core| apart(of_core, from_ns, until_ns)).collect();
    ensure!(cores.iter().any(|stalls| !stalls.is_empty()), "it has no gaps, so that nothing would stop");
    Ok(Recorded { span_ns: until_ns - from_ns, cores, phase })
}

/// Start and length of each, from the recording's start on; two ways to find the same stall make one.
fn apart(mut ends: Vec<(u64, u64)>, from_ns: u64, until_ns: u64) -> Vec<(u64, u64)> {
    ends.sort_unstable();
    let mut stalls: Vec<(u64, u64)> = Vec::new();
    for (start_ns, end_ns) in ends {
        let (start_ns, end_ns) = (start_ns.clamp(from_ns, until_ns), end_ns.clamp(from_ns, until_ns));
        match stalls.last_mut() {
            Some((_, last_ns)) if start_ns <= *last_ns => *last_ns = end_ns.max(*last_ns),
            _ if start_ns < end_ns => stalls.push((start_ns, end_ns)),
            _ => {}
        }
    }
    stalls.iter().map(|(start_ns, end_ns)| (start_ns - from_ns, end_ns - start_ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noise_is_read_and_told() {
        let choice: NoiseChoice = "freeze:length=105ms,period=1s,phase=same,nodes=3".parse().unwrap();
        assert_eq!(choice.nodes, Some(3));
        let (group, words) = choice.group().unwrap();
        assert_eq!(words, "3 nodes: stalls of 105 ms every 1.00 s, all at the same moment");
        let freeze = Freeze { length_ns: 105_000_000, period_ns: 1_000_000_000, phase: Phase::Same };
        assert_eq!(group, Group { noise: Noise::Freeze(freeze), nodes: Some(3) });
        let (_, words) = "freeze:period=1s,length=2ms".parse::<NoiseChoice>().unwrap().group().unwrap();
        assert_eq!(words, "all (other) nodes: stalls of 2.00 ms every 1.00 s, each at a random time");
    }

    #[test]
    fn what_is_no_noise_says_what_would_be() {
        for (text, said) in [
            ("freeze", "write freeze:length=2ms"),
            ("smi:length=1ms,period=1s", "'smi' is no noise"),
            ("freeze:length=1ms", "'period' is missing"),
            ("freeze:length=1,period=1s", "has no unit"),
            ("freeze:length=1ms,period=1s,phase=odd", "'odd' is no phase"),
            ("freeze:length=1ms,period=1s,nodes=0", "from 1 on"),
            ("freeze:length=1ms,length=1ms,period=1s", "there twice"),
            ("freeze:length=1ms,period=1s,cores=0-1", "unknown key 'cores'"),
            ("freeze:length", "'length' is no key=value"),
            ("recorded:phase=same", "'file' is missing"),
        ] {
            let error = text.parse::<NoiseChoice>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn stalls_that_meet_are_one_and_none_is_outside_of_the_recording() {
        let found = apart(vec![(150, 160), (90, 110), (105, 120), (120, 130), (190, 250), (300, 310)], 100, 200);
        assert_eq!(found, [(0, 30), (50, 10), (90, 10)]);
    }
}
