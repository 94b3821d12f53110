//! In virtual time, where nothing else disturbs: the same figures at each run.

use super::{Error, Stack, WARM_UP, provide_all, send};
use crate::device::TrapPolicy;
use crate::firmware::Firmware;
use crate::host::bus::Guard;
use crate::host::port::{Event, Port};
use crate::host::selftest::SelfTestConfig;
use crate::world::traffic::{Kind, SLOTS_MAX, Traffic, TrafficConfig, WINDOW_MAX};
use crate::world::{LinkFaults, World, WorldConfig};
use std::sync::Arc;

/// No run takes longer in virtual time than what it is to take, and this.
const LATE_NS: u64 = 60_000_000_000;
/// An interval after which no test comes any more.
const NEVER_NS: u64 = 1_000_000_000_000;

/// What a stack does with messages of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exact {
    /// Half of a round trip.
    pub half_round_trip_ns: f64,
    /// One way.
    pub stream: Stream,
}

/// A stream of messages one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stream {
    /// Bytes of messages.
    pub bytes_per_s: f64,
    /// Instructions of both interfaces for a message.
    pub instructions_per_message: f64,
}

/// What is left beside a self-test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tested {
    /// Of a stream.
    pub bytes_per_s: f64,
    /// The mean of round trips one after the other, halved.
    pub half_round_trip_ns: f64,
}

pub(super) fn world(stack: Stack, self_test: Option<SelfTestConfig>) -> Result<World, Error> {
    Ok(World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(stack.build())),
        daemon: stack.daemon(self_test),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 1,
    })?)
}

/// When a run has seen enough.
#[derive(Clone, Copy)]
enum Until {
    Messages(u32),
    Ns(u64),
}

impl Until {
    fn is_over(self, messages: u32, ns: u64) -> bool {
        match self {
            Until::Messages(most) => messages >= most,
            Until::Ns(most) => ns >= most,
        }
    }
}

/// Latency, bandwidth and instructions of messages of one length, of which so many are under way at once one way: at most
/// [`SLOTS_MAX`].
///
/// # Errors
/// [`Error`]; nothing arrives, or a port cannot be opened.
pub fn exact(stack: Stack, bytes: u32, count: u32, under_way: u32) -> Result<Exact, Error> {
    let messages = Until::Messages(count.max(1));
    Ok(Exact {
        half_round_trip_ns: half_round_trip(stack, None, bytes, messages)?,
        stream: stream(stack, None, (bytes, under_way), messages)?,
    })
}

/// What is left beside a self-test at this interval, or with one at the beginning and none after, over a span of virtual time.
///
/// # Errors
/// As [`exact`].
pub fn tested(stack: Stack, interval_ns: Option<u64>, bytes: u32, span_ns: u64) -> Result<Tested, Error> {
    let interval_ns = interval_ns.unwrap_or(NEVER_NS);
    let test = Some(SelfTestConfig { interval_ns, ..SelfTestConfig::default() });
    let bytes_per_s = stream(stack, test, (bytes, WINDOW_MAX), Until::Ns(span_ns))?.bytes_per_s;
    Ok(Tested { bytes_per_s, half_round_trip_ns: half_round_trip(stack, test, bytes, Until::Ns(span_ns))? })
}

fn stream(
    stack: Stack,
    test: Option<SelfTestConfig>,
    (bytes, window): (u32, u32),
    until: Until,
) -> Result<Stream, Error> {
    let mut world = world(stack, test)?;
    // Where a span of time is asked for, no interface is fast enough to come to the end of so many.
    let message_count = if let Until::Messages(count) = until { count + WARM_UP } else { u32::MAX };
    let config =
        TrafficConfig { message_count, message_bytes: bytes, window, both_ways: false, kind: Kind::Normal, seed: 1 };
    let mut traffic = Traffic::with_slots(&world, stack.port(test.is_some()), config, SLOTS_MAX)?;
    let instructions = |world: &World| world.nodes.iter().map(|node| node.device.instruction_count()).sum::<u64>();
    let mut begun: Option<(u64, usize, u64)> = None;
    loop {
        let (now_ns, delivered) = (world.now_ns(), traffic.delivered_count());
        // From the first deliveries on: the self-test before the first request counts as set-up.
        if begun.is_none() && delivered >= WARM_UP as usize {
            begun = Some((now_ns, delivered, instructions(&world)));
        }
        let (begun_ns, before, instructions_before) = begun.unwrap_or((now_ns, delivered, 0));
        let messages = delivered - before;
        if until.is_over(messages as u32, now_ns - begun_ns) {
            let ns = (now_ns - begun_ns) as f64;
            return Ok(Stream {
                bytes_per_s: messages as f64 * f64::from(bytes) * 1e9 / ns,
                instructions_per_message: (instructions(&world) - instructions_before) as f64 / messages as f64,
            });
        }
        stuck_after(now_ns, until, "a stream of messages in virtual time")?;
        let did = traffic.step(now_ns);
        world.step(if did { 0 } else { now_ns + 100_000 });
    }
}

fn stuck_after(now_ns: u64, until: Until, what: &str) -> Result<(), Error> {
    let span_ns = match until {
        // A message of the longest kind takes under a millisecond.
        Until::Messages(count) => u64::from(count) * 10_000_000,
        Until::Ns(span_ns) => span_ns,
    };
    if now_ns > span_ns.saturating_add(LATE_NS) {
        return Err(Error::Stuck(format!("{what} does not finish")));
    }
    Ok(())
}

fn half_round_trip(stack: Stack, test: Option<SelfTestConfig>, bytes: u32, until: Until) -> Result<f64, Error> {
    let mut world = world(stack, test)?;
    let mut ports = open_both(&world, stack, test.is_some())?;
    let mut token = 0;
    send(&mut ports[0], token, 1, bytes)?;
    let (mut trips, mut begun_ns) = (0, 0);
    loop {
        let now_ns = world.now_ns();
        for (place, port) in ports.iter_mut().enumerate() {
            while let Some(event) = port.poll(now_ns) {
                let Event::Received { token: buffer, address, .. } = event else { continue };
                port.provide(buffer, address, super::SIZE_CLASS, 0)?;
                if place == 0 {
                    trips += 1;
                    if trips == WARM_UP {
                        begun_ns = now_ns;
                    }
                    let since = trips.saturating_sub(WARM_UP);
                    if since > 0 && until.is_over(since, now_ns - begun_ns) {
                        return Ok((now_ns - begun_ns) as f64 / f64::from(since) / 2.0);
                    }
                }
                token += 1;
                send(port, token, 1 - place as u8, bytes)?;
            }
        }
        stuck_after(now_ns, until, "an exchange of messages in virtual time")?;
        world.step(0);
    }
}

pub(super) fn open_both(world: &World, stack: Stack, waits_for_test: bool) -> Result<[Port; 2], Error> {
    let open = |place: usize| -> Result<Port, Error> {
        let mut port = Port::open(Arc::clone(&world.nodes[place].memory), 1, 2, stack.port(waits_for_test))?;
        provide_all(&mut port)?;
        Ok(port)
    };
    Ok([open(0)?, open(1)?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn figures_are_the_same_at_each_run_and_those_of_the_machine_that_is_modelled() {
        let one = exact(Stack::Verified, 4096, 100, 8).unwrap();
        assert_eq!(exact(Stack::Verified, 4096, 100, 8).unwrap(), one);
        // Faster than a link of 160 MB/s nothing can be; nor can a message of 4 KB cross it faster.
        assert!(one.stream.bytes_per_s > 10e6 && one.stream.bytes_per_s < 160e6, "{one:?}");
        assert!(one.half_round_trip_ns > 4096.0 / 0.16, "{one:?}");
        let short = exact(Stack::Verified, 64, 100, 8).unwrap();
        assert!(short.half_round_trip_ns < one.half_round_trip_ns, "{short:?}");
    }

    /// Latency at most 5 % above GM's, verified or not, and with all tokens of a port under way, 99.5 % of its bandwidth; where
    /// the goal is missed, as `bench/results/nic.md` says, no less than there.
    #[test]
    fn fault_tolerance_costs_no_more_than_it_may() {
        for bytes in [16, 64, 256, 1024, 2048, 4096, 16_384, 32_768] {
            let of = |stack| exact(stack, bytes, 200, SLOTS_MAX).unwrap();
            let base = of(Stack::Plain);
            for stack in [Stack::Detecting, Stack::Tolerant, Stack::Verified] {
                let found = of(stack);
                let latency = found.half_round_trip_ns / base.half_round_trip_ns;
                assert!(latency <= 1.05, "{stack:?}, {bytes} bytes: {latency}");
                let bandwidth = found.stream.bytes_per_s / base.stream.bytes_per_s;
                let least = match (stack, bytes) {
                    (Stack::Tolerant, 4096) => 0.984,
                    (Stack::Detecting, 2048) => 0.994,
                    _ => 0.995,
                };
                assert!(bandwidth >= least, "{stack:?}, {bytes} bytes: {bandwidth}");
            }
        }
    }

    #[test]
    fn a_self_test_more_often_leaves_less() {
        let left = |interval_ns| tested(Stack::Tolerant, interval_ns, 2048, 40_000_000).unwrap();
        let (never, often) = (left(None), left(Some(5_000_000)));
        assert!(often.bytes_per_s < never.bytes_per_s, "{often:?} {never:?}");
        assert!(often.half_round_trip_ns > never.half_round_trip_ns, "{often:?} {never:?}");
    }
}
