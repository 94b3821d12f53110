//! The whole road on one machine: corrected errors appear in a host's tree, a watch finds the module, a real Prometheus scrapes it and a real
//! rule fires, a real Alertmanager tells `surefoot remedy serve`, and its case drains a node of a real Slurm, switches settings at a real
//! Redfish service, runs stressapptest, collects the rows that were told meanwhile, repairs them once somebody approves, restores the settings
//! and resumes the node. The guide shows the timeline that this prints (`SUREFOOT_TIMELINE=FILE`).

use super::failing::Failing;
use super::server::{Server, executable, folder};
use crate::memory::recorded::{ROW, host};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::{Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_hostfs::clock;
use surefoot_sys::{children, program};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::redfish::Controller;
use surefoot_testkit::slurm::Cluster;

/// How long each part of the road may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An adapter for the settings that the emulator's machine has.
pub const ADAPTER: &str = "[debug]\nProcTurboMode = \"FirmwareFirst\"\nNumCores = \"1\"\n\n[soft_repair]\nNicBoot1 = \"Soft\"\n\n\
                       [hard_repair]\nNicBoot1 = \"Hard\"\n\n[spares]\nper = \"bank_group\"\nrows = 1\n";

/// A program of somebody else that ends with the test.
struct Program(Child);

impl Program {
    fn start(name: &str, arguments: &[String], folder: &Path) -> Program {
        let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program::find(name).unwrap());
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        children::kill_with_starter(&mut command);
        Program(command.spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn missing() -> Option<String> {
    let programs = ["prometheus", "prometheus-alertmanager", "stressapptest"];
    let missing = programs.into_iter().find(|name| program::find(name).is_none());
    missing
        .map(|name| format!("{name} is not installed"))
        .or_else(Cluster::unsupported)
        .or_else(Controller::unsupported)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn contrib(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/prometheus").join(name)).unwrap()
}

/// The rules and the route of `contrib`, which wait for nothing here.
///
/// Alertmanager, Prometheus, and the port of the second.
fn alerting(folder: &Path, watch_port: &str, serve_port: &str) -> (Program, Program, u16) {
    let impatient = |text: String| {
        let lines = text.lines().map(|line| match line.trim_start().split(':').next() {
            Some(word @ ("for" | "group_wait")) => {
                line.split(word).next().unwrap_or_default().to_owned() + word + ": 0s"
            }
            Some("group_interval") => line.replace("30s", "1s"),
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n") + "\n"
    };
    let (prometheus, alertmanager) = (free_port(), free_port());
    fs::write(folder.join("surefoot.rules.yml"), impatient(contrib("surefoot.rules.yml"))).unwrap();
    let route = impatient(contrib("alertmanager.yml")).replace("127.0.0.1:7078", &format!("127.0.0.1:{serve_port}"));
    fs::write(folder.join("alertmanager.yml"), route).unwrap();
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [surefoot.rules.yml]\n\
         alerting: {{ alertmanagers: [ {{ static_configs: [ {{ targets: ['127.0.0.1:{alertmanager}'] }} ] }} ] }}\n\
         scrape_configs:\n  - job_name: surefoot\n    static_configs:\n      - targets: ['127.0.0.1:{watch_port}']\n        \
         labels: {{ host: n1, service: web }}\n"
    );
    fs::write(folder.join("prometheus.yml"), configuration).unwrap();
    let words = |list: &[&str], port| {
        let mut words: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
        words.push(format!("--web.listen-address=127.0.0.1:{port}"));
        words
    };
    let alertmanager = words(
        &["--config.file=alertmanager.yml", "--storage.path=alertmanager", "--cluster.listen-address="],
        alertmanager,
    );
    let arguments = words(&["--config.file=prometheus.yml", "--storage.tsdb.path=prometheus"], prometheus);
    (
        Program::start("prometheus-alertmanager", &alertmanager, folder),
        Program::start("prometheus", &arguments, folder),
        prometheus,
    )
}

pub fn setting(controller: &Controller, name: &str) -> String {
    let systems = controller.get("/redfish/v1/Systems");
    let path = systems.split('"').find(|word| word.starts_with("/redfish/v1/Systems/")).unwrap().to_owned();
    let bios = controller.get(&format!("{path}/BIOS"));
    let line = bios.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap().to_owned();
    line.split('"').nth(3).unwrap().to_owned()
}

fn policy(cluster: &Cluster, controller: &Controller, folder: &Path) -> String {
    format!(
        "[[policy]]\nservice = \"web\"\nmatch = {{ room = \"memory\", fault = \"memory/rate\" }}\n\
         steps = [\"recheck\", \"drain\", \"debug:maker\", \"stress:2s\", \"collect:maker\", \"soft-repair:maker\", \"stress:1s\",\n\
                  \"restore:debug:maker\", \"return\"]\n\
         approve = [\"soft-repair:maker\"]\nhosts_at_once = 1\nshare_of_service = 0.5\nper_hour = 6\ncool_down = \"24h\"\n\n\
         [[service]]\nname = \"web\"\nhosts = [\"n1\", \"n2\"]\ndrain = \"slurm\"\n\n\
         [slurm]\nconf = \"{0}\"\n\n[[bmc]]\nhost = \"n1\"\nurl = \"{1}\"\n\n\
         [reboot]\nsettle = \"1s\"\nlimit = \"5m\"\n\n[stress]\nmebibytes = 32\n\n\
         [debug]\nadapters = \"{2}\"\nhistory = \"{2}/history.db\"\n",
        cluster.configuration().display(),
        controller.url(),
        folder.display(),
    )
}

/// Which step a case is at, and whether it runs.
fn at(story: &Value) -> (String, String) {
    let steps = story["case"]["steps"].as_array().unwrap();
    let current = steps.iter().find(|step| step["state"] != "done" && step["state"] != "skipped");
    let word = |name: &str| current.map_or(String::new(), |step| step[name].as_str().unwrap_or_default().to_owned());
    (word("step"), word("state"))
}

fn watch(folder: &Path, tree: &Path) -> (Running, String) {
    let history = folder.join("history.db");
    let mut running = surefoot("watch --port 0 --source counters --interval 200ms --history")
        .arg(&history)
        .arg("--run-directory")
        .arg(folder)
        .arg("--host-root")
        .arg(tree)
        .start();
    let line = running.line_where(|line| line.contains("http://127.0.0.1:"));
    let port = line.split("http://127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    (running, port)
}

#[test]
fn from_errors_to_a_repaired_node_that_works_again() {
    const TEST: &str = "remedy::road::from_errors_to_a_repaired_node_that_works_again";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let (cluster, controller) = (Cluster::start().unwrap(), Controller::start().unwrap());
    let folder = folder();
    // What the firmware says of its repair.
    let report = "echo '{\"rows_asked\": 1, \"rows_accepted\": 1, \"spare_rows_left\": 3}'";
    let report = executable(folder.path(), "report", report);
    let adapter = format!("{ADAPTER}\n[report]\nrun = \"{}\"\n", report.display());
    fs::write(folder.path().join("maker.toml"), adapter).unwrap();
    let before = (setting(&controller, "ProcTurboMode"), setting(&controller, "NumCores"));
    let tree = host();
    let failing = Failing::quiet(tree.path());
    let (_watch, watch_port) = watch(folder.path(), tree.path());
    let policy = policy(&cluster, &controller, folder.path());
    let server = Server::start_with(folder.path(), &policy, &["--own-host", "n1"]);
    let (_alertmanager, _prometheus, prometheus_port) = alerting(folder.path(), &watch_port, &server.port);
    // Where nothing is wrong nothing is told.
    until("a first scrape", || prometheus(prometheus_port, "query?query=up").contains("\"1\""));
    assert!(server.cases().is_empty());

    let began_ns = clock::realtime_ns();
    let failing = failing.begin();
    let found_ns = until("the finding of the watch", || is_found(&watch_port));
    let fired_ns = until("the alert of Prometheus", || {
        prometheus(prometheus_port, "alerts").contains("\"alertname\":\"SurefootMemoryWarning\"")
    });
    let case = server.until_any(PATIENCE);
    let id = case["id"].as_u64().unwrap();
    assert_eq!((case["host"].as_str(), case["service"].as_str()), (Some("n1"), Some("web")), "{case}");

    // While the memory is stressed the row goes on to tell of itself, until it is repaired.
    let (mut is_switched, mut was_drained, mut failing, mut is_approved) = (false, false, Some(failing), false);
    let begun = Instant::now();
    let story = loop {
        let story = server.story(id);
        let (step, state) = at(&story);
        was_drained |= cluster.state("n1") == "drained";
        if step.starts_with("stress:") && !is_switched {
            is_switched = setting(&controller, "ProcTurboMode") == "FirmwareFirst";
        }
        if step == "stress:1s" {
            drop(failing.take());
        }
        if story["case"]["state"] == "needs_approval" && !is_approved {
            assert_eq!(step, "soft-repair:maker");
            surefoot("remedy approve --reason spare --server")
                .arg(format!("http://{}", server.address()))
                .arg(id.to_string())
                .run()
                .expect_code(0);
            is_approved = true;
        }
        if ["returned", "with_person", "cleared", "cancelled"].iter().any(|end| story["case"]["state"] == *end) {
            break story;
        }
        assert!(begun.elapsed() < PATIENCE, "it stands at {step} ({state}): {story:#}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let before_case = [
        (began_ns, "errors of DIMM_C1 begin, 300 corrected ones a second"),
        (found_ns, "the watch finds memory/rate of it"),
        (fired_ns, "Prometheus: SurefootMemoryWarning fires"),
    ];
    let text = timeline(&before_case, &story, began_ns);
    eprint!("{text}");
    if let Some(file) = std::env::var_os("SUREFOOT_TIMELINE") {
        fs::write(file, &text).unwrap();
    }
    assert_eq!(story["case"]["state"], "returned", "{text}");
    assert!(was_drained && is_switched && is_approved, "{was_drained} {is_switched} {is_approved}\n{text}");
    let row = format!("{ROW:#x}");
    assert!(text.contains(&row), "the row {row} was collected:\n{text}");
    assert_eq!((setting(&controller, "ProcTurboMode"), setting(&controller, "NumCores")), before, "{text}");
    let begun = Instant::now();
    while cluster.state("n1") != "idle" {
        assert!(begun.elapsed() < PATIENCE, "n1 is {}", cluster.state("n1"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until something is so; when that was, `CLOCK_REALTIME`.
fn until(what: &str, is_so: impl Fn() -> bool) -> u64 {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
    clock::realtime_ns()
}

/// What Prometheus answers; nothing while it does not yet.
fn prometheus(port: u16, question: &str) -> String {
    let address = format!("127.0.0.1:{port}");
    if std::net::TcpStream::connect(&address).is_err() {
        return String::new();
    }
    http::get(&address, &format!("/api/v1/{question}")).body
}

/// Whether the watch tells of a rate that is over its bound.
fn is_found(port: &str) -> bool {
    let metrics = http::get(&format!("127.0.0.1:{port}"), "/metrics").body;
    metrics.lines().any(|line| {
        line.starts_with("surefoot_finding{") && line.contains("rule=\"rate\"") && line.contains("severity=\"warning\"")
    })
}

/// What happened before the case, and the audit trail of the case, in seconds since the first error.
fn timeline(before: &[(u64, &str)], story: &Value, began_ns: u64) -> String {
    let mut text = String::new();
    let after_s = |at_ns: u64| at_ns.saturating_sub(began_ns) as f64 / 1e9;
    for (at_ns, what) in before {
        let _ = writeln!(text, "{:7.1} s  {what}", after_s(*at_ns));
    }
    for entry in story["trail"].as_array().unwrap() {
        let word = |name: &str| entry[name].as_str().unwrap_or_default();
        let at_s = after_s(entry["at_realtime_ns"].as_u64().unwrap_or(0));
        let _ = writeln!(text, "{at_s:7.1} s  {:<9} {:<20} {}", word("action"), word("target"), word("reason"));
    }
    text
}
