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
use crate::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use surefoot_model::{
    CauseKind, CpuId, FaultySum, Finding, Gap, GapSource, Lost, LostRate, Report, Severity, Subject, Waiting, Window,
};
use surefoot_settings::Stall;

/// From when on a loss is a notice, and from when on a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// A core that lost less than this share of its busy time is quiet, parts per million.
    quiet_share_ppm: u64,
    /// And so is one that lost less than this per second, however little it was busy.
    quiet_rate_ns_per_s: u64,
    /// A core that is busy for less than this share of the time loses shares of next to nothing, parts per million: its loss
    /// is never serious, and a notice only from `serious_rate_ns_per_s` on.
    little_busy_ppm: u64,
    /// From this share on the loss is serious, parts per million.
    serious_share_ppm: u64,
    /// Provided that it is at least this per second.
    serious_rate_ns_per_s: u64,
    /// Gaps from this length on are named one by one.
    gap_ns: u64,
    /// Gaps from this length on are serious.
    serious_gap_ns: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds::of(&Stall::default())
    }
}

impl Thresholds {
    pub(crate) fn of(set: &Stall) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ppm = |share: f64| (share * 1e6).round() as u64;
        Thresholds {
            quiet_share_ppm: ppm(set.notice_share),
            quiet_rate_ns_per_s: ns(set.notice_per_s),
            little_busy_ppm: ppm(set.little_busy_share),
            serious_share_ppm: ppm(set.warning_share),
            serious_rate_ns_per_s: ns(set.warning_per_s),
            gap_ns: ns(set.notice_gap),
            serious_gap_ns: ns(set.warning_gap),
        }
    }

    /// What held, for who reads the finding.
    fn said(&self, severity: Severity) -> String {
        let (share, rate, gap) = match severity {
            Severity::Warning => (self.serious_share_ppm, self.serious_rate_ns_per_s, self.serious_gap_ns),
            _ => (self.quiet_share_ppm, self.quiet_rate_ns_per_s, self.gap_ns),
        };
        let (share, rate, gap) = (phrase::percent(share), phrase::rate(rate), phrase::length(gap));
        format!(
            "threshold of a {severity}: {share} of a core's busy time and {rate}, lost and unexplained together, or a single \
             interruption of {gap}"
        )
    }
}
/// Cores that are busy for less than this share of the time are called almost idle, parts per million.
const ALMOST_IDLE_PPM: u64 = 10_000;
/// The kernel's own counters go in steps of this length, 10 ms.
pub(crate) const STEP_NS: u64 = 10_000_000;
/// Time in fewer steps than this is a few samples, which say nothing about a share: 50 ms.
const SAYING_STEPS: u64 = 5;
/// Cores, and lines about the longest gap, that a finding names as its evidence.
const EVIDENCE_CORES_MAX: usize = 8;

/// What is said before the first window.
const NO_DATA: &str = "There are no data yet.";

/// The findings about what is kept: about its last minute.
pub fn of_kept(kept: &Kept, moment: &Moment) -> Vec<Finding> {
    let is_stale = is_stale(kept, moment);
    let kept = &kept.of_last_minute();
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
    let thresholds = Thresholds::of(&moment.settings.settings.stall);
    let finding = explained(of_refs(&windows, &gaps, sight, &thresholds));
    let public = kept.public();
    let (windows, gaps) = public.last_minute();
    let mut found = vec![finding.with_public(&explained(of_refs(&windows, &gaps, sight, &thresholds)))];
    found.extend(of_faulty(&windows));
    found
}

/// What was true long ago says nothing about now; that the data are late is said by the watch itself.
fn is_stale(kept: &Kept, moment: &Moment) -> bool {
    !moment.is_replay() && moment.now_ns.saturating_sub(kept.end_ns()) > moment.stale_ns
}

/// What the cores lost in the last minute; `None` without data.
pub fn lost(kept: &Kept, moment: &Moment) -> Option<LostRate> {
    if is_stale(kept, moment) {
        return None;
    }
    let kept = kept.of_last_minute();
    let (windows, _) = kept.last_minute();
    rate_of(&windows, moment.host.as_ref().is_some_and(|host| host.is_traced()))
}

fn rate_of(windows: &[&Window], is_traced: bool) -> Option<LostRate> {
    let cores = CoreSum::of(windows);
    let worst = cores.iter().max_by_key(|core| (core.rate_ns_per_s(), std::cmp::Reverse(core.cpu)))?;
    Some(LostRate {
        total_ns_per_s: sum(cores.iter().map(CoreSum::rate_ns_per_s)),
        cores: u32::try_from(cores.len()).unwrap_or(u32::MAX),
        worst_ns_per_s: worst.rate_ns_per_s(),
        worst_cpu: worst.cpu.0,
        is_traced,
    })
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
        "{what} of core {}{others} cannot be true ({}); the time is left out of every sum. See whether this process is in a \
         time namespace (surefoot status).",
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
/// use surefoot_rooms::stall::findings;
/// use surefoot_model::Severity;
/// let finding = findings::of(&[], &[]);
/// assert_eq!(finding.severity, Severity::Notice);
/// assert_eq!(finding.sentence, "There are no data yet.");
/// ```
pub fn of(windows: &[Window], gaps: &[Gap]) -> Finding {
    of_refs(
        &windows.iter().collect::<Vec<_>>(),
        &gaps.iter().collect::<Vec<_>>(),
        Sight::Traced,
        &Thresholds::default(),
    )
}

/// As [`of`], where the data come from the kernel's counters: it praises nothing that these do not see.
pub fn of_counters(windows: &[Window], gaps: &[Gap]) -> Finding {
    of_refs(
        &windows.iter().collect::<Vec<_>>(),
        &gaps.iter().collect::<Vec<_>>(),
        Sight::Counters,
        &Thresholds::default(),
    )
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
fn of_refs(windows: &[&Window], gaps: &[&Gap], sight: Sight, thresholds: &Thresholds) -> Finding {
    let say = |severity, sentence| rules::LOST_TIME.finding(Subject::host(), severity, sentence);
    let cores = CoreSum::of(windows);
    if cores.is_empty() {
        return say(Severity::Notice, NO_DATA.to_owned());
    }
    // A thread of our own that woke late says that the core was busy or stopped, not which: that is no gap to name.
    let told: Vec<&Gap> = gaps.iter().copied().filter(|gap| gap.source != GapSource::SleepLateness).collect();
    let longest = longest(windows, &told);
    let longest_ns = longest.as_ref().map_or(0, Longest::duration_ns);
    let mut loud: Vec<&CoreSum> = cores.iter().filter(|core| !core.is_quiet(thresholds)).collect();
    // The core that suffers most leads; the lower number among equals.
    loud.sort_by_key(|core| (std::cmp::Reverse(core.share_ppm()), core.cpu));

    let serious = longest_ns >= thresholds.serious_gap_ns || loud.iter().any(|core| core.is_serious(thresholds));
    let severity = match (serious, loud.is_empty() && longest_ns < thresholds.gap_ns) {
        (true, _) => Severity::Warning,
        // That nothing was seen is no praise where little can be.
        (false, true) if sight == Sight::Traced => Severity::Ok,
        (false, true) => Severity::Notice,
        (false, false) => Severity::Notice,
    };
    let sentence = match loud.first() {
        Some(worst) => phrase::loud(worst, loud.len(), &cores, longest.as_ref(), (sight, thresholds.gap_ns)),
        None => phrase::quiet(&cores, longest.as_ref(), (sight, thresholds.gap_ns)),
    };
    let of_core = |core: &&CoreSum| {
        let amount = |ns| {
            let (rate, share) = (rate_ns_per_s(ns, core.wall_ns), share_ppm(ns, core.busy_ns));
            format!("{}, {} of its busy time", phrase::rate(rate), phrase::percent(share))
        };
        match core.unexplained_ns {
            0 => format!("core {}: lost {}", core.cpu, amount(core.lost_ns)),
            ns => format!("core {}: lost {}; unexplained {}", core.cpu, amount(core.lost_ns), amount(ns)),
        }
    };
    let mut evidence: Vec<String> = loud.iter().take(EVIDENCE_CORES_MAX).map(of_core).collect();
    evidence.extend(throttled(windows).into_iter().take(EVIDENCE_CORES_MAX));
    if let Some(Longest::Gap(gap)) = longest.filter(|longest| longest.duration_ns() >= thresholds.gap_ns) {
        // Whoever reads one line of it, in a case or a ticket, has not the sentence beside it.
        let of_gap = |line: &String| format!("gap of {} on core {}: {line}", phrase::length(gap.duration_ns), gap.cpu);
        evidence.extend(gap.evidence.iter().take(EVIDENCE_CORES_MAX).map(of_gap));
    }
    if severity > Severity::Ok && (!loud.is_empty() || longest_ns >= thresholds.gap_ns) {
        evidence.push(thresholds.said(severity));
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
    /// Named causes while not idle. Unexplained time is no part of it.
    pub(crate) lost_ns: u64,
    pub(crate) unexplained_ns: u64,
    /// The part of what was lost that is known in steps of [`STEP_NS`] alone.
    stepped_ns: u64,
    /// Time lost while not idle by kind, and within the kind by name.
    pub(crate) kinds: BTreeMap<CauseKind, BTreeMap<String, u64>>,
    /// The kinds that took time without telling how long each occurrence was.
    pub(crate) unmeasured: BTreeSet<CauseKind>,
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
            unmeasured: BTreeSet::new(),
        }
    }

    fn of(windows: &[&Window]) -> Vec<CoreSum> {
        let mut sums: BTreeMap<CpuId, CoreSum> = BTreeMap::new();
        for core in windows.iter().flat_map(|window| &window.cores) {
            let sum = sums.entry(core.cpu).or_insert_with(|| CoreSum::new(core.cpu));
            add(&mut sum.wall_ns, core.wall_ns);
            add(&mut sum.busy_ns, core.busy_ns());
            add(&mut sum.unexplained_ns, core.unexplained_ns);
            for lost in &core.lost {
                let busy_ns = lost.while_busy_ns();
                if busy_ns > 0 {
                    add(&mut sum.lost_ns, busy_ns);
                    let names = sum.kinds.entry(lost.cause.kind).or_default();
                    add(names.entry(lost.cause.name.clone()).or_default(), busy_ns);
                    if lost.max_ns == 0 {
                        sum.unmeasured.insert(lost.cause.kind);
                    }
                    if lost.count == 0 && lost.max_ns == 0 {
                        add(&mut sum.stepped_ns, busy_ns);
                    }
                }
            }
        }
        sums.into_values().collect()
    }

    /// What the thresholds are about: no task had this time, whether its cause is known or not.
    fn lost_or_unexplained_ns(&self) -> u64 {
        self.lost_ns.saturating_add(self.unexplained_ns)
    }

    fn share_ppm(&self) -> u64 {
        share_ppm(self.lost_or_unexplained_ns(), self.busy_ns)
    }

    /// Nanoseconds per second of wall time.
    fn rate_ns_per_s(&self) -> u64 {
        rate_ns_per_s(self.lost_or_unexplained_ns(), self.wall_ns)
    }

    /// Whether what was lost is no more than a few of the source's steps.
    pub(crate) fn is_few_steps(&self) -> bool {
        self.stepped_ns > 0
            && self.stepped_ns == self.lost_or_unexplained_ns()
            && self.stepped_ns < SAYING_STEPS * STEP_NS
    }

    fn is_little_busy(&self, of: &Thresholds) -> bool {
        share_ppm(self.busy_ns, self.wall_ns) < of.little_busy_ppm
    }

    fn is_quiet(&self, of: &Thresholds) -> bool {
        let is_little = self.is_little_busy(of);
        let quiet_rate = if is_little { of.serious_rate_ns_per_s } else { of.quiet_rate_ns_per_s };
        self.is_few_steps() || self.share_ppm() < of.quiet_share_ppm || self.rate_ns_per_s() < quiet_rate
    }

    fn is_serious(&self, of: &Thresholds) -> bool {
        let is_much = self.share_ppm() >= of.serious_share_ppm && self.rate_ns_per_s() >= of.serious_rate_ns_per_s;
        is_much && !self.is_little_busy(of)
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

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CoreLedger, SelfCost};

    #[test]
    fn what_was_lost_is_told_of_all_cores_together_and_of_the_worst() {
        let core = |cpu, lost_ns, unexplained_ns| CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: 2_000_000_000,
            idle_ns: 0,
            user_ns: 2_000_000_000 - lost_ns - unexplained_ns,
            kernel_ns: 0,
            lost: vec![Lost::new(Cause::new(CauseKind::KernelThread, "kworker/0"), 1, lost_ns, lost_ns)],
            unexplained_ns,
            waiting: None,
        };
        let window = Window {
            start_ns: 0,
            end_ns: 2_000_000_000,
            cores: vec![core(0, 10_000_000, 0), core(3, 20_000_000, 40_000_000)],
            faulty: Vec::new(),
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost: SelfCost::default(),
        };
        let lost = rate_of(&[&window], true).unwrap_or_default();
        let wanted = LostRate {
            total_ns_per_s: 35_000_000,
            cores: 2,
            worst_ns_per_s: 30_000_000,
            worst_cpu: 3,
            is_traced: true,
        };
        assert_eq!((lost, lost.mean_ns_per_s()), (wanted, 17_500_000));
        assert_eq!(rate_of(&[], true), None, "without windows nothing is known");
    }
}
