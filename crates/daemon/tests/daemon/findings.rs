use crate::data::{SECOND_NS, core, gap, lost, untraced_gap, window};
use surefoot_model::{Cause, CauseKind, Certainty, CoreLedger, CpuId, Gap, Lost, Severity, Verdict, Waiting, Window};
use surefoot_rooms::stall::findings;

fn check(cores: Vec<CoreLedger>, gaps: &[Gap], severity: Severity, sentence: &str) {
    check_windows(&[window(10 * SECOND_NS, cores)], gaps, severity, sentence);
}

fn check_windows(windows: &[Window], gaps: &[Gap], severity: Severity, sentence: &str) {
    let finding = findings::of(windows, gaps);
    assert_eq!(finding.sentence, sentence);
    assert_eq!(finding.severity, severity, "{sentence}");
}

fn timer(count: u64) -> Lost {
    lost(CauseKind::Timer, "local_timer", count, 4_000)
}

fn shootdowns(total_ns: u64) -> Lost {
    lost(CauseKind::TlbShootdown, "flush_tlb_func", total_ns / 10_000, 10_000)
}

#[test]
fn quiet_hosts() {
    let quiet = |cpu| core(cpu, 0, vec![timer(250)], 0);
    check(
        vec![quiet(3)],
        &[],
        Severity::Ok,
        "Core 3 is 100 % busy and lost 0.1 % of that; no interruption longer than 4.0 us (timer).",
    );
    check(
        vec![quiet(0), quiet(1)],
        &[],
        Severity::Ok,
        "Both cores are 100 % busy and lost 0.1 % of that; no interruption longer than 4.0 us (timer).",
    );
    check(
        (0..8).map(quiet).collect(),
        &[gap(2, 9 * SECOND_NS, 85_000)],
        Severity::Ok,
        "All 8 cores are 100 % busy and lost 0.1 % of that; no gap longer than 85 us (softirq net_rx).",
    );
    check(
        vec![core(0, 0, vec![], 0), core(1, 0, vec![], 0)],
        &[],
        Severity::Ok,
        "Both cores are 100 % busy and lost nothing.",
    );
    check(
        vec![core(0, 995_000_000, vec![timer(200)], 0)],
        &[],
        Severity::Ok,
        "Core 0 is almost idle (0.5 % busy) and lost 800 us per second; no interruption longer than 4.0 us (timer).",
    );
}

#[test]
fn interrupts_while_idle_delayed_nobody() {
    let idle = Lost { while_idle_ns: 1_000_000, ..timer(250) };
    check(vec![core(0, 900_000_000, vec![idle], 0)], &[], Severity::Ok, "Core 0 is 9.9 % busy and lost nothing.");
}

#[test]
fn a_high_share_of_little_work_is_not_loud() {
    // 0.9 ms of 20 ms of work is 4.5 %, but less than 1 ms/s.
    check(
        vec![core(0, 980_000_000, vec![timer(225)], 0)],
        &[],
        Severity::Ok,
        "Core 0 is 2.0 % busy and lost 4.5 % of that; no interruption longer than 4.0 us (timer).",
    );
}

#[test]
fn one_core_loses_much() {
    check(
        vec![core(0, 0, vec![timer(250)], 0), core(1, 0, vec![shootdowns(30_000_000), timer(250)], 0)],
        &[],
        Severity::Notice,
        "Both cores are 100 % busy. Core 1 lost 31 ms per second, 3.1 % of its busy time, most of it to TLB shootdowns; \
         no interruption longer than 10 us (TLB shootdown).",
    );
    check(
        vec![core(1, 500_000_000, vec![shootdowns(50_000_000)], 0)],
        &[],
        Severity::Warning,
        "Core 1 is 50 % busy and lost 50 ms per second, 10 % of that, most of it to TLB shootdowns; \
         no interruption longer than 10 us (TLB shootdown).",
    );
}

#[test]
fn several_cores_lose_much() {
    let loud = |cpu, total_ns| core(cpu, 0, vec![shootdowns(total_ns)], 0);
    let quiet = |cpu| core(cpu, 0, vec![timer(250)], 0);
    let rest = "most of it to TLB shootdowns; no interruption longer than 10 us (TLB shootdown).";
    check(
        vec![loud(0, 20_000_000), loud(1, 30_000_000)],
        &[],
        Severity::Notice,
        &format!(
            "Both cores are 100 % busy. Both lost time, core 1 most: 30 ms per second, 3.0 % of its busy time, {rest}"
        ),
    );
    check(
        vec![loud(0, 20_000_000), loud(4, 40_000_000), quiet(5), quiet(6)],
        &[],
        Severity::Notice,
        &format!(
            "All 4 cores are 100 % busy. 2 of them lost time, core 4 most: 40 ms per second, 4.0 % of its busy time, {rest}"
        ),
    );
    check(
        (0..3).map(|cpu| loud(cpu, 40_000_000)).collect(),
        &[],
        Severity::Notice,
        &format!(
            "All 3 cores are 100 % busy. All 3 lost time, core 0 most: 40 ms per second, 4.0 % of its busy time, {rest}"
        ),
    );
}

#[test]
fn causes_in_words() {
    let sentence = |lost: Vec<Lost>, unexplained_ns| {
        let finding = findings::of(&[window(10 * SECOND_NS, vec![core(0, 0, lost, unexplained_ns)])], &[]);
        let (_, rest) = finding.sentence.split_once("of that, ").unwrap();
        rest.split_once("; no interruption longer than").unwrap().0.to_owned()
    };
    let ms = |kind, name: &str, ms: u64| lost(kind, name, ms * 100, 10_000);
    let cases = [
        (ms(CauseKind::Smi, "", 20), "most of it to SMIs"),
        (ms(CauseKind::Hypervisor, "steal", 20), "most of it to the hypervisor (at least; steal time misses some)"),
        (ms(CauseKind::Nmi, "perf", 20), "most of it to NMIs of perf"),
        (ms(CauseKind::MachineCheck, "threshold", 20), "most of it to machine-check interrupts"),
        (ms(CauseKind::DeviceInterrupt, "eth0-rx-1", 20), "most of it to device interrupts of eth0-rx-1"),
        (ms(CauseKind::Timer, "local_timer", 20), "most of it to the timer"),
        (ms(CauseKind::CallFunction, "rdmsr_safe", 20), "most of it to calls from other cores of rdmsr_safe"),
        (ms(CauseKind::Reschedule, "", 20), "most of it to reschedule interrupts"),
        (ms(CauseKind::IrqWork, "", 20), "most of it to irq_work"),
        (ms(CauseKind::Softirq, "net_rx", 20), "most of it to softirqs, above all net_rx"),
        (ms(CauseKind::KernelThread, "kswapd0", 20), "most of it to kernel threads, above all kswapd0"),
        (ms(CauseKind::Preemption, "stress-ng", 20), "most of it to other tasks, above all stress-ng"),
        (ms(CauseKind::OtherInterrupt, "", 20), "most of it to other interrupts"),
    ];
    for (lost, expected) in cases {
        assert_eq!(sentence(vec![lost], 0), expected);
    }
    let (timer, tlb, softirq) = (
        ms(CauseKind::Timer, "local_timer", 10),
        ms(CauseKind::TlbShootdown, "", 9),
        ms(CauseKind::Softirq, "rcu", 10),
    );
    assert_eq!(
        sentence(vec![timer.clone(), tlb.clone(), softirq.clone()], 0),
        "mainly to the timer and softirqs, above all rcu"
    );
    let many = [ms(CauseKind::Nmi, "", 9), ms(CauseKind::Reschedule, "", 9), timer, tlb, softirq].to_vec();
    assert_eq!(sentence(many, 0), "to many causes, the largest being the timer");
    let two_names = vec![ms(CauseKind::Softirq, "rcu", 10), ms(CauseKind::Softirq, "timer", 10)];
    assert_eq!(sentence(two_names, 0), "most of it to softirqs", "neither name stands for the kind");
}

#[test]
fn unexplained_time_is_said_above_five_percent_of_lost_and_unexplained() {
    let sentence = |unexplained_ns| {
        let cores = vec![core(0, 0, vec![shootdowns(30_000_000)], unexplained_ns)];
        findings::of(&[window(10 * SECOND_NS, cores)], &[]).sentence
    };
    assert!(!sentence(1_500_000).contains("unexplained"), "{}", sentence(1_500_000));
    assert_eq!(
        sentence(10_000_000),
        "Core 0 is 100 % busy and lost 30 ms per second, 3.0 % of that, most of it to TLB shootdowns; another 10 ms per \
         second unexplained; no interruption longer than 10 us (TLB shootdown)."
    );
    assert_eq!(
        sentence(70_000_000),
        "Core 0 is 100 % busy and lost 30 ms per second, 3.0 % of that, most of it to TLB shootdowns; another 70 ms per \
         second unexplained; no interruption longer than 10 us (TLB shootdown)."
    );
    check(
        vec![core(0, 0, vec![timer(250)], 1_000_000)],
        &[],
        Severity::Ok,
        "Core 0 is 100 % busy and lost 0.1 % of that; 0.1 % of that unexplained; \
         no interruption longer than 4.0 us (timer).",
    );
}

#[test]
fn unexplained_time_is_never_called_lost() {
    let unexplained = |cpu, ns| core(cpu, 0, Vec::new(), ns);
    check(
        vec![unexplained(0, 1_000_000)],
        &[],
        Severity::Ok,
        "Core 0 is 100 % busy and lost nothing to a known cause; 0.1 % of that unexplained.",
    );
    let warning = |cores, sentence| check(cores, &[], Severity::Warning, sentence);
    warning(
        vec![unexplained(0, 100_000_000)],
        "Core 0 is 100 % busy and has 100 ms per second, 10 % of that, unexplained.",
    );
    warning(
        vec![unexplained(0, 100_000_000), core(1, 0, vec![timer(250)], 0)],
        "Both cores are 100 % busy. Core 0 has 100 ms per second, 10 % of its busy time, unexplained; no interruption \
         longer than 4.0 us (timer).",
    );
    warning(
        vec![unexplained(0, 100_000_000), core(1, 0, vec![shootdowns(60_000_000)], 0)],
        "Both cores are 100 % busy. Both have lost or unexplained time, core 0 most: 100 ms per second, 10 % of its busy \
         time, unexplained; no interruption longer than 10 us (TLB shootdown).",
    );
}

#[test]
fn a_long_stall_is_named_with_its_certainty() {
    let quiet = || vec![core(0, 0, vec![timer(250)], 0), core(1, 0, vec![timer(250)], 0)];
    let only_gap = |duration_ns, verdict, certainty| [untraced_gap(1, 9 * SECOND_NS, duration_ns, verdict, certainty)];
    let cases = [
        (Verdict::Smi, Certainty::Certain, "SMI"),
        (Verdict::SmiLike, Certainty::Probable, "probably an SMI"),
        (Verdict::CorrectedErrorLogging, Certainty::Probable, "probably the logging of a corrected error"),
        (Verdict::HypervisorScheduled, Certainty::Certain, "the hypervisor scheduled another task"),
        (Verdict::HypervisorUnaccounted, Certainty::Probable, "probably the hypervisor, unaccounted"),
        (
            Verdict::PauseOrSmi,
            Certainty::CannotTellApartHere,
            "a pause of this machine, or an SMI of the hypervisor's machine: cannot be told apart here",
        ),
        (Verdict::HardwareThisCore, Certainty::Probable, "probably hardware of this core"),
        (Verdict::Undetermined, Certainty::CannotTellApartHere, "cause undetermined"),
    ];
    for (verdict, certainty, why) in cases {
        check(
            quiet(),
            &only_gap(12_000_000, verdict, certainty),
            Severity::Warning,
            &format!("Both cores are 100 % busy and lost 0.1 % of that; the longest gap took 12 ms on core 1 ({why})."),
        );
    }
    check(
        quiet(),
        &only_gap(1_200_000, Verdict::Smi, Certainty::Certain),
        Severity::Notice,
        "Both cores are 100 % busy and lost 0.1 % of that; the longest gap took 1.2 ms on core 1 (SMI).",
    );
    check(
        vec![core(1, 0, vec![shootdowns(30_000_000)], 0)],
        &only_gap(2_000_000, Verdict::Smi, Certainty::Certain),
        Severity::Notice,
        "Core 1 is 100 % busy and lost 30 ms per second, 3.0 % of that, most of it to TLB shootdowns; \
         the longest gap took 2.0 ms (SMI).",
    );
}

#[test]
fn a_gap_that_is_mostly_traced_is_blamed_on_its_largest_cause() {
    let mut mixed = gap(1, 9 * SECOND_NS, 2_000_000);
    (mixed.unexplained_ns, mixed.verdict, mixed.certainty) =
        (900_000, Verdict::HypervisorUnaccounted, Certainty::Probable);
    let expected =
        |why: &str| format!("Core 1 is 100 % busy and lost 0.1 % of that; the longest gap took 2.0 ms ({why}).");
    let cores = || vec![core(1, 0, vec![timer(250)], 0)];
    check(cores(), &[mixed.clone()], Severity::Notice, &expected("softirq net_rx"));
    mixed.unexplained_ns = 1_100_000;
    check(cores(), &[mixed.clone()], Severity::Notice, &expected("probably the hypervisor, unaccounted"));
    // A context that had the core and was perhaps stopped with it.
    mixed.unexplained_ns = 0;
    (mixed.verdict, mixed.certainty) = (Verdict::HypervisorScheduled, Certainty::Probable);
    check(cores(), &[mixed.clone()], Severity::Notice, &expected("probably the hypervisor scheduled another task"));
    for (certainty, why) in [
        (Certainty::Certain, "softirq net_rx"),
        (Certainty::Probable, "probably softirq net_rx"),
        (Certainty::CannotTellApartHere, "softirq net_rx or a stop of several cores"),
    ] {
        (mixed.verdict, mixed.certainty) = (Verdict::Traced, certainty);
        check(cores(), &[mixed.clone()], Severity::Notice, &expected(why));
    }
}

#[test]
fn the_longest_occurrence_is_that_of_these_windows() {
    let longest = |max_ns| Lost { max_ns, ..timer(250) };
    let at = |second: u64, lost| window(second * SECOND_NS, vec![core(0, 0, vec![lost], 0)]);
    check_windows(
        &[at(10, longest(3_800)), at(11, longest(3_500))],
        &[],
        Severity::Ok,
        "Core 0 is 100 % busy and lost 0.1 % of that; no interruption longer than 3.8 us (timer).",
    );
    check_windows(
        &[at(10, Lost { total_ns: 61_000_000, ..longest(60_000_000) }), at(11, longest(3_800))],
        &[],
        Severity::Warning,
        "Core 0 is 100 % busy and lost 31 ms per second, 3.1 % of that, most of it to the timer; \
         the longest interruption took 60 ms (timer).",
    );
}

#[test]
fn a_source_that_does_not_know_lengths_claims_none() {
    let counted = |total_ns| Lost::new(Cause::new(CauseKind::Softirq, ""), 0, total_ns, 0);
    check(
        vec![core(0, 0, vec![counted(60_000_000)], 0)],
        &[],
        Severity::Warning,
        "Core 0 is 100 % busy and lost 60 ms per second, 6.0 % of that, most of it to softirqs; \
         how long single interruptions were is not known.",
    );
}

/// Steal is a sum alone; the timer's interrupts are seen one by one beside it.
#[test]
fn a_kind_without_lengths_does_not_hide_those_that_are_known() {
    let stolen = Lost::new(Cause::new(CauseKind::Hypervisor, "steal"), 0, 60_000_000, 0);
    check(
        vec![core(0, 0, vec![stolen, timer(250)], 0)],
        &[],
        Severity::Warning,
        "Core 0 is 100 % busy and lost 61 ms per second, 6.1 % of that, most of it to the hypervisor (at least; steal time misses some); \
         no other interruption longer than 4.0 us (timer); of hypervisor time only the sum is known.",
    );
}

#[test]
fn a_source_that_counts_in_steps_gives_no_share_of_a_few_of_them() {
    let counted = |total_ns| Lost::new(Cause::new(CauseKind::Softirq, ""), 0, total_ns, 0);
    // All of the core's busy time was one sample of a softirq.
    let quiet = CoreLedger { idle_ns: 990_000_000, user_ns: 0, ..core(0, 0, vec![counted(10_000_000)], 0) };
    check(
        vec![quiet],
        &[],
        Severity::Ok,
        "Core 0 is 1.0 % busy and lost 10 ms, counted in steps of 10 ms; \
         how long single interruptions were is not known.",
    );
}

#[test]
fn windows_add_up_and_numbers_without_sense_do_no_harm() {
    let windows: Vec<Window> =
        (1..=3).map(|second| window(second * SECOND_NS, vec![core(0, 0, vec![shootdowns(20_000_000)], 0)])).collect();
    check_windows(
        &windows,
        &[],
        Severity::Notice,
        "Core 0 is 100 % busy and lost 20 ms per second, 2.0 % of that, most of it to TLB shootdowns; \
         no interruption longer than 10 us (TLB shootdown).",
    );
    let hostile = CoreLedger {
        wall_ns: 0,
        idle_ns: u64::MAX,
        lost: vec![Lost { while_idle_ns: 7, ..Lost::new(Cause::new(CauseKind::Timer, "\n"), 1, u64::MAX, u64::MAX) }],
        unexplained_ns: u64::MAX,
        waiting: Some(Waiting { total_ns: u64::MAX, throttled_count: 1, throttled_ns: u64::MAX, ..Waiting::default() }),
        ..core(0, 0, vec![], 0)
    };
    let another = CoreLedger { cpu: CpuId(1), ..hostile.clone() };
    let hostile_window = window(SECOND_NS, vec![hostile, another]);
    let finding = findings::of(&[hostile_window.clone(), hostile_window], &[]);
    assert!(finding.sentence.starts_with("Both cores are almost idle (0 % busy)"), "{}", finding.sentence);
}
