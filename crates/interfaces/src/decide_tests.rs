#![allow(clippy::unwrap_used)]
use super::*;
use RecoveryKind::{FunctionReset, LinkCycle, ReporterRecover};
use RecoveryOutcome::{Begun, Done, Planned, Withheld};
use surefoot_model::CarriedKind;

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

fn step(kind: RecoveryKind, ago_s: u64, outcome: RecoveryOutcome) -> RecoveryStep {
    RecoveryStep {
        at_realtime_ns: NOW - ago_s * SECOND,
        interface: "eth0".into(),
        kind,
        target: "x".into(),
        reason: String::new(),
        outcome,
        detail: String::new(),
    }
}

fn can_reset() -> Device {
    Device { can_reset: true, carries: Vec::new() }
}

fn decided(
    interface: &Interface,
    history: &[RecoveryStep],
    policy: &Policy,
) -> (RecoveryKind, RecoveryOutcome, String) {
    let step = decide(interface, history, NOW, &can_reset(), policy).unwrap();
    (step.kind, step.outcome, step.detail)
}

#[test]
fn only_what_hangs_is_recovered_and_the_reason_is_said() {
    let policy = Policy::default();
    for state in InterfaceState::ALL.into_iter().filter(|state| *state != InterfaceState::Hung) {
        assert_eq!(decide(&Interface { state, ..hung() }, &[], NOW, &can_reset(), &policy), None);
    }
    let step = decide(&hung(), &[], NOW, &can_reset(), &policy).unwrap();
    assert_eq!((step.kind, step.outcome), (ReporterRecover, Planned));
    assert_eq!((step.target.as_str(), step.reason.as_str()), ("pci/0000:01:00.0/1 tx", "a; b"));
}

#[test]
fn what_was_tried_and_did_not_help_is_followed_by_the_next() {
    let policy = Policy::default();
    let mut history = vec![step(ReporterRecover, 120, Done)];
    assert_eq!(decided(&hung(), &history, &policy).0, LinkCycle);
    history.push(step(LinkCycle, 90, RecoveryOutcome::Failed));
    assert_eq!(decided(&hung(), &history, &policy).0, FunctionReset);
    let nothing_left = decide(&hung(), &history, NOW, &Device::default(), &policy).unwrap();
    assert_eq!(nothing_left.outcome, Withheld);
    assert!(nothing_left.detail.contains("a person"), "{}", nothing_left.detail);
    // The last of them is waited for like any other before a person is called.
    let just_now = [step(ReporterRecover, 120, Done), step(LinkCycle, 2, Done)];
    let waits = decide(&hung(), &just_now, NOW, &Device::default(), &policy).unwrap();
    assert_eq!(waits.detail, "the last step was 2 s ago, and 60 s are waited for its effect");
    // After ten minutes it is another fault.
    assert_eq!(
        decided(&hung(), &[step(ReporterRecover, 601, Done)], &policy),
        (ReporterRecover, Planned, String::new())
    );
}

#[test]
fn grace_and_the_limit_of_an_hour_hold() {
    let policy = Policy::default();
    let (_, outcome, why) = decided(&hung(), &[step(ReporterRecover, 59, Done)], &policy);
    assert_eq!((outcome, why.as_str()), (Withheld, "the last step was 59 s ago, and 60 s are waited for its effect"));
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 60, Done)], &policy).1, Planned);
    let three: Vec<RecoveryStep> = [3599, 2000, 700].map(|ago| step(ReporterRecover, ago, Done)).into();
    assert!(decided(&hung(), &three, &policy).2.starts_with("3 steps were tried in the last hour"));
    let old: Vec<RecoveryStep> = [3600, 2000, 700].map(|ago| step(ReporterRecover, ago, Done)).into();
    assert_eq!(decided(&hung(), &old, &policy).1, Planned);
    // What was begun counts, also without its end; what was only planned does not.
    assert_eq!(decided(&hung(), &[step(ReporterRecover, 10, Begun)], &policy).1, Withheld);
    assert_eq!(
        decided(&hung(), &[step(ReporterRecover, 10, Planned), step(LinkCycle, 5, Withheld)], &policy).1,
        Planned
    );
    // The beginning and the end of one step are one step.
    let both = [700, 2000].map(|ago| [step(ReporterRecover, ago, Begun), step(ReporterRecover, ago, Done)]).concat();
    assert_eq!(decided(&hung(), &both, &policy).1, Planned);
}

#[test]
fn what_carries_work_is_touched_only_when_asked_twice() {
    let used =
        Interface { carries: vec![Carried::new(CarriedKind::SshSession, "an SSH session of 192.0.2.7")], ..hung() };
    let (_, outcome, why) = decided(&used, &[], &Policy::default());
    assert_eq!((outcome, why.as_str()), (Withheld, "it carries an SSH session of 192.0.2.7; --even-in-use allows it"));
    assert_eq!(decided(&used, &[], &Policy { even_in_use: true, ..Policy::default() }).1, Planned);
}

#[test]
fn a_hang_that_may_be_the_neighbours_is_left_alone() {
    let probed = Interface { certainty: Some(Certainty::Probable), reporters: Vec::new(), ..hung() };
    assert_eq!(decided(&probed, &[], &Policy::default()).1, Withheld);
    let (kind, outcome, _) = decided(&probed, &[], &Policy { even_if_probable: true, ..Policy::default() });
    assert_eq!((kind, outcome), (LinkCycle, Planned));
}

#[test]
fn another_interfaces_steps_do_not_count_and_a_device_alone_has_no_link() {
    let other = RecoveryStep { interface: "eth1".into(), ..step(ReporterRecover, 5, Done) };
    assert_eq!(decided(&hung(), &[other], &Policy::default()).1, Planned);
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
    let why = "its device carries the default route of IPv4, on eth1; --even-in-use allows it";
    assert_eq!((step.kind, step.outcome, step.detail.as_str()), (FunctionReset, Withheld, why));
    let asked = decide(&alone, &[], NOW, &device, &Policy { even_in_use: true, ..policy }).unwrap();
    assert_eq!(asked.outcome, Planned);
    // A reporter of the port, and the link, are this interface's alone; a reporter of the device is of all.
    assert_eq!(decide(&hung(), &[], NOW, &device, &policy).unwrap().outcome, Planned);
    let mut whole = hung();
    whole.reporters[0].port = None;
    assert_eq!(decide(&whole, &[], NOW, &device, &policy).unwrap().outcome, Withheld);
    let linked = Interface { reporters: Vec::new(), ..hung() };
    let step = decide(&linked, &[], NOW, &device, &policy).unwrap();
    assert_eq!((step.kind, step.outcome), (LinkCycle, Planned));
}

#[test]
fn a_link_cycle_without_an_end_is_found_for_an_hour() {
    let begun = |ago_s| step(LinkCycle, ago_s, Begun);
    let found = |history: &[RecoveryStep]| unfinished_cycle("eth0", history, NOW).cloned();
    assert_eq!(found(&[begun(90)]), Some(begun(90)));
    assert_eq!(found(&[begun(90), step(LinkCycle, 5, Withheld)]), Some(begun(90)), "withheld ends nothing");
    assert_eq!(found(&[begun(90), step(LinkCycle, 90, Done)]), None);
    assert_eq!(found(&[step(ReporterRecover, 90, Begun)]), None);
    assert_eq!(found(&[begun(3601)]), None, "somebody may have switched it off since");
    assert_eq!(unfinished_cycle("eth1", &[begun(90)], NOW), None);
}
