//! By the clock: two interfaces as threads of this process with a link in memory, a thread for each application.

use super::{BYTES_MAX, Error, PAGES, PATIENCE, SIZE_CLASS, SLOTS, Stack, WARM_UP, median, provide_all, send};
use crate::host::memory::HostMemory;
use crate::host::port::{Event, Port, PortConfig};
use crate::live::local::Pair;
use crate::live::part::port_config;
use crate::live::ports;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;

/// How long everybody looks for something to do before they sleep.
const SPIN: Duration = Duration::from_micros(50);
const SLEEP_NS_MAX: u64 = 5_000_000;
const ARENA_BYTES: u32 = 4 << 20;

/// What one run found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByClock {
    /// The median of the round trips, halved: few of them are interrupted by what else the machine does.
    pub half_round_trip_ns: f64,
    /// One way.
    pub bytes_per_s: f64,
}

/// One run with messages of one length: `trips` there and back, then `count` one way. The run directory must not be there yet.
///
/// # Errors
/// [`Error`]; what the system says, or nothing arrives.
pub fn by_clock(directory: &Path, stack: Stack, bytes: u32, trips: u32, count: u32) -> Result<ByClock, Error> {
    let pair = Pair::start(directory, stack.build(), ARENA_BYTES, SPIN.as_nanos() as u64)?;
    let config = PortConfig { verifies: stack == Stack::Verified, ..port_config(stack.build()) };
    let (mut here, there) = (open(&pair.memories[0], config)?, open(&pair.memories[1], config)?);
    let is_over = AtomicBool::new(false);
    let (total, echoed) = (trips + WARM_UP, count + WARM_UP);
    let found = std::thread::scope(|scope| {
        let far = scope.spawn(|| echo(there, &is_over, total, bytes));
        let found = drive(&mut here, bytes, [total, echoed]);
        is_over.store(true, Ordering::Release);
        let far = far.join().map_err(|_| Error::Stuck("a thread panicked".to_owned()))?;
        found.and_then(|found| far.map(|()| found))
    });
    found.map_err(|error| match error {
        Error::Stuck(why) => Error::Stuck(format!("{why}; {}", said_by_daemons(&pair))),
        other => other,
    })
}

/// The steps of both daemons, which say whether an interface was taken for hung.
fn said_by_daemons(pair: &Pair) -> String {
    let steps = |node: usize| pair.steps[node].text().lines().collect::<Vec<_>>().join(", ");
    format!("daemon 0: [{}], daemon 1: [{}]", steps(0), steps(1))
}

fn open(memory: &Arc<HostMemory>, config: PortConfig) -> Result<Port, Error> {
    let mut port = ports::open(memory, 1, PortConfig { pages: PAGES, ..config })?;
    provide_all(&mut port)?;
    Ok(port)
}

/// The next event; spins a little, then sleeps. `None` when it is over. A message that did not arrive is an error: the other side
/// waits for it.
fn next(port: &mut Port, is_over: &AtomicBool) -> Result<Option<Event>, Error> {
    let begun = Instant::now();
    let mut busy = begun;
    loop {
        match port.poll(monotonic_ns()) {
            Some(Event::Sent { token, outcome: Err(why) }) => {
                let why = format!("message {token} of node {} did not arrive: {why:?}", port.node());
                return Err(Error::Stuck(why));
            }
            Some(event) => return Ok(Some(event)),
            None => {}
        }
        if is_over.load(Ordering::Acquire) {
            return Ok(None);
        }
        if busy.elapsed() > SPIN {
            port.wait(SLEEP_NS_MAX);
            busy = Instant::now();
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::Stuck(silence(port)));
        }
    }
}

/// What is known of a port at which nothing happened.
fn silence(port: &Port) -> String {
    let (node, number, counts) = (port.node(), port.number(), port.counts());
    let (sent, buffers) = (port.outstanding_count(), port.provided_count());
    format!(
        "no event at port {number} of node {node} for {PATIENCE:?}: {sent} messages unacknowledged, {buffers} buffers provided, {counts:?}"
    )
}

/// Sends back as many messages as asked for, takes the others, and what it has to say yet.
fn echo(mut port: Port, is_over: &AtomicBool, back: u32, bytes: u32) -> Result<(), Error> {
    let mut token = 0;
    while let Some(event) = next(&mut port, is_over)? {
        let Event::Received { token: buffer, address, .. } = event else { continue };
        port.provide(buffer, address, SIZE_CLASS, 0)?;
        if token < back {
            token += 1;
            send(&mut port, token, 0, bytes)?;
        }
    }
    Ok(())
}

fn drive(port: &mut Port, bytes: u32, [trips, count]: [u32; 2]) -> Result<ByClock, Error> {
    let never = AtomicBool::new(false);
    let content: Vec<u8> = (0..BYTES_MAX).map(|at| at as u8).collect();
    (0..SLOTS).for_each(|slot| {
        port.write(slot * BYTES_MAX, &content);
    });
    let mut trip_ns = Vec::with_capacity(trips as usize);
    for trip in 0..trips {
        let begun = Instant::now();
        send(port, trip, 1, bytes)?;
        loop {
            if let Some(Event::Received { token: buffer, address, .. }) = next(port, &never)? {
                port.provide(buffer, address, SIZE_CLASS, 0)?;
                break;
            }
        }
        trip_ns.push(begun.elapsed().as_nanos() as u64);
    }
    while port.outstanding_count() > 0 {
        next(port, &never)?;
    }
    let (mut sent, mut confirmed, mut begun) = (0, 0, Instant::now());
    while confirmed < count {
        while sent < count && sent - confirmed < SLOTS {
            send(port, trips + sent, 1, bytes)?;
            sent += 1;
        }
        if let Some(Event::Sent { .. }) = next(port, &never)? {
            confirmed += 1;
            if confirmed == WARM_UP {
                begun = Instant::now();
            }
        }
    }
    let bytes_per_s = f64::from(count - WARM_UP) * f64::from(bytes) / begun.elapsed().as_secs_f64();
    Ok(ByClock { half_round_trip_ns: median(&mut trip_ns[WARM_UP as usize..]) / 2.0, bytes_per_s })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::firmware::Build;

    #[test]
    fn a_message_that_is_refused_is_reported_at_once() {
        let base = tempfile::tempdir().unwrap();
        let pair = Pair::start(&base.path().join("run"), Build::Plain, ARENA_BYTES, 0).unwrap();
        // Nobody opens the port at node 1.
        let mut here = open(&pair.memories[0], port_config(Build::Plain)).unwrap();
        let error = drive(&mut here, 1_000, [1, 0]).unwrap_err().to_string();
        assert_eq!(error, "message 0 of node 0 did not arrive: Closed");
    }

    #[test]
    fn every_stack_carries_messages_by_the_clock() {
        let base = tempfile::tempdir().unwrap();
        for stack in Stack::ALL {
            let found = by_clock(&base.path().join(stack.name()), stack, 1_000, 20, 40);
            let found = found.unwrap_or_else(|error| panic!("{stack:?}: {error}"));
            assert!(found.half_round_trip_ns > 0.0 && found.bytes_per_s > 0.0, "{stack:?}: {found:?}");
        }
    }
}
