use crate::client::{Live, PATIENCE, address, connect, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, core, host, lost, untraced_gap, window};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use surefoot_daemon::{Config, Error, Mode, Server};
use surefoot_model::{CauseKind, Certainty, Event, Untimed, Verdict};

#[test]
fn a_second_instance_is_told_what_to_do() {
    let first = Server::start(Config::default()).unwrap();
    let port = address(&first).port();
    let error = Server::start(Config { port: Some(port), ..Config::default() }).err().unwrap();
    assert!(matches!(error, Error::PortTaken { port: taken } if taken == port));
    let text = error.to_string();
    for word in [&format!("port {port}"), "--port 0", "another running surefoot"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(get(address(&first), "/").status, 200, "the first one goes on");
    first.stop();
    let again = Server::start(Config { port: Some(port), ..Config::default() }).unwrap();
    assert_eq!(address(&again).port(), port, "the port is free again at once");
    again.stop();
}

#[test]
fn only_loopback_is_listened_on() {
    let server = Server::start(Config::default()).unwrap();
    assert_eq!(address(&server).ip().to_string(), "127.0.0.1");
    server.stop();
}

#[test]
fn stopping_is_quick_whatever_clients_do() {
    let server = Server::start(Config::default()).unwrap();
    for second in 1..=900 {
        server.publish(Event::Window(busy_window(second * SECOND_NS)));
    }
    wait_for("the windows", || {
        (get_json(address(&server), "/api/v1/snapshot?range_s=1")["sequence"] == 900).then_some(())
    });
    let listening = Live::open(address(&server));
    let silent = connect(address(&server));
    let mut half = connect(address(&server));
    half.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHo").unwrap();
    let mut deaf = connect(address(&server));
    for _ in 0..20 {
        deaf.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    let begun = Instant::now();
    let address = address(&server);
    server.stop();
    // Two seconds are promised; a busy machine may add some.
    assert!(begun.elapsed() < PATIENCE / 3, "{:?}", begun.elapsed());
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    drop((listening, silent, half, deaf));
}

#[test]
fn dropping_a_server_stops_it() {
    let server = Server::start(Config::default()).unwrap();
    let address = address(&server);
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn what_was_published_before_the_stop_still_reaches_the_clients() {
    let server = Server::start(Config::default()).unwrap();
    let mut live = Live::open(address(&server));
    live.next().unwrap();
    for second in 1..=20 {
        server.publish(Event::Window(busy_window(second * SECOND_NS)));
    }
    server.stop();
    let mut last = None;
    while let Some(message) = live.next() {
        last = message.id.or(last);
    }
    assert_eq!(last, Some(20));
}

#[test]
fn requests_that_are_no_http_are_refused_and_do_no_harm() {
    let server = Server::start(Config::default()).unwrap();
    for text in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = connect(address(&server));
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // The server may close before everything is read; both are refusals.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let long = format!("/{}", "x".repeat(1 << 20));
    let mut stream = connect(address(&server));
    let _ = write!(stream, "GET {long} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(get(address(&server), "/").status, 200);
    server.stop();
}

#[test]
fn many_requests_on_one_connection_are_answered_and_who_finds_no_place_is_told_at_once() {
    let server = Server::start(Config::default()).unwrap();
    let address = address(&server);
    // One user has 48 places, which idle connections hold as long as they are open.
    let idle: Vec<TcpStream> = (0..60).map(|_| connect(address)).collect();
    let refused = get(address, "/metrics");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")));
    assert!(refused.error().contains("too many connections"));
    drop(idle);
    wait_for("a place", || (get(address, "/metrics").status == 200).then_some(()));
    let idle: Vec<TcpStream> = (0..20).map(|_| connect(address)).collect();
    let clients: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(move || (0..5).map(|_| get(address, "/metrics").status).collect::<Vec<_>>()))
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), [200; 5]);
    }
    drop(idle);
    let mut stream = connect(address);
    for _ in 0..3 {
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        let mut rest = Vec::new();
        while !rest.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            rest.extend(byte);
        }
    }
    server.stop();
}

#[test]
fn an_event_too_large_for_memory_is_counted_and_the_rest_goes_on() {
    let server = Server::start(Config::default()).unwrap();
    let mut large = window(5 * SECOND_NS, Vec::new());
    let row = Untimed { cpu: surefoot_model::CpuId(0), row: "X".into(), name: "x".repeat(1 << 20), count: 1 };
    large.untimed = vec![row; 20];
    server.publish(Event::Window(large));
    server.publish(Event::Window(busy_window(6 * SECOND_NS)));
    let kept = wait_for("the small window", || {
        let kept = get_json(address(&server), "/api/v1/snapshot");
        (kept["sequence"] == 1).then_some(kept)
    });
    assert_eq!(kept["windows"].as_array().unwrap().len(), 1);
    assert_eq!(kept["dropped"]["oversized"], 1);
    server.stop();
}

/// A report ends with what the rooms find, and asks as soon as the last event was handed over.
#[test]
fn a_replay_is_judged_as_a_whole_however_slowly_it_is_taken_in() {
    // More than a server takes in within a moment.
    const WINDOWS: u64 = 1_000;
    const CORES: u32 = 64;
    let mode = Mode::Replay { file: "x".into() };
    let server = Server::start(Config { mode, port: None, ..Config::default() }).unwrap();
    server.publish(Event::Host(host()));
    for second in 1..=WINDOWS {
        let ledger = |cpu| core(cpu, 0, CauseKind::ALL.map(|kind| lost(kind, "x", 250, 4_000)).into(), 0);
        server.publish(Event::Window(window(second * SECOND_NS, (0..CORES).map(ledger).collect())));
    }
    let last = untraced_gap(1, WINDOWS * SECOND_NS, 50_000_000, Verdict::SmiLike, Certainty::Probable);
    server.publish(Event::Gap(last));
    let sentence = server.findings().0.sentence;
    assert!(server.settle(PATIENCE));
    assert_eq!(sentence, server.findings().0.sentence);
}
