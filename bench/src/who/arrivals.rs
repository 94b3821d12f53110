//! The trace file of `stall who`, raise by raise: whether each lies within a call that its raiser wrote down.
//!
//! The file counts its times from the start of the watch, which is known to nobody else to the microsecond. So the one
//! shift is taken under which the fewest raises lie outside of the calls: thousands of raises of several threads have
//! this one number in common.

use super::raisers::{Log, Raising};
use super::truth::Judged;
use anyhow::Context;
use serde_json::Value;
use std::collections::HashMap;

/// The functions that these threads have run elsewhere. Others, such as a wake-up, come by no call that they write down.
const FUNCTIONS: [&str; 2] = ["flush_tlb_func", "ipi_mb"];

/// The first raise of a thread is taken for each of this many of its first calls.
const FIRST_CALLS: usize = 100;

/// How finely the time within a call is tried, nanoseconds.
const STEP_NS: u64 = 1_000;

/// Of a call that was held up, only so much is tried, nanoseconds.
const TRIED_NS: u64 = 100_000;

/// A raise: its thread and its time since the start of the watch, nanoseconds.
type Raise<'a> = (&'a Raising, u64);

/// Holds each raise of a called function by a thread of the log against the calls of that thread.
pub fn judge(log: &Log, trace: &str) -> anyhow::Result<Judged> {
    let trace: Value = serde_json::from_str(trace).context("the trace file is no JSON")?;
    let events = trace["traceEvents"].as_array().context("the trace file has no events")?;
    let threads: HashMap<u64, &Raising> = log.threads.iter().map(|thread| (thread.tid.into(), thread)).collect();
    let raises: Vec<Raise> = events.iter().filter_map(|event| raise(event, log.pid, &threads)).collect();
    let mut judged = Judged { named: raises.len() as u64, ..Judged::default() };
    let mut fewest = usize::MAX;
    let mut best_ns = 0;
    for start_ns in starts_ns(&raises) {
        let outside = outside(&raises, start_ns).take(fewest).count();
        if outside < fewest {
            (fewest, best_ns) = (outside, start_ns);
        }
    }
    for (thread, at_ns) in outside(&raises, best_ns) {
        judged.accuse(1, format!("a raise by {}, which was in no call at {} ns", thread.name, best_ns + at_ns));
    }
    Ok(judged)
}

/// When the watch can have started, if the first raise of a thread lies in one of its first calls.
fn starts_ns(raises: &[Raise]) -> Vec<u64> {
    let Some((thread, first_ns)) = raises.iter().min_by_key(|(_, at_ns)| at_ns) else { return Vec::new() };
    let calls = thread.calls.iter().take(FIRST_CALLS);
    let times_ns = calls.flat_map(|(start_ns, end_ns)| {
        let end_ns = *end_ns.min(&(start_ns + TRIED_NS));
        (*start_ns..=end_ns).step_by(STEP_NS as usize)
    });
    times_ns.filter_map(|at_ns| at_ns.checked_sub(*first_ns)).collect()
}

/// The raises that lie in no call of their thread, if the watch started then.
fn outside<'a>(raises: &'a [Raise<'a>], start_ns: u64) -> impl Iterator<Item = &'a Raise<'a>> {
    raises.iter().filter(move |(thread, at_ns)| {
        let raised_ns = start_ns + at_ns;
        // The calls are in the order of time: only the last that began before can contain it.
        let next = thread.calls.partition_point(|(start_ns, _)| *start_ns <= raised_ns);
        next == 0 || thread.calls[next - 1].1 < raised_ns
    })
}

fn raise<'a>(event: &Value, pid: u32, threads: &HashMap<u64, &'a Raising>) -> Option<Raise<'a>> {
    let is_raise = event["cat"] == "raise" && event["ph"] == "X" && event["pid"] == pid;
    if !is_raise || !FUNCTIONS.contains(&event["args"]["function"].as_str()?) {
        return None;
    }
    let thread = threads.get(&event["tid"].as_u64()?)?;
    Some((thread, (event["ts"].as_f64()? * 1e3).round() as u64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two threads in turns: calls of 20 us, an uneven pause between them.
    fn log() -> Log {
        let thread = |tid, syscall: &str, first_ns: u64| Raising {
            tid,
            name: format!("do_{syscall}"),
            syscall: syscall.to_owned(),
            calls: (0..50u64)
                .map(|number| first_ns + number * 100_000 + number * number * 37)
                .map(|start_ns| (start_ns, start_ns + 20_000))
                .collect(),
        };
        Log { pid: 7, threads: vec![thread(8, "munmap", 5_000_000_000), thread(9, "madvise", 5_000_050_000)] }
    }

    /// A trace with a raise in the middle of each call, but for the changes.
    fn trace(log: &Log, change: impl Fn(u32, usize) -> (u32, u64)) -> String {
        let mut events = vec![r#"{"ph":"M","name":"process_name","pid":7,"tid":7}"#.to_owned()];
        for thread in &log.threads {
            for (number, (start_ns, _)) in thread.calls.iter().enumerate() {
                let (tid, late_ns) = change(thread.tid, number);
                let ts = (start_ns - 4_321_012_345 + 10_000 + late_ns) as f64 / 1e3;
                events.push(format!(
                    r#"{{"ph":"X","cat":"raise","pid":7,"tid":{tid},"ts":{ts},"args":{{"function":"flush_tlb_func"}}}}"#
                ));
            }
        }
        format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
    }

    #[test]
    fn one_shift_brings_all_raises_into_their_calls() {
        let log = log();
        let judged = judge(&log, &trace(&log, |tid, _| (tid, 0))).unwrap();
        assert_eq!((judged.named, judged.wrong), (100, 0), "{:?}", judged.examples);
    }

    #[test]
    fn a_raise_by_the_wrong_thread_or_at_the_wrong_time_stands_out() {
        let log = log();
        let swapped = judge(&log, &trace(&log, |tid, number| (if number == 30 { 17 - tid } else { tid }, 0))).unwrap();
        assert_eq!((swapped.named, swapped.wrong), (100, 2));
        let late = judge(&log, &trace(&log, |tid, number| (tid, if number == 20 { 25_000 } else { 0 }))).unwrap();
        assert_eq!((late.named, late.wrong), (100, 2));
    }

    #[test]
    fn strangers_are_left_out_and_a_broken_file_is_refused() {
        let log = log();
        let strangers = trace(&log, |_, _| (99, 0));
        assert_eq!(judge(&log, &strangers).unwrap(), Judged::default());
        assert!(judge(&log, "{}").is_err() && judge(&log, "x").is_err());
    }
}
