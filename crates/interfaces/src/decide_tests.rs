#![allow(clippy::unwrap_used)]
use super::*;
use DeedAction::{FunctionReset, LinkCycle, ReporterRecover};
use DeedOutcome::{Begun, Planned};
use surefoot_model::{CarriedKind, InterfaceProbe, Observed, ProbeKind, ReporterState};

const DONE: DeedOutcome = DeedOutcome::Done { observed: Observed::Accepted };
const ROOT: Actor = Actor::Command { uid: 0 };

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 100_000 * SECOND;

fn hung() -> Interface {
    let reporter = HealthReporter {
        device: "pci/0000:01:00.0".into(),
        port: Some(1),
        name: "tx".into(),
        state: ReporterState::Error,
        error_count: 1,
        recover_count: 0,
        has_dump: false,
        dump_realtime_ns: None,
        auto_recover: Some(false),
        grace_period_ms: Some(0),
    };
    Interface {
        name: "eth0".into(),
        device: Some("pci/0000:01:00.0".into()),
        is_up: true,
        state: InterfaceState::Hung,
        certainty: Some(Certainty::Certain),
        evidence: vec!["a".into(), "b".into()],
        reporters: vec![reporter],
        ..Interface::default()
    }
}

pub(crate) fn step(action: DeedAction, ago_s: u64, outcome: DeedOutcome) -> Deed {
    let at_realtime_ns = NOW - ago_s * SECOND;
    Deed {
        at_realtime_ns,
        begun_realtime_ns: at_realtime_ns,
        room: Room::Nic,
        subject: Subject::new(SubjectKind::Interface, "eth0"),
        actor: ROOT,
        action,
        target: DeedTarget::Part { name: "x".into() },
        reason: DeedReason::Asked,
        outcome,
    }
}

fn failed() -> DeedOutcome {
    DeedOutcome::Failed { error: "no".into() }
}

fn withheld(why: Withheld) -> DeedOutcome {
    DeedOutcome::Withheld { why }
}

fn can_reset() -> Device {
    Device { can_reset: true, carries: Vec::new() }
}

fn decide(interface: &Interface, history: &[Deed], now_ns: u64, device: &Device, policy: &Policy) -> Option<Deed> {
    super::decide(interface, history, now_ns, device, policy, &ROOT)
}

fn decided(interface: &Interface, history: &[Deed], policy: &Policy) -> (DeedAction, DeedOutcome) {
    let step = decide(interface, history, NOW, &can_reset(), policy).unwrap();
    (step.action, step.outcome)
}

#[test]
fn only_what_hangs_is_recovered_and_the_reason_is_said() {
    let policy = Policy::default();
    for state in InterfaceState::ALL.into_iter().filter(|state| *state != InterfaceState::Hung) {
        assert_eq!(decide(&Interface { state, ..hung() }, &[], NOW, &can_reset(), &policy), None);
    }
    let step = decide(&hung(), &[], NOW, &can_reset(), &policy).unwrap();
    assert_eq!((step.action, step.outcome, step.actor), (ReporterRecover, Planned, ROOT));
    assert_eq!((step.target.to_string().as_str(), step.reason.to_string().as_str()), ("pci/0000:01:00.0/1 tx", "a; b"));
}

#[test]
fn what_was_tried_and_did_not_help_is_followed_by_the_next() {
    let policy = Policy::default();
    let mut history = vec![step(ReporterRecover, 120, DONE)];
    assert_eq!(decided(&hung(), &history, &policy).0, LinkCycle);
    history.push(step(LinkCycle, 90, failed()));
    assert_eq!(decided(&hung(), &history, &policy).0, FunctionReset);
    let nothing_left = decide(&hung(), &history, NOW, &Device::default(), &policy).unwrap();
    assert_eq!(nothing_left.outcome, withheld(Withheld::Exhausted));
    // The last of them is waited for like any other before a person is called.
    let just_now = [step(ReporterRecover, 120, DONE), step(LinkCycle, 2, DONE)];
    let waits = decide(&hung(), &just_now, NOW, &Device::default(), &policy).unwrap();
    assert_eq!(waits.outcome, withheld(Withheld::TooEarly { since_s: 2, grace_s: 60 }));
    // After ten minutes it is another fault.
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 601, DONE)], &policy), (ReporterRecover, Planned));
}

#[test]
fn grace_and_the_limit_of_an_hour_hold() {
    let policy = Policy::default();
    let waits = withheld(Withheld::TooEarly { since_s: 59, grace_s: 60 });
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 59, DONE)], &policy).1, waits);
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 60, DONE)], &policy).1, Planned);
    let three: Vec<Deed> = [3599, 2000, 700].map(|ago| step(ReporterRecover, ago, DONE)).into();
    assert_eq!(decided(&hung(), &three, &policy).1, withheld(Withheld::HourLimit { tried: 3, limit: 3 }));
    let old: Vec<Deed> = [3600, 2000, 700].map(|ago| step(ReporterRecover, ago, DONE)).into();
    assert_eq!(decided(&hung(), &old, &policy).1, Planned);
    // What was begun counts, also without its end; what was only planned does not.
    let waits = withheld(Withheld::TooEarly { since_s: 10, grace_s: 60 });
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 10, Begun)], &policy).1, waits);
    assert_eq!(
        decided(
            &hung(),
            &[step(ReporterRecover, 10, Planned), step(LinkCycle, 5, withheld(Withheld::OnlyProbable))],
            &policy
        )
        .1,
        Planned
    );
    // The beginning and the end of one step are one step.
    let both = [700, 2000].map(|ago| [step(ReporterRecover, ago, Begun), step(ReporterRecover, ago, DONE)]).concat();
    assert_eq!(decided(&hung(), &both, &policy).1, Planned);
}

#[test]
fn what_carries_work_is_touched_only_when_asked_twice() {
    let used =
        Interface { carries: vec![Carried::new(CarriedKind::SshSession, "an SSH session of 192.0.2.7")], ..hung() };
    let (_, outcome) = decided(&used, &[], &Policy::default());
    assert_eq!(outcome, withheld(Withheld::InUse { carries: used.carries.clone() }));
    assert_eq!(outcome.detail(), "it carries an SSH session of 192.0.2.7; --even-in-use allows it");
    assert_eq!(decided(&used, &[], &Policy { even_in_use: true, ..Policy::default() }).1, Planned);
}

#[test]
fn a_hang_that_may_be_the_neighbours_is_left_alone() {
    let probe = InterfaceProbe {
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
    };
    let probed =
        Interface { certainty: Some(Certainty::Probable), reporters: Vec::new(), probe: Some(probe), ..hung() };
    assert_eq!(decided(&probed, &[], &Policy::default()).1, withheld(Withheld::OnlyProbable));
    let allowed = decided(&probed, &[], &Policy { even_if_probable: true, ..Policy::default() });
    assert_eq!(allowed, (LinkCycle, Planned));
}

#[test]
fn another_interfaces_steps_do_not_count_and_a_device_alone_has_no_link() {
    let other = Deed { subject: Subject::new(SubjectKind::Interface, "eth1"), ..step(ReporterRecover, 5, DONE) };
    let reset = step(DeedAction::ResetInterface, 5, Begun);
    assert_eq!(decided(&hung(), &[other, reset], &Policy::default()).1, Planned, "nor does an order's own line");
    let device = Interface { name: "pci/0000:01:00.0".into(), reporters: Vec::new(), ..hung() };
    assert_eq!(decided(&device, &[], &Policy::default()).0, FunctionReset);
    assert_eq!(decide(&device, &[], NOW, &Device::default(), &Policy::default()), None);
}

#[test]
fn a_device_whose_other_interface_carries_work_is_touched_only_when_asked_twice() {
    let device = Device {
        can_reset: true,
        carries: vec![Carried::new(CarriedKind::DefaultRoute, "the default route of IPv4, on eth1")],
    };
    let policy = Policy::default();
    let alone = Interface { is_up: false, reporters: Vec::new(), ..hung() };
    let step = decide(&alone, &[], NOW, &device, &policy).unwrap();
    let why = withheld(Withheld::DeviceInUse { carries: device.carries.clone() });
    assert_eq!((step.action, step.outcome), (FunctionReset, why.clone()));
    let asked = decide(&alone, &[], NOW, &device, &Policy { even_in_use: true, ..policy }).unwrap();
    assert_eq!(asked.outcome, Planned);
    // A reporter of the port, and the link, are this interface's alone; a reporter of the device is of all.
    assert_eq!(decide(&hung(), &[], NOW, &device, &policy).unwrap().outcome, Planned);
    let mut whole = hung();
    whole.reporters[0].port = None;
    assert_eq!(decide(&whole, &[], NOW, &device, &policy).unwrap().outcome, why);
    let linked = Interface { reporters: Vec::new(), ..hung() };
    let step = decide(&linked, &[], NOW, &device, &policy).unwrap();
    assert_eq!((step.action, step.outcome), (LinkCycle, Planned));
}

#[test]
fn a_link_cycle_without_an_end_is_found_for_an_hour() {
    let begun = |ago_s| step(LinkCycle, ago_s, Begun);
    let found = |history: &[Deed]| unfinished_cycle("eth0", history, NOW).cloned();
    assert_eq!(found(&[begun(90)]), Some(begun(90)));
    assert_eq!(
        found(&[begun(90), step(LinkCycle, 5, withheld(Withheld::OnlyProbable))]),
        Some(begun(90)),
        "withheld ends nothing"
    );
    assert_eq!(found(&[begun(90), step(LinkCycle, 90, DONE)]), None);
    assert_eq!(found(&[step(ReporterRecover, 90, Begun)]), None);
    assert_eq!(found(&[begun(3601)]), None, "somebody may have switched it off since");
    assert_eq!(unfinished_cycle("eth1", &[begun(90)], NOW), None);
}

/// A clock that was ahead dated steps in the future: they count as just done, and never lift the limit.
#[test]
fn steps_dated_in_the_future_count_against_the_limits() {
    let ahead = |by_s: u64| {
        let at_realtime_ns = NOW + by_s * SECOND;
        Deed { at_realtime_ns, begun_realtime_ns: at_realtime_ns, ..step(ReporterRecover, 0, DONE) }
    };
    let waits = withheld(Withheld::TooEarly { since_s: 0, grace_s: 60 });
    assert_eq!(decided(&hung(), &[ahead(86_400)], &Policy::default()), (LinkCycle, waits));
    let three = [ahead(1), ahead(7_200), ahead(86_400)];
    assert_eq!(decided(&hung(), &three, &Policy::default()).1, withheld(Withheld::HourLimit { tried: 3, limit: 3 }));
}

/// Whatever is asked for: a driver that reports a hot chip, or an error of firmware with nothing else against it, loses no link and no
/// function for it.
#[test]
fn a_reporter_alone_leads_to_no_link_cycle_and_no_reset() {
    let all =
        Policy { even_in_use: true, even_if_probable: true, grace_ns: 0, escalates_ns: 600 * SECOND, per_hour: 60 };
    let probable = Interface { certainty: Some(Certainty::Probable), ..hung() };
    assert_eq!(decided(&probable, &[], &all).0, ReporterRecover);
    assert_eq!(decided(&probable, &[], &Policy::default()).1, withheld(Withheld::OnlyProbable));
    let tried = [step(ReporterRecover, 100, failed())];
    let (action, outcome) = decided(&probable, &tried, &all);
    assert_eq!((action, outcome), (ReporterRecover, withheld(Withheld::Exhausted)));
    let with_name = |name: &str| {
        let mut one = probable.clone();
        one.reporters[0].name = name.into();
        one
    };
    for name in ["hw", "thermal", "nvm", "vnic"] {
        assert_eq!(decide(&with_name(name), &[], NOW, &can_reset(), &all), None, "{name}");
    }
    // A hung interface beside a hot chip is recovered, and not by the reporter of the chip.
    let certain = Interface { certainty: Some(Certainty::Certain), ..with_name("hw") };
    assert_eq!(decided(&certain, &[], &all).0, LinkCycle);
}

/// The time that the driver wants between two recoveries of its reporter holds for ours.
#[test]
fn a_reporter_is_not_asked_again_within_its_own_grace_period() {
    let mut one = hung();
    one.reporters[0].grace_period_ms = Some(1_200_000);
    let policy = Policy { escalates_ns: 600 * SECOND, ..Policy::default() };
    let tried = |ago_s| [step(ReporterRecover, ago_s, DONE)];
    assert_eq!(decided(&one, &tried(700), &policy).0, LinkCycle);
    assert_eq!(decided(&one, &tried(1_300), &policy).0, ReporterRecover);
    one.reporters[0].grace_period_ms = Some(500);
    assert_eq!(decided(&one, &tried(700), &policy).0, ReporterRecover);
}
