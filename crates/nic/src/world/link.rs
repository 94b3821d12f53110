//! The link between two interfaces: it delivers to the node that a packet names, and may be told to do worse.

use crate::device::Packet;
use surefoot_random::Random;

/// What the link does to packets, each with so many in 65,536.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// Lost.
    pub lost: u16,
    /// Delivered twice.
    pub doubled: u16,
    /// Delivered after the next one.
    pub late: u16,
    /// A bit of it is another one.
    pub damaged: u16,
}

/// What the link did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Packets that came to it.
    pub packet_count: u64,
    /// Lost on purpose.
    pub lost_count: u64,
    /// Doubled on purpose.
    pub doubled_count: u64,
    /// Delayed on purpose.
    pub late_count: u64,
    /// Damaged on purpose.
    pub damaged_count: u64,
    /// For a node that there is not.
    pub astray_count: u64,
}

/// How much later a late packet arrives: after some that were sent behind it.
const LATE_NS: u64 = 100_000;

/// Keeps the link's stream apart from the storm's. Not [`Random::numbered`], because campaigns are recorded with their seeds.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone)]
pub(super) struct Link {
    faults: LinkFaults,
    random: Random,
    carried: Vec<(usize, u64, Packet)>,
    pub counts: LinkCounts,
}

impl PartialEq for Link {
    /// The counts decide nothing.
    fn eq(&self, other: &Link) -> bool {
        self.random == other.random && self.carried == other.carried
    }
}

impl Link {
    pub fn new(faults: LinkFaults, seed: u64) -> Self {
        Link { faults, random: Random::new(seed ^ SALT), carried: Vec::new(), counts: LinkCounts::default() }
    }

    /// Takes a packet that left an interface.
    pub fn carry(&mut self, mut packet: Packet) {
        self.counts.packet_count += 1;
        // HEADER_ROUTE: the destination is in its highest byte.
        let to = usize::from(packet.bytes.get(7).copied().unwrap_or(u8::MAX));
        if to > 1 {
            self.counts.astray_count += 1;
            return;
        }
        if self.chance(self.faults.lost) {
            self.counts.lost_count += 1;
            return;
        }
        if self.chance(self.faults.damaged) {
            self.counts.damaged_count += 1;
            let bit = self.random.word() as usize % (packet.bytes.len() * 8);
            packet.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let mut at_ns = packet.at_ns;
        if self.chance(self.faults.late) {
            self.counts.late_count += 1;
            at_ns += LATE_NS;
        }
        if self.chance(self.faults.doubled) {
            self.counts.doubled_count += 1;
            self.carried.push((to, at_ns + LATE_NS / 2, packet.clone()));
        }
        self.carried.push((to, at_ns, packet));
    }

    /// What the link hands over, in the order of arrival.
    pub fn due(&mut self) -> Vec<(usize, u64, Packet)> {
        if self.carried.is_empty() {
            return Vec::new();
        }
        self.carried.sort_by_key(|(_, at_ns, _)| *at_ns);
        std::mem::take(&mut self.carried)
    }

    fn chance(&mut self, in_65536: u16) -> bool {
        in_65536 != 0 && self.random.word() & 0xffff < u64::from(in_65536)
    }
}
