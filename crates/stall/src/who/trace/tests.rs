#![allow(clippy::unwrap_used)]
//! The trace file, read back by the rules of its format: every flow has both ends in a slice, slices nest per track,
//! every track has a name.

use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use surefoot_model::{Cause, CauseKind, Certainty, TimelineArrival};

fn raiser(comm: &str, pid: u32, tid: u32) -> Raiser {
    Raiser {
        certainty: Certainty::Certain,
        function: "flush_tlb_func".into(),
        syscall: if tid > 0 { "munmap".into() } else { String::new() },
        comm: comm.into(),
        pid,
        tid,
        wakee: String::new(),
        count: 1,
        kernel_stack: vec!["flush_tlb_mm_range".into(); 20],
        user_stack: vec!["munmap \"quoted\\\"".into(); 20],
        is_sum: false,
    }
}

fn slice(cpu: u32, cause: u32, start_ns: u64, duration_ns: u64) -> TimelineSlice {
    TimelineSlice { cpu: CpuId(cpu), cause, start_ns, duration_ns }
}

fn arrival(cpu: u32, at_ns: u64, raiser: u32, raised_ns: Option<u64>, slice: Option<u32>) -> TimelineArrival {
    TimelineArrival { cpu: CpuId(cpu), cause: 0, at_ns, raiser: Some(raiser), raised_ns, slice }
}

/// Two cores; on core 1 an interrupt inside a softirq that begins with it; raises by threads and in an interrupt.
fn timeline() -> Timeline {
    let shootdown = Cause::new(CauseKind::TlbShootdown, "flush_tlb_func");
    Timeline {
        causes: vec![shootdown, Cause::new(CauseKind::Softirq, "RCU")],
        raisers: vec![raiser("stats", 70, 71), raiser("(interrupt)", 0, 0), raiser("main", 70, 70)],
        slices: vec![
            slice(1, 0, 10_000, 2_000),
            slice(1, 1, 10_000, 30_000),
            slice(2, 0, 11_000, 1_500),
            slice(1, 0, 60_000, 2_500),
            slice(2, 0, 70_001, 0),
        ],
        arrivals: vec![
            // One raise for two cores, marked just before the slice begins.
            arrival(1, 9_990, 0, Some(9_000), Some(0)),
            arrival(2, 11_100, 0, Some(9_000), Some(2)),
            // The same thread 300 ns later, and one whose slice was not seen.
            arrival(1, 60_100, 0, Some(9_300), Some(3)),
            arrival(1, 90_000, 0, Some(80_000), None),
            arrival(2, 70_001, 1, Some(70_000), Some(4)),
            arrival(2, 70_001, 1, Some(70_000), Some(4)),
            // Raised in its own context: no flow.
            arrival(1, 10_000, 2, None, Some(1)),
        ],
        slices_dropped: 2,
        arrivals_dropped: 3,
        turns_lost: 4,
    }
}

fn read(bytes: &[u8]) -> (Vec<Value>, Value) {
    let trace: Value = serde_json::from_slice(bytes).unwrap();
    (trace["traceEvents"].as_array().unwrap().clone(), trace["otherData"].clone())
}

fn ns(event: &Value, field: &str) -> u64 {
    (event[field].as_f64().unwrap() * 1e3).round() as u64
}

fn track(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

/// Whatever a reader of the format may rely on.
fn check(events: &[Value]) {
    let named = |what: &str| -> BTreeSet<(u64, u64)> {
        events.iter().filter(|event| event["name"] == what).map(track).collect()
    };
    let (threads, processes) = (named("thread_name"), named("process_name"));
    let mut open: HashMap<(u64, u64), Vec<(u64, u64)>> = HashMap::new();
    let mut ordered: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    ordered.sort_by_key(|event| ns(event, "ts"));
    for event in &ordered {
        assert!(threads.contains(&track(event)), "a track without a name: {event}");
        assert!(processes.iter().any(|process| process.0 == track(event).0), "a process without a name: {event}");
        let (start, end) = (ns(event, "ts"), ns(event, "ts") + ns(event, "dur"));
        let stack = open.entry(track(event)).or_default();
        while stack.pop_if(|(_, outer_end)| *outer_end <= start).is_some() {}
        assert!(stack.last().is_none_or(|(_, outer_end)| end <= *outer_end), "not nested: {event}");
        stack.push((start, end));
    }
    let ends = |ph: &str| -> BTreeMap<u64, &Value> {
        let all = events.iter().filter(|event| event["ph"] == ph);
        all.map(|event| (event["id"].as_u64().unwrap(), event)).collect()
    };
    let (starts, finishes) = (ends("s"), ends("f"));
    assert_eq!(starts.keys().collect::<Vec<_>>(), finishes.keys().collect::<Vec<_>>(), "a flow without its other end");
    let flows = events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f").count();
    assert_eq!(flows, 2 * starts.len(), "two flows of one number");
    for (id, start) in &starts {
        assert!(ns(start, "ts") <= ns(finishes[id], "ts"), "flow {id} runs backwards");
        for end in [start, &finishes[id]] {
            let holds = |slice: &&&Value| {
                let (from, at) = (ns(slice, "ts"), ns(end, "ts"));
                track(slice) == track(end) && from <= at && at < from + ns(slice, "dur").max(1)
            };
            assert!(ordered.iter().any(|slice| holds(&slice)), "flow {id} ends in no slice: {end}");
        }
        assert_eq!(finishes[id]["bp"], "e");
    }
}

#[test]
fn a_trace_has_a_track_per_core_and_raiser_and_flows_between_them() {
    let mut bytes = Vec::new();
    let found = WhoReport { start_ns: 1_000, ..WhoReport::default() };
    let written = write(&mut bytes, &found, &timeline()).unwrap();
    assert_eq!(written, Written { start_ns: 1_000, slices: 5, raises: 4, flows: 5, left_out: 5, turns_lost: 4 });
    let (events, other) = read(&bytes);
    check(&events);
    assert_eq!(other, serde_json::to_value(written).unwrap());
    let text = |event: &Value| event["args"]["name"].as_str().map(str::to_owned);
    let names: Vec<String> = events.iter().filter(|event| event["ph"] == "M").filter_map(text).collect();
    assert_eq!(
        names,
        [
            "watched cores",
            "core 1",
            "core 2",
            "process 70",
            "stats",
            "raised in interrupts",
            "interrupts of other work"
        ]
    );
    let raise = events.iter().find(|event| event["cat"] == "raise" && event["ph"] == "X").unwrap();
    assert_eq!((raise["ts"].as_f64(), raise["dur"].as_f64()), (Some(8.0), Some(0.3)), "cut by the next raise");
    assert_eq!(raise["name"], "munmap: TLB shootdown flush_tlb_func");
    let args = &raise["args"];
    assert_eq!((&args["certainty"], &args["function"]), (&"certain".into(), &"flush_tlb_func".into()));
    assert_eq!(args["cpus"], serde_json::json!([1, 2]));
    assert_eq!(args["user_stack"].as_str().unwrap().lines().count(), 20);
    let caused = events.iter().find(|event| event["cat"] == "tlb_shootdown").unwrap();
    assert_eq!(caused["args"]["raised_by"][0], "stats (thread 71 of process 70) in munmap");
}

/// Many raises by one raiser, with what they caused.
fn many(count: u64) -> Timeline {
    let slices = (0..count).map(|number| slice(1, 0, 10_000 * number + 5_000, 2_000)).collect();
    let raise = |number: u64| {
        let raised_ns = 10_000 * number + 3_000;
        arrival(1, raised_ns + 2_000, 0, Some(raised_ns), Some(number as u32))
    };
    Timeline { slices, arrivals: (0..count).map(raise).collect(), ..timeline() }
}

#[test]
fn a_trace_stays_below_its_limit_and_what_is_left_out_is_left_out_whole_and_counted() {
    let timeline = many(3_000);
    let mut whole = Vec::new();
    let all = write_within(&mut whole, &WhoReport::default(), &timeline, u64::MAX, 100_000).unwrap();
    assert_eq!((all.slices, all.raises, all.flows, all.left_out), (3_000, 3_000, 3_000, 5));
    for limit_bytes in [0, 1_000, 300_000, 1_000_000, 1_500_000] {
        let mut bytes = Vec::new();
        let written = write_within(&mut bytes, &WhoReport::default(), &timeline, limit_bytes, 100_000).unwrap();
        assert!((bytes.len() as u64) < limit_bytes + 5_000, "{} for {limit_bytes}", bytes.len());
        let (events, _) = read(&bytes);
        check(&events);
        assert_eq!(written.slices + written.raises + written.left_out, 3_000 + 6_000 + 5 - written.raises);
        assert!(written.left_out > 5 && bytes.len() < whole.len(), "{written:?}");
    }
}

#[test]
fn stacks_beyond_their_share_stand_at_the_first_raise_only() {
    let mut bytes = Vec::new();
    write_within(&mut bytes, &WhoReport::default(), &many(100), u64::MAX, 3_000).unwrap();
    let (events, _) = read(&bytes);
    let stacks: Vec<&str> = events.iter().filter_map(|event| event["args"]["kernel_stack"].as_str()).collect();
    assert_eq!(stacks.len(), 100);
    let whole = stacks.iter().filter(|stack| stack.starts_with("flush_tlb_mm_range")).count();
    assert!((1..10).contains(&whole), "{whole}");
    assert!(stacks[whole..].iter().all(|stack| stack.starts_with("as at the first raise")));
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = write(full, &WhoReport::default(), &timeline()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
