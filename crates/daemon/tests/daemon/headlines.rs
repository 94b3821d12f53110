//! What is said of twelve hosts, for people to read: `tests/golden/headlines.txt`.

use crate::data::{SECOND_NS, core, gap, lost, untraced_gap, window};
use std::path::Path;
use surefoot_model::{Cause, CauseKind, Certainty, CoreLedger, Gap, Lost, Verdict, Waiting};
use surefoot_rooms::stall::findings;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

struct Host {
    what: &'static str,
    cores: Vec<CoreLedger>,
    gaps: Vec<Gap>,
    is_traced: bool,
}

fn host(what: &'static str, cores: Vec<CoreLedger>) -> Host {
    Host { what, cores, gaps: Vec::new(), is_traced: true }
}

/// Without privilege: the kernel's own counters.
fn counted_host(what: &'static str, cores: Vec<CoreLedger>) -> Host {
    Host { is_traced: false, ..host(what, cores) }
}

fn timer() -> Lost {
    lost(CauseKind::Timer, "local_timer", 250, 4 * US)
}

/// A sum without occurrences, as the kernel's counters have it.
fn counted(kind: CauseKind, name: &str, total_ns: u64) -> Lost {
    Lost::new(Cause::new(kind, name), 0, total_ns, 0)
}

fn nobody_s(lost: Lost) -> Lost {
    Lost { while_idle_ns: lost.total_ns, ..lost }
}

fn hosts() -> Vec<Host> {
    let kdamond = || nobody_s(lost(CauseKind::KernelThread, "kdamond.0", 8, 1_200 * US));
    let shootdowns = |ms: u64| lost(CauseKind::TlbShootdown, "flush_tlb_func", ms * 100, 10 * US);
    let idle =
        |cpu| core(cpu, 983 * MS, vec![kdamond(), nobody_s(lost(CauseKind::Timer, "local_timer", 20, 3 * US))], 0);
    let storm = |cpu, ms| core(cpu, 100 * MS, vec![shootdowns(ms), timer()], 0);
    let steal = |cpu, ms: u64| core(cpu, 600 * MS, vec![counted(CauseKind::Hypervisor, "steal", ms * MS), timer()], 0);
    let stopped = untraced_gap(1, 9 * SECOND_NS, 12 * MS, Verdict::Undetermined, Certainty::CannotTellApartHere);
    let kswapd = lost(CauseKind::KernelThread, "kswapd0", 20, 2 * MS);
    let throttled =
        Waiting { count: 30, total_ns: 4 * MS, throttled_count: 10, throttled_ns: 500 * MS, ..Waiting::default() };
    vec![
        host("idle, while a kernel thread works where nobody waits", vec![idle(0), idle(1)]),
        host("a busy single core", vec![core(0, 100 * MS, vec![lost(CauseKind::Softirq, "NET_RX", 900, 30 * US)], 0)]),
        host(
            "mixed work, one core that reclaims memory",
            vec![
                core(0, 500 * MS, vec![timer()], 0),
                core(1, 400 * MS, vec![timer()], 0),
                core(2, 300 * MS, vec![kswapd, timer()], 0),
                core(3, 600 * MS, vec![timer()], 0),
            ],
        ),
        host("a guest whose hypervisor gives its time to others", vec![steal(0, 30), steal(1, 80)]),
        counted_host(
            "without privilege, in steps of 10 ms",
            vec![core(0, 900 * MS, vec![counted(CauseKind::Softirq, "not told apart", 10 * MS)], 0)],
        ),
        counted_host(
            "without privilege, where the counters rose by no step",
            vec![core(0, 470 * MS, vec![], 0), core(1, 470 * MS, vec![], 0)],
        ),
        counted_host(
            "without privilege, under a network load",
            vec![core(0, 200 * MS, vec![counted(CauseKind::Softirq, "not told apart", 80 * MS)], 0)],
        ),
        Host {
            what: "an isolated core that polls",
            cores: vec![core(3, 0, vec![lost(CauseKind::Timer, "local_timer", 4, 2 * US)], 0)],
            gaps: vec![gap(3, 9 * SECOND_NS, 85 * US)],
            is_traced: true,
        },
        host("a storm of shootdowns", vec![storm(0, 60), storm(1, 140), storm(2, 90), storm(3, 2)]),
        Host {
            what: "a stop that nothing explains",
            cores: vec![core(0, 700 * MS, vec![timer()], 0), core(1, 700 * MS, vec![timer()], 12 * MS)],
            gaps: vec![stopped],
            is_traced: true,
        },
        host(
            "one of 128 cores",
            (0..128)
                .map(|cpu| core(cpu, 800 * MS, vec![shootdowns(if cpu == 77 { 25 } else { 0 }), timer()], 0))
                .collect(),
        ),
        host(
            "a cgroup whose quota is used up",
            vec![CoreLedger { waiting: Some(throttled), ..core(0, 500 * MS, vec![timer()], 0) }],
        ),
    ]
}

#[test]
fn twelve_hosts_in_one_sentence_each() {
    let mut text = String::new();
    for host in hosts() {
        let of = if host.is_traced { findings::of } else { findings::of_counters };
        let finding = of(&[window(10 * SECOND_NS, host.cores)], &host.gaps);
        let severity = serde_json::to_value(finding.severity).unwrap();
        text += &format!("# {}\n{}: {}\n", host.what, severity.as_str().unwrap(), finding.sentence);
        finding.evidence.iter().for_each(|line| text += &format!("    {line}\n"));
        text += "\n";
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/headlines.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "UPDATE_GOLDEN=1 cargo test -p surefoot-daemon writes it anew");
}

/// An alarm on a host that does next to nothing is about a share of next to nothing.
#[test]
fn a_host_that_is_nearly_idle_never_alarms_over_shares() {
    for busy_ms in [1, 5, 20, 49] {
        let half = lost(CauseKind::KernelThread, "kworker", busy_ms * 5, 100 * US);
        let finding =
            findings::of(&[window(10 * SECOND_NS, vec![core(0, (1_000 - busy_ms) * MS, vec![half], 0)])], &[]);
        assert!(finding.severity < surefoot_model::Severity::Warning, "{busy_ms} ms busy: {}", finding.sentence);
    }
}
