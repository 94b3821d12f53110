//! A small Redfish server, well and ill, asked over loopback.
#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a path.
#[derive(Clone)]
enum Does {
    Answers(String),
    /// With gzip, though nobody asked for that.
    Packs(String),
    Refuses(u16),
    Hangs,
    Floods,
}

/// Answers these paths on a port of its own until the test's process ends; keeps what it was asked.
fn serve(paths: BTreeMap<String, Does>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (paths, keeps) = (paths.clone(), Arc::clone(&keeps));
            std::thread::spawn(move || _ = speak(stream, &paths, &keeps));
        }
    });
    (url, asked)
}

fn speak(mut stream: TcpStream, paths: &BTreeMap<String, Does>, keeps: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.by_ref().take(8192).read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        keeps.lock().unwrap().push(head.clone());
        let path = head.split(' ').nth(1).unwrap_or_default();
        match paths.get(path).cloned().unwrap_or(Does::Refuses(404)) {
            Does::Answers(body) => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
            }
            Does::Packs(body) => {
                let packed = gzip(body.as_bytes());
                let length = packed.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n")?;
                stream.write_all(&packed)?;
            }
            Does::Refuses(status) => write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n")?,
            Does::Hangs => std::thread::sleep(Duration::from_secs(600)),
            Does::Floods => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&[b' '; 65536])?;
                }
            }
        }
    }
}

/// RFC 1952, with one block that is stored as it is.
fn gzip(body: &[u8]) -> Vec<u8> {
    let crc = body.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    let length = u16::try_from(body.len()).unwrap();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
    packed.extend(body);
    packed.extend((!crc).to_le_bytes().into_iter().chain(u32::from(length).to_le_bytes()));
    packed
}

fn link_to(path: &str) -> String {
    format!(r#"{{"@odata.id": "{path}"}}"#)
}

/// Two modules and an empty slot, the second with errors.
fn machine() -> BTreeMap<String, Does> {
    let memory = "/redfish/v1/Systems/1/Memory";
    let module = |number: u32, state: &str| {
        format!(
            r#"{{"DeviceLocator": "DIMM A{number}", "SerialNumber": "S{number}", "CapacityMiB": 32768,
            "Status": {{"State": "{state}"}}, "Metrics": {}}}"#,
            link_to(&format!("{memory}/{number}/MemoryMetrics"))
        )
    };
    let metrics = |number: u32, corrected: u64| {
        (
            format!("{memory}/{number}/MemoryMetrics"),
            Does::Answers(format!(
                r#"{{"LifeTime": {{"CorrectableECCErrorCount": {corrected}, "UncorrectableECCErrorCount": {}}},
                "CurrentPeriod": {{"CorrectableECCErrorCount": {}}}}}"#,
                corrected / 100,
                corrected.min(1)
            )),
        )
    };
    let links: Vec<String> = (1..=3).map(|number| link_to(&format!("{memory}/{number}"))).collect();
    BTreeMap::from([
        (
            "/redfish/v1/Systems".into(),
            Does::Answers(format!(r#"{{"Members": [{}]}}"#, link_to("/redfish/v1/Systems/1"))),
        ),
        ("/redfish/v1/Systems/1".into(), Does::Answers(format!(r#"{{"Memory": {}}}"#, link_to(memory)))),
        (memory.into(), Does::Answers(format!(r#"{{"Members": [{}]}}"#, links.join(",")))),
        (format!("{memory}/1"), Does::Answers(module(1, "Enabled"))),
        (format!("{memory}/2"), Does::Answers(module(2, "Enabled"))),
        (format!("{memory}/3"), Does::Answers(module(3, "Absent"))),
        metrics(1, 0),
        metrics(2, 312),
    ])
}

fn asked(url: &str, seconds: u64) -> Answer {
    let user = Some(("root".into(), "a \"quoted\\ word".into()));
    look(&Service { url: url.into(), user, patience: Duration::from_secs(seconds), ..Service::default() })
}

#[test]
fn every_module_is_read_with_its_errors_and_empty_slots_are_not() {
    let (url, heads) = serve(machine());
    let answer = asked(&url, 60);
    assert_eq!(answer.problems, []);
    let counts: Vec<_> = answer.modules.iter().map(|one| (&*one.label, one.corrected, one.uncorrected)).collect();
    assert_eq!(counts, [("DIMM A1", Some(0), Some(0)), ("DIMM A2", Some(312), Some(3))]);
    assert_eq!((answer.modules[1].serial.as_deref(), answer.modules[1].size_bytes), (Some("S2"), 32 << 30));
    let heads = heads.lock().unwrap();
    // root:a "quoted\ word
    assert!(heads.iter().all(|head| head.contains("authorization: Basic cm9vdDphICJxdW90ZWRcIHdvcmQ=")), "{heads:?}");
}

#[test]
fn what_one_module_does_not_tell_costs_the_others_nothing() {
    let mut paths = machine();
    paths.insert("/redfish/v1/Systems/1/Memory/1/MemoryMetrics".into(), Does::Refuses(500));
    let (url, _) = serve(paths.clone());
    let answer = asked(&url, 60);
    assert_eq!(answer.modules.iter().map(|one| one.corrected).collect::<Vec<_>>(), [None, Some(312)]);
    assert!(answer.problems[0].why.contains("HTTP 500") && answer.problems[0].path.ends_with("1/MemoryMetrics"));
    paths.insert("/redfish/v1/Systems/1/Memory/1".into(), Does::Answers("rubbish".into()));
    let (url, _) = serve(paths);
    let answer = asked(&url, 60);
    assert_eq!((answer.modules.len(), answer.modules[0].corrected), (1, Some(312)));
    assert!(answer.problems[0].why.contains("no JSON"), "{:?}", answer.problems);
}

#[test]
fn what_is_no_count_is_told_and_a_module_without_a_name_has_that_of_its_address() {
    let memory = "/redfish/v1/Systems/1/Memory";
    for value in ["-5", "\"7\"", "7.5", "null"] {
        let mut paths = machine();
        let metrics = format!(r#"{{"LifeTime": {{"UncorrectableECCErrorCount": {value}}}}}"#);
        paths.insert(format!("{memory}/1/MemoryMetrics"), Does::Answers(metrics));
        paths.insert(format!("{memory}/1"), Does::Answers("{}".into()));
        let (url, _) = serve(paths);
        let answer = asked(&url, 60);
        assert_eq!((answer.modules[0].label.as_str(), answer.modules[0].uncorrected), ("1", None));
        assert_eq!(answer.modules[1].corrected, Some(312));
        let whys: Vec<_> =
            answer.problems.iter().map(|one| (one.path.ends_with("1/MemoryMetrics"), &*one.why)).collect();
        let words = if value == "null" { "1 of 2 modules have no error counts" } else { "which is no count" };
        assert_eq!(whys.len(), 1, "{whys:?}");
        assert!(whys.iter().all(|(is_there, why)| *is_there && why.contains(words)), "{whys:?}");
    }
}

#[test]
fn a_controller_that_hangs_floods_refuses_or_is_not_there_is_a_problem_in_time() {
    let ill = |does: Does| {
        let (url, _) = serve(BTreeMap::from([("/redfish/v1/Systems".into(), does)]));
        let answer = asked(&url, 2);
        assert!(answer.modules.is_empty());
        answer.problems[0].why.clone()
    };
    let begun = Instant::now();
    let why = ill(Does::Hangs);
    assert!(why.contains("timed out") || why.contains("no answer"), "{why}");
    assert!(ill(Does::Floods).contains("more than 262144 bytes"));
    assert!(ill(Does::Refuses(401)).contains("check the name and the password"));
    assert!(ill(Does::Answers("[]".into())).contains("no list 'Members'"));
    let nobody = asked("http://127.0.0.1:1", 5);
    assert!(nobody.problems[0].why.contains("no answer: "), "{nobody:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn an_address_with_a_line_feed_is_refused() {
    let service = Service { url: "http://a\nurl = file:///etc/passwd".into(), ..Service::default() };
    assert!(
        look(&Service { patience: Duration::from_secs(2), ..service }).problems[0].why.contains("control character")
    );
}

/// HPE iLO 5 from 2.30 on does so with parts of its tree.
#[test]
fn what_comes_packed_though_nobody_asked_is_read() {
    let mut paths = machine();
    for (path, does) in &mut paths {
        let Does::Answers(body) = does.clone() else { continue };
        if path.contains("/Memory") {
            *does = Does::Packs(body);
        }
    }
    let answer = asked(&serve(paths).0, 60);
    assert_eq!(answer.problems, []);
    assert_eq!(answer.modules.iter().map(|one| one.corrected).collect::<Vec<_>>(), [Some(0), Some(312)]);
}

#[test]
fn a_collection_in_pages_is_read_whole_and_what_is_missing_is_told() {
    let memory = "/redfish/v1/Systems/1/Memory";
    let page = |members: &[u32], more: &str| {
        let links: Vec<String> = members.iter().map(|number| link_to(&format!("{memory}/{number}"))).collect();
        Does::Answers(format!(r#"{{"Members@odata.count": 3, "Members": [{}]{more}}}"#, links.join(",")))
    };
    let next = format!(r#", "Members@odata.nextLink": "{memory}?$skip=1""#);
    let mut paths = machine();
    paths.insert(memory.into(), page(&[1], &next));
    paths.insert(format!("{memory}?$skip=1"), page(&[2, 3], ""));
    let answer = asked(&serve(paths.clone()).0, 60);
    assert_eq!((answer.modules.len(), answer.problems.len()), (2, 0), "{:?}", answer.problems);
    // The second page does not come, leads on for ever, or there is none: what is missing is unknown, not none.
    let again = format!(r#", "@odata.nextLink": "{memory}""#);
    for (second, words) in [(Does::Refuses(500), "HTTP 500"), (page(&[2], &again), "was read already")] {
        paths.insert(format!("{memory}?$skip=1"), second);
        let answer = asked(&serve(paths.clone()).0, 60);
        assert!(answer.modules.len() < 3, "{:?}", answer.modules);
        let whys: Vec<&str> = answer.problems.iter().map(|problem| &*problem.why).collect();
        assert!(whys[0].contains(words) && whys[1].contains("3 members, of which"), "{whys:?}");
    }
    paths.insert(memory.into(), page(&[1], ""));
    let answer = asked(&serve(paths.clone()).0, 60);
    assert!(answer.problems[0].why.contains("3 members, of which 1 were read"), "{:?}", answer.problems);
    // A system that names no collection is not one without modules.
    paths.insert("/redfish/v1/Systems/1".into(), Does::Answers(r#"{"Memory": null}"#.into()));
    let answer = asked(&serve(paths).0, 60);
    assert!(answer.problems[0].why.contains("its modules are unknown"), "{:?}", answer.problems);
}

/// A chassis manager: the slots of its blades have the same names.
#[test]
fn of_several_systems_only_this_machine_s_modules_are_read() {
    let mut paths = machine();
    let blade = |number: u32| {
        let memory = format!("/redfish/v1/Systems/{number}/Memory");
        let uuid = format!("4c4c4544-0042-3510-8051-b7c04f4e323{number}");
        format!(r#"{{"UUID": "{uuid}", "SerialNumber": "N700{number}", "Memory": {}}}"#, link_to(&memory))
    };
    let links = [1, 2].map(|number| link_to(&format!("/redfish/v1/Systems/{number}"))).join(",");
    paths.insert("/redfish/v1/Systems".into(), Does::Answers(format!(r#"{{"Members": [{links}]}}"#)));
    for number in [1, 2] {
        paths.insert(format!("/redfish/v1/Systems/{number}"), Does::Answers(blade(number)));
    }
    // The other blade's module at the same place has lost data.
    let other = "/redfish/v1/Systems/2/Memory";
    paths.insert(other.into(), Does::Answers(format!(r#"{{"Members": [{}]}}"#, link_to(&format!("{other}/1")))));
    paths.insert(format!("{other}/1"), Does::Answers(r#"{"DeviceLocator": "DIMM A1"}"#.into()));
    let lost = r#"{"LifeTime": {"CorrectableECCErrorCount": 9, "UncorrectableECCErrorCount": 7}}"#;
    paths.insert(format!("{other}/1/MemoryMetrics"), Does::Answers(lost.into()));
    let (url, _) = serve(paths);
    let ask = |own: MachineIdentity, system: Option<&str>| {
        let system = system.map(str::to_owned);
        look(&Service { url: url.clone(), patience: Duration::from_secs(60), system, own, ..Service::default() })
    };
    let own = MachineIdentity { uuid: Some("4c4c4544004235108051b7c04f4e3231".into()), serial: None };
    let counts = |answer: Answer| answer.modules.into_iter().map(|one| one.uncorrected).collect::<Vec<_>>();
    assert_eq!(counts(ask(own.clone(), None)), [Some(0), Some(3)]);
    for chosen in ["N7002", "/redfish/v1/Systems/2"] {
        assert_eq!(counts(ask(MachineIdentity::default(), Some(chosen))), [Some(7)], "{chosen}");
    }
    let refused = ask(MachineIdentity::default(), None);
    assert_eq!(refused.modules, []);
    for words in ["2 systems", "--redfish-system", "N7001", "/redfish/v1/Systems/2"] {
        assert!(refused.problems[0].why.contains(words), "{words}: {refused:?}");
    }
    assert_eq!(ask(own, Some("/redfish/v1/Systems/2")).modules, []);
}

#[test]
fn every_sign_of_a_bad_module_is_told() {
    let memory = "/redfish/v1/Systems/1/Memory";
    let with = |metrics: &str, module: Option<&str>| {
        let mut paths = machine();
        paths.insert(format!("{memory}/1/MemoryMetrics"), Does::Answers(metrics.into()));
        if let Some(module) = module {
            paths.insert(format!("{memory}/1"), Does::Answers(module.into()));
        }
        let (url, _) = serve(paths);
        let answer = asked(&url, 60);
        let whys: Vec<String> = answer.problems.iter().map(|one| one.why.clone()).collect();
        let first = answer.modules.first().map(|one| (one.corrected, one.uncorrected));
        (first, answer.modules.len(), whys)
    };
    // Errors that a counter may or may not have counted count in both.
    let metrics = r#"{"LifeTime": {"CorrectableECCErrorCount": 1, "UncorrectableECCErrorCount": 0,
        "IndeterminateUncorrectableErrorCount": 7}, "CurrentPeriod": {"CorrectableECCErrorCount": 99}}"#;
    assert_eq!(with(metrics, None), (Some((Some(99), Some(7))), 2, vec![]));
    let none = r#"{"LifeTime": {"CorrectableECCErrorCount": 0, "UncorrectableECCErrorCount": 0},
        "HealthData": {"DataLossDetected": true, "AlarmTrips": {"UncorrectableECCError": true, "Temperature": false}}}"#;
    let (first, _, whys) = with(none, None);
    assert_eq!(first, Some((Some(0), Some(0))));
    assert_eq!(whys, ["DIMM A1: the service says DataLossDetected, AlarmTrips.UncorrectableECCError"]);
    // A module that is so broken that it is absent.
    let module = r#"{"DeviceLocator": "DIMM A1", "Status": {"State": "Absent", "Health": "Critical"}}"#;
    let (first, count, whys) =
        with(r#"{"LifeTime": {"CorrectableECCErrorCount": 0, "UncorrectableECCErrorCount": 5}}"#, Some(module));
    assert_eq!((first, count), (Some((Some(0), Some(5))), 2));
    assert_eq!(whys, ["DIMM A1: the service says Health Critical and State Absent"]);
}
