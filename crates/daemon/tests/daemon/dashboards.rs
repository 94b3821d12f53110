//! Every query of the dashboards and every recording rule in `contrib`, asked of a real Prometheus that scrapes a watch.

use crate::client::{address, get, get_json, request, wait_for};
use crate::series::Crowd;
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use surefoot_daemon::{Extent, Server};
use surefoot_sys::{children, program};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::prometheus::current;

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name).canonicalize().unwrap()
}

/// One that scrapes a watch four times a second until it is dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl Prometheus {
    fn start(program: PathBuf, watch: &Server) -> Self {
        let home = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let rules = contrib("prometheus/surefoot.rules.yml");
        let (target, rules) = (crate::client::address(watch), rules.display());
        let configuration = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\nrule_files: ['{rules}']\n\
             scrape_configs:\n  - job_name: surefoot\n    static_configs: [{{targets: ['{target}']}}]\n"
        );
        fs::write(home.path().join("prometheus.yml"), configuration).unwrap();
        let log = fs::File::create(home.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address={address}")).current_dir(home.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        children::kill_with_starter(&mut command);
        Prometheus { child: command.spawn().unwrap(), address, _home: home }
    }

    /// The series of a query now.
    fn ask(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        // Of version 1.0, so that the answer comes in one piece.
        let asked = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        let answer = request(self.address, &asked);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.json()["data"]["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The queries of a dashboard as Grafana asks them with all hosts chosen.
fn queries(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked =
        |target: &Value| target["expr"].as_str().unwrap().replace("$instance", ".*").replace("$__rate_interval", "1m");
    targets.map(asked).collect()
}

#[test]
fn every_query_of_the_dashboards_and_rules_has_an_answer() {
    const TEST: &str = "dashboards::every_query_of_the_dashboards_and_rules_has_an_answer";
    match program::find("prometheus") {
        Some(program) => ask_everything(program),
        None => not_run(TEST, "prometheus is not installed"),
    }
}

#[test]
fn every_query_of_the_dashboards_and_rules_has_an_answer_of_a_current_prometheus() {
    const TEST: &str = "dashboards::every_query_of_the_dashboards_and_rules_has_an_answer_of_a_current_prometheus";
    match current("prometheus") {
        Ok(program) => ask_everything(program),
        Err(why) => not_run(TEST, &why),
    }
}

fn ask_everything(program: PathBuf) {
    let server = Crowd { cores: 4, things: 2 }.server(Extent::default());
    let prometheus = Prometheus::start(program, &server);
    let mut boards: Vec<PathBuf> =
        fs::read_dir(contrib("grafana")).unwrap().map(|entry| entry.unwrap().path()).collect();
    boards.sort();
    // One of the fleet and one of each room.
    let names: Vec<String> =
        boards.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let rooms = get_json(address(&server), "/api/v1/overview")["rooms"].as_array().map(Vec::len);
    assert_eq!(
        names,
        ["checkpoint", "disturb", "fleet", "memory", "nic", "remedy", "stall", "watch"],
        "{rooms:?} rooms"
    );
    let rules = fs::read_to_string(contrib("prometheus/surefoot.rules.yml")).unwrap();
    let recorded: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    assert_eq!(recorded.len(), 4);
    wait_for("Prometheus", || std::net::TcpStream::connect(prometheus.address).ok());
    wait_for("what the rules record", || {
        let ready = get(prometheus.address, "/-/ready").status == 200;
        (ready && recorded.iter().all(|name| !prometheus.ask(name).is_empty())).then_some(())
    });
    let mut unanswered = Vec::new();
    let mut count = 0;
    for path in &boards {
        let board: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for query in queries(&board) {
            count += 1;
            if prometheus.ask(&query).is_empty() {
                unanswered.push(format!("{}: {query}", path.display()));
            }
        }
    }
    assert!(unanswered.is_empty(), "{unanswered:#?}");
    assert!(count > 60, "{count}");
    let worst = prometheus.ask("instance:surefoot_finding:worst");
    assert_eq!(worst[0]["value"][1], "3", "a critical check: {worst:?}");
    server.stop();
}
