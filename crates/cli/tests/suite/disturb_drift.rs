//! `surefoot disturb drift` beside time servers whose clocks are known, on the loopback interface.

use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use surefoot_disturb::drift::ntp::stamp;
use surefoot_testkit::not_run::not_run;

/// A time server for as long as it is held.
struct Server {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Its clock is ahead by what `ahead` says of the time since it started.
    fn start(ahead: impl Fn(Duration) -> Duration + Send + 'static) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (port, stop) = (socket.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let (is_over, begin) = (Arc::clone(&stop), Instant::now());
        let serve = move || {
            let mut packet = [0; 512];
            while !is_over.load(Ordering::Relaxed) {
                let Ok((_, from)) = socket.recv_from(&mut packet) else { continue };
                let now = stamp(SystemTime::now() + ahead(begin.elapsed())).to_be_bytes();
                let mut reply = [0; 48];
                (reply[0], reply[1]) = (0o44, 1);
                reply[24..32].copy_from_slice(&packet[40..48]);
                reply[32..40].copy_from_slice(&now);
                reply[40..48].copy_from_slice(&now);
                socket.send_to(&reply, from).unwrap();
            }
        };
        Server { port, stop, thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn drift(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["disturb", "drift"]).args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_clock_that_falls_behind_under_disturbances_is_shown() {
    const TEST: &str = "a_clock_that_falls_behind_under_disturbances_is_shown";
    // The longer it runs the faster the server's clock goes: in the second row of comparisons by 0.06 s a second more.
    let server = Server::start(|time| Duration::from_secs_f64(time.as_secs_f64().powi(2) / 20.0));
    let _turn = super::disturb_run::turn();
    let words = format!(
        "--disturbance freeze:length=1ms,period=50ms,cores=0 --reference ntp:127.0.0.1:{} --duration 600ms --every 20ms \
         --patience 5s --even-if-in-use --json",
        server.port
    );
    let output = drift(&words);
    if output.status.code() == Some(3) {
        return not_run(TEST, &text(&output.stderr));
    }
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["drift_shown"]), (&Value::from("drift"), &Value::from(true)), "{last}");
    assert!(last["interval_high_ns"].as_f64().unwrap() < 0.0, "it loses: {last}");
    assert!(last["disturbance_count"].as_u64().unwrap() > 0, "{last}");
    for row in [false, true] {
        let of_row =
            lines.iter().filter(|line| line["type"] == "comparison" && line["disturbed"] == row).count() as u64;
        let rate = &last[if row { "disturbed" } else { "undisturbed" }];
        let told = ["comparison_count", "left_out_count"].map(|name| rate[name].as_u64().unwrap());
        assert_eq!(of_row, told.iter().sum::<u64>(), "{last}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_disturbed() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = format!("--reference ntp:127.0.0.1:{} --patience 50ms", silent.local_addr().unwrap().port());
    for (words, why) in [
        ("--reference sundial", "'sundial' is no reference"),
        ("", "--reference"),
        (silent.as_str(), "nothing answers at this port"),
        ("--reference ntp:127.0.0.1:1 --every 1us", "1ms or more"),
        ("--reference ntp:127.0.0.1:1 --duration 1s --every 500ms", "too few comparisons"),
        ("--reference ntp:127.0.0.1:1 --disturbance freeze:length=1s,period=3s", "are possible"),
    ] {
        let output = drift(words);
        assert!(text(&output.stderr).contains(why), "{words}: {output:?}");
        assert!(!output.status.success() && output.stdout.is_empty(), "{words}: {output:?}");
    }
}

#[test]
fn a_server_whose_clock_jumps_is_refused_as_a_reference() {
    const TEST: &str = "a_server_whose_clock_jumps_is_refused_as_a_reference";
    // By 5 s every tenth of a second, whenever the comparisons begin.
    let server = Server::start(|time| Duration::from_secs(time.as_millis() as u64 / 100 * 5));
    let _turn = super::disturb_run::turn();
    let words = format!(
        "--disturbance freeze:length=1ms,period=50ms,cores=0 --reference ntp:127.0.0.1:{} --duration 600ms --every 20ms \
         --patience 5s --even-if-in-use --json",
        server.port
    );
    let output = drift(&words);
    if output.status.code() == Some(3) {
        return not_run(TEST, &text(&output.stderr));
    }
    assert!(!output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("jumped ahead"), "{output:?}");
}
