//! Requests that come at a rate, whether or not the last was answered, each with a deadline.
//!
//! A request's time begins when it was to be sent, not when it could be: who waits for a stalled service counts what he waited
//! (no "coordinated omission"). The share of requests that are answered in time is ICPE'20's request efficiency.

use super::{quantile, tie, words};
use crate::Fault;
use std::net::UdpSocket;
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// A service and who asks it.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// Requests a second.
    pub per_s: u64,
    /// An answer that comes later is none.
    pub deadline: Duration,
    /// What a request takes of the service's core.
    pub work: Duration,
}

/// What became of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deadline {
    /// All of them.
    pub offered: u64,
    /// Those that were answered in time.
    pub on_time: u64,
    /// Half of the answers took no longer, from when their request was to be sent.
    pub p50_ms: f64,
    /// 99 of 100; a request without an answer counts as the longest wait.
    pub p99_ms: f64,
}

impl Deadline {
    /// The share that was answered in time.
    pub fn share(&self) -> f64 {
        self.on_time as f64 / self.offered.max(1) as f64
    }
}

/// How long answers are waited for after the last request.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);

/// Asks for so long. The service has its core, and who asks has his.
///
/// # Errors
/// [`Fault::Start`] when the kernel refuses.
pub fn deadline(service: &Service, length: Duration, [own, asks]: [Option<CpuId>; 2]) -> Result<Deadline, Fault> {
    let open = || UdpSocket::bind(("127.0.0.1", 0)).map_err(|error| words("socket", error));
    let (server, client) = (open()?, open()?);
    let address = server.local_addr().map_err(|error| words("socket", error))?;
    client.connect(address).map_err(|error| words("connect", error))?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(LOOK)).map_err(|error| words("socket", error))?;
    }
    let interval_ns = 1_000_000_000 / service.per_s.max(1);
    let offered = length.as_nanos() as u64 / interval_ns.max(1);
    let start_ns = monotonic_ns() + 5_000_000;
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
    let waits_ns = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = tie(own);
            serve(&server, service.work, is_over);
        });
        let sender = client.try_clone().map_err(|error| words("socket", error))?;
        scope.spawn(move || {
            let _ = tie(asks);
            thread::set_timer_slack(Duration::from_nanos(1));
            for number in 0..offered {
                let due_ns = start_ns + number * interval_ns;
                std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
                // A full buffer loses it, as a network does.
                let _ = sender.send(&number.to_le_bytes());
            }
        });
        let _ = tie(asks);
        let end_ns = start_ns + offered * interval_ns + PATIENCE.max(service.deadline).as_nanos() as u64;
        let waits_ns = answers(&client, offered, end_ns, |number| start_ns + number * interval_ns);
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, Fault>(waits_ns)
    })?;
    Ok(told(offered, waits_ns, service.deadline))
}

/// Answers each request with itself after some work.
fn serve(socket: &UdpSocket, work: Duration, is_over: impl Fn() -> bool) {
    let work_ns = work.as_nanos() as u64;
    let mut request = [0; 8];
    while !is_over() {
        let Ok((_, from)) = socket.recv_from(&mut request) else { continue };
        let began_ns = monotonic_ns();
        while monotonic_ns() - began_ns < work_ns {
            std::hint::spin_loop();
        }
        let _ = socket.send_to(&request, from);
    }
}

/// The wait of each request that was answered.
fn answers(socket: &UdpSocket, offered: u64, end_ns: u64, due_ns: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut waits_ns = Vec::new();
    let mut seen = vec![false; offered as usize];
    let mut answer = [0; 8];
    while (waits_ns.len() as u64) < offered && monotonic_ns() < end_ns {
        if socket.recv(&mut answer).is_ok_and(|bytes| bytes == answer.len()) {
            let number = u64::from_le_bytes(answer);
            let is_new = seen.get_mut(number as usize).is_some_and(|seen| !std::mem::replace(seen, true));
            if is_new {
                waits_ns.push(monotonic_ns().saturating_sub(due_ns(number)));
            }
        }
    }
    waits_ns
}

fn told(offered: u64, mut waits_ns: Vec<u64>, deadline: Duration) -> Deadline {
    let deadline_ns = deadline.as_nanos() as u64;
    let on_time = waits_ns.iter().filter(|wait_ns| **wait_ns <= deadline_ns).count() as u64;
    let longest_ns = waits_ns.iter().copied().max().unwrap_or(0).max(deadline_ns);
    waits_ns.resize(offered as usize, longest_ns);
    waits_ns.sort_unstable();
    let part = |percent| quantile(&waits_ns, percent) as f64 / 1e6;
    Deadline { offered, on_time, p50_ms: part(50.0), p99_ms: part(99.0) }
}
