//! `surefoot memory status` and `watch` with management controllers: a Redfish service of a few lines, `ipmi_sim`, and ones that hang,
//! refuse or answer rubbish, beside which the other sources go on.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use surefoot_testkit::HostTree;
use surefoot_testkit::ipmi::{Controller, USER};
use surefoot_testkit::not_run::not_run;

fn fixture() -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join("../memory/tests/fixtures/intel-icelake-16dimm.tree"))
}

fn run(words: &str, tree: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.arg("memory").args(words.split(' ')).arg("--host-root").arg(tree).args(options).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str, field: &str, wanted: &str) -> Option<&'a Value> {
    lines.iter().rev().find(|line| line["type"] == kind && line[field] == wanted)
}

fn problem<'a>(lines: &'a [Value], source: &str) -> &'a str {
    of(lines, "problem", "source", source).and_then(|line| line["why"].as_str()).unwrap_or_else(|| panic!("{lines:#?}"))
}

/// A server on a port of its own that answers each request as it is told, until the test process ends.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => request.extend_from_slice(&piece[..bytes]),
                }
            }
            answer(&String::from_utf8_lossy(&request), &mut stream);
        }
    });
    address
}

fn reply(stream: &mut TcpStream, status: &str, body: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
}

/// A service with one system of two modules: one that the kernel knows by its serial number, and one that it does not show.
fn redfish(request: &str, stream: &mut TcpStream) {
    if !request.contains("Basic dGVzdGVyOnNlY3JldA==") {
        return reply(stream, "401 Unauthorized", "{}");
    }
    let member = |path: &str| json!({"@odata.id": path});
    let module =
        |label: &str, serial: &str| json!({"DeviceLocator": label, "SerialNumber": serial, "CapacityMiB": 32768});
    let metrics = |corrected: u64, lost: u64| json!({"LifeTime": {"CorrectableECCErrorCount": corrected, "UncorrectableECCErrorCount": lost}});
    let memory = "/redfish/v1/Systems/1/Memory";
    let body = match request.split(' ').nth(1).unwrap_or_default() {
        "/redfish/v1/Systems" => json!({"Members": [member("/redfish/v1/Systems/1")]}),
        "/redfish/v1/Systems/1" => json!({"UUID": UUID, "Memory": member(memory)}),
        path if path == memory => json!({"Members": [member(&format!("{memory}/1")), member(&format!("{memory}/2"))]}),
        "/redfish/v1/Systems/1/Memory/1" => module("DIMM_A1", "03A10000"),
        "/redfish/v1/Systems/1/Memory/2" => module("CXL_1", "CX77"),
        "/redfish/v1/Systems/1/Memory/1/MemoryMetrics" => metrics(12, 0),
        "/redfish/v1/Systems/1/Memory/2/MemoryMetrics" => metrics(5, 1),
        _ => return reply(stream, "404 Not Found", "{}"),
    };
    reply(stream, "200 OK", &body.to_string());
}

/// That of the service's system.
const UUID: &str = "4C4C4544-0042-3510-8051-B7C04F4E3233";

#[test]
fn a_module_whose_errors_nothing_counts_is_not_one_without_errors() {
    let silent = |request: &str, stream: &mut TcpStream| match request.contains("/Memory/2/MemoryMetrics") {
        true => reply(stream, "200 OK", "{}"),
        false => redfish(request, stream),
    };
    let (tree, folder) = (fixture(), tempfile::tempdir().unwrap());
    let url = format!("http://{}", serve(silent));
    let options =
        ["--redfish", &url, "--bmc-user", "tester", "--bmc-password-file", &password(folder.path(), "secret")];
    let said = String::from_utf8(run("status", tree.path(), &options).stdout).unwrap();
    assert!(said.contains("1 whose errors nothing counts (CX77)"), "{said}");
    let row = said.lines().find(|line| line.starts_with("CX77")).unwrap();
    assert_eq!(row.split_whitespace().filter(|word| word.contains('0')).count(), 0, "{row}");
    let found = lines(&run("status", tree.path(), &[&options[..], &["--json"]].concat()));
    assert_eq!(of(&found, "dimm", "id", "CX77").unwrap()["fidelity"], "unknown");
}

#[test]
fn another_machine_s_service_counts_nothing_here() {
    let (tree, folder) = (fixture(), tempfile::tempdir().unwrap());
    let url = format!("http://{}", serve(redfish));
    let file = password(folder.path(), "secret");
    let options = ["--json", "--redfish", &url, "--bmc-user", "tester", "--bmc-password-file", &file];
    let place = tree.path().join("sys/class/dmi/id");
    std::fs::create_dir_all(&place).unwrap();
    let own = |uuid: &str| std::fs::write(place.join("product_uuid"), format!("{uuid}\n")).unwrap();
    own(&UUID.to_lowercase());
    let found = lines(&run("status", tree.path(), &options));
    assert_eq!(of(&found, "dimm", "id", "CX77").unwrap()["corrected_count"], 5);
    own("4c4c4544-0042-3510-8051-b7c04f4e3234");
    let found = lines(&run("status", tree.path(), &options));
    assert_eq!(of(&found, "dimm", "id", "CX77"), None);
    assert!(problem(&found, "redfish").contains("--redfish-system"), "{found:#?}");
    // Somebody who knows better says so.
    let found = lines(&run("status", tree.path(), &[&options[..], &["--redfish-system", UUID]].concat()));
    assert_eq!(of(&found, "dimm", "id", "CX77").unwrap()["corrected_count"], 5);
}

fn password(folder: &Path, text: &str) -> String {
    let file = folder.join(text);
    std::fs::write(&file, format!("{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

#[test]
fn redfish_counts_stand_beside_those_of_the_kernel() {
    let (tree, folder) = (fixture(), tempfile::tempdir().unwrap());
    let url = format!("http://{}", serve(redfish));
    let file = password(folder.path(), "secret");
    let options = ["--json", "--redfish", &url, "--bmc-user", "tester", "--bmc-password-file", &file];
    let found = lines(&run("status", tree.path(), &options));
    let known = of(&found, "dimm", "id", "03A10000").unwrap();
    assert_eq!((&known["corrected_count"], &known["fidelity"]), (&12.into(), &"lower_bound".into()), "{known}");
    assert_eq!((&known["sources"], &known["fault_mode"]), (&json!(["edac", "redfish"]), &"undetermined".into()));
    let alone = of(&found, "dimm", "id", "CX77").unwrap();
    assert_eq!((&alone["uncorrected_count"], &alone["sources"]), (&1.into(), &json!(["redfish"])));
    // A watch has them, too, with its first answer.
    let watched = lines(&run("watch", tree.path(), &[&options[..], &["--duration", "5s"]].concat()));
    assert_eq!(of(&watched, "dimm", "id", "CX77").unwrap()["corrected_count"], 5);
    // Another password: the kernel's counts are there all the same.
    let file = password(folder.path(), "guess");
    let options = ["--json", "--redfish", &url, "--bmc-user", "tester", "--bmc-password-file", &file];
    let found = lines(&run("status", tree.path(), &options));
    assert!(problem(&found, "redfish").contains("refuses this user"));
    assert_eq!(of(&found, "dimm", "id", "03A10004").unwrap()["corrected_count"], 48_211);
}

#[test]
fn a_controller_that_hangs_or_answers_rubbish_is_told_and_the_others_go_on() {
    let tree = fixture();
    let rubbish = serve(|_, stream| reply(stream, "200 OK", "<html>login</html>"));
    let hangs = serve(|_, stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    for (address, why) in [(rubbish, "answered no JSON"), (hangs, "no answer"), (nobody, "no answer")] {
        let url = format!("http://{address}");
        let begun = Instant::now();
        let found = lines(&run("status", tree.path(), &["--json", "--bmc-timeout", "2s", "--redfish", &url]));
        assert!(problem(&found, "redfish").contains(why), "{}", problem(&found, "redfish"));
        assert!(begun.elapsed() < Duration::from_secs(60), "{url}");
        assert_eq!(of(&found, "dimm", "id", "03A10004").unwrap()["corrected_count"], 48_211);
    }
}

#[test]
fn options_that_name_no_controller_are_refused() {
    let (tree, folder) = (fixture(), tempfile::tempdir().unwrap());
    let file = password(folder.path(), "secret");
    let readable = folder.path().join("readable");
    std::fs::write(&readable, "secret\n").unwrap();
    std::fs::set_permissions(&readable, std::fs::Permissions::from_mode(0o644)).unwrap();
    let readable = readable.display().to_string();
    for (options, why) in [
        (vec!["--redfish", "bmc17"], "name a service"),
        (vec!["--event-log=bmc17"], "needs --bmc-user"),
        (vec!["--bmc-user", "x", "--bmc-password-file", &file], "--bmc-user needs"),
        (vec!["--redfish", "https://x", "--bmc-user", "x", "--bmc-password-file", &readable], "others may read"),
        (vec!["--redfish-insecure"], "--redfish"),
    ] {
        for command in ["status", "watch --duration 1s"] {
            let output = run(command, tree.path(), &options);
            assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{options:?}: {output:?}");
        }
    }
}

#[test]
fn the_event_log_of_a_controller_counts_its_modules() {
    const TEST: &str = "the_event_log_of_a_controller_counts_its_modules";
    if let Some(why) = Controller::unsupported() {
        return not_run(TEST, &why);
    }
    let (tree, folder, simulated) = (fixture(), tempfile::tempdir().unwrap(), Controller::start().unwrap());
    let file = simulated.password_file().display().to_string();
    for offset in [0, 0, 1] {
        simulated.log(offset).unwrap();
    }
    let place = format!("--event-log=127.0.0.1:{}", simulated.port());
    let options = ["--json", &place, "--bmc-user", USER, "--bmc-password-file", &file, "--bmc-timeout", "60s"];
    let found = lines(&run("status", tree.path(), &options));
    let counted: Vec<&Value> =
        found.iter().filter(|line| line["type"] == "dimm" && line["sources"] == json!(["event_log"])).collect();
    let [module] = counted[..] else { panic!("{found:#?}") };
    assert_eq!((&module["corrected_count"], &module["uncorrected_count"]), (&2.into(), &1.into()), "{module}");
    assert_eq!(module["fidelity"], "lower_bound");
    let wrong = password(folder.path(), "guess");
    let options = ["--json", &place, "--bmc-user", USER, "--bmc-password-file", &wrong, "--bmc-timeout", "60s"];
    let found = lines(&run("status", tree.path(), &options));
    assert!(problem(&found, "event_log").contains("got no answer"), "{found:#?}");
    assert_eq!(of(&found, "dimm", "id", "03A10004").unwrap()["corrected_count"], 48_211);
}
