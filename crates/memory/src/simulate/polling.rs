//! Polling: all counters are read every interval, and once more at the end of the run.

use super::{Arrival, Outcome, Path, Stalls};

/// A poll reads what came before its moment. Reads keep to the schedule; the work of a poll that is due while the one
/// before still logs is done behind it.
///
/// Only polls that find something cost time here: those between two errors are counted, not visited.
pub(super) fn run(path: &Path, arrivals: impl Iterator<Item = Arrival>, stalls: &mut Stalls) -> Outcome {
    let mut polls = Polls::new(path, stalls);
    for arrival in arrivals {
        let poll = (arrival.at_ns / path.interval_ns + 1).min(polls.count);
        if poll != polls.filling {
            polls.read();
            polls.skip_to(poll);
        }
        polls.take(arrival);
    }
    polls.read();
    polls.skip_to(polls.count + 1);
    polls.outcome
}

struct Polls<'a> {
    path: &'a Path,
    stalls: &'a mut Stalls,
    outcome: Outcome,
    capacity: u64,
    empty_ns: u64,
    /// The polls of the run, the one at its end included.
    count: u64,
    /// The poll that reads what comes now, from 1; those before it are done.
    filling: u64,
    counters: Vec<u64>,
    /// Counters that are not 0.
    touched: Vec<u32>,
}

impl<'a> Polls<'a> {
    fn new(path: &'a Path, stalls: &'a mut Stalls) -> Self {
        Polls {
            path,
            stalls,
            outcome: Outcome::default(),
            capacity: path.capacity(),
            empty_ns: path.costs.empty_poll_ns(path.cores),
            count: path.duration_ns.div_ceil(path.interval_ns),
            filling: 1,
            counters: vec![0; path.banks as usize],
            touched: Vec::new(),
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let counter = &mut self.counters[arrival.bank as usize];
        if *counter == 0 {
            self.touched.push(arrival.bank);
        }
        self.outcome.arrived_count += arrival.count;
        let room = self.capacity - *counter;
        let counted = arrival.count.min(room);
        *counter += counted;
        self.outcome.missed_count += arrival.count - counted;
    }

    /// Does the poll that was being filled, if there was anything in it.
    fn read(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let records = self.touched.len() as u64;
        for bank in self.touched.drain(..) {
            let count = std::mem::take(&mut self.counters[bank as usize]);
            self.outcome.reported_count += count;
            self.outcome.saturated_count += u64::from(count == self.capacity);
        }
        self.outcome.report_count += records;
        self.one(self.empty_ns.saturating_add(self.path.costs.record_ns().saturating_mul(records)));
    }

    /// Does the empty polls before `poll`.
    fn skip_to(&mut self, poll: u64) {
        while self.filling < poll {
            // The last one may follow the one before it at once, so that both are visited.
            let is_visited = self.stalls.keeps_spans()
                || self.filling + 1 >= self.count
                || self.due_ns() <= self.stalls.busy_until_ns();
            if is_visited {
                self.one(self.empty_ns);
            } else {
                let alone = poll.min(self.count - 1) - self.filling;
                self.stalls.add_alone(alone, self.empty_ns);
                self.outcome.poll_count += alone;
                self.filling += alone;
            }
        }
    }

    fn due_ns(&self) -> u64 {
        self.filling.saturating_mul(self.path.interval_ns).min(self.path.duration_ns)
    }

    fn one(&mut self, length_ns: u64) {
        self.stalls.add(self.due_ns(), length_ns);
        self.outcome.poll_count += 1;
        self.filling += 1;
    }
}
