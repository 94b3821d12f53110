//! `surefoot remedy agent` as a process of its own: what its checks find becomes a case without a watch, an order is done once though server
//! and agent are killed meanwhile, and it may do no more than that takes.

use super::server::{Server, executable, folder, until};
use crate::contained::sets;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_hostfs::privilege::{Capabilities, effective_user};
use surefoot_sys::program;
use surefoot_testkit::not_run::not_run;

const POLICY: &str = "[[policy]]\nservice = \"web\"\nmatch = { fault = \"remedy/check-fans\" }\nsteps = [\"drain\", \"stress:1s\"]\n\
                      approve = [\"stress:1s\"]\n[[service]]\nname = \"web\"\nsize = 4\n[stress]\nmebibytes = 16\n";
/// Short, because a server that was killed keeps its step for that long; and longer than a busy machine lets a server wait for its turn.
const LEASE: &str = "6s";
/// What orders ask for, and nothing else: crates/cli/src/privileges.rs.
const FOR_ORDERS: [&str; 4] = ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_SYS_BOOT"];

/// A server that listens at a socket of the folder, too.
pub fn serve(folder: &Path) -> Server {
    let socket = format!("unix:{}", folder.join("s").display());
    Server::over(folder, &["--listen", &socket, "--own-host", "controller", "--lease", LEASE])
}

pub fn agent(folder: &Path, words: &str) -> Running {
    let mut command = surefoot("remedy agent --host n1 --service web --health /nowhere").words(words);
    for (option, file) in [("--server", "s"), ("--state", "state")] {
        let path = folder.join(file).display().to_string();
        command = command.arg(option).arg(if file == "s" { format!("unix:{path}") } else { path });
    }
    if words.contains("--orders") {
        command = command.arg("--journal").arg(folder.join("agent-deeds.jsonl"));
    }
    command.start()
}

/// The one check, whose state a file holds.
pub fn checks(folder: &Path) -> String {
    let state = folder.join("fans.state");
    fs::write(&state, "critical").unwrap();
    let script =
        format!("echo \"{{\\\"state\\\":\\\"$(cat {})\\\",\\\"sentence\\\":\\\"Fan 3.\\\"}}\"", state.display());
    let fans = executable(folder, "fans", &script);
    let off: String = ["read-only", "clock", "bmc-log"].map(off).concat();
    let file = folder.join("checks.toml");
    fs::write(&file, format!("{off}[[check]]\nname = \"fans\"\nrun = \"{}\"\nperiod = \"1s\"\n", fans.display()))
        .unwrap();
    file.display().to_string()
}

fn off(name: &str) -> String {
    format!("[[check]]\nname = \"{name}\"\nenabled = false\n")
}

#[test]
fn an_agent_tells_and_does_what_is_ordered_once_though_all_are_killed() {
    const TEST: &str = "remedy::agent::an_agent_tells_and_does_what_is_ordered_once_though_all_are_killed";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if program::find("stressapptest").is_none() {
        return not_run(TEST, "stressapptest is not installed");
    }
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("policy.toml"), POLICY).unwrap();
    let words = format!("--orders --period 500ms --checks {}", checks(folder));
    let server = serve(folder);
    let first = agent(folder, &words);
    let case = server.until_any(Duration::from_secs(60));
    assert_eq!((case["host"].as_str(), case["fault"].as_str()), (Some("n1"), Some("remedy/check-fans")), "{case}");
    server.until(1, "needs_approval");
    if effective_user() == 0 {
        let kept = Capabilities::of(&FOR_ORDERS).0;
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            assert!(sets(first.pid(), set).iter().all(|&held| held == kept), "{set}: {:x?}", sets(first.pid(), set));
        }
    }
    assert!(sets(first.pid(), "NoNewPrivs").iter().all(|&is_set| is_set == 1));

    server.running.signal("KILL");
    drop(server);
    until("the agent misses its controller", || first.stderr().contains("it is tried again"));
    let server = serve(folder);
    until("the agent is answered again", || first.stderr().contains("the controller takes reports again"));

    surefoot("remedy approve 1 --server").arg(format!("http://{}", server.address())).run().expect_code(0);
    let journal = folder.join("state/orders.json");
    until("the order is begun", || fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"answer\":\"\"")));
    first.signal("KILL");
    drop(first);
    let second = agent(folder, &words);
    let story = server.until(1, "returned");
    let step = &story["case"]["steps"][1];
    assert_eq!((&step["state"], &step["attempt_count"]), (&Value::from("done"), &Value::from(1)), "{story:#}");
    // Of the two who were told, each knows of one order alone.
    let orders: Value = serde_json::from_str(&fs::read_to_string(&journal).unwrap()).unwrap();
    assert_eq!(orders.as_object().unwrap().len(), 1, "{orders:#}");
    second.ask_to_end();
    second.finish().expect_code(0);
}

#[test]
fn a_controller_outside_its_unit_keeps_what_it_needs_alone() {
    const TEST: &str = "remedy::agent::a_controller_outside_its_unit_keeps_what_it_needs_alone";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    if groups.lines().any(|line| line.contains(".service")) {
        return not_run(TEST, "the tests run in a unit, whose capabilities a controller keeps");
    }
    let held = sets(std::process::id(), "CapPrm")[0];
    let needed = Capabilities::of(&["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"]).0;
    for (options, kept) in [(&["--own-host="][..], needed), (&[], needed | Capabilities::of(&FOR_ORDERS).0)] {
        let folder = folder();
        let server = Server::start_with(folder.path(), POLICY, options);
        let pid = server.running.pid();
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            assert!(sets(pid, set).iter().all(|&set| set == held & kept), "{set}: {:x?}", sets(pid, set));
        }
        assert!(sets(pid, "NoNewPrivs").iter().all(|&is_set| is_set == 1));
    }
}

/// Processor time of a process and of all that it waited for, in seconds.
fn processor_s(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = text.rsplit_once(") ").unwrap().1;
    // utime, stime, cutime and cstime, in ticks, of which each kernel tells 100 a second.
    after.split(' ').skip(11).take(4).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn peak_mib(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// With `SUREFOOT_AGENT_COST=SECONDS` for so long and with the agent's own period, held against the goal; else a few seconds with a short
/// period, which shows what one word costs.
#[test]
fn an_agent_costs_little() {
    const TEST: &str = "remedy::agent::an_agent_costs_little";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let asked: Option<u64> = std::env::var("SUREFOOT_AGENT_COST").ok().map(|seconds| seconds.parse().unwrap());
    let folder = folder();
    fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    let server = serve(folder.path());
    let words = || -> u64 {
        let text = http::get(&server.address(), "/metrics").body;
        let line =
            text.lines().find_map(|line| line.strip_prefix("surefoot_remedy_boards_taken_total ")).unwrap().to_owned();
        line.trim().parse().unwrap()
    };
    let more = if asked.is_some() { "" } else { "--no-checks --period 500ms" };
    let agent = agent(folder.path(), more);
    until("its first word", || words() > 0);
    let (begun, processor_before_s, words_before) = (Instant::now(), processor_s(agent.pid()), words());
    std::thread::sleep(Duration::from_secs(asked.unwrap_or(3)));
    until("another word", || words() > words_before);
    let (took_s, used_s) = (begun.elapsed().as_secs_f64(), processor_s(agent.pid()) - processor_before_s);
    let (told, peak_mib) = (words() - words_before, peak_mib(agent.pid()));
    let share = 100.0 * used_s / took_s;
    eprintln!(
        "{told} words in {took_s:.0} s: {used_s:.2} s of one core, {share:.3} %; {peak_mib:.1} MiB at most; over a socket"
    );
    assert!(told > 0 && peak_mib <= 60.0, "{told} words, {peak_mib} MiB");
    assert!(asked.is_none() || share <= 0.1, "{share} % of one core");
    agent.ask_to_end();
    agent.finish().expect_code(0);
}
