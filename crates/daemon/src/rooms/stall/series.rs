//! Lost time as metrics: sums over all cores, and of each core where that is asked for.

use crate::http::series::{Claim, Detail, Series, Value};
use std::collections::BTreeMap;
use surefoot_http::metrics::seconds;
use surefoot_model::{CauseKind, CoreLedger, CpuId, LostSum};
use surefoot_rooms::stall::totals::{GAP_EDGES_NS, GapKey, Totals};

/// What cores lost to each kind of cause, and whether every row of the kind counts its occurrences.
type Kinds = BTreeMap<CauseKind, Lost>;

#[derive(Clone, Copy)]
struct Lost {
    sum: LostSum,
    is_counted: bool,
    has_max: bool,
}

impl Default for Lost {
    fn default() -> Self {
        Lost { sum: LostSum::default(), is_counted: true, has_max: true }
    }
}

impl Lost {
    fn add(&mut self, row: &LostSum) {
        self.sum += row;
        self.is_counted &= row.known_count().is_some();
        self.has_max &= row.known_max_ns().is_some();
    }

    fn of(row: &LostSum) -> Self {
        let mut lost = Lost::default();
        lost.add(row);
        lost
    }
}

/// Adds the sums. They are kept as integers and become seconds here, so that no rounding adds up.
pub(super) fn encode(totals: &Totals, series: &mut Series) {
    times(totals, series);
    lost(totals, series);
    untimed(totals, series);
    raisers(totals, series);
    gaps(totals, series);
}

fn states(times: &CoreLedger) -> [(&'static str, u64); 4] {
    [
        ("idle", times.idle_ns),
        ("user", times.user_ns),
        ("kernel", times.kernel_ns),
        ("unexplained", times.unexplained_ns),
    ]
}

/// A core's place in the order of claims: by its number, so that the same cores are told at each scrape.
fn cores(totals: &Totals) -> BTreeMap<CpuId, Claim> {
    let untimed = totals.untimed.keys().map(|(cpu, _)| *cpu);
    let raised = totals.raised().map(|((cpu, ..), _)| *cpu);
    let gaps = totals.gaps.keys().map(|key| key.cpu);
    let mut all: Vec<CpuId> = totals.cores.keys().copied().chain(untimed).chain(raised).chain(gaps).collect();
    all.sort_unstable();
    all.dedup();
    // After what is told of all cores by names from the machine.
    all.into_iter().enumerate().map(|(place, cpu)| (cpu, Claim(NAMES_MAX + place))).collect()
}

/// More names from the machine than are told of a host as a whole.
const NAMES_MAX: usize = 10_000;

fn times(totals: &Totals, series: &mut Series) {
    series.gauge("stall_cores", "Cores whose time is accounted for.").add(&[], totals.cores.len() as u64);
    let mut all = CoreLedger::empty(CpuId(0));
    totals.cores.values().for_each(|core| all.add_times(&core.times));
    if !totals.cores.is_empty() {
        let help = "Time of all cores outside named causes of loss, by state.";
        let family = series.seconds_counter("stall_time", help);
        for (state, total_ns) in states(&all) {
            family.add(&[("state", state)], seconds(total_ns));
        }
    }
    if series.tells(Detail::Core) {
        let claims = cores(totals);
        let family = series.seconds_counter("stall_core", "Time of each core outside named causes of loss, by state.");
        for (cpu, core) in &totals.cores {
            for (state, total_ns) in states(&core.times) {
                family.of(claims[cpu], &[("cpu", &cpu.to_string()), ("state", state)], seconds(total_ns));
            }
        }
    }
}

fn kinds<'a>(rows: impl Iterator<Item = (&'a surefoot_model::Cause, &'a LostSum)>) -> Kinds {
    let mut kinds = Kinds::new();
    rows.for_each(|(cause, lost)| kinds.entry(cause.kind).or_default().add(lost));
    kinds
}

fn lost(totals: &Totals, series: &mut Series) {
    let mut host = kinds(totals.cores.values().flat_map(|core| &core.lost));
    // A rate sees the first occurrence only where there was a 0 before it.
    let none = Lost { has_max: false, ..Lost::default() };
    totals.counted.iter().for_each(|&kind| _ = host.entry(kind).or_insert(none));
    let rows = || host.iter().map(|(kind, lost)| ([("kind", kind.as_str())], lost));
    let help = "Time taken from all cores by each kind of cause, while tasks ran or waited and while idle; nested causes count once.";
    rows()
        .for_each(|(labels, lost)| series.seconds_counter("stall_lost", help).add(&labels, seconds(lost.sum.total_ns)));
    if !totals.cores.is_empty() {
        let help = "The part of surefoot_stall_lost_seconds that delayed no task, because none ran on the core or waited for it.";
        let idle_ns = host.values().fold(0u64, |sum, lost| sum.saturating_add(lost.sum.while_idle_ns));
        series.seconds_counter("stall_lost_while_idle", help).add(&[], seconds(idle_ns));
    }
    let help = "How often each kind of cause took time from a core; absent where that is not counted.";
    rows().filter(|(_, lost)| lost.is_counted).for_each(|(labels, lost)| {
        series.counter("stall_lost_events", help).add(&labels, lost.sum.count);
    });
    let help = "The longest single occurrence of each kind of cause on any core since watching began; absent where that is not known.";
    rows().filter(|(_, lost)| lost.has_max).for_each(|(labels, lost)| {
        series.seconds("stall_lost_max", help).add(&labels, seconds(lost.sum.max_ns));
    });
    let claims = cores(totals);
    for (cpu, core) in &totals.cores {
        let (claim, cpu) = (claims[cpu], cpu.to_string());
        if series.tells(Detail::Core) {
            let help = "The part of each core's lost time that delayed no task.";
            let idle_ns = core.lost.values().fold(0u64, |sum, lost| sum.saturating_add(lost.while_idle_ns));
            series.seconds_counter("stall_core_lost_while_idle", help).of(claim, &[("cpu", &cpu)], seconds(idle_ns));
            for (kind, lost) in kinds(core.lost.iter()) {
                of_core(series, claim, &CORE, &[("cpu", &cpu), ("kind", kind.as_str())], &lost);
            }
        }
        if series.tells(Detail::Cause) {
            for (cause, lost) in &core.lost {
                let labels = [("cpu", cpu.as_str()), ("kind", cause.kind.as_str()), ("name", &cause.name)];
                of_core(series, claim, &CAUSE, &labels, &Lost::of(lost));
            }
        }
    }
}

/// Names and helps of what a core lost: its time, how often, the longest.
type Names = [(&'static str, &'static str); 3];

const CORE: Names = [
    ("stall_core_lost", "Time taken from each core by each kind of cause; nested causes count once."),
    (
        "stall_core_lost_events",
        "How often each kind of cause took time from each core; absent where that is not counted.",
    ),
    ("stall_core_lost_max", "The longest single occurrence of each kind of cause on each core since watching began."),
];

const CAUSE: Names = [
    ("stall_cause_lost", "Time taken from each core by each cause; nested causes count once."),
    ("stall_cause_lost_events", "How often each cause took time from each core; absent where that is not counted."),
    ("stall_cause_lost_max", "The longest single occurrence of each cause on each core since watching began."),
];

fn of_core(series: &mut Series, claim: Claim, names: &Names, labels: &[(&'static str, &str)], lost: &Lost) {
    let [took, events, longest] = names;
    series.seconds_counter(took.0, took.1).of(claim, labels, seconds(lost.sum.total_ns));
    if lost.is_counted {
        series.counter(events.0, events.1).of(claim, labels, lost.sum.count);
    }
    if lost.has_max {
        series.seconds(longest.0, longest.1).of(claim, labels, seconds(lost.sum.max_ns));
    }
}

fn untimed(totals: &Totals, series: &mut Series) {
    let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, row), &count) in &totals.untimed {
        let sum = rows.entry(row).or_default();
        *sum = sum.saturating_add(count);
    }
    let help = "Interrupts that the kernel counted but that have no tracepoint to time them by, on all cores.";
    let all = rows.values().fold(0u64, |sum, &count| sum.saturating_add(count));
    if !totals.cores.is_empty() {
        series.counter("stall_untimed_interrupts", help).add(&[], all);
    }
    let help = "The same by row of /proc/interrupts.";
    for (place, (row, count)) in rows.into_iter().enumerate() {
        series.counter("stall_untimed_row_interrupts", help).of(Claim(ROWS + place), &[("row", row)], count);
    }
    if series.tells(Detail::Core) {
        let claims = cores(totals);
        let help = "The same by core and row of /proc/interrupts.";
        for ((cpu, row), &count) in &totals.untimed {
            let labels = [("cpu", &*cpu.to_string()), ("row", row)];
            series.counter("stall_core_untimed_interrupts", help).of(claims[cpu], &labels, count);
        }
    }
}

/// How sure it can be who raised an interrupt.
const RAISERS: [&str; 4] = ["certain", "probable", "cannot_tell_apart_here", "unknown"];

fn raisers(totals: &Totals, series: &mut Series) {
    let Some(lost) = totals.raisers_lost() else { return };
    let mut by_raiser: BTreeMap<&str, u64> = RAISERS.map(|raiser| (raiser, 0)).into();
    for ((_, _, raiser), count) in totals.raised() {
        let sum = by_raiser.entry(raiser).or_default();
        *sum = sum.saturating_add(count);
    }
    let help = "Interrupts on the cores whose raisers are watched, by how sure it is who raised them.";
    let family = series.counter("stall_raised_interrupts", help);
    by_raiser.iter().for_each(|(raiser, &count)| family.add(&[("raiser", raiser)], count));
    if series.tells(Detail::Core) {
        let claims = cores(totals);
        let family = series.counter("stall_core_raised_interrupts", "The same by core and kind of cause.");
        for ((cpu, kind, raiser), count) in totals.raised() {
            let labels = [("cpu", &*cpu.to_string()), ("kind", kind.as_str()), ("raiser", raiser)];
            family.of(claims[cpu], &labels, count);
        }
    }
    let help = "Records and marks of raised interrupts that were lost before they could be joined.";
    series.counter("stall_raiser_records_lost", help).add(&[], lost);
    let (deaths, hung) = totals.naming().unwrap_or_default();
    let help = "How often the process that reads the files of watched programs ended over one of them.";
    series.counter("stall_name_reader_deaths", help).add(&[], deaths);
    let help = "Processes that read the files of watched programs and hang, because a file system does not answer.";
    series.gauge("stall_name_readers_hung", help).add(&[], hung);
}

fn gaps(totals: &Totals, series: &mut Series) {
    let mut host: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for (key, &count) in &totals.gaps {
        let sum = host.entry((&key.source, &key.verdict, &key.certainty)).or_default();
        *sum = sum.saturating_add(count);
    }
    let help = "Gaps found on all cores; the count of surefoot_stall_gap_duration_seconds is their sum.";
    for (place, ((source, verdict, certainty), count)) in host.into_iter().enumerate() {
        let labels = [("source", source), ("verdict", verdict), ("certainty", certainty)];
        series.counter("stall_gaps", help).of(Claim(place), &labels, count);
    }
    if series.tells(Detail::Core) {
        let claims = cores(totals);
        for (GapKey { cpu, source, verdict, certainty }, &count) in &totals.gaps {
            let labels =
                [("cpu", &*cpu.to_string()), ("source", source), ("verdict", verdict), ("certainty", certainty)];
            series.counter("stall_core_gaps", "Gaps found on each core.").of(claims[cpu], &labels, count);
        }
    }
    let edges = GAP_EDGES_NS.iter().map(|&edge_ns| seconds(edge_ns)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = edges.zip(totals.gap_buckets).collect();
    let count = totals.gap_buckets.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
    let help = "How long gaps lasted, over all cores.";
    let durations = Value::Histogram { sum: seconds(totals.gap_ns), count, buckets };
    series.seconds_histogram("stall_gap_duration", help).add(&[], durations);
}

/// Claims of rows of /proc/interrupts, after those of gaps.
const ROWS: usize = 200;
