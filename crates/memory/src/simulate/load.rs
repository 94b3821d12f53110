//! The errors of a run: a pattern, or a trace.

use super::{Arrival, Arrivals, DURATION_MAX_NS, Path, Pattern};
use crate::Error;

const HOUR_NS: u64 = 3_600_000_000_000;

/// The errors that arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// Drawn at random.
    Pattern(Pattern),
    /// As they were recorded.
    Trace {
        /// Where they are from, for messages.
        name: String,
        /// The errors, in the order of time.
        arrivals: Vec<Arrival>,
    },
}

impl Load {
    /// Completes a path by a duration and a number of counters. Without a duration it is an hour, or up to the last error of the trace;
    /// without counters there is one, or those that the trace names. Returns the number of errors of the trace that come after the
    /// duration and are left out.
    ///
    /// # Errors
    /// [`Error::Option`] where the trace is too long, or names more counters.
    pub fn complete(&mut self, path: &mut Path, duration_ns: Option<u64>, banks: Option<u32>) -> Result<usize, Error> {
        let Load::Trace { name, arrivals } = self else {
            path.duration_ns = duration_ns.unwrap_or(HOUR_NS);
            path.banks = banks.unwrap_or(1);
            return Ok(0);
        };
        let no = |option, why| Err(Error::Option { option, why });
        let last_ns = arrivals.last().map_or(0, |last| last.at_ns);
        path.duration_ns = duration_ns.unwrap_or(last_ns.saturating_add(1));
        if path.duration_ns > DURATION_MAX_NS {
            return no(
                "--errors",
                format!(
                    "{name}: its last error comes after more than ten years; its times count from the beginning of the run, so take the \
                     first one off each, or name a --duration"
                ),
            );
        }
        let before = arrivals.len();
        arrivals.retain(|arrival| arrival.at_ns < path.duration_ns);
        let named = arrivals.iter().map(|arrival| arrival.bank + 1).max().unwrap_or(1);
        path.banks = banks.unwrap_or(named);
        if path.banks < named {
            return no(
                "--banks",
                format!("{} counters, but the trace names counter {}; leave the option out", path.banks, named - 1),
            );
        }
        Ok(before - arrivals.len())
    }

    /// The errors of the first host.
    pub fn arrivals(&self, path: &Path, seed: u64) -> Box<dyn Iterator<Item = Arrival> + '_> {
        match self {
            Load::Pattern(pattern) => Box::new(Arrivals::new(pattern, path, seed, 0)),
            Load::Trace { arrivals, .. } => Box::new(arrivals.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn trace(at_s: &[u64]) -> Load {
        let arrival = |&at_s: &u64| Arrival { at_ns: at_s * 1_000_000_000, bank: 2, count: 1 };
        Load::Trace { name: "t".into(), arrivals: at_s.iter().map(arrival).collect() }
    }

    #[test]
    fn a_trace_says_how_long_it_is_and_which_counters_it_needs() {
        let complete = |at_s: &[u64], duration_ns, banks| {
            let (mut path, mut load) = (Path::example(), trace(at_s));
            let left_out = load.complete(&mut path, duration_ns, banks).map_err(|error| error.to_string());
            left_out.map(|left_out| (path.duration_ns, path.banks, left_out, load.arrivals(&path, 1).count()))
        };
        assert_eq!(complete(&[1, 5], None, None), Ok((5_000_000_001, 3, 0, 2)));
        assert_eq!(complete(&[1, 5], Some(2_000_000_000), Some(8)), Ok((2_000_000_000, 8, 1, 1)));
        assert!(
            complete(&[1], None, Some(2))
                .unwrap_err()
                .starts_with("--banks: 2 counters, but the trace names counter 2")
        );
        assert!(complete(&[400_000_000], None, None).unwrap_err().starts_with("--errors: t: its last error"));
        let mut path = Path::example();
        let mut steady = Load::Pattern(Pattern::Steady { per_s: 1.0 });
        assert_eq!(steady.complete(&mut path, None, None).unwrap(), 0);
        assert_eq!((path.duration_ns, path.banks), (HOUR_NS, 1));
    }
}
