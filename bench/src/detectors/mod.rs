//! `detectors`: what Surefoot's own detectors and other people's see of stalls that are known, and what Surefoot takes them for.
//!
//! The stalls are those of `surefoot disturb run`: a timer holds the core with interrupts off, and its own clock reads on that core are the
//! truth. Each detector is its workload, with and without stalls by turns, so that what a detector finds without any is known as well:
//! for those that only count lengths, that is the only way to tell. On a busy machine what others take from the core is a false gap here.

mod causes;
mod experiment;
mod judge;

use crate::numbers::{Spread, duration, median};
use crate::peers;
use crate::run::Bench;
use crate::table::Row;
use anyhow::Context;
use causes::Named;
use experiment::{Ran, Stretch};
use judge::Score;
use std::path::Path;
use surefoot_model::{Gap, GapSource};

/// The last place of oslat's histogram, which has what is longer as well.
const OSLAT_MOST_NS: u64 = 1_023_000;

/// Length and period of the stalls, as in `--disturbance`, and the length in nanoseconds.
const STALLS: [(&str, &str, u64); 3] =
    [("50us", "20ms", 50_000), ("2ms", "100ms", 2_000_000), ("105ms", "500ms", 105_000_000)];

/// A watch that ends no longer reads so long.
const WATCH_ENDS_NS: u64 = 500_000_000;

/// Of each detector, below the real-time tasks that it is not to see.
const PRIORITY: u64 = 50;
/// From this part of a real stall on, Surefoot's own must see nearly all of them.
const RECALL_LEAST: f64 = 0.99;

/// Who looks for stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detector {
    Probe,
    Watch,
    Oslat,
    Cyclictest,
}

impl Detector {
    const ALL: [Detector; 4] = [Detector::Probe, Detector::Watch, Detector::Oslat, Detector::Cyclictest];

    fn name(self) -> &'static str {
        match self {
            Detector::Probe => "probe",
            Detector::Watch => "watch",
            Detector::Oslat => "oslat",
            Detector::Cyclictest => "cyclictest",
        }
    }

    fn is_there(self) -> anyhow::Result<()> {
        match self {
            Detector::Probe | Detector::Watch => Ok(()),
            Detector::Oslat | Detector::Cyclictest => peers::require(self.name()).map_err(anyhow::Error::msg),
        }
    }

    /// Its command, for the shell; it writes into `$OUT`.
    fn command(self, bench: &Bench, asked_ns: u64, seconds: u64) -> String {
        let (cpu, surefoot) = (bench.cpu, bench.surefoot.display());
        match self {
            Detector::Probe => format!(
                "exec {surefoot} stall probe --cpu {cpu} --duration {seconds}s --threshold 10us --fifo {PRIORITY} --source counters \
                 --json >\"$OUT\""
            ),
            Detector::Watch => format!(
                "{surefoot} watch --cpu {cpu} --sentinel {cpu} --min-gap {}us --no-page --no-history --run-directory \"$OUT.d\" \
                 --duration {}s --json >\"$OUT\"; code=$?; rm -r \"$OUT.d\"; exit $code",
                asked_ns / 2_000,
                seconds + 2
            ),
            // Its histogram has 1,024 places of a microsecond; of longer ones it knows how many, and the longest.
            Detector::Oslat => {
                format!("exec oslat --quiet --json=\"$OUT\" -D {seconds} -c {cpu} -f {PRIORITY} -b 1024 >/dev/null")
            }
            Detector::Cyclictest => {
                format!(
                    "exec cyclictest --quiet --json=\"$OUT\" -D {seconds} -a {cpu} -t 1 -p {PRIORITY} -i 200 -h 320000 >/dev/null"
                )
            }
        }
    }
}

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (repetitions, seconds) = if bench.quick { (2, 2) } else { (4, 4) };
    let mut rows = Vec::new();
    println!("| injected | times | named rightly | among its causes | names |\n|---|---|---|---|---|");
    for injected in &causes::ALL {
        match causes::run(bench, injected, repetitions, seconds) {
            Ok(named) => {
                println!("{}", confused(injected, &named));
                rows.extend(verdict_row(injected, &named));
            }
            Err(why) => println!("| {} | | | | not run: {why:#} |", injected.name),
        }
    }
    println!();
    println!("| detector | stalls | found | recall | precision | longer than they are by, median | how |");
    println!("|---|---|---|---|---|---|---|");
    for detector in Detector::ALL {
        for (length, period, asked_ns) in STALLS {
            let scores = detector.is_there().and_then(|()| {
                judged(bench, detector, &Stalls::held(bench, length, period, asked_ns), repetitions, seconds)
            });
            match scores {
                Ok(scores) => {
                    for (name, how, score) in scores {
                        println!("{}", line(name, length, &score, how));
                        rows.extend(row(name, length, &score));
                    }
                }
                Err(why) => println!("| {} | {length} | | | | | not run: {why:#} |", detector.name()),
            }
        }
    }
    for tracer in ["hwlat", "osnoise"] {
        println!("| {tracer} | | | | | | not run: {} |", without_tracer(bench, tracer));
    }
    println!();
    Ok(rows)
}

/// The kernel's own detectors, which are judged in a guest whose kernel has them.
fn without_tracer(bench: &Bench, tracer: &str) -> String {
    let there = ["kernel/tracing/available_tracers", "kernel/debug/tracing/available_tracers"].iter().any(|file| {
        bench.root.read(bench.root.sys(file)).is_ok_and(|text| text.split_whitespace().any(|word| word == tracer))
    });
    let why = if there { "it is judged in a guest only" } else { "this kernel does not have it" };
    format!("{why}; `make test-guest` judges it in a guest")
}

/// What a detector is to see.
struct Stalls {
    length: String,
    asked_ns: u64,
    spec: String,
}

impl Stalls {
    /// The measured core is held.
    fn held(bench: &Bench, length: &str, period: &str, asked_ns: u64) -> Stalls {
        let spec = format!("freeze:length={length},period={period},cores={},method=bpf", bench.cpu);
        Stalls { length: length.to_owned(), asked_ns, spec }
    }
}

/// One detector under stalls of one length; `watch` has two ways to see them.
fn judged(
    bench: &Bench,
    detector: Detector,
    stalls: &Stalls,
    repetitions: u64,
    seconds: u64,
) -> anyhow::Result<Vec<(&'static str, &'static str, Score)>> {
    let &Stalls { ref length, asked_ns, ref spec } = stalls;
    let command = detector.command(bench, asked_ns, seconds);
    let name = format!("{} at {length}", detector.name());
    let runs = experiment::run(bench, &name, spec, &command, repetitions)?;
    let by_time = |source: GapSource| -> anyhow::Result<Score> {
        let mut score = Score::default();
        for ran in runs.iter().filter(|ran| ran.is_disturbed) {
            let gaps = gaps(&ran.said, source, bench)?;
            // Timers and the sentinel may see none; they look from when their programs are loaded on.
            let looked = match source {
                GapSource::Probe => judge::between(&gaps),
                _ => Some(ran.last_of(seconds).without_end(WATCH_ENDS_NS)),
            };
            score.add(judge::by_time(&ran.stalls, &gaps, looked, asked_ns));
        }
        Ok(score)
    };
    Ok(match detector {
        Detector::Probe => vec![("surefoot stall probe", "by time", by_time(GapSource::Probe)?)],
        Detector::Watch => vec![
            ("surefoot watch, late timers", "by time", by_time(GapSource::TimerLateness)?),
            ("surefoot watch, sentinel at 10 %", "by time", by_time(GapSource::Sentinel)?),
        ],
        Detector::Oslat => vec![("oslat", "by count", by_count(&runs, asked_ns, seconds, OSLAT_MOST_NS)?)],
        Detector::Cyclictest => vec![("cyclictest", "by count", by_count(&runs, asked_ns, seconds, u64::MAX)?)],
    })
}

/// The gaps of this kind on the measured core.
fn gaps(said: &Path, source: GapSource, bench: &Bench) -> anyhow::Result<Vec<Stretch>> {
    let text = std::fs::read_to_string(said).with_context(|| said.display().to_string())?;
    let gaps = text.lines().filter(|line| line.starts_with("{\"type\":\"gap\"")).map(serde_json::from_str::<Gap>);
    let gaps: Vec<Gap> = gaps.collect::<Result<_, _>>()?;
    let ours = gaps.into_iter().filter(|gap| gap.source == source && gap.cpu == bench.cpu);
    Ok(ours.map(|gap| Stretch { start_ns: gap.start_ns, length_ns: gap.duration_ns }).collect())
}

/// What counts lengths looks until shortly before it ends.
fn by_count(runs: &[Ran], asked_ns: u64, seconds: u64, most_ns: u64) -> anyhow::Result<Score> {
    let (mut with, mut without, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for ran in runs {
        let counted = peers::read_rt_tests(&ran.said)?;
        let lengths = counted.histogram.iter().map(|(us, count)| (us * 1_000, *count));
        let beyond = (counted.beyond > 0).then_some((counted.max_us * 1_000, counted.beyond));
        let of = if ran.is_disturbed { &mut with } else { &mut without };
        of.extend(lengths.chain(beyond));
        let looked = ran.last_of(seconds);
        let within = ran.stalls.iter().filter(|stall| looked.shared_ns(stall) == stall.length_ns);
        truths.extend(within.map(|stall| stall.length_ns as f64));
    }
    let true_ns = median(&truths).unwrap_or(0.0);
    Ok(judge::by_count(truths.len(), &with, &without, asked_ns, true_ns, most_ns))
}

fn line(name: &str, length: &str, score: &Score, how: &str) -> String {
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
    let longer = score.bias_ns().map_or("-".to_owned(), duration);
    format!(
        "| {name} | {length} | {} of {} | {} | {} | {longer} | {how} |",
        score.found,
        score.injected,
        share(score.recall()),
        share(score.precision())
    )
}

fn row(name: &str, length: &str, score: &Score) -> Option<Row> {
    let recall = Spread::of(&[score.recall()?]);
    let row = Row::new("detectors", format!("{name}, stalls of {length}: recall"))
        .ours(format!("{} found", score.found))
        .against(format!("{} injected", score.injected))
        .ratio(recall);
    Some(if name == "surefoot stall probe" { row.at_least(RECALL_LEAST, ">= 0.99") } else { row })
}

fn confused(injected: &causes::Injected, named: &Named) -> String {
    let Some((right, among)) = named.right(injected).zip(named.among()) else {
        return format!("| {} | 0 | | | {} |", injected.name, causes::NONE);
    };
    format!("| {} | {:.0} | {right:.3} | {among:.3} | {} |", injected.name, named.injected, named.told())
}

fn verdict_row(injected: &causes::Injected, named: &Named) -> Option<Row> {
    let row = Row::new("detectors", format!("{}: named rightly by the probe", injected.name))
        .ours(named.told())
        .against(format!("{:.0} injected", named.injected));
    Some(row.ratio(Spread::of(&[named.right(injected)?])))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::child::Scratch;
    use surefoot_hostfs::{Root, cpus, privilege};
    use surefoot_testkit::not_run::not_run;

    /// One detector for some seconds: what it says meets what the injector knows.
    #[test]
    fn the_judge_finds_in_the_probe_the_stalls_that_were_injected() {
        const TEST: &str = "the_judge_finds_in_the_probe_the_stalls_that_were_injected";
        let Some(surefoot) = std::env::var_os("SUREFOOT_BIN") else {
            return not_run(TEST, "SUREFOOT_BIN names no surefoot");
        };
        if privilege::effective_user() != 0 {
            return not_run(TEST, "a detector of real-time priority needs root");
        }
        crate::child::stop_flag().unwrap();
        let root = Root::host();
        let online = cpus::online(&root).unwrap();
        let bench = Bench {
            quick: true,
            cpu: *online.last().unwrap(),
            other: online[0],
            surefoot: std::fs::canonicalize(surefoot).unwrap(),
            own: std::env::current_exe().unwrap(),
            scratch: Scratch::new().unwrap(),
            root,
        };
        // The probe itself is stopped, so that this disturbs no core of other tests.
        let spec = "stop:length=20ms,period=100ms".to_owned();
        let stalls = Stalls { length: "20ms".into(), asked_ns: 20_000_000, spec };
        let found = judged(&bench, Detector::Probe, &stalls, 2, 1).unwrap();
        let [(name, how, score)] = &found[..] else { panic!("several") };
        assert_eq!((*name, *how), ("surefoot stall probe", "by time"));
        // Twice a second of 10 stalls, of which those at the ends may lie outside of what was looked at, and some may be missed where
        // others have the cores.
        assert!(score.injected >= 3, "{score:?}");
        assert!(score.recall().unwrap() >= 0.5 && score.long >= score.true_long && score.true_long > 0, "{score:?}");
        // The probe stands still from the signal on, which comes before the stall is told of.
        assert!(score.bias_ns().unwrap() > -1_000_000.0, "{score:?}");
    }
}
