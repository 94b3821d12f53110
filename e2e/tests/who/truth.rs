//! The exact join against a log of every call: nothing is given to a thread that it did not do.

use super::{frames, is_joined, raisers, sum, watch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use surefoot_e2e::actor::TRUTH;
use surefoot_e2e::machine::{Need, turn};

const TIMES: u64 = 2_000;

/// Three threads share one core, and with it the call-single data that the join goes by; each has its own system call.
#[test]
fn three_threads_that_raise_side_by_side_get_what_they_did_and_nothing_else() {
    const NAME: &str = "three_threads_that_raise_side_by_side_get_what_they_did_and_nothing_else";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    TRUTH.path();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    // Records with stacks fill the ring soon where a busy machine does not let the watch read it.
    let watch = watch(&format!("--stacks-per-s 1000 --trace {}", trace.display()));
    let mut process = TRUTH.start(&format!("{TIMES} 700 1 0"));
    let truth = process.answer();
    let lines = watch.stop().json();
    is_joined(&lines);
    let mut found = raisers(&lines, "tlb_shootdown", &truth);
    found.extend(raisers(&lines, "call_function", &truth));
    let threads: BTreeMap<u64, &Value> =
        truth["threads"].as_array().unwrap().iter().map(|thread| (thread["tid"].as_u64().unwrap(), thread)).collect();
    let drawn = drawn_arrivals(&trace, &truth);
    for (tid, thread) in &threads {
        let of_thread: Vec<&Value> = found.iter().copied().filter(|raiser| raiser["tid"] == *tid).collect();
        let (function, frame) = match thread["comm"].as_str().unwrap() {
            "unmapper" => ("flush_tlb_func", "unmap"),
            "protector" => ("flush_tlb_func", "protect"),
            _ => ("ipi_mb", "order"),
        };
        for raiser in &of_thread {
            for field in ["comm", "syscall"] {
                assert_eq!(raiser[field], thread[field], "{raiser}");
            }
            assert_eq!((&raiser["function"], &raiser["certainty"]), (&function.into(), &"certain".into()), "{raiser}");
            let stack = frames(raiser, "user_stack");
            assert!(stack.is_empty() || stack.contains(&frame), "{raiser}");
        }
        assert!(of_thread.iter().any(|raiser| !frames(raiser, "user_stack").is_empty()), "no stack: {of_thread:?}");
        let (count, calls) = (sum(&of_thread), thread["calls"].as_array().unwrap().len() as u64);
        assert_eq!(calls, TIMES);
        // While something else runs on the core there is nothing to do there, so a busy machine raises fewer.
        assert!(count <= calls && count > calls / 20, "{count} of {calls} calls: {of_thread:?}");
        // Whoever asks for a call waits until it has run, so it ran within the call of the thread that gets it.
        let arrivals = drawn.get(tid).map_or(&[][..], Vec::as_slice);
        assert!(arrivals.len() as u64 * 100 >= count * 99, "{} of {count} are drawn", arrivals.len());
        let logged = logged_calls(thread);
        let wrong: Vec<_> = arrivals
            .iter()
            .filter(|arrival| !is_in_one_call(arrival, &logged))
            .map(|arrival| (arrival, last_call(arrival, &logged)))
            .collect();
        // On a busy machine some in two thousand lie beside the unmapper's logged calls, 6 at most so far, raised microseconds after one has
        // returned. Why is not known; a join that gives one thread what another did would be far beyond it.
        let few = arrivals.len() / 100 + 6;
        assert!(wrong.len() <= few, "{} of {} are not {}'s: {wrong:?}", wrong.len(), arrivals.len(), thread["comm"]);
    }
    // What the process did before the three began: it starts threads, no more.
    let others: Vec<&Value> =
        found.iter().copied().filter(|raiser| !threads.contains_key(&raiser["tid"].as_u64().unwrap())).collect();
    assert!(others.iter().all(|raiser| raiser["tid"] == truth["pid"]) && sum(&others) < 20, "{others:?}");
}

/// Something that a thread raised and that arrived; `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug)]
struct Drawn {
    raised_ns: u64,
    arrived_ns: u64,
}

/// By thread of the process, what the trace file says that it raised.
fn drawn_arrivals(trace: &Path, truth: &Value) -> BTreeMap<u64, Vec<Drawn>> {
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    let (events, other) = (trace["traceEvents"].as_array().unwrap(), &trace["otherData"]);
    assert_eq!((&other["left_out"], &other["turns_lost"]), (&0.into(), &0.into()), "{other}");
    let start_ns = other["start_ns"].as_u64().unwrap();
    let at_ns = |event: &Value| start_ns + (event["ts"].as_f64().unwrap() * 1e3).round() as u64;
    let phase = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let ends: BTreeMap<u64, u64> = phase("f").map(|end| (end["id"].as_u64().unwrap(), at_ns(end))).collect();
    let mut drawn: BTreeMap<u64, Vec<Drawn>> = BTreeMap::new();
    for begin in phase("s").filter(|begin| begin["pid"] == truth["pid"]) {
        let arrived_ns = ends[&begin["id"].as_u64().unwrap()];
        let of_thread = drawn.entry(begin["tid"].as_u64().unwrap()).or_default();
        of_thread.push(Drawn { raised_ns: at_ns(begin), arrived_ns });
    }
    drawn
}

/// Begin and end of each call, in their order.
fn logged_calls(thread: &Value) -> Vec<(u64, u64)> {
    let calls = thread["calls"].as_array().unwrap().iter();
    calls.map(|call| (call[0].as_u64().unwrap(), call[1].as_u64().unwrap())).collect()
}

/// The last call that had begun when this was raised.
fn last_call(drawn: &Drawn, calls: &[(u64, u64)]) -> Option<(u64, u64)> {
    let begun = calls.partition_point(|(begin_ns, _)| *begin_ns <= drawn.raised_ns);
    begun.checked_sub(1).map(|last| calls[last])
}

/// Whether there is a call in which this was raised and in which it arrived.
fn is_in_one_call(drawn: &Drawn, calls: &[(u64, u64)]) -> bool {
    last_call(drawn, calls).is_some_and(|(_, end_ns)| (drawn.raised_ns..=end_ns).contains(&drawn.arrived_ns))
}
