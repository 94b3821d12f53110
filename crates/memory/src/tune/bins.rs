//! Errors by second and counter: what polls at whole seconds find, without going over each error again.

use crate::Error;
use crate::simulate::{Arrival, Outcome, Path, Stalls};

/// More bins than this do not fit: a month of one busy counter is 2.7 million.
pub const BINS_MAX: usize = 30_000_000;

/// Errors of one counter in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bin {
    tick: u32,
    bank: u32,
    count: u64,
}

/// All errors of a run.
#[derive(Debug, Clone)]
pub struct Bins {
    tick_ns: u64,
    /// By tick; none where there are sums.
    bins: Vec<Bin>,
    /// Where errors came to one counter only, and in many of all ticks: the errors before each tick, and all of them at the end.
    sums: Vec<u64>,
    arrived: u64,
    /// Counters that errors came to.
    banks: usize,
}

/// One tick in so many has an error at least, where the errors before each tick are kept.
const TICKS_PER_BIN_MAX: usize = 4;

/// Why an interval will not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fails {
    Loss,
    Stall,
}

/// What is not allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub stall_longest_ns: u64,
    pub missed: u64,
}

impl Bins {
    /// Takes errors in the order of time; an interval is a whole number of ticks.
    ///
    /// # Errors
    /// [`Error::Option`] when there are too many.
    pub fn new(tick_ns: u64, arrivals: impl Iterator<Item = Arrival>) -> Result<Bins, Error> {
        let mut all = Bins { tick_ns, bins: Vec::new(), sums: Vec::new(), arrived: 0, banks: 0 };
        // The counters of the tick that is being filled.
        let mut counts: Vec<u64> = Vec::new();
        let mut touched: Vec<u32> = Vec::new();
        let mut now = 0;
        for arrival in arrivals {
            let tick = arrival.at_ns / tick_ns;
            if tick != now {
                all.close(now, &mut counts, &mut touched)?;
                now = tick;
            }
            let bank = arrival.bank as usize;
            if bank >= counts.len() {
                counts.resize(bank + 1, 0);
            }
            if counts[bank] == 0 {
                touched.push(arrival.bank);
            }
            counts[bank] += arrival.count;
            all.arrived += arrival.count;
        }
        all.close(now, &mut counts, &mut touched)?;
        all.banks = counts.len();
        let ticks = all.bins.last().map_or(0, |last| last.tick as usize + 1);
        if all.banks == 1 && ticks / TICKS_PER_BIN_MAX < all.bins.len() {
            all.sums = sums(&all.bins, ticks);
            all.bins = Vec::new();
        }
        Ok(all)
    }

    fn close(&mut self, tick: u64, counts: &mut [u64], touched: &mut Vec<u32>) -> Result<(), Error> {
        if self.bins.len() + touched.len() > BINS_MAX {
            let why =
                format!("more than {BINS_MAX} seconds of counters with errors; name a shorter time or fewer counters");
            return Err(Error::Option { option: "--duration", why });
        }
        let Ok(tick) = u32::try_from(tick) else {
            return Err(Error::Option { option: "--duration", why: "136 years of seconds is the longest".into() });
        };
        for bank in touched.drain(..) {
            let count = std::mem::take(&mut counts[bank as usize]);
            self.bins.push(Bin { tick, bank, count });
        }
        Ok(())
    }

    /// The step between intervals.
    pub fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// All errors.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// What polls every so many ticks come to: the same as [`crate::simulate::run`] says of such a path. Ends early where a
    /// bound is broken.
    pub(super) fn polled(&self, path: &Path, ticks: u64, bounds: Option<Bounds>) -> Result<Outcome, Fails> {
        let mut polls = Polls::begin(path, ticks * self.tick_ns, self.arrived, bounds);
        if self.sums.is_empty() {
            self.poll_bins(ticks, &mut polls)?
        } else {
            self.poll_sums(ticks, &mut polls)?
        }
        polls.finish()
    }

    /// A year has tens of millions of ticks, and each interval goes over all windows: the errors of one are the difference of two sums.
    fn poll_sums(&self, ticks: u64, polls: &mut Polls<'_>) -> Result<(), Fails> {
        let step = usize::try_from(ticks).unwrap_or(usize::MAX);
        let all = self.arrived;
        let (mut poll, mut before, mut at) = (0, 0, 0usize);
        while before < all {
            poll += 1;
            at = at.saturating_add(step);
            let now = self.sums.get(at).copied().unwrap_or(all);
            if now > before {
                polls.found(poll, [now - before].into_iter())?;
            }
            before = now;
        }
        Ok(())
    }

    fn poll_bins(&self, ticks: u64, polls: &mut Polls<'_>) -> Result<(), Fails> {
        let mut counters = vec![0u64; self.banks];
        let mut touched: Vec<u32> = Vec::new();
        let mut rest = self.bins.as_slice();
        while let Some(first) = rest.first() {
            let poll = u64::from(first.tick) / ticks + 1;
            // A comparison for each bin and no division.
            let end_tick = poll.saturating_mul(ticks);
            let end = rest.iter().position(|bin| u64::from(bin.tick) >= end_tick).unwrap_or(rest.len());
            for bin in &rest[..end] {
                if counters[bin.bank as usize] == 0 {
                    touched.push(bin.bank);
                }
                counters[bin.bank as usize] += bin.count;
            }
            rest = &rest[end..];
            polls.found(poll, touched.drain(..).map(|bank| std::mem::take(&mut counters[bank as usize])))?;
        }
        Ok(())
    }

    /// Whether polls every so many ticks keep the bounds whatever moment they begin at: the fullest window of as many
    /// ticks and one more, because a window may begin within a tick.
    pub(super) fn keeps_at_any_phase(&self, path: &Path, ticks: u64, bounds: Bounds) -> bool {
        let fails = |count: u64, records: u64| {
            let stall_ns = path.costs.poll_ns(path.cores, records);
            // A poll that takes an interval meets the next one, and both are one stall.
            let meets_next = bounds.stall_longest_ns < u64::MAX && stall_ns >= ticks * self.tick_ns;
            count > path.capacity() || meets_next || stall_ns > bounds.stall_longest_ns
        };
        let window = usize::try_from(ticks).unwrap_or(usize::MAX);
        // From the beginning of the window to behind each tick.
        let most = (1..self.sums.len())
            .map(|end| self.sums[end] - self.sums[end.saturating_sub(window.saturating_add(1))])
            .max();
        if most.is_some_and(|most| most > 0 && fails(most, 1)) {
            return false;
        }
        let mut counters = vec![0u64; self.banks];
        let (mut records, mut first) = (0u64, 0);
        for bin in &self.bins {
            while u64::from(self.bins[first].tick) + ticks < u64::from(bin.tick) {
                let counter = &mut counters[self.bins[first].bank as usize];
                *counter -= self.bins[first].count;
                records -= u64::from(*counter == 0);
                first += 1;
            }
            let counter = &mut counters[bin.bank as usize];
            records += u64::from(*counter == 0);
            *counter += bin.count;
            if fails(*counter, records) {
                return false;
            }
        }
        path.costs.empty_poll_ns(path.cores) <= bounds.stall_longest_ns
    }
}

/// The errors before each of so many ticks, and all of them at the end.
fn sums(bins: &[Bin], ticks: usize) -> Vec<u64> {
    let mut sums = Vec::with_capacity(ticks + 1);
    let mut sum = 0;
    for bin in bins {
        // Up to this tick and no further.
        sums.resize(bin.tick as usize + 1, sum);
        sum += bin.count;
    }
    sums.push(sum);
    sums
}

/// What polls come to, one after the other.
struct Polls<'a> {
    path: &'a Path,
    interval_ns: u64,
    bounds: Option<Bounds>,
    stalls: Stalls,
    outcome: Outcome,
    capacity: u64,
    empty_ns: u64,
    /// The last one that found something.
    done: u64,
}

impl<'a> Polls<'a> {
    fn begin(path: &'a Path, interval_ns: u64, arrived_count: u64, bounds: Option<Bounds>) -> Self {
        let poll_count = path.duration_ns.div_ceil(interval_ns);
        Polls {
            path,
            interval_ns,
            bounds,
            stalls: Stalls::default(),
            outcome: Outcome { arrived_count, poll_count, ..Outcome::default() },
            capacity: path.capacity(),
            empty_ns: path.costs.empty_poll_ns(path.cores),
            done: 0,
        }
    }

    /// A poll, by number from 1, finds errors in some counters; those since the last one that did found none.
    fn found(&mut self, poll: u64, counts: impl Iterator<Item = u64>) -> Result<(), Fails> {
        let mut records = 0;
        for count in counts {
            records += 1;
            self.outcome.reported_count += count.min(self.capacity);
            self.outcome.missed_count += count.saturating_sub(self.capacity);
            self.outcome.saturated_count += u64::from(count >= self.capacity);
        }
        self.outcome.report_count += records;
        self.empty_until(poll);
        let (path, interval_ns) = (self.path, self.interval_ns);
        self.stalls.add(due_ns(path, interval_ns, poll), path.costs.poll_ns(path.cores, records));
        self.done = poll;
        let Some(bounds) = self.bounds else { return Ok(()) };
        if self.outcome.missed_count > bounds.missed {
            return Err(Fails::Loss);
        }
        if self.stalls.longest_ns > bounds.stall_longest_ns {
            return Err(Fails::Stall);
        }
        Ok(())
    }

    fn empty_until(&mut self, poll: u64) {
        let (path, interval_ns) = (self.path, self.interval_ns);
        let due_ns = |poll: u64| due_ns(path, interval_ns, poll);
        empty_polls(&mut self.stalls, self.done + 1..poll, self.outcome.poll_count, self.empty_ns, due_ns);
    }

    fn finish(mut self) -> Result<Outcome, Fails> {
        self.empty_until(self.outcome.poll_count + 1);
        let (total_ns, longest_ns) = (self.stalls.total_ns, self.stalls.longest_ns);
        if self.bounds.is_some_and(|bounds| longest_ns > bounds.stall_longest_ns) {
            return Err(Fails::Stall);
        }
        Ok(Outcome { stall_total_ns: total_ns, stall_longest_ns: longest_ns, ..self.outcome })
    }
}

/// When a poll is due; the last one at the end of the run.
fn due_ns(path: &Path, interval_ns: u64, poll: u64) -> u64 {
    poll.saturating_mul(interval_ns).min(path.duration_ns)
}

/// Adds polls that find nothing: one by one as long as earlier work or the end of the run is near.
fn empty_polls(
    stalls: &mut Stalls,
    mut which: std::ops::Range<u64>,
    polls: u64,
    empty_ns: u64,
    due_ns: impl Fn(u64) -> u64,
) {
    while which.start < which.end && due_ns(which.start) <= stalls.busy_until_ns() {
        stalls.add(due_ns(which.start), empty_ns);
        which.start += 1;
    }
    let alone_end = which.end.min(polls.saturating_sub(1)).max(which.start);
    stalls.add_alone(alone_end - which.start, empty_ns);
    (alone_end..which.end).for_each(|poll| stalls.add(due_ns(poll), empty_ns));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        // Errors in most seconds, and pauses.
        let gaps = prop_oneof![8 => 0..2_u64, 1 => 2..90_u64];
        prop::collection::vec((gaps, 1..40_u64), 0..400).prop_map(|steps| {
            let mut at_s = 0;
            let arrival = |(gap, count)| {
                at_s += gap;
                Arrival { at_ns: at_s * 1_000_000_000, bank: 0, count }
            };
            steps.into_iter().map(arrival).collect()
        })
    }

    proptest! {
        /// Sums give what a look at each bin gives, whatever the interval and the bounds.
        #[test]
        fn one_counter_s_windows_are_the_differences_of_sums(
            arrivals in arrivals(),
            ticks in 1..200_u64,
            bits in 4..12_u32,
            longest_ns in prop::option::of(1..200_000_000_u64),
            missed in 0..40_u64,
        ) {
            let end_ns = arrivals.last().map_or(1, |last| last.at_ns + 1);
            let path = Path { duration_ns: end_ns, counter_bits: bits, ..Path::example() };
            let found = Bins::new(1_000_000_000, arrivals.iter().copied()).unwrap();
            // Another counter without an error changes nothing but the way.
            let idle = Arrival { at_ns: 0, bank: 1, count: 0 };
            let mut one_by_one = Bins::new(1_000_000_000, [idle].into_iter().chain(arrivals.iter().copied())).unwrap();
            one_by_one.bins.retain(|bin| bin.count > 0);
            prop_assert!(one_by_one.sums.is_empty() && found.bins.is_empty() != found.sums.is_empty() || arrivals.is_empty());
            let bounds = longest_ns.map(|stall_longest_ns| Bounds { stall_longest_ns, missed });
            prop_assert_eq!(found.polled(&path, ticks, bounds), one_by_one.polled(&path, ticks, bounds));
            let bounds = bounds.unwrap_or(Bounds { stall_longest_ns: u64::MAX, missed: 0 });
            prop_assert_eq!(
                found.keeps_at_any_phase(&path, ticks, bounds),
                one_by_one.keeps_at_any_phase(&path, ticks, bounds)
            );
        }
    }

    #[test]
    fn more_seconds_than_fit_are_refused() {
        let late = Arrival { at_ns: (1 << 32) * 1_000_000_000, bank: 0, count: 1 };
        let error = Bins::new(1_000_000_000, [late].into_iter()).unwrap_err();
        assert!(error.to_string().starts_with("--duration: 136 years"), "{error}");
    }
}
