use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{CauseKind, CoreLedger, CpuId, Gap, ProbeCost, WhoReport, Window};

/// Names that are told apart within one kind of cause; the rest counts as [`OTHER`].
pub(crate) const NAMES_PER_KIND_MAX: usize = 64;
/// The name of what has no name of its own any more.
pub(crate) const OTHER: &str = "other";
/// Cores that are told apart; more than any machine has that Linux runs on.
const CORES_MAX: usize = 8192;
/// Rows of interrupts by raiser: every kind and certainty on more cores than anybody watches.
const RAISED_MAX: usize = 16_384;
/// Characters of a name.
const NAME_CHARACTERS_MAX: usize = 128;
/// Upper edges of the buckets that gap durations are counted in, nanoseconds.
pub(crate) const GAP_EDGES_NS: [u64; 18] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Sums since the server began, which only grow: what the counters of /metrics show.
///
/// Names come from the machine (threads, devices), so their number is limited here; unlike in a
/// [`surefoot_model::Report`], which is made for a stretch of time and may tell all of them apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) cores: BTreeMap<CpuId, CoreTotals>,
    names: BTreeMap<CauseKind, BTreeSet<String>>,
    pub(crate) gaps: BTreeMap<GapKey, u64>,
    /// Gaps by duration: one count per edge, and one for the longer ones.
    pub(crate) gap_buckets: [u64; GAP_EDGES_NS.len() + 1],
    pub(crate) gap_ns: u64,
    /// Interrupts without a tracepoint, by core and row of /proc/interrupts.
    pub(crate) untimed: BTreeMap<(CpuId, String), u64>,
    rows: BTreeSet<String>,
    pub(crate) probes: BTreeMap<String, ProbeTotals>,
    /// Interrupts by core, kind and how sure their raiser is, as in the newest report of raisers.
    pub(crate) raised: BTreeMap<(CpuId, CauseKind, String), u64>,
    /// Of the newest report, what was lost on the way to a raiser; `None` where raisers are not watched.
    pub(crate) raisers_lost: Option<u64>,
    pub(crate) process_cpu_ns: u64,
    /// As in the newest window.
    pub(crate) resident_bytes: u64,
    /// As in the newest window.
    pub(crate) map_bytes: u64,
    pub(crate) kernel_dropped: u64,
    pub(crate) torn: u64,
    pub(crate) unreported: u64,
    pub(crate) self_interrupts: u64,
}

/// Where a core's time went.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreTotals {
    pub(crate) idle_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) kernel_ns: u64,
    pub(crate) unexplained_ns: u64,
    pub(crate) lost: BTreeMap<(CauseKind, String), LostTotals>,
}

/// What a cause took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LostTotals {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

/// What a probe cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProbeTotals {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) missed: u64,
}

/// What gaps are counted by, in the words of the JSON form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GapKey {
    pub(crate) cpu: CpuId,
    pub(crate) source: String,
    pub(crate) verdict: String,
    pub(crate) certainty: String,
}

impl Totals {
    pub(crate) fn add_window(&mut self, window: &Window) {
        for core in &window.cores {
            if self.cores.len() < CORES_MAX || self.cores.contains_key(&core.cpu) {
                self.add_core(core);
            }
        }
        for row in &window.untimed {
            let name = bounded(&mut self.rows, &row.row);
            let count = self.untimed.entry((row.cpu, name)).or_default();
            *count = count.saturating_add(row.count);
        }
        for probe in &window.cost.probes {
            self.add_probe(probe);
        }
        let cost = &window.cost;
        add(&mut self.process_cpu_ns, cost.process_cpu_ns);
        self.resident_bytes = cost.resident_bytes;
        self.map_bytes = cost.map_bytes;
        add(&mut self.kernel_dropped, cost.dropped);
        add(&mut self.torn, cost.torn);
        add(&mut self.unreported, cost.unreported);
        add(&mut self.self_interrupts, cost.self_interrupts);
    }

    /// Takes a report of raisers, which counts from the start of its watch, in the place of the one before.
    pub(crate) fn set_who(&mut self, who: &WhoReport) {
        self.raised.clear();
        for interrupt in &who.interrupts {
            let known = interrupt.raisers.iter().map(|raiser| (word(&raiser.certainty), raiser.count));
            let unknown = ("unknown".to_owned(), interrupt.unknown_raisers);
            for (certainty, count) in known.chain([unknown]) {
                let key = (interrupt.cpu, interrupt.cause.kind, certainty);
                if self.raised.len() < RAISED_MAX || self.raised.contains_key(&key) {
                    add(self.raised.entry(key).or_default(), count);
                }
            }
        }
        self.raisers_lost = Some(who.records_dropped.saturating_add(who.marks_lost));
    }

    fn add_core(&mut self, core: &CoreLedger) {
        let sum = self.cores.entry(core.cpu).or_default();
        add(&mut sum.idle_ns, core.idle_ns);
        add(&mut sum.user_ns, core.user_ns);
        add(&mut sum.kernel_ns, core.kernel_ns);
        add(&mut sum.unexplained_ns, core.unexplained_ns);
        for lost in &core.lost {
            let name = bounded(self.names.entry(lost.cause.kind).or_default(), &lost.cause.name);
            let row = sum.lost.entry((lost.cause.kind, name)).or_default();
            add(&mut row.count, lost.count);
            add(&mut row.total_ns, lost.total_ns);
            row.max_ns = row.max_ns.max(lost.max_ns);
        }
    }

    fn add_probe(&mut self, probe: &ProbeCost) {
        let known = self.probes.len() < NAMES_PER_KIND_MAX || self.probes.contains_key(&probe.name);
        let sum = self.probes.entry(shortened(if known { &probe.name } else { OTHER })).or_default();
        add(&mut sum.count, probe.count);
        add(&mut sum.total_ns, probe.total_ns);
        add(&mut sum.missed, probe.missed);
    }

    pub(crate) fn add_gap(&mut self, gap: &Gap) {
        let at = GAP_EDGES_NS.partition_point(|&edge| edge < gap.duration_ns);
        self.gap_buckets[at] = self.gap_buckets[at].saturating_add(1);
        add(&mut self.gap_ns, gap.duration_ns);
        let key = GapKey {
            cpu: gap.cpu,
            source: word(&gap.source),
            verdict: word(&gap.verdict),
            certainty: word(&gap.certainty),
        };
        if self.gaps.len() < CORES_MAX || self.gaps.contains_key(&key) {
            add(self.gaps.entry(key).or_default(), 1);
        }
    }
}

/// Counters stop at their end rather than begin anew: a recording may hold any number.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The name itself while there is room for it among the known ones, [`OTHER`] from then on.
fn bounded(known: &mut BTreeSet<String>, name: &str) -> String {
    let name = shortened(name);
    if known.contains(&name) {
        return name;
    }
    if known.len() >= NAMES_PER_KIND_MAX {
        return OTHER.to_owned();
    }
    known.insert(name.clone());
    name
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}

/// The word of the JSON form, so that /metrics and the API speak alike.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        // The enums of the model without data have no other form.
        _ => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, Certainty, GapSource, Lost, SelfCost, Verdict};

    fn window(cpu: u32, lost: Vec<Lost>) -> Window {
        let cores = vec![CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: 1_000,
            idle_ns: 900,
            user_ns: 100,
            kernel_ns: 0,
            lost,
            unexplained_ns: 0,
        }];
        Window {
            start_ns: 0,
            end_ns: 1_000,
            cores,
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost: SelfCost::default(),
        }
    }

    #[test]
    fn names_beyond_the_limit_are_counted_together_and_nothing_is_lost() {
        let mut totals = Totals::default();
        for thread in 0..200 {
            let cause = Cause::new(CauseKind::KernelThread, format!("kworker/{thread}"));
            totals.add_window(&window(thread % 2, vec![Lost::new(cause, 1, 10, 10)]));
        }
        let rows = || totals.cores.values().flat_map(|core| &core.lost);
        assert_eq!(rows().map(|(_, lost)| lost.count).sum::<u64>(), 200);
        assert_eq!(rows().map(|(_, lost)| lost.total_ns).sum::<u64>(), 2_000);
        let names: BTreeSet<&str> = rows().map(|((_, name), _)| name.as_str()).collect();
        assert_eq!(names.len(), NAMES_PER_KIND_MAX + 1);
        assert!(names.contains(OTHER));
        assert!(names.contains("kworker/63") && !names.contains("kworker/64"), "the first ones keep their names");
    }

    #[test]
    fn counters_stop_at_their_end() {
        let mut totals = Totals::default();
        let cause = || Cause::new(CauseKind::Timer, "x".repeat(1_000));
        totals.add_window(&window(0, vec![Lost::new(cause(), u64::MAX, u64::MAX, 1)]));
        totals.add_window(&window(0, vec![Lost::new(cause(), 5, 5, 2)]));
        let (key, lost) = totals.cores[&CpuId(0)].lost.first_key_value().unwrap();
        assert_eq!((lost.count, lost.total_ns, lost.max_ns), (u64::MAX, u64::MAX, 2));
        assert_eq!(key.1.len(), NAME_CHARACTERS_MAX);
    }

    #[test]
    fn a_gap_falls_into_the_bucket_whose_upper_edge_it_does_not_exceed() {
        let mut totals = Totals::default();
        for duration_ns in [1_000, 1_001, 10_000_000_001] {
            totals.add_gap(&Gap {
                cpu: CpuId(0),
                source: GapSource::TimerLateness,
                start_ns: 0,
                duration_ns,
                causes: Vec::new(),
                unexplained_ns: 0,
                verdict: Verdict::HostPauseOrSmi,
                certainty: Certainty::CannotTellApartHere,
                evidence: Vec::new(),
            });
        }
        assert_eq!((totals.gap_buckets[0], totals.gap_buckets[1]), (1, 1));
        assert_eq!(totals.gap_buckets.last(), Some(&1));
        let key = GapKey {
            cpu: CpuId(0),
            source: "timer_lateness".into(),
            verdict: "host_pause_or_smi".into(),
            certainty: "cannot_tell_apart_here".into(),
        };
        assert_eq!(totals.gaps.get(&key), Some(&3));
    }
}
