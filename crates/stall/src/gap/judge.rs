//! The judge: from a bare gap to one with its causes, its verdict and its evidence.

use crate::gap::join::{Inside, join};
use crate::gap::tapes::Traced;
use crate::gap::verdict::{self, Evidence, Others, Steal};
use crate::gap::witness::Witness;
use std::collections::VecDeque;
use surefoot_model::{Cause, CauseKind, CpuId, Gap, GapCause, GapCorrection, GapSource, Verdict};
use surefoot_probes::layout::Turn;

/// Margins that the estimate of entry and exit rests on.
const MARGINS: usize = 255;

/// Margins that are needed before the estimate replaces the assumption.
const ENOUGH_MARGINS: usize = 9;

/// A rest of a hundredth of the gap does not make it another verdict.
const NEGLIGIBLE: u64 = 100;

/// What an interrupt costs before its handler is reached and after it has returned, which no tracepoint covers.
///
/// The sum of traced durations is always smaller than the gap (osnoise's documentation says the same of itself). On
/// bare metal the rest is below a microsecond; in a virtual machine each interrupt is an exit to the host and back,
/// which takes tens. It is measured here as the median rest of gaps with a single traced interval.
#[derive(Debug, Clone)]
pub struct EntryExit {
    margins_ns: VecDeque<u64>,
    assumed_ns: u64,
    median_ns: Option<u64>,
}

impl EntryExit {
    fn new(virtual_machine: bool) -> Self {
        let assumed_ns = if virtual_machine { 10_000 } else { 1_000 };
        EntryExit { margins_ns: VecDeque::with_capacity(MARGINS), assumed_ns, median_ns: None }
    }

    fn learn(&mut self, inside: &Inside) {
        if inside.entries != 1 || inside.unseen_ns > 0 {
            return;
        }
        if self.margins_ns.len() == MARGINS {
            self.margins_ns.pop_front();
        }
        self.margins_ns.push_back(inside.unexplained_ns);
        // The median moves slowly; sorting at every gap would cost more than it tells.
        let seen = self.margins_ns.len();
        if seen >= ENOUGH_MARGINS && (self.median_ns.is_none() || seen.is_multiple_of(16)) {
            let mut sorted: Vec<u64> = self.margins_ns.iter().copied().collect();
            sorted.sort_unstable();
            self.median_ns = Some(sorted[sorted.len() / 2]);
        }
    }

    /// The median, or the assumption while too little was seen; nanoseconds per interruption.
    pub fn typical_ns(&self) -> u64 {
        self.median_ns.unwrap_or(self.assumed_ns)
    }

    /// Up to where a rest counts as entry and exit: twice the median.
    pub fn allowance_ns(&self) -> u64 {
        self.typical_ns() * 2
    }

    /// Whether it was measured here.
    pub fn is_measured(&self) -> bool {
        self.median_ns.is_some()
    }
}

/// A gap before it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnjudgedGap {
    /// How it was found.
    pub source: GapSource,
    /// The core.
    pub cpu: CpuId,
    /// Start, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// End, `CLOCK_MONOTONIC` nanoseconds.
    pub end_ns: u64,
    /// The thread whose work was interrupted, or `None` when any work on the core counts.
    pub own: Option<u32>,
    /// Whether the core was idle when it began; an idle kernel does not mask interrupts.
    pub idle: bool,
    /// What loops that spin on other cores, or their timers, saw at the same time.
    pub peers: Others,
    /// Whether a gap on another core ended in the same instant.
    pub another_stopped: bool,
    /// The newest turns of the core when the gap ended, as the kernel side kept them; empty where it did not.
    pub tape: Vec<Turn>,
    /// How long the thread waited meanwhile behind others that ran, as the scheduler counts it, nanoseconds; `None` where that
    /// is not known.
    pub waited_ns: Option<u64>,
}

/// A gap as it is judged for now, and what it was judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The gap.
    pub gap: Gap,
    /// What was known then.
    pub evidence: Evidence,
}

/// Said of a gap that an error report followed.
const REPORT_FOLLOWED: &str = "an error report followed within a second";

/// Said where the scheduler counts how long the thread waited, and not for what.
const MAY_BE_THROTTLED: &str = "a CPU quota may have stopped the thread: the scheduler counts that as waiting for the core, as it does behind other tasks";

/// Judges gaps.
pub struct Judge {
    witness: Witness,
    entry_exit: EntryExit,
}

impl Judge {
    /// With the witness of what else happened.
    pub fn new(witness: Witness, virtual_machine: bool) -> Self {
        Judge { witness, entry_exit: EntryExit::new(virtual_machine) }
    }

    /// Looks round; to be called every few milliseconds.
    pub fn look(&mut self) {
        self.witness.look();
    }

    /// The witness.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// The measured cost of entry and exit.
    pub fn entry_exit(&self) -> &EntryExit {
        &self.entry_exit
    }

    /// Joins the gap with the tape of its core, where anything is traced, and decides.
    pub fn judge(&mut self, traced: Option<&mut Traced>, found: &UnjudgedGap) -> Gap {
        self.judge_for_now(traced, found).gap
    }

    /// As [`Judge::judge`], for who asks [`Judge::correct`] later whether anything has become known since.
    pub fn judge_for_now(&mut self, traced: Option<&mut Traced>, found: &UnjudgedGap) -> Judged {
        let span = (found.start_ns, found.end_ns);
        let mut evidence = self.witness.evidence(found.source, found.cpu, span.0, span.1);
        let mut inside = match traced {
            Some(Traced { probes, tapes }) => {
                evidence.others = together(found.peers, tapes.others(found.cpu, span.0, span.1));
                let turns = match found.tape.first() {
                    Some(first) if first.at_ns <= span.0 => found.tape.clone(),
                    _ => tapes.around(found.cpu, span.0, span.1).to_vec(),
                };
                let stretches = tapes.stretches(probes, found.cpu, &turns, found.own);
                join(span.0, span.1, &stretches)
            }
            None => {
                evidence.traced = false;
                evidence.others = found.peers;
                let waited_ns = found.waited_ns.filter(|_| !self.witness.may_throttle);
                evidence.sees_waits = waited_ns.is_some();
                waited(span.1 - span.0, waited_ns.unwrap_or(0))
            }
        };
        evidence.maybe_masked &= !found.idle;
        (evidence.another_stopped, evidence.still_ns) = (found.another_stopped, inside.still_ns);
        // A late timer says nothing about entries and exits: whatever ran before it was due is work to it.
        let spins = matches!(found.source, GapSource::Probe | GapSource::Sentinel);
        if spins {
            self.entry_exit.learn(&inside);
            evidence.allowance_ns = u64::from(inside.entries) * self.entry_exit.allowance_ns();
        }
        if !inside.causes.is_empty() {
            evidence.allowance_ns = evidence.allowance_ns.max((span.1 - span.0) / NEGLIGIBLE);
        }
        evidence.nmi_count = inside.causes.iter().filter(|cause| cause.cause.kind == CauseKind::Nmi).count() as u64;
        (evidence.unexplained_ns, evidence.unseen_ns) = (inside.unexplained_ns, inside.unseen_ns);
        let (verdict, certainty, because) = verdict::decide(&evidence);
        if verdict == Verdict::Smi {
            self.witness.claim_smi(span.0, span.1);
        }
        let mut statements = vec![because.to_owned()];
        if spins {
            self.name_entry_and_exit(&mut inside, &evidence, &mut statements);
        }
        statements.extend(inside.causes.iter().filter_map(kept_away));
        statements.extend(more_evidence(&inside, &evidence));
        if !evidence.traced && self.witness.may_throttle && found.waited_ns.is_some() {
            statements.push(MAY_BE_THROTTLED.to_owned());
        }
        let gap = Gap {
            cpu: found.cpu,
            source: found.source,
            start_ns: span.0,
            duration_ns: span.1 - span.0,
            causes: inside.causes,
            unexplained_ns: inside.unexplained_ns,
            verdict,
            certainty,
            evidence: statements,
        };
        Judged { gap, evidence }
    }

    /// Decides again if an error report has come since the gap was judged.
    pub fn correct(&self, judged: &Judged) -> Option<GapCorrection> {
        let Judged { gap, evidence } = judged;
        let end_ns = gap.start_ns.saturating_add(gap.duration_ns);
        if evidence.error_report_followed || !self.witness.error_report_followed(gap.start_ns, end_ns) {
            return None;
        }
        let (verdict, certainty, because) = verdict::decide(&Evidence { error_report_followed: true, ..*evidence });
        let mut gap = Gap { verdict, certainty, ..gap.clone() };
        // The first statement is the row that decided.
        gap.evidence.drain(..gap.evidence.len().min(1));
        gap.evidence.insert(0, because.to_owned());
        gap.evidence.push(REPORT_FOLLOWED.to_owned());
        Some(GapCorrection { gap, former_verdict: judged.gap.verdict, former_certainty: judged.gap.certainty })
    }

    /// Gives the interruptions the entry and exit that they cost here: all of a rest within the allowance, of a larger
    /// one only what is typical.
    fn name_entry_and_exit(&self, inside: &mut Inside, evidence: &Evidence, statements: &mut Vec<String>) {
        let typical_ns = u64::from(inside.entries) * self.entry_exit.typical_ns();
        let rest_ns = inside.unexplained_ns - inside.unseen_ns;
        let named_ns = if rest_ns <= evidence.allowance_ns { rest_ns } else { rest_ns.min(typical_ns) };
        let Some(kind) = inside.causes.first().map(|cause| cause.cause.kind).filter(|_| named_ns > 0) else { return };
        inside.unexplained_ns -= named_ns;
        inside.causes.push(GapCause { cause: Cause::new(kind, Cause::ENTRY_AND_EXIT), duration_ns: named_ns });
        inside.causes.sort_by_key(|cause| std::cmp::Reverse(cause.duration_ns));
        let how = if self.entry_exit.is_measured() { "measured here" } else { "assumed" };
        statements.push(format!(
            "entry and exit of an interruption typically take {} ns ({how})",
            self.entry_exit.typical_ns()
        ));
    }
}

/// One core that ran is enough to exclude a stop of the whole machine.
fn together(one: Others, other: Others) -> Others {
    match (one, other) {
        (Others::Ran, _) | (_, Others::Ran) => Others::Ran,
        (Others::Stopped, _) | (_, Others::Stopped) => Others::Stopped,
        (Others::NotSeen, Others::NotSeen) => Others::NotSeen,
    }
}

/// What is known of a gap without a tape: for how long others that this kernel ran had the core.
fn waited(length_ns: u64, waited_ns: u64) -> Inside {
    let duration_ns = waited_ns.min(length_ns);
    let cause = Cause::new(CauseKind::Preemption, "another task or kernel thread");
    let causes = if duration_ns > 0 { vec![GapCause { cause, duration_ns }] } else { Vec::new() };
    Inside { causes, unexplained_ns: length_ns - duration_ns, still_ns: duration_ns, ..Inside::default() }
}

/// That the thread itself could not run, and for how long until it had the core again.
fn kept_away(part: &GapCause) -> Option<String> {
    let ms = part.duration_ns as f64 / 1e6;
    (part.cause.kind == CauseKind::ThreadState)
        .then(|| format!("the thread was {} and did not run again for {ms:.3} ms", part.cause.name))
}

fn more_evidence(inside: &Inside, evidence: &Evidence) -> Vec<String> {
    let mut statements = Vec::new();
    if evidence.sees_waits {
        let waited_ns: u64 = inside.causes.iter().map(|cause| cause.duration_ns).sum();
        statements.push(format!("the scheduler counts {:.3} ms of it as waiting for the core", waited_ns as f64 / 1e6));
    }
    if evidence.traced && inside.unseen_ns > 0 {
        statements.push(format!("the tape of this core does not show {} ns of it", inside.unseen_ns));
    }
    match evidence.steal {
        Steal::Rose(ns) => statements.push(format!("steal rose by {} ms around it", ns / 1_000_000)),
        Steal::Flat => statements.push("steal stayed flat".to_owned()),
        Steal::CannotSay => {}
    }
    match evidence.smi_rise {
        Some(0) if evidence.smi_taken > 0 => {
            statements
                .push(format!("{} SMIs were counted around it, which account for other gaps", evidence.smi_taken));
        }
        Some(0) => statements.push("no SMI was counted around it".to_owned()),
        Some(count) => statements.push(format!("{count} SMIs were counted around it")),
        None => {}
    }
    match evidence.others {
        Others::Ran => statements.push("another core ran in that time".to_owned()),
        Others::Stopped => statements.push("the other cores that were seen stopped, too".to_owned()),
        Others::NotSeen => {}
    }
    if evidence.another_stopped && evidence.others != Others::Stopped {
        statements.push("a gap on another core ended in the same instant".to_owned());
    }
    if evidence.error_report_followed {
        statements.push(REPORT_FOLLOWED.to_owned());
    }
    if evidence.wall_clock_stepped {
        statements.push("the wall clock stepped".to_owned());
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::pending::found;
    use surefoot_model::Certainty;

    fn inside(entries: u32, unexplained_ns: u64) -> Inside {
        let cause = Cause::new(CauseKind::Timer, "local_timer");
        Inside { entries, unexplained_ns, causes: vec![GapCause { cause, duration_ns: 5_000 }], ..Inside::default() }
    }

    #[test]
    fn of_two_gaps_within_a_tenth_of_a_second_one_smi_explains_one() {
        const MS: u64 = 1_000_000;
        let witness = crate::gap::witness::tests::witness(false, &[(0, 0, Some(7), 0, 0), (100, 0, Some(8), 0, 0)]);
        let mut judge = Judge::new(witness, false);
        let mut verdict = |start_ms: u64| {
            let mut found = found(GapSource::TimerLateness, CpuId(0), start_ms * MS, (start_ms + 2) * MS, None);
            found.waited_ns = Some(0);
            let gap = judge.judge(None, &found);
            (gap.verdict, gap.evidence)
        };
        assert_eq!(verdict(10).0, Verdict::Smi);
        let (second, evidence) = verdict(50);
        assert_eq!(second, Verdict::Undetermined);
        assert!(evidence.iter().any(|line| line.contains("account for other gaps")), "{evidence:?}");
    }

    #[test]
    fn a_wait_for_the_core_is_no_other_task_s_where_a_quota_may_have_stopped_the_thread() {
        let judged = |may_throttle| {
            let mut witness = crate::gap::witness::tests::witness(false, &[]);
            witness.may_throttle = may_throttle;
            let mut found = found(GapSource::SleepLateness, CpuId(0), 0, 60_000_000, None);
            found.waited_ns = Some(60_000_000);
            Judge::new(witness, false).judge(None, &found)
        };
        let gap = judged(false);
        assert_eq!((gap.verdict, gap.certainty, gap.causes.len()), (Verdict::Traced, Certainty::Certain, 1));
        let gap = judged(true);
        assert_eq!((gap.verdict, gap.certainty), (Verdict::Undetermined, Certainty::CannotTellApartHere), "{gap:?}");
        assert_eq!((gap.causes.len(), gap.unexplained_ns), (0, 60_000_000));
        assert!(gap.evidence.iter().any(|line| line == MAY_BE_THROTTLED), "{gap:?}");
    }

    #[test]
    fn entry_and_exit_are_learned_from_single_interruptions() {
        let mut cost = EntryExit::new(true);
        assert_eq!((cost.typical_ns(), cost.is_measured()), (10_000, false));
        for _ in 0..40 {
            cost.learn(&inside(1, 700));
            cost.learn(&inside(2, 90_000));
            cost.learn(&Inside { unseen_ns: 5, ..inside(1, 90_000) });
        }
        assert_eq!((cost.typical_ns(), cost.allowance_ns(), cost.is_measured()), (700, 1_400, true));
        // A few long stops among them do not move the median.
        for _ in 0..10 {
            cost.learn(&inside(1, 5_000_000));
        }
        assert_eq!(cost.typical_ns(), 700);
    }
}
