//! The case of the post: a counter that is read through a stream beside a polling thread.

use super::{has_frame, is_advised, is_joined, raisers, sum, who};
use serde_json::Value;
use surefoot_e2e::actor::RAISER;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{has_fields, of_type};

const TIMES: u64 = 2_000;

#[test]
fn a_stream_whose_buffer_is_unmapped_is_named_with_its_thread_stack_and_remedy() {
    const NAME: &str = "a_stream_whose_buffer_is_unmapped_is_named_with_its_thread_stack_and_remedy";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&RAISER, &format!("stdio {TIMES} 200 1 0"));
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
        &[
            "type",
            "share_of_lost_ppm",
            "detail",
            "unknown_raisers",
            "advice",
            "while_idle_ns",
            "entry_exit_ns",
            "intruders",
        ],
    );
    assert!(is_advised(&lines, "tlb_shootdown", "memory-mapping-beside-a-polling-thread", "stats"), "{shootdowns}");
    is_joined(&lines);
}

#[test]
fn the_same_counter_read_plainly_raises_nothing() {
    const NAME: &str = "the_same_counter_read_plainly_raises_nothing";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&RAISER, &format!("plain {TIMES} 100 1 0"));
    let found = raisers(&lines, "tlb_shootdown", &truth);
    // Starting and ending the program raises a few.
    assert!(sum(&found) < TIMES / 100, "{found:?}");
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
