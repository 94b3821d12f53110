//! What becomes known later: the wall clock was set, a verdict was another.

use crate::client::{Live, address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, gap, host, untraced_gap};
use serde_json::{Value, json};
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::clock::{monotonic_ns, realtime_offset_ns};
use surefoot_model::{Certainty, ClockChange, Event, GapCorrection, HostDescription, Verdict};

#[test]
fn a_corrected_gap_takes_the_place_of_the_first_and_is_counted_once() {
    let server = Server::start(Config { mode: Mode::Replay { file: "x".into() }, ..Config::default() }).unwrap();
    let first = untraced_gap(1, 2 * SECOND_NS, 50_000_000, Verdict::SmiLike, Certainty::Probable);
    let mut corrected = first.clone();
    corrected.verdict = Verdict::CorrectedErrorLogging;
    server.publish(Event::Host(host()));
    server.publish(Event::Window(busy_window(3 * SECOND_NS)));
    server.publish(Event::Gap(first.clone()));
    server.publish(Event::Gap(gap(0, 2 * SECOND_NS, 60_000_000)));
    let (former_verdict, former_certainty) = (first.verdict, first.certainty);
    let correction = GapCorrection { gap: corrected, former_verdict, former_certainty };
    server.publish(Event::GapCorrection(correction.clone()));
    // One that is not kept, and counts no more than the other.
    let unknown = gap(0, 1, 1);
    server.publish(Event::GapCorrection(GapCorrection { gap: unknown, ..correction }));
    assert!(server.settle(std::time::Duration::from_secs(60)));
    let report = get_json(address(&server), "/api/v1/report");
    assert_eq!(report["gap_count"], 2);
    let verdicts: Vec<&Value> = report["gaps"].as_array().unwrap().iter().map(|gap| &gap["verdict"]).collect();
    assert_eq!(verdicts, ["traced", "corrected_error_logging"]);
    let metrics = get(address(&server), "/metrics");
    let counted: Vec<&str> =
        metrics.text().lines().filter(|line| line.starts_with("surefoot_stall_gaps_total{")).collect();
    assert_eq!(counted.len(), 2, "{counted:?}");
    assert!(counted.iter().all(|line| line.ends_with(" 1")), "{counted:?}");
}

#[test]
fn a_clock_that_was_set_is_told_of_and_each_time_is_as_it_was_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let server = Server::start(Config { history: Some(path.clone()), ..Config::default() }).unwrap();
    // The clock was a quarter of an hour behind until a second ago.
    const BEHIND_NS: i64 = 900 * SECOND_NS as i64;
    let (end_ns, realtime_offset_ns) = (monotonic_ns(), realtime_offset_ns());
    let former_offset_ns = realtime_offset_ns - BEHIND_NS;
    server.publish(Event::Host(HostDescription { realtime_offset_ns: former_offset_ns, ..host() }));
    let mut live = Live::open(address(&server));
    server.publish(Event::Window(busy_window(end_ns - 2 * SECOND_NS)));
    let change = ClockChange { at_ns: end_ns - SECOND_NS, former_offset_ns, realtime_offset_ns, slept_ns: 0 };
    server.publish(Event::Clock(change));
    server.publish(Event::Window(busy_window(end_ns)));
    let told = live.next_that(|message| message.event == "clock").json();
    assert_eq!(told["realtime_offset_ns"], realtime_offset_ns);
    // The second window was published after what was just told.
    assert!(server.settle(std::time::Duration::from_secs(60)));
    let snapshot = get_json(address(&server), "/api/v1/snapshot");
    assert_eq!(snapshot["clock_changes"], json!([change]));
    let overview = get_json(address(&server), "/api/v1/overview");
    let points = overview["rooms"].as_array().unwrap().iter().find_map(|room| room["chart"]["points"].as_array());
    let at = |point: usize| points.unwrap()[point][0].as_i64().unwrap();
    assert_eq!(at(1) - at(0), 2 * SECOND_NS as i64 + BEHIND_NS);
    assert_eq!(at(1), end_ns as i64 + realtime_offset_ns);
    let past = wait_for("the history", || {
        let answer = get(address(&server), "/api/v1/history?resolution=second");
        let past = (answer.status == 200).then(|| get_json(address(&server), "/api/v1/history?resolution=second"));
        past.filter(|past| past["windows"].as_array().is_some_and(|windows| windows.len() == 2))
    });
    let ends: Vec<i64> =
        past["windows"].as_array().unwrap().iter().map(|window| window["end_realtime_ns"].as_i64().unwrap()).collect();
    assert_eq!(ends[1] - ends[0], 2 * SECOND_NS as i64 + BEHIND_NS);
    assert_eq!(past["clock_changes"][0]["change"], json!(change));
    assert_eq!(past["clock_changes"][0]["text"], "The wall clock was set forward by 900.000 s.");
}
