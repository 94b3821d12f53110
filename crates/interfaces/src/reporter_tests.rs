#![allow(clippy::unwrap_used)]
use super::*;
use crate::judge::{Limits, judge};
use surefoot_model::{InterfaceCounters, InterfaceProbe, ProbeKind};

const SECOND: u64 = 1_000_000_000;

fn reporter(name: &str, state: ReporterState, error_count: u64) -> HealthReporter {
    HealthReporter {
        device: "pci/0000:01:00.0".into(),
        port: None,
        name: name.into(),
        state,
        error_count,
        recover_count: 0,
        has_dump: false,
        dump_realtime_ns: None,
        auto_recover: Some(false),
        grace_period_ms: Some(500),
    }
}

fn in_error(name: &str) -> HealthReporter {
    reporter(name, ReporterState::Error, 3)
}

/// One that is up, with so many packets sent and received.
fn up(reporters: Vec<HealthReporter>, sent: u64, received: u64) -> Interface {
    let none = Some(0);
    let counters = InterfaceCounters {
        rx_packets: Some(received),
        tx_packets: Some(sent),
        rx_errors: none,
        rx_missed_errors: none,
        tx_errors: none,
        ..InterfaceCounters::default()
    };
    Interface {
        name: "eth0".into(),
        is_up: true,
        has_carrier: Some(true),
        carrier_change_count: Some(0),
        tx_timeout_count: Some(0),
        counters,
        reporters,
        ..Interface::default()
    }
}

/// A neighbour that answered before and answers nothing now.
fn silence() -> InterfaceProbe {
    InterfaceProbe {
        peer: "peer".into(),
        kind: ProbeKind::Packet,
        sent_count: 20,
        refused_count: 0,
        answered_count: 0,
        wait_ns: SECOND,
        round_trips: None,
        baseline: None,
        has_answered: true,
        other_version_count: 0,
    }
}

fn judged(mut now: Interface, looks: &[(&Interface, u64)]) -> Interface {
    judge(&mut now, looks, &Limits::default());
    now
}

#[test]
fn the_reporters_of_drivers_are_known_by_their_names() {
    for (names, expected) in [
        (&["tx", "tx_hang"][..], Watches::Sending),
        (&["rx"], Watches::Receiving),
        (&["fw", "fw_fatal", "fw_reset"], Watches::Firmware),
        (&["hw", "hw_nix_ras", "hw_npa_intr", "vnic", "mdd", "port", "thermal", "nvm"], Watches::Hardware),
        (&["dummy", "empty", "", "transmit", "txt", "hwmon", "firmware"], Watches::NotKnown),
    ] {
        for name in names {
            assert_eq!(watches(&in_error(name)), expected, "{name}");
        }
    }
}

/// Every kind of reporter beside every kind of traffic, seen at two looks.
#[test]
fn a_reporter_in_error_is_judged_by_what_it_watches_and_by_the_packets_since() {
    use InterfaceState::{Hung, Losing, Ok};
    for (name, without, with) in [
        ("tx", Hung, Losing),
        ("rx", Hung, Losing),
        ("fw_fatal", Hung, Ok),
        ("dummy", Hung, Ok),
        ("hw", Ok, Ok),
        ("thermal", Ok, Ok),
        ("nvm", Ok, Ok),
    ] {
        let then = up(vec![in_error(name)], 10, 10);
        for (sent, received, expected) in [(10, 10, without), (11, 11, with)] {
            let one = judged(up(vec![in_error(name)], sent, received), &[(&then, 10 * SECOND)]);
            assert_eq!(one.state, expected, "{name}: {sent}, {received}: {:?}", one.evidence);
            assert_eq!(one.certainty, Some(Certainty::Probable), "{name} alone: {:?}", one.evidence);
            assert!(one.evidence[0].contains("error; 3 errors, 0 recoveries"), "{:?}", one.evidence);
        }
    }
    // Each queue has its own way.
    let then = up(vec![in_error("tx")], 10, 10);
    assert_eq!(judged(up(vec![in_error("tx")], 10, 99), &[(&then, SECOND)]).state, Hung, "only received");
    let then = up(vec![in_error("rx")], 10, 10);
    assert_eq!(judged(up(vec![in_error("rx")], 99, 10), &[(&then, SECOND)]).state, Hung, "only sent");
}

#[test]
fn packets_from_before_the_error_say_nothing_of_the_time_since() {
    let healthy = up(vec![reporter("fw_fatal", ReporterState::Healthy, 2)], 0, 0);
    let first = up(vec![in_error("fw_fatal")], 10, 10);
    let one = judged(first.clone(), &[(&healthy, SECOND)]);
    assert_eq!((one.state, one.certainty), (InterfaceState::Unknown, Some(Certainty::CannotTellApartHere)));
    let one = judged(first.clone(), &[]);
    assert_eq!(one.state, InterfaceState::Unknown, "at the first look: {:?}", one.evidence);
    // The first look that saw the error counts, and not the one before it.
    let looks = [(&healthy, 20 * SECOND), (&first, 10 * SECOND)];
    let one = judged(up(vec![in_error("fw_fatal")], 10, 10), &looks);
    assert_eq!(one.state, InterfaceState::Hung, "{:?}", one.evidence);
    assert!(one.evidence[0].contains("no packets sent or received in the 10 s since"), "{:?}", one.evidence);
    // A further error goes on from the first one.
    let again = up(vec![reporter("fw_fatal", ReporterState::Error, 4)], 10, 10);
    assert_eq!(judged(again, &looks).state, InterfaceState::Hung);
    // It recovered in between, unseen, and the packets of that time say nothing of the error after it.
    let after = HealthReporter { recover_count: 1, ..reporter("fw_fatal", ReporterState::Error, 4) };
    assert_eq!(judged(up(vec![after], 99, 99), &looks).state, InterfaceState::Unknown);
    // So short a time says nothing.
    let short = judged(first.clone(), &[(&first, 999_999_999)]);
    assert_eq!(short.state, InterfaceState::Unknown, "{:?}", short.evidence);
    // Nothing can pass without a link.
    let unplugged = Interface { has_carrier: Some(false), ..first.clone() };
    assert_eq!(judged(unplugged.clone(), &[(&unplugged, SECOND)]).state, InterfaceState::Unknown);
    // Off, or without counters: nothing is known of packets.
    let off = Interface { is_up: false, ..up(vec![in_error("fw_fatal")], 10, 10) };
    assert_eq!(judged(off.clone(), &[(&off, SECOND)]).state, InterfaceState::Unknown);
    let dark = Interface { counters: InterfaceCounters::default(), ..up(vec![in_error("fw_fatal")], 0, 0) };
    assert_eq!(judged(dark.clone(), &[(&dark, SECOND)]).state, InterfaceState::Unknown);
}

#[test]
fn with_a_silent_neighbour_or_a_stuck_queue_it_is_certain_and_only_for_what_watches_packets() {
    for (name, certainty) in [
        ("fw_fatal", Certainty::Certain),
        ("tx", Certainty::Certain),
        ("hw", Certainty::Probable),
        ("dummy", Certainty::Probable),
    ] {
        let then = up(vec![in_error(name)], 10, 10);
        let now = Interface { probe: Some(silence()), ..then.clone() };
        let one = judged(now, &[(&then, SECOND)]);
        assert_eq!((one.state, one.certainty), (InterfaceState::Hung, Some(certainty)), "{name}: {:?}", one.evidence);
    }
    // One reporter has seen no packets, another is of the firmware: that is no evidence of the same thing.
    let then = up(vec![in_error("dummy"), reporter("fw", ReporterState::Healthy, 0)], 10, 10);
    let now = Interface { probe: Some(silence()), ..up(vec![in_error("dummy"), in_error("fw")], 10, 10) };
    assert_eq!(judged(now, &[(&then, SECOND)]).certainty, Some(Certainty::Probable));
    // That nothing is received is what a silent neighbour does.
    let then = up(vec![in_error("rx")], 10, 10);
    let now = Interface { probe: Some(silence()), ..up(vec![in_error("rx")], 20, 10) };
    assert_eq!(judged(now, &[(&then, SECOND)]).certainty, Some(Certainty::Probable));
    // A probe that is answered passes, whatever the counters say.
    let then = up(vec![in_error("fw")], 10, 10);
    let answered = InterfaceProbe { answered_count: 20, ..silence() };
    let one = judged(Interface { probe: Some(answered), ..then.clone() }, &[(&then, SECOND)]);
    assert_eq!(one.state, InterfaceState::Ok, "{:?}", one.evidence);
    let then = up(vec![in_error("hw")], 10, 10);
    let stuck = Interface { tx_timeout_count: Some(1), ..then.clone() };
    let one = judged(stuck, &[(&then, SECOND)]);
    assert_eq!((one.state, one.certainty), (InterfaceState::Hung, Some(Certainty::Certain)));
    assert!(one.evidence[0].contains("transmit timeout"), "{:?}", one.evidence);
}

#[test]
fn errors_that_were_got_over_lose_packets_only_where_packets_are_watched() {
    for (name, expected) in [("tx", InterfaceState::Losing), ("fw", InterfaceState::Losing), ("hw", InterfaceState::Ok)]
    {
        let then = up(vec![reporter(name, ReporterState::Healthy, 2)], 1, 1);
        let one = judged(up(vec![reporter(name, ReporterState::Healthy, 3)], 2, 2), &[(&then, SECOND)]);
        assert_eq!(one.state, expected, "{name}");
        assert!(one.evidence[0].contains("1 new error, recovered"), "{:?}", one.evidence);
    }
}
