//! Watching itself raises nothing on the watched core.

use super::{has_frame, sum, watch};
use serde_json::Value;
use std::time::Duration;
use surefoot_e2e::actor;
use surefoot_e2e::machine::{Need, interrupts, rise, turn};
use surefoot_e2e::report::{number, of_type};

/// The interrupt that carries called functions; it is counted beside them and has no raiser of its own.
const CARRIER: &str = "interrupt itself";

/// Arrivals of this kind; of called functions the interrupts, each of which may have carried several.
fn arrivals(lines: &[Value], kind: &str) -> u64 {
    let is_one = |line: &&Value| line["kind"] == kind && (kind != "call_function" || line["name"] == CARRIER);
    of_type(lines, "interrupt").into_iter().filter(is_one).map(|line| number(line, "count")).sum()
}

/// The kernel's own counters bracket a stretch inside the watch. All that they counted must be in the ledger, and all
/// of the ledger must have a raiser that is not the watch; together nothing is left that the watch can have raised.
#[test]
fn watching_raises_no_interrupt_on_the_core() {
    const NAME: &str = "watching_raises_no_interrupt_on_the_core";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    // An idle core is woken by whoever has work for it, which is noise here.
    let _spinner = actor::start("spinner", "spin 1 60000");
    let watch = watch("");
    let pid = watch.running.pid();
    // What it says wakes us before it begins to count.
    std::thread::sleep(Duration::from_millis(500));
    let before = interrupts();
    std::thread::sleep(Duration::from_secs(3));
    let after = interrupts();
    let lines = watch.stop().json();
    // Two things are owed to others on a crowded core 1 and cannot come from a core with a single polling task. Where the
    // watch sleeps, the scheduler may take over a task that waits there, and tells that core. And who waits there to
    // change the memory of a process whose functions are just being looked up is woken when that is done.
    let (owed, ours): (Vec<&Value>, Vec<&Value>) = of_type(&lines, "interrupt")
        .into_iter()
        .flat_map(|interrupt| interrupt["raisers"].as_array().unwrap())
        .filter(|raiser| raiser["pid"] == pid)
        .partition(|raiser| ["balance", "up_read"].iter().any(|frame| has_frame(raiser, "kernel_stack", frame)));
    assert!(ours.is_empty(), "{ours:?}");
    let closing = of_type(&lines, "who")[0];
    assert!(number(&closing["cost"], "self_interrupts") <= sum(&owed), "{owed:?}: {closing}");
    for (row, kind) in [("CAL", "call_function"), ("TLB", "tlb_shootdown"), ("RES", "reschedule"), ("IWI", "irq_work")]
    {
        let (counted, seen) = (rise(&before, &after, row, 1), arrivals(&lines, kind));
        assert!(counted <= seen, "{row}: the kernel counted {counted}, the ledger has {seen}: {lines:?}");
    }
    for interrupt in of_type(&lines, "interrupt") {
        let is_called = ["call_function", "tlb_shootdown"].contains(&interrupt["kind"].as_str().unwrap());
        if is_called && interrupt["name"] != CARRIER {
            // One may have been on its way when the watch began, and the join may miss one of 200.
            let (unknown, count) = (number(interrupt, "unknown_raisers"), number(interrupt, "count"));
            let missed = 1 + count / 200 + number(closing, "records_dropped");
            assert!(unknown <= missed, "{unknown} might be ours, {missed} may be missed: {closing} {interrupt}");
        }
    }
}
