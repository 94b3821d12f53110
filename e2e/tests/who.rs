//! Who raised it: processes that raise interrupts on a core they poll on, and what `who` says of them.

use serde_json::Value;
use std::time::{Duration, Instant};
use surefoot_e2e::actor;
use surefoot_e2e::command::{WAIT, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{has_fields, number, of_type};
use surefoot_testkit::not_run::not_run;

const TIMES: u64 = 2_000;

/// Watches the last core while a raiser works there; returns the lines and what the raiser said of itself.
fn who(mode: &str, times: u64, pause_us: u64) -> (Vec<Value>, Value) {
    actor::prepare();
    let mut running = surefoot("stall who --cpu 1 --duration 60s --stacks-per-s 100000 --json").start();
    // The programs have to be attached before the raiser begins.
    let deadline = Instant::now() + WAIT;
    while !running.stderr().contains("watching") {
        assert!(Instant::now() < deadline && running.is_running(), "who does not begin: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    let truth = actor::start_raiser(&format!("{mode} {times} {pause_us} 1 0")).finish();
    running.signal("INT");
    let finished = running.finish();
    finished.expect_code(0);
    assert_eq!(truth["done"], times);
    (finished.json(), truth)
}

/// The raisers in this process of interrupts of this kind.
fn raisers<'a>(lines: &'a [Value], kind: &str, truth: &Value) -> Vec<&'a Value> {
    let of_kind = of_type(lines, "interrupt").into_iter().filter(|line| line["kind"] == kind);
    let all = of_kind.flat_map(|line| line["raisers"].as_array().unwrap());
    all.filter(|raiser| raiser["pid"] == truth["pid"]).collect()
}

fn sum(raisers: &[&Value]) -> u64 {
    raisers.iter().map(|raiser| number(raiser, "count")).sum()
}

fn has_frame(raiser: &Value, stack: &str, name: &str) -> bool {
    raiser[stack].as_array().unwrap().iter().any(|frame| frame.as_str().unwrap().contains(name))
}

#[test]
fn a_stream_whose_buffer_is_unmapped_is_named_with_its_thread_stack_and_remedy() {
    const NAME: &str = "a_stream_whose_buffer_is_unmapped_is_named_with_its_thread_stack_and_remedy";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who("stdio", TIMES, 200);
    let found = raisers(&lines, "tlb_shootdown", &truth);
    // While something else runs on the core there is nothing to flush, so a busy machine raises fewer.
    let unmapped: Vec<&Value> = found.iter().copied().filter(|raiser| raiser["syscall"] == "munmap").collect();
    let count = sum(&unmapped);
    assert!(count > TIMES / 20 && count <= TIMES, "{count} of {TIMES}");
    assert!(count * 100 >= sum(&found) * 95, "{count} of {} in munmap", sum(&found));
    for raiser in &unmapped {
        has_fields(
            raiser,
            &["certainty", "function", "syscall", "comm", "pid", "tid", "count", "kernel_stack", "user_stack"],
            &["wakee"],
        );
        assert_eq!((raiser["comm"].as_str(), raiser["tid"] == truth["pid"]), (Some("stats"), true), "{raiser}");
        assert_eq!(
            (raiser["certainty"].as_str(), raiser["function"].as_str()),
            (Some("certain"), Some("flush_tlb_func"))
        );
        assert!(has_frame(raiser, "kernel_stack", "munmap"), "{raiser}");
        assert!(has_frame(raiser, "user_stack", "munmap"), "{raiser}");
        assert!(has_frame(raiser, "user_stack", "close_counter"), "{raiser}");
        assert!(has_frame(raiser, "user_stack", "read_counter_by_stdio"), "{raiser}");
    }
    let shootdowns = of_type(&lines, "interrupt").into_iter().find(|line| line["kind"] == "tlb_shootdown").unwrap();
    has_fields(
        shootdowns,
        &["cpu", "kind", "name", "handler", "count", "total_ns", "p50_ns", "p99_ns", "max_ns", "raisers"],
        &["type", "share_of_lost_ppm", "detail", "unknown_raisers", "advice"],
    );
    let advice = shootdowns["advice"].as_array().unwrap();
    assert!(advice.iter().any(|advice| advice["rule"] == "memory-mapping-beside-a-polling-thread"), "{shootdowns}");
    let closing = of_type(&lines, "who")[0];
    let (joined, called) = (number(closing, "joined_count"), number(closing, "called_count"));
    assert!(joined * 1000 >= called * 995, "{joined} of {called} joined: {closing}");
    assert_eq!(number(closing, "records_dropped"), 0, "{closing}");
}

#[test]
fn the_same_counter_read_plainly_raises_nothing() {
    const NAME: &str = "the_same_counter_read_plainly_raises_nothing";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who("plain", TIMES, 100);
    let found = raisers(&lines, "tlb_shootdown", &truth);
    // Starting and ending the program raises a few.
    assert!(sum(&found) < TIMES / 100, "{found:?}");
}

#[test]
fn what_changes_memory_or_orders_threads_is_told_apart() {
    const NAME: &str = "what_changes_memory_or_orders_threads_is_told_apart";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    for (mode, kind, function) in [
        ("mprotect", "tlb_shootdown", "change_protection"),
        ("madvise", "tlb_shootdown", "give_memory_back"),
        ("membarrier", "call_function", "order_all_threads"),
    ] {
        let (lines, truth) = who(mode, 500, 200);
        let found = raisers(&lines, kind, &truth);
        let by_call: Vec<&Value> = found.into_iter().filter(|raiser| raiser["syscall"] == mode).collect();
        assert!(sum(&by_call) > 25, "{mode}: {lines:?}");
        assert!(by_call.iter().all(|raiser| raiser["comm"] == "stats"), "{by_call:?}");
        // A stack can only be named while its process lives, and a busy machine may look too late.
        let in_time: Vec<&Value> =
            by_call.iter().copied().filter(|raiser| !has_frame(raiser, "user_stack", "is gone")).collect();
        let named =
            in_time.iter().copied().filter(|raiser| has_frame(raiser, "user_stack", function)).collect::<Vec<_>>();
        assert!(sum(&named) * 10 >= sum(&in_time) * 9, "{mode}: {by_call:?}");
    }
}

#[test]
fn the_waker_of_a_sleeping_poller_is_probable() {
    const NAME: &str = "the_waker_of_a_sleeping_poller_is_probable";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who("futex", 1_000, 300);
    let found = raisers(&lines, "reschedule", &truth);
    if found.is_empty() {
        return not_run(NAME, "the core was idle and polling, so that no interrupt was needed to wake its thread");
    }
    for raiser in &found {
        assert_eq!(raiser["certainty"], "probable", "{raiser}");
    }
    let wakes: Vec<&Value> = found.into_iter().filter(|raiser| raiser["wakee"] == "poller").collect();
    assert!(wakes.iter().all(|raiser| raiser["comm"] == "stats" && raiser["syscall"] == "futex"), "{wakes:?}");
    assert!(!wakes.is_empty());
}

#[test]
fn watching_raises_no_interrupt_on_the_core() {
    const NAME: &str = "watching_raises_no_interrupt_on_the_core";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let finished = surefoot("stall who --cpu 1 --duration 3s --json").run();
    finished.expect_code(0);
    let lines = finished.json();
    let closing = of_type(&lines, "who")[0];
    assert_eq!(number(&closing["cost"], "self_interrupts"), 0, "{closing}");
    for interrupt in of_type(&lines, "interrupt") {
        for raiser in interrupt["raisers"].as_array().unwrap() {
            let is_ours = raiser["comm"].as_str().unwrap().starts_with("surefoot") && raiser["certainty"] == "certain";
            assert!(!is_ours || interrupt["kind"] == "timer", "{raiser} raised {}", interrupt["name"]);
        }
    }
}

#[test]
fn wishes_that_cannot_be_met_are_refused() {
    let Some(_turn) = turn("wishes_that_cannot_be_met_are_refused", Need::Nothing) else { return };
    for words in ["--cpu 99", "--cpu x", "--cpu 1 --pid 4194304", "--cpu 1 --duration 0s", ""] {
        let finished = surefoot("stall who").words(words).run();
        finished.expect_code(2);
        assert!(!finished.stderr.contains("panicked") && !finished.stderr.is_empty(), "{}", finished.stderr);
    }
    surefoot("stall who --cpu 1 --duration 1s").as_nobody().run().expect_code(3);
}
