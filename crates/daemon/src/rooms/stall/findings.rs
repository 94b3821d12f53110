//! What lost time comes to: one finding about the host, where its working time went and how sure that is.
//!
//! Pure: windows and gaps in, a finding out. The page, the API, `health.json` and the command show the same one.
//!
//! Words used here:
//! - *busy time* of a core: when a task ran there or waited for it. A kernel thread that has a core for itself, and an
//!   interrupt on an idle core, are no part of it: they delay nobody.
//! - *lost*: the part of the busy time that named causes took, plus unexplained time.
//! - *rate*: lost time per second of wall time.

use super::phrase::{self, Longest};
use super::rules;
use super::state::Kept;
use crate::keep::stream::Moment;
use std::collections::BTreeMap;
use surefoot_model::{
    CauseKind, CpuId, FaultySum, Finding, Gap, GapSource, Lost, Report, Severity, Subject, Waiting, Window,
};

/// A core that lost less than this share of its busy time is quiet, parts per million.
const QUIET_SHARE_PPM: u64 = 10_000;
/// And so is one that lost less than this per second, however little it was busy: 1 ms/s.
const QUIET_RATE_NS_PER_S: u64 = 1_000_000;
/// A core that is busy for less than this share of the time loses shares of next to nothing, parts per million: its loss
/// is never serious, and a notice only from [`SERIOUS_RATE_NS_PER_S`] on.
const LITTLE_BUSY_PPM: u64 = 50_000;
/// Cores that are busy for less than this share of the time are called almost idle, parts per million.
const ALMOST_IDLE_PPM: u64 = 10_000;
/// From this share on the loss is serious, parts per million.
const SERIOUS_SHARE_PPM: u64 = 50_000;
/// Provided that it is at least this per second: 5 ms/s.
const SERIOUS_RATE_NS_PER_S: u64 = 5_000_000;
/// The kernel's own counters go in steps of this length, 10 ms.
pub(crate) const STEP_NS: u64 = 10_000_000;
/// Time in fewer steps than this is a few samples, which say nothing about a share: 50 ms.
const SAYING_STEPS: u64 = 5;
/// Gaps from this length on are named one by one: 1 ms.
const GAP_NS: u64 = 1_000_000;
/// Cores, and lines about the longest gap, that a finding names as its evidence.
const EVIDENCE_CORES_MAX: usize = 8;
/// Gaps from this length on are serious: 10 ms.
const SERIOUS_GAP_NS: u64 = 10_000_000;

/// What is said before the first window.
const NO_DATA: &str = "There are no data yet.";

/// The findings about what is kept: about its last minute.
pub(super) fn of_kept(kept: &Kept, moment: &Moment) -> Vec<Finding> {
    // What was true long ago says nothing about now; that the data are late is said by the watch itself.
    let is_stale = !moment.is_replay() && moment.now_ns.saturating_sub(kept.end_ns()) > moment.stale_ns;
    let (windows, gaps) = kept.last_minute();
    if windows.is_empty() || is_stale {
        return Vec::new();
    }
    let sight = match &moment.host {
        Some(host) if !host.is_traced() => Sight::Counters,
        _ => Sight::Traced,
    };
    // What is disturbed on purpose explains it, and comes first.
    let explained = |finding: Finding| {
        let evidence = [kept.taken(), &finding.evidence].concat();
        finding.with_evidence(evidence)
    };
    let finding = explained(of_refs(&windows, &gaps, sight));
    let public = kept.public();
    let (windows, gaps) = public.last_minute();
    let mut found = vec![finding.with_public(&explained(of_refs(&windows, &gaps, sight)))];
    found.extend(of_faulty(&windows));
    found
}

/// The finding about ledgers that cannot be true, where there are any.
fn of_faulty(windows: &[&Window]) -> Option<Finding> {
    let mut report = Report::default();
    windows.iter().for_each(|window| report.add_window(window));
    let faulty = report.faulty();
    let count = faulty.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
    let first = faulty.first()?;
    let others = match faulty.len() - 1 {
        0 => String::new(),
        1 => ", and of one more core".to_owned(),
        others => format!(", and of {others} more cores"),
    };
    let what = if count == 1 { "A window" } else { "Windows" };
    let sentence = format!(
        "{what} of core {}{others} cannot be true ({}); the time is left out of every sum. Compare the clock of this process \
         with the host's (surefoot status).",
        first.cpu, first.fault
    );
    let line = |row: &FaultySum| {
        format!("core {}: {} in the last minute, the first because {}", row.cpu, row.count, row.fault)
    };
    let evidence = faulty.iter().take(EVIDENCE_CORES_MAX).map(line).collect();
    let finding = rules::IMPOSSIBLE_SUM.finding(Subject::host(), Severity::Warning, sentence);
    Some(finding.with_evidence(evidence))
}

/// The finding about these windows and the gaps of the same time; a minute of both is a good measure.
///
/// ```
/// use surefoot_daemon::rooms::stall::findings;
/// use surefoot_model::Severity;
/// let finding = findings::of(&[], &[]);
/// assert_eq!(finding.severity, Severity::Notice);
/// assert_eq!(finding.sentence, "There are no data yet.");
/// ```
pub fn of(windows: &[Window], gaps: &[Gap]) -> Finding {
    of_refs(&windows.iter().collect::<Vec<_>>(), &gaps.iter().collect::<Vec<_>>(), Sight::Traced)
}

/// As [`of`], where the data come from the kernel's counters: it praises nothing that these do not see.
pub fn of_counters(windows: &[Window], gaps: &[Gap]) -> Finding {
    of_refs(&windows.iter().collect::<Vec<_>>(), &gaps.iter().collect::<Vec<_>>(), Sight::Counters)
}

/// What the source of the data sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Single interruptions.
    Traced,
    /// Sums of some kinds of them, in steps of [`STEP_NS`].
    Counters,
}

/// As [`of`], for those who hold references.
fn of_refs(windows: &[&Window], gaps: &[&Gap], sight: Sight) -> Finding {
    let say = |severity, sentence| rules::LOST_TIME.finding(Subject::host(), severity, sentence);
    let cores = CoreSum::of(windows);
    if cores.is_empty() {
        return say(Severity::Notice, NO_DATA.to_owned());
    }
    // A thread of our own that woke late says that the core was busy or stopped, not which: that is no gap to name.
    let told: Vec<&Gap> = gaps.iter().copied().filter(|gap| gap.source != GapSource::SleepLateness).collect();
    let longest = longest(windows, &told);
    let longest_ns = longest.as_ref().map_or(0, Longest::duration_ns);
    let mut loud: Vec<&CoreSum> = cores.iter().filter(|core| !core.is_quiet()).collect();
    // The core that suffers most leads; the lower number among equals.
    loud.sort_by_key(|core| (std::cmp::Reverse(core.share_ppm()), core.cpu));

    let serious = longest_ns >= SERIOUS_GAP_NS || loud.iter().any(|core| core.is_serious());
    let severity = match (serious, loud.is_empty() && longest_ns < GAP_NS) {
        (true, _) => Severity::Warning,
        // That nothing was seen is no praise where little can be.
        (false, true) if sight == Sight::Traced => Severity::Ok,
        (false, true) => Severity::Notice,
        (false, false) => Severity::Notice,
    };
    let sentence = match loud.first() {
        Some(worst) => phrase::loud(worst, loud.len(), &cores, longest.as_ref(), sight),
        None => phrase::quiet(&cores, longest.as_ref(), sight),
    };
    let of_core = |core: &&CoreSum| {
        let (share, rate) = (phrase::percent(core.share_ppm()), phrase::rate(core.rate_ns_per_s()));
        format!("core {}: {rate}, {share} of its busy time", core.cpu)
    };
    let mut evidence: Vec<String> = loud.iter().take(EVIDENCE_CORES_MAX).map(of_core).collect();
    evidence.extend(throttled(windows).into_iter().take(EVIDENCE_CORES_MAX));
    if let Some(Longest::Gap(gap)) = longest.filter(|longest| longest.duration_ns() >= GAP_NS) {
        evidence.extend(gap.evidence.iter().take(EVIDENCE_CORES_MAX).cloned());
    }
    say(severity, sentence).with_evidence(evidence)
}

/// Of each core how long a cgroup's quota kept tasks from running there. Nobody took that time, so it is no loss.
fn throttled(windows: &[&Window]) -> Vec<String> {
    let mut sums: BTreeMap<CpuId, Waiting> = BTreeMap::new();
    for core in windows.iter().flat_map(|window| &window.cores) {
        if let Some(waiting) = core.waiting.as_ref().filter(|waiting| waiting.throttled_count > 0) {
            sums.entry(core.cpu).or_default().add(waiting);
        }
    }
    let told = |(cpu, sum): (CpuId, Waiting)| {
        let (count, took) = (sum.throttled_count, phrase::length(sum.throttled_ns));
        format!(
            "core {cpu}: a cgroup's quota kept tasks from running {count} times, {took} in all; not counted as lost"
        )
    };
    sums.into_iter().map(told).collect()
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
    pub(crate) busy_ns: u64,
    /// Named causes while not idle, and the unexplained part.
    pub(crate) lost_ns: u64,
    pub(crate) unexplained_ns: u64,
    /// The part of what was lost that is known in steps of [`STEP_NS`] alone.
    stepped_ns: u64,
    /// Time lost while not idle by kind, and within the kind by name.
    pub(crate) kinds: BTreeMap<CauseKind, BTreeMap<String, u64>>,
    /// Whether every cause that took time tells how long its occurrences were.
    pub(crate) lengths_known: bool,
}

impl CoreSum {
    fn new(cpu: CpuId) -> Self {
        let kinds = BTreeMap::new();
        CoreSum {
            cpu,
            wall_ns: 0,
            busy_ns: 0,
            lost_ns: 0,
            unexplained_ns: 0,
            stepped_ns: 0,
            kinds,
            lengths_known: true,
        }
    }

    fn of(windows: &[&Window]) -> Vec<CoreSum> {
        let mut sums: BTreeMap<CpuId, CoreSum> = BTreeMap::new();
        for core in windows.iter().flat_map(|window| &window.cores) {
            let sum = sums.entry(core.cpu).or_insert_with(|| CoreSum::new(core.cpu));
            add(&mut sum.wall_ns, core.wall_ns);
            add(&mut sum.busy_ns, core.busy_ns());
            add(&mut sum.lost_ns, core.unexplained_ns);
            add(&mut sum.unexplained_ns, core.unexplained_ns);
            for lost in &core.lost {
                let busy_ns = lost.while_busy_ns();
                if busy_ns > 0 {
                    add(&mut sum.lost_ns, busy_ns);
                    let names = sum.kinds.entry(lost.cause.kind).or_default();
                    add(names.entry(lost.cause.name.clone()).or_default(), busy_ns);
                    sum.lengths_known &= lost.max_ns > 0;
                    if lost.count == 0 && lost.max_ns == 0 {
                        add(&mut sum.stepped_ns, busy_ns);
                    }
                }
            }
        }
        sums.into_values().collect()
    }

    pub(crate) fn share_ppm(&self) -> u64 {
        share_ppm(self.lost_ns, self.busy_ns)
    }

    /// Lost nanoseconds per second of wall time.
    pub(crate) fn rate_ns_per_s(&self) -> u64 {
        rate_ns_per_s(self.lost_ns, self.wall_ns)
    }

    /// Whether what was lost is no more than a few of the source's steps.
    pub(crate) fn is_few_steps(&self) -> bool {
        self.stepped_ns > 0 && self.stepped_ns == self.lost_ns && self.lost_ns < SAYING_STEPS * STEP_NS
    }

    fn is_little_busy(&self) -> bool {
        share_ppm(self.busy_ns, self.wall_ns) < LITTLE_BUSY_PPM
    }

    fn is_quiet(&self) -> bool {
        let quiet_rate = if self.is_little_busy() { SERIOUS_RATE_NS_PER_S } else { QUIET_RATE_NS_PER_S };
        self.is_few_steps() || self.share_ppm() < QUIET_SHARE_PPM || self.rate_ns_per_s() < quiet_rate
    }

    fn is_serious(&self) -> bool {
        !self.is_little_busy() && self.share_ppm() >= SERIOUS_SHARE_PPM && self.rate_ns_per_s() >= SERIOUS_RATE_NS_PER_S
    }
}

/// Whether cores were busy for so little of the time that shares of it say nothing.
pub(crate) fn is_almost_idle(busy_ns: u64, wall_ns: u64) -> bool {
    share_ppm(busy_ns, wall_ns) < ALMOST_IDLE_PPM
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

/// The longest occurrence that ended in these windows and took its time from a task. Of a row with both, no occurrence
/// has taken more than the row did.
fn longest_occurrence<'a>(windows: &[&'a Window]) -> Option<Longest<'a>> {
    let cores = windows.iter().flat_map(|window| &window.cores);
    let rows = cores.flat_map(|core| core.lost.iter().map(|lost| (core.cpu, lost)));
    // Where single occurrences are not known, or none has ended, there is none to name.
    let known = rows.filter(|(_, lost)| lost.histogram.count() > 0 && lost.while_busy_ns() > 0);
    let took_ns = |lost: &Lost| lost.max_ns.min(lost.while_busy_ns());
    let (cpu, lost) = known.max_by_key(|(_, lost)| took_ns(lost))?;
    Some(Longest::Occurrence { cpu, cause: &lost.cause, duration_ns: took_ns(lost) })
}
