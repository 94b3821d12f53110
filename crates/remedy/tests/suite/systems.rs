//! Restarts and settings where a controller has several systems: the right one, or none.

use super::order::{order, reported};
use super::service::{Reply, Service};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surefoot_model::MachineId;
use surefoot_outside::http::redfish::MachineIdentity;
use surefoot_remedy::act::{Act, Bmc, Hands, HandsConfig, Order, Outcome, Times};

const ONE: &str = "4c4c4544-0042-3510-8051-b7c04f4e3233";
const TWO: &str = "4c4c4544-0042-3510-8051-b7c04f4e3234";
const STEPS: [&str; 3] = ["reboot", "firmware:NodeInterleave=On", "restore:firmware:NodeInterleave=On"];

/// The systems of a chassis, which a test may exchange.
type Systems = Arc<Mutex<Vec<Value>>>;

fn system(number: usize, uuid: &str, name: &str) -> Value {
    json!({"@odata.id": format!("/redfish/v1/Systems/{number}"), "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
        "UUID": uuid, "HostName": name, "PowerState": "On", "LastResetTime": "2026-11-28T00:00:00Z",
        "Bios": {"@odata.id": format!("/redfish/v1/Systems/{number}/Bios")}})
}

fn chassis(systems: &Systems) -> Service {
    let systems = Arc::clone(systems);
    Service::start(move |asked| {
        let systems = systems.lock().unwrap();
        let path = asked.path.as_str();
        if path == "/redfish/v1/Systems" {
            let links: Vec<Value> = systems.iter().map(|one| json!({"@odata.id": one["@odata.id"]})).collect();
            return Reply::json(200, &json!({ "Members": links }));
        }
        match systems.iter().find(|one| one["@odata.id"] == path) {
            Some(one) => Reply::json(200, one),
            None if path.ends_with("/Bios") => Reply::json(200, &json!({"Attributes": {"NodeInterleave": "On"}})),
            None => Reply::json(200, &json!({})),
        }
    })
}

fn hands(bmc: Bmc, own_host: &str) -> Hands {
    let reboot = Times { settle: Duration::ZERO, limit: Duration::from_secs(60) };
    let bmcs = [("n1".to_owned(), bmc)].into();
    Hands::new(HandsConfig { bmcs, reboot, own_host: own_host.into(), ..HandsConfig::default() })
}

fn bmc(service: &Service, system: Option<&str>) -> Bmc {
    Bmc { url: service.url.clone(), system: system.map(str::to_owned), ..Bmc::default() }
}

/// Does a step until it ends: why it failed, if it did.
fn done(hands: &Hands, step: &str) -> Result<(), String> {
    let mut order = order(step, "n1");
    if step.starts_with("restore:") {
        order.memo = r#"{"before":{"NodeInterleave":"Off"}}"#.to_owned();
    }
    for _ in 0..10 {
        match hands.run(&order, &AtomicBool::new(false)) {
            Outcome::GoesOn { memo, .. } => order.memo = memo,
            Outcome::Failed { detail, .. } => return Err(detail),
            _ => return Ok(()),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{step} does not end");
}

fn changed(service: &Service) -> Vec<String> {
    let asked = [service.asked("POST"), service.asked("PATCH")].concat();
    asked.into_iter().map(|asked| asked.path).collect()
}

#[test]
fn of_several_systems_none_is_touched_unless_it_is_known_to_be_the_host() {
    let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, ""), system(2, TWO, "")]));
    let service = chassis(&systems);
    for step in STEPS {
        let why = done(&hands(bmc(&service, None), ""), step).unwrap_err();
        for words in ["2 systems", ONE, TWO, "/redfish/v1/Systems/2", "[[bmc]]", "system ="] {
            assert!(why.contains(words), "{step}: {words}: {why}");
        }
    }
    assert_eq!(changed(&service), [""; 0]);
    for word in ["/redfish/v1/Systems/2", TWO] {
        done(&hands(bmc(&service, Some(word)), ""), "reboot").unwrap();
    }
    assert_eq!(changed(&service), ["/redfish/v1/Systems/2/Actions/ComputerSystem.Reset"; 2]);
}

#[test]
fn a_system_that_calls_itself_another_host_is_not_restarted() {
    let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, "db7.example")]));
    let service = chassis(&systems);
    for chosen in [None, Some("/redfish/v1/Systems/1")] {
        let why = done(&hands(bmc(&service, chosen), ""), "reboot").unwrap_err();
        assert!(why.contains("calls itself db7.example, not n1"), "{why}");
    }
    *systems.lock().unwrap() =
        vec![json!({"@odata.id": "/redfish/v1/Systems/1", "@odata.type": "#Chassis.v1_0_0.Chassis"})];
    let why = done(&hands(bmc(&service, None), ""), "reboot").unwrap_err();
    assert!(why.contains("no ComputerSystem"), "{why}");
    assert_eq!(changed(&service), [""; 0]);
}

/// Somebody exchanges the blade between two calls of one step.
#[test]
fn a_step_goes_on_at_the_machine_that_it_began_with() {
    let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, "")]));
    let service = chassis(&systems);
    let hands = hands(bmc(&service, None), "");
    for step in &STEPS[..2] {
        *systems.lock().unwrap() = vec![system(1, ONE, "")];
        let mut order = order(step, "n1");
        let Outcome::GoesOn { memo, .. } = hands.run(&order, &AtomicBool::new(false)) else { panic!("{step}") };
        *systems.lock().unwrap() = vec![system(1, TWO, "")];
        order.memo = memo.clone();
        let outcome = hands.run(&order, &AtomicBool::new(false));
        let Outcome::Failed { detail, .. } = outcome else { panic!("{step}: {outcome:?}") };
        assert!(detail.contains(ONE) && detail.contains(TWO) && detail.contains("this step began on"), "{detail}");
        // What it changed there is not put back here.
        let mut back = super::order::order("restore:firmware:NodeInterleave=On", "n1");
        back.memo = memo;
        if step.starts_with("firmware") {
            assert!(matches!(hands.run(&back, &AtomicBool::new(false)), Outcome::Failed { .. }));
        }
    }
    assert_eq!(changed(&service), [""; 0]);
}

#[test]
fn one_address_for_every_host_restarts_only_the_host_that_it_names() {
    for (name, is_restarted) in [("", false), ("n1", true)] {
        let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, name)]));
        let service = chassis(&systems);
        let bmcs = [("*".to_owned(), bmc(&service, None))].into();
        let hands = Hands::new(HandsConfig { bmcs, ..HandsConfig::default() });
        let mut order = order("reboot", "n1");
        let Outcome::GoesOn { memo, .. } = hands.run(&order, &AtomicBool::new(false)) else { panic!("{name}") };
        order.memo = memo;
        match hands.run(&order, &AtomicBool::new(false)) {
            Outcome::Failed { detail, .. } => {
                assert!(!is_restarted && detail.contains("every host has this address"), "{detail}")
            }
            other => assert!(is_restarted, "{other:?}"),
        }
        assert_eq!(changed(&service).len(), usize::from(is_restarted), "{name}");
    }
}

#[test]
fn the_hosts_own_uuid_chooses_its_system() {
    let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, ""), system(2, TWO, "")]));
    let service = chassis(&systems);
    let own = MachineIdentity { uuid: Some(TWO.replace('-', "")), serial: None };
    let machine = Bmc { own, ..bmc(&service, None) }.machine(&AtomicBool::new(false)).unwrap();
    assert_eq!(machine.system.path, "/redfish/v1/Systems/2");
}

/// The agent tells a hash of the UUID that its kernel has: the controller's system must have it, where both are known.
#[test]
fn a_system_is_held_against_what_the_host_s_agent_reports() {
    let systems: Systems = Arc::new(Mutex::new(vec![system(1, ONE, "")]));
    let service = chassis(&systems);
    let first = |bmc: Bmc, step: &str, machine: MachineId| {
        let of = Order { machine: Some(machine), ..order(step, "n1") };
        match hands(bmc, "").run(&of, &AtomicBool::new(false)) {
            Outcome::GoesOn { detail, .. } => Ok(detail),
            Outcome::Failed { detail, is_passing: false, .. } => Err(detail),
            other => panic!("{step}: {other:?}"),
        }
    };
    // The same in SMBIOS's order of bytes.
    for uuid in [ONE, "44454c4c-4200-1035-8051-b7c04f4e3233"] {
        assert_eq!(first(bmc(&service, None), "reboot", reported(uuid, "")).unwrap(), "about to restart");
    }
    for step in &STEPS[..2] {
        for chosen in [None, Some("/redfish/v1/Systems/1")] {
            let why = first(bmc(&service, chosen), step, reported(TWO, "")).unwrap_err();
            assert!(why.contains("its system is another machine than the agent of n1 reports"), "{why}");
            assert!(why.contains(&format!("choose it by its UUID {ONE}")), "{why}");
        }
        // A person who gives its UUID has looked it up.
        first(bmc(&service, Some(ONE)), step, reported(TWO, "")).unwrap();
        let unknown = first(bmc(&service, None), step, MachineId::default()).unwrap();
        assert!(
            unknown.contains("whether that is the machine of n1 is not known: no agent of it reports"),
            "{unknown}"
        );
    }
    // Of several it chooses the host's own, also where every host has this address.
    *systems.lock().unwrap() = vec![system(1, ONE, ""), system(2, TWO, "")];
    let every =
        Hands::new(HandsConfig { bmcs: [("*".to_owned(), bmc(&service, None))].into(), ..HandsConfig::default() });
    let mut of = Order { machine: Some(reported(TWO, "")), ..order("reboot", "n1") };
    for _ in 0..2 {
        let outcome = every.run(&of, &AtomicBool::new(false));
        let Outcome::GoesOn { memo, .. } = outcome else { panic!("{outcome:?}") };
        of.memo = memo;
    }
    assert_eq!(changed(&service), ["/redfish/v1/Systems/2/Actions/ComputerSystem.Reset"]);
    let neither = reported("4c4c4544-0042-3510-8051-b7c04f4e3239", "");
    assert!(first(bmc(&service, None), "reboot", neither).unwrap_err().contains("2 systems"));
}
