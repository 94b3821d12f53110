//! What the ledger says against what the tests themselves did.

use crate::cost::RESIDENT_MAX;
use serde_json::Value;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, interrupts, rise, softirqs, turn};
use surefoot_e2e::report::{core_line_sums_up, gap_line_sums_up, has_fields, number, of_type};
use surefoot_e2e::watched::{Seen, watch};
use surefoot_e2e::{actor, machine};
use surefoot_model::CauseKind;
use surefoot_testkit::not_run::not_run;

/// No function that another core calls is shorter: a barrier alone takes a fast machine 90 ns.
const SHORTEST_NS: u64 = 10;
/// What may be counted between the test's reading of a counter and the command's.
const SLACK: u64 = 30;

/// Between the two readings that surround it, and not more than 2 % outside: a count may be late, not wrong.
fn lies_between(what: &str, count: u64, inner: u64, outer: u64) {
    assert!(count + count / 50 + SLACK >= inner, "{what}: {count} counted, the kernel counted {inner} or more");
    assert!(count <= outer + outer / 50 + SLACK, "{what}: {count} counted, the kernel counted {outer} at most");
}

#[test]
fn the_report_has_the_promised_fields_and_adds_up() {
    let Some(_turn) = turn("the_report_has_the_promised_fields_and_adds_up", Need::Ebpf) else { return };
    let _busy = actor::on_every_core();
    for source in ["ebpf", "plain"] {
        let finished = surefoot("stall report --json --duration 2s --source").arg(source).run();
        finished.expect_code(0);
        let lines = finished.json();
        let cores = of_type(&lines, "core");
        let numbers: Vec<u64> = cores.iter().map(|core| number(core, "cpu")).collect();
        let online: Vec<u64> = machine::interrupts().cpus.iter().map(|cpu| u64::from(cpu.0)).collect();
        assert_eq!(numbers, online, "one line per core");
        for core in cores {
            core_line_sums_up(core);
            let wall_ns = number(core, "wall_ns");
            assert!((1_900_000_000..20_000_000_000).contains(&wall_ns), "{wall_ns} ns for a report of 2 s");
            assert!(!core["lost"].as_array().unwrap().is_empty(), "a core without a tick: {core}");
        }
        of_type(&lines, "gap").into_iter().for_each(gap_line_sums_up);
        completeness_is_within_slack(&lines);
        assert_eq!(of_type(&lines, "host").len(), 1);
        let cost = of_type(&lines, "cost");
        assert!(number(cost[0], "resident_bytes") < RESIDENT_MAX, "{}", cost[0]);
        let probes = cost[0]["probes"].as_array().unwrap();
        assert!(!probes.is_empty(), "{}", cost[0]);
        // A program that never ran, as that of the spurious interrupts, is told as well: what it counts is 0, and not unknown.
        let is_told = probes.iter().any(|probe| probe["count"] == 0);
        assert!(is_told || !cfg!(target_arch = "x86_64"), "{}", cost[0]);
    }
}

fn completeness_is_within_slack(lines: &[Value]) {
    let rows = of_type(lines, "completeness");
    assert!(rows.iter().any(|row| row["row"] == "LOC"), "{rows:?}");
    for row in rows {
        has_fields(row, &["type", "row", "kernel_count", "probe_count"], &[]);
        let (kernel, probes) = (number(row, "kernel_count"), number(row, "probe_count"));
        lies_between("completeness", probes, kernel, kernel);
    }
}

#[test]
fn a_filter_hides_causes_but_not_their_time() {
    let Some(_turn) = turn("a_filter_hides_causes_but_not_their_time", Need::Ebpf) else { return };
    let finished = surefoot("stall report --json --duration 1s --kinds timer").run();
    finished.expect_code(0);
    for core in of_type(&finished.json(), "core") {
        core_line_sums_up(core);
        assert!(core["lost"].as_array().unwrap().iter().all(|row| row["kind"] == "timer"), "{core}");
    }
}

/// The bursts of a storm go on until the report has ended, whose own start and end say which of them it must have seen.
#[test]
fn a_report_names_and_counts_tlb_shootdowns() {
    let Some(_turn) = turn("a_report_names_and_counts_tlb_shootdowns", Need::Ebpf) else { return };
    actor::prepare();
    let before = interrupts();
    let storm = actor::start("storm", "storm munmap 0 1 900 100 100");
    let finished = surefoot("stall report --json --duration 3s").run();
    finished.expect_code(0);
    machine::signal(storm.pid(), "TERM");
    let done_ns = times(&storm.finish()["done_ns"]);
    let needed = rise(&before, &interrupts(), "TLB", 1);
    let lines = finished.json();
    let host = of_type(&lines, "host")[0];
    let (start_ns, end_ns) = (number(host, "start_ns"), number(host, "end_ns"));
    let raised = done_ns.iter().filter(|at| (start_ns..end_ns).contains(at)).count() as u64;
    assert!(raised >= 1_000, "the storm missed the report: {raised} in it");
    let core = of_type(&lines, "core").into_iter().find(|core| core["cpu"] == 1).unwrap();
    let row = core["lost"].as_array().unwrap().iter().find(|row| row["name"] == "flush_tlb_func");
    let row = row.unwrap_or_else(|| panic!("no shootdown in {core}"));
    assert_eq!(row["kind"], "tlb_shootdown");
    // A hypervisor that has taken the core away flushes for it, without an interrupt: the kernel's own row says how many
    // of all unmappings needed one, and of those in the report four in five or more are counted.
    let all = done_ns.len() as u64;
    let found = format!("{raised} of {all} raised in the report, {needed} needed an interrupt, {row}");
    assert!(number(row, "count") * all * 10 >= raised * needed.min(all) * 8, "{found}");
    assert!(needed >= 1_000 && number(row, "count") <= needed + SLACK, "{found}");
    assert!(number(row, "total_ns") > number(row, "count") * SHORTEST_NS, "{row}");
    assert!(number(row, "max_ns") >= number(row, "p99_ns") && number(row, "p99_ns") >= number(row, "p50_ns"), "{row}");
}

fn times(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect()
}

/// What a storm of 2,000 operations from core 0 did to core 1, by what was watched and by the kernel's own row.
struct Storm {
    seen: Seen,
    count: u64,
    /// The row's rise right around the storm, and around all.
    inner: u64,
    outer: u64,
}

fn storm(kind: &str, row: &str, source: &str, cause: CauseKind, name: &str) -> Storm {
    actor::prepare();
    let outer = interrupts();
    let watch = watch(&format!("--source {source}"));
    let inner = interrupts();
    actor::run("storm", &format!("storm {kind} 0 1 10 200 50"));
    let inner = rise(&inner, &interrupts(), row, 1);
    let seen = watch.stop();
    let last = interrupts();
    let lost = seen.lost(1, cause, name);
    assert!(lost.total_ns > lost.count * SHORTEST_NS, "{kind}: no time in {lost:?}");
    assert!(lost.histogram.count() + SLACK >= lost.count, "{kind}: durations are missing in {lost:?}");
    // Who raises an interrupt does work of its own and has lost nothing, even where it runs the same function.
    let raiser = seen.lost(0, cause, name).count;
    lies_between(&format!("{kind} on the core that raises it"), raiser, 0, rise(&outer, &last, row, 0));
    Storm { count: lost.count, inner, outer: rise(&outer, &last, row, 1), seen }
}

#[test]
fn tlb_shootdowns_are_those_of_the_kernels_own_row() {
    let Some(_turn) = turn("tlb_shootdowns_are_those_of_the_kernels_own_row", Need::Ebpf) else { return };
    for source in ["ebpf", "plain"] {
        let Storm { count, inner, outer, .. } =
            storm("munmap", "TLB", source, CauseKind::TlbShootdown, "flush_tlb_func");
        assert!(inner >= 1_000, "the kernel raised {inner} shootdowns for 2,000 munmaps");
        lies_between("TLB shootdowns", count, inner, outer);
    }
}

#[test]
fn membarriers_are_functions_called_from_another_core() {
    let Some(_turn) = turn("membarriers_are_functions_called_from_another_core", Need::Ebpf) else { return };
    let Storm { seen, count, inner, .. } = storm("membarrier", "CAL", "best", CauseKind::CallFunction, "ipi_mb");
    // A core that does not run the thread at that moment is not called: on a busy machine there are fewer than 2,000.
    assert!(inner >= 1_000, "the kernel raised {inner} calls for 2,000 membarriers");
    assert!((1_000..=2_000 + SLACK).contains(&count), "2,000 membarriers, {count} counted");
    // Whatever else was called there has a name of its own, and one interrupt may bring several.
    let others = seen.core(1).lost.into_iter().filter(|lost| lost.cause.kind == CauseKind::CallFunction);
    let all: u64 = others.map(|lost| lost.count).sum();
    assert!(all + all / 50 + SLACK >= inner, "{all} functions counted, the kernel counted {inner} interrupts for them");
}

#[test]
fn wake_ups_raise_reschedule_interrupts() {
    let Some(_turn) = turn("wake_ups_raise_reschedule_interrupts", Need::Ebpf) else { return };
    let Storm { count, inner, outer, .. } = storm("wake", "RES", "best", CauseKind::Reschedule, "reschedule");
    assert!(inner >= 1_000, "the kernel raised {inner} reschedules for 2,000 wake-ups");
    lies_between("reschedules", count, inner, outer);
}

#[test]
fn datagrams_on_loopback_are_softirqs_of_the_network() {
    let Some(_turn) = turn("datagrams_on_loopback_are_softirqs_of_the_network", Need::Ebpf) else { return };
    actor::prepare();
    let outer = softirqs();
    let watch = watch("");
    let inner = softirqs();
    actor::run("talker", "udp 0 2000");
    let inner = rise(&inner, &softirqs(), "NET_RX", 0);
    let seen = watch.stop();
    let outer = rise(&outer, &softirqs(), "NET_RX", 0);
    assert!(inner >= 1_000, "the kernel ran NET_RX {inner} times for 2,000 datagrams");
    let lost = seen.lost(0, CauseKind::Softirq, "NET_RX");
    lies_between("NET_RX", lost.count, inner, outer);
    assert!(lost.total_ns > lost.count * SHORTEST_NS, "{lost:?}");
}

#[test]
fn a_device_interrupt_has_the_name_of_its_device() {
    const TEST: &str = "a_device_interrupt_has_the_name_of_its_device";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    actor::prepare();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("blocks");
    let outer = interrupts();
    let watch = watch("");
    let inner = interrupts();
    actor::run("writer", &format!("disk {} 100", file.display()));
    let inner = interrupts().delta(&inner);
    let seen = watch.stop();
    let outer = interrupts().delta(&outer);
    let rows = inner.rows.iter().filter(|row| row.is_device());
    let Some(busiest) = rows.max_by_key(|row| row.total()).filter(|row| row.total() >= 50) else {
        return not_run(TEST, "no device here raises an interrupt for what is written to disk");
    };
    let count: u64 = seen
        .report
        .causes()
        .iter()
        .filter(|lost| lost.cause.kind == CauseKind::DeviceInterrupt && lost.cause.name == busiest.name)
        .map(|lost| lost.count)
        .sum();
    lies_between(&busiest.name, count, busiest.total(), outer.row(&busiest.label).unwrap().total());
}

#[test]
fn user_and_kernel_work_are_told_apart() {
    let Some(_turn) = turn("user_and_kernel_work_are_told_apart", Need::Ebpf) else { return };
    actor::prepare();
    for (mode, source) in [("user", "best"), ("kernel", "best"), ("kernel", "plain")] {
        let watch = watch(&format!("--source {source}"));
        let truth = actor::run("worker", &format!("work {mode} 1 1500"));
        let mut core = watch.stop().core(1);
        core.lost.clear();
        // Without a workload everybody's work counts; most of it is the worker's, which goes before all others.
        let (user_ns, kernel_ns) = (core.user_ns, core.kernel_ns);
        match mode {
            "user" => {
                assert!(number(&truth, "user_ns") > number(&truth, "kernel_ns"));
                assert!(user_ns > 2 * kernel_ns, "{source}: {core:?}");
            }
            _ => {
                assert!(number(&truth, "kernel_ns") > number(&truth, "user_ns"));
                assert!(kernel_ns > user_ns, "{source}: {core:?}");
            }
        }
    }
}
