//! The line of time that the gaps of loops are laid over: from readings of the counter to `CLOCK_MONOTONIC`, and to what
//! the kernel did meanwhile.

use super::arrivals::Arrivals;
use super::claims::Waiting;
use super::parts;
use super::place::GapCore;
use crate::gap::judge::{Judge, UnjudgedGap};
use crate::gap::tapes::Traced;
use crate::gap::verdict::Others;
use crate::gap::witness::Witness;
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{CpuId, GapSource, LoopGap, LoopSummary};

/// Turns of each core that are kept, 16 bytes apiece: some seconds on a busy core.
const KEPT_TURNS: usize = 1 << 16;

/// How long the counter's rate is measured at first. Anchors are taken anew all the time, so an instant is never far
/// from one: a rate that is off by some millionths costs some ten nanoseconds.
pub(super) const CALIBRATION: Duration = Duration::from_millis(10);

/// An anchor is taken anew after this time even if no gap asks for it, so that the rate becomes better.
const ANCHOR_EVERY_NS: u64 = 100_000_000;

/// An anchor worse than this does not hold the promise that a gap and its causes meet within a microsecond.
pub(super) const ANCHOR_ERROR_NS: u64 = 1_000;

/// What is needed to lay gaps over the traced time; made when the first loop is seen.
pub(super) struct Timeline {
    pub(super) clock: TscClock,
    pub(super) anchored_ns: u64,
    pub(super) worst_anchor_ns: u64,
    pub(super) judge: Judge,
    /// Turns that had been overwritten before the first loop was seen.
    pub(super) lost_turns_before: u64,
    /// Turns that were overwritten since, before they could be read.
    pub(super) lost_turns: u64,
}

impl Timeline {
    pub(super) fn new(root: &Root, traced: &mut Traced, cpus: &[CpuId]) -> Result<Self, Unsupported> {
        let clock = TscClock::calibrate_for(CALIBRATION)?;
        let identity = Identity::read(root);
        traced.tapes.keep(cpus, KEPT_TURNS);
        let witness = Witness::open(root, &identity, None);
        let judge = Judge::new(witness, identity.hypervisor.is_some());
        let worst_anchor_ns = clock.anchor_error_ns();
        Ok(Timeline {
            clock,
            anchored_ns: clock::monotonic_ns(),
            worst_anchor_ns,
            judge,
            lost_turns_before: traced.tapes.lost_turns(cpus),
            lost_turns: 0,
        })
    }

    /// Takes a new anchor if one is needed now, or has not been taken for long.
    pub(super) fn anchor(&mut self, now_ns: u64, needed: bool) {
        if needed || now_ns.saturating_sub(self.anchored_ns) >= ANCHOR_EVERY_NS {
            self.clock.reanchor();
            self.anchored_ns = now_ns;
            self.worst_anchor_ns = self.worst_anchor_ns.max(self.clock.anchor_error_ns());
        }
    }

    /// What the gaps suffer from, each as a sentence.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.lost_turns > 0 {
            missing.push(format!(
                "{} changes of context came too fast to be read; gaps of loops at these times stay unexplained",
                self.lost_turns
            ));
        }
        if self.worst_anchor_ns > ANCHOR_ERROR_NS {
            missing.push(format!(
                "gaps of loops may lie up to {} ns off, because the clock is slow to read here",
                self.worst_anchor_ns
            ));
        }
        missing
    }
}

/// Start and end of a gap on `CLOCK_MONOTONIC`, from its two readings of the counter. The start is taken from the end by
/// the length, so that the length does not suffer from the anchor.
pub(super) fn span(clock: &TscClock, before: u64, after: u64) -> (u64, u64) {
    let end_ns = clock.ns(after);
    (end_ns.saturating_sub(clock.duration_ns(after - before)), end_ns)
}

/// Splits a gap by cause and names who raised what. Where its core is not known, nothing explains it.
pub(super) fn joined(
    judge: &mut Judge,
    traced: &mut Traced,
    arrivals: &Arrivals,
    noted: &LoopSummary,
    gap: &Waiting,
    placed: GapCore,
) -> LoopGap {
    let (start_ns, end_ns) = (gap.start_ns, gap.end_ns);
    let mut listed = LoopGap {
        pid: noted.pid,
        tid: noted.tid,
        name: noted.name.clone(),
        cpu: None,
        start_ns,
        duration_ns: end_ns - start_ns,
        parts: Vec::new(),
        unexplained_ns: end_ns - start_ns,
    };
    let GapCore::On { cpu, own } = placed else { return listed };
    let turns = traced.tapes.around(cpu, start_ns, end_ns).to_vec();
    let found = UnjudgedGap {
        source: GapSource::Probe,
        cpu,
        start_ns,
        end_ns,
        own: Some(own),
        idle: false,
        peers: Others::NotSeen,
        another_stopped: false,
        tape: turns.clone(),
        waited_ns: None,
    };
    let judged = judge.judge(Some(traced), &found);
    listed.cpu = Some(cpu);
    let stretches = traced.tapes.stretches(&traced.probes, cpu, &turns, Some(own));
    let counts = parts::Counts::of(&turns, &stretches, start_ns, end_ns);
    let raisers = |cause: &_| arrivals.raisers(cpu, cause, start_ns, end_ns);
    listed.parts = parts::parts(judged.causes, &counts, raisers);
    listed.unexplained_ns = parts::fit(&mut listed.parts, listed.duration_ns);
    listed
}
