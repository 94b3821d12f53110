//! Work that no kept tool measures: connections, processes, a pipe's bandwidth, and requests with a deadline.
//!
//! Each does its work for some seconds, and returns numbers. Times are of each piece of work; a quantile is the value that so
//! many pieces do not exceed.

mod connect;
mod deadline;
mod pipe;
mod process;

pub use connect::connect;
pub use deadline::{Deadline, Service, deadline};
pub use pipe::pipe;
pub use process::process;

use crate::Fault;
use std::time::Duration;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// What pieces of work took that were done one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How many there were.
    pub count: u64,
    /// A second.
    pub per_s: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Pace {
    fn of(mut times_ns: Vec<u64>, all_ns: u64) -> Pace {
        times_ns.sort_unstable();
        let part = |percent| quantile(&times_ns, percent) as f64 / 1e3;
        Pace {
            count: times_ns.len() as u64,
            per_s: times_ns.len() as f64 / (all_ns.max(1) as f64 / 1e9),
            p50_us: part(50.0),
            p99_us: part(99.0),
            max_us: part(100.0),
        }
    }
}

/// Of values in ascending order; 0 of none.
fn quantile(sorted: &[u64], percent: f64) -> u64 {
    let place = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(0)
}

/// Ties this thread to a core, if one is named.
fn tie(core: Option<CpuId>) -> Result<(), Fault> {
    core.map_or(Ok(()), |cpu| thread::pin_to(cpu).map_err(Fault::from))
}

fn words(what: &str, error: std::io::Error) -> Fault {
    Fault::Start(format!("{what}: {error}"))
}

/// Does a piece of work again and again for so long, or so often.
fn again(length: Duration, most: usize, mut once: impl FnMut() -> Result<(), Fault>) -> Result<Pace, Fault> {
    let mut times_ns = Vec::new();
    let began_ns = surefoot_hostfs::clock::monotonic_ns();
    let end_ns = began_ns + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut now_ns = began_ns;
    while now_ns < end_ns && times_ns.len() < most {
        once()?;
        let next_ns = surefoot_hostfs::clock::monotonic_ns();
        times_ns.push(next_ns - now_ns);
        now_ns = next_ns;
    }
    Ok(Pace::of(times_ns, now_ns - began_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!([0.1, 50.0, 99.0, 99.9, 100.0].map(|part| quantile(&values, part)), [1, 100, 198, 200, 200]);
        assert_eq!(quantile(&[], 50.0), 0);
    }

    #[test]
    fn each_kind_of_work_is_done_and_counted() {
        let short = Duration::from_millis(60);
        for pace in [connect(short, [None, None]).unwrap(), process(short).unwrap()] {
            assert!(pace.count > 0 && pace.per_s > 0.0 && pace.p50_us <= pace.p99_us, "{pace:?}");
            assert!(pace.p99_us <= pace.max_us, "{pace:?}");
        }
        assert!(pipe(short, [None, None]).unwrap() > 0.0);
    }

    #[test]
    fn every_request_is_on_time_or_late_and_none_is_forgotten() {
        let service = Service { per_s: 200, deadline: Duration::from_secs(20), work: Duration::from_micros(20) };
        let all = deadline(&service, Duration::from_millis(200), [None, None]).unwrap();
        assert_eq!((all.offered, all.on_time), (40, 40), "{all:?}");
        // Nobody can answer within no time.
        let hopeless = Service { deadline: Duration::ZERO, ..service };
        let none = deadline(&hopeless, Duration::from_millis(100), [None, None]).unwrap();
        assert_eq!((none.offered, none.on_time, none.share()), (20, 0, 0.0), "{none:?}");
    }
}
