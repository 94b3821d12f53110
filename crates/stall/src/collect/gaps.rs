//! Gaps on their way to a window: found, waiting for the counters around them to settle, judged, booked.

use crate::Error;
use crate::collect::ebpf::LateTimer;
use crate::collect::sleeper::LateWakeUp;
use crate::config::SentinelConfig;
use crate::gap::judge::{Judge, Judged, UnjudgedGap};
use crate::gap::pending::{Pending, found, hidden_cause, likelier_smi, merge, stopped_together};
use crate::gap::tapes::Traced;
use crate::gap::verdict::{Evidence, decide};
use crate::gap::witness::{REPORT_NS, Witness};
use crate::ledger::Hidden;
use crate::namespaces;
use crate::spin::Jump;
use crate::spin::sentinel::Sentinel;
use std::collections::{BTreeMap, VecDeque};
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_model::{Certainty, CpuId, Gap, GapCorrection, GapSource, Verdict};

/// Gaps whose verdict an error report may still change; those of a few windows.
const PROVISIONAL_MAX: usize = 1024;

/// Gaps of cores that could not be read; older ones are in no ledger.
const UNBOOKED_MAX: usize = 1024;

/// The gaps of the watched cores, and those that the sentinel finds.
pub(crate) struct Gaps {
    judge: Judge,
    sentinel: Option<(Sentinel, TscClock)>,
    pending: Vec<Pending>,
    /// Gaps that were told of, and that an error report may still follow.
    provisional: VecDeque<Judged>,
    /// When the watch began: what is found is cut there.
    since_ns: u64,
    /// Up to where gaps of a core have been booked.
    booked_until_ns: BTreeMap<CpuId, u64>,
    /// Judged gaps of cores that could not be read, each with whether its core was idle.
    unbooked: Vec<(Gap, bool)>,
}

impl Gaps {
    /// Starts the sentinel, if one is wanted.
    ///
    /// # Errors
    /// [`Error::NoCounter`] without a usable counter; [`Error::Host`] and [`Error::Thread`] when it cannot start.
    pub(crate) fn start(
        witness: Witness,
        virtual_machine: bool,
        sentinel: Option<SentinelConfig>,
        threshold_ns: u64,
    ) -> Result<Self, Error> {
        let sentinel = match sentinel {
            Some(chosen) => {
                let clock = TscClock::calibrate()?;
                Some((Sentinel::start(chosen, &clock, threshold_ns)?, clock))
            }
            None => None,
        };
        let judge = Judge::new(witness, virtual_machine);
        Ok(Gaps {
            judge,
            sentinel,
            pending: Vec::new(),
            provisional: VecDeque::new(),
            since_ns: clock::monotonic_ns(),
            booked_until_ns: BTreeMap::new(),
            unbooked: Vec::new(),
        })
    }

    /// The watch begins now: what went before is nobody's.
    pub(crate) fn begin(&mut self, at_ns: u64) {
        self.since_ns = at_ns;
        for pending in std::mem::take(&mut self.pending) {
            self.wait(pending);
        }
    }

    /// Lets a gap wait, or the part of it that fell into the watch.
    fn wait(&mut self, mut pending: Pending) {
        pending.found.start_ns = pending.found.start_ns.max(self.since_ns);
        if pending.found.start_ns < pending.found.end_ns {
            self.pending.push(pending);
        }
    }

    /// Reads what must not be missed between two ends of windows.
    pub(crate) fn look(&mut self) {
        self.judge.look();
        if let Some((sentinel, clock)) = &mut self.sentinel {
            clock.reanchor();
            let mut jumps: Vec<Jump> = Vec::new();
            sentinel.take(&mut jumps);
            let (cpu, own) = (sentinel.config.cpu, namespaces::of_kernel(sentinel.tid));
            let spans: Vec<_> =
                jumps.iter().map(|jump| (clock.ns(jump.before), clock.ns(jump.after), jump.waited_ns)).collect();
            for (start_ns, end_ns, waited_ns) in spans {
                let found = UnjudgedGap { waited_ns, ..found(GapSource::Sentinel, cpu, start_ns, end_ns, own) };
                self.wait(Pending { found, while_idle: false });
            }
        }
    }

    /// Takes kernel timers that fired late.
    pub(crate) fn add_late_timers(&mut self, timers: Vec<LateTimer>) {
        for late in timers {
            let mut found = found(GapSource::TimerLateness, late.cpu, late.due_ns, late.fired_ns, None);
            found.tape = late.tape;
            self.wait(Pending { found, while_idle: late.while_idle });
        }
    }

    /// Takes threads of our own that woke late.
    pub(crate) fn add_late_wake_ups(&mut self, wake_ups: Vec<LateWakeUp>) {
        for late in wake_ups {
            let waited_ns = late.waited_ns;
            let found =
                UnjudgedGap { waited_ns, ..found(GapSource::SleepLateness, late.cpu, late.due_ns, late.woke_ns, None) };
            self.wait(Pending { found, while_idle: false });
        }
    }

    /// Judges the gaps that ended up to this moment, which must be [`SETTLING_NS`](crate::gap::witness::SETTLING_NS) before the last look; each with whether its
    /// core was idle. `watched` cores are online.
    pub(crate) fn judge_until(
        &mut self,
        until_ns: u64,
        mut traced: Option<&mut Traced>,
        watched: usize,
    ) -> Vec<(Gap, bool)> {
        let (ready, waiting): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.found.end_ns <= until_ns);
        self.pending = waiting;
        let mut ready = merge(ready);
        stopped_together(&mut ready, watched);
        ready.sort_by_key(likelier_smi);
        let mut judged: Vec<(Gap, bool)> = ready
            .into_iter()
            .filter_map(|pending| {
                let judged = self.judge.judge_for_now(traced.as_deref_mut(), &pending.found);
                // The sentinel is there for what nobody traces; what preempted it is in the ledger.
                let is_its_own = judged.gap.verdict == Verdict::Traced && judged.gap.certainty == Certainty::Certain;
                let is_told = judged.gap.source != GapSource::Sentinel || !is_its_own;
                is_told.then(|| (self.remember(judged), pending.while_idle))
            })
            .collect();
        judged.sort_by_key(|(gap, _)| (gap.cpu, gap.start_ns));
        judged
    }

    /// Remembers a gap that an error report may still follow.
    fn remember(&mut self, judged: Judged) -> Gap {
        let gap = judged.gap.clone();
        if self.judge.witness().sees_error_reports() && !judged.evidence.error_report_followed {
            if self.provisional.len() == PROVISIONAL_MAX {
                self.provisional.pop_front();
            }
            self.provisional.push_back(judged);
        }
        gap
    }

    /// Forgets the gaps of this window that were not told of: nothing is to be corrected of them.
    pub(crate) fn told(&mut self, gaps: &[Gap], window_start_ns: u64) {
        self.provisional.retain(|Judged { gap, .. }| {
            gap.start_ns + gap.duration_ns <= window_start_ns || gaps.iter().any(|told| told.is_same(gap))
        });
    }

    /// What has become known of gaps that were told of: an error report came. Each is told once.
    pub(crate) fn corrections(&mut self) -> Vec<GapCorrection> {
        let seen_ns = self.judge.witness().last_look_ns();
        let mut corrections = Vec::new();
        self.provisional.retain(|judged| match self.judge.correct(judged) {
            Some(correction) => {
                corrections.push(correction);
                false
            }
            None => final_ns(&judged.gap) > seen_ns,
        });
        corrections
    }

    /// Until when it is worth waiting, because an error report would change a verdict; `None` where none would.
    pub(crate) fn undecided_until_ns(&self) -> Option<u64> {
        let hinges = |judged: &&Judged| {
            let (verdict, ..) = decide(&Evidence { error_report_followed: true, ..judged.evidence });
            verdict != judged.gap.verdict
        };
        self.provisional.iter().filter(hinges).map(|judged| final_ns(&judged.gap)).max()
    }

    /// What the gaps move out of the contexts they were found in, by core; no time is moved twice, and none that lies before
    /// a core's own ledger, which begins at `since_ns`. A core that has none now has its gaps in the next one.
    pub(crate) fn hidden(
        &mut self,
        judged: &[(Gap, bool)],
        since_ns: &BTreeMap<CpuId, u64>,
    ) -> BTreeMap<CpuId, Vec<Hidden>> {
        let mut hidden: BTreeMap<CpuId, Vec<Hidden>> = BTreeMap::new();
        let all = std::mem::take(&mut self.unbooked).into_iter().chain(judged.iter().cloned());
        for (gap, while_idle) in all {
            let Some(&since_ns) = since_ns.get(&gap.cpu) else {
                self.unbooked.push((gap, while_idle));
                continue;
            };
            let until = self.booked_until_ns.entry(gap.cpu).or_default();
            if gap.unexplained_ns == 0 || gap.start_ns < *until {
                continue;
            }
            *until = gap.start_ns + gap.duration_ns;
            let inside_ns = until.saturating_sub(gap.start_ns.max(since_ns));
            hidden.entry(gap.cpu).or_default().push(Hidden {
                cause: hidden_cause(gap.verdict, gap.certainty),
                duration_ns: gap.unexplained_ns.min(inside_ns),
                while_idle,
            });
        }
        let beyond = self.unbooked.len().saturating_sub(UNBOOKED_MAX);
        self.unbooked.drain(..beyond);
        hidden
    }

    /// Jumps of the sentinel that found no room, ever.
    pub(crate) fn dropped(&self) -> u64 {
        self.sentinel.as_ref().map_or(0, |(sentinel, _)| sentinel.dropped())
    }
}

/// When all is known that the verdict of a gap rests on.
fn final_ns(gap: &Gap) -> u64 {
    gap.start_ns.saturating_add(gap.duration_ns).saturating_add(REPORT_NS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::gap::verdict::Others;
    use surefoot_hostfs::Root;
    use surefoot_hostfs::identity::Identity;

    fn gaps() -> Gaps {
        let root = Root::host();
        let witness = Witness::open(&root, &Identity::read(&root), None);
        Gaps::start(witness, false, None, 1_000).unwrap()
    }

    #[test]
    fn a_gap_is_judged_with_the_window_that_it_ended_in() {
        let mut gaps = gaps();
        gaps.begin(0);
        gaps.look();
        let end_ns = gaps.judge.witness().last_look_ns();
        gaps.add_late_timers(vec![late(end_ns - 3_000_000, end_ns - 1), late(end_ns - 10, end_ns + 10)]);
        let judged = gaps.judge_until(end_ns, None, 1);
        assert_eq!(judged.iter().map(|(gap, _)| gap.start_ns).collect::<Vec<_>>(), [end_ns - 3_000_000]);
        assert_eq!(gaps.pending.len(), 1, "the other one belongs to the next window");
        assert!(gaps.hidden(&judged, &BTreeMap::new()).is_empty(), "its core could not be read");
        let hidden = gaps.hidden(&[], &BTreeMap::from([(CpuId(0), end_ns - 1_000_000)]));
        assert_eq!(hidden[&CpuId(0)][0].duration_ns, 999_999, "two of its milliseconds were in the window before");
    }

    /// Bare metal with a memory controller whose driver reports errors; two cores, nothing traced but that nothing ran.
    fn bare_metal(tree: &surefoot_testkit::HostTree) -> Gaps {
        let mut gaps = gaps();
        let witness = Witness::open(&Root::at(tree.path()), &Identity::read(&Root::at(tree.path())), None);
        gaps.judge = Judge::new(witness, false);
        gaps
    }

    #[test]
    fn an_error_report_that_comes_after_the_window_corrects_the_verdict_once() {
        const COUNT: &str = "sys/devices/system/edac/mc/mc0/ce_count";
        let tree = surefoot_testkit::HostTree::new().file(COUNT, "7\n");
        let mut gaps = bare_metal(&tree);
        gaps.look();
        let end_ns = gaps.judge.witness().last_look_ns() + 1_000_000;
        let evidence = gaps.judge.witness().evidence(GapSource::TimerLateness, CpuId(0), end_ns - 1_000_000, end_ns);
        // As the judge sees a stop of all cores on a tape where nothing ran.
        let evidence = Evidence { maybe_masked: false, others: Others::Stopped, virtual_machine: false, ..evidence };
        let (verdict, certainty, because) = decide(&evidence);
        let gap = Gap {
            cpu: CpuId(0),
            source: GapSource::TimerLateness,
            start_ns: end_ns - 1_000_000,
            duration_ns: 1_000_000,
            causes: Vec::new(),
            unexplained_ns: 1_000_000,
            verdict,
            certainty,
            evidence: vec![because.to_owned(), "the other cores that were seen stopped, too".to_owned()],
        };
        assert_eq!(verdict, Verdict::SmiLike);
        let told = gaps.remember(Judged { gap: gap.clone(), evidence });
        gaps.remember(Judged { gap: Gap { cpu: CpuId(1), ..gap.clone() }, evidence });
        gaps.told(std::slice::from_ref(&told), gap.start_ns);
        assert_eq!(gaps.undecided_until_ns(), Some(end_ns + REPORT_NS));
        gaps.look();
        assert_eq!(gaps.corrections(), [], "nothing was reported yet");
        std::fs::write(tree.path().join(COUNT), "9\n").unwrap();
        gaps.look();
        let corrections = gaps.corrections();
        assert_eq!(corrections.len(), 1, "that of the other core was never told of");
        let GapCorrection { gap: corrected, former_verdict, .. } = &corrections[0];
        assert!(corrected.is_same(&gap) && *former_verdict == Verdict::SmiLike);
        assert_eq!(corrected.verdict, Verdict::CorrectedErrorLogging);
        assert!(corrected.evidence[0].contains("an error report followed"), "{:?}", corrected.evidence);
        assert_eq!(hidden_cause(gap.verdict, gap.certainty), hidden_cause(corrected.verdict, corrected.certainty));
        gaps.look();
        assert_eq!((gaps.corrections(), gaps.undecided_until_ns()), (Vec::new(), None), "once");
    }

    #[test]
    fn a_wait_that_ends_in_the_same_instant_as_that_of_another_core_is_not_certain() {
        let tree = surefoot_testkit::HostTree::new();
        let verdicts = |other_woke_ns: u64| {
            let mut gaps = bare_metal(&tree);
            gaps.begin(0);
            gaps.look();
            let late =
                |cpu, due_ns, woke_ns: u64| LateWakeUp { cpu, due_ns, woke_ns, waited_ns: Some(woke_ns - due_ns) };
            let wake_ups = vec![late(CpuId(0), 0, 60_000_000), late(CpuId(1), 30_000_000, other_woke_ns)];
            gaps.add_late_wake_ups(wake_ups);
            let judged = gaps.judge_until(u64::MAX, None, 3);
            judged.iter().map(|(gap, _)| (gap.verdict, gap.certainty)).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(60_000_100), [(Verdict::Traced, Certainty::CannotTellApartHere); 2]);
        assert_eq!(verdicts(67_000_000), [(Verdict::Traced, Certainty::Certain); 2]);
    }

    fn late(due_ns: u64, fired_ns: u64) -> LateTimer {
        LateTimer { cpu: CpuId(0), due_ns, fired_ns, while_idle: false, tape: Vec::new() }
    }

    #[test]
    fn a_gap_that_began_before_the_watch_is_cut_at_its_start() {
        let mut gaps = gaps();
        gaps.begin(0);
        gaps.add_late_timers(vec![late(100, 900), late(1_000, 90_000)]);
        gaps.begin(2_000);
        gaps.add_late_timers(vec![late(10, 3_000), late(50, 2_000), late(5_000, 6_000)]);
        let spans: Vec<_> = gaps.pending.iter().map(|each| (each.found.start_ns, each.found.end_ns)).collect();
        assert_eq!(spans, [(2_000, 90_000), (2_000, 3_000), (5_000, 6_000)]);
    }
}
