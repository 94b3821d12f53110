//! Sums of lost time since the server began.

use super::public;
use crate::viewer::Private;
use crate::viewer::Viewer;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Cause, CauseKind, CoreLedger, CpuId, Gap, LedgerSum, LostSum, WhoReport, Window};

/// Names that are told apart within one kind of cause; the rest counts as [`OTHER`].
pub const NAMES_PER_KIND_MAX: usize = 64;
/// The name of what has no name of its own any more.
pub const OTHER: &str = "other";
/// Cores that are told apart; more than any machine has that Linux runs on.
const CORES_MAX: usize = 8192;
/// Rows of interrupts by raiser: every kind and certainty on more cores than anybody watches.
const RAISED_MAX: usize = 16_384;
/// Characters of a name.
const NAME_CHARACTERS_MAX: usize = 128;
/// Upper edges of the buckets that gap durations are counted in, nanoseconds.
pub const GAP_EDGES_NS: [u64; 18] = [
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
pub struct Totals {
    /// Each core's ledger.
    pub cores: BTreeMap<CpuId, LedgerSum<Cause, LostSum>>,
    names: BTreeMap<CauseKind, BTreeSet<String>>,
    /// Kinds that are counted, those that took nothing yet too.
    pub counted: BTreeSet<CauseKind>,
    /// How many gaps there were.
    pub gaps: BTreeMap<GapKey, u64>,
    /// Gaps by duration: one count per edge, and one for the longer ones.
    pub gap_buckets: [u64; GAP_EDGES_NS.len() + 1],
    /// Their length in all.
    pub gap_ns: u64,
    /// Interrupts without a tracepoint, by core and row of /proc/interrupts.
    pub untimed: BTreeMap<(CpuId, String), u64>,
    rows: BTreeSet<String>,
    /// Interrupts by core, kind and how sure their raiser is, over all watches for raisers.
    raised: BTreeMap<(CpuId, CauseKind, String), Risen>,
    /// What was lost on the way to a raiser; `None` where raisers are not watched.
    raisers_lost: Option<Risen>,
    /// How often the reader of names ended; `None` where raisers are not watched.
    naming_deaths: Option<Risen>,
    /// Readers of names that hang now.
    naming_hung: u64,
    /// When the watch for raisers began whose reports these are.
    raisers_since_ns: u64,
}

/// A count that is told as a sum since some start, and must never fall.
#[derive(Debug, Clone, Copy, Default)]
struct Risen {
    /// From the watches before this one.
    before: u64,
    /// The highest that this watch has told.
    highest: u64,
}

impl Risen {
    fn begin_anew(&mut self) {
        *self = Risen { before: self.count(), highest: 0 };
    }

    fn reach(&mut self, count: u64) {
        self.highest = self.highest.max(count);
    }

    fn count(self) -> u64 {
        self.before.saturating_add(self.highest)
    }
}

/// The kinds of cause whose times a program of the ledger takes (`crates/probes/bpf`).
fn counted_by(program: &str) -> &'static [CauseKind] {
    match program {
        "irq_handler_entry" => &[CauseKind::DeviceInterrupt],
        "softirq_entry" => &[CauseKind::Softirq],
        "sched_switch" => &[CauseKind::KernelThread],
        "nmi_handler" => &[CauseKind::Nmi],
        "local_timer_entry" => &[CauseKind::Timer],
        "reschedule_entry" => &[CauseKind::Reschedule],
        "call_function_entry" | "call_function_single_entry" => &[CauseKind::CallFunction],
        "csd_function_entry" => &[CauseKind::CallFunction, CauseKind::TlbShootdown],
        "irq_work_entry" => &[CauseKind::IrqWork],
        "threshold_apic_entry" | "deferred_error_apic_entry" => &[CauseKind::MachineCheck],
        _ => &[],
    }
}

/// What gaps are counted by, in the words of the JSON form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GapKey {
    /// The core.
    pub cpu: CpuId,
    /// What found it.
    pub source: String,
    /// What the part is that no cause covers.
    pub verdict: String,
    /// How certain that is.
    pub certainty: String,
}

impl Private for Totals {
    fn seen_by(self, viewer: Viewer) -> Self {
        if viewer.sees_all { self } else { self.public() }
    }
}

impl Totals {
    /// Adds a window.
    pub fn add_window(&mut self, window: &Window) {
        self.counted.extend(window.cost.probes.iter().flat_map(|probe| counted_by(&probe.name)));
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
    }

    /// Takes a report of raisers, which counts from the start of its watch.
    ///
    /// A report that grew too large has fewer rows than the one before, and rows that were counted together. What was
    /// counted stays counted: a counter that falls is a restart to whoever reads it.
    pub fn set_who(&mut self, who: &WhoReport) {
        if who.start_ns != self.raisers_since_ns {
            self.raisers_since_ns = who.start_ns;
            let counts = self.raised.values_mut().chain(&mut self.raisers_lost).chain(&mut self.naming_deaths);
            counts.for_each(Risen::begin_anew);
        }
        let mut raised: BTreeMap<_, u64> = BTreeMap::new();
        for interrupt in &who.interrupts {
            let known = interrupt.raisers.iter().map(|raiser| (word(&raiser.certainty), raiser.count));
            let unknown = ("unknown".to_owned(), interrupt.unknown_raisers);
            for (certainty, count) in known.chain([unknown]) {
                add(raised.entry((interrupt.cpu, interrupt.cause.kind, certainty)).or_default(), count);
            }
        }
        for (key, count) in raised {
            if self.raised.len() < RAISED_MAX || self.raised.contains_key(&key) {
                self.raised.entry(key).or_default().reach(count);
            }
        }
        let lost = who.records_dropped.saturating_add(who.marks_lost);
        self.raisers_lost.get_or_insert_default().reach(lost);
        self.naming_deaths.get_or_insert_default().reach(who.naming_deaths);
        self.naming_hung = who.naming_hung;
    }

    /// How often the reader of names ended, and how many hang; `None` where raisers are not watched.
    pub fn naming(&self) -> Option<(u64, u64)> {
        self.naming_deaths.map(|risen| (risen.count(), self.naming_hung))
    }

    /// Interrupts by core, kind and how sure their raiser is.
    pub fn raised(&self) -> impl Iterator<Item = (&(CpuId, CauseKind, String), u64)> {
        self.raised.iter().map(|(key, risen)| (key, risen.count()))
    }

    /// What was lost on the way to a raiser; `None` where raisers are not watched.
    pub fn raisers_lost(&self) -> Option<u64> {
        self.raisers_lost.map(|risen| risen.count())
    }

    /// The same without names of programs.
    fn public(mut self) -> Totals {
        for core in self.cores.values_mut() {
            for (cause, lost) in std::mem::take(&mut core.lost) {
                core.add_lost(public::cause(&cause).unwrap_or(cause), lost);
            }
        }
        self
    }

    fn add_core(&mut self, core: &CoreLedger) {
        let Totals { cores, names, .. } = self;
        cores.entry(core.cpu).or_insert_with(|| LedgerSum::empty(core.cpu)).add(core, |_, lost| {
            let kind = lost.cause.kind;
            let name = bounded(names.entry(kind).or_default(), &lost.cause.name);
            (Cause::new(kind, name), LostSum::of(lost))
        });
    }

    /// Adds a gap.
    pub fn add_gap(&mut self, gap: &Gap) {
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
    use surefoot_model::{Certainty, GapSource, Interrupt, Lost, Raiser, SelfCost, Verdict};

    fn window(cpu: u32, lost: Vec<Lost>) -> Window {
        let cores = vec![CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: 1_000,
            idle_ns: 900,
            user_ns: 100,
            kernel_ns: 0,
            lost,
            unexplained_ns: 0,
            waiting: None,
        }];
        Window {
            start_ns: 0,
            end_ns: 1_000,
            cores,
            faulty: Vec::new(),
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
        let names: BTreeSet<&str> = rows().map(|(cause, _)| cause.name.as_str()).collect();
        assert_eq!(names.len(), NAMES_PER_KIND_MAX + 1);
        assert!(names.contains(OTHER));
        assert!(names.contains("kworker/63") && !names.contains("kworker/64"), "the first ones keep their names");
    }

    #[test]
    fn counts_of_raisers_never_fall() {
        let report = |start_ns, raisers: &[(Certainty, u64)], unknown_raisers, marks_lost| {
            let raiser = |&(certainty, count): &(Certainty, u64)| Raiser {
                certainty,
                function: String::new(),
                syscall: String::new(),
                comm: String::new(),
                pid: 1,
                tid: 1,
                wakee: String::new(),
                count,
                kernel_stack: Vec::new(),
                user_stack: Vec::new(),
                is_sum: false,
            };
            let interrupt = Interrupt {
                cpu: CpuId(1),
                cause: Cause::new(CauseKind::Reschedule, ""),
                handler: String::new(),
                count: 0,
                total_ns: 0,
                p50_ns: 0,
                p99_ns: 0,
                max_ns: 0,
                while_idle_ns: 0,
                entry_exit_ns: None,
                intruders: Vec::new(),
                share_of_lost_ppm: 0,
                detail: Vec::new(),
                raisers: raisers.iter().map(raiser).collect(),
                unknown_raisers,
                advice: Vec::new(),
            };
            WhoReport { start_ns, interrupts: vec![interrupt], marks_lost, ..WhoReport::default() }
        };
        let mut totals = Totals::default();
        let shown = |totals: &Totals| totals.raised().map(|(key, count)| (key.2.clone(), count)).collect::<Vec<_>>();
        let told = |certain, probable| vec![("certain".to_owned(), certain), ("probable".to_owned(), probable)];
        let with_unknown = |mut rows: Vec<(String, u64)>, unknown| {
            rows.push(("unknown".to_owned(), unknown));
            rows
        };
        totals.set_who(&report(7, &[(Certainty::Certain, 50), (Certainty::Probable, 9)], 4, 3));
        assert_eq!(shown(&totals), with_unknown(told(50, 9), 4));
        // A report that was cut down to its size, and an interrupt that found no room in it.
        totals.set_who(&report(7, &[(Certainty::Certain, 20)], 5, 2));
        assert_eq!((shown(&totals), totals.raisers_lost()), (with_unknown(told(50, 9), 5), Some(3)));
        totals.set_who(&WhoReport { start_ns: 7, ..WhoReport::default() });
        totals.set_who(&report(7, &[(Certainty::Certain, 60)], 5, 3));
        assert_eq!(shown(&totals), with_unknown(told(60, 9), 5));
        // Another watch counts from zero.
        totals.set_who(&report(8, &[(Certainty::Certain, 1)], 1, 1));
        assert_eq!((shown(&totals), totals.raisers_lost()), (with_unknown(told(61, 9), 6), Some(4)));
        assert_eq!(totals.naming(), Some((0, 0)));
        for (start_ns, naming_deaths, naming_hung) in [(8, 2, 1), (9, 1, 0)] {
            totals.set_who(&WhoReport { start_ns, naming_deaths, naming_hung, ..WhoReport::default() });
        }
        assert_eq!(totals.naming(), Some((3, 0)));
    }

    #[test]
    fn counters_stop_at_their_end() {
        let mut totals = Totals::default();
        let cause = || Cause::new(CauseKind::Timer, "x".repeat(1_000));
        totals.add_window(&window(0, vec![Lost::new(cause(), u64::MAX, u64::MAX, 1)]));
        totals.add_window(&window(0, vec![Lost::new(cause(), 5, 5, 2)]));
        let (key, lost) = totals.cores[&CpuId(0)].lost.first_key_value().unwrap();
        assert_eq!((lost.count, lost.total_ns, lost.max_ns), (u64::MAX, u64::MAX, 2));
        assert_eq!(key.name.len(), NAME_CHARACTERS_MAX);
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
                verdict: Verdict::PauseOrSmi,
                certainty: Certainty::CannotTellApartHere,
                evidence: Vec::new(),
            });
        }
        assert_eq!((totals.gap_buckets[0], totals.gap_buckets[1]), (1, 1));
        assert_eq!(totals.gap_buckets.last(), Some(&1));
        let key = GapKey {
            cpu: CpuId(0),
            source: "timer_lateness".into(),
            verdict: "pause_or_smi".into(),
            certainty: "cannot_tell_apart_here".into(),
        };
        assert_eq!(totals.gaps.get(&key), Some(&3));
    }
}
