//! The gaps that polling threads noted themselves, laid over what the kernel did on their core meanwhile.
//!
//! A gap comes as two readings of the processor's counter. It is converted to `CLOCK_MONOTONIC` by an anchor that is a
//! few milliseconds old at most, its core is found on the tapes, the [`Judge`] splits it by cause, and the arrivals
//! that lie in it tell who raised what. Rings are read before tapes and arrivals, so that whatever ran within a gap is
//! there when the gap is joined.
//!
//! Whoever may write to the directory of loops can claim any gap. So a gap counts only if it follows the last one of
//! its loop and is over; time before the watch is cut off; and gaps, loops, and the work of a look have limits.

mod arrivals;
mod kept;
mod parts;
mod place;

use crate::gap::judge::{Found, Judge};
use crate::gap::tapes::Tapes;
use crate::gap::verdict::Others;
use crate::gap::witness::Witness;
use arrivals::Arrivals;
use kept::Kept;
use place::{Home, Place};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_inloop::{LoopGaps, Reader};
use surefoot_model::{Cause, CpuId, GapSource, LoopGap, LoopSummary, WhoReport};
use surefoot_probes::{Probes, Raised};

/// Gaps that are listed; of more the longest.
pub(super) const GAPS_LISTED: usize = 1_000;

/// Gaps that are listed in an event that flows every few seconds.
pub(super) const GAPS_IN_EVENT: usize = 100;

/// Loops with a summary; the gaps of more are counted together.
const LOOPS: usize = 1_024;

/// Gaps that one look joins; of more the longest.
const JOINED_PER_LOOK: usize = 512;

/// Turns of each core that are kept, 16 bytes apiece: some seconds on a busy core.
const KEPT_TURNS: usize = 1 << 16;

/// How long the counter's rate is measured at first. Anchors are taken anew all the time, so an instant is never far
/// from one: a rate that is off by some millionths costs some ten nanoseconds.
const CALIBRATION: Duration = Duration::from_millis(10);

/// An anchor is taken anew after this time even if no gap asks for it, so that the rate becomes better.
const ANCHOR_EVERY_NS: u64 = 100_000_000;

/// An anchor worse than this does not hold the promise that a gap and its causes meet within a microsecond.
const ANCHOR_ERROR_NS: u64 = 1_000;

/// Reading the rings may take this share of the time: one in five.
const SHARE: u64 = 5;

/// What is needed to lay gaps over the traced time; made when the first loop is seen.
struct Timeline {
    clock: TscClock,
    anchored_ns: u64,
    worst_anchor_ns: u64,
    judge: Judge,
    /// Turns that were overwritten before they could be read.
    lost_turns: u64,
}

impl Timeline {
    fn new(root: &Root, probes: &Probes, cpus: &[CpuId]) -> Result<Self, Unsupported> {
        let clock = TscClock::calibrate_for(CALIBRATION)?;
        let identity = Identity::read(root);
        let mut tapes = Tapes::new(root, probes, cpus, KEPT_TURNS);
        if let Ok(interrupts) = Interrupts::read(root) {
            tapes.learn(&interrupts);
        }
        let witness = Witness::open(root, &identity, None);
        let judge = Judge::new(Some(tapes), witness, identity.hypervisor.is_some());
        let worst_anchor_ns = clock.anchor_error_ns();
        Ok(Timeline { clock, anchored_ns: clock::monotonic_ns(), worst_anchor_ns, judge, lost_turns: 0 })
    }

    /// Takes a new anchor if one is needed now, or has not been taken for long.
    fn anchor(&mut self, now_ns: u64, needed: bool) {
        if needed || now_ns.saturating_sub(self.anchored_ns) >= ANCHOR_EVERY_NS {
            self.clock.reanchor();
            self.anchored_ns = now_ns;
            self.worst_anchor_ns = self.worst_anchor_ns.max(self.clock.anchor_error_ns());
        }
    }
}

/// A loop that noted gaps.
struct Noted {
    summary: LoopSummary,
    /// The counter when its newest gap ended, ticks.
    last_after: u64,
    /// Its gaps on cores that are not watched.
    elsewhere: u64,
    /// Its core as /proc said when it was first seen: the thread may have ended when its last gaps are read.
    home: Home,
}

/// A gap that is to be joined.
struct Waiting {
    number: usize,
    start_ns: u64,
    end_ns: u64,
}

/// What could not be used.
#[derive(Default)]
struct LeftOut {
    /// Claims that cannot be.
    impossible: u64,
    /// Gaps of loops beyond [`LOOPS`].
    of_more_loops: u64,
    /// Gaps that cannot be converted, and the threads that noted them.
    unplaced: u64,
    unplaced_loops: BTreeSet<(u32, u32)>,
}

/// Reads the rings of all loops, joins their gaps, and keeps the longest.
pub(crate) struct Loops {
    root: Root,
    cpus: Vec<CpuId>,
    reader: Option<Reader>,
    /// Why there is no reader, or no timeline.
    unusable: Option<String>,
    start_ns: u64,
    next_poll_ns: u64,
    timeline: Option<Timeline>,
    arrivals: Arrivals,
    numbers: HashMap<(u32, u32, String), usize>,
    noted: Vec<Noted>,
    waiting: Vec<Waiting>,
    kept: Kept,
    left_out: LeftOut,
}

impl Loops {
    /// Begins to watch the loops of a directory; gaps that they noted before are left out. The directory may come later.
    pub(crate) fn open(root: &Root, probes: &Probes, cpus: &[CpuId], directory: PathBuf) -> Self {
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
            start_ns: clock::monotonic_ns(),
            next_poll_ns: 0,
            timeline: None,
            arrivals: Arrivals::default(),
            numbers: HashMap::new(),
            noted: Vec::new(),
            waiting: Vec::new(),
            kept: Kept::new(GAPS_LISTED),
            left_out: LeftOut::default(),
        };
        // Where loops were before there will be some again. Elsewhere the names and tapes would be read for nothing.
        if there && loops.reader.is_some() {
            loops.make_timeline(probes);
        }
        loops
    }

    fn make_timeline(&mut self, probes: &Probes) {
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
        match Timeline::new(&self.root, probes, &self.cpus) {
            Ok(timeline) => self.timeline = Some(timeline),
            Err(unsupported) => self.unusable = Some(unsupported.to_string()),
        }
    }

    /// Reads the rings. To be called every few milliseconds, before marks and records are read.
    pub(crate) fn poll(&mut self, probes: &Probes) {
        let began_ns = clock::monotonic_ns();
        let Some(reader) = self.reader.as_mut().filter(|_| began_ns >= self.next_poll_ns) else { return };
        let found = reader.poll();
        self.next_poll_ns = began_ns + (clock::monotonic_ns() - began_ns) * SHARE;
        if !found.is_empty() {
            self.make_timeline(probes);
        }
        let has_gaps = found.iter().any(|of_loop| !of_loop.gaps.is_empty());
        if let Some(timeline) = &mut self.timeline {
            timeline.anchor(clock::monotonic_ns(), has_gaps);
        }
        let now_ticks = surefoot_inloop::ticks();
        for of_loop in found {
            self.take(of_loop, now_ticks);
        }
        self.choose();
    }

    /// Lets the next poll read the rings whatever the last one cost, because no other will follow.
    pub(crate) fn last_poll_follows(&mut self) {
        self.next_poll_ns = 0;
    }

    /// Counts the gaps of a loop; those that can be joined wait.
    fn take(&mut self, of_loop: LoopGaps, now_ticks: u64) {
        if self.timeline.is_none() {
            self.left_out.unplaced += of_loop.gaps.len() as u64;
            if !of_loop.gaps.is_empty() && self.left_out.unplaced_loops.len() < LOOPS {
                self.left_out.unplaced_loops.insert((of_loop.pid, of_loop.tid));
            }
            return;
        }
        let Some(number) = self.number(&of_loop) else {
            self.left_out.of_more_loops += of_loop.gaps.len() as u64 + of_loop.overwritten;
            return;
        };
        let Some(Timeline { clock, .. }) = &self.timeline else { return };
        let noted = &mut self.noted[number];
        noted.summary.threshold_ns = clock.duration_ns(of_loop.threshold_ticks);
        noted.summary.overwritten += of_loop.overwritten;
        for (before, after) in of_loop.gaps {
            if before < noted.last_after || after <= before || after > now_ticks {
                self.left_out.impossible += 1;
                continue;
            }
            noted.last_after = after;
            let (start_ns, end_ns) = span(clock, before, after);
            let start_ns = start_ns.max(self.start_ns);
            if end_ns <= start_ns {
                continue;
            }
            noted.summary.gap_count += 1;
            noted.summary.total_ns += end_ns - start_ns;
            self.waiting.push(Waiting { number, start_ns, end_ns });
        }
    }

    /// The number of a loop's summary; none when there are too many.
    fn number(&mut self, of_loop: &LoopGaps) -> Option<usize> {
        let key = (of_loop.pid, of_loop.tid, of_loop.name.clone());
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if self.noted.len() == LOOPS {
            return None;
        }
        let summary = LoopSummary {
            pid: of_loop.pid,
            tid: of_loop.tid,
            name: of_loop.name.clone(),
            threshold_ns: 0,
            gap_count: 0,
            total_ns: 0,
            overwritten: 0,
            not_listed: 0,
        };
        let home = place::home(&self.root, of_loop.pid, of_loop.tid);
        self.noted.push(Noted { summary, last_after: 0, elsewhere: 0, home });
        self.numbers.insert(key, self.noted.len() - 1);
        Some(self.noted.len() - 1)
    }

    /// Of the gaps that wait, keeps those that can get onto the list, and the longest if they are too many.
    fn choose(&mut self) {
        self.waiting.sort_by_key(|gap| std::cmp::Reverse(gap.end_ns - gap.start_ns));
        let enough_ns = self.kept.shortest_ns().unwrap_or(0);
        let long = self.waiting.partition_point(|gap| gap.end_ns - gap.start_ns > enough_ns);
        for gap in self.waiting.drain(long.min(JOINED_PER_LOOK)..) {
            self.noted[gap.number].summary.not_listed += 1;
        }
    }

    /// Begins at this time: what loops noted before it does not count.
    pub(crate) fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Remembers who raised what arrived on a watched core.
    pub(crate) fn arrived(&mut self, cpu: CpuId, cause: &Cause, at_ns: u64, raised: &Raised) {
        if self.timeline.is_some() {
            self.arrivals.add(cpu, cause, at_ns, raised);
        }
    }

    /// Joins the gaps that wait. To be called after marks and records were read.
    pub(crate) fn join(&mut self, probes: &Probes) {
        let Some(timeline) = &mut self.timeline else { return };
        timeline.judge.read_tapes(Some(probes));
        timeline.lost_turns = timeline.judge.tapes().map_or(0, |tapes| tapes.lost_turns());
        self.arrivals.sort();
        let mut homes = HashMap::new();
        for gap in std::mem::take(&mut self.waiting) {
            let Noted { summary: noted, home: first_home, .. } = &self.noted[gap.number];
            let home = || {
                let read = || place::home(&self.root, noted.pid, noted.tid).or(*first_home);
                *homes.entry(gap.number).or_insert_with(read)
            };
            let placed = timeline.judge.tapes().map_or(Place::Unknown, |tapes| {
                place::place(tapes, &self.cpus, noted.tid, (gap.start_ns, gap.end_ns), home)
            });
            if placed == Place::NotWatched {
                self.noted[gap.number].elsewhere += 1;
                self.noted[gap.number].summary.not_listed += 1;
                continue;
            }
            let joined = joined(&mut timeline.judge, probes, &self.arrivals, noted, &gap, placed);
            if let Some(number) = self.kept.keep(gap.number, joined) {
                self.noted[number].summary.not_listed += 1;
            }
        }
    }

    /// Adds loops and at most so many gaps, both with the longest time first, and what is missing.
    pub(crate) fn report(&self, to: &mut WhoReport, most: usize) {
        let mut summaries: Vec<LoopSummary> = self.noted.iter().map(|noted| noted.summary.clone()).collect();
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
        let mut say = |count: u64, what: &dyn Fn() -> String| {
            if count > 0 {
                missing.push(what());
            }
        };
        let left = &self.left_out;
        // Where no thread notes gaps, nobody misses them; a directory that cannot be opened is another matter.
        if let Some(why) = &self.unusable {
            if self.reader.is_none() {
                say(1, &|| why.clone());
            }
            let threads = left.unplaced_loops.len();
            say(left.unplaced, &|| format!("{} gaps of {threads} polling threads: {why}", left.unplaced));
        }
        for noted in &self.noted {
            let LoopSummary { name, tid, .. } = &noted.summary;
            say(noted.elsewhere, &|| {
                let count = noted.elsewhere;
                format!("{count} gaps of loop \"{name}\" (thread {tid}) were on a core that is not watched (--cpu)")
            });
        }
        say(left.impossible, &|| format!("{} gaps that loops claim, but that cannot have been", left.impossible));
        say(left.of_more_loops, &|| format!("{} gaps of loops beyond the first {LOOPS}", left.of_more_loops));
        let lost_turns = self.timeline.as_ref().map_or(0, |timeline| timeline.lost_turns);
        say(lost_turns, &|| {
            format!(
                "{lost_turns} changes of context came too fast to be read; gaps of loops at these times stay unexplained"
            )
        });
        let worst_ns = self.timeline.as_ref().map_or(0, |timeline| timeline.worst_anchor_ns);
        say(u64::from(worst_ns > ANCHOR_ERROR_NS), &|| {
            format!("gaps of loops may lie up to {worst_ns} ns off, because the clock is slow to read here")
        });
        let counts = self.reader.as_ref().map(Reader::counts).unwrap_or_default();
        let files = [
            (counts.other_namespace, "of another PID namespace, such as a container's"),
            (counts.not_owner, "that claim a thread of somebody else"),
            (counts.malformed, "that this version cannot read"),
            (counts.unreadable, "that could not be opened"),
            (counts.left_out, "beyond the limit"),
        ];
        for (count, what) in files {
            say(count as u64, &|| format!("{count} files in the directory of loops {what}"));
        }
        missing
    }
}

/// Start and end of a gap on `CLOCK_MONOTONIC`, from its two readings of the counter. The start is taken from the end by
/// the length, so that the length does not suffer from the anchor.
fn span(clock: &TscClock, before: u64, after: u64) -> (u64, u64) {
    let end_ns = clock.ns(after);
    (end_ns.saturating_sub(clock.duration_ns(after - before)), end_ns)
}

/// Splits a gap by cause and names who raised what. Where its core is not known, nothing explains it.
fn joined(
    judge: &mut Judge,
    probes: &Probes,
    arrivals: &Arrivals,
    noted: &LoopSummary,
    gap: &Waiting,
    placed: Place,
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
    let Place::On { cpu, own } = placed else { return listed };
    let Some(tapes) = judge.tapes() else { return listed };
    let turns = tapes.around(cpu, start_ns, end_ns).to_vec();
    let found = Found {
        source: GapSource::Probe,
        cpu,
        start_ns,
        end_ns,
        own: Some(own),
        idle: false,
        peers: Others::NotSeen,
        tape: turns.clone(),
    };
    let judged = judge.judge(Some(probes), &found);
    listed.cpu = Some(cpu);
    let Some(tapes) = judge.tapes() else { return listed };
    let stretches = tapes.stretches(probes, cpu, &turns, Some(own));
    let counts = parts::Counts::of(&turns, &stretches, start_ns, end_ns);
    let raisers = |cause: &_| arrivals.raisers(cpu, cause, start_ns, end_ns);
    listed.parts = parts::parts(judged.causes, &counts, raisers);
    listed.unexplained_ns = parts::fit(&mut listed.parts, listed.duration_ns);
    listed
}

#[cfg(test)]
mod tests;
