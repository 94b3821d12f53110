//! The hybrid debug mode before a real Redfish service, with a history that a made-up Surefoot tells.

use super::order::order;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_remedy::act::debug_mode::{Repair, RepairKind, Row};
use surefoot_remedy::act::{Act, Bmc, Hands, HandsConfig, Order, Outcome, Times};
use surefoot_testkit::{not_run::not_run, redfish::Controller};

const ADAPTER: &str = "[debug]\nProcTurboMode = \"FirmwareFirst\"\nNumCores = \"1\"\n\n[soft_repair]\nNicBoot1 = \"Soft\"\n\n\
                       [hard_repair]\nNicBoot1 = \"Hard\"\n\n[spares]\nper = \"bank_group\"\nrows = 1\n";

struct Fixture {
    controller: Controller,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report");
        let text = format!("{ADAPTER}\n[report]\nrun = \"{}\"\n", report.display());
        fs::write(folder.path().join("maker.toml"), text).unwrap();
        let script = "#!/bin/sh\n[ \"$1\" = report ] || exit 9\n\
                      echo \"$SUREFOOT_HOST $SUREFOOT_PPR $SUREFOOT_ROWS\" > \"$0.asked\"\ncat \"$0.json\"\n";
        fs::write(&report, script).unwrap();
        fs::set_permissions(&report, fs::Permissions::from_mode(0o755)).unwrap();
        let place = Fixture { controller: Controller::start().unwrap(), folder };
        place.reports(1, 1, 3);
        place
    }

    /// What the firmware says of a repair from now on.
    fn reports(&self, asked: u32, accepted: u32, left: u32) {
        let text = format!(r#"{{"rows_asked": {asked}, "rows_accepted": {accepted}, "spare_rows_left": {left}}}"#);
        fs::write(self.folder.path().join("report.json"), text).unwrap();
    }

    fn hands(&self) -> Hands {
        let bmc = Bmc { url: self.controller.url(), ..Bmc::default() };
        let reboot = Times { settle: Duration::from_millis(100), limit: Duration::from_secs(60) };
        Hands::new(HandsConfig {
            bmcs: [("n1".to_owned(), bmc)].into(),
            reboot,
            adapters: Some(self.folder.path().to_owned()),
            surefoot: Some(self.surefoot()),
            ..HandsConfig::default()
        })
    }

    /// Prints errors as `surefoot history --json` does.
    fn surefoot(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("surefoot");
        let report = |row: u32, count: u32| {
            format!(
                r#"{{"type":"record","room":"memory","kind":"error","body":{{"dimm":"A1","count":{count},"location":{{"rank":0,"bank_group":2,"bank":1,"row":{row}}}}}}}"#
            )
        };
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = history ] || exit 9\necho '{{\"type\":\"history\",\"watched_ns\":1,\"unknown_count\":0,\"records_left_out\":0}}'\necho '{}'\necho '{}'\n",
            report(26, 3),
            report(26, 4)
        );
        let write = ["-c", "printf %s \"$1\" > \"$2\"", "sh", &text];
        assert!(Command::new("sh").args(write).arg(&path).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn setting(&self, name: &str) -> String {
        let systems = self.controller.get("/redfish/v1/Systems");
        let path = systems.split('"').find(|word| word.starts_with("/redfish/v1/Systems/")).unwrap();
        let bios = self.controller.get(&format!("{path}/BIOS"));
        let line = bios.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap();
        line.split('"').nth(3).unwrap().to_owned()
    }
}

/// As the engine does it: each call is told what the one before remembered.
fn finish(hands: &Hands, mut order: Order) -> Result<(Vec<String>, String), (String, String)> {
    let mut said = Vec::new();
    loop {
        match hands.run(&order, &AtomicBool::new(false)) {
            Outcome::Done { ref observed, ref memo, .. } => {
                said.push(observed.to_string());
                return Ok((said, memo.clone()));
            }
            Outcome::GoesOn { detail, memo, again_in_ns } => {
                said.push(detail);
                order.memo = memo;
                std::thread::sleep(Duration::from_nanos(again_in_ns).min(Duration::from_millis(200)));
            }
            Outcome::NotNeeded { detail } => {
                said.push(detail);
                return Ok((said, String::new()));
            }
            Outcome::Failed { detail, memo, .. } => return Err((detail, memo)),
            other => panic!("{other:?}"),
        }
        assert!(said.len() < 100, "{said:?}");
    }
}

#[test]
fn settings_are_switched_rows_repaired_within_their_budget_and_settings_restored() {
    const NAME: &str = "settings_are_switched_rows_repaired_within_their_budget_and_settings_restored";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let place = Fixture::new();
    let hands = place.hands();
    let before = (place.setting("ProcTurboMode"), place.setting("NumCores"));

    let (said, debug_memo) = finish(&hands, order("debug:maker", "n1")).unwrap();
    assert!(said[0].contains("remembered: NumCores = 10, ProcTurboMode = Enabled"), "{said:?}");
    assert_eq!((place.setting("ProcTurboMode"), place.setting("NumCores")), ("FirmwareFirst".into(), "1".into()));

    let (said, rows) = finish(&hands, order("collect:maker", "n1")).unwrap();
    assert_eq!(said, ["1 row with errors, 0 errors without a row"]);

    let with_rows = |step: &str, repairs: Vec<Repair>| {
        let earlier = vec![("debug:maker".to_owned(), debug_memo.clone()), ("collect:maker".to_owned(), rows.clone())];
        Order { earlier, repairs, ..order(step, "n1") }
    };
    let (said, _) = finish(&hands, with_rows("soft-repair:maker", Vec::new())).unwrap();
    assert_eq!(said.last().unwrap(), "1 of 1 rows repaired until the next reset (soft PPR), 3 spare rows left");
    assert_eq!(place.setting("NicBoot1"), "Soft");
    let asked = fs::read_to_string(place.folder.path().join("report.asked")).unwrap();
    assert!(asked.starts_with("n1 soft [{\"dimm\":\"A1\""), "{asked}");
    // That the setting holds does not repair a row.
    for (asked, accepted) in [(1, 0), (2, 2), (0, 0)] {
        place.reports(asked, accepted, 3);
        let (why, _) = finish(&hands, with_rows("soft-repair:maker", Vec::new())).unwrap_err();
        assert!(why.contains(&format!("was asked for {asked} and accepted {accepted}")), "{why}");
    }
    fs::write(place.folder.path().join("report.json"), "all fine").unwrap();
    let (why, _) = finish(&hands, with_rows("soft-repair:maker", Vec::new())).unwrap_err();
    assert!(why.contains("cannot be read"), "{why}");
    place.reports(1, 1, 2);

    // Another row of this bank group has the spare row already.
    let other = Row { dimm: "A1".into(), rank: Some(0), bank_group: Some(2), bank: Some(3), row: 99 };
    let used = vec![Repair { row: other, kind: RepairKind::Hard, case: 3, at_realtime_ns: 1 }];
    let (why, _) = finish(&hands, with_rows("hard-repair:maker", used)).unwrap_err();
    assert!(why.contains("1 spare rows, 1 are used") && why.contains("replace the DIMM"), "{why}");
    assert_eq!(place.setting("NicBoot1"), "Soft", "nothing was to be changed");
    let (said, _) = finish(&hands, with_rows("hard-repair:maker", Vec::new())).unwrap();
    assert_eq!(said.last().unwrap(), "1 of 1 rows repaired permanently (hard PPR), 2 spare rows left");
    // An adapter without a report says nothing of the rows.
    fs::write(place.folder.path().join("maker.toml"), ADAPTER).unwrap();
    let (said, _) = finish(&hands, with_rows("soft-repair:maker", Vec::new())).unwrap();
    assert!(said.last().unwrap().starts_with("not observed: the firmware was asked to repair 1 rows"), "{said:?}");
    let (why, _) = finish(&hands, order("hard-repair:maker", "n1")).unwrap_err();
    assert!(why.contains("no earlier step"), "{why}");

    let mut back = order("restore:debug:maker", "n1");
    back.memo = debug_memo;
    finish(&hands, back).unwrap();
    assert_eq!((place.setting("ProcTurboMode"), place.setting("NumCores")), before);
}

/// Killed after each call: what was remembered until then is enough to put everything back.
#[test]
fn wherever_the_switch_breaks_off_the_settings_come_back() {
    const NAME: &str = "wherever_the_switch_breaks_off_the_settings_come_back";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let place = Fixture::new();
    let hands = place.hands();
    let before = (place.setting("ProcTurboMode"), place.setting("NumCores"));
    let never = AtomicBool::new(false);
    for calls in 0..6 {
        // What the store has when the controller dies in the last of these calls: the memo before it.
        let (mut debug, mut known) = (order("debug:maker", "n1"), String::new());
        for _ in 0..=calls {
            known.clone_from(&debug.memo);
            match hands.run(&debug, &never) {
                Outcome::GoesOn { memo, .. } | Outcome::Done { memo, .. } => debug.memo = memo,
                other => panic!("{other:?}"),
            }
        }
        let mut back = order("restore:debug:maker", "n1");
        back.memo = known;
        finish(&hands, back).unwrap();
        assert_eq!((place.setting("ProcTurboMode"), place.setting("NumCores")), before, "broken off in call {calls}");
    }
}

#[test]
fn an_adapter_that_others_could_change_or_whose_settings_the_machine_lacks_changes_nothing() {
    const NAME: &str = "an_adapter_that_others_could_change_or_whose_settings_the_machine_lacks_changes_nothing";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let place = Fixture::new();
    let hands = place.hands();
    let path = place.folder.path().join("maker.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let (why, memo) = finish(&hands, order("debug:maker", "n1")).unwrap_err();
    assert!(why.contains("others may write") && memo.is_empty(), "{why}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, "[debug]\nNumCores = \"1\"\nCeThreshold = 1\n").unwrap();
    let (why, memo) = finish(&hands, order("debug:maker", "n1")).unwrap_err();
    assert!(why.contains("no setting 'CeThreshold'") && memo.is_empty(), "{why}");
    let (why, _) = finish(&hands, order("debug:nobody", "n1")).unwrap_err();
    assert!(why.contains("nobody.toml"), "{why}");
    assert!(Path::new(&path).exists());
    assert_eq!(place.setting("NumCores"), "10");
}
