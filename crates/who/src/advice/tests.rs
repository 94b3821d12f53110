use super::*;
use surefoot_model::{Cause, Certainty, CpuId, Fix, Intruder};

fn interrupt(kind: CauseKind, name: &str) -> Interrupt {
    Interrupt::new(CpuId(1), Cause::new(kind, name), 10, 1)
}

fn by(mut interrupt: Interrupt, syscall: &str, function: &str, user_stack: &[&str]) -> Interrupt {
    interrupt.raisers.push(Raiser {
        certainty: Certainty::Certain,
        function: function.into(),
        syscall: syscall.into(),
        comm: "stats".into(),
        pid: 7,
        tid: 8,
        wakee: String::new(),
        count: 9,
        kernel_stack: Vec::new(),
        user_stack: user_stack.iter().map(|&frame| frame.to_owned()).collect(),
        is_sum: false,
    });
    interrupt
}

fn last(interrupt: &mut Interrupt) -> &mut Raiser {
    interrupt.raisers.last_mut().unwrap()
}

/// Raised in the kernel through this function.
fn through(mut interrupt: Interrupt, function: &str) -> Interrupt {
    interrupt = by(interrupt, "", "flush_tlb_func", &[]);
    last(&mut interrupt).kernel_stack = vec!["smp_call_function_many_cond".into(), function.into()];
    interrupt
}

fn named(mut interrupt: Interrupt, comm: &str) -> Interrupt {
    last(&mut interrupt).comm = comm.into();
    interrupt
}

fn waking(mut interrupt: Interrupt, wakee: &str) -> Interrupt {
    last(&mut interrupt).wakee = wakee.into();
    interrupt
}

fn detail(mut interrupt: Interrupt, detail: &str) -> Interrupt {
    interrupt.detail.push(detail.into());
    interrupt
}

fn of_itself(interrupt: Interrupt, function: &str) -> Interrupt {
    let mut interrupt = named(by(interrupt, "", function, &[]), "(periodic, or armed before)");
    last(&mut interrupt).pid = 0;
    interrupt
}

/// A host that has everything.
fn host() -> HostFacts {
    HostFacts {
        has_nohz_full: true,
        has_rcu_nocb: Some(true),
        has_isolation: Some(true),
        has_systemd: true,
        has_cpuset: true,
        has_workqueue_mask: true,
        damon_off: Vec::new(),
        watched: "1".into(),
        housekeeping: "0".into(),
    }
}

/// A case for each rule; no other rule may apply to it.
fn cases() -> Vec<(&'static str, Interrupt)> {
    use CauseKind::*;
    let shootdown = || interrupt(TlbShootdown, "flush_tlb_func");
    let device = || detail(interrupt(DeviceInterrupt, "virtio1-req.0"), "line 36");
    let timer = || interrupt(Timer, "local_timer");
    let reschedule = || interrupt(Reschedule, "reschedule");
    let thread = |name| interrupt(KernelThread, name);
    vec![
        ("numa-balancing", through(shootdown(), "change_prot_numa")),
        ("fork-beside-a-polling-thread", through(shootdown(), "wp_page_copy.part.0")),
        ("softirqs-on-this-core", interrupt(Softirq, "RCU")),
        ("fork-beside-a-polling-thread", by(shootdown(), "clone", "flush_tlb_func", &["_Fork", "fork", "spawn"])),
        ("unmapped-stdio-buffer", by(shootdown(), "munmap", "flush_tlb_func", &["munmap", "fclose", "read_counter"])),
        ("memory-mapping-beside-a-polling-thread", by(shootdown(), "madvise", "flush_tlb_func", &["madvise", "free"])),
        ("kernel-changes-this-process-s-memory", named(through(shootdown(), "x"), "kdamond.0")),
        ("membarrier", by(interrupt(CallFunction, "ipi_mb"), "membarrier", "ipi_mb", &[])),
        (
            "reader-of-msr-or-cpuid",
            by(interrupt(CallFunction, "__rdmsr_safe_on_cpu"), "pread64", "__rdmsr_safe_on_cpu", &[]),
        ),
        (
            "perf-on-this-core",
            by(interrupt(CallFunction, "remote_function"), "perf_event_open", "remote_function", &[]),
        ),
        ("probe-attached-or-code-patched", by(interrupt(CallFunction, "do_sync_core"), "bpf", "do_sync_core", &[])),
        ("signals-to-this-thread", by(reschedule(), "tgkill", "", &["tgkill", "nudge"])),
        ("woken-from-elsewhere", waking(by(reschedule(), "futex", "", &[]), "poller")),
        ("device-line-on-this-core", detail(device(), "managed: no")),
        ("managed-line-on-this-core", detail(device(), "managed: yes")),
        ("tick-runs", of_itself(timer(), "tick_nohz_handler")),
        ("interval-timer-taken-by-this-thread", by(timer(), "", "it_real_fn", &[])),
        ("profiler-timer", of_itself(timer(), "perf_swevent_hrtimer")),
        ("timer-armed-from-elsewhere", by(timer(), "timer_settime", "posix_timer_fn", &[])),
        ("messages-to-the-console", through(interrupt(Preemption, "bash"), "vprintk_emit")),
        ("console-printing-thread", thread("pr")),
        ("damon", thread("kdamond.0")),
        ("memory-daemon", thread("kswapd0")),
        ("softirq-thread", thread("ksoftirqd")),
        ("stopper-thread", thread("migration")),
        ("rcu-thread", thread("rcu_preempt")),
        ("work-queued-here", by(thread("kworker"), "write", "wb_workfn", &[])),
        ("interrupt-thread", thread("irq/24-ahci")),
        ("kernel-thread-on-this-core", thread("jbd2")),
        ("other-task-on-this-core", by(interrupt(Preemption, "rustc"), "futex", "wake-up", &[])),
    ]
}

#[test]
fn every_rule_fires_on_its_case_and_only_there() {
    let mut untried: Vec<&str> = rules().map(|rule| rule.name).collect();
    for (rule, case) in cases() {
        let advice = advise(&case, &host());
        let names: Vec<_> = advice.iter().map(|advice| advice.rule.as_str()).collect();
        assert_eq!(names, [rule], "{case:?}");
        for text in [&advice[0].evidence, &advice[0].remedy, &advice[0].source] {
            let is_whole = !text.is_empty() && !text.contains("  ") && !text.ends_with([' ', ',', ';', ':']);
            assert!(is_whole, "{rule}: '{text}'");
        }
        untried.retain(|name| *name != rule);
    }
    assert_eq!(untried, [""; 0], "every rule has a case");
}

#[test]
fn only_functions_of_streams_in_the_stack_blame_a_stream() {
    let rule = |stack: &[&str]| {
        let shootdown = by(interrupt(CauseKind::TlbShootdown, "f"), "munmap", "f", stack);
        advise(&shootdown, &host()).into_iter().map(|advice| advice.rule).collect::<Vec<_>>()
    };
    let blames_stream = ["unmapped-stdio-buffer"];
    assert_eq!(rule(&["munmap", "_IO_setb", "_IO_new_file_close_it", "_IO_new_fclose"]), blames_stream);
    assert_eq!(rule(&["__munmap (inlined)", "fclose@@GLIBC_2.2.5+0x40"]), blames_stream);
    // A name that sounds like it is no evidence.
    for stack in [&["munmap", "close_counter", "read_counter_by_stdio"][..], &["munmap", "my_fclose"], &["munmap"]] {
        assert_eq!(rule(stack), ["memory-mapping-beside-a-polling-thread"], "{stack:?}");
    }
}

#[test]
fn the_evidence_names_who_raised_most_and_the_function_that_called() {
    let evidence = |interrupt: &Interrupt| advise(interrupt, &host())[0].evidence.clone();
    let mut shootdown = interrupt(CauseKind::TlbShootdown, "f");
    shootdown.count = 40;
    shootdown = by(shootdown, "munmap", "f", &["__GI_munmap", "close_counter", "main"]);
    assert_eq!(evidence(&shootdown), "9 of 40 arrivals from stats in munmap, called by close_counter");
    // Two of another thread, each rarer, together more.
    for _ in 0..2 {
        shootdown = named(by(shootdown, "madvise", "f", &["0x1234 (stripped)", "main"]), "gc");
        last(&mut shootdown).count = 7;
    }
    assert_eq!(evidence(&shootdown), "23 of 40 arrivals, 14 of them from gc in madvise");
}

#[test]
fn without_a_raiser_nothing_is_advised_about_calls() {
    for kind in [CauseKind::TlbShootdown, CauseKind::CallFunction, CauseKind::Reschedule, CauseKind::Timer] {
        assert_eq!(advise(&interrupt(kind, "f"), &host()), []);
    }
}

/// 950 of 951 reschedules came from `tgkill`, and the advice spoke of the other one.
#[test]
fn advice_rests_on_most_arrivals_and_never_on_a_rare_one() {
    let mut mixed = waking(by(interrupt(CauseKind::Reschedule, "reschedule"), "futex", "", &[]), "poller");
    last(&mut mixed).count = 1;
    mixed = named(by(mixed, "tgkill", "", &["tgkill", "nudge_poller"]), "nudger");
    last(&mut mixed).count = 950;
    mixed.count = 951;
    let advice = advise(&mixed, &host());
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert_eq!((advice[0].rule.as_str(), advice[0].count), ("signals-to-this-thread", 950));
    assert_eq!(advice[0].evidence, "950 of 951 arrivals from nudger in tgkill, called by nudge_poller");
    mixed.raisers[0].count = 400;
    let shares: Vec<(String, u64)> =
        advise(&mixed, &host()).into_iter().map(|advice| (advice.rule, advice.share_ppm)).collect();
    assert_eq!(
        shares,
        [("signals-to-this-thread".into(), 703_703), ("woken-from-elsewhere".into(), 296_296)],
        "the larger one first, and together no more than all"
    );
}

#[test]
fn nothing_is_advised_that_this_host_has_not() {
    let slim = HostFacts {
        has_rcu_nocb: Some(false),
        has_isolation: Some(false),
        damon_off: vec!["echo N > /sys/module/damon_stat/parameters/enabled".into()],
        watched: "1".into(),
        housekeeping: "0".into(),
        ..HostFacts::default()
    };
    let remedy = |rule: &str, host: &HostFacts| {
        let (_, case) = cases().into_iter().find(|(name, _)| *name == rule).unwrap();
        advise(&case, host)[0].remedy.clone()
    };
    let said = |word: &str, host: &HostFacts| cases().iter().any(|(rule, _)| remedy(rule, host).contains(word));
    for word in ["nohz_full=1", "rcu_nocbs=", "systemctl", "isolcpus=1", "managed_irq,1", "cpuset", "workqueue/cpumask"]
    {
        assert!(!said(word, &slim), "{word}");
        let full = HostFacts { has_systemd: word == "systemctl", has_cpuset: word == "cpuset", ..host() };
        assert!(said(word, &full), "{word}");
    }
    assert!(remedy("damon", &slim).contains("echo N > /sys/module/damon_stat/parameters/enabled"));
    assert!(remedy("tick-runs", &slim).contains("CONFIG_NO_HZ_FULL"));
    // What no setting ends is not among what can be done, and says so by its rule.
    let (_, tick) = cases().into_iter().find(|(name, _)| *name == "tick-runs").unwrap();
    assert_eq!(advise(&tick, &slim)[0].rule, Fix::NEEDS_ANOTHER_KERNEL);
    assert_eq!(advise(&tick, &host())[0].rule, "tick-runs");
}

/// A user who pinned a task to a core meant it to be there; it may be the workload itself.
#[test]
fn a_task_that_its_user_pinned_to_the_core_is_named_and_not_moved() {
    let mut tasks = by(interrupt(CauseKind::Preemption, "poller"), "futex", "wake-up", &[]);
    let pinned = Intruder { tid: 80, comm: "poller".into(), allowed: "1".into(), ..Intruder::default() };
    tasks.intruders = vec![pinned.clone()];
    assert_eq!(tasks.cpu, CpuId(1));
    let remedy = |tasks: &Interrupt| advise(tasks, &host())[0].remedy.clone();
    let said = remedy(&tasks);
    assert!(said.contains("poller (thread 80) is pinned to this core alone") && !said.contains("taskset"), "{said}");
    // Another one beside it can be moved.
    tasks.intruders.push(Intruder { tid: 81, allowed: "0-1".into(), ..Intruder::default() });
    let said = remedy(&tasks);
    assert!(said.contains("taskset -pc 0 81; poller (thread 80) is pinned") && !said.contains("0 80"), "{said}");
    // The kernel's own threads are nobody's workload.
    tasks.intruders = vec![Intruder { is_kernel: true, ..pinned }];
    assert!(remedy(&tasks).contains("taskset -pc 0 80"), "{}", remedy(&tasks));
}

#[test]
fn a_thread_is_moved_by_its_number_and_one_that_is_bound_is_not() {
    let mut thread = interrupt(CauseKind::KernelThread, "kdamond.0");
    thread.intruders = vec![Intruder { tid: 71, allowed: "0-1".into(), ..Intruder::default() }];
    assert!(advise(&thread, &host())[0].remedy.ends_with("taskset -pc 0 71"));
    thread.intruders[0].is_bound = true;
    assert!(advise(&thread, &host())[0].remedy.ends_with("so only its work can go elsewhere"));
}

#[test]
fn who_has_ended_is_not_to_be_moved() {
    let mut tasks = by(interrupt(CauseKind::Preemption, "grep"), "clone", "new task", &[]);
    tasks = named(tasks, "bash");
    let task = |tid, allowed: &str| Intruder { tid, allowed: allowed.into(), ..Intruder::default() };
    let remedy = |tasks: &Interrupt| advise(tasks, &host())[0].remedy.clone();
    tasks.intruders = vec![task(70, ""), task(71, "0-1")];
    assert!(remedy(&tasks).contains("taskset -pc 0 71") && !remedy(&tasks).contains("70"), "{}", remedy(&tasks));
    tasks.intruders.truncate(1);
    let said = remedy(&tasks);
    assert!(said.contains("stop what starts them: bash in clone.") && !said.contains("taskset"), "{said}");
    last(&mut tasks).function = "wake-up".into();
    assert!(remedy(&tasks).contains("who starts them was not seen"), "{}", remedy(&tasks));
}

#[test]
fn raisers_that_are_summed_up_do_not_speak_for_the_others() {
    use crate::limit::other;
    let evidence = |interrupt: &Interrupt| advise(interrupt, &host())[0].evidence.clone();
    let sum = |count| other(Certainty::Certain, count);
    for (kind, name) in [(CauseKind::Softirq, "NET_RX"), (CauseKind::Preemption, "rustc")] {
        let mut raised = interrupt(kind, name);
        raised.raisers = vec![sum(32_501)];
        assert_eq!(evidence(&raised), format!("{name} ran 10 times"));
        raised = by(raised, "", "by stats", &[]);
        assert!(evidence(&raised).starts_with(&format!("{name} ran 10 times, 9 times ")), "{}", evidence(&raised));
        raised.count = 1;
        last(&mut raised).count = 1;
        assert!(evidence(&raised).starts_with(&format!("{name} ran once, once ")), "{}", evidence(&raised));
    }
    let mut shootdown = interrupt(CauseKind::TlbShootdown, "f");
    shootdown = by(shootdown, "munmap", "f", &[]);
    let among = [&shootdown.raisers[0], &sum(90)];
    assert_eq!(evidence::raised_by(&shootdown, &among), "99 of 99 arrivals, 9 of them from stats in munmap");
    assert_eq!(evidence::raised_by(&shootdown, &[&sum(90)]), "90 of 90 arrivals from raisers that are not told apart");
}

#[test]
fn work_is_named_by_its_workqueue() {
    let mut work = interrupt(CauseKind::KernelThread, "kworker");
    work.intruders = vec![Intruder { comm: "kworker/1:0+mm_percpu_wq".into(), tid: 9, ..Intruder::default() }];
    assert!(advise(&work, &host())[0].remedy.contains("Work of mm_percpu_wq that is bound"));
}
