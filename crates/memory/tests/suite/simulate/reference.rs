//! A second simulator, written to be obviously right: it takes every tick of time one by one, skips nothing, and knows
//! neither the first one's code nor its shortcuts.

use surefoot_memory::simulate::{Arrival, Mechanism, Outcome, Path};

/// Work is done in whole ticks, and the counters are read at their beginning.
pub struct Reference<'a> {
    path: &'a Path,
    tick_ns: u64,
    counters: Vec<u64>,
    outcome: Outcome,
    /// Ticks of work that still are to be done.
    work: u64,
    /// How long the work has gone on without a break.
    stretch: u64,
}

impl<'a> Reference<'a> {
    pub fn run(path: &'a Path, tick_ns: u64, arrivals: &[Arrival]) -> Outcome {
        let counters = vec![0; path.banks as usize];
        let mut one = Reference { path, tick_ns, counters, outcome: Outcome::default(), work: 0, stretch: 0 };
        match path.mechanism {
            Mechanism::Polling => one.polling(arrivals),
            _ => one.raised(arrivals),
        }
        let missed_count = one.outcome.arrived_count - one.outcome.reported_count;
        Outcome { missed_count, ..one.outcome }
    }

    fn arrive(&mut self, now: u64, arrivals: &[Arrival], queue: &mut Vec<usize>) {
        let tick_ns = self.tick_ns;
        for arrival in arrivals.iter().filter(|arrival| arrival.at_ns == now * tick_ns) {
            let bank = arrival.bank as usize;
            self.outcome.arrived_count += arrival.count;
            for _ in 0..arrival.count {
                // An error at a full counter changes nothing.
                if self.counters[bank] < self.path.capacity() {
                    self.counters[bank] += 1;
                }
            }
            if self.counters[bank] >= self.path.threshold.into() && !queue.contains(&bank) {
                queue.push(bank);
                if self.work == 0 {
                    self.serve(queue);
                }
            }
        }
    }

    fn read(&mut self, bank: usize) -> u64 {
        let count = std::mem::take(&mut self.counters[bank]);
        self.outcome.reported_count += count;
        self.outcome.report_count += u64::from(count > 0);
        self.outcome.saturated_count += u64::from(count == self.path.capacity());
        u64::from(count > 0)
    }

    fn begin(&mut self, length_ns: u64) {
        assert_eq!(length_ns % self.tick_ns, 0, "the reference works in whole ticks");
        self.work += length_ns / self.tick_ns;
        self.outcome.stall_total_ns += length_ns;
    }

    /// A tick goes by.
    fn pass(&mut self) {
        if self.work > 0 {
            self.work -= 1;
            self.stretch += 1;
            self.outcome.stall_longest_ns = self.outcome.stall_longest_ns.max(self.stretch * self.tick_ns);
        } else {
            self.stretch = 0;
        }
    }

    fn polling(&mut self, arrivals: &[Arrival]) {
        let ticks = self.path.duration_ns / self.tick_ns;
        for now in 0..=ticks {
            let is_due = now > 0 && (now * self.tick_ns).is_multiple_of(self.path.interval_ns) || now == ticks;
            if is_due {
                let records: u64 = (0..self.counters.len()).map(|bank| self.read(bank)).sum();
                self.outcome.poll_count += 1;
                self.begin(self.path.costs.poll_ns(self.path.cores, records));
            }
            self.arrive(now, arrivals, &mut (0..self.counters.len()).collect());
            self.pass();
        }
        while self.work > 0 {
            self.pass();
        }
    }

    fn serve(&mut self, queue: &mut Vec<usize>) {
        let bank = queue.remove(0);
        self.read(bank);
        let costs = &self.path.costs;
        self.begin(if self.path.mechanism == Mechanism::Smi {
            costs.smi_ns
        } else {
            costs.interrupt_ns + costs.line_ns
        });
    }

    fn raised(&mut self, arrivals: &[Arrival]) {
        let mut queue = Vec::new();
        let ticks = self.path.duration_ns / self.tick_ns;
        let mut now = 0;
        while now < ticks || self.work > 0 || !queue.is_empty() {
            if self.work == 0 && !queue.is_empty() {
                self.serve(&mut queue);
            }
            self.arrive(now, arrivals, &mut queue);
            self.pass();
            now += 1;
        }
        self.outcome.below_threshold_count = self.counters.iter().sum();
    }
}
