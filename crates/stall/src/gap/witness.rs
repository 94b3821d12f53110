//! The witness: what the rest of the machine did around a gap.
//!
//! A housekeeping thread lets it look round every few milliseconds; it keeps the last looks, so that a gap found
//! later can be held against the steal counter, the SMI counter, the wall clock and the error reports of its time.

use crate::gap::quota;
use crate::gap::reports::ErrorReports;
use crate::gap::verdict::{Evidence, Others, Steal};
use std::collections::VecDeque;
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::smi::SmiCounter;
use surefoot_hostfs::stat::{Stat, ticks_per_s};
use surefoot_hostfs::{Root, Unsupported, clock};
use surefoot_model::{CpuId, GapSource};

/// Looks that are kept: at 10 ms each, the last five seconds.
const LOOKS: usize = 512;

/// Spans that SMIs are taken to have caused, kept as long as the looks around them.
const CLAIMS: usize = 512;

/// The kernel brings the steal counter up to date at the tick, so a rise shows up to this much later.
pub const SETTLING_NS: u64 = 25_000_000;

/// Up to so long after a gap an error report is taken for one about it: firmware that logs an error tells the kernel
/// when it is done.
pub const REPORT_NS: u64 = 1_000_000_000;

/// A step of the wall clock against the monotonic one that cannot be slewing, nanoseconds.
const STEP_NS: i64 = 1_000_000;

#[derive(Debug, Clone)]
struct Look {
    at_ns: u64,
    steal_ticks: Vec<(CpuId, u64)>,
    smi_count: Option<u64>,
    error_reports: u64,
    realtime_offset_ns: i64,
}

/// Keeps what the machine's counters said lately.
pub struct Witness {
    root: Root,
    looks: VecDeque<Look>,
    smi: Result<SmiCounter, Unsupported>,
    reports: ErrorReports,
    /// Spans that an SMI accounts for already, one each; the cores that one SMI stopped share its span.
    claims: VecDeque<(u64, u64)>,
    virtual_machine: bool,
    step_ns: u64,
    /// Whether a CPU quota may stop the threads of this process.
    pub(super) may_throttle: bool,
}

impl Witness {
    /// Opens the counters; the SMI counter is read on `housekeeping`, because reading another core's would
    /// interrupt that core.
    pub fn open(root: &Root, identity: &Identity, housekeeping: Option<CpuId>) -> Self {
        let smi = match housekeeping {
            Some(cpu) => SmiCounter::open(root, identity, cpu),
            None => Err(Unsupported::new(
                "every core is watched, and reading the SMI counter interrupts the core it is read on",
                "leave one core unwatched",
            )),
        };
        Witness {
            root: root.clone(),
            looks: VecDeque::with_capacity(LOOKS),
            smi,
            reports: ErrorReports::open(root),
            claims: VecDeque::new(),
            virtual_machine: identity.hypervisor.is_some(),
            step_ns: 1_000_000_000 / ticks_per_s().max(1),
            may_throttle: quota::may_throttle(root),
        }
    }

    /// Why SMIs cannot be counted, if they cannot.
    pub fn smi_missing(&self) -> Option<&Unsupported> {
        self.smi.as_ref().err()
    }

    /// Whether any memory controller reports errors.
    pub(crate) fn sees_error_reports(&self) -> bool {
        self.reports.exist()
    }

    /// Looks round once.
    pub fn look(&mut self) {
        // Nothing steals where no hypervisor is below, and the table of a large host is long.
        let stat = if self.virtual_machine { Stat::read(&self.root).ok() } else { None };
        let steal_ticks =
            stat.map_or_else(Vec::new, |stat| stat.cpus.iter().map(|&(cpu, of)| (cpu, of.steal)).collect());
        let look = Look {
            at_ns: clock::monotonic_ns(),
            steal_ticks,
            smi_count: self.smi.as_mut().ok().and_then(|counter| counter.read().ok()),
            error_reports: self.reports.look(),
            realtime_offset_ns: clock::realtime_offset_ns(),
        };
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    /// When it last looked, `CLOCK_MONOTONIC` nanoseconds; 0 before the first look.
    pub fn last_look_ns(&self) -> u64 {
        self.looks.back().map_or(0, |look| look.at_ns)
    }

    /// The looks just before and just after a stretch of time.
    fn around(&self, start_ns: u64, end_ns: u64) -> Option<(&Look, &Look)> {
        let before = self.looks.iter().rev().find(|look| look.at_ns <= start_ns)?;
        let after = self.looks.iter().find(|look| look.at_ns >= end_ns).or(self.looks.back())?;
        (after.at_ns > before.at_ns).then_some((before, after))
    }

    /// How many SMIs were counted around a gap and may have caused it, and how many of them other gaps account for.
    fn smis(&self, (before, after): (&Look, &Look), (start_ns, end_ns): (u64, u64)) -> Option<(u64, u64)> {
        let rise = after.smi_count?.saturating_sub(before.smi_count?);
        let near = self.claims.iter().copied().filter(|claim| claim.1 > before.at_ns && claim.0 < after.at_ns);
        let (shared, others): (Vec<(u64, u64)>, Vec<_>) =
            near.partition(|claim| claim.0 < end_ns && start_ns < claim.1);
        let taken = (others.len() as u64).min(rise);
        // What stopped another core at the same moment stopped this one, too.
        let left = if shared.is_empty() { rise - taken } else { (rise - taken).max(1) };
        Some((left, taken))
    }

    /// Notes that one of the SMIs around this span accounts for it, and so for no other one.
    pub(crate) fn claim_smi(&mut self, start_ns: u64, end_ns: u64) {
        if let Some(same) = self.claims.iter_mut().find(|claim| claim.0 < end_ns && start_ns < claim.1) {
            *same = (same.0.min(start_ns), same.1.max(end_ns));
            return;
        }
        if self.claims.len() == CLAIMS {
            self.claims.pop_front();
        }
        self.claims.push_back((start_ns, end_ns));
    }

    fn steal(&self, cpu: CpuId, start_ns: u64, end_ns: u64) -> Steal {
        let length_ns = end_ns - start_ns;
        // A gap shorter than a step of the counter cannot be told from its neighbours.
        if !self.virtual_machine || length_ns < self.step_ns {
            return Steal::CannotSay;
        }
        let Some((before, after)) = self.around(start_ns, end_ns + SETTLING_NS) else { return Steal::CannotSay };
        let ticks = |look: &Look| look.steal_ticks.iter().find(|(other, _)| *other == cpu).map(|(_, ticks)| *ticks);
        match (ticks(before), ticks(after)) {
            (Some(was), Some(is)) if is > was => Steal::Rose((is - was) * self.step_ns),
            (Some(_), Some(_)) if length_ns >= 3 * self.step_ns => Steal::Flat,
            _ => Steal::CannotSay,
        }
    }

    /// Whether an error report came after the start of a gap and up to [`REPORT_NS`] after its end, as far as the looks go.
    pub fn error_report_followed(&self, start_ns: u64, end_ns: u64) -> bool {
        let looks = self.around(start_ns, end_ns.saturating_add(REPORT_NS));
        looks.is_some_and(|(before, after)| after.error_reports > before.error_reports)
    }

    /// How long after a gap all is known that its verdict rests on.
    pub fn final_after_ns(&self) -> u64 {
        if self.sees_error_reports() { REPORT_NS } else { SETTLING_NS }
    }

    /// What is known about a gap, apart from what its own core's tape says.
    pub fn evidence(&self, source: GapSource, cpu: CpuId, start_ns: u64, end_ns: u64) -> Evidence {
        let around = self.around(start_ns, end_ns);
        let smis = around.and_then(|looks| self.smis(looks, (start_ns, end_ns)));
        Evidence {
            source,
            traced: true,
            sees_waits: false,
            length_ns: end_ns - start_ns,
            still_ns: 0,
            unexplained_ns: end_ns - start_ns,
            unseen_ns: 0,
            allowance_ns: 0,
            maybe_masked: source == GapSource::TimerLateness,
            virtual_machine: self.virtual_machine,
            smi_rise: smis.map(|(left, _)| left),
            smi_taken: smis.map_or(0, |(_, taken)| taken),
            others: Others::NotSeen,
            another_stopped: false,
            nmi_count: 0,
            error_report_followed: self.error_report_followed(start_ns, end_ns),
            steal: self.steal(cpu, start_ns, end_ns),
            wall_clock_stepped: around
                .is_some_and(|(before, after)| (after.realtime_offset_ns - before.realtime_offset_ns).abs() > STEP_NS),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn witness(virtual_machine: bool, looks: &[(u64, u64, Option<u64>, u64, i64)]) -> Witness {
        Witness {
            root: Root::host(),
            looks: looks
                .iter()
                .map(|&(at_ms, steal, smi_count, error_reports, offset_ms)| Look {
                    at_ns: at_ms * 1_000_000,
                    steal_ticks: vec![(CpuId(0), steal), (CpuId(1), 0)],
                    smi_count,
                    error_reports,
                    realtime_offset_ns: offset_ms * 1_000_000,
                })
                .collect(),
            smi: Err(Unsupported::new("test", "")),
            reports: ErrorReports::open(&Root::at("/nowhere")),
            claims: VecDeque::new(),
            virtual_machine,
            step_ns: 10_000_000,
            may_throttle: false,
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn the_ticks_are_read_only_where_something_can_steal() {
        let tree = surefoot_testkit::HostTree::new().file("proc/stat", "cpu0 1 0 1 9 0 0 0 5 0 0\n");
        for virtual_machine in [false, true] {
            let mut witness = witness(virtual_machine, &[]);
            witness.root = Root::at(tree.path());
            witness.look();
            let steal_ticks = witness.looks.back().map(|look| look.steal_ticks.clone());
            assert_eq!(steal_ticks, Some(if virtual_machine { vec![(CpuId(0), 5)] } else { Vec::new() }));
        }
    }

    #[test]
    fn steal_is_compared_around_the_gap_and_only_when_it_can_say_something() {
        let guest = witness(true, &[(0, 5, None, 0, 0), (10, 5, None, 0, 0), (60, 5, None, 0, 0), (90, 9, None, 0, 0)]);
        let steal = |cpu, from_ms: u64, to_ms: u64| {
            guest.evidence(GapSource::Probe, CpuId(cpu), from_ms * MS, to_ms * MS).steal
        };
        assert_eq!(steal(0, 12, 55), Steal::Rose(40 * MS));
        assert_eq!(steal(1, 12, 55), Steal::Flat);
        assert_eq!(steal(0, 12, 15), Steal::CannotSay, "3 ms are less than a step of 10 ms");
        assert_eq!(steal(1, 12, 30), Steal::CannotSay, "18 ms may fall between two steps");
        let bare = witness(false, &[(0, 5, None, 0, 0), (90, 9, None, 0, 0)]);
        assert_eq!(bare.evidence(GapSource::Probe, CpuId(0), 12 * MS, 55 * MS).steal, Steal::CannotSay);
    }

    #[test]
    fn one_smi_explains_one_gap() {
        let mut bare = witness(false, &[(0, 0, Some(7), 0, 0), (100, 0, Some(8), 0, 0), (200, 0, Some(10), 0, 0)]);
        let left = |bare: &Witness, cpu, from_ms: u64, to_ms: u64| {
            let evidence = bare.evidence(GapSource::TimerLateness, CpuId(cpu), from_ms * MS, to_ms * MS);
            (evidence.smi_rise, evidence.smi_taken)
        };
        assert_eq!(left(&bare, 0, 10, 12), (Some(1), 0));
        bare.claim_smi(10 * MS, 12 * MS);
        assert_eq!(left(&bare, 0, 40, 42), (Some(0), 1), "the one SMI of this tenth of a second is taken");
        assert_eq!(left(&bare, 1, 11, 12), (Some(1), 0), "the same SMI stopped the other core");
        bare.claim_smi(11 * MS, 12 * MS);
        assert_eq!(left(&bare, 0, 110, 112), (Some(2), 0), "two more were counted later");
        bare.claim_smi(110 * MS, 112 * MS);
        assert_eq!(left(&bare, 0, 150, 152), (Some(1), 1));
        bare.claim_smi(150 * MS, 152 * MS);
        assert_eq!(left(&bare, 0, 170, 172), (Some(0), 2));
    }

    #[test]
    fn smi_count_error_reports_and_clock_steps_are_seen_around_the_gap() {
        let looks = [(0, 0, Some(7), 0, 5), (10, 0, Some(7), 0, 5), (20, 0, Some(9), 0, 8), (500, 0, Some(9), 2, 8)];
        let bare = witness(false, &looks);
        let evidence = bare.evidence(GapSource::Sentinel, CpuId(0), 11 * MS, 12 * MS);
        assert_eq!(evidence.smi_rise, Some(2));
        assert!(evidence.error_report_followed && evidence.wall_clock_stepped && !evidence.maybe_masked);
        let quiet = bare.evidence(GapSource::TimerLateness, CpuId(0), MS, 2 * MS);
        assert_eq!(quiet.smi_rise, Some(0));
        assert!(quiet.maybe_masked && !quiet.wall_clock_stepped);
    }
}
