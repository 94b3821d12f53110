//! The real library, daemon and control program under a storm of failures, in virtual time and from a seed.
//!
//! Interfaces hang at random moments, also both at once, during their own recovery, and while the daemon that should recover
//! them dies; the link loses, doubles, delays and damages packets. What the applications wrote down is judged by
//! [`crate::check`], which knows nothing of all this.

use super::traffic::{Kind, STOP_NS, Traffic, TrafficConfig};
use super::{LinkFaults, World, WorldConfig};
use crate::check::Verdict;
use crate::device::TrapPolicy;
use crate::firmware::Firmware;
use crate::host::bus::Guard;
use crate::host::daemon::{DaemonConfig, Step};
use crate::host::driver::OpenError;
use crate::host::port::PortConfig;
use crate::host::selftest::SelfTestConfig;
use std::sync::Arc;
use surefoot_random::Random;

/// What kind of storm.
#[derive(Debug, Clone, Copy)]
pub struct StormConfig {
    /// Of everything that is chance.
    pub seed: u64,
    /// Failures of interfaces.
    pub failure_count: u32,
    /// From one failure to the next on average, as long as messages go.
    pub apart_ns: u64,
    /// Every so many failures a daemon dies as well; 0 for never.
    pub daemon_dies_every: u32,
    /// What the link does.
    pub faults: LinkFaults,
    /// What is sent.
    pub traffic: TrafficConfig,
    /// Messages are verified from library to library.
    pub verifies: bool,
    /// The daemons' self-test; `None` for none.
    pub self_test: Option<SelfTestConfig>,
    /// Whether applications look at their ports when they come to it: after microseconds, milliseconds, or a second.
    pub is_slow: bool,
}

/// What came of a storm.
#[derive(Debug, Clone)]
pub struct StormResult {
    /// The checker's word on both directions.
    pub verdict: Verdict,
    /// Failures that were made.
    pub failure_count: u32,
    /// Recoveries that came to their end.
    pub recovery_count: u64,
    /// Interfaces that were reloaded.
    pub reload_count: u64,
    /// Whether every receive buffer that was given to an interface is still there; `None` where messages go without buffers, or it never came to
    /// that.
    pub has_all_buffers: Option<bool>,
    /// From each failure to its detection.
    pub detection_ns: Vec<u64>,
    /// From each detection to the moment when all ports were back.
    pub recovery_ns: Vec<u64>,
    /// Whether its programs were slow.
    pub is_slow: bool,
    /// Virtual time at the end.
    pub end_ns: u64,
    /// Whether all was delivered in time.
    pub is_done: bool,
    /// The moments of the failures and who failed, for a replay by hand.
    pub failures: Vec<(u64, usize)>,
}

impl StormResult {
    /// Nothing lost, nothing twice, nothing out of order, nothing changed, no buffer gone, no more reloads than there were failures to begin them,
    /// and an end.
    pub fn is_perfect(&self) -> bool {
        // Beside slow programs a library may suspect an interface that holds its messages for one, before the daemons have told each other.
        let more = if self.is_slow { u64::from(self.failure_count) / 2 } else { RELOADS_MORE };
        let reloads_max = u64::from(self.failure_count) + more;
        self.is_done
            && self.verdict.is_perfect()
            && self.has_all_buffers != Some(false)
            && self.reload_count <= reloads_max
    }
}

/// Reloads beyond the failures that were made, in a storm: an interface that fails is suspected by both ends.
const RELOADS_MORE: u64 = 2;

/// No message takes longer than this of virtual time without a failure: then something is stuck.
const PATIENCE_NS: u64 = 400_000_000;

/// Runs a storm to its end.
///
/// # Errors
/// When the memory is too small for the traffic.
pub fn run(firmware: &Arc<Firmware>, config: &StormConfig) -> Result<StormResult, OpenError> {
    let daemon = DaemonConfig {
        self_test: config.self_test,
        verifies: config.verifies,
        // A storm has more failures in a second than an interface that is worth a reload.
        reloads_max: u32::MAX,
        ..DaemonConfig::default()
    };
    let mut world = World::new(&WorldConfig {
        firmware: Arc::clone(firmware),
        daemon: Some(daemon),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: config.faults,
        seed: config.seed,
    })?;
    let port = PortConfig { waits_for_test: false, verifies: config.verifies, ..PortConfig::tolerant(0) };
    let mut traffic = Traffic::new(&world, port, config.traffic)?;
    let mut patience_ns = PATIENCE_NS;
    if config.is_slow {
        traffic = traffic.slow(config.seed);
        // Both may stand still, one after the other.
        patience_ns += 4 * STOP_NS;
    }
    let mut random = Random::new(config.seed);
    let mut next_failure_ns = around(&mut random, config.apart_ns);
    let mut failures = Vec::new();
    let mut renewals: Vec<(u64, usize)> = Vec::new();
    let (mut progress, mut progress_ns) = (0, 0);
    while !traffic.is_done() && world.now_ns() - progress_ns < patience_ns {
        let now_ns = world.now_ns();
        let did = traffic.step(now_ns);
        if traffic.delivered_count() != progress {
            (progress, progress_ns) = (traffic.delivered_count(), now_ns);
        }
        if (failures.len() as u32) < config.failure_count && now_ns >= next_failure_ns {
            let place = (random.word() & 1) as usize;
            fail(&mut world, place, &mut random);
            failures.push((now_ns, place));
            next_failure_ns = now_ns + around(&mut random, config.apart_ns);
            if config.daemon_dies_every != 0 && (failures.len() as u32).is_multiple_of(config.daemon_dies_every) {
                // Somewhere in the detection or the recovery that follows.
                renewals.push((now_ns + around(&mut random, 1_000_000), place));
            }
        }
        while let Some(at) = renewals.iter().position(|(at_ns, _)| *at_ns <= now_ns) {
            let (_, place) = renewals.swap_remove(at);
            world.nodes[place].renew_daemon(daemon, now_ns)?;
        }
        world.step(if did { 0 } else { next_failure_ns.min(now_ns + 100_000) });
    }
    let mut result = result(&world, &traffic, failures);
    let has_buffers = result.is_done && config.traffic.kind == Kind::Normal;
    result.is_slow = config.is_slow;
    result.has_all_buffers = has_buffers.then(|| traffic.has_all_buffers(&mut world));
    Ok(result)
}

/// The processor hangs at once or some instructions later, also in the middle of what a step of time hides.
fn fail(world: &mut World, place: usize, random: &mut Random) {
    let node = &mut world.nodes[place];
    let until_ns = node.device.now_ns() + random.word() % super::STEP_NS;
    node.run(until_ns);
    node.hang();
}

fn result(world: &World, traffic: &Traffic, failures: Vec<(u64, usize)>) -> StormResult {
    let mut detection_ns = Vec::new();
    let mut recovery_ns = Vec::new();
    let (mut recovery_count, mut reload_count) = (0, 0);
    for (place, node) in world.nodes.iter().enumerate() {
        let mut detected = None;
        for &(at_ns, step) in &node.steps {
            match step {
                Step::Detected(_) => {
                    let failed = failures.iter().rev().find(|(failed_ns, of)| *of == place && *failed_ns <= at_ns);
                    detection_ns.extend(failed.map(|(failed_ns, _)| at_ns - failed_ns));
                    detected = Some(at_ns);
                }
                Step::Reloaded { .. } => reload_count += 1,
                Step::Recovered => {
                    recovery_count += 1;
                    recovery_ns.extend(detected.take().map(|detected_ns| at_ns - detected_ns));
                }
                _ => {}
            }
        }
    }
    StormResult {
        verdict: traffic.verdict(),
        failure_count: failures.len() as u32,
        recovery_count,
        reload_count,
        has_all_buffers: None,
        is_slow: false,
        detection_ns,
        recovery_ns,
        end_ns: world.now_ns(),
        is_done: traffic.is_done(),
        failures,
    }
}

/// Between a tenth of a mean and nearly twice it.
fn around(random: &mut Random, mean: u64) -> u64 {
    mean / 10 + random.word() % (mean * 9 / 5).max(1)
}
