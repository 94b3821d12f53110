//! Restarts by IPMI, at the simulator of OpenIPMI: whether its machine has power stands in a file.

use super::order::{order, reported};
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_remedy::act::{Act, Hands, HandsConfig, Ipmi, Order, Outcome, PriorAttempt, Times};
use surefoot_sys::program;
use surefoot_testkit::ipmi::{Controller, GUID, USER};
use surefoot_testkit::not_run::not_run;

const PATIENCE: Duration = Duration::from_secs(60);

/// Of the machine of a controller.
fn hands_of(controller: &Controller) -> Hands {
    hands(format!("ipmi://127.0.0.1:{}", controller.port()), controller.password_file(), PATIENCE)
}

fn hands(url: String, password_file: PathBuf, patience: Duration) -> Hands {
    hands_with(ipmi(url, password_file, patience))
}

fn ipmi(url: String, password_file: PathBuf, patience: Duration) -> Ipmi {
    Ipmi { patience, ..Ipmi::new(&url, USER, password_file).unwrap() }
}

fn hands_with(ipmi: Ipmi) -> Hands {
    let reboot = Times { settle: Duration::from_secs(1), limit: Duration::from_secs(60) };
    Hands::new(HandsConfig { ipmis: [("n1".to_owned(), ipmi)].into(), reboot, ..HandsConfig::default() })
}

/// One call, until the controller answers: it may still be starting.
fn call(hands: &Hands, order: &Order) -> Outcome {
    let begun = Instant::now();
    loop {
        match hands.run(order, &AtomicBool::new(false)) {
            Outcome::Failed { is_passing: true, .. } if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(200));
            }
            outcome => return outcome,
        }
    }
}

/// Goes on to the end of a step; what was said.
fn finish(hands: &Hands, mut order: Order) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        match call(hands, &order) {
            done @ Outcome::Done { .. } => {
                said.push(done.words());
                return said;
            }
            Outcome::GoesOn { detail, memo, again_in_ns } => {
                said.push(detail);
                order.memo = memo;
                std::thread::sleep(Duration::from_nanos(again_in_ns).min(Duration::from_millis(500)));
            }
            other => panic!("{said:?}: {other:?}"),
        }
        assert!(said.len() < 200, "{said:?}");
    }
}

#[test]
fn a_host_is_restarted_by_ipmi_and_a_crash_at_any_part_restarts_it_once() {
    const NAME: &str = "a_host_is_restarted_by_ipmi_and_a_crash_at_any_part_restarts_it_once";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let simulated = Controller::start().unwrap();
    let hands = hands_of(&simulated);
    // A controller dies after each call, and what it was to remember is lost: the next one finds out, and does the call again.
    let mut order = order("reboot", "n1");
    let mut calls = 0;
    loop {
        let lost = call(&hands, &order);
        assert_eq!(hands.find(&order), PriorAttempt::MayRepeat, "{lost:?}");
        calls += 1;
        assert!(calls < 200, "{lost:?}");
        match call(&hands, &order) {
            Outcome::GoesOn { memo, again_in_ns, .. } => {
                order.memo = memo;
                std::thread::sleep(Duration::from_nanos(again_in_ns).min(Duration::from_millis(500)));
            }
            Outcome::Done { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let told = simulated.told();
    let count = |words: &str| told.iter().filter(|line| line.starts_with(words)).count();
    assert!(count("set shutdown") >= 1 && count("set power 1") >= 1, "{told:?}");
    let last_off = told.iter().rposition(|line| line.starts_with("set shutdown") || *line == "set power 0");
    assert!(last_off < told.iter().position(|line| line == "set power 1"), "it went off once: {told:?}");
    assert_eq!(fs::read_to_string(simulated.path("power")).unwrap().trim(), "1");

    // A system that does not shut down is switched off.
    fs::write(simulated.path("deaf"), "").unwrap();
    let said = finish(&hands, self::order("reboot", "n1"));
    assert!(said.iter().any(|words| words.contains("switched off")), "{said:?}");
    assert!(said.last().unwrap().starts_with("restarted: power off, then on"), "{said:?}");

    // And one whose controller refuses to tell it so at once.
    fs::write(simulated.path("refuses"), "").unwrap();
    let said = finish(&hands, self::order("reboot", "n1"));
    assert!(said.iter().any(|words| words.contains("shutdown cannot be requested")), "{said:?}");
    assert!(said.last().unwrap().starts_with("restarted: power off, then on"), "{said:?}");
}

/// The name service may lead to another host's controller.
#[test]
fn a_machine_that_is_not_the_one_of_the_host_s_agent_is_not_restarted() {
    const NAME: &str = "a_machine_that_is_not_the_one_of_the_host_s_agent_is_not_restarted";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let simulated = Controller::start().unwrap();
    let of = |uuid: &str| Order { machine: Some(reported(uuid, "")), ..order("reboot", "n1") };
    let hands = hands_of(&simulated);
    match call(&hands, &of("4c4c4544-0042-3510-8051-b7c04f4e3233")) {
        Outcome::Failed { detail, is_passing: false, .. } => {
            assert!(detail.contains("is another machine's than the agent of n1 reports"), "{detail}");
            assert!(detail.contains(&format!("write system = '{GUID}'")), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(simulated.told(), [""; 0], "nothing was asked of the machine");
    // A person who looked it up says so.
    let port = simulated.port();
    let own = Ipmi {
        system: Some(GUID.to_uppercase()),
        ..ipmi(format!("ipmi://127.0.0.1:{port}"), simulated.password_file(), PATIENCE)
    };
    match call(&hands_with(own), &of("4c4c4544-0042-3510-8051-b7c04f4e3233")) {
        Outcome::GoesOn { detail, .. } => assert_eq!(detail, "about to switch it off"),
        other => panic!("{other:?}"),
    }
    // Its own UUID, in the order of bytes that SMBIOS has.
    for uuid in ["a1234567-89ab-cdef-a123-456789abcdef", "674523a1-ab89-efcd-a123-456789abcdef"] {
        let said = finish(&hands, of(uuid));
        assert!(said.iter().all(|words| !words.contains("not known")), "{said:?}");
    }
    match call(&hands, &of("")) {
        Outcome::GoesOn { detail, .. } => {
            assert_eq!(
                detail,
                "about to switch it off; whether that is the machine of n1 is not known: no agent of it reports which it is"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_that_is_none_of_one_host_is_put_into_no_address() {
    let every = ipmi("ipmi://{host}-bmc".into(), "/nonexistent".into(), PATIENCE);
    let hands = Hands::new(HandsConfig { ipmis: [("*".to_owned(), every)].into(), ..HandsConfig::default() });
    for host in ["localhost", "127.0.0.1", "-v", "a/b"] {
        match hands.run(&order("reboot", host), &AtomicBool::new(false)) {
            Outcome::Failed { detail, is_passing: false, .. } => {
                assert!(detail.contains("is no host's name that could be part of an address"), "{host}: {detail}");
            }
            other => panic!("{host}: {other:?}"),
        }
    }
}

#[test]
fn a_controller_that_hangs_or_refuses_is_asked_again_later() {
    const NAME: &str = "a_controller_that_hangs_or_refuses_is_asked_again_later";
    if program::find("ipmitool").is_none() {
        return not_run(NAME, "ipmitool is not installed");
    }
    // It takes every packet and answers none.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("password"), "secret\n").unwrap();
    let url = format!("ipmi://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let hands = hands(url, folder.path().join("password"), Duration::from_secs(2));
    let begun = Instant::now();
    match hands.run(&order("reboot", "n1"), &AtomicBool::new(false)) {
        Outcome::Failed { detail, is_passing, .. } => assert!(is_passing && detail.contains("ipmitool"), "{detail}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "it is waited for no longer than it was given");
    match hands.run(&order("firmware:A=1", "n1"), &AtomicBool::new(false)) {
        Outcome::Failed { detail, is_passing, .. } => assert!(!is_passing && detail.contains("Redfish"), "{detail}"),
        other => panic!("{other:?}"),
    }
}
