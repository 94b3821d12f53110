//! Reports that errors raise themselves: corrected-error interrupts, and SMIs at every Nth error.

use super::storm::{POLL_NS, Storms};
use super::{Arrival, Mechanism, Outcome, Path, Stalls};
use std::collections::VecDeque;

/// A counter that comes to its threshold raises a report. The handler reads and clears it at its beginning; what comes
/// while it runs is counted, and raises the next report behind it. One handler runs at a time.
pub(super) fn run(path: &Path, arrivals: impl Iterator<Item = Arrival>, stalls: &mut Stalls) -> Outcome {
    let mut raised = Raised::new(path, stalls);
    for arrival in arrivals {
        raised.advance(arrival.at_ns);
        raised.take(arrival);
    }
    raised.finish()
}

struct Raised<'a> {
    path: &'a Path,
    stalls: &'a mut Stalls,
    outcome: Outcome,
    capacity: u64,
    each_ns: u64,
    counters: Vec<u64>,
    /// Banks whose report waits for the handler.
    waiting: VecDeque<u32>,
    is_waiting: Vec<bool>,
    storms: Storms,
    /// The next poll of a storm.
    poll_ns: Option<u64>,
}

impl<'a> Raised<'a> {
    fn new(path: &'a Path, stalls: &'a mut Stalls) -> Self {
        let is_smi = path.mechanism == Mechanism::Smi;
        let rule = if is_smi { super::StormRule::Never } else { path.storms };
        Raised {
            path,
            stalls,
            outcome: Outcome::default(),
            capacity: path.capacity(),
            each_ns: if is_smi { path.costs.smi_ns } else { path.costs.interrupt_with_line_ns() },
            counters: vec![0; path.banks as usize],
            waiting: VecDeque::new(),
            is_waiting: vec![false; path.banks as usize],
            storms: Storms::new(rule, path.banks),
            poll_ns: None,
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let bank = arrival.bank;
        let counter = &mut self.counters[bank as usize];
        self.outcome.arrived_count += arrival.count;
        let counted = arrival.count.min(self.capacity - *counter);
        *counter += counted;
        self.outcome.missed_count += arrival.count - counted;
        let threshold = match self.storms.is_stormy(bank) {
            true => self.storms.threshold(),
            false => Some(u64::from(self.path.threshold)),
        };
        let is_reached = threshold.is_some_and(|threshold| self.counters[bank as usize] >= threshold);
        if is_reached && !self.is_waiting[bank as usize] {
            self.is_waiting[bank as usize] = true;
            self.waiting.push_back(bank);
            if self.stalls.busy_until_ns() <= arrival.at_ns {
                self.handle(arrival.at_ns);
            }
        }
    }

    /// Does what happens up to a moment.
    fn advance(&mut self, to_ns: u64) {
        loop {
            let handler_ns = if self.waiting.is_empty() { u64::MAX } else { self.stalls.busy_until_ns() };
            let poll_ns = self.poll_ns.unwrap_or(u64::MAX);
            if handler_ns.min(poll_ns) > to_ns {
                return;
            }
            if handler_ns <= poll_ns { self.handle(handler_ns) } else { self.poll(poll_ns) }
        }
    }

    /// Runs the handler for the bank that has waited longest.
    fn handle(&mut self, at_ns: u64) {
        let Some(bank) = self.waiting.pop_front() else { return };
        self.is_waiting[bank as usize] = false;
        // A poll may have read it already: the handler runs and finds nothing.
        self.stalls.add(at_ns, self.each_ns);
        if self.read(bank) && self.storms.interrupt(bank, at_ns) {
            self.outcome.storm_count += 1;
            self.poll_ns = self.poll_ns.or(Some(at_ns.saturating_add(POLL_NS)));
        }
    }

    /// Reads a counter. Whether there was anything in it.
    fn read(&mut self, bank: u32) -> bool {
        let count = std::mem::take(&mut self.counters[bank as usize]);
        self.outcome.reported_count += count;
        self.outcome.report_count += u64::from(count > 0);
        self.outcome.saturated_count += u64::from(count > 0 && count == self.capacity);
        count > 0
    }

    /// One poll of a storm: it reads the banks that are in one.
    fn poll(&mut self, at_ns: u64) {
        let mut records = 0;
        for bank in 0..self.path.banks {
            if !self.storms.is_stormy(bank) {
                continue;
            }
            let found = self.read(bank);
            records += u64::from(found);
            if !self.storms.is_of_all_banks() {
                self.storms.polled(bank, found, at_ns);
            }
        }
        if self.storms.is_of_all_banks() {
            self.storms.polled(0, records > 0, at_ns);
        }
        self.outcome.poll_count += 1;
        let costs = &self.path.costs;
        self.stalls
            .add(at_ns, costs.poll_core_ns.saturating_add(costs.interrupt_with_line_ns().saturating_mul(records)));
        self.poll_ns = self.storms.is_any().then(|| at_ns.saturating_add(POLL_NS));
    }

    fn finish(mut self) -> Outcome {
        let end_ns = self.path.duration_ns;
        self.advance(end_ns);
        // What waits at the end is still handled; a storm's next poll would find what came since the last one.
        while !self.waiting.is_empty() {
            self.handle(self.stalls.busy_until_ns());
        }
        if self.poll_ns.is_some() && self.counters.iter().any(|count| *count > 0) {
            self.poll(end_ns);
        }
        self.outcome.below_threshold_count = self.counters.iter().sum();
        self.outcome.missed_count += self.outcome.below_threshold_count;
        self.outcome
    }
}
