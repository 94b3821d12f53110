//! `named`: of the time in gaps over 20 µs, how much has a named cause while the machine is loaded.
//!
//! "Named" can be read in three ways, so each part is counted apart: what tracepoints cover; what entry and exit of the
//! traced interruptions take by estimate; what a verdict gives to the hypervisor, the firmware or hardware as certain
//! or probable; what a verdict names while saying that it cannot be told apart here; and what has no name.

use crate::child::{Running, pause};
use crate::numbers::{Spread, median};
use crate::peers;
use crate::run::Bench;
use crate::stalls::parse_probe;
use crate::table::Row;
use std::process::Command;
use std::time::Duration;
use surefoot_model::{Certainty, Gap, Verdict};

/// Gaps from this length on count.
const LONG_NS: u64 = 20_000;

/// Shares of the time in long gaps.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Shares {
    traced: f64,
    entry_and_exit: f64,
    judged: f64,
    undecided: f64,
    unexplained: f64,
    /// The probe's own sum: everything but the last part.
    summed_up: f64,
}

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    const WHAT: &str = "time in gaps over 20 us with a named cause, under stress-ng";
    if let Err(why) = peers::require("stress-ng") {
        return Ok(vec![Row::new("named", WHAT).not_run(why)]);
    }
    let (rounds, seconds) = if bench.quick { (2, 3) } else { (5, 10) };
    let mut shares = Vec::new();
    for round in 0..rounds {
        bench.say(&format!("named: round {} of {rounds}, {seconds} s", round + 1));
        shares.push(under_load(bench, seconds)?);
    }
    let row = |name: &str, part: fn(&Shares) -> f64| {
        let numbers: Vec<f64> = shares.iter().map(part).collect();
        let percent = median(&numbers).unwrap_or(0.0) * 100.0;
        Row::new("named", name)
            .ours(format!("{percent:.2} %"))
            .against("time in gaps over 20 us")
            .ratio(Spread::of(&numbers))
    };
    let met = |name: &str, part: fn(&Shares) -> f64| row(name, part).at_least(0.95, ">= 0.95");
    Ok(vec![
        met("traced, entry and exit included", |share| share.traced + share.entry_and_exit),
        met("traced, or judged certain or probable", |share| share.traced + share.entry_and_exit + share.judged),
        met("the same, and judged but not to be told apart here", |share| share.summed_up),
        row("part: traced intervals", |share| share.traced),
        row("part: entry and exit, by estimate", |share| share.entry_and_exit),
        row("part: judged certain or probable", |share| share.judged),
        row("part: judged, cannot be told apart here", |share| share.undecided),
        row("part: unexplained", |share| share.unexplained),
    ])
}

fn under_load(bench: &Bench, seconds: u64) -> anyhow::Result<Shares> {
    let mut load = Command::new("stress-ng");
    load.args(["--cpu", "1", "--vm", "1", "--vm-bytes", "64M", "--hdd", "1", "--hdd-bytes", "64M"]);
    load.args(["--switch", "1", "--sock", "1", "--quiet", "--temp-path"]).arg(bench.scratch.file(""));
    // Both cores get all of it; it ends by itself should this program be killed.
    load.args(["--taskset", &format!("{},{}", bench.other, bench.cpu)]);
    load.args(["--timeout", &format!("{}s", seconds + 10)]);
    let load = Running::start(&mut load, &bench.scratch.file("stress.txt"))?;
    pause(Duration::from_secs(1))?;
    let mut probe = Command::new(&bench.surefoot);
    probe.args(["stall", "probe", "--json", "--threshold", "20us", "--cpu", &bench.cpu.to_string()]);
    probe.args(["--duration", &format!("{seconds}s")]);
    let said =
        Running::start(&mut probe, &bench.scratch.file("named.json"))?.finish(Duration::from_secs(seconds + 60))?;
    // How the load ends is not what is measured.
    let _ = load.interrupt();
    let (gaps, summary) = parse_probe(&said)?;
    let core =
        |name: &str| summary.pointer(&format!("/cores/0/{name}")).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let summed_up = core("over_20us_explained_ns") / core("over_20us_total_ns").max(1.0);
    Ok(Shares { summed_up, ..shares(&gaps) })
}

fn shares(gaps: &[Gap]) -> Shares {
    let mut sums = Shares::default();
    let mut total = 0.0;
    for gap in gaps.iter().filter(|gap| gap.duration_ns > LONG_NS) {
        total += gap.duration_ns as f64;
        for cause in &gap.causes {
            let part = if cause.cause.name == "entry and exit" { &mut sums.entry_and_exit } else { &mut sums.traced };
            *part += cause.duration_ns as f64;
        }
        let part = match (gap.verdict, gap.certainty) {
            (Verdict::Traced | Verdict::Undetermined, _) => &mut sums.unexplained,
            (_, Certainty::CannotTellApartHere) => &mut sums.undecided,
            _ => &mut sums.judged,
        };
        *part += gap.unexplained_ns as f64;
    }
    let share = |part: f64| part / f64::max(total, 1.0);
    Shares {
        traced: share(sums.traced),
        entry_and_exit: share(sums.entry_and_exit),
        judged: share(sums.judged),
        undecided: share(sums.undecided),
        unexplained: share(sums.unexplained),
        summed_up: 0.0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_parts_are_told_apart_and_add_up() {
        let gap = |duration_ns: u64, traced: u64, verdict: &str, certainty: &str| -> Gap {
            serde_json::from_value(serde_json::json!({
                "cpu": 1, "source": "probe", "start_ns": 5, "duration_ns": duration_ns,
                "causes": [{"kind": "timer", "name": "local_timer", "duration_ns": traced - 1_000},
                           {"kind": "timer", "name": "entry and exit", "duration_ns": 1_000}],
                "unexplained_ns": duration_ns - traced, "verdict": verdict, "certainty": certainty, "evidence": []
            }))
            .unwrap()
        };
        let gaps = [
            gap(25_000, 25_000, "traced", "certain"),
            gap(25_000, 5_000, "hypervisor_scheduled", "probable"),
            gap(25_000, 5_000, "hypervisor_unaccounted", "cannot_tell_apart_here"),
            gap(25_000, 5_000, "undetermined", "cannot_tell_apart_here"),
            gap(20_000, 5_000, "undetermined", "cannot_tell_apart_here"),
        ];
        let shares = shares(&gaps);
        assert_eq!((shares.judged, shares.undecided, shares.unexplained), (0.2, 0.2, 0.2));
        assert_eq!((shares.traced, shares.entry_and_exit), (0.36, 0.04));
    }
}
