//! What one report costs, and who says so.
//!
//! A report found by a poll and one that interrupts do the same two things: the record is decoded and handed on, and where
//! `edac_mc_log_ce` is on a line is printed on the console. The line is a price of its own, so that both are told with it and without it.

/// What is done for a report, or for the look that may find one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Waking up for a poll, whatever it finds.
    PollWake,
    /// Reading the counters of one core in a poll.
    PollCore,
    /// Decoding one record that a poll found, without its line.
    PollRecord,
    /// One corrected-error interrupt, its record included, without its line.
    Interrupt,
    /// Printing the line of a record on the console.
    Line,
    /// One system management interrupt; it stops all cores.
    Smi,
}

impl Work {
    /// All, in the order in which they are shown.
    pub const ALL: [Work; 6] =
        [Work::PollWake, Work::PollCore, Work::PollRecord, Work::Interrupt, Work::Line, Work::Smi];

    /// Its name in lines and tables, one of those of [`surefoot_model::ReportingCost`] where there is one.
    pub fn name(self) -> &'static str {
        match self {
            Work::PollWake => "poll",
            Work::PollCore => "scanned_core",
            Work::PollRecord => "handled_record",
            Work::Interrupt => "corrected_error_interrupt",
            Work::Line => "logged_line",
            Work::Smi => "smi",
        }
    }

    /// Where its default comes from.
    ///
    /// ICPE'20 (Dixit et al.) gives the poll's worst case alone: 1,200 ms on one core when all cores log. How it is split
    /// is an assumption: with 36 cores, 2 ms + 36 x (0.2 ms + 33 ms) come to it. Of the 33 ms the record is taken to need what an
    /// interrupt needs for one, and its line the rest.
    pub fn source(self) -> &'static str {
        match self {
            Work::PollWake | Work::PollCore | Work::Line => {
                "literature: ICPE'20 (Dixit et al.), 1,200 ms when 36 cores log; the split is an assumption"
            }
            Work::PollRecord => {
                "assumption: as much as a corrected-error interrupt takes for its record, without a line"
            }
            Work::Interrupt => {
                "literature, unverified: Gottscho et al., CAL 2016, as later work quotes it; without a line"
            }
            Work::Smi => "literature, unverified: Gottscho et al., CAL 2016; ICPE'20 says hundreds of ms",
        }
    }
}

/// Time of one core for each kind of work, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// [`Work::PollWake`].
    pub poll_wake_ns: u64,
    /// [`Work::PollCore`].
    pub poll_core_ns: u64,
    /// [`Work::PollRecord`].
    pub poll_record_ns: u64,
    /// [`Work::Interrupt`].
    pub interrupt_ns: u64,
    /// [`Work::Line`]; 0 where nothing is printed.
    pub line_ns: u64,
    /// [`Work::Smi`].
    pub smi_ns: u64,
}

impl Costs {
    /// The stated defaults; [`Work::source`] says whose they are.
    pub const LITERATURE: Costs = Costs {
        poll_wake_ns: 2_000_000,
        poll_core_ns: 200_000,
        poll_record_ns: 775_000,
        interrupt_ns: 775_000,
        line_ns: 32_225_000,
        smi_ns: 133_000_000,
    };

    /// The cost of one piece of work.
    pub fn of(&self, work: Work) -> u64 {
        match work {
            Work::PollWake => self.poll_wake_ns,
            Work::PollCore => self.poll_core_ns,
            Work::PollRecord => self.poll_record_ns,
            Work::Interrupt => self.interrupt_ns,
            Work::Line => self.line_ns,
            Work::Smi => self.smi_ns,
        }
    }

    /// A record that a poll finds, with its line.
    pub fn record_ns(&self) -> u64 {
        self.poll_record_ns.saturating_add(self.line_ns)
    }

    /// A corrected-error interrupt, with the line of its record.
    pub fn interrupt_with_line_ns(&self) -> u64 {
        self.interrupt_ns.saturating_add(self.line_ns)
    }

    /// A poll that finds nothing.
    pub fn empty_poll_ns(&self, cores: u32) -> u64 {
        self.poll_wake_ns.saturating_add(self.poll_core_ns.saturating_mul(u64::from(cores)))
    }

    /// A poll that finds `records`.
    pub fn poll_ns(&self, cores: u32, records: u64) -> u64 {
        self.empty_poll_ns(cores).saturating_add(self.record_ns().saturating_mul(records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_come_to_the_paper_s_worst_case() {
        assert_eq!(Costs::LITERATURE.poll_ns(36, 36), 1_197_200_000);
    }

    /// Who compares polls with interrupts compares like with like: both with the line, or both without.
    #[test]
    fn a_record_costs_the_same_however_it_was_found() {
        let with = Costs::LITERATURE;
        let without = Costs { line_ns: 0, ..with };
        assert_eq!(with.record_ns(), with.interrupt_with_line_ns());
        assert_eq!(without.record_ns(), without.interrupt_with_line_ns());
        assert_eq!(with.record_ns() - without.record_ns(), with.line_ns);
    }
}
