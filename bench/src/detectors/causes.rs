//! What was injected, and what `surefoot stall probe` says it was.

use super::experiment::{self, Ran, Stretch};
use crate::run::Bench;
use crate::stalls::parse_probe;
use std::collections::BTreeMap;
use surefoot_model::{Gap, GapCause, Verdict};

/// Gaps of the probe from this length on.
const THRESHOLD: &str = "5us";

/// What is said where nothing could be injected.
pub const NONE: &str = "not judged: nothing was injected (the probe locks its memory, and locked pages are not aged)";

/// The verdict that names no cause.
const NO_CAUSE: &str = "undetermined";

/// A disturbance, and which of the names for it are right.
pub struct Injected {
    pub name: &'static str,
    /// `CORE` stands for the core that is measured.
    spec: &'static str,
    right: &'static [&'static str],
}

/// What is injected; the words after `:` are as in `--disturbance`.
pub const ALL: [Injected; 8] = [
    // The timer's callback runs in the timers' softirq, or in the interrupt itself, and that is what holds the core.
    Injected {
        name: "freeze",
        spec: "freeze:length=1ms,period=20ms,cores=CORE,method=bpf",
        right: &["softirq HRTIMER", "timer"],
    },
    Injected {
        name: "real-time task",
        spec: "freeze:length=1ms,period=20ms,cores=CORE,method=spin",
        right: &["preemption disturb"],
    },
    Injected { name: "ipi", spec: "ipi:rate=200,cores=CORE", right: &["call_function"] },
    Injected { name: "timer", spec: "timer:rate=200,cores=CORE", right: &["timer", "softirq HRTIMER"] },
    Injected { name: "softirq", spec: "softirq:rate=200,cores=CORE", right: &["softirq NET_RX", "preemption disturb"] },
    Injected { name: "tlb-shootdown", spec: "tlb-shootdown:rate=200", right: &["tlb_shootdown", "call_function"] },
    // These take nothing from the core: the probe itself stands still, and to name anything as the cause would be wrong.
    Injected { name: "stop", spec: "stop:length=10ms,period=100ms", right: &[NO_CAUSE] },
    Injected { name: "cgroup-freeze", spec: "cgroup-freeze:length=10ms,period=100ms", right: &[NO_CAUSE] },
];

/// How often each name was given to one kind of what was injected.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Named {
    pub injected: f64,
    pub names: BTreeMap<String, f64>,
    /// Gaps that have a right name among their causes, be it the largest or not.
    pub among: f64,
}

impl Injected {
    fn is_right(&self, name: &str) -> bool {
        self.right
            .iter()
            .any(|right| name.strip_prefix(right).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
    }
}

impl Named {
    /// The share whose largest cause is a right name; `None` where nothing was injected.
    pub fn right(&self, injected: &Injected) -> Option<f64> {
        self.share(self.names.iter().filter(|(name, _)| injected.is_right(name)).map(|(_, count)| count).sum())
    }

    /// The share that has a right name among its causes.
    pub fn among(&self) -> Option<f64> {
        self.share(self.among)
    }

    /// What others add is subtracted by how many there are without, so that by chance it may be below none or above all.
    fn share(&self, right: f64) -> Option<f64> {
        (self.injected >= 1.0).then(|| (right / self.injected).clamp(0.0, 1.0))
    }

    /// The names, the most frequent first.
    pub fn told(&self) -> String {
        let mut names: Vec<(&String, &f64)> = self.names.iter().filter(|(_, count)| count.round() >= 1.0).collect();
        names.sort_by(|one, other| other.1.total_cmp(one.1));
        names.iter().take(4).map(|(name, count)| format!("{name} {count:.0}")).collect::<Vec<_>>().join(", ")
    }
}

/// Injects one of them under the probe.
pub fn run(bench: &Bench, injected: &Injected, repetitions: u64, seconds: u64) -> anyhow::Result<Named> {
    let spec = injected.spec.replace("CORE", &bench.cpu.to_string());
    let surefoot = bench.surefoot.display();
    let command = format!(
        "exec {surefoot} stall probe --cpu {} --duration {seconds}s --threshold {THRESHOLD} {}--json >\"$OUT\"",
        bench.cpu,
        // Above what else the machine does; a sender of packets on the same core must have its turn.
        if injected.name == "softirq" { "" } else { "--fifo 50 " }
    );
    let runs = experiment::run(bench, &format!("causes of {}", injected.name), &spec, &command, repetitions)?;
    let mut with = Vec::new();
    for ran in runs {
        let (gaps, _) = parse_probe(&std::fs::read_to_string(&ran.said)?)?;
        with.push((ran, gaps));
    }
    Ok(count(&with, injected))
}

/// By the stalls' own times where they are told one by one; else by how many gaps of each name there are beyond those without.
fn count(runs: &[(Ran, Vec<Gap>)], injected: &Injected) -> Named {
    let mut named = Named::default();
    let is_by_time = runs.iter().any(|(ran, _)| !ran.stalls.is_empty());
    for (ran, gaps) in runs {
        let Some(looked) = looked_at(gaps) else { continue };
        let share = looked.shared_ns(&ran.whole) as f64 / ran.whole.length_ns.max(1) as f64;
        let stalls: Vec<&Stretch> =
            ran.stalls.iter().filter(|stall| looked.shared_ns(stall) == stall.length_ns).collect();
        if is_by_time {
            named.injected += stalls.len() as f64;
            for stall in stalls {
                let best = gaps.iter().max_by_key(|gap| stretch(gap).shared_ns(stall));
                let best = best.filter(|gap| stretch(gap).shared_ns(stall) * 2 >= stall.length_ns);
                named.among += f64::from(u8::from(best.is_some_and(|gap| is_among(gap, injected))));
                *named.names.entry(best.map_or("no gap".to_owned(), name)).or_default() += 1.0;
            }
        } else {
            let sign = if ran.is_disturbed { 1.0 } else { -1.0 };
            named.injected += ran.stall_count as f64 * share;
            gaps.iter().for_each(|gap| *named.names.entry(name(gap)).or_default() += sign);
            named.among += sign * gaps.iter().filter(|gap| is_among(gap, injected)).count() as f64;
        }
    }
    named
}

fn stretch(gap: &Gap) -> Stretch {
    Stretch { start_ns: gap.start_ns, length_ns: gap.duration_ns }
}

fn looked_at(gaps: &[Gap]) -> Option<Stretch> {
    let (first, last) = (gaps.first()?, gaps.last()?);
    Some(Stretch { start_ns: first.start_ns, length_ns: stretch(last).end_ns() - first.start_ns })
}

fn word(cause: &GapCause) -> String {
    format!("{} {}", cause.cause.kind.as_str(), cause.cause.name)
}

/// Whether one of its names is right.
fn is_among(gap: &Gap, injected: &Injected) -> bool {
    injected.is_right(&name(gap)) || gap.causes.iter().any(|cause| injected.is_right(&word(cause)))
}

/// What the probe says of a gap in a word or two: the largest cause, or the verdict where most of it has none.
fn name(gap: &Gap) -> String {
    let largest =
        gap.causes.iter().filter(|cause| cause.cause.name != "entry and exit").max_by_key(|cause| cause.duration_ns);
    match (gap.verdict, largest) {
        (Verdict::Traced, Some(cause)) => word(cause),
        (_, Some(cause)) if gap.unexplained_ns * 2 < gap.duration_ns => word(cause),
        (verdict, _) => verdict.label().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(start_us: u64, length_us: u64, causes: Vec<GapCause>) -> Gap {
        Gap {
            cpu: surefoot_model::CpuId(1),
            source: surefoot_model::GapSource::Probe,
            start_ns: start_us * 1000,
            duration_ns: length_us * 1000,
            causes,
            unexplained_ns: 0,
            verdict: Verdict::Traced,
            certainty: surefoot_model::Certainty::Certain,
            evidence: Vec::new(),
        }
    }

    /// What comes without any disturbance has nothing to do with stalls whose times are known.
    #[test]
    fn stalls_are_matched_by_time_and_the_rest_is_counted() {
        let cause =
            |kind, name: &str| GapCause { cause: surefoot_model::Cause { kind, name: name.into() }, duration_ns: 1000 };
        let timer = || vec![cause(surefoot_model::CauseKind::Timer, "local_timer")];
        let softirq = || vec![cause(surefoot_model::CauseKind::Softirq, "HRTIMER")];
        let ran = |is_disturbed, stalls: &[u64]| Ran {
            is_disturbed,
            whole: Stretch { start_ns: 0, length_ns: 10_000_000 },
            stalls: stalls.iter().map(|at| Stretch { start_ns: at * 1000, length_ns: 1_000_000 }).collect(),
            stall_count: stalls.len() as u64,
            said: std::path::PathBuf::new(),
        };
        let ticks: Vec<Gap> = (0..=10).map(|number| gap(number * 1000, 10, timer())).collect();
        let mut with = vec![gap(0, 10, timer()), gap(2000, 1010, softirq()), gap(5000, 1010, timer())];
        with.push(gap(9990, 10, timer()));
        let runs = [(ran(true, &[2000, 5000, 7000]), with), (ran(false, &[]), ticks.clone())];
        let found = count(&runs, &ALL[0]);
        assert_eq!((found.injected, found.among), (3.0, 2.0));
        assert_eq!(found.told(), "no gap 1, softirq HRTIMER 1, timer local_timer 1");
        // Of interrupts the times are not told: as many count as there are more than without.
        let counted = Ran { stall_count: 4, ..ran(true, &[]) };
        let found = count(&[(counted, [ticks.clone(), ticks.clone()].concat()), (ran(false, &[]), ticks)], &ALL[3]);
        assert_eq!((found.injected, found.among), (4.0, 11.0));
    }

    #[test]
    fn a_share_is_one_and_of_nothing_there_is_none() {
        let softirq = &ALL[4];
        let named = |injected: f64, names: &[(&str, f64)], among: f64| {
            let names = names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            Named { injected, names, among }
        };
        let found = named(10.0, &[("softirq NET_RX", 1.0), ("timer local_timer", 8.0), ("softirq NET_RXX", 1.0)], 9.0);
        assert_eq!((found.right(softirq), found.among()), (Some(0.1), Some(0.9)));
        assert_eq!(named(10.0, &[("softirq NET_RX", -2.0)], 12.0).right(softirq), Some(0.0));
        assert_eq!(named(10.0, &[], 12.0).among(), Some(1.0));
        let none = named(0.0, &[("softirq NET_RX", -2.0)], 0.0);
        assert_eq!((none.right(softirq), none.among()), (None, None));
        assert!(
            ALL[6].is_right(NO_CAUSE) && !ALL[6].is_right("undetermined_x") && ALL[0].is_right("timer local_timer")
        );
    }
}
