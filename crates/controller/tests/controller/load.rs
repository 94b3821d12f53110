//! Load: the states of many hosts, a burst of alerts, and when they are decided on, with PostgreSQL. A short run with the other tests; all of it
//! with `SUREFOOT_LOAD=1`, which prints the numbers.

use crate::remedies::{Ask, Setup, alerts_of};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_store::cases::CaseStore;
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::postgres::Postgres;

const CLIENTS: usize = 8;
/// Hosts that may be out at once.
const OUT_MAX: u64 = 5;

/// A connection that stays.
struct Kept {
    stream: TcpStream,
}

impl Kept {
    fn new(ask: &Ask) -> Kept {
        Kept { stream: TcpStream::connect(ask.address).unwrap() }
    }

    fn post(&mut self, path: &str, body: &str) -> u16 {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the server closed");
            answer.extend_from_slice(&bytes[..count]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return head.split(' ').nth(1).unwrap().parse().unwrap();
            }
        }
    }
}

/// Posts all bodies over a few connections; how many per second.
fn rate(ask: &Ask, path: &str, count: usize, body: impl Fn(usize) -> String + Sync) -> f64 {
    let (next, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Kept::new(ask);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                    if number >= count {
                        return;
                    }
                    let body = body(number);
                    while client.post(path, &body) != 200 {
                        refused.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            });
        }
    });
    let refused = refused.load(Ordering::Relaxed);
    assert!(refused < count as u64 / 10 + 10, "{refused} refused for now");
    count as f64 / begun.elapsed().as_secs_f64()
}

#[test]
fn many_hosts_and_a_burst_of_alerts_are_taken_and_decided_on() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_run("load::many_hosts_and_a_burst_of_alerts_are_taken_and_decided_on", &why),
    };
    let is_whole = std::env::var_os("SUREFOOT_LOAD").is_some();
    let (hosts, alerts, together) = if is_whole { (100_000, 10_000, 100) } else { (1_000, 400, 20) };
    let policy = format!(
        "[[policy]]\nservice = \"web\"\nsteps = [\"drain\", \"ticket:x\"]\nhosts_at_once = {OUT_MAX}\nshare_of_service = 1.0\nper_hour = 100000\napprove = [\"ticket:x\"]\n[[ticket]]\nname = \"x\"\ndirectory = \"/tmp\"\n"
    );
    let setup = Setup::new(&policy).store(&server.url());
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    let mut store = CaseStore::open(&server.url().parse().unwrap(), None).unwrap();
    let board = |number: usize| json!({"host": format!("node{number}"), "service": "web", "findings": []}).to_string();
    let first = rate(&ask, "/api/v1/findings", hosts, board);
    let again = rate(&ask, "/api/v1/findings", hosts.min(20_000), board);
    // A burst, as Alertmanager groups it.
    let begun = Instant::now();
    let messages = rate(&ask, "/api/v1/alertmanager", alerts / together, |number| {
        alerts_of((number * together..(number + 1) * together).map(|number| format!("node{number}")))
    });
    let taken = begun.elapsed();
    let mut most_out = 0;
    let decided = loop {
        let counts = store.counts().unwrap();
        let of = |state: &str| counts.cases.get(state).copied().unwrap_or(0);
        most_out = most_out.max(of("needs_approval") + of("running"));
        if counts.cases.values().sum::<u64>() == alerts as u64 && of("needs_approval") == OUT_MAX {
            break begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(180), "{counts:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let single = rate(&ask, "/api/v1/alertmanager", alerts, |number| alerts_of([format!("node{number}")].into_iter()));
    eprintln!(
        "{hosts} hosts' first words: {first:.0} per second; the same again: {again:.0} per second; {alerts} alerts in messages of {together}: \
         {:.0} alerts per second, taken within {taken:?}, all decided on {decided:?} after the first; one at a time: {single:.0} per second; \
         at most {most_out} hosts out of {OUT_MAX} allowed",
        messages * together as f64
    );
    assert!(most_out <= OUT_MAX, "{most_out} hosts out");
    let cases = ask.get("/api/v1/cases?state=all&limit=10000").1;
    assert_eq!(cases["cases"].as_array().unwrap().len(), alerts);
}
