//! Devices that fail, in a guest: netdevsim, whose health reporter reports what it is told to, and an e1000e of QEMU's, whose driver
//! says that the offline self-test fails.

use serde_json::Value;
use std::path::{Path, PathBuf};
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::{Guest, Ran};
use surefoot_testkit::not_run::not_run;

/// Makes a device with one port, breaks its health in three ways, and asks Surefoot each time; devlink itself says the counts.
const NETDEVSIM: &str = r#"
export PATH=/bin
mkdir -p /var/lib
insmod /netdevsim.ko || exit 9
echo "10 1" >/sys/bus/netdevsim/new_device
tries=0
while [ ! -e /sys/class/net/eth0 ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
# The kernel sends packets of its own over IPv6.
echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
ip link set eth0 up
health=/sys/kernel/debug/netdevsim/netdevsim10/health
look() { echo "== $1"; shift; /surefoot nic health --json --over 1s "$@"; echo "code $?"; }
look before
echo boom >$health/break_health
look recovered
echo 1 >$health/fail_recover
echo again >$health/break_health
[ ! -x /record_devlink ] || /record_devlink | sed "s/^/recorded /"
look broken
look doubted --recover
look dry --recover --even-if-probable
look failing --recover --yes --even-if-probable
echo 0 >$health/fail_recover
look limited --recover --yes --even-if-probable
echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
ip addr add 192.0.2.1/24 dev eth0
( i=0; while [ $i -lt 400 ]; do ping -c 1 -W 1 192.0.2.9; arping -c 1 -w 1 -I eth0 192.0.2.9; i=$((i + 1)); done ) >/dev/null 2>&1 &
sent=/sys/class/net/eth0/statistics/tx_packets
before=$(cat $sent)
tries=0
while [ "$(cat $sent)" = "$before" ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
/surefoot nic health --json --over 5s >/flowing; echo "== flowing"; cat /flowing; echo "code 0"
kill $!
look repaired --recover --yes --even-if-probable --grace 1ns --journal /other
look after
echo "== devlink"
/devlink -j health show netdevsim/netdevsim10 reporter dummy
"#;

/// Runs the self-test of the e1000e by both programs.
const SELF_TEST: &str = r#"
export PATH=/bin
name=$(ls /sys/class/net | grep -v lo | head -n 1)
look() { echo "== $1"; shift; /surefoot nic health --json --over 10ms --interface $name "$@" 2>&1; echo "code $?"; }
look online --self-test online
look offline --self-test offline
ip link set $name up
tries=0
while ! grep -q 1 /sys/class/net/$name/carrier && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
look refused --self-test offline
look twice --self-test offline --even-in-use
ip link set $name down
sleep 1
echo "== ethtool"
[ ! -x /ethtool ] || /ethtool -t $name offline
"#;

/// The guest with the command in it, without what a debugger would need.
fn guest(test: &str, folder: &Path) -> Option<Guest> {
    let guest = match Guest::find() {
        Ok(guest) => guest,
        Err(why) => {
            not_run(test, &why);
            return None;
        }
    };
    let small = folder.join("surefoot");
    let stripped = std::process::Command::new("llvm-strip").arg("-o").arg(&small).arg(binary()).status();
    let command = if stripped.is_ok_and(|status| status.success()) { &*small } else { binary() };
    Some(guest.with_file(command, "/surefoot"))
}

fn run(guest: &Guest, script: &str) -> Ran {
    let ran = guest.run(Path::new("/bin/sh"), &["-c", script], &[]).unwrap();
    println!("{}", ran.text);
    ran
}

/// What was printed below a heading.
fn below<'a>(ran: &'a Ran, heading: &str) -> &'a str {
    let (_, rest) =
        ran.text.split_once(&format!("== {heading}\n")).unwrap_or_else(|| panic!("{heading}: {}", ran.console));
    rest.split("\n== ").next().unwrap()
}

fn line(text: &str, of_type: &str) -> Value {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line["type"] == of_type).unwrap_or_else(|| panic!("{of_type}: {text}"))
}

fn code(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("code ")).unwrap()
}

/// The interface of the device, and its reporter `dummy`.
fn dummy(text: &str) -> (Value, Value) {
    let interface = line(text, "interface");
    let reporters = interface["reporters"].as_array().unwrap().clone();
    let dummy = reporters.into_iter().find(|one| one["name"] == "dummy").unwrap_or_else(|| panic!("{interface}"));
    (interface, dummy)
}

/// The module for the guest's kernel, which `xtask/setup.sh` builds.
fn netdevsim() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().map(|folder| folder.join("guest/netdevsim/netdevsim.ko"));
    folders.into_iter().find(|file| file.is_file())
}

#[test]
fn a_health_reporter_is_counted_judged_and_asked_to_recover() {
    const NAME: &str = "nic::guest::a_health_reporter_is_counted_judged_and_asked_to_recover";
    let folder = tempfile::tempdir().unwrap();
    let Some(module) = netdevsim() else {
        return not_run(
            NAME,
            "there is no guest/netdevsim/netdevsim.ko below the target folder; `make setup` builds one",
        );
    };
    let devlink = ["/usr/sbin/devlink", "/sbin/devlink", "/usr/bin/devlink"]
        .map(Path::new)
        .into_iter()
        .find(|file| file.is_file());
    let Some(devlink) = devlink else { return not_run(NAME, "devlink (iproute2) is not installed") };
    let Some(guest) = guest(NAME, folder.path()) else { return };
    let guest = guest.with_module("psample").with_file(&module, "/netdevsim.ko").with_file(devlink, "/devlink");
    // For the fixture of crates/interfaces: the built example of that name.
    let recorder = std::env::var_os("SUREFOOT_RECORD_DEVLINK").map(PathBuf::from);
    let guest = recorder.iter().fold(guest, |guest, file| guest.with_file(file, "/record_devlink"));
    let ran = run(&guest, NETDEVSIM);

    let (interface, reporter) = dummy(below(&ran, "before"));
    assert_eq!((&interface["state"], &interface["driver"]), (&"ok".into(), &"netdevsim".into()), "{interface}");
    assert_eq!((&reporter["state"], &reporter["error_count"]), (&"healthy".into(), &0.into()));
    // The driver recovers by itself: counted, with the dump of the error.
    let (_, reporter) = dummy(below(&ran, "recovered"));
    let counts = |reporter: &Value| ["error_count", "recover_count"].map(|name| reporter[name].as_u64().unwrap());
    assert_eq!((counts(&reporter), &reporter["has_dump"]), ([1, 1], &true.into()), "{reporter}");
    // It cannot.
    let broken = below(&ran, "broken");
    let (interface, reporter) = dummy(broken);
    assert_eq!((counts(&reporter), &reporter["state"]), ([2, 1], &"error".into()), "{reporter}");
    // Nothing is known of this reporter but its name, and no packet went since: a reporter alone is never certain.
    assert_eq!((&interface["state"], &interface["certainty"], code(broken)), (&"hung".into(), &"probable".into(), "1"));

    let step = |heading: &str| line(below(&ran, heading), "deed");
    let doubted = step("doubted");
    assert_eq!(doubted["outcome"]["why"]["kind"], "only_probable", "{doubted}");
    let dry = step("dry");
    assert_eq!((&dry["action"], &dry["outcome"]["kind"]), (&"reporter_recover".into(), &"planned".into()), "{dry}");
    let failing = step("failing");
    assert_eq!(failing["outcome"]["kind"], "failed", "the driver refuses: {failing}");
    let limited = step("limited");
    // No link is taken down for what a reporter alone says.
    assert_eq!(
        (&limited["action"], &limited["outcome"]["kind"]),
        (&"reporter_recover".into(), &"withheld".into()),
        "{limited}"
    );
    assert_eq!(limited["outcome"]["why"]["kind"], "too_early", "{limited}");
    // Packets that go out are asked of the counters, and the interface is called hung no longer.
    let (interface, reporter) = dummy(below(&ran, "flowing"));
    assert_eq!((&interface["state"], &reporter["state"]), (&"ok".into(), &"error".into()), "{interface}");
    let repaired = step("repaired");
    assert_eq!(
        (&repaired["action"], &repaired["outcome"]["kind"]),
        (&"reporter_recover".into(), &"done".into()),
        "{repaired}"
    );
    let (interface, reporter) = dummy(below(&ran, "after"));
    assert_eq!((&reporter["state"], interface["state"] != "hung"), (&"healthy".into(), true), "{interface}");
    // devlink counts the same.
    let shown = below(&ran, "devlink");
    let [errors, recoveries] = counts(&reporter);
    assert!(shown.contains(&format!("\"error\":{errors},\"recover\":{recoveries}")), "{shown}");
}

#[test]
fn the_self_test_of_a_driver_says_what_ethtool_says() {
    const NAME: &str = "nic::guest::the_self_test_of_a_driver_says_what_ethtool_says";
    let folder = tempfile::tempdir().unwrap();
    let Some(guest) = guest(NAME, folder.path()) else { return };
    let mut guest = guest.with_module("e1000e").with_device(&[
        "-netdev",
        "user,id=net0,restrict=on",
        "-device",
        "e1000e,netdev=net0",
    ]);
    let ethtool = ["/usr/sbin/ethtool", "/sbin/ethtool"].map(Path::new).into_iter().find(|file| file.is_file());
    if let Some(ethtool) = ethtool {
        guest = guest.with_file(ethtool, "/ethtool");
    }
    let ran = run(&guest, SELF_TEST);
    let refused = below(&ran, "refused");
    assert!(refused.contains("is in use") && refused.contains("--even-in-use"), "{refused}");
    assert_eq!(code(refused), "2");
    for (heading, is_offline) in [("online", false), ("offline", true), ("twice", true)] {
        let test = &line(below(&ran, heading), "interface")["self_test"];
        assert_eq!((&test["why_not"], &test["is_offline"]), (&Value::Null, &is_offline.into()), "{test}");
    }
    let offline = &line(below(&ran, "offline"), "interface")["self_test"];
    let parts: Vec<(String, u64)> = offline["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["name"].as_str().unwrap().to_owned(), part["value"].as_u64().unwrap()))
        .collect();
    assert!(offline["has_passed"] == false && parts.iter().any(|(_, value)| *value != 0), "{offline}");
    assert_eq!(code(below(&ran, "offline")), "1");
    if ethtool.is_none() {
        return not_run(NAME, "ethtool is not installed, so its words were not compared");
    }
    let shown = below(&ran, "ethtool");
    assert!(shown.contains("The test result is FAIL"), "{shown}");
    let said: Vec<(String, u64)> = shown
        .lines()
        .filter_map(|line| line.rsplit_once('\t'))
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect();
    // Both offline tests ran on an interface that is switched off. Whether a frame comes back in time is another matter each time where
    // the machine that emulates the interface is busy.
    let steady = |parts: Vec<(String, u64)>| -> Vec<(String, Option<u64>)> {
        let of = |name: &str, value| (!name.starts_with("Loopback")).then_some(value);
        parts.into_iter().map(|(name, value)| (name.clone(), of(&name, value))).collect()
    };
    assert_eq!(steady(parts), steady(said), "{shown}");
}
