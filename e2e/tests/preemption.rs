//! Who took the core from a workload that wanted to run, and what counts as a workload.

use surefoot_e2e::actor;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::number;
use surefoot_e2e::watched::watch;
use surefoot_model::CauseKind;
use surefoot_testkit::not_run::not_run;

/// Processor time that the intruder uses.
const INTRUDER_MS: u64 = 400;

/// What the hypervisor has taken from a core so far, nanoseconds. The kernel counts it in no task's processor time, and the ledger, of
/// which the clock goes on, in whatever ran.
fn stolen_ns(cpu: u32) -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} "))).unwrap();
    let ticks: u64 = line.split_ascii_whitespace().nth(7).unwrap().parse().unwrap();
    // In ticks of 10 ms, of which one may not be over.
    (ticks + 1) * 10_000_000
}

/// What the ledger says of the intruder, against the processor time that it says itself: equal within 15 %, but for what the hypervisor
/// took meanwhile.
///
/// The rest of the machine may run on the core, too; it has rows of its own. Without a named workload one of its tasks may
/// even be the first that was preempted there, to whom the core then belongs: the spinner has a row of its own in that case,
/// and `false` comes back.
fn is_preempted_by_the_intruder(options: &str, spinner: &actor::Actor) -> bool {
    let options = options.replace("PID", &spinner.pid().to_string());
    let watch = watch(&options);
    let stolen_before_ns = stolen_ns(1);
    let truth = actor::run("intruder", &format!("burn 1 {INTRUDER_MS}"));
    let seen = watch.stop();
    let stolen = (stolen_ns(1) - stolen_before_ns) as f64;
    let used_ns = number(&truth, "cpu_ns") as f64;
    let lost = seen.lost(1, CauseKind::Preemption, "intruder");
    let ratio = lost.total_ns as f64 / used_ns;
    let ratio_max = 1.15 + stolen / used_ns;
    if seen.lost(1, CauseKind::Preemption, "spinner").total_ns > 0 {
        assert!(!options.contains("spinner") && !options.contains("--pid"), "{options}: the workload preempts nobody");
        assert!(ratio <= ratio_max, "{options}: {ratio:.3} of {used_ns} ns, {stolen} ns stolen: {lost:?}");
        return false;
    }
    assert!((0.85..=ratio_max).contains(&ratio), "{options}: {ratio:.3} of {used_ns} ns, {stolen} ns stolen: {lost:?}");
    assert!(lost.count > 0 && lost.max_ns <= lost.total_ns, "{options}: {lost:?}");
    assert_eq!(lost.while_idle_ns, 0, "{options}: a spinning core is not idle");
    true
}

#[test]
fn an_intruder_is_named_with_what_it_took() {
    let Some(_turn) = turn("an_intruder_is_named_with_what_it_took", Need::Ebpf) else { return };
    actor::prepare();
    let spinner = actor::start("spinner", "spin 1 60000");
    for workload in ["--pid PID", "--comm spinner", "--pid PID --source plain"] {
        assert!(is_preempted_by_the_intruder(workload, &spinner));
    }
}

/// On a named core everybody is the workload, so whoever runs while another waits takes time from it; also when there
/// are more than two of them, as on a busy machine.
#[test]
fn an_intruder_on_a_named_core_is_named_with_what_it_took() {
    const NAME: &str = "an_intruder_on_a_named_core_is_named_with_what_it_took";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    let spinner = actor::start("spinner", "spin 1 60000");
    let _third = actor::start("third", "nap 1 60000");
    if !is_preempted_by_the_intruder("--cpu 1", &spinner) {
        not_run(NAME, "the machine is busy: the core belonged to another task first");
    }
}

/// What counts as lost on named cores is told where it is, and may be left out.
#[test]
fn whose_preemption_counts_is_told_and_on_named_cores_may_be_left_out() {
    let Some(_turn) = turn("whose_preemption_counts_is_told_and_on_named_cores_may_be_left_out", Need::Ebpf) else {
        return;
    };
    let cores = "; workload: the task that each core belongs to (--workload none leaves it out)";
    let nobody = "; no workload named: tasks that preempt each other lose nothing";
    let options = [("", nobody), ("--workload none", nobody), ("--workload cores", cores), ("--cpu 1", cores)];
    for (options, told) in options.into_iter().chain([("--cpu 1 --workload none", nobody)]) {
        let report = surefoot("stall report --duration 300ms").words(options).run();
        report.expect_code(0);
        let line = report.stdout.lines().nth(1).unwrap_or_default();
        assert!(line.ends_with(told), "{options}: {line}");
    }
    actor::prepare();
    let _spinner = actor::start("spinner", "spin 1 60000");
    for (options, is_counted) in [("--cpu 1", true), ("--workload cores", true), ("--cpu 1 --workload none", false)] {
        let watch = watch(options);
        actor::run("intruder", &format!("burn 1 {INTRUDER_MS}"));
        let lost = watch.stop().core(1).lost;
        // Whoever the core belongs to on a busy machine, somebody takes it from him.
        let is_preempted = lost.iter().any(|lost| lost.cause.kind == CauseKind::Preemption && lost.total_ns > 0);
        assert_eq!(is_preempted, is_counted, "{options}: {lost:?}");
    }
}

#[test]
fn without_a_workload_nobody_preempts_anybody() {
    let Some(_turn) = turn("without_a_workload_nobody_preempts_anybody", Need::Ebpf) else { return };
    actor::prepare();
    let _spinner = actor::start("spinner", "spin 1 60000");
    let watch = watch("");
    let truth = actor::run("intruder", &format!("burn 1 {INTRUDER_MS}"));
    let seen = watch.stop();
    assert!(seen.report.causes().iter().all(|lost| lost.cause.kind != CauseKind::Preemption), "{:?}", seen.report);
    let core = seen.core(1);
    let work_ns = core.user_ns + core.kernel_ns;
    assert!(work_ns as f64 > 0.85 * number(&truth, "cpu_ns") as f64, "{core:?}");
    assert!(core.user_ns > core.kernel_ns, "two loops in user mode: {core:?}");
}

#[test]
fn the_workload_itself_is_work_and_not_lost() {
    let Some(_turn) = turn("the_workload_itself_is_work_and_not_lost", Need::Ebpf) else { return };
    actor::prepare();
    let spinner = actor::start("spinner", "spin 1 60000");
    let mut watch = watch(&format!("--pid {}", spinner.pid()));
    std::thread::sleep(std::time::Duration::from_millis(500));
    watch.catch_up();
    let seen = watch.stop();
    assert_eq!(seen.lost(1, CauseKind::Preemption, "spinner").total_ns, 0);
    assert!(seen.core(1).user_ns > 0);
    let host = seen.report.host.as_ref().unwrap();
    assert!(host.workload.contains(&spinner.pid().to_string()), "the workload is named: {}", host.workload);
}
