//! `stalls`: stalls of known lengths, and what the probe, `oslat` and `cyclictest` say of them.
//!
//! What is the true length of a stall? The injector logs when it span. The core was away from the probe for longer: the
//! interrupt that wakes the injector, the switch to it, its way out of the kernel and back, and the switch to the
//! probe lie outside of the log, and on a virtual machine an interrupt alone may be an exit to the host. So several
//! lengths are held against the log: the whole gap; the cause inside it that bears the injector's name, from its switch
//! in to its switch out; and both less what they are for stalls of length zero, of which the same plan has some.

use crate::child::{Running, pause};
use crate::inject::{self, Stall};
use crate::numbers::{Spread, duration, median};
use crate::peers::{self, Counted};
use crate::run::Bench;
use crate::table::Row;
use anyhow::Context;
use std::process::Command;
use std::time::Duration;
use surefoot_model::Gap;

/// The probe's threshold; every stall is at least twice as long.
const THRESHOLD_NS: u64 = 5_000;

/// Real-time priorities of the injector and of whatever looks for its stalls.
const INJECTOR_PRIORITY: u64 = 50;
const FINDER_PRIORITY: &str = "10";

/// How long a finder gets to start before the first stall.
const STARTING: Duration = Duration::from_secs(3);

/// Lengths from which the finders' counts are compared, microseconds: beyond what ticks and other interrupts take.
const COMPARED_US: u64 = 200;

/// A stall that its task itself was kept from ending by more than this was disturbed, nanoseconds.
const OVERTIME_NS: u64 = 20_000;

/// What one round found.
#[derive(Default)]
struct Round {
    injected: usize,
    found: usize,
    disturbed: usize,
    /// Per undisturbed stall: its true length and the differences of gap and named cause to it, nanoseconds.
    errors: Vec<(f64, [f64; 2])>,
    /// Medians of gap and named cause of stalls of length zero, nanoseconds.
    zero_ns: [f64; 2],
    ours_over: usize,
    ours_max_us: u64,
    injected_over: usize,
}

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    if bench.cpu == bench.other {
        return Ok(vec![Row::new("stalls", "injected stalls").not_run("this machine has one core")]);
    }
    let (rounds, count) = if bench.quick { (1, 400) } else { (3, 3000) };
    let mut found = Vec::new();
    let mut oslat = Vec::new();
    let mut cyclictest = Vec::new();
    for round in 0..rounds {
        let seed = 20_200_400 + round;
        bench.say(&format!("stalls: round {} of {rounds}, {count} stalls: surefoot", round + 1));
        found.push(bench.on(bench.other, || with_probe(bench, seed, count))?);
        bench.say("stalls: the same under oslat, then under cyclictest");
        oslat.push(bench.on(bench.other, || under(bench, "oslat", seed, count)));
        cyclictest.push(bench.on(bench.other, || under(bench, "cyclictest", seed, count)));
    }
    let mut rows = vec![found_row(&found)];
    rows.extend(length_rows(&found));
    rows.push(peer_row(&found, "oslat", &oslat));
    rows.push(peer_row(&found, "cyclictest", &cyclictest));
    Ok(rows)
}

fn start_injector(bench: &Bench, seed: u64, count: usize) -> anyhow::Result<Running> {
    let (cpu, waker) = (bench.cpu.0.into(), bench.other.0.into());
    let arguments =
        [("cpu", cpu), ("waker", waker), ("seed", seed), ("count", count as u64), ("priority", INJECTOR_PRIORITY)];
    Running::start(&mut bench.part("inject", &arguments), &bench.scratch.file("inject.txt"))
}

/// An upper limit of how long the finders need to run.
fn run_limit(seed: u64, count: usize) -> Duration {
    let planned = inject::plan(seed, count);
    Duration::from_nanos(inject::plan_ns(&planned) * 3 / 2) + Duration::from_secs(20)
}

fn with_probe(bench: &Bench, seed: u64, count: usize) -> anyhow::Result<Round> {
    let limit = run_limit(seed, count);
    let mut command = Command::new(&bench.surefoot);
    command.args(["stall", "probe", "--json", "--fifo", FINDER_PRIORITY, "--threshold", &format!("{THRESHOLD_NS}ns")]);
    command.args(["--cpu", &bench.cpu.to_string(), "--duration", &format!("{}s", limit.as_secs())]);
    let probe = Running::start(&mut command, &bench.scratch.file("probe.json"))?;
    pause(STARTING)?;
    let log = start_injector(bench, seed, count)?.finish(limit)?;
    pause(Duration::from_millis(200))?;
    let (gaps, summary) = parse_probe(&probe.interrupt()?)?;
    let dropped = |name: &str| summary.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    if dropped("dropped_gaps") + dropped("lost_turns") > 0 {
        bench.say(&format!(
            "stalls: the probe dropped {} gaps, {} turns",
            dropped("dropped_gaps"),
            dropped("lost_turns")
        ));
    }
    Ok(match_stalls(&inject::parse(&log)?, &gaps))
}

/// Reads the probe's lines.
pub fn parse_probe(text: &str) -> anyhow::Result<(Vec<Gap>, serde_json::Value)> {
    let mut gaps = Vec::new();
    let mut summary = None;
    for line in text.lines() {
        if line.starts_with("{\"type\":\"gap\"") {
            gaps.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        } else if !line.starts_with("{\"type\":\"stream\"") {
            summary = Some(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
    }
    Ok((gaps, summary.context("the probe printed no summary")?))
}

/// Finds the gap of each stall: the one that covers most of it, and more than half.
fn match_stalls(stalls: &[Stall], gaps: &[Gap]) -> Round {
    let mut round = Round::default();
    let mut matched: Vec<(Stall, &Gap, usize)> = Vec::new();
    let mut zeros = Vec::new();
    let mut first = 0;
    for stall in stalls {
        while first < gaps.len() && gaps[first].start_ns + gaps[first].duration_ns < stall.start_ns {
            first += 1;
        }
        let over = |gap: &Gap| {
            (gap.start_ns + gap.duration_ns).min(stall.end_ns).saturating_sub(gap.start_ns.max(stall.start_ns))
        };
        let near = gaps[first..].iter().take_while(|gap| gap.start_ns <= stall.end_ns);
        let best = near.enumerate().max_by_key(|(_, gap)| over(gap)).map(|(place, gap)| (first + place, gap));
        let covered = best.filter(|(_, gap)| over(gap) * 2 >= stall.length_ns());
        if stall.planned_ns == 0 {
            let whole = covered.filter(|(_, gap)| !is_disturbed(stall, gap));
            zeros.extend(whole.and_then(|(_, gap)| differences(stall, gap)));
            continue;
        }
        round.injected += 1;
        round.found += usize::from(covered.is_some());
        matched.extend(covered.map(|(place, gap)| (*stall, gap, place)));
    }
    round.zero_ns =
        [0, 1].map(|which| median(&zeros.iter().map(|zero: &[f64; 2]| zero[which]).collect::<Vec<_>>()).unwrap_or(0.0));
    for (number, (stall, gap, place)) in matched.iter().enumerate() {
        let shared =
            [number.wrapping_sub(1), number + 1].iter().any(|n| matched.get(*n).is_some_and(|m| m.2 == *place));
        match differences(stall, gap).filter(|_| !shared && !is_disturbed(stall, gap)) {
            Some(differences) => round.errors.push((stall.length_ns() as f64, differences)),
            None => round.disturbed += 1,
        }
    }
    let over = |ns: u64| ns >= COMPARED_US * 1000;
    round.injected_over = stalls.iter().filter(|stall| over(stall.length_ns())).count();
    round.ours_over = gaps.iter().filter(|gap| over(gap.duration_ns)).count();
    round.ours_max_us = gaps.iter().map(|gap| gap.duration_ns).max().unwrap_or(0) / 1000;
    round
}

/// Whether something else than the injector kept the core: then the log is not the whole truth of the gap.
fn is_disturbed(stall: &Stall, gap: &Gap) -> bool {
    let others_ns: u64 = gap
        .causes
        .iter()
        .filter(|cause| matches!(cause.cause.kind.as_str(), "preemption" | "kernel_thread"))
        .filter(|cause| cause.cause.name != inject::THREAD && cause.cause.name != "entry and exit")
        .map(|cause| cause.duration_ns)
        .sum();
    stall.length_ns() > stall.planned_ns + OVERTIME_NS || others_ns > 0
}

/// Gap and named cause less the true length; `None` when the gap does not name the injector.
fn differences(stall: &Stall, gap: &Gap) -> Option<[f64; 2]> {
    let cause = gap.causes.iter().find(|cause| cause.cause.name == inject::THREAD)?;
    Some([gap.duration_ns, cause.duration_ns].map(|length_ns| length_ns as f64 - stall.length_ns() as f64))
}

fn found_row(rounds: &[Round]) -> Row {
    let shares: Vec<f64> = rounds.iter().map(|round| round.found as f64 / round.injected.max(1) as f64).collect();
    let sum = |part: fn(&Round) -> usize| rounds.iter().map(part).sum::<usize>();
    let all = sum(|round| round.found) as f64 / sum(|round| round.injected).max(1) as f64;
    Row::new("stalls", "found, of 10 us to 100 ms at a threshold of 5 us")
        .ours(format!("{} ({:.3} %)", sum(|round| round.found), all * 100.0))
        .against(format!("{} injected", sum(|round| round.injected)))
        .ratio(Spread::of(&shares))
        .at_least(0.999, ">= 0.999")
}

/// The median error of each of the lengths, through what is allowed for that stall.
fn length_rows(rounds: &[Round]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (which, name) in ["the gap", "the cause with the injector's name"].into_iter().enumerate() {
        let zero: Vec<f64> = rounds.iter().map(|round| round.zero_ns[which]).collect();
        let zero = duration(median(&zero).unwrap_or(0.0));
        rows.push(length_row(rounds, format!("length of {name}"), |_| 0.0, which));
        rows.push(length_row(
            rounds,
            format!("the same less a stall of length 0 ({zero})"),
            |round| round.zero_ns[which],
            which,
        ));
    }
    rows
}

fn length_row(rounds: &[Round], name: String, less: impl Fn(&Round) -> f64, which: usize) -> Row {
    let disturbed: usize = rounds.iter().map(|round| round.disturbed).sum();
    let mut errors = Vec::new();
    for round in rounds {
        errors.extend(round.errors.iter().map(|(true_ns, differences)| (*true_ns, differences[which] - less(round))));
    }
    let shares: Vec<f64> = errors.iter().map(|(true_ns, error)| error.abs() / (true_ns * 0.01).max(1_000.0)).collect();
    let signed = median(&errors.iter().map(|(_, error)| *error).collect::<Vec<_>>()).unwrap_or(0.0);
    let sign = if signed >= 0.0 { "+" } else { "" };
    Row::new("stalls", format!("{name}, error through what is allowed"))
        .ours(format!("{sign}{} median error", duration(signed)))
        .against(format!("the task's own log; {} stalls, {disturbed} disturbed", errors.len()))
        .ratio(Spread::of(&shares))
        .at_most(1.0, "median <= 1 us or 1 %")
}

/// Runs one of rt-tests' tools over the same stalls.
fn under(bench: &Bench, tool: &str, seed: u64, count: usize) -> anyhow::Result<Counted> {
    peers::require(tool).map_err(anyhow::Error::msg)?;
    let planned = inject::plan(seed, count);
    let seconds = inject::plan_ns(&planned).div_ceil(1_000_000_000) + STARTING.as_secs() + 4;
    let answer = bench.scratch.file(&format!("{tool}.answer"));
    let (cpu, seconds_text) = (bench.cpu.to_string(), seconds.to_string());
    let mut command = Command::new(tool);
    command.arg("--quiet").arg(format!("--json={}", answer.display())).args(["-D", &seconds_text]);
    match tool {
        "oslat" => command.args(["-c", &cpu, "-f", FINDER_PRIORITY, "-b", "1024"]),
        _ => command.args(["-a", &cpu, "-t", "1", "-p", FINDER_PRIORITY, "-i", "200", "-h", "200000"]),
    };
    let running = Running::start(&mut command, &bench.scratch.file(&format!("{tool}.txt")))?;
    pause(STARTING)?;
    start_injector(bench, seed, count)?.finish(run_limit(seed, count))?;
    running.finish(Duration::from_secs(seconds + 30))?;
    peers::read_rt_tests(&answer)
}

fn peer_row(rounds: &[Round], tool: &str, answers: &[anyhow::Result<Counted>]) -> Row {
    let row = Row::new("stalls", format!("gaps over {COMPARED_US} us, beside {tool}"));
    let mut pairs = Vec::new();
    for (round, answer) in rounds.iter().zip(answers) {
        match answer {
            Ok(answer) => pairs.push((round, answer)),
            Err(why) => return row.not_run(format!("{why:#}")),
        }
    }
    let sum = |part: fn(&(&Round, &Counted)) -> u64| pairs.iter().map(part).sum::<u64>();
    let max = |part: fn(&(&Round, &Counted)) -> u64| pairs.iter().map(part).max().unwrap_or(0) as f64 * 1e3;
    let (ours, theirs) = (sum(|pair| pair.0.ours_over as u64), sum(|pair| pair.1.at_least(COMPARED_US)));
    let injected = sum(|pair| pair.0.injected_over as u64);
    let ratios: Vec<f64> = pairs
        .iter()
        .map(|(round, answer)| round.ours_over as f64 / answer.at_least(COMPARED_US).max(1) as f64)
        .collect();
    row.ours(format!("{ours} of {injected}, longest {}", duration(max(|pair| pair.0.ours_max_us))))
        .against(format!("{theirs} of {injected}, longest {}", duration(max(|pair| pair.1.max_us))))
        .ratio(Spread::of(&ratios))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn gap(start_ns: u64, duration_ns: u64, inside: &[(&str, u64)]) -> Gap {
        let causes: Vec<_> = inside
            .iter()
            .map(|(name, ns)| serde_json::json!({"kind": "preemption", "name": name, "duration_ns": ns}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "cpu": 1, "source": "probe", "start_ns": start_ns, "duration_ns": duration_ns, "causes": causes,
            "unexplained_ns": 0, "verdict": "traced", "certainty": "certain", "evidence": []
        }))
        .unwrap()
    }

    fn stall(start_ns: u64, length_ns: u64) -> Stall {
        Stall { planned_ns: length_ns, start_ns, end_ns: start_ns + length_ns }
    }

    #[test]
    fn stalls_meet_the_gaps_that_cover_them() {
        let gaps = [
            gap(1_000, 15_000, &[(inject::THREAD, 11_000)]),
            gap(50_000, 5_000, &[(inject::THREAD, 400)]),
            gap(90_000, 1_000, &[]),
        ];
        let round = match_stalls(&[stall(4_000, 10_000), stall(52_000, 0), stall(80_000, 10_500)], &gaps);
        assert_eq!((round.injected, round.found, round.disturbed), (2, 1, 0));
        assert_eq!(round.zero_ns, [5_000.0, 400.0]);
        assert_eq!(round.errors, [(10_000.0, [5_000.0, 1_000.0])]);
    }

    #[test]
    fn a_gap_with_other_tasks_or_two_stalls_gives_no_length() {
        let gaps =
            [gap(0, 60_000, &[(inject::THREAD, 40_000)]), gap(90_000, 20_000, &[(inject::THREAD, 10_000), ("sh", 9)])];
        let round = match_stalls(&[stall(1_000, 10_000), stall(30_000, 20_000), stall(95_000, 10_000)], &gaps);
        assert_eq!((round.found, round.disturbed, round.errors.len()), (3, 3, 0));
    }
}
