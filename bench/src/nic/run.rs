//! Measures: in virtual time once, by the clock in rounds in which all take their turn.

use super::lines::{BenchLine, Spread};
use super::options::Setup;
use std::sync::atomic::{AtomicBool, Ordering};
use surefoot_console::people::tell;
use surefoot_nic::live;
use surefoot_nic::live::directory::{NAMES, remove_left};
use surefoot_nic::measure::{self, ByClock, Error, LibraryCost, Peers, Stack};
use surefoot_sys::signals;

/// The length of messages beside a self-test, as in the paper.
const TESTED_BYTES: u32 = 2_048;
/// With the self-test.
const TESTED: [Stack; 2] = [Stack::Tolerant, Stack::Verified];
/// Bytes of one round one way, at most: as many messages of the longest kind are no more than are needed.
const STREAM_BYTES_MAX: u32 = 4 << 20;

pub struct Found {
    pub lines: Vec<BenchLine>,
    /// Somebody stopped it; what is there is what was done until then.
    pub is_stopped: bool,
}

pub fn run(setup: &Setup) -> anyhow::Result<Found> {
    let stop = signals::stop_flag()?;
    let mut lines = Vec::new();
    if setup.is_virtual {
        exact(setup, stop, &mut lines)?;
    }
    if setup.is_wall {
        wall(setup, stop, &mut lines)?;
    }
    Ok(Found { lines, is_stopped: is_stopped(stop) })
}

fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

fn count(setup: &Setup, bytes: u32) -> u32 {
    setup.messages.min((STREAM_BYTES_MAX / bytes).max(1))
}

fn exact(setup: &Setup, stop: &AtomicBool, lines: &mut Vec<BenchLine>) -> anyhow::Result<()> {
    for &bytes in &setup.sizes {
        let mut base = None;
        for stack in Stack::ALL {
            if is_stopped(stop) {
                return Ok(());
            }
            let found = measure::exact(stack, bytes, count(setup, bytes), setup.under_way)?;
            let base = *base.get_or_insert(found);
            lines.push(BenchLine::Figure {
                clock: "virtual",
                stack: stack.name(),
                message_bytes: bytes,
                half_round_trip_ns: Spread::exact(found.half_round_trip_ns),
                half_round_trip_share: Some(found.half_round_trip_ns / base.half_round_trip_ns),
                bytes_per_s: Spread::exact(found.stream.bytes_per_s),
                bytes_per_s_share: Some(found.stream.bytes_per_s / base.stream.bytes_per_s),
                instructions_per_message: Some(found.stream.instructions_per_message),
                host_send_ns: None,
                host_receive_ns: None,
            });
        }
    }
    for stack in TESTED.into_iter().filter(|_| !setup.intervals_ns.is_empty()) {
        let mut base = None;
        for interval_ns in [None].into_iter().chain(setup.intervals_ns.iter().copied().map(Some)) {
            if is_stopped(stop) {
                return Ok(());
            }
            let found = measure::tested(stack, interval_ns, TESTED_BYTES, setup.span_ns)?;
            let base = *base.get_or_insert(found);
            lines.push(BenchLine::SelfTest {
                stack: stack.name(),
                message_bytes: TESTED_BYTES,
                interval_ns,
                span_ns: setup.span_ns,
                bytes_per_s: found.bytes_per_s,
                bytes_per_s_share: found.bytes_per_s / base.bytes_per_s,
                half_round_trip_ns: found.half_round_trip_ns,
                half_round_trip_share: found.half_round_trip_ns / base.half_round_trip_ns,
            });
        }
    }
    Ok(())
}

/// By the clock, the rounds of one way with one length.
#[derive(Default, Clone)]
struct Rounds {
    half_round_trip_ns: Vec<f64>,
    bytes_per_s: Vec<f64>,
    host_send_ns: Vec<f64>,
    host_receive_ns: Vec<f64>,
}

impl Rounds {
    fn interface(&mut self, found: ByClock, cost: LibraryCost) {
        self.half_round_trip_ns.push(found.half_round_trip_ns);
        self.bytes_per_s.push(found.bytes_per_s);
        self.host_send_ns.push(cost.send_ns);
        self.host_receive_ns.push(cost.receive_ns);
    }

    fn peer(&mut self, found: Peers) {
        self.half_round_trip_ns.push(found.half_round_trip_ns);
        self.bytes_per_s.push(found.bytes_per_s);
    }

    fn line(self, stack: &'static str, message_bytes: u32, base: Option<(f64, f64)>) -> Option<BenchLine> {
        let half_round_trip_ns = Spread::of(self.half_round_trip_ns)?;
        let bytes_per_s = Spread::of(self.bytes_per_s)?;
        Some(BenchLine::Figure {
            clock: "wall",
            stack,
            message_bytes,
            half_round_trip_ns,
            half_round_trip_share: base.map(|(ns, _)| half_round_trip_ns.median / ns),
            bytes_per_s,
            bytes_per_s_share: base.map(|(_, rate)| bytes_per_s.median / rate),
            instructions_per_message: None,
            host_send_ns: Spread::of(self.host_send_ns),
            host_receive_ns: Spread::of(self.host_receive_ns),
        })
    }
}

fn wall(setup: &Setup, stop: &AtomicBool, lines: &mut Vec<BenchLine>) -> anyhow::Result<()> {
    let mut interfaces = vec![<[Rounds; Stack::ALL.len()]>::default(); setup.sizes.len()];
    let mut peers = vec![<[Rounds; 2]>::default(); setup.sizes.len()];
    let mut no_packets = None;
    'rounds: for round in 0..setup.rounds {
        tell!("surefoot-bench nic: round {} of {}", round + 1, setup.rounds);
        for (place, &bytes) in setup.sizes.iter().enumerate() {
            let (trips, count) = (setup.messages, count(setup, bytes));
            for turn in 0..Stack::ALL.len() {
                if is_stopped(stop) {
                    break 'rounds;
                }
                // Another one is first in each round.
                let of = (turn + round as usize) % Stack::ALL.len();
                let stack = Stack::ALL[of];
                let found = by_clock(stack, bytes, trips, count)?;
                interfaces[place][of].interface(found, measure::library_cost(stack, bytes, trips)?);
            }
            peers[place][0].peer(measure::udp(bytes, trips, count)?);
            if no_packets.is_none() {
                match measure::packets(bytes, trips, count) {
                    Ok(found) => found.into_iter().for_each(|found| peers[place][1].peer(found)),
                    Err(Error::Live(live::Error::Unsupported(reason))) => no_packets = Some(reason),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    for ((&bytes, of_stacks), of_peers) in setup.sizes.iter().zip(interfaces).zip(peers) {
        let median = |values: &[f64]| Spread::of(values.to_vec()).map(|spread| spread.median);
        let base = median(&of_stacks[0].half_round_trip_ns).zip(median(&of_stacks[0].bytes_per_s));
        let named = Stack::ALL.into_iter().zip(of_stacks);
        lines.extend(named.filter_map(|(stack, rounds)| rounds.line(stack.name(), bytes, base)));
        let named = ["udp_loopback", "veth_packets"].into_iter().zip(of_peers);
        lines.extend(named.filter_map(|(name, rounds)| rounds.line(name, bytes, None)));
    }
    lines.extend(no_packets.map(|reason| BenchLine::NotRun { what: "veth_packets", reason }));
    Ok(())
}

fn by_clock(stack: Stack, bytes: u32, trips: u32, count: u32) -> anyhow::Result<ByClock> {
    let memory = std::path::Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = base.join(format!("{}{}", NAMES[1], std::process::id()));
    remove_left(&base);
    Ok(measure::by_clock(&directory, stack, bytes, trips, count)?)
}
