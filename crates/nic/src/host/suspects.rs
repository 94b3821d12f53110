//! What the libraries of this node's ports suspect, by port: how often in a row, and how often a port's suspicions may still have
//! the interface reloaded.
//!
//! An application can bring suspicions about by what it does: it sends where nobody receives, or writes over what it has just
//! sent. Neither is a failure of the interface, and each reload tells all other applications that their memory is suspect. So
//! what a library takes back does not count, and each port has an allowance.

use super::layout::*;
use super::memory::{HostMemory, port_word};
use std::sync::atomic::Ordering;

/// How often something may be done: so often at once, and once more each time that so long has gone by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// At once.
    pub burst: u32,
    /// Then once in this time.
    pub every_ns: u64,
}

impl Allowance {
    /// As often as it likes.
    pub const UNLIMITED: Allowance = Allowance { burst: u32::MAX, every_ns: 0 };
}

/// What was taken of an allowance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Taken {
    count: u32,
    since_ns: u64,
}

impl Taken {
    /// Takes one, if there is one left.
    fn take(&mut self, of: Allowance, now_ns: u64) -> bool {
        if of == Allowance::UNLIMITED {
            return true;
        }
        let back = (now_ns.saturating_sub(self.since_ns) / of.every_ns.max(1)).min(u64::from(self.count));
        self.count -= back as u32;
        self.since_ns += back * of.every_ns;
        if self.count == 0 {
            self.since_ns = now_ns;
        }
        if self.count >= of.burst {
            return false;
        }
        self.count += 1;
        true
    }
}

/// The suspicions of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Suspect {
    /// Counts of its library that were looked at.
    seen: u32,
    withdrawn: u32,
    /// Self-tests in a row that its suspicions began, and that passed.
    in_a_row: u32,
    /// Ports of other nodes from which it hears nothing, a byte per node.
    silent: [u8; NODES],
    reloads: Taken,
}

/// The suspicions of all ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    of_port: [Suspect; PORTS],
    of_neighbours: Taken,
}

impl Suspects {
    /// The ports, a bit each, that suspect something since it was counted last.
    pub fn look(&mut self, memory: &HostMemory, open: impl Iterator<Item = usize>) -> u8 {
        let word = |port, word| memory.word(port_word(port, word)).load(Ordering::Acquire);
        let mut suspicious = 0;
        for port in open {
            let one = &mut self.of_port[port];
            let withdrawn = word(port, port_word::WITHDRAWN);
            if withdrawn != one.withdrawn {
                (one.withdrawn, one.in_a_row) = (withdrawn, 0);
            }
            // Nothing yet, from whoever has it now.
            let suspicions = word(port, port_word::SUSPICIONS);
            if suspicions == 0 {
                one.seen = 0;
            }
            suspicious |= u8::from(suspicions != one.seen) << port;
        }
        suspicious
    }

    /// Counts them: a self-test of what they suspect begins.
    pub fn count(&mut self, memory: &HostMemory, suspicious: impl Iterator<Item = usize>) {
        for port in suspicious {
            let one = &mut self.of_port[port];
            one.seen = memory.word(port_word(port, port_word::SUSPICIONS)).load(Ordering::Acquire);
            one.in_a_row = one.in_a_row.saturating_add(1);
        }
    }

    /// The library of a port hears nothing from these, a byte per node.
    pub fn name(&mut self, port: usize, silent: [u8; NODES]) {
        for (known, silent) in self.of_port[port].silent.iter_mut().zip(silent) {
            *known |= silent;
        }
    }

    /// The daemon of a node says that the programs of these ports there are behind. Who hears nothing from those alone begins to count anew.
    pub fn excuse(&mut self, node: usize, behind: u8) {
        for one in &mut self.of_port {
            if one.silent[node] & behind != 0 {
                one.silent[node] &= !behind;
                if one.silent == [0; NODES] {
                    one.in_a_row = 0;
                }
            }
        }
    }

    /// Whether the interface is to be reloaded although no self-test finds anything. It takes from the allowance of each port that
    /// has suspected so often; those that have none left begin to count anew.
    pub fn take_reload(&mut self, in_a_row_max: u32, allowance: Allowance, now_ns: u64) -> bool {
        let mut is_due = false;
        for one in self.of_port.iter_mut().filter(|one| one.in_a_row > in_a_row_max) {
            is_due |= one.reloads.take(allowance, now_ns);
            (one.in_a_row, one.silent) = (0, [0; NODES]);
        }
        is_due
    }

    /// The same of what daemons of other nodes say.
    pub fn take_neighbours_reload(&mut self, allowance: Allowance, now_ns: u64) -> bool {
        self.of_neighbours.take(allowance, now_ns)
    }

    /// The interface is another one now, of which nothing is suspected yet.
    pub fn forget(&mut self) {
        self.of_port.iter_mut().for_each(|one| (one.in_a_row, one.silent) = (0, [0; NODES]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(memory: &HostMemory, port: usize) {
        memory.word(port_word(port, port_word::SUSPICIONS)).fetch_add(1, Ordering::Release);
    }

    /// Suspects and looks once; whether that has the interface reloaded.
    fn round(suspects: &mut Suspects, memory: &HostMemory, port: usize, allowance: Allowance, now_ns: u64) -> bool {
        suspect(memory, port);
        assert_eq!(suspects.look(memory, 0..PORTS), 1 << port);
        suspects.count(memory, std::iter::once(port));
        suspects.take_reload(3, allowance, now_ns)
    }

    #[test]
    fn a_port_that_suspects_often_enough_has_the_interface_reloaded_and_what_is_taken_back_does_not_count() {
        let memory = HostMemory::private(0, 0).unwrap();
        let mut suspects = Suspects::default();
        let round = |suspects: &mut Suspects, port| round(suspects, &memory, port, Allowance::UNLIMITED, 5);
        assert_eq!([0; 4].map(|_| round(&mut suspects, 1)), [false, false, false, true]);
        assert_eq!([1, 2, 1, 2, 1].map(|port| round(&mut suspects, port)), [false; 5], "by port");
        memory.word(port_word(1, port_word::WITHDRAWN)).fetch_add(1, Ordering::Release);
        assert_eq!([0; 4].map(|_| round(&mut suspects, 1)), [false, false, false, true], "it begins anew");
        assert_eq!([0; 2].map(|_| round(&mut suspects, 2)), [false, true], "those of another port count on");
        assert_eq!([0; 3].map(|_| round(&mut suspects, 1)), [false; 3]);
        suspects.forget();
        assert_eq!([0; 3].map(|_| round(&mut suspects, 1)), [false; 3], "nothing is held against the next interface");
        assert_eq!(suspects.look(&memory, 0..PORTS), 0);
    }

    #[test]
    fn one_port_alone_has_the_interface_reloaded_so_often_and_no_more() {
        const SECOND: u64 = 1_000_000_000;
        let memory = HostMemory::private(0, 0).unwrap();
        let mut suspects = Suspects::default();
        let allowance = Allowance { burst: 2, every_ns: 10 * SECOND };
        let mut reloads =
            |port, now_ns| (0..40).filter(|_| round(&mut suspects, &memory, port, allowance, now_ns)).count();
        assert_eq!(reloads(1, SECOND), 2);
        assert_eq!(reloads(1, 2 * SECOND), 0);
        assert_eq!(reloads(2, 2 * SECOND), 2, "another port has its own");
        assert_eq!(reloads(1, 12 * SECOND), 1);
        assert_eq!(reloads(1, 100 * SECOND), 2, "what is not taken is not saved up");
    }
}
