//! The budget of a scrape, on hosts that have a great many of everything.

use crate::client::{PATIENCE, address, get, request};
use crate::data::{SECOND_NS, core, lost, untraced_gap, who, window};
use crate::metrics::{Samples, validate};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_daemon::{Config, Detail, Extent, SERIES_MIN, Server};
use surefoot_model::{
    CauseKind, Certainty, CheckState, CheckpointEvent, CheckpointJob, CheckpointLook, CheckpointTier, DisturbEvent,
    Event, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentLook, ExperimentOutcome, Generation,
    GenerationState, HealthReporter, HostCheck, Interface, InterfaceCounters, InterfaceEvent, InterfaceLook,
    InterfaceState, MemoryController, MemoryEvent, MemoryLook, ReporterState, Untimed, Verdict,
};
use surefoot_sys::program;
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::prometheus::current;

/// How many there are of everything.
#[derive(Clone, Copy)]
pub struct Crowd {
    pub cores: u32,
    pub things: u32,
}

impl Crowd {
    pub fn server(self, extent: Extent) -> Server {
        let server = Server::start(Config { metrics: extent, ..Config::default() }).unwrap();
        let mut events = self.lost_time();
        events.extend(self.parts());
        events.extend(self.work());
        // A server that cannot keep up drops what is more than its queue takes.
        while !events.is_empty() {
            events.drain(..events.len().min(200)).for_each(|event| server.publish(event));
            assert!(server.settle(PATIENCE));
        }
        server
    }

    fn lost_time(self) -> Vec<Event> {
        let causes = |cpu: u32| {
            let of_kind =
                |kind: CauseKind| lost(kind, &format!("{}-{}", kind.as_str(), cpu % 9), 3, 1_000 + u64::from(cpu));
            CauseKind::ALL.into_iter().map(of_kind).collect()
        };
        let cores = (0..self.cores).map(|cpu| core(cpu, 500, causes(cpu), 77)).collect();
        let untimed = |number: u32| Untimed {
            cpu: surefoot_model::CpuId(number % self.cores),
            row: format!("R{number}"),
            name: String::new(),
            count: 2,
        };
        let mut busy = window(2 * SECOND_NS, cores);
        busy.untimed = (0..self.things).map(untimed).collect();
        let gap = |number: u32| {
            let verdict = [Verdict::Traced, Verdict::Smi, Verdict::SmiLike, Verdict::Undetermined][number as usize % 4];
            Event::Gap(untraced_gap(number % self.cores, 0, 70_000, verdict, Certainty::Probable))
        };
        let gaps = (0..self.things.min(64)).map(gap);
        [Event::Window(busy), Event::Who(who(SECOND_NS).into())].into_iter().chain(gaps).collect()
    }

    /// DIMMs, controllers and interfaces.
    fn parts(self) -> Vec<Event> {
        let dimm = |number: u32| {
            serde_json::from_value(json!({
                "id": format!("SN{number:05}"), "label": format!("DIMM_{number}"), "serial": format!("SN{number:05}"),
                "serial_certainty": "certain", "part": "part", "size_bytes": 1, "controller": format!("mc{}", number / 8),
                "corrected_count": number, "uncorrected_count": 0, "rate_per_s": 0.5, "rate_window_s": 60.0,
                "worst_rate_per_s": 0.5, "worst_window_s": 60.0, "is_over_rate": false, "fidelity": "exact",
                "sources": [], "spread": surefoot_model::Spread::default(), "fault_mode": "none", "fault": null, "moved_from": null,
            }))
            .unwrap()
        };
        let controller = |number: u32| MemoryController {
            id: format!("mc{number}"),
            name: "made-up".into(),
            corrected_count: Some(7),
            uncorrected_count: Some(0),
            no_information_count: Some(1),
            adds_up: None,
            reset_s: None,
        };
        let memory = MemoryLook {
            dimms: (0..self.things).map(dimm).collect(),
            controllers: (0..self.things.div_ceil(8)).map(controller).collect(),
            ..MemoryLook::default()
        };
        let reporter = |name: &str| HealthReporter {
            device: "pci/0000:3b:00.0".into(),
            port: None,
            name: name.into(),
            state: ReporterState::Healthy,
            error_count: 0,
            recover_count: 0,
            has_dump: false,
            dump_realtime_ns: None,
            auto_recover: None,
            grace_period_ms: None,
        };
        let interface = |number: u32| Interface {
            name: format!("eth{number}"),
            driver: Some("made-up".into()),
            state: if number.is_multiple_of(10) { InterfaceState::Hung } else { InterfaceState::Ok },
            tx_timeout_count: Some(u64::from(number)),
            carrier_change_count: Some(2),
            counters: InterfaceCounters {
                rx_errors: Some(1),
                rx_missed_errors: Some(1),
                tx_errors: Some(1),
                tx_dropped: Some(1),
                ..InterfaceCounters::default()
            },
            reporters: vec![reporter("tx"), reporter("fw")],
            ..Interface::default()
        };
        let interfaces =
            InterfaceLook { interfaces: (0..self.things).map(interface).collect(), ..InterfaceLook::default() };
        vec![Event::Memory(MemoryEvent::Look(memory)), Event::Interface(InterfaceEvent::Look(interfaces))]
    }

    /// Checks, jobs that keep checkpoints, experiments.
    fn work(self) -> Vec<Event> {
        let check = |number: u32| {
            let state = CheckState::ALL[number as usize % CheckState::ALL.len()];
            let sentence = "As it is.".to_owned();
            Event::Check(Box::new(HostCheck {
                name: format!("check-{number}"),
                state,
                sentence,
                ..HostCheck::default()
            }))
        };
        let generation = |tier| Generation {
            number: 1,
            nonce: String::new(),
            tier,
            state: GenerationState::Complete,
            missing: String::new(),
            taken_realtime_ns: Some(1),
            ranks_here: 1,
            ranks: 1,
            payload_bytes: Some(1),
            stored_bytes: 10,
            protection: "shard".into(),
            directory: "d".into(),
        };
        let job = |number: u32| {
            let generations = vec![generation(CheckpointTier::Memory), generation(CheckpointTier::Durable)];
            let job =
                CheckpointJob { name: format!("job-{number}"), uid: Some(0), generations, ..CheckpointJob::default() };
            Event::Checkpoint(CheckpointEvent::Job(job))
        };
        let experiment = |number: u32| {
            let name = format!("2026-{number}");
            let began = ExperimentBegan { experiment: name.clone(), uid: Some(0), ..ExperimentBegan::default() };
            let ended = ExperimentEnded {
                experiment: name,
                at_ns: 1,
                at_realtime_ns: 1,
                outcome: ExperimentOutcome::Finished,
                why: String::new(),
                effect: Some(Box::new(ExperimentEffect { ratio: 1.2, ..ExperimentEffect::default() })),
                summary: String::new(),
                warnings: Vec::new(),
            };
            [Event::Disturb(DisturbEvent::Began(began.into())), Event::Disturb(DisturbEvent::Ended(ended))]
        };
        let deed = |number: u32| {
            let actions = ["run_hook", "offline_page", "drain"];
            let deed = json!({
                "at_realtime_ns": 1, "begun_realtime_ns": 1, "room": "remedy", "subject": {"kind": "host", "name": ""},
                "actor": {"kind": "controller", "name": "c"}, "action": actions[number as usize % actions.len()],
                "target": {"kind": "hook", "path": "h"}, "reason": {"kind": "case", "case": 3, "fault": "f", "service": "s"},
                "outcome": {"kind": "failed", "error": "e"},
            });
            serde_json::from_value(deed).ok().map(|deed| Event::Deed(Box::new(deed)))
        };
        let looks = [
            Event::Checkpoint(CheckpointEvent::Look(CheckpointLook {
                looked_realtime_ns: 1,
                ..CheckpointLook::default()
            })),
            Event::Disturb(DisturbEvent::Look(ExperimentLook { looked_realtime_ns: 1, ..ExperimentLook::default() })),
        ];
        let each = 0..self.things;
        each.clone()
            .map(check)
            .chain(each.clone().map(job))
            .chain(each.clone().flat_map(experiment))
            .chain(each.filter_map(deed))
            .chain(looks)
            .collect()
    }
}

fn scrape(server: &Server) -> Samples {
    validate(get(address(server), "/metrics").text())
}

fn sum(samples: &Samples, name: &str) -> f64 {
    let of_name = |series: &str| series == name || series.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
    samples.iter().filter(|(series, _)| of_name(series)).map(|(_, value)| value).sum()
}

#[test]
fn the_budget_holds_whatever_the_host_has_and_what_is_left_out_is_counted() {
    let mut by_cores = Vec::new();
    for (cores, things) in [(2, 1), (64, 40), (512, 250)] {
        let server = Crowd { cores, things }.server(Extent::default());
        let answer = get(address(&server), "/metrics");
        let samples = validate(answer.text());
        let left_out = sum(&samples, "surefoot_watch_series_left_out");
        assert_eq!(samples["surefoot_watch_series"], samples.len() as f64, "what a scrape says of itself");
        assert!(samples.len() <= 300, "{cores} cores, {things} of everything: {} series", samples.len());
        assert_eq!(samples["surefoot_watch_series_limit"], 300.0);
        assert_eq!(left_out > 0.0, things > 1, "{left_out}");
        by_cores.push((samples.len(), answer.text().len()));

        // Sums are of everything, and not of what has series.
        let seconds = |ns: u64| ns as f64 / 1e9;
        let each_ns = |of: &dyn Fn(u64) -> u64| seconds((0..u64::from(cores)).map(of).sum());
        let close = |name: &str, value: f64| {
            let found = sum(&samples, name);
            assert!((found - value).abs() < 1e-9, "{name}: {found}, expected {value}");
        };
        let kinds = CauseKind::ALL.len() as u64;
        close("surefoot_stall_lost_seconds_total", each_ns(&|cpu| kinds * 3 * (1_000 + cpu)));
        close("surefoot_stall_lost_events_total", (3 * kinds * u64::from(cores)) as f64);
        let whole =
            sum(&samples, "surefoot_stall_time_seconds_total") + sum(&samples, "surefoot_stall_lost_seconds_total");
        assert!((whole - f64::from(cores)).abs() < 1e-6, "a second of each core: {whole}");
        close("surefoot_stall_untimed_interrupts_total", f64::from(2 * things));
        close("surefoot_memory_errors_total", f64::from((0..things).sum::<u32>()));
        close("surefoot_nic_all_tx_timeouts_total", f64::from((0..things).sum::<u32>()));
        close("surefoot_nic_interfaces", f64::from(things));
        close("surefoot_remedy_checks", f64::from(things));
        // The room keeps 64 jobs of a user.
        close("surefoot_checkpoint_jobs", f64::from(things.min(64)));
        server.stop();
    }
    assert!(by_cores[2].0 <= 300 && by_cores[2].1 < 64 << 10, "{by_cores:?}");
}

/// The smallest budget that can be set holds as well.
#[test]
fn what_is_told_of_the_host_as_a_whole_has_room_in_the_smallest_budget() {
    let extent = Extent { series_max: Some(SERIES_MIN), ..Extent::default() };
    let server = Crowd { cores: 128, things: 300 }.server(extent);
    let samples = scrape(&server);
    assert!(samples.len() <= SERIES_MIN, "{}", samples.len());
    server.stop();
}

#[test]
fn a_larger_budget_tells_everything_and_the_sums_are_those_of_the_parts() {
    let extent = Extent { detail: Detail::Cause, series_max: None, edac: true };
    let server = Crowd { cores: 8, things: 40 }.server(extent);
    let samples = scrape(&server);
    assert_eq!(sum(&samples, "surefoot_watch_series_left_out"), 0.0);
    for (host, parts) in [
        ("surefoot_stall_lost_seconds_total", "surefoot_stall_core_lost_seconds_total"),
        ("surefoot_stall_lost_seconds_total", "surefoot_stall_cause_lost_seconds_total"),
        ("surefoot_stall_lost_events_total", "surefoot_stall_cause_lost_events_total"),
        ("surefoot_stall_time_seconds_total", "surefoot_stall_core_seconds_total"),
        ("surefoot_stall_gap_duration_seconds_count", "surefoot_stall_gaps_total"),
        ("surefoot_stall_gaps_total", "surefoot_stall_core_gaps_total"),
        ("surefoot_stall_untimed_interrupts_total", "surefoot_stall_untimed_row_interrupts_total"),
        ("surefoot_stall_untimed_interrupts_total", "surefoot_stall_core_untimed_interrupts_total"),
        ("surefoot_stall_raised_interrupts_total", "surefoot_stall_core_raised_interrupts_total"),
        ("surefoot_memory_errors_total", "surefoot_memory_corrected_errors_total"),
        ("surefoot_nic_all_tx_timeouts_total", "surefoot_nic_tx_timeouts_total"),
        ("surefoot_checkpoint_tier_stored_bytes", "surefoot_checkpoint_stored_bytes"),
    ] {
        let (host_sum, parts_sum) = (sum(&samples, host), sum(&samples, parts));
        assert!(host_sum > 0.0 && (host_sum - parts_sum).abs() < 1e-9, "{host} {host_sum}, {parts} {parts_sum}");
    }
    assert_eq!(samples["node_edac_correctable_errors_total{controller=\"0\"}"], 7.0);
    assert_eq!(samples["node_edac_csrow_correctable_errors_total{controller=\"0\",csrow=\"unknown\"}"], 1.0);
    server.stop();
}

#[test]
fn the_worst_are_told_first() {
    let server = Crowd { cores: 2, things: 100 }.server(Extent::default());
    let samples = scrape(&server);
    assert!(samples.contains_key("surefoot_memory_corrected_errors_total{dimm=\"SN00099\"}"), "{:#?}", samples.keys());
    assert!(!samples.contains_key("surefoot_memory_corrected_errors_total{dimm=\"SN00000\"}"));
    assert!(
        samples.keys().any(|series| series.starts_with("surefoot_nic_state{") && series.contains("state=\"hung\""))
    );
    assert!(!samples.keys().any(|series| series.starts_with("surefoot_nic_state{") && series.contains("state=\"ok\"")));
    let of_dimm = "surefoot_memory_dimm_info{dimm=\"SN00099\",label=\"DIMM_99\",serial=\"SN00099\",serial_certainty=\"certain\",part=\"part\",controller=\"mc12\",fidelity=\"exact\",corrected=\"all\",uncorrected=\"all\",kind=\"module\"}";
    assert_eq!(samples.get(of_dimm), Some(&1.0), "{:#?}", samples.keys());
    server.stop();
}

/// `promtool check metrics` reads the older format; OpenMetrics is read by `prometheus_itself_reads_the_metrics`.
#[test]
fn promtool_has_nothing_to_say_of_the_older_format() {
    const TEST: &str = "series::promtool_has_nothing_to_say_of_the_older_format";
    match program::find("promtool") {
        Some(promtool) => check_metrics(&promtool),
        None => not_run(TEST, "promtool is not installed"),
    }
}

#[test]
fn a_current_promtool_has_nothing_to_say_of_the_older_format() {
    const TEST: &str = "series::a_current_promtool_has_nothing_to_say_of_the_older_format";
    match current("promtool") {
        Ok(promtool) => check_metrics(&promtool),
        Err(why) => not_run(TEST, &why),
    }
}

fn check_metrics(promtool: &Path) {
    let extent = Extent { detail: Detail::Cause, series_max: None, edac: true };
    let server = Crowd { cores: 4, things: 5 }.server(extent);
    let host = address(&server);
    let asked = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n");
    let answer = request(host, &asked);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(answer.header("vary"), Some("Accept"));
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(answer.text().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}");
    // The same series in both formats.
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(answer.text()), series(get(host, "/metrics").text()));
    server.stop();
}
