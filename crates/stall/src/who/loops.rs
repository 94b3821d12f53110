//! The gaps that polling threads noted themselves, laid over what the kernel did on their core meanwhile.
//!
//! A gap comes as two readings of the processor's counter. It is converted to `CLOCK_MONOTONIC` by an anchor that is a
//! few milliseconds old at most, its core is found on the tapes, the [`Judge`] splits it by cause, and the arrivals
//! that lie in it tell who raised what. Rings are read before tapes and arrivals, so that whatever ran within a gap is
//! there when the gap is joined.
//!
//! Whoever may write to the directory of loops can claim any gap, so what they claim is checked first ([`claims`]).

mod arrivals;
mod claims;
mod kept;
pub(super) mod parts;
mod place;
mod timeline;

use crate::gap::tapes::Traced;
use arrivals::Arrivals;
use claims::{Claims, Noted};
use kept::Kept;
use place::GapCore;
use std::path::PathBuf;
use surefoot_hostfs::{Root, clock};
use surefoot_inloop::{LoopGaps, Reader};
use surefoot_model::{Cause, CpuId, LoopGap, LoopSummary, WhoReport};
use surefoot_probes::Raised;
use timeline::{Timeline, joined};

/// Gaps that are listed; of more the longest.
pub(super) const GAPS_LISTED: usize = 1_000;

/// Gaps that are listed in an event that flows every few seconds.
pub(super) const GAPS_IN_EVENT: usize = 100;

/// Reading the rings may take this share of the time: one in five.
const SHARE: u64 = 5;

/// Reads the rings of all loops, joins their gaps, and keeps the longest.
pub(crate) struct Loops {
    root: Root,
    cpus: Vec<CpuId>,
    reader: Option<Reader>,
    /// Why there is no reader, or no timeline.
    unusable: Option<String>,
    next_poll_ns: u64,
    /// Whether any loop ran at the last poll.
    are_there: bool,
    timeline: Option<Timeline>,
    arrivals: Arrivals,
    claims: Claims,
    kept: Kept,
}

impl Loops {
    /// Begins to watch the loops of a directory; gaps that they noted before are left out. The directory may come later.
    pub(crate) fn open(root: &Root, traced: &mut Traced, cpus: &[CpuId], directory: PathBuf) -> Self {
        let there = directory.exists();
        let opened = root.is_host().then(|| Reader::open(directory));
        let (reader, unusable) = match opened {
            Some(Ok(reader)) => (Some(reader), None),
            Some(Err(error)) => (None, Some(format!("gaps that polling threads note themselves: {error}"))),
            None => (None, None),
        };
        let mut loops = Loops {
            root: root.clone(),
            cpus: cpus.to_vec(),
            reader,
            unusable,
            next_poll_ns: 0,
            are_there: false,
            timeline: None,
            arrivals: Arrivals::default(),
            claims: Claims::since(root, clock::monotonic_ns()),
            kept: Kept::new(GAPS_LISTED),
        };
        // Where loops were before there will be some again. Elsewhere the tapes would be kept for nothing.
        if there && loops.reader.is_some() {
            loops.make_timeline(traced);
        }
        loops
    }

    fn make_timeline(&mut self, traced: &mut Traced) {
        if self.timeline.is_some() || self.unusable.is_some() {
            return;
        }
        if !clock::trusted(&self.root) {
            let source = clock::clocksource(&self.root).unwrap_or_else(|_| "another clock".to_owned());
            self.unusable = Some(format!(
                "the kernel keeps time by {source} and does not vouch for the processor's counter, so gaps that \
                 polling threads note cannot be laid over the traced time"
            ));
            return;
        }
        match Timeline::new(&self.root, traced, &self.cpus) {
            Ok(timeline) => self.timeline = Some(timeline),
            Err(unsupported) => self.unusable = Some(unsupported.to_string()),
        }
    }

    /// Whether there are loops now. That there were some once, as their directory tells, is no reason to look often.
    pub(crate) fn are_followed(&self) -> bool {
        self.are_there && self.timeline.is_some()
    }

    /// Reads the rings. To be called every few milliseconds, before marks and records are read.
    pub(crate) fn poll(&mut self, traced: &mut Traced) {
        let began_ns = clock::monotonic_ns();
        let Some(reader) = self.reader.as_mut().filter(|_| began_ns >= self.next_poll_ns) else { return };
        let found = reader.poll();
        self.next_poll_ns = began_ns + (clock::monotonic_ns() - began_ns) * SHARE;
        self.are_there = found.iter().any(|of_loop| !of_loop.ended);
        if !found.is_empty() {
            self.make_timeline(traced);
        }
        let has_gaps = found.iter().any(|of_loop| !of_loop.gaps.is_empty());
        if let Some(timeline) = &mut self.timeline {
            timeline.anchor(clock::monotonic_ns(), has_gaps);
        }
        let now_ticks = surefoot_inloop::ticks();
        for of_loop in found {
            self.take(of_loop, now_ticks);
        }
        // Only what is longer than the shortest on the list can get onto it.
        self.claims.choose(self.kept.shortest_ns().unwrap_or(0));
    }

    fn take(&mut self, of_loop: LoopGaps, now_ticks: u64) {
        match &self.timeline {
            Some(timeline) => self.claims.take(of_loop, now_ticks, &timeline.clock),
            None => self.claims.leave_unplaced(&of_loop),
        }
    }

    /// Lets the next poll read the rings whatever the last one cost, because no other will follow.
    pub(crate) fn last_poll_follows(&mut self) {
        self.next_poll_ns = 0;
    }

    /// Begins at this time: what loops noted before it does not count.
    pub(crate) fn start(&mut self, start_ns: u64) {
        self.claims.start_ns = start_ns;
    }

    /// Remembers who raised what arrived on a watched core.
    pub(crate) fn arrived(&mut self, cpu: CpuId, cause: &Cause, at_ns: u64, raised: &Raised) {
        if self.timeline.is_some() {
            self.arrivals.add(cpu, cause, at_ns, raised);
        }
    }

    /// Joins the gaps that wait, and shows each. To be called after marks, tapes and records were read.
    pub(crate) fn join(&mut self, traced: &mut Traced, mut on_gap: impl FnMut(&LoopGap)) {
        let Some(timeline) = &mut self.timeline else { return };
        timeline.lost_turns = traced.tapes.lost_turns(&self.cpus) - timeline.lost_turns_before;
        self.arrivals.sort();
        let now_ns = clock::monotonic_ns();
        for gap in std::mem::take(&mut self.claims.waiting) {
            let Noted { summary: noted, home, .. } = &mut self.claims.noted[gap.number];
            let home = || home.now(&self.root, (noted.pid, noted.tid), now_ns);
            let placed = place::place(&traced.tapes, &self.cpus, noted.tid, (gap.start_ns, gap.end_ns), home);
            if placed == GapCore::NotWatched {
                let noted = &mut self.claims.noted[gap.number];
                noted.elsewhere += 1;
                noted.summary.not_listed += 1;
                continue;
            }
            let noted = &self.claims.noted[gap.number].summary;
            let joined = joined(&mut timeline.judge, traced, &self.arrivals, noted, &gap, placed);
            on_gap(&joined);
            if let Some(number) = self.kept.keep(gap.number, joined) {
                self.claims.noted[number].summary.not_listed += 1;
            }
        }
    }

    /// Adds loops and at most so many gaps, both with the longest time first, and what is missing.
    pub(crate) fn report(&self, to: &mut WhoReport, most: usize) {
        let mut summaries: Vec<LoopSummary> = self.claims.noted.iter().map(|noted| noted.summary.clone()).collect();
        let mut listed = self.kept.longest_first();
        for (number, _) in listed.drain(most.min(listed.len())..) {
            summaries[number].not_listed += 1;
        }
        summaries.sort_by_key(|summary| std::cmp::Reverse(summary.total_ns));
        to.loops = summaries;
        to.loop_gaps = listed.into_iter().map(|(_, gap)| gap.clone()).collect();
        to.missing.extend(self.missing());
    }

    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        // Where no thread notes gaps, nobody misses them; a directory that cannot be opened is another matter.
        missing.extend(self.unusable.iter().filter(|_| self.reader.is_none()).cloned());
        missing.extend(self.claims.missing(self.unusable.as_deref()));
        missing.extend(self.timeline.iter().flat_map(Timeline::missing));
        let counts = self.reader.as_ref().map(Reader::counts).unwrap_or_default();
        let files = [
            (counts.other_namespace, "of another PID namespace, such as a container's"),
            (counts.not_owner, "that claim a thread of somebody else"),
            (counts.malformed, "that this version cannot read"),
            (counts.unreadable, "that could not be opened"),
            (counts.left_out, "beyond the limit"),
        ];
        for (count, what) in files.into_iter().filter(|(count, _)| *count > 0) {
            let files = if count == 1 { "file" } else { "files" };
            missing.push(format!("{count} {files} in the directory of loops {what}"));
        }
        missing
    }
}

#[cfg(test)]
mod tests;
