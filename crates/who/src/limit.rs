//! Keeps a report small enough to flow, to be recorded or to be kept, whatever the machine and its symbols are like.
//!
//! Raisers that are rare are counted together, by name as far as there is room, so that no count is lost; what else finds no
//! room is counted under what is missing.

use crate::weight::{
    interrupt_bytes, loop_bytes, loop_gap_bytes, notice_bytes, raiser_bytes, raisers_bytes, report_bytes, text_bytes,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use surefoot_model::{Certainty, Interrupt, Raiser, WhoReport};

/// Characters of a stack frame's name that are kept; those of C++ and Rust can fill pages.
const FRAME_CHARS: usize = 240;

/// What the raisers that are counted together do.
const TOGETHER: &str = "other raisers, together for lack of room";

/// As [`TOGETHER`], of those that have one name and one system call.
const OF_ONE_NAME: &str = "several raisers of this name, together for lack of room";

/// Rows of an interrupt for raisers that are counted together by name and system call. A build has thousands of threads and some ten
/// names.
const NAMES_AND_CALLS: usize = 8;

/// Rows of an interrupt for the rest, by name alone: names times system calls times certainties are many where names are few.
const NAMES: usize = 24;

/// What `(other)` is called.
const NAMELESS: &str = "(other)";

/// A sentence about what is left out.
const SENTENCE_BYTES: usize = 128;

/// How large a report may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Raisers that are told apart for each kind of interrupt on each core.
    pub raisers: usize,
    /// The report without its timeline: as JSON, and in memory without the allocator's overhead.
    pub bytes: usize,
}

impl Limits {
    /// What flows as an event every few seconds: 200 raisers per interrupt and 2 MiB.
    pub const EVENT: Limits = Limits { raisers: 200, bytes: 2 << 20 };
    /// What a recording holds, and what is printed, so that both say the same: 10,000 raisers and 12 MiB, which is less
    /// than a frame of a recording even where it does not compress.
    pub const RECORDING: Limits = Limits { raisers: 10_000, bytes: 12 << 20 };
}

/// Cuts a report down to its limits; the timeline is left alone. The counts of raisers stay: the rarest are counted
/// together for each interrupt, by certainty, name and system call, beyond eight of these by certainty and name, and beyond 24 of these
/// as `(other)`. Of interrupts the cheapest go, of loops and their gaps those with the least time, of sentences the last. How many went
/// is said under what is missing.
pub fn limit(report: &mut WhoReport, limits: &Limits) {
    let names = report.interrupts.iter_mut().flat_map(|interrupt| &mut interrupt.raisers);
    names.flat_map(|raiser| raiser.kernel_stack.iter_mut().chain(&mut raiser.user_stack)).for_each(shorten);
    let beyond = merge_beyond(&mut report.interrupts, limits.raisers);
    let mut said = Vec::new();
    let together = if report_bytes(report) > limits.bytes {
        said = cut_lists(report, limits.bytes);
        beyond + merge_rare(report, limits.bytes)
    } else {
        beyond
    };
    if together > 0 {
        said.push(format!("{together} rare raisers are counted together, for lack of room"));
    }
    report.missing.extend(said);
}

fn shorten(frame: &mut String) {
    if let Some((at, _)) = frame.char_indices().nth(FRAME_CHARS) {
        frame.truncate(at);
        frame.push_str("...");
    }
}

/// The row that stands for raisers which are not told apart.
pub(crate) fn other(certainty: Certainty, count: u64) -> Raiser {
    Raiser {
        certainty,
        function: TOGETHER.to_owned(),
        syscall: String::new(),
        comm: NAMELESS.to_owned(),
        pid: 0,
        tid: 0,
        wakee: String::new(),
        count,
        kernel_stack: Vec::new(),
        user_stack: Vec::new(),
        is_sum: true,
    }
}

/// Whether a row is the sum of others that have nothing in common.
pub(crate) fn is_nameless(raiser: &Raiser) -> bool {
    raiser.comm == NAMELESS && raiser.tid == 0
}

/// The row that stands for several raisers of one name.
pub(crate) fn of_one_name(certainty: Certainty, comm: &str, pid: u32, count: u64) -> Raiser {
    let is_nameless = comm == NAMELESS;
    let function = if is_nameless { TOGETHER } else { OF_ONE_NAME }.to_owned();
    Raiser { comm: comm.to_owned(), pid, function, ..other(certainty, count) }
}

/// Whether a row is the sum of others already.
pub(crate) fn is_sum(raiser: &Raiser) -> bool {
    raiser.is_sum || is_nameless(raiser)
}

/// Raisers that are counted together.
#[derive(Default)]
pub struct Together(BTreeMap<(Certainty, String, String), Sum>);

struct Sum {
    count: u64,
    /// Their process; 0 where there are several.
    pid: u32,
}

impl Together {
    /// Counts raisers of this name, in this system call and of this process.
    pub fn add(&mut self, certainty: Certainty, comm: &str, syscall: &str, pid: u32, count: u64) {
        let sum = self.0.entry((certainty, comm.to_owned(), syscall.to_owned())).or_insert(Sum { count: 0, pid });
        sum.count = sum.count.saturating_add(count);
        if sum.pid != pid {
            sum.pid = 0;
        }
    }

    /// Counts raisers of which nothing else is known.
    pub fn add_nameless(&mut self, certainty: Certainty, count: u64) {
        self.add(certainty, NAMELESS, "", 0, count);
    }

    /// The rows that stand for them: the most frequent by name and system call, the rest by name, and one for each certainty of what
    /// is left then.
    pub fn rows(mut self) -> Vec<Raiser> {
        let mut rows = self.take_most(NAMES_AND_CALLS);
        let mut by_name = Together::default();
        for ((certainty, comm, _), Sum { count, pid }) in std::mem::take(&mut self.0) {
            by_name.add(certainty, &comm, "", pid, count);
        }
        rows.extend(by_name.take_most(NAMES));
        let mut left: BTreeMap<Certainty, u64> = BTreeMap::new();
        for ((certainty, ..), Sum { count, .. }) in by_name.0 {
            let sum = left.entry(certainty).or_default();
            *sum = sum.saturating_add(count);
        }
        rows.extend(left.into_iter().map(|(certainty, count)| other(certainty, count)));
        // A name without a system call may be in both.
        let mut places: BTreeMap<(Certainty, String, String), usize> = BTreeMap::new();
        let mut merged: Vec<Raiser> = Vec::with_capacity(rows.len());
        for row in rows {
            match places.entry((row.certainty, row.comm.clone(), row.syscall.clone())) {
                Entry::Occupied(place) => {
                    let kept = &mut merged[*place.get()];
                    kept.count = kept.count.saturating_add(row.count);
                    kept.pid = if kept.pid == row.pid { kept.pid } else { 0 };
                }
                Entry::Vacant(place) => {
                    place.insert(merged.len());
                    merged.push(row);
                }
            }
        }
        merged
    }

    /// Takes out the most frequent that have a name.
    fn take_most(&mut self, most: usize) -> Vec<Raiser> {
        let named = self.0.iter().filter(|(key, _)| key.1 != NAMELESS);
        let mut by_count: Vec<_> = named.map(|(key, sum)| (Reverse(sum.count), key.clone())).collect();
        by_count.sort_unstable();
        by_count
            .into_iter()
            .take(most)
            .filter_map(|(_, key)| self.0.remove_entry(&key))
            .map(|((certainty, comm, syscall), Sum { count, pid })| Raiser {
                syscall,
                ..of_one_name(certainty, &comm, pid, count)
            })
            .collect()
    }
}

/// Counts raisers of an interrupt together unless they are to stay; returns how many. Sums that were there are among
/// them, and do not count.
fn merge(interrupt: &mut Interrupt, mut stays: impl FnMut(&Raiser) -> bool) -> usize {
    let mut together = Together::default();
    let mut merged = 0;
    interrupt.raisers.retain(|raiser| {
        let is_sum = is_sum(raiser);
        let stays = !is_sum && stays(raiser);
        if !stays {
            together.add(raiser.certainty, &raiser.comm, &raiser.syscall, raiser.pid, raiser.count);
            merged += usize::from(!is_sum);
        }
        stays
    });
    interrupt.raisers.extend(together.rows());
    interrupt.raisers.sort_by_key(|raiser| Reverse(raiser.count));
    merged
}

/// Keeps so many raisers of each interrupt, the most frequent.
fn merge_beyond(interrupts: &mut [Interrupt], most: usize) -> usize {
    let too_many =
        |interrupt: &&mut Interrupt| interrupt.raisers.iter().filter(|raiser| !is_sum(raiser)).count() > most;
    interrupts
        .iter_mut()
        .filter(too_many)
        .map(|interrupt| {
            interrupt.raisers.sort_by_key(|raiser| Reverse(raiser.count));
            let mut room = most;
            merge(interrupt, |_| {
                let stays = room > 0;
                room -= usize::from(stays);
                stays
            })
        })
        .sum()
}

/// Keeps the most frequent raisers of all interrupts for which the rest of the report leaves room.
fn merge_rare(report: &mut WhoReport, bytes: usize) -> usize {
    let rest = report_bytes(report) - raisers_bytes(report) + report.interrupts.iter().map(sums_bytes).sum::<usize>();
    let room = bytes.saturating_sub(rest + SENTENCE_BYTES);
    let all = report.interrupts.iter().flat_map(|interrupt| &interrupt.raisers).filter(|raiser| !is_sum(raiser));
    let mut by_count: Vec<(Reverse<u64>, usize)> =
        all.map(|raiser| (Reverse(raiser.count), raiser_bytes(raiser))).collect();
    by_count.sort_unstable();
    let kept = fitting(by_count.iter().map(|&(_, bytes)| bytes), room);
    if kept == by_count.len() {
        return 0;
    }
    // Of raisers that are as frequent as the last one with room, so many have room as were counted.
    by_count.truncate(kept);
    let least = by_count.last().map_or(u64::MAX, |&(Reverse(count), _)| count);
    let mut as_frequent = by_count.iter().filter(|&&(Reverse(count), _)| count == least).count();
    let mut stays = |raiser: &Raiser| {
        let is_last = raiser.count == least && as_frequent > 0;
        as_frequent -= usize::from(is_last);
        raiser.count > least || is_last
    };
    report.interrupts.iter_mut().map(|interrupt| merge(interrupt, &mut stays)).sum()
}

/// Room for the rows that may come to stand for raisers of an interrupt: one for each certainty and for each of the names, which
/// are no longer than the longest that are there.
fn sums_bytes(interrupt: &Interrupt) -> usize {
    let nameless = interrupt.raisers.len().min(3) * raiser_bytes(&other(Certainty::Certain, 0));
    let mut named: Vec<usize> = interrupt.raisers.iter().map(one_name_bytes).collect();
    named.sort_unstable_by_key(|&bytes| Reverse(bytes));
    nameless + named.iter().take(NAMES_AND_CALLS + NAMES).sum::<usize>()
}

/// What a raiser takes as the sum of those of its name.
fn one_name_bytes(raiser: &Raiser) -> usize {
    let Raiser { certainty, comm, syscall, pid, .. } = raiser;
    let function = OF_ONE_NAME.to_owned();
    raiser_bytes(&Raiser { comm: comm.clone(), syscall: syscall.clone(), pid: *pid, function, ..other(*certainty, 0) })
}

/// How many come first of which the sizes fit.
fn fitting(sizes: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut used = 0usize;
    sizes
        .take_while(|size| {
            used = used.saturating_add(*size);
            used <= room
        })
        .count()
}

/// Shortens the lists that exceed their share. Half of the room is for raisers and their stacks, a quarter for interrupts;
/// these also have what raisers leave of their half.
fn cut_lists(report: &mut WhoReport, bytes: usize) -> Vec<String> {
    let for_raisers = raisers_bytes(report).min(bytes / 2);
    let total_ns = sum_ns(report);
    let row_bytes = |interrupt: &Interrupt| interrupt_bytes(interrupt) + sums_bytes(interrupt);
    let rows = keep_most(&mut report.interrupts, bytes / 4 * 3 - for_raisers, row_bytes, |row| row.total_ns);
    let rows_ns = total_ns.saturating_sub(sum_ns(report));
    let gaps = keep_most(&mut report.loop_gaps, bytes / 8, loop_gap_bytes, |gap| gap.duration_ns);
    let loops = keep_most(&mut report.loops, bytes / 32, loop_bytes, |summary| summary.total_ns);
    let notices = keep_most(&mut report.notices, bytes / 32, notice_bytes, |_| 0);
    let sentences = keep_most(&mut report.missing, bytes / 32, |text| text_bytes(text), |_| 0);
    let mut said = Vec::new();
    if rows > 0 {
        said.push(format!(
            "{rows} kinds of interrupt, the cheapest, {rows_ns} ns together, are left out for lack of room"
        ));
    }
    for (count, what) in [
        (gaps, "gaps of polling loops, the shortest,"),
        (loops, "polling loops"),
        (notices, "notices about the watch"),
        (sentences, "sentences about what is missing"),
    ] {
        if count > 0 {
            said.push(format!("{count} {what} are left out for lack of room"));
        }
    }
    said
}

fn sum_ns(report: &WhoReport) -> u64 {
    report.interrupts.iter().fold(0, |sum, interrupt| sum.saturating_add(interrupt.total_ns))
}

/// Keeps those of a list that weigh most and fit, of equals the first ones, in their order; returns how many went.
fn keep_most<T>(
    list: &mut Vec<T>,
    room: usize,
    bytes_of: impl Fn(&T) -> usize,
    weight_of: impl Fn(&T) -> u64,
) -> usize {
    let mut heaviest: Vec<usize> = (0..list.len()).collect();
    heaviest.sort_by_key(|&at| Reverse(weight_of(&list[at])));
    let kept = fitting(heaviest.iter().map(|&at| bytes_of(&list[at])), room);
    let mut stays = vec![false; list.len()];
    heaviest[..kept].iter().for_each(|&at| stays[at] = true);
    let gone = list.len() - kept;
    let mut stays = stays.into_iter();
    list.retain(|_| stays.next().unwrap_or(false));
    gone
}

#[cfg(test)]
mod tests;
