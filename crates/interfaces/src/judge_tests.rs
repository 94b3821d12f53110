#![allow(clippy::unwrap_used)]
use super::*;
use surefoot_model::{HealthReporter, InterfaceCounters, ProbeKind, ReporterState, RoundTrips, SelfTest, SelfTestPart};

const SECOND: u64 = 1_000_000_000;

/// All counters, and nothing counted.
fn counters() -> InterfaceCounters {
    let none = Some(0);
    InterfaceCounters {
        rx_packets: none,
        tx_packets: none,
        rx_bytes: none,
        tx_bytes: none,
        rx_errors: none,
        rx_crc_errors: none,
        rx_missed_errors: none,
        rx_dropped: none,
        tx_errors: none,
        tx_dropped: none,
    }
}

fn up() -> Interface {
    Interface {
        counters: counters(),
        name: "eth0".into(),
        is_up: true,
        has_carrier: Some(true),
        tx_timeout_count: Some(5),
        carrier_change_count: Some(0),
        ..Interface::default()
    }
}

fn reporter(state: ReporterState, error_count: u64) -> HealthReporter {
    HealthReporter {
        device: "pci/0000:01:00.0".into(),
        port: None,
        name: "tx".into(),
        state,
        error_count,
        recover_count: 0,
        has_dump: true,
        dump_realtime_ns: None,
        auto_recover: Some(true),
        grace_period_ms: Some(500),
    }
}

fn trips(p50_ns: u64) -> RoundTrips {
    RoundTrips { p50_ns, p99_ns: 2 * p50_ns, max_ns: 3 * p50_ns, count: 20 }
}

fn probe(sent_count: u64, answered_count: u64) -> InterfaceProbe {
    InterfaceProbe {
        peer: "peer".into(),
        kind: ProbeKind::Packet,
        sent_count,
        refused_count: 0,
        answered_count,
        wait_ns: SECOND,
        round_trips: (answered_count > 0).then(|| trips(100_000)),
        baseline: None,
        has_answered: false,
        other_version_count: 0,
    }
}

fn judged(mut now: Interface, before: Option<&Interface>) -> (InterfaceState, Option<Certainty>, String) {
    let looks: Vec<(&Interface, u64)> = before.into_iter().map(|before| (before, 10 * SECOND)).collect();
    judge(&mut now, &looks, &Limits::default());
    (now.state, now.certainty, now.evidence.join("; "))
}

#[test]
fn an_interface_that_nothing_speaks_against_is_ok_and_surer_when_probed() {
    let (state, certainty, why) = judged(up(), Some(&up()));
    assert_eq!((state, certainty), (InterfaceState::Ok, Some(Certainty::Probable)), "{why}");
    let usual = InterfaceProbe { baseline: Some(trips(100_000)), ..probe(20, 20) };
    let (state, certainty, _) = judged(Interface { probe: Some(usual), ..up() }, None);
    assert_eq!((state, certainty), (InterfaceState::Ok, Some(Certainty::Certain)));
    let (state, certainty, why) = judged(Interface { probe: Some(probe(20, 20)), ..up() }, None);
    assert_eq!((state, certainty), (InterfaceState::Ok, Some(Certainty::Probable)));
    assert!(why.contains("no baseline"), "{why}");
}

#[test]
fn one_that_is_off_or_without_a_link_is_unknown() {
    for (off, says) in [
        (Interface { is_up: false, has_carrier: None, ..up() }, "down"),
        (Interface { has_carrier: Some(false), ..up() }, "no link"),
    ] {
        let (state, certainty, why) = judged(off.clone(), Some(&off));
        assert_eq!((state, certainty), (InterfaceState::Unknown, None));
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_reporter_in_a_state_that_is_not_known_is_not_healthy_and_an_old_error_is_no_new_one() {
    let unknown = Interface { reporters: vec![reporter(ReporterState::Unknown, 2)], ..up() };
    assert_eq!(judged(unknown, None).0, InterfaceState::Unknown);
    let after = Interface { reporters: vec![reporter(ReporterState::Healthy, 3)], ..up() };
    assert_eq!(judged(after.clone(), Some(&after)).0, InterfaceState::Ok);
}

#[test]
fn a_stuck_queue_counts_once_it_is_new() {
    let stuck = Interface { tx_timeout_count: Some(6), ..up() };
    let (state, certainty, why) = judged(stuck.clone(), Some(&up()));
    assert_eq!((state, certainty), (InterfaceState::Hung, Some(Certainty::Certain)));
    assert_eq!(why, "1 transmit timeout of a send queue in the last 10 s");
    assert_eq!(judged(stuck.clone(), Some(&stuck)).0, InterfaceState::Ok);
    assert_eq!(judged(up(), Some(&stuck)).0, InterfaceState::Ok, "the driver was loaded anew");
}

#[test]
fn damaged_packets_count_by_their_share_and_number() {
    let with = |rx_packets, rx_errors| Interface {
        counters: InterfaceCounters { rx_packets: Some(rx_packets), rx_errors: Some(rx_errors), ..counters() },
        ..up()
    };
    let before = with(0, 0);
    assert_eq!(judged(with(100, 10), Some(&before)).0, InterfaceState::Ok, "too few");
    assert_eq!(judged(with(100_000, 20), Some(&before)).0, InterfaceState::Ok, "too small a share");
    let (state, _, why) = judged(with(1_000, 20), Some(&before));
    assert_eq!(state, InterfaceState::Losing);
    assert_eq!(why, "1.96 % of its packets were lost in the last 10 s: 20 received with errors");
}

#[test]
fn what_counters_do_not_tell_is_unknown() {
    let missing = Interface { counters: InterfaceCounters { tx_errors: None, ..counters() }, ..up() };
    for before in [None, Some(&missing)] {
        let (state, certainty, why) = judged(missing.clone(), before);
        assert_eq!((state, certainty), (InterfaceState::Unknown, Some(Certainty::CannotTellApartHere)));
        assert_eq!(why, "packet loss unknown: the kernel does not report tx_errors");
    }
    let with =
        |rx_errors| Interface { counters: InterfaceCounters { rx_errors: Some(rx_errors), ..counters() }, ..up() };
    let (state, certainty, why) = judged(with(3), Some(&with(4)));
    assert_eq!((state, certainty), (InterfaceState::Unknown, Some(Certainty::CannotTellApartHere)));
    assert_eq!(why, "packet loss in the last 10 s unknown: counters were reset (rx_errors)");
    // Links that came or went before the reset are not counted any more.
    let changed = |count| Interface { carrier_change_count: Some(count), ..up() };
    assert_eq!(judged(changed(1), Some(&changed(9))).0, InterfaceState::Unknown);
    let probed =
        Interface { probe: Some(InterfaceProbe { baseline: Some(trips(100_000)), ..probe(20, 20) }), ..missing };
    assert_eq!(judged(probed, None).0, InterfaceState::Ok, "it was asked, and answered");
    // A loss that is known stays one.
    let lossy = |rx_packets, rx_errors| Interface {
        counters: InterfaceCounters { rx_packets, rx_errors, tx_errors: None, ..counters() },
        ..up()
    };
    let (state, ..) = judged(lossy(Some(1_000), Some(20)), Some(&lossy(Some(0), Some(0))));
    assert_eq!(state, InterfaceState::Losing);
}

#[test]
fn a_link_that_flaps_or_goes_is_losing() {
    let changed = |count, has_carrier| Interface { carrier_change_count: Some(count), has_carrier, ..up() };
    let before = changed(1, Some(true));
    assert_eq!(judged(changed(4, Some(true)), Some(&before)).0, InterfaceState::Ok);
    assert_eq!(judged(changed(5, Some(true)), Some(&before)).0, InterfaceState::Losing);
    // Silence is explained by the link, and no hang.
    let silent = InterfaceProbe { has_answered: true, ..probe(20, 0) };
    let (state, _, why) = judged(Interface { probe: Some(silent), ..changed(2, Some(false)) }, Some(&before));
    assert_eq!((state, why.as_str()), (InterfaceState::Losing, "link lost in the last 10 s"));
}

#[test]
fn silence_is_a_hang_only_of_a_neighbour_that_ever_answered() {
    let of = |probe| judged(Interface { probe: Some(probe), ..up() }, None);
    let (state, certainty, why) = of(probe(20, 0));
    assert_eq!((state, certainty), (InterfaceState::Unknown, None));
    assert!(why.contains("has never answered"), "{why}");
    let (state, certainty, _) = of(InterfaceProbe { has_answered: true, ..probe(20, 0) });
    assert_eq!((state, certainty), (InterfaceState::Hung, Some(Certainty::Probable)));
    assert_eq!(of(InterfaceProbe { refused_count: 20, ..probe(0, 0) }).0, InterfaceState::Hung);
    // A neighbour with another release is no interface that hangs.
    let other = InterfaceProbe { has_answered: true, other_version_count: 20, ..probe(20, 0) };
    let (state, _, why) = of(other);
    assert!(state == InterfaceState::Unknown && why.contains("another release"), "{why}");
    assert_eq!(of(probe(20, 19)).0, InterfaceState::Ok, "one is chance");
    assert_eq!(of(probe(20, 18)).0, InterfaceState::Losing);
}

#[test]
fn slow_is_against_what_is_usual_or_allowed() {
    let with = |p50_ns, usual| Interface {
        probe: Some(InterfaceProbe { round_trips: Some(trips(p50_ns)), baseline: usual, ..probe(20, 20) }),
        ..up()
    };
    let usual = Some(trips(100_000));
    assert_eq!(judged(with(500_000, None), None).0, InterfaceState::Ok, "nothing to compare with");
    assert_eq!(judged(with(500_000, usual), None).0, InterfaceState::Ok);
    let (state, certainty, why) = judged(with(500_001, usual), None);
    assert_eq!((state, certainty), (InterfaceState::Slow, Some(Certainty::Probable)));
    assert_eq!(why, "median round trip to peer: 500 us, usually 100 us");
    let mut allowed = with(500_001, None);
    judge(&mut allowed, &[], &Limits { slow_over_ns: Some(500_000), ..Limits::default() });
    assert_eq!((allowed.state, allowed.certainty), (InterfaceState::Slow, Some(Certainty::Certain)));
}

#[test]
fn the_worst_claim_gives_the_state_and_all_are_evidence() {
    let test = SelfTest {
        is_offline: true,
        has_passed: false,
        parts: vec![SelfTestPart { name: "Loopback test".into(), value: 13 }],
        why_not: None,
    };
    let then = Interface { reporters: vec![reporter(ReporterState::Error, 1)], ..up() };
    let (state, _, why) = judged(Interface { self_test: Some(test), ..then.clone() }, Some(&then));
    assert_eq!(state, InterfaceState::Hung);
    assert!(why.ends_with("; the driver's self-test failed: Loopback test 13"), "{why}");
}
