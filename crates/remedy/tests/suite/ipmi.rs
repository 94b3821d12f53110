//! Restarts by IPMI, at the simulator of OpenIPMI: whether its machine has power stands in a file.

use super::order::order;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_hostfs::{children, program};
use surefoot_remedy::act::{Act, Found, Hands, HandsConfig, Ipmi, Order, Outcome, Times};
use surefoot_testkit::not_run::not_run;

const PATIENCE: Duration = Duration::from_secs(60);

/// A controller that is simulated; it ends with the test.
struct Simulated {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Simulated {
    /// One whose machine has power; `None` where the programs are not there.
    fn start() -> Option<Simulated> {
        let (simulator, _) = (program::find("ipmi_sim")?, program::find("ipmitool")?);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let allowed = ["callback", "user", "operator", "admin"].map(|who| format!("  allowed_auths_{who} none md5\n"));
        let lan = format!(
            "name \"bmc\"\nset_working_mc 0x20\nstartlan 1\n  addr 127.0.0.1 {port}\n  priv_limit admin\n{}\
             \n  guid a123456789abcdefa123456789abcdef\nendlan\nchassis_control \"{}\"\n\
             user 1 true \"\" \"\" user 10 none md5\nuser 2 true \"tester\" \"secret\" admin 10 none md5\n",
            allowed.concat(),
            at("control").display()
        );
        let control = format!(
            "#!/bin/sh\ncd '{}'\necho \"$*\" >> asked\ncase \"$1 $2\" in\n\
             'get power') echo \"power:$(cat power)\";;\n'set power') echo \"$3\" > power;;\n\
             'set shutdown') test -e refuses && exit 1; if test -e deaf; then :; else echo 0 > power; fi;;\nesac\n",
            folder.path().display()
        );
        fs::write(at("lan.conf"), lan).unwrap();
        fs::write(at("power"), "1\n").unwrap();
        fs::write(at("control"), control).unwrap();
        fs::set_permissions(at("control"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(
            at("bmc.emu"),
            "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n",
        )
        .unwrap();
        fs::create_dir(at("state")).unwrap();
        fs::write(at("password"), "secret\n").unwrap();
        let mut command = Command::new(simulator);
        command.args(["-c", "lan.conf", "-f", "bmc.emu", "-s", "state", "-n"]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        children::kill_with_starter(&mut command);
        Some(Simulated { child: command.spawn().unwrap(), folder, port })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn hands(&self) -> Hands {
        hands(format!("ipmi://127.0.0.1:{}", self.port), self.at("password"), PATIENCE)
    }

    /// What the machine was told to do; looking at it left out.
    fn told(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.at("asked")).unwrap_or_default();
        asked.lines().filter(|line| line.starts_with("set")).map(str::to_owned).collect()
    }
}

fn hands(url: String, password_file: PathBuf, patience: Duration) -> Hands {
    let ipmi = Ipmi { patience, ..Ipmi::new(&url, "tester", password_file).unwrap() };
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
            Outcome::Done { detail, .. } => {
                said.push(detail);
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
    let Some(simulated) = Simulated::start() else {
        return not_run(NAME, "ipmi_sim or ipmitool is not installed");
    };
    let hands = simulated.hands();
    // A controller dies after each call, and what it was to remember is lost: the next one finds out, and does the call again.
    let mut order = order("reboot", "n1");
    let mut calls = 0;
    loop {
        let lost = call(&hands, &order);
        assert_eq!(hands.find(&order), Found::MayRepeat, "{lost:?}");
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
    assert_eq!(fs::read_to_string(simulated.at("power")).unwrap().trim(), "1");

    // A system that does not shut down is switched off.
    fs::write(simulated.at("deaf"), "").unwrap();
    let said = finish(&hands, self::order("reboot", "n1"));
    assert!(said.iter().any(|words| words.contains("switched off")), "{said:?}");
    assert!(said.last().unwrap().starts_with("it is back after"), "{said:?}");

    // And one whose controller refuses to tell it so at once.
    fs::write(simulated.at("refuses"), "").unwrap();
    let said = finish(&hands, self::order("reboot", "n1"));
    assert!(said.iter().any(|words| words.contains("cannot be told to shut down")), "{said:?}");
    assert!(said.last().unwrap().starts_with("it is back after"), "{said:?}");
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
