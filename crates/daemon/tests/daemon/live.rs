use crate::client::{Live, address, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, gap, host, notice, who};
use surefoot_daemon::{Config, Server};
use surefoot_model::Event;

/// As many clients may listen at one time.
/// Of one user: all of them here.
const CLIENTS_MAX: usize = 16;

#[test]
fn live_events_arrive_in_order_with_their_numbers() {
    let server = Server::start(Config::default()).unwrap();
    let mut live = Live::open(address(&server));
    assert_eq!(live.status, 200);
    let header = |name: &str| {
        live.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    assert_eq!(header("content-type"), Some("text/event-stream"));
    assert_eq!(header("cache-control"), Some("no-cache"));
    let greeting = live.next().unwrap();
    assert_eq!(greeting.retry, Some(1_000));

    server.publish(Event::Host(host()));
    server.publish(Event::Window(busy_window(7 * SECOND_NS)));
    server.publish(Event::Gap(gap(1, 6 * SECOND_NS, 50_000)));
    server.publish(notice("a word"));

    let window = live.next_event();
    assert_eq!((window.event.as_str(), window.id), ("window", Some(1)));
    let json = window.json();
    assert_eq!((&json["type"], &json["end_ns"]), (&"window".into(), &(7 * SECOND_NS).into()));
    assert_eq!(json["cores"][1]["lost"][0]["kind"], "softirq");
    assert!(!window.data.contains("histogram"));
    let Event::Window(mut expected) = Event::Window(busy_window(7 * SECOND_NS)) else { unreachable!() };
    for lost in expected.cores.iter_mut().flat_map(|core| &mut core.lost) {
        lost.histogram = Default::default();
    }
    let parsed: Event = serde_json::from_str(&window.data).unwrap();
    assert_eq!(parsed, Event::Window(expected), "the model reads it back, but for the histograms");

    let gap_message = live.next_event();
    assert_eq!((gap_message.event.as_str(), gap_message.id), ("gap", Some(2)));
    let parsed: Event = serde_json::from_str(&gap_message.data).unwrap();
    assert_eq!(parsed, Event::Gap(gap(1, 6 * SECOND_NS, 50_000)));
    let word = live.next_event();
    assert_eq!((word.event.as_str(), word.id, word.json()["text"].as_str()), ("notice", Some(3), Some("a word")));

    server.publish(Event::Who(who(8 * SECOND_NS).into()));
    let news = live.next_event();
    assert_eq!((news.event.as_str(), news.id), ("who", Some(4)));
    let expected = serde_json::json!({ "type": "who", "start_ns": 0, "end_ns": 8 * SECOND_NS });
    assert_eq!(news.json(), expected, "the report itself is asked for");

    server.stop();
    assert!(live.next().is_none() && live.is_complete(), "the stream ends in good order with the server");
}

#[test]
fn a_client_that_comes_back_is_told_what_it_missed() {
    let server = Server::start(Config::default()).unwrap();
    for second in 1..=5 {
        server.publish(Event::Window(busy_window(second * SECOND_NS)));
    }
    wait_for("the windows", || (get_json(address(&server), "/api/v1/snapshot")["sequence"] == 5).then_some(()));
    let missed = |id: u64| {
        let mut live = Live::open_with(address(&server), &format!("Last-Event-ID: {id}\r\n"));
        let message = live.next_event();
        assert_eq!(message.event, "lagged");
        message.json()["missed"].as_u64().unwrap()
    };
    assert_eq!(missed(2), 3);
    assert_eq!(missed(1_000), 5, "of an earlier server: all of this one's are new");
    let mut current = Live::open_with(address(&server), "Last-Event-ID: 5\r\n");
    current.next().unwrap();
    server.publish(notice("new"));
    assert_eq!(current.next_event().id, Some(6), "nothing was missed");
    server.stop();
}

#[test]
fn a_slow_client_skips_and_is_told_how_much() {
    let server = Server::start(Config::default()).unwrap();
    let mut slow = Live::open(address(&server));
    slow.next().unwrap();
    // More than fits into any socket buffer between the two.
    let mut large = gap(0, SECOND_NS, 20_000);
    large.evidence = vec!["x".repeat(20_000)];
    let count = 3_000;
    for _ in 0..count {
        server.publish(Event::Gap(large.clone()));
    }
    server.publish(notice("the end"));
    let kept = wait_for("all events", || {
        let kept = get_json(address(&server), "/api/v1/snapshot?min_us=60000000");
        (kept["sequence"] == count + 1).then_some(kept)
    });
    assert_eq!(kept["dropped"]["queue"], 0, "the publisher is not held up by the client, nor does it lose anything");

    let (mut received, mut missed, mut next) = (0, 0, 1);
    loop {
        let message = slow.next_event();
        match message.event.as_str() {
            "gap" => {
                assert_eq!(message.id, Some(next));
                (received, next) = (received + 1, next + 1);
            }
            "lagged" => {
                let count = message.json()["missed"].as_u64().unwrap();
                (missed, next) = (missed + count, next + count);
            }
            "notice" => break,
            other => panic!("unexpected {other}"),
        }
    }
    assert!(missed > 0, "{received} received");
    assert_eq!(received + missed, count, "nothing is lost without a word");
    let dropped = get_json(address(&server), "/api/v1/snapshot?min_us=60000000")["dropped"]["live"].clone();
    assert_eq!(dropped, missed);
    server.stop();
}

#[test]
fn a_client_too_many_is_refused_until_another_leaves() {
    let server = Server::start(Config::default()).unwrap();
    let mut clients: Vec<Live> = (0..CLIENTS_MAX).map(|_| Live::open(address(&server))).collect();
    assert!(clients.iter().all(|client| client.status == 200));
    let refused = crate::client::get(address(&server), "/api/v1/events");
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains("16 of one user"));
    assert_eq!(get_json(address(&server), "/api/v1/snapshot")["sequence"], 0, "all else is answered");
    drop(clients.pop());
    wait_for("a free place", || {
        // The server sees the empty place when it next writes to it.
        server.publish(notice("anybody there?"));
        (Live::open(address(&server)).status == 200).then_some(())
    });
    server.stop();
}
