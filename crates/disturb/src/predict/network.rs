//! What a message costs: LogGP (Alexandrov et al., SPAA '95) with an overhead per byte, so LogGOPS (Hoefler et al., HPDC
//! '10) without S: every message is eager, a rendezvous is not modelled.

use super::progress::Progress;

/// The costs of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// L: from the end of the sending to the beginning of the arrival.
    pub latency_ns: u64,
    /// o: the core's time for sending, and again for receiving.
    pub overhead_ns: u64,
    /// g: the least time between the starts of two messages of one rank.
    pub gap_ns: u64,
    /// G: the wire's time for each byte but the first.
    pub gap_per_byte_ps: u64,
    /// O: the core's time for each byte but the first.
    pub overhead_per_byte_ps: u64,
    /// Who moves the bytes while a node stops.
    pub progress: Progress,
}

impl Default for Network {
    /// An Ethernet of today with kernel sockets: 5 us of latency, 1 us of the core for each end, 10 Gb/s.
    fn default() -> Self {
        Network {
            latency_ns: 5_000,
            overhead_ns: 1_000,
            gap_ns: 1_000,
            gap_per_byte_ps: 800,
            overhead_per_byte_ps: 0,
            progress: Progress::Nic,
        }
    }
}

/// What messages of one size cost, in whole nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// The core's time at each end.
    pub(super) overhead_ns: u64,
    /// From the moment that it may leave to its arrival.
    pub(super) flight_ns: u64,
    /// From the moment that it may leave to that at which the next one may.
    pub(super) busy_ns: u64,
    /// What of both is for its bytes.
    pub(super) wire_ns: u64,
    /// L.
    pub(super) latency_ns: u64,
    /// g.
    pub(super) gap_ns: u64,
}

impl Network {
    pub(super) fn message(&self, bytes: u64) -> Message {
        let of_bytes = |per_byte_ps: u64| {
            u64::try_from(u128::from(per_byte_ps) * u128::from(bytes.saturating_sub(1)) / 1_000).unwrap_or(u64::MAX)
        };
        let wire_ns = of_bytes(self.gap_per_byte_ps);
        Message {
            overhead_ns: self.overhead_ns.saturating_add(of_bytes(self.overhead_per_byte_ps)),
            flight_ns: self.latency_ns.saturating_add(wire_ns),
            busy_ns: self.gap_ns.max(wire_ns),
            wire_ns,
            latency_ns: self.latency_ns,
            gap_ns: self.gap_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_costs_what_the_model_says() {
        let network = Network { overhead_per_byte_ps: 100, ..Network::default() };
        let message = network.message(10_001);
        // o + (s - 1)O, L + (s - 1)G, and (s - 1)G where that is more than g.
        assert_eq!((message.overhead_ns, message.flight_ns, message.busy_ns), (2_000, 13_000, 8_000));
        let empty = network.message(0);
        assert_eq!((empty.overhead_ns, empty.flight_ns, empty.busy_ns), (1_000, 5_000, 1_000));
        // No size is too large to be reckoned with.
        assert!(network.message(u64::MAX).flight_ns > u64::MAX / 10 * 7);
    }
}
