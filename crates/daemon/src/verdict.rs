//! One sentence about the host: where its working time went, and how sure that is.
//!
//! Pure: windows and gaps in, a sentence and its severity out. The page, the API and the command print the same one.
//!
//! Words used here:
//! - *work time* of a core: wall time minus idle time.
//! - *lost*: time of named causes while the core was not idle, plus unexplained time.
//! - *rate*: lost time per second of wall time.

use crate::phrase::{self, Longest};
use serde::Serialize;
use std::collections::BTreeMap;
use surefoot_model::{Cause, CauseKind, CpuId, Gap, GapSource, Histogram, Window};

/// A core that lost less than this share of its work time is quiet, parts per million.
const QUIET_SHARE_PPM: u64 = 10_000;
/// And so is one that lost less than this per second, however little it worked: 1 ms/s.
const QUIET_RATE_NS_PER_S: u64 = 1_000_000;
/// From this share on the loss is serious, parts per million.
const SERIOUS_SHARE_PPM: u64 = 50_000;
/// Provided that it is at least this per second: 5 ms/s.
const SERIOUS_RATE_NS_PER_S: u64 = 5_000_000;
/// Stalls from this length on are named one by one: 1 ms.
const STALL_NS: u64 = 1_000_000;
/// Stalls from this length on are serious: 10 ms.
const SERIOUS_STALL_NS: u64 = 10_000_000;

/// How much a verdict asks for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Every core is quiet.
    Good,
    /// A latency-sensitive service will notice.
    Notice,
    /// 5 % of a core's work time and 5 ms/s lost, or a stall of 10 ms.
    Serious,
}

/// What is to be said about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostVerdict {
    /// One sentence for people.
    pub sentence: String,
    /// How much it asks for attention.
    pub severity: Severity,
}

/// The verdict on these windows and on the gaps of the same time; a minute of both is a good measure.
///
/// ```
/// use surefoot_daemon::verdict::{self, Severity};
/// let verdict = verdict::of(&[], &[]);
/// assert_eq!(verdict.severity, Severity::Notice);
/// assert_eq!(verdict.sentence, "There is no data yet.");
/// ```
pub fn of(windows: &[Window], gaps: &[Gap]) -> HostVerdict {
    of_refs(&windows.iter().collect::<Vec<_>>(), &gaps.iter().collect::<Vec<_>>())
}

/// As [`of`], for those who hold references.
pub(crate) fn of_refs(windows: &[&Window], gaps: &[&Gap]) -> HostVerdict {
    let cores = CoreSum::of(windows);
    if cores.is_empty() {
        return HostVerdict { sentence: "There is no data yet.".to_owned(), severity: Severity::Notice };
    }
    // A thread of our own that woke late says that the core was busy or stopped, not which: that is no stall to name.
    let told: Vec<&Gap> = gaps.iter().copied().filter(|gap| gap.source != GapSource::SleepLateness).collect();
    let longest = longest(windows, &told);
    let longest_ns = longest.as_ref().map_or(0, Longest::duration_ns);
    let mut loud: Vec<&CoreSum> = cores.iter().filter(|core| !core.is_quiet()).collect();
    // The core that suffers most leads; the lower number among equals.
    loud.sort_by_key(|core| (std::cmp::Reverse(core.share_ppm()), core.cpu));

    let serious = longest_ns >= SERIOUS_STALL_NS || loud.iter().any(|core| core.is_serious());
    let severity = match (serious, loud.is_empty() && longest_ns < STALL_NS) {
        (true, _) => Severity::Serious,
        (false, true) => Severity::Good,
        (false, false) => Severity::Notice,
    };
    let sentence = match loud.first() {
        Some(worst) => phrase::loud(worst, loud.len(), &cores, longest.as_ref()),
        None => phrase::quiet(&cores, longest.as_ref()),
    };
    HostVerdict { sentence, severity }
}

/// The share of the cores' work time that was lost, parts per million; `None` without windows.
pub(crate) fn lost_share_ppm(windows: &[&Window]) -> Option<u64> {
    let cores = CoreSum::of(windows);
    let lost_ns = sum(cores.iter().map(|core| core.lost_ns));
    let work_ns = sum(cores.iter().map(|core| core.work_ns));
    (!cores.is_empty()).then(|| share_ppm(lost_ns, work_ns))
}

/// A sum that stops at its end.
pub(crate) fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// A part of a whole in parts per million; all of it when the whole is shorter than its part.
pub(crate) fn share_ppm(part: u64, whole: u64) -> u64 {
    if part == 0 {
        return 0;
    }
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(ppm).unwrap_or(u64::MAX).min(1_000_000)
}

/// What is true of one core over all the windows.
#[derive(Debug, Clone)]
pub(crate) struct CoreSum {
    pub(crate) cpu: CpuId,
    pub(crate) wall_ns: u64,
    pub(crate) work_ns: u64,
    /// Named causes while not idle, and the unexplained part.
    pub(crate) lost_ns: u64,
    pub(crate) unexplained_ns: u64,
    /// Time lost while not idle by kind, and within the kind by name.
    pub(crate) kinds: BTreeMap<CauseKind, BTreeMap<String, u64>>,
    /// Whether every cause that took time tells how long its occurrences were.
    pub(crate) lengths_known: bool,
}

impl CoreSum {
    fn new(cpu: CpuId) -> Self {
        let kinds = BTreeMap::new();
        CoreSum { cpu, wall_ns: 0, work_ns: 0, lost_ns: 0, unexplained_ns: 0, kinds, lengths_known: true }
    }

    fn of(windows: &[&Window]) -> Vec<CoreSum> {
        let mut sums: BTreeMap<CpuId, CoreSum> = BTreeMap::new();
        for core in windows.iter().flat_map(|window| &window.cores) {
            let sum = sums.entry(core.cpu).or_insert_with(|| CoreSum::new(core.cpu));
            add(&mut sum.wall_ns, core.wall_ns);
            add(&mut sum.work_ns, core.wall_ns.saturating_sub(core.idle_ns));
            add(&mut sum.lost_ns, core.unexplained_ns);
            add(&mut sum.unexplained_ns, core.unexplained_ns);
            for lost in &core.lost {
                let busy_ns = lost.total_ns.saturating_sub(lost.while_idle_ns);
                if busy_ns > 0 {
                    add(&mut sum.lost_ns, busy_ns);
                    let names = sum.kinds.entry(lost.cause.kind).or_default();
                    add(names.entry(lost.cause.name.clone()).or_default(), busy_ns);
                    sum.lengths_known &= lost.max_ns > 0;
                }
            }
        }
        sums.into_values().collect()
    }

    pub(crate) fn share_ppm(&self) -> u64 {
        share_ppm(self.lost_ns, self.work_ns)
    }

    /// Lost nanoseconds per second of wall time.
    pub(crate) fn rate_ns_per_s(&self) -> u64 {
        rate_ns_per_s(self.lost_ns, self.wall_ns)
    }

    fn is_quiet(&self) -> bool {
        self.share_ppm() < QUIET_SHARE_PPM || self.rate_ns_per_s() < QUIET_RATE_NS_PER_S
    }

    fn is_serious(&self) -> bool {
        self.share_ppm() >= SERIOUS_SHARE_PPM && self.rate_ns_per_s() >= SERIOUS_RATE_NS_PER_S
    }
}

/// A recording may hold any number; a sum stops at its end.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Lost nanoseconds per second of wall time.
pub(crate) fn rate_ns_per_s(lost_ns: u64, wall_ns: u64) -> u64 {
    u64::try_from(u128::from(lost_ns) * 1_000_000_000 / u128::from(wall_ns.max(1))).unwrap_or(u64::MAX)
}

/// The longest gap or single occurrence of a cause; of equals the gap, because it has evidence.
fn longest<'a>(windows: &[&'a Window], gaps: &[&'a Gap]) -> Option<Longest<'a>> {
    let gap = gaps.iter().max_by_key(|gap| gap.duration_ns).map(|gap| Longest::Gap(gap));
    let occurrence = longest_occurrence(windows);
    match (gap, occurrence) {
        (Some(gap), Some(occurrence)) if occurrence.duration_ns() > gap.duration_ns() => Some(occurrence),
        (gap, occurrence) => gap.or(occurrence),
    }
}

/// The longest occurrence that fell into these windows.
///
/// `max_ns` counts from the beginning of watching, so it speaks of these windows only where it rose between two of
/// them, or where the histogram of the same window reaches as high. Elsewhere the middle of the histogram's highest bucket
/// counts, which is within an eighth of the truth.
fn longest_occurrence<'a>(windows: &[&'a Window]) -> Option<Longest<'a>> {
    let mut known_max: BTreeMap<(CpuId, &Cause), u64> = BTreeMap::new();
    let mut longest: Option<Longest<'a>> = None;
    for core in windows.iter().flat_map(|window| &window.cores) {
        for lost in &core.lost {
            let before = known_max.insert((core.cpu, &lost.cause), lost.max_ns);
            let highest = lost.histogram.0.last().map(|entry| usize::from(entry.0));
            let duration_ns = match (before, highest) {
                (Some(before), _) if lost.max_ns > before => lost.max_ns,
                (_, Some(bucket)) if Histogram::bucket(lost.max_ns) == bucket => lost.max_ns,
                (_, Some(_)) => lost.histogram.quantile_ns(1.0).min(lost.max_ns),
                (_, None) => continue,
            };
            if longest.as_ref().is_none_or(|longest| duration_ns > longest.duration_ns()) {
                longest = Some(Longest::Occurrence { cpu: core.cpu, cause: &lost.cause, duration_ns });
            }
        }
    }
    longest
}
