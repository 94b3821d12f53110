//! A clock that stands still while its owner does.
//!
//! Who waits for an answer by the clock of the machine takes a host that was frozen for one that was asked and kept silent: all its
//! deadlines are over when it wakes. By this one they are not, because it goes on by no more than its owner meant to take.

/// What is lost at once beyond this is a stop of its owner, and no lateness of a sleep.
const STOP_NS: u64 = 5_000_000;

/// The clock of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnClock {
    own_ns: u64,
    real_ns: u64,
}

impl OwnClock {
    /// One that begins with the machine's.
    pub fn new(real_ns: u64) -> Self {
        OwnClock { own_ns: real_ns, real_ns }
    }

    /// Goes on, by so much at most, from the last time to this one of the machine's clock. Whether the owner was stopped meanwhile.
    pub fn go_on(&mut self, real_ns: u64, most_ns: u64) -> bool {
        let passed_ns = real_ns.saturating_sub(self.real_ns);
        let counted_ns = passed_ns.min(most_ns);
        self.own_ns += counted_ns;
        self.real_ns = real_ns;
        passed_ns - counted_ns > STOP_NS
    }

    /// What it says.
    pub fn ns(&self) -> u64 {
        self.own_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_with_its_owner_and_stands_still_without_it() {
        let mut clock = OwnClock::new(1_000);
        assert!(!clock.go_on(1_300, 400));
        assert_eq!(clock.ns(), 1_300);
        assert!(!clock.go_on(5_000_000, 400), "a sleep that ended late");
        assert_eq!(clock.ns(), 1_700);
        assert!(clock.go_on(405_000_000, 400), "a stop");
        assert_eq!(clock.ns(), 2_100);
        assert!(!clock.go_on(404_000_000, 400), "a clock that goes back");
        assert_eq!(clock.ns(), 2_100);
    }
}
