//! Requests with a deadline on a core that reports stall: how many are answered in time.
//!
//! They arrive as a Poisson process, each takes the same work, one is served at a time in the order of arrival: M/D/1, on
//! a server that stands still during stalls.

use super::{Span, Stream};

/// A service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Requests per second.
    pub requests_per_s: f64,
    /// The work of one.
    pub work_ns: u64,
    /// From arrival to answer, at most.
    pub deadline_ns: u64,
}

/// How many requests were answered in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// All.
    pub requests: u64,
    /// Those in time.
    pub in_time: u64,
}

impl Answered {
    /// The share in time, 1 where nobody asked.
    pub fn efficiency(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.in_time as f64 / self.requests as f64 }
    }
}

impl Service {
    /// Serves requests for a time on a core with these stalls, which are in order and apart. What is late is served all
    /// the same, and makes others late.
    pub fn run(&self, spans: &[Span], duration_ns: u64, mut stream: Stream) -> Answered {
        let mut answered = Answered::default();
        let gap_ns = 1e9 / self.requests_per_s;
        let (mut at_ns, mut free_ns, mut next) = (0.0f64, 0u64, 0usize);
        loop {
            at_ns += stream.exponential(gap_ns);
            // An infinite gap ends here as well.
            if at_ns.is_nan() || at_ns >= duration_ns as f64 {
                return answered;
            }
            let arrival_ns = at_ns as u64;
            let mut now_ns = free_ns.max(arrival_ns);
            let mut left_ns = self.work_ns;
            while let Some(span) = spans.get(next) {
                if span.start_ns >= now_ns.saturating_add(left_ns) {
                    break;
                }
                left_ns -= span.start_ns.saturating_sub(now_ns).min(left_ns);
                now_ns = now_ns.max(span.end_ns);
                next += 1;
            }
            free_ns = now_ns.saturating_add(left_ns);
            answered.requests += 1;
            answered.in_time += u64::from(free_ns - arrival_ns <= self.deadline_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    #[test]
    fn without_stalls_it_is_m_d_1() {
        for load in [0.1, 0.5, 0.9] {
            let service = Service { requests_per_s: load / 0.01, work_ns: 10 * MS, deadline_ns: 10 * MS };
            let found = service.run(&[], 10 * HOUR, Stream::numbered(1, 1));
            // A request that finds nobody waits for nobody: the share 1 - load.
            assert!((found.efficiency() - (1.0 - load)).abs() < 0.01, "{load} {}", found.efficiency());
        }
    }

    #[test]
    fn at_light_load_those_are_late_that_meet_the_beginning_of_a_long_stall() {
        let spans: Vec<Span> =
            (0..3600).map(|s| Span { start_ns: s * 1000 * MS, end_ns: (s * 1000 + 300) * MS }).collect();
        let service = Service { requests_per_s: 2.0, work_ns: MS, deadline_ns: 101 * MS };
        let found = service.run(&spans, HOUR, Stream::numbered(1, 1));
        // Of each second, the first 200 ms of the stall and the millisecond before it that the work does not end in.
        let expected = 1.0 - 0.201;
        let error = 4.0 * (expected * (1.0 - expected) / 7200f64).sqrt() + 0.002;
        assert!((found.efficiency() - expected).abs() < error, "{}", found.efficiency());
        let standing = [Span { start_ns: 0, end_ns: 2 * HOUR }];
        assert_eq!(service.run(&standing, HOUR, Stream::numbered(1, 1)).in_time, 0);
    }
}
