//! A watch that serves another machine: two network namespaces, a real Prometheus, and the set-up that the guide shows.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, binary};
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::certificates::{authority, can_be_made, signed};
use surefoot_testkit::not_run::not_run;

/// The host's address in its namespace.
const HOST: &str = "10.9.7.1";

const GUIDE: &str = include_str!("../../docs/guide/metrics.md");

/// What is indented below a line of the guide.
fn shown_below(line: &str) -> String {
    let (_, below) = GUIDE.split_once(line).unwrap_or_else(|| panic!("the guide has no '{line}'"));
    let shown = below.lines().skip(2).take_while(|line| line.starts_with("    ") || line.is_empty());
    shown.map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect()
}

/// Two namespaces, host17 and the one of Prometheus, which go with this.
struct Machines {
    host: String,
    monitor: String,
}

impl Machines {
    fn make() -> Option<Machines> {
        let name = |side| format!("surefoot-listen-{side}-{}", std::process::id());
        let machines = Machines { host: name("host"), monitor: name("monitor") };
        let Machines { host, monitor } = &machines;
        let all = [
            format!("netns add {host}"),
            format!("netns add {monitor}"),
            format!("link add v0 netns {host} type veth peer name v0 netns {monitor}"),
            format!("-n {host} addr add 10.9.7.1/24 dev v0"),
            format!("-n {monitor} addr add 10.9.7.2/24 dev v0"),
            format!("-n {host} link set v0 up"),
            format!("-n {monitor} link set v0 up"),
            format!("-n {host} link set lo up"),
            format!("-n {monitor} link set lo up"),
        ];
        all.iter().all(|words| ip(words).status.success()).then_some(machines)
    }

    fn run(&self, at: &str, folder: &Path, words: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", at]).args(words).current_dir(folder).output().unwrap()
    }

    /// The status of curl's answer at the other machine.
    fn status(&self, folder: &Path, shown: &str, url: &str) -> String {
        let words: Vec<&str> =
            "curl -s -o /dev/null --max-time 60 --cacert ca.pem -w %{http_code}".split(' ').collect();
        let output = self.run(
            &self.monitor,
            folder,
            &[&words, &shown.split_whitespace().collect::<Vec<_>>()[..], &[url]].concat(),
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in [&self.host, &self.monitor] {
            ip(&format!("netns del {name}"));
        }
    }
}

fn ip(words: &str) -> Output {
    Command::new("ip").args(words.split_whitespace()).output().unwrap()
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_on_another_machine_scrapes_a_watch_as_the_guide_says() {
    const NAME: &str = "listen::prometheus_on_another_machine_scrapes_a_watch_as_the_guide_says";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    if !can_be_made() || Command::new("prometheus").arg("--version").output().is_err() {
        return not_run(NAME, "openssl, curl and prometheus are needed");
    }
    let Some(machines) = Machines::make() else {
        return not_run(NAME, "iproute2 makes no network namespaces with veth here");
    };
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    authority(folder, "ca");
    signed(folder, "ca", "host", "host17", ",DNS:host17.example,IP:10.9.7.1");
    signed(folder, "ca", "prometheus", "prometheus", "");
    let command = shown_below("authority signed may read `/metrics`, and nothing else:");
    let options = command.trim().strip_prefix("surefoot ").unwrap().replace('\'', "");
    let mut watch = Command::new("ip");
    watch.args(["netns", "exec", &machines.host]).arg(binary()).args(options.split_whitespace()).current_dir(folder);
    watch.args(["--source", "counters", "--no-history", "--run-directory", "run"]).stdin(Stdio::null());
    std::fs::create_dir(folder.join("run")).unwrap();
    let _watch = Running(watch.stdout(Stdio::null()).spawn().unwrap());
    let scrape = shown_below("Prometheus shows its certificate:").replace("host17.example", "10.9.7.1");
    assert!(scrape.contains("10.9.7.1:7079"), "{scrape}");
    std::fs::write(
        folder.join("prometheus.yml"),
        format!("global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\n{scrape}"),
    )
    .unwrap();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut prometheus = Command::new("ip");
    prometheus.args(["netns", "exec", &machines.monitor, "prometheus", "--config.file=prometheus.yml"]);
    prometheus.args(["--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:9090"]).current_dir(folder);
    let _prometheus = Running(prometheus.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let begun = Instant::now();
    let mut answer = String::new();
    // Its own series of the target, and one of the watch.
    for query in ["up", "surefoot_stall_cores"] {
        loop {
            let url = format!("http://127.0.0.1:9090/api/v1/query?query={query}");
            let asked = machines.run(&machines.monitor, folder, &["curl", "-s", "--max-time", "60", &url]);
            answer = String::from_utf8(asked.stdout).unwrap();
            let told: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
            let value = &told["data"]["result"][0]["value"][1];
            if value.as_str().is_some_and(|value| value != "0") {
                break;
            }
            let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{query}: {answer}\n{}", log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    assert!(answer.contains("10.9.7.1:7079"), "{answer}");
    let of = |port: u16, scheme: &str, path: &str| format!("{scheme}://{HOST}:{port}{path}");
    let known = "--cert prometheus.pem --key prometheus.key";
    assert_eq!(machines.status(folder, known, &of(7079, "https", "/")), "403", "the metrics alone");
    assert_eq!(machines.status(folder, "", &of(7079, "https", "/metrics")), "401", "who shows no certificate");
    assert_eq!(machines.status(folder, known, &of(7079, "http", "/metrics")), "000", "without TLS");
    assert_eq!(machines.status(folder, known, &of(7077, "http", "/metrics")), "000", "the port of this machine alone");
}
