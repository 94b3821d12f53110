//! `surefoot remedy check run`, and the same checks in a watch.

use super::server::{executable, folder};
use serde_json::Value;
use std::fs;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};

#[test]
fn checks_are_run_once_and_say_what_they_found_and_cost() {
    let Some(_turn) = turn("checks_are_run_once_and_say_what_they_found_and_cost", Need::Nothing) else { return };
    let folder = folder();
    let fans = executable(
        folder.path(),
        "fans",
        "echo '{\"state\":\"warning\",\"sentence\":\"Fan 3 is slow.\",\"evidence\":[\"900 rpm\"]}'",
    );
    let file = folder.path().join("checks.toml");
    let text = format!(
        "[[check]]\nname = \"bmc-log\"\nenabled = false\n[[check]]\nname = \"clock\"\nenabled = false\n\
         [[check]]\nname = \"fans\"\nrun = \"{}\"\n",
        fans.display()
    );
    fs::write(&file, text).unwrap();
    let finished = surefoot("remedy check run --json --checks").arg(&file).run();
    finished.expect_code(1);
    let lines: Vec<Value> = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of =
        |name: &str| lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name}: {lines:?}"));
    assert_eq!((of("fans")["type"].as_str(), of("fans")["state"].as_str()), (Some("host_check"), Some("warning")));
    assert!(
        of("fans")["took_ns"].as_u64() > Some(0) && of("fans")["processor_ns"].as_u64() > Some(0),
        "{:?}",
        of("fans")
    );
    assert_eq!(of("read-only")["state"], "ok");
    let finished = surefoot("remedy check run --checks").arg(&file).run();
    assert!(finished.stdout.contains("Fan 3 is slow.") && finished.stdout.contains("900 rpm"), "{}", finished.stdout);

    fs::write(&file, "[[check]]\nname = \"fans\"\nrun = \"fans\"\n").unwrap();
    let finished = surefoot("remedy check run --checks").arg(&file).run();
    finished.expect_code(2);
    assert!(finished.stderr.contains("line 3, check[0].run"), "{}", finished.stderr);
}
