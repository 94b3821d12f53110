//! Settings: what a watch reads at its start and at each reload, and what it refuses.

use crate::strangers::wait_for;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use surefoot_e2e::command::{Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

/// A watch that measures nothing by itself, with one more part of its file.
fn file(home: &Path, more: &str) -> std::path::PathBuf {
    let path = home.join("s.toml");
    let run = home.join("run");
    let text =
        format!("[page]\nport = 0\n[history]\nkept = false\n[watch]\nrun_directory = \"{}\"\n{more}", run.display());
    // As an administrator's editor does: another file in its place.
    fs::write(home.join("new"), text).unwrap();
    fs::rename(home.join("new"), &path).unwrap();
    path
}

fn start(path: &Path) -> (Running, String) {
    let mut running = surefoot("watch --config").arg(path).without_terminal().start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    (running, address)
}

fn hang_up(running: &Running) {
    let sent = Command::new("kill").args(["-HUP", &running.pid().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn room(address: &str, name: &str) -> Value {
    let overview: Value = serde_json::from_str(&http::get(address, "/api/v1/overview").body).unwrap();
    overview["rooms"].as_array().unwrap().iter().find(|card| card["room"] == name).unwrap().clone()
}

/// The sentence of the finding about settings; empty where there is none.
fn said_of_settings(address: &str) -> String {
    let card = room(address, "watch");
    let findings = card["findings"].as_array().unwrap();
    let own = findings.iter().find(|finding| finding["rule"] == "settings");
    own.map_or(String::new(), |finding| finding["sentence"].as_str().unwrap().to_owned())
}

#[test]
fn a_room_that_is_switched_off_is_not_watched_and_says_where_that_stands() {
    let test = "a_room_that_is_switched_off_is_not_watched_and_says_where_that_stands";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let rooms = ["stall", "memory", "checkpoint", "nic", "disturb", "remedy"];
    let more: String = rooms.iter().map(|room| format!("[{room}]\nwatched = false\n")).collect();
    let path = file(home.path(), &more);
    let (running, address) = start(&path);
    for (at, name) in rooms.iter().enumerate() {
        let card = room(&address, name);
        let line = 8 + 2 * at;
        let why = format!("switched off in {}:{line} ({name}.watched = false)", path.display());
        assert_eq!((card["is_watched"].as_bool(), card["why"].as_str()), (Some(false), Some(why.as_str())), "{card}");
        assert_eq!(card["findings"].as_array().map(Vec::len), Some(0), "{card}");
    }
    // Whoever reads the health of the host must not take silence for health.
    let health = home.path().join("run/health.json");
    let health = wait_for("health.json", || serde_json::from_str::<Value>(&fs::read_to_string(&health).ok()?).ok());
    let told: Vec<&String> = health["rooms"].as_object().unwrap().keys().collect();
    assert_eq!(told, ["watch"], "{health}");
    running.ask_to_end();
    running.finish().expect_code(0);
}

/// `config check` refuses what the watch would, with the place in the file; neither makes anything.
#[test]
fn a_file_that_the_watch_refuses_is_refused_by_the_check() {
    let test = "a_file_that_the_watch_refuses_is_refused_by_the_check";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    for (more, words) in [
        ("[stall]\nwho = \"900\"\n", "stall.who: core 900 does not exist"),
        ("[stall]\nsource = \"counters\"\ncores = \"0\"\nwho = \"1\"\n", "stall.who: who: core 1 is not among those"),
        ("[remedy]\nchecks = \"/none/checks.toml\"\n", "remedy.checks: /none/checks.toml: No such file"),
        ("[memory]\nredfish = \"nonsense\"\n", "memory.redfish: --redfish nonsense: name a service"),
        (
            "[listen]\naddresses = [\"0.0.0.0:1\"]\ncertificate = \"/x\"\n",
            "listen.certificate: --listen: the certificate needs",
        ),
    ] {
        let path = file(home.path(), more);
        for words_of in ["config check", "watch --config"] {
            let told = surefoot(words_of).arg(&path).without_terminal().run();
            told.expect_refusal(2, &[&format!("{}:", path.display()), words]);
        }
    }
    // Of what the rest of the file names: a group, and a history below a directory that is not there.
    let more = "group = \"no-such-group\"\n[stall]\nwatched = false\n";
    let path = home.path().join("page.toml");
    fs::write(&path, format!("[page]\nport = 0\n{more}")).unwrap();
    surefoot("config check").arg(&path).run().expect_refusal(2, &["page.toml:3: page.group: ", "no-such-group"]);
    let typo = home.path().join("typo");
    fs::write(&path, format!("[history]\nfile = \"{}/h.db\"\n", typo.display())).unwrap();
    for words_of in ["config check", "watch --no-page --config"] {
        surefoot(words_of).arg(&path).without_terminal().run().expect_refusal(2, &["page.toml:2: history.file: "]);
    }
    assert!(!typo.exists());
}

#[test]
fn a_reload_takes_over_what_it_can_tells_the_rest_and_takes_nothing_of_a_wrong_file() {
    let test = "a_reload_takes_over_what_it_can_tells_the_rest_and_takes_nothing_of_a_wrong_file";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let off = "[stall]\nwatched = false\n";
    let path = file(home.path(), off);
    let (mut running, address) = start(&path);
    assert_eq!(said_of_settings(&address), "");
    // Many wishes at once, while the file is replaced again and again, end nothing.
    for round in 0..50 {
        file(home.path(), &format!("{off}[nic]\ninterval = \"{}s\"\n", 11 + round % 2));
        hang_up(&running);
    }
    assert!(running.is_running());
    let more = "[stall]\nwatched = true\n[nic]\ninterval = \"7s\"\n";
    file(home.path(), more);
    hang_up(&running);
    let waits = format!("Start the watch again for: stall.watched = true ({}:8).", path.display());
    wait_for("the finding", || (said_of_settings(&address) == waits).then_some(()));
    assert!(!room(&address, "stall")["is_watched"].as_bool().unwrap(), "it is still switched off");
    file(home.path(), "[stall]\nwatched = false\n[nic]\nintervall = \"7s\"\n");
    hang_up(&running);
    let wrong = format!("{}:10: nic.intervall: there is no such setting; did you mean 'nic.interval'?", path.display());
    let finding = wait_for("the finding", || Some(said_of_settings(&address)).filter(|said| said.contains("wrong")));
    assert_eq!(finding, format!("The settings are wrong, and those from before hold: {wrong}"));
    // A file that is gone was named, so its settings are not the defaults'.
    fs::remove_file(&path).unwrap();
    hang_up(&running);
    wait_for("the finding", || said_of_settings(&address).contains("there is no such file").then_some(()));
    file(home.path(), off);
    hang_up(&running);
    wait_for("the end of the finding", || said_of_settings(&address).is_empty().then_some(()));
    running.ask_to_end();
    running.finish().expect_code(0);
}

#[test]
fn the_page_has_as_many_windows_as_are_set() {
    let Some(_turn) = turn("the_page_has_as_many_windows_as_are_set", Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let path = file(home.path(), "[stall]\nsource = \"counters\"\ninterval = \"100ms\"\n");
    let text = fs::read_to_string(&path).unwrap().replace("port = 0", "port = 0\nwindows = 3");
    fs::write(&path, text).unwrap();
    let (running, address) = start(&path);
    let starts = || {
        let answer: Value = serde_json::from_str(&http::get(&address, "/api/v1/snapshot").body).unwrap();
        let windows = answer["windows"].as_array().unwrap().iter();
        windows.map(|window| window["start_ns"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let first = wait_for("a window", || starts().first().copied());
    let later = wait_for("more than three", || Some(starts()).filter(|now| now.len() == 3 && now[0] > first));
    assert!(starts().len() == 3, "{later:?}");
    running.ask_to_end();
    running.finish().expect_code(0);
}

#[test]
fn a_watch_does_not_start_with_settings_that_are_wrong() {
    let test = "a_watch_does_not_start_with_settings_that_are_wrong";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::write(at("unknown"), "\n[memory]\nintervall = \"5s\"\n").unwrap();
    fs::write(at("unit"), "[nic]\ninterval = 5\n").unwrap();
    fs::write(at("twice"), "[nic]\ninterval = \"5s\"\ninterval = \"6s\"\n").unwrap();
    fs::write(at("cores"), "[stall]\ncores = \"many\"\n").unwrap();
    fs::write(at("long"), "#".repeat(10 << 20)).unwrap();
    fs::create_dir(at("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    for (name, said) in [
        ("unknown", ":3: memory.intervall: there is no such setting; did you mean 'memory.interval'?"),
        ("unit", ":2: nic.interval: it is the number 5, and must be a time in quotes"),
        ("twice", ":3: duplicate key"),
        ("cores", ":2: stall.cores: "),
        ("long", ": it is larger than 1 MiB"),
        ("folder", ": it is not a regular file but a directory"),
        ("pipe", ": it is not a regular file but a FIFO"),
        ("none", ": there is no such file"),
    ] {
        let path = at(name);
        let said = format!("surefoot: {}{said}", path.display());
        for command in ["watch --duration 1s --no-page --no-history --config", "config check", "config show"] {
            let finished = surefoot(command).arg(&path).run();
            finished.expect_code(2);
            assert!(finished.stderr.starts_with(&said), "{command}: {}\nnot {said}", finished.stderr);
            assert_eq!(finished.stdout, "", "{command}");
        }
    }
}

#[test]
fn the_file_of_defaults_is_right_and_changes_nothing() {
    let test = "the_file_of_defaults_is_right_and_changes_nothing";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.toml");
    let defaults = surefoot("config defaults").run();
    defaults.expect_code(0);
    fs::write(&path, &defaults.stdout).unwrap();
    let checked = surefoot("config check").arg(&path).run();
    checked.expect_code(0);
    assert_eq!(checked.stdout, format!("{}: no error; every setting has its default\n", path.display()));
    let shown = surefoot("config show --changed").arg(&path).run();
    assert_eq!(shown.stdout, "");
    let shown = surefoot("config show --changed").arg(&path).words("-- --interval 2s --no-page").run();
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [["stall.interval", "\"2s\"", "option", "--interval"], ["page.served", "false", "option", "--no-page"]]
    );
}
