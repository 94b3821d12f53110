//! The lines of `surefoot-bench nic`.

use serde::Serialize;

/// How values of the rounds spread.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
    pub round_count: u64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (minimum, maximum) = (*values.first()?, *values.last()?);
        let upper = values[values.len() / 2];
        let median = f64::midpoint(values[(values.len() - 1) / 2], upper);
        Some(Spread { median, minimum, maximum, round_count: values.len() as u64 })
    }

    /// Of a figure that is the same at each run.
    pub fn exact(value: f64) -> Self {
        Spread { median: value, minimum: value, maximum: value, round_count: 1 }
    }
}

/// One line.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BenchLine {
    /// Messages of one length, by one way.
    Figure {
        /// `virtual` or `wall`.
        clock: &'static str,
        /// `gm`, `fdgm`, `ftgm`, `ftgm_verified`; by the clock also `udp_loopback` and `veth_packets`.
        stack: &'static str,
        message_bytes: u32,
        half_round_trip_ns: Spread,
        /// The medians' share of GM's by the same clock.
        half_round_trip_share: Option<f64>,
        bytes_per_s: Spread,
        bytes_per_s_share: Option<f64>,
        /// Of both interfaces, for a message one way; in virtual time.
        instructions_per_message: Option<f64>,
        /// Processor time of the library for a message; by the clock.
        host_send_ns: Option<Spread>,
        host_receive_ns: Option<Spread>,
    },
    /// What is left beside a self-test, in virtual time.
    SelfTest {
        stack: &'static str,
        message_bytes: u32,
        /// `null` for a test before the first request and none after.
        interval_ns: Option<u64>,
        span_ns: u64,
        bytes_per_s: f64,
        /// Of what is left without a test.
        bytes_per_s_share: f64,
        half_round_trip_ns: f64,
        half_round_trip_share: f64,
    },
    /// What could not be measured here.
    NotRun { what: &'static str, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(
            Spread::of(vec![4.0, 1.0, 2.0, 8.0]),
            Some(Spread { median: 3.0, minimum: 1.0, maximum: 8.0, round_count: 4 })
        );
        assert_eq!(Spread::of(vec![2.0, 9.0, 1.0]).map(|of| of.median), Some(2.0));
    }
}
