//! What loops claim: which of their gaps count, and what is known of each loop.
//!
//! Whoever may write to the directory of loops can claim any gap. So a gap counts only if it follows the last one of its
//! loop and is over; time before the watch is cut off; and gaps and loops have limits.

use super::place::AskedHome;
use super::timeline::span;
use std::collections::{BTreeSet, HashMap};
use surefoot_hostfs::Root;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_inloop::LoopGaps;
use surefoot_model::LoopSummary;

/// Loops with a summary; the gaps of more are counted together.
pub(super) const LOOPS: usize = 1_024;

/// Gaps that one look joins; of more the longest.
pub(super) const JOINED_PER_LOOK: usize = 512;

/// A loop that noted gaps.
pub(super) struct Noted {
    pub(super) summary: LoopSummary,
    /// The counter when its newest gap ended, ticks.
    last_after: u64,
    /// Its gaps on cores that are not watched.
    pub(super) elsewhere: u64,
    /// Its core as /proc said; first when it was first seen, because the thread may have ended when its last gaps are read.
    pub(super) home: AskedHome,
}

/// A gap that is to be joined.
pub(super) struct Waiting {
    /// The number of its loop.
    pub(super) number: usize,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// The claims of all loops.
pub(super) struct Claims {
    root: Root,
    /// When the watch began; what was before does not count.
    pub(super) start_ns: u64,
    pub(super) numbers: HashMap<(u32, u32, String), usize>,
    pub(super) noted: Vec<Noted>,
    pub(super) waiting: Vec<Waiting>,
    /// Claims that cannot be.
    pub(super) impossible: u64,
    /// Gaps of loops beyond [`LOOPS`].
    pub(super) of_more_loops: u64,
    /// Gaps that cannot be converted, and the threads that noted them.
    unplaced: u64,
    unplaced_loops: BTreeSet<(u32, u32)>,
}

impl Claims {
    pub(super) fn since(root: &Root, start_ns: u64) -> Self {
        Claims {
            root: root.clone(),
            start_ns,
            numbers: HashMap::new(),
            noted: Vec::new(),
            waiting: Vec::new(),
            impossible: 0,
            of_more_loops: 0,
            unplaced: 0,
            unplaced_loops: BTreeSet::new(),
        }
    }

    /// Counts the gaps of a loop where nothing can convert them.
    pub(super) fn leave_unplaced(&mut self, of_loop: &LoopGaps) {
        self.unplaced += of_loop.gaps.len() as u64;
        if !of_loop.gaps.is_empty() && self.unplaced_loops.len() < LOOPS {
            self.unplaced_loops.insert((of_loop.pid, of_loop.tid));
        }
    }

    /// Counts the gaps of a loop; those that can be joined wait.
    pub(super) fn take(&mut self, of_loop: LoopGaps, now_ticks: u64, clock: &TscClock) {
        let Some(number) = self.number(&of_loop) else {
            self.of_more_loops += of_loop.gaps.len() as u64 + of_loop.overwritten;
            return;
        };
        let noted = &mut self.noted[number];
        noted.summary.threshold_ns = clock.duration_ns(of_loop.threshold_ticks);
        noted.summary.overwritten += of_loop.overwritten;
        for (before, after) in of_loop.gaps {
            if before < noted.last_after || after <= before || after > now_ticks {
                self.impossible += 1;
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
        let home = AskedHome::ask(&self.root, (of_loop.pid, of_loop.tid), clock::monotonic_ns());
        self.noted.push(Noted { summary, last_after: 0, elsewhere: 0, home });
        self.numbers.insert(key, self.noted.len() - 1);
        Some(self.noted.len() - 1)
    }

    /// Of the gaps that wait, keeps those longer than this, and the longest if they are too many.
    pub(super) fn choose(&mut self, enough_ns: u64) {
        self.waiting.sort_by_key(|gap| std::cmp::Reverse(gap.end_ns - gap.start_ns));
        let long = self.waiting.partition_point(|gap| gap.end_ns - gap.start_ns > enough_ns);
        for gap in self.waiting.drain(long.min(JOINED_PER_LOOK)..) {
            self.noted[gap.number].summary.not_listed += 1;
        }
    }

    /// What does not count, or could not be used, each as a sentence; `unusable` says why nothing can be converted.
    pub(super) fn missing(&self, unusable: Option<&str>) -> Vec<String> {
        let mut missing = Vec::new();
        let mut say = |count: u64, what: &dyn Fn() -> String| {
            if count > 0 {
                missing.push(what());
            }
        };
        if let Some(why) = unusable {
            let threads = self.unplaced_loops.len();
            say(self.unplaced, &|| format!("{} gaps of {threads} polling threads: {why}", self.unplaced));
        }
        for noted in &self.noted {
            let LoopSummary { name, tid, .. } = &noted.summary;
            say(noted.elsewhere, &|| {
                let count = noted.elsewhere;
                format!("{count} gaps of loop \"{name}\" (thread {tid}) were on a core that is not watched (--cpu)")
            });
        }
        say(self.impossible, &|| format!("{} gaps that loops claim, but that cannot have been", self.impossible));
        say(self.of_more_loops, &|| format!("{} gaps of loops beyond the first {LOOPS}", self.of_more_loops));
        missing
    }
}
