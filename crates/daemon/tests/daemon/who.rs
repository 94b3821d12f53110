use crate::client::{address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, gap, host, raiser, who};
use serde_json::Value;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_model::{Certainty, Event, WhoReport};

/// A server that has taken in these reports.
fn server(mode: Mode, reports: &[WhoReport]) -> Server {
    let server = Server::start(Config { mode, ..Config::default() }).unwrap();
    server.publish(Event::Host(host()));
    for report in reports {
        server.publish(Event::Who(report.clone().into()));
    }
    let taken = reports.len() as u64;
    wait_for("the reports", || (get_json(address(&server), "/api/v1/snapshot")["sequence"] == taken).then_some(()));
    server
}

fn strings<'a>(rows: &'a Value, field: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap()).collect()
}

#[test]
fn the_newest_report_is_given_whole() {
    let newest = who(9 * SECOND_NS);
    let server = server(Mode::Live, &[who(4 * SECOND_NS), newest.clone()]);
    let answer = get_json(address(&server), "/api/v1/who");
    assert_eq!((&answer["mode"], &answer["recording"]), (&Value::from("live"), &Value::Null));
    assert_eq!(answer.get("why"), None);
    assert_eq!(answer["who"], serde_json::to_value(&newest).unwrap(), "field for field as in the model");
    let parsed: WhoReport = serde_json::from_value(answer["who"].clone()).unwrap();
    assert_eq!(parsed, newest, "the model reads it back");
    assert_eq!(get_json(address(&server), "/api/v1/snapshot")["who_end_ns"], 9 * SECOND_NS);
    server.stop();
}

#[test]
fn filters_narrow_it_by_core_and_kind() {
    let server = server(Mode::Live, &[who(SECOND_NS)]);
    let ask = |query: &str| get_json(address(&server), &format!("/api/v1/who?{query}"))["who"].clone();
    assert_eq!(strings(&ask("cpu=0")["interrupts"], "kind"), ["timer"]);
    assert_eq!(strings(&ask("cpu=1")["interrupts"], "kind"), ["tlb_shootdown", "timer"]);
    assert_eq!(strings(&ask("cpu=0-1&kind=timer")["interrupts"], "kind"), ["timer", "timer"]);
    assert_eq!(ask("cpu=1")["loop_gaps"].as_array().unwrap().len(), 1, "a gap of an unknown core belongs to none");
    assert_eq!(ask("")["loop_gaps"].as_array().unwrap().len(), 2);
    assert_eq!(ask("kind=smi")["loop_gaps"], serde_json::json!([]));
    for (query, word) in [("cpu=5", "cpu"), ("kind=nope", "kind"), ("range_s=nope", "range_s"), ("min_us=1", "min_us")]
    {
        let answer = get(address(&server), &format!("/api/v1/who?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.error().contains(word), "{query}: {}", answer.error());
    }
    server.stop();
}

#[test]
fn without_a_report_it_says_what_to_do() {
    let live = server(Mode::Live, &[]);
    let answer = get_json(address(&live), "/api/v1/who");
    assert_eq!(answer["who"], Value::Null);
    assert!(answer["why"].as_str().unwrap().contains("surefoot watch --who CORES"), "{answer}");
    assert_eq!(get_json(address(&live), "/api/v1/snapshot")["who_end_ns"], Value::Null);
    live.stop();
    let replay = server(Mode::Replay { file: "night.surefoot".into() }, &[]);
    let answer = get_json(address(&replay), "/api/v1/who");
    assert_eq!(answer["recording"], "night.surefoot");
    assert!(answer["why"].as_str().unwrap().contains("surefoot stall record --who CORES"), "{answer}");
    replay.stop();
}

#[test]
fn a_report_of_any_size_is_taken_and_its_counts_stay() {
    let mut large = who(SECOND_NS);
    let frames: Vec<String> = (0..60).map(|at| format!("a_function_with_quite_a_long_name_number_{at}")).collect();
    large.interrupts[0].raisers = (1..=10_000)
        .map(|tid| {
            let mut raiser = raiser(Certainty::Certain, "stats", tid, u64::from(tid));
            raiser.kernel_stack.clone_from(&frames);
            raiser
        })
        .collect();
    let server = server(Mode::Live, &[large]);
    // It must push out nothing of the rest.
    server.publish(Event::Window(busy_window(SECOND_NS)));
    server.publish(Event::Gap(gap(1, 0, 50_000)));
    let answer = get(address(&server), "/api/v1/who");
    assert!(answer.body.len() < 8 << 20, "{} bytes", answer.body.len());
    let raisers = answer.json()["who"]["interrupts"][0]["raisers"].clone();
    let raisers = raisers.as_array().unwrap();
    let sum: u64 = raisers.iter().map(|raiser| raiser["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 10_000 * 10_001 / 2);
    let together = raisers.iter().find(|raiser| raiser["comm"] == "stats" && raiser["tid"] == 0).unwrap();
    assert_eq!(together["function"], "several raisers of this name, together for lack of room");
    assert!(raisers.iter().any(|raiser| raiser["tid"] == 10_000), "the most frequent stays");
    assert_eq!(answer.json()["who"]["missing"].as_array().unwrap().len(), 2);
    let kept = wait_for("the other events", || {
        let kept = get_json(address(&server), "/api/v1/snapshot");
        (kept["sequence"] == 3).then_some(kept)
    });
    assert_eq!((&kept["dropped"]["queue"], &kept["dropped"]["oversized"]), (&Value::from(0), &Value::from(0)));
    server.stop();
}
