//! The exact join against a log of every call: nothing is given to a thread that it did not do.

use super::{is_joined, raisers, sum, watch};
use serde_json::Value;
use std::collections::BTreeMap;
use surefoot_e2e::actor::TRUTH;
use surefoot_e2e::machine::{Need, turn};

const TIMES: u64 = 2_000;

/// Three threads share one core, and with it the call-single data that the join goes by; each has its own system call.
#[test]
fn three_threads_that_raise_side_by_side_get_what_they_did_and_nothing_else() {
    const NAME: &str = "three_threads_that_raise_side_by_side_get_what_they_did_and_nothing_else";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    TRUTH.path();
    let watch = watch("");
    let mut process = TRUTH.start(&format!("{TIMES} 200 1 0"));
    let truth = process.answer();
    let lines = watch.stop().json();
    is_joined(&lines);
    let mut found = raisers(&lines, "tlb_shootdown", &truth);
    found.extend(raisers(&lines, "call_function", &truth));
    let threads: BTreeMap<u64, &Value> =
        truth["threads"].as_array().unwrap().iter().map(|thread| (thread["tid"].as_u64().unwrap(), thread)).collect();
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
            assert!(has_whole_frame(raiser, frame), "{raiser}");
        }
        let (count, calls) = (sum(&of_thread), thread["calls"].as_array().unwrap().len() as u64);
        assert_eq!(calls, TIMES);
        // While something else runs on the core there is nothing to do there, so a busy machine raises fewer.
        assert!(count <= calls && count > calls / 20, "{count} of {calls} calls: {of_thread:?}");
    }
    // What the process did before the three began: it starts threads, no more.
    let others: Vec<&Value> =
        found.iter().copied().filter(|raiser| !threads.contains_key(&raiser["tid"].as_u64().unwrap())).collect();
    assert!(others.iter().all(|raiser| raiser["tid"] == truth["pid"]) && sum(&others) < 20, "{others:?}");
}

fn has_whole_frame(raiser: &Value, name: &str) -> bool {
    super::frames(raiser, "user_stack").contains(&name)
}
