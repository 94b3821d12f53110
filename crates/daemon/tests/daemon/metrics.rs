use crate::client::{Answer, address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, core, gap, lost, untraced_gap, who, window};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use surefoot_daemon::{Config, Detail, Extent, Server};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{CauseKind, Certainty, Event, ProbeCost, Verdict};
use surefoot_testkit::not_run::not_run;

/// Samples by name and labels, as they stand in the text.
pub type Samples = BTreeMap<String, f64>;

fn scrape(server: &Server, sequence: u64) -> (Answer, Samples) {
    wait_for("all events", || (get_json(address(server), "/api/v1/snapshot")["sequence"] == sequence).then_some(()));
    let answer = get(address(server), "/metrics");
    assert_eq!(answer.status, 200);
    let samples = validate(answer.text());
    (answer, samples)
}

/// Checks the text against the rules of the OpenMetrics 1.0 text format.
pub fn validate(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let [word, name, rest] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            match word {
                "HELP" => {
                    assert!(families.insert(name.to_owned()), "two families are called {name}");
                    (family, kind) = (name.to_owned(), String::new());
                    assert!(!rest.is_empty());
                }
                "TYPE" => kind = rest.to_owned(),
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{name} must end with its unit {rest}"),
                other => panic!("unknown word {other}"),
            }
            assert_eq!(name, family, "one family after the other");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{line}: type {other}"),
        };
        let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{name} in family {family}"));
        assert!(suffixes.contains(&suffix), "{name} is no sample of a {kind}");
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        check_labels(series);
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} stands there twice");
    }
    samples
}

fn check_labels(series: &str) {
    let Some((_, labels)) = series.split_once('{') else { return };
    let labels = labels.strip_suffix('}').unwrap();
    let mut names = BTreeSet::new();
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.chars().all(|character| character.is_ascii_lowercase() || character == '_'), "{series}");
        assert!(names.insert(name), "{series}: two labels {name}");
        let mut end = None;
        let mut escaped = false;
        for (at, character) in after.char_indices() {
            match character {
                _ if escaped => {
                    assert!(matches!(character, '\\' | '"' | 'n'), "{series}: escape {character}");
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        rest = &after[end.unwrap() + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// A server whose metrics tell this much.
fn detailed(detail: Detail) -> Server {
    let metrics = Extent { detail, ..Extent::default() };
    Server::start(Config { metrics, ..Config::default() }).unwrap()
}

#[test]
fn an_empty_server_has_valid_metrics() {
    let server = Server::start(Config::default()).unwrap();
    let (answer, samples) = scrape(&server, 0);
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(media_type));
    assert_eq!(samples[&format!("surefoot_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    assert!(!samples.contains_key("surefoot_watch_data_age_seconds"), "there is no data that could be old");
    server.stop();
}

#[test]
fn the_sums_are_those_of_all_windows() {
    let metrics = Extent { detail: Detail::Cause, ..Extent::default() };
    let server = Server::start(Config { keep_windows: 2, metrics, ..Config::default() }).unwrap();
    for _ in 0..10 {
        server.publish(Event::Window(busy_window(monotonic_ns().max(SECOND_NS))));
    }
    server.publish(Event::Gap(gap(0, 0, 30_000)));
    server.publish(Event::Gap(gap(0, 0, 1_000)));
    server.publish(Event::Gap(untraced_gap(1, 0, 60_000_000_000, Verdict::Smi, Certainty::Certain)));
    let (_, samples) = scrape(&server, 13);
    for (series, value) in [
        ("surefoot_stall_core_seconds_total{cpu=\"0\",state=\"idle\"}", 0.0),
        ("surefoot_stall_core_seconds_total{cpu=\"0\",state=\"user\"}", 9.99),
        ("surefoot_stall_core_seconds_total{cpu=\"1\",state=\"kernel\"}", 0.0),
        ("surefoot_stall_core_seconds_total{cpu=\"1\",state=\"unexplained\"}", 0.0),
        ("surefoot_stall_cause_lost_seconds_total{cpu=\"1\",kind=\"softirq\",name=\"net_rx\"}", 0.02),
        ("surefoot_stall_core_lost_seconds_total{cpu=\"1\",kind=\"softirq\"}", 0.02),
        ("surefoot_stall_lost_seconds_total{kind=\"timer\"}", 0.02),
        ("surefoot_stall_lost_while_idle_seconds_total", 0.0),
        ("surefoot_stall_time_seconds_total{state=\"user\"}", 19.96),
        ("surefoot_stall_cores", 2.0),
        ("surefoot_stall_cause_lost_events_total{cpu=\"1\",kind=\"softirq\",name=\"net_rx\"}", 1_000.0),
        ("surefoot_stall_cause_lost_max_seconds{cpu=\"0\",kind=\"timer\",name=\"local_timer\"}", 4e-6),
        ("surefoot_stall_core_untimed_interrupts_total{cpu=\"1\",row=\"HYP\"}", 70.0),
        ("surefoot_stall_untimed_row_interrupts_total{row=\"HYP\"}", 70.0),
        ("surefoot_stall_untimed_interrupts_total", 70.0),
        (
            "surefoot_stall_core_gaps_total{cpu=\"0\",source=\"timer_lateness\",verdict=\"traced\",certainty=\"certain\"}",
            2.0,
        ),
        (
            "surefoot_stall_core_gaps_total{cpu=\"1\",source=\"timer_lateness\",verdict=\"smi\",certainty=\"certain\"}",
            1.0,
        ),
        ("surefoot_stall_gaps_total{source=\"timer_lateness\",verdict=\"smi\",certainty=\"certain\"}", 1.0),
        ("surefoot_stall_gap_duration_seconds_bucket{le=\"0.000001\"}", 1.0),
        ("surefoot_stall_gap_duration_seconds_bucket{le=\"0.00005\"}", 2.0),
        ("surefoot_stall_gap_duration_seconds_bucket{le=\"10.0\"}", 2.0),
        ("surefoot_stall_gap_duration_seconds_bucket{le=\"+Inf\"}", 3.0),
        ("surefoot_stall_gap_duration_seconds_count", 3.0),
        ("surefoot_stall_gap_duration_seconds_sum", 60.000_031),
        ("surefoot_watch_probe_seconds_total{probe=\"on_irq_entry\"}", 0.001_5),
        ("surefoot_watch_probe_runs_total{probe=\"on_irq_entry\"}", 5_000.0),
        ("surefoot_watch_probe_missed_total{probe=\"on_irq_entry\"}", 20.0),
        ("surefoot_watch_programs_seconds_total", 0.001_5),
        ("surefoot_watch_program_runs_total", 5_000.0),
        ("surefoot_watch_program_missed_total", 20.0),
        ("surefoot_watch_process_cpu_seconds_total", 0.03),
        ("surefoot_watch_resident_bytes", f64::from(20 << 20)),
        ("surefoot_watch_map_bytes", f64::from(1 << 20)),
        ("surefoot_watch_self_interrupts_total", 0.0),
        ("surefoot_watch_unreported_ends_total", 30.0),
        ("surefoot_watch_untraced_interrupts_total", 20.0),
        ("surefoot_watch_dropped_events_total{where=\"kernel\"}", 50.0),
        ("surefoot_watch_dropped_events_total{where=\"torn\"}", 10.0),
        ("surefoot_watch_dropped_events_total{where=\"queue\"}", 0.0),
    ] {
        let found = samples.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", samples.keys()));
        assert!((found - value).abs() < 1e-9, "{series}: {found}, expected {value}");
    }
    let age = samples["surefoot_watch_data_age_seconds"];
    assert!(age < 60.0, "{age}");
    let buckets: Vec<f64> = GAP_EDGES
        .iter()
        .map(|edge| samples[&format!("surefoot_stall_gap_duration_seconds_bucket{{le=\"{edge}\"}}")])
        .collect();
    assert!(buckets.is_sorted(), "{buckets:?}");
    server.stop();
}

/// A rate over a counter sees the first occurrence only where there was a 0 before it.
#[test]
fn what_happens_seldom_is_counted_from_the_start_and_only_where_it_is_counted() {
    let server = Server::start(Config::default()).unwrap();
    let mut quiet = window(2 * SECOND_NS, vec![core(0, 500, Vec::new(), 0)]);
    let seldom = |name: &str| ProbeCost { name: name.to_owned(), count: 0, total_ns: 0, missed: 0 };
    quiet.cost.probes = vec![seldom("nmi_handler"), seldom("threshold_apic_entry")];
    server.publish(Event::Window(quiet));
    let (_, samples) = scrape(&server, 1);
    for kind in ["nmi", "machine_check"] {
        for name in ["lost_seconds", "lost_events"] {
            assert_eq!(samples[&format!("surefoot_stall_{name}_total{{kind=\"{kind}\"}}")], 0.0, "{kind}");
        }
        let longest = format!("surefoot_stall_lost_max_seconds{{kind=\"{kind}\"}}");
        assert!(!samples.contains_key(&longest), "there is no longest one");
    }
    // Nothing says that firmware was looked for.
    assert!(!samples.keys().any(|name| name.contains("\"smi\"")), "{samples:?}");
    assert_eq!(samples["surefoot_watch_all_deeds_total{outcome=\"failed\"}"], 0.0);
    server.stop();
}

#[test]
fn raisers_are_counted_by_how_sure_they_are_and_never_by_name() {
    let server = detailed(Detail::Core);
    let (_, before) = scrape(&server, 0);
    assert!(!before.keys().any(|series| series.contains("raise")), "nobody watches raisers");
    for second in 1..=2 {
        server.publish(Event::Who(who(second * SECOND_NS).into()));
    }
    let (_, samples) = scrape(&server, 2);
    let found = |cpu: u32, kind: &str, raiser: &str| {
        let labels = format!("cpu=\"{cpu}\",kind=\"{kind}\",raiser=\"{raiser}\"");
        samples.get(&format!("surefoot_stall_core_raised_interrupts_total{{{labels}}}")).copied()
    };
    assert_eq!(found(1, "tlb_shootdown", "certain"), Some(40.0), "a report counts from the start, and is not added");
    assert_eq!(found(1, "tlb_shootdown", "probable"), Some(2.0));
    assert_eq!(found(1, "tlb_shootdown", "unknown"), Some(3.0));
    assert_eq!(found(0, "timer", "certain"), Some(9.0));
    assert_eq!(samples["surefoot_stall_raised_interrupts_total{raiser=\"certain\"}"], 58.0);
    assert_eq!(samples["surefoot_stall_raiser_records_lost_total"], 3.0);
    assert!(!samples.keys().any(|series| series.contains("stats")));
    server.stop();
}

/// Some of the bucket edges, ascending, as they stand in the text.
const GAP_EDGES: [&str; 5] = ["0.000001", "0.00002", "0.001", "1.0", "+Inf"];

#[test]
fn names_from_the_machine_are_escaped_and_limited() {
    let server = detailed(Detail::Cause);
    let mut rows = vec![lost(CauseKind::DeviceInterrupt, "a\"b\\c\nd}{,=#", 1, 1_000)];
    rows.extend((0..300).map(|number| lost(CauseKind::KernelThread, &format!("kworker/{number}"), 1, 1_000)));
    server.publish(Event::Window(window(2 * SECOND_NS, vec![core(0, 0, rows, 0)])));
    let (_, samples) = scrape(&server, 1);
    let odd = r#"surefoot_stall_cause_lost_events_total{cpu="0",kind="device_interrupt",name="a\"b\\c\nd}{,=#"}"#;
    assert_eq!(samples[odd], 1.0);
    let threads: Vec<_> = samples
        .iter()
        .filter(|(series, _)| {
            series.starts_with("surefoot_stall_cause_lost_events_total") && series.contains("kernel_thread")
        })
        .collect();
    assert_eq!(threads.len(), 65, "64 names, and one for the others");
    let other = r#"surefoot_stall_cause_lost_events_total{cpu="0",kind="kernel_thread",name="other"}"#;
    assert_eq!(samples[other], 236.0);
    server.stop();
}

#[test]
fn prometheus_itself_reads_the_metrics() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return not_run("metrics::prometheus_itself_reads_the_metrics", "promtool is not installed");
    }
    let server = detailed(Detail::Cause);
    server.publish(Event::Window(busy_window(monotonic_ns().max(SECOND_NS))));
    server.publish(Event::Gap(gap(0, 0, 30_000)));
    let odd = lost(CauseKind::DeviceInterrupt, "a\"b\\c\nd}{,=#é", 1, 1_000);
    server.publish(Event::Window(window(monotonic_ns().max(SECOND_NS), vec![core(0, 0, vec![odd], 0)])));
    server.publish(Event::Who(who(SECOND_NS).into()));
    let (answer, samples) = scrape(&server, 4);
    // Prometheus has one command that reads OpenMetrics, and it wants to know the time of each sample.
    let timed: String = answer
        .text()
        .lines()
        .map(|line| if line.starts_with('#') { format!("{line}\n") } else { format!("{line} 1700000000\n") })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let (file, blocks) = (directory.path().join("metrics"), directory.path().join("blocks"));
    std::fs::write(&file, timed).unwrap();
    let output = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, &blocks])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let series = format!(" {} ", samples.len());
    assert!(text.lines().any(|line| line.contains(&series)), "{series} series expected in: {text}");
    server.stop();
}
