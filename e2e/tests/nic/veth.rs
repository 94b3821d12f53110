//! Probes over a veth pair between two network namespaces: a neighbour that answers, hangs, is slow, and is gone.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;
use surefoot_e2e::command::{PATIENCE, binary};
use surefoot_e2e::machine::{self, Need, turn};
use surefoot_testkit::not_run::not_run;

/// Two namespaces with a veth pair between them, which go with this.
struct Pair {
    names: [String; 2],
}

impl Pair {
    /// `None`, and said, where this machine makes none.
    fn make(test: &str, tag: &str) -> Option<Self> {
        let names = ["a", "b"].map(|side| format!("surefoot-{tag}-{side}-{}", std::process::id()));
        let pair = Pair { names };
        let [a, b] = &pair.names;
        let made = pair.names.iter().all(|name| ip(&["netns", "add", name]).status.success())
            && ip(&["link", "add", "near", "netns", a, "type", "veth", "peer", "name", "far", "netns", b])
                .status
                .success();
        if !made {
            not_run(test, "iproute2 makes no network namespaces with veth here");
            return None;
        }
        for (name, interface, address) in [(a, "near", "192.0.2.1/24"), (b, "far", "192.0.2.2/24")] {
            assert!(ip(&["-n", name, "addr", "add", address, "dev", interface]).status.success());
            let six = address.replace("192.0.2.", "2001:db8::").replace("/24", "/64");
            assert!(ip(&["-n", name, "addr", "add", &six, "dev", interface, "nodad"]).status.success());
            assert!(ip(&["-n", name, "link", "set", interface, "up"]).status.success());
        }
        Some(pair)
    }

    fn in_namespace(&self, side: usize, words: &str) -> Command {
        // `ip` becomes the command, so that the child is it.
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side]]).arg(binary()).args(words.split_whitespace());
        command
    }

    fn answer(&self, more: &str) -> (Running, String) {
        let mut running = Running::start(self.in_namespace(1, &format!("nic health --answer far --json {more}")));
        let line = running.line_where(|line| line["type"] == "answering");
        (running, line["address"].as_str().unwrap().to_owned())
    }

    /// The lines of a run at the near side, and its code.
    fn near(&self, words: &str) -> (Vec<Value>, i32) {
        let output = self.in_namespace(0, &format!("nic health --json --interface near {words}")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        (lines, output.status.code().unwrap())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn ip(words: &[&str]) -> Output {
    Command::new("ip").args(words).output().unwrap()
}

/// A command whose lines are read as they come; it ends with this.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Running { child, lines }
    }

    fn line_where(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        let mut last = String::new();
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let value: Value = serde_json::from_str(&line).unwrap();
            if wanted(&value) {
                return value;
            }
            last = line;
        }
        panic!("the line did not come; the last one: {last}");
    }

    fn end(&mut self) {
        // One that has ended already is not told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn interface(lines: &[Value]) -> &Value {
    lines.iter().find(|line| line["type"] == "interface").unwrap()
}

fn says(line: &Value, words: &str) -> bool {
    line["evidence"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains(words))
}

#[test]
fn a_watch_sees_a_neighbour_hang_come_back_and_go() {
    const NAME: &str = "nic::veth::a_watch_sees_a_neighbour_hang_come_back_and_go";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "watch") else { return };
    let (mut answerer, address) = pair.answer("");
    let words = format!(
        "nic health --json --watch --period 200ms --interface near --probe {address} --count 10 --wait 2s --slow-over 1s"
    );
    let mut watch = Running::start(pair.in_namespace(0, &words));
    let in_state = |watch: &mut Running, state: &str| watch.line_where(|line| line["state"] == state);
    let well = in_state(&mut watch, "ok");
    assert_eq!((&well["certainty"], &well["probe"]["kind"]), (&"probable".into(), &"packet".into()), "{well}");
    assert!(well["probe"]["round_trips"]["p50_ns"].as_u64().unwrap() > 0, "{well}");

    machine::signal(answerer.child.id(), "STOP");
    let hung = watch.line_where(|line| line["state"] == "hung" && line["probe"]["answered_count"] == 0);
    assert_eq!(hung["certainty"], "probable", "{hung}");
    assert!(says(&hung, "answered earlier"), "{hung}");

    machine::signal(answerer.child.id(), "CONT");
    in_state(&mut watch, "ok");

    // A neighbour whose process has gone cannot be told from one that hangs; one whose link has gone can.
    answerer.end();
    in_state(&mut watch, "hung");
    assert!(ip(&["-n", &pair.names[1], "link", "set", "far", "down"]).status.success());
    let gone = in_state(&mut watch, "losing");
    assert!(says(&gone, "link lost") && gone["has_carrier"] == false, "{gone}");
}

#[test]
fn a_slow_neighbour_is_seen_against_what_is_usual() {
    const NAME: &str = "nic::veth::a_slow_neighbour_is_seen_against_what_is_usual";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "slow") else { return };
    let folder = tempfile::tempdir().unwrap();
    let usual = folder.path().join("usual.json").display().to_string();
    let (mut answerer, address) = pair.answer("");
    let probe = format!("--probe {address} --wait 20s --baseline {usual}");
    let (lines, code) = pair.near(&probe);
    assert_eq!((code, &interface(&lines)["state"]), (0, &"ok".into()));
    answerer.end();

    let (mut answerer, _) = pair.answer("--answer-delay 2s");
    let (lines, code) = pair.near(&probe);
    let slow = interface(&lines);
    assert_eq!((code, &slow["state"], &slow["certainty"]), (1, &"slow".into(), &"probable".into()), "{slow}");
    assert_eq!(slow["probe"]["answered_count"], slow["probe"]["sent_count"], "nothing is lost: {slow}");
    let [now, then] =
        [&slow["probe"]["round_trips"], &slow["probe"]["baseline"]].map(|trips| trips["p50_ns"].as_u64().unwrap());
    assert!(now >= 2_000_000_000 && then < now / 3, "{slow}");

    // The next run knows that the neighbour has answered before.
    answerer.end();
    let (lines, code) = pair.near(&format!("--probe {address} --wait 1s --baseline {usual}"));
    assert_eq!((code, &interface(&lines)["state"]), (1, &"hung".into()));
    let (lines, code) = pair.near(&format!("--probe {address} --wait 1s"));
    let silent = interface(&lines);
    assert_eq!((code, &silent["state"]), (1, &"unknown".into()));
    assert!(says(silent, "has never answered one"), "{silent}");
}

#[test]
fn a_neighbours_kernel_answers_arp_and_icmp() {
    const NAME: &str = "nic::veth::a_neighbours_kernel_answers_arp_and_icmp";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "echo") else { return };
    for (peer, kind) in [("192.0.2.2", "icmp"), ("icmp:2001:db8::2", "icmp"), ("arp:192.0.2.2", "arp")] {
        let (lines, code) = pair.near(&format!("--probe {peer} --wait 20s"));
        let seen = interface(&lines);
        assert_eq!((code, &seen["state"], &seen["probe"]["kind"]), (0, &"ok".into(), &kind.into()), "{seen}");
        assert_eq!((&seen["probe"]["sent_count"], &seen["probe"]["answered_count"]), (&20.into(), &20.into()));
    }
    let (lines, code) = pair.near("--probe arp:192.0.2.9 --wait 200ms");
    assert_eq!((code, &interface(&lines)["state"]), (1, &"unknown".into()), "nobody has this address");
}

#[test]
fn recovery_is_shown_limited_written_down_and_spares_what_carries_work() {
    const NAME: &str = "nic::veth::recovery_is_shown_limited_written_down_and_spares_what_carries_work";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "recover") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (mut answerer, address) = pair.answer("");
    let probe = format!("--probe {address} --baseline {}", file("usual.json"));
    assert_eq!(pair.near(&format!("{probe} --wait 20s")).1, 0);
    answerer.end();

    let recover = format!("{probe} --wait 300ms --recover --journal {}", file("journal"));
    let step = |more: &str| {
        let (lines, code) = pair.near(&format!("{recover} {more}"));
        assert_eq!(code, 1);
        lines.into_iter().find(|line| line["type"] == "deed").unwrap()
    };
    let changes = || {
        let text = ip(&["netns", "exec", &pair.names[0], "cat", "/sys/class/net/near/carrier_changes"]).stdout;
        String::from_utf8(text).unwrap().trim().parse::<u64>().unwrap()
    };
    let before = changes();
    assert_eq!(step("")["outcome"]["kind"], "withheld", "the neighbour may be what hangs");
    let planned = step("--even-if-probable");
    assert_eq!(
        (&planned["action"], &planned["outcome"]["kind"]),
        (&"link_cycle".into(), &"planned".into()),
        "{planned}"
    );
    assert!(planned["reason"]["evidence"][0].as_str().unwrap().contains("answered earlier"), "{planned}");
    assert!(changes() == before && !Path::new(&file("journal")).exists(), "a dry run changes nothing");

    assert!(ip(&["-n", &pair.names[0], "route", "add", "default", "via", "192.0.2.2"]).status.success());
    let spared = step("--even-if-probable --yes");
    assert_eq!(spared["outcome"]["kind"], "withheld", "{spared}");
    let carried = &spared["outcome"]["why"]["carries"][0];
    assert_eq!(carried["kind"], "default_route", "{spared}");
    assert_eq!(changes(), before);

    let done = step("--even-if-probable --yes --even-in-use");
    assert_eq!(done["outcome"]["kind"], "done", "{done}");
    assert!(changes() > before, "the link went and came");
    let again = step("--even-if-probable --yes --even-in-use");
    assert_eq!(again["outcome"]["kind"], "withheld", "{again}");
    let journal = std::fs::read_to_string(file("journal")).unwrap();
    let outcomes: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<&str> = outcomes.iter().map(|line| line["outcome"]["kind"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["withheld", "begun", "done", "withheld"], "{journal}");
}

#[test]
fn without_privilege_probes_are_not_supported_and_states_are() {
    const NAME: &str = "nic::veth::without_privilege_probes_are_not_supported_and_states_are";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let seen = surefoot_e2e::command::surefoot("nic health --json --over 1ms").as_nobody().run();
    let Some(name) = seen.json().into_iter().find(|line| line["type"] == "interface") else {
        return not_run(NAME, "this host has no network interface but loopback");
    };
    let name = name["name"].as_str().unwrap().to_owned();
    let refused = surefoot_e2e::command::surefoot("nic health --probe 02:00:00:00:00:01 --interface")
        .arg(&name)
        .as_nobody()
        .run();
    refused.expect_refusal(3, &["unsupported", "CAP_NET_RAW", &name]);
}

#[test]
fn a_link_cycle_that_was_ended_in_its_middle_is_finished_by_the_next_recovery() {
    const NAME: &str = "nic::veth::a_link_cycle_that_was_ended_in_its_middle_is_finished_by_the_next_recovery";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "finish") else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let begun_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let begun = serde_json::json!({
        "at_realtime_ns": begun_ns, "interface": "near", "kind": "link_cycle", "target": "near", "reason": "it hangs",
        "outcome": "begun", "detail": "",
    });
    std::fs::write(&journal, format!("{begun}\n")).unwrap();
    assert!(ip(&["-n", &pair.names[0], "link", "set", "near", "down"]).status.success());
    let steps = |more: &str| {
        let (lines, _) = pair.near(&format!("--over 10ms --recover --journal {} {more}", journal.display()));
        lines.into_iter().filter(|line| line["type"] == "deed").collect::<Vec<_>>()
    };
    let is_up = || {
        let shown = String::from_utf8(ip(&["-n", &pair.names[0], "link", "show", "near"]).stdout).unwrap();
        shown.split([',', '<', '>']).any(|flag| flag == "UP")
    };
    assert_eq!(steps("")[0]["outcome"]["kind"], "planned");
    assert!(!is_up(), "a dry run changes nothing");
    let done = &steps("--yes")[0];
    assert_eq!((&done["action"], &done["outcome"]["kind"]), (&"link_cycle".into(), &"done".into()), "{done}");
    assert!(is_up(), "{done}");
    assert!(steps("--yes").is_empty(), "it has an end now");
}

#[test]
fn a_watch_goes_on_while_its_interface_is_gone_and_its_baseline_cannot_be_written() {
    const NAME: &str = "nic::veth::a_watch_goes_on_while_its_interface_is_gone_and_its_baseline_cannot_be_written";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "gone") else { return };
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("none/usual.json");
    let words = format!(
        "nic health --json --watch --period 100ms --interface near --probe 192.0.2.2 --every 1ms --wait 2s --baseline {}",
        baseline.display()
    );
    let mut watch = Running::start(pair.in_namespace(0, &words));
    watch.line_where(|line| line["type"] == "interface" && line["state"] == "ok");
    watch.line_where(|line| line["type"] == "problem" && line["path"] == "--baseline");
    // As a driver does that sets itself up anew.
    assert!(ip(&["-n", &pair.names[0], "link", "del", "near"]).status.success());
    watch.line_where(|line| line["type"] == "problem" && line["path"] == "--probe");
    let [a, b] = &pair.names;
    let made = ip(&["link", "add", "near", "netns", a, "type", "veth", "peer", "name", "far", "netns", b]);
    assert!(made.status.success());
    for (name, interface, address) in [(a, "near", "192.0.2.1/24"), (b, "far", "192.0.2.2/24")] {
        assert!(ip(&["-n", name, "addr", "add", address, "dev", interface]).status.success());
        assert!(ip(&["-n", name, "link", "set", interface, "up"]).status.success());
    }
    watch.line_where(|line| line["probe"]["answered_count"] == 20);
}

#[test]
fn a_journal_of_another_user_or_that_others_may_write_is_not_written_on() {
    const NAME: &str = "nic::veth::a_journal_of_another_user_or_that_others_may_write_is_not_written_on";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(pair) = Pair::make(NAME, "foreign") else { return };
    let folder = tempfile::tempdir().unwrap();
    let usual = folder.path().join("usual.json");
    let probe = format!("--probe 192.0.2.2 --wait 300ms --baseline {}", usual.display());
    assert_eq!(pair.near(&probe.replace("300ms", "20s")).1, 0);
    assert!(ip(&["-n", &pair.names[1], "addr", "del", "192.0.2.2/24", "dev", "far"]).status.success());
    let journal = folder.path().join("journal");
    for (owner, mode) in [(65_534, 0o600), (0, 0o666)] {
        use std::os::unix::fs::{PermissionsExt, chown};
        std::fs::write(&journal, "").unwrap();
        std::fs::set_permissions(&journal, PermissionsExt::from_mode(mode)).unwrap();
        chown(&journal, Some(owner), None).unwrap();
        let words = format!("{probe} --recover --yes --even-if-probable --even-in-use --journal {}", journal.display());
        let (lines, code) = pair.near(&words);
        assert_eq!(code, 2, "{lines:?}");
        assert_eq!(std::fs::metadata(&journal).unwrap().len(), 0);
    }
}
