//! The run without a fault: where faulted runs begin, and what they are compared with.

use super::fault::Fault;
use super::{CampaignError, Experiment};
use crate::device::Device;
use crate::firmware::Firmware;
use crate::host::daemon::{Daemon, Step};
use crate::host::selftest::SelfTest;
use crate::world::traffic::{Traffic, TrafficSnapshot};
use crate::world::{World, WorldConfig, WorldSnapshot};
use std::ops::Range;
use std::sync::Arc;

/// From a mark to the next, in virtual time.
const MARK_NS: u64 = 60_000;
/// A run has at most so many marks, of about 1 MiB each; with more, every second one is dropped.
const MARKS_MAX: usize = 96;
/// A run without a fault that is not over by then is none.
const LONGEST_NS: u64 = 2_000_000_000;

/// A moment of the run without a fault.
pub struct Mark {
    /// Both hosts, the interfaces and the link.
    pub world: WorldSnapshot,
    /// The applications.
    pub traffic: TrafficSnapshot,
    /// Which words of the faulted interface's memory are executed from here on, a bit each.
    pub fetched_after: Vec<u64>,
}

/// The run without a fault.
pub struct Golden {
    /// What was run.
    pub experiment: Experiment,
    /// With which seed.
    pub seed: u64,
    firmware: Arc<Firmware>,
    /// The moments, in order of time.
    pub marks: Vec<Mark>,
    /// When it was over.
    pub end_ns: u64,
    /// When each message was delivered, by direction and number.
    pub delivered_ns: [Vec<u64>; 2],
    /// Self-tests that passed, by host.
    pub passed_counts: [u64; 2],
    window: Range<u64>,
    /// Of the faulted interface, in the whole run.
    instruction_count: u64,
    /// What the daemons detected, though there was nothing: false alarms.
    pub false_alarms: Vec<(u64, Step)>,
    world: World,
    traffic: Traffic,
}

/// A turn of the applications, and of the rest.
pub(super) fn turn(world: &mut World, traffic: &mut Traffic) {
    let did = traffic.step(world.now_ns());
    world.step(if did { 0 } else { traffic.next_ns().min(world.now_ns() + 1_000_000) });
}

/// Self-tests that a host's daemon has passed.
pub(super) fn passed_count(world: &World, place: usize) -> u64 {
    test_of(world, place).map_or(0, |test| test.passed_count)
}

fn test_of(world: &World, place: usize) -> Option<&SelfTest> {
    world.nodes[place].daemon.as_ref().and_then(Daemon::test)
}

/// Whether no daemon is in the middle of anything.
pub(super) fn daemons_rest(world: &World) -> bool {
    world.nodes.iter().all(|node| node.daemon.as_ref().is_none_or(|daemon| !daemon.is_busy() && !daemon.is_restoring()))
}

impl Golden {
    /// Runs the experiment with the control program of its build.
    ///
    /// # Errors
    /// When it cannot be set up, or does not end with everything delivered.
    pub fn run(experiment: &Experiment, seed: u64) -> Result<Self, CampaignError> {
        Golden::run_with(experiment, seed, Arc::new(Firmware::built(experiment.build)))
    }

    /// Runs it with any control program.
    ///
    /// # Errors
    /// As [`Golden::run`].
    pub fn run_with(experiment: &Experiment, seed: u64, firmware: Arc<Firmware>) -> Result<Self, CampaignError> {
        Golden::run_in(experiment, seed, experiment.world(firmware), |traffic| traffic)
    }

    /// Runs it beside programs that look at their ports when they come to it. What a message takes says nothing there, so the self-test does not
    /// judge it.
    ///
    /// # Errors
    /// As [`Golden::run`].
    pub fn run_slow(experiment: &Experiment, seed: u64) -> Result<Self, CampaignError> {
        let mut config = experiment.world(Arc::new(Firmware::built(experiment.build)));
        if let Some(test) = config.daemon.as_mut().and_then(|daemon| daemon.self_test.as_mut()) {
            test.slow_ns = u64::MAX;
        }
        Golden::run_in(experiment, seed, config, |traffic| traffic.slow(seed))
    }

    fn run_in(
        experiment: &Experiment,
        seed: u64,
        config: WorldConfig,
        of: impl Fn(Traffic) -> Traffic,
    ) -> Result<Self, CampaignError> {
        experiment.check()?;
        let firmware = Arc::clone(&config.firmware);
        let mut world = World::new(&config)?;
        let traffic = Traffic::new(&world, experiment.port(), experiment.traffic(seed))?;
        let traffic = of(traffic.paced(experiment.every_ns, &experiment.message_bytes));
        world.nodes[experiment.place].device.observe_fetches(true);
        let mut golden = Golden {
            experiment: experiment.clone(),
            seed,
            firmware,
            marks: Vec::new(),
            end_ns: 0,
            delivered_ns: [Vec::new(), Vec::new()],
            passed_counts: [0; 2],
            window: 0..0,
            instruction_count: 0,
            false_alarms: Vec::new(),
            world,
            traffic,
        };
        golden.go()?;
        Ok(golden)
    }

    fn go(&mut self) -> Result<(), CampaignError> {
        let place = self.experiment.place;
        // Where self-tests run, a second one is part of the run: it finds what the first could not.
        let tests_wanted = if self.tests() { 2 } else { 0 };
        let (mut first, mut last) = (None, None);
        let mut mark_ns = MARK_NS;
        loop {
            let now_ns = self.world.now_ns();
            if self.marks.last().is_none_or(|mark| now_ns >= mark.world.now_ns() + mark_ns) {
                self.mark();
                if self.marks.len() > MARKS_MAX {
                    self.thin();
                    mark_ns *= 2;
                }
            }
            turn(&mut self.world, &mut self.traffic);
            let delivered = self.traffic.delivered_count();
            let instructions = self.world.nodes[place].device.instruction_count();
            if first.is_none() && delivered > 0 {
                first = Some(instructions);
            }
            // So many are left that what a fault does is seen.
            if last.is_none() && delivered >= self.wanted() * 2 / 3 {
                last = Some(instructions);
            }
            let tests_are_over = (0..2).all(|place| passed_count(&self.world, place) >= tests_wanted);
            if self.traffic.is_done() && tests_are_over && daemons_rest(&self.world) {
                break;
            }
            if self.world.now_ns() > LONGEST_NS {
                return Err(CampaignError::Golden(format!(
                    "after {LONGEST_NS} ns {} of {} messages are delivered",
                    self.traffic.delivered_count(),
                    self.wanted()
                )));
            }
        }
        self.mark();
        self.end(first.unwrap_or(0)..last.unwrap_or(1))
    }

    fn end(&mut self, window: Range<u64>) -> Result<(), CampaignError> {
        self.window = window;
        self.end_ns = self.world.now_ns();
        self.instruction_count = self.world.nodes[self.experiment.place].device.instruction_count();
        self.passed_counts = [passed_count(&self.world, 0), passed_count(&self.world, 1)];
        let verdict = self.traffic.verdict();
        if !verdict.is_perfect() || verdict.delivered_count != self.wanted() as u64 {
            return Err(CampaignError::Golden(format!("{verdict:?}")));
        }
        for (history, times) in self.traffic.histories.iter().zip(&mut self.delivered_ns) {
            *times = history.delivered.iter().map(|seen| seen.at_ns).collect();
        }
        let alarm = |step: &&(u64, Step)| !matches!(step.1, Step::Passed { .. } | Step::Suspected(_) | Step::Dismissed);
        self.false_alarms = self.world.nodes.iter().flat_map(|node| node.steps.iter().filter(alarm)).copied().collect();
        // From what was fetched between marks to what is fetched after each.
        let words = self.world.nodes[self.experiment.place].device.fetched().len();
        if let Some(last) = self.marks.last_mut() {
            last.fetched_after = vec![0; words];
        }
        for place in (0..self.marks.len().saturating_sub(1)).rev() {
            let (before, behind) = self.marks.split_at_mut(place + 1);
            for (bits, later) in before[place].fetched_after.iter_mut().zip(&behind[0].fetched_after) {
                *bits |= later;
            }
        }
        self.world.nodes[self.experiment.place].device.observe_fetches(false);
        Ok(())
    }

    /// Until the end, a mark holds what was fetched up to the next one.
    fn mark(&mut self) {
        let device = &mut self.world.nodes[self.experiment.place].device;
        if let Some(before) = self.marks.last_mut() {
            before.fetched_after = device.fetched().to_vec();
        }
        device.observe_fetches(true);
        let (world, traffic) = (self.world.snapshot(), self.traffic.snapshot());
        self.marks.push(Mark { world, traffic, fetched_after: Vec::new() });
    }

    fn thin(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        for (place, mark) in marks.into_iter().enumerate() {
            match self.marks.last_mut() {
                Some(kept) if place % 2 == 1 => {
                    for (bits, more) in kept.fetched_after.iter_mut().zip(&mark.fetched_after) {
                        *bits |= more;
                    }
                    if mark.fetched_after.is_empty() {
                        self.marks.push(mark);
                    }
                }
                _ => self.marks.push(mark),
            }
        }
    }

    fn tests(&self) -> bool {
        self.world.nodes.iter().any(|node| node.daemon.as_ref().is_some_and(|daemon| daemon.test().is_some()))
    }

    /// Messages in both directions.
    fn wanted(&self) -> usize {
        self.experiment.message_count as usize * if self.experiment.both_ways { 2 } else { 1 }
    }

    /// The instructions of the faulted interface at which faults strike.
    pub fn window(&self) -> Range<u64> {
        self.window.clone()
    }

    /// Whether a fault strikes before the run is over.
    ///
    /// # Errors
    /// When the interface does not do so many instructions.
    pub fn must_reach(&self, fault: &Fault) -> Result<(), CampaignError> {
        let (at, count) = (fault.at_instruction, self.instruction_count);
        match at < count {
            true => Ok(()),
            false => Err(CampaignError::Experiment(format!(
                "the fault is to strike before instruction {at}, and without it the interface does {count} in the whole run; name one below"
            ))),
        }
    }

    /// That of the experiment, and of the control program where it is not the one that comes with Surefoot: CRC-32.
    pub fn digest(&self) -> u32 {
        let digest = self.experiment.digest();
        if *self.firmware == Firmware::built(self.experiment.build) {
            return digest;
        }
        let mut all = crc32fast::Hasher::new();
        all.update(&digest.to_le_bytes());
        all.update(&self.firmware.image);
        all.finalize()
    }

    /// The control program.
    pub fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// Goes back to a mark.
    pub(super) fn go_back(&mut self, mark: usize) {
        let mark = &self.marks[mark];
        self.world.restore(&mark.world);
        self.traffic.restore(&mark.traffic);
    }

    /// One turn.
    pub(super) fn turn(&mut self) {
        turn(&mut self.world, &mut self.traffic);
    }

    /// An interface.
    pub(super) fn device_mut(&mut self, place: usize) -> &mut Device {
        &mut self.world.nodes[place].device
    }

    /// Both, as they are now.
    pub(super) fn parts(&mut self) -> (&mut World, &mut Traffic, &[Mark]) {
        (&mut self.world, &mut self.traffic, &self.marks)
    }

    /// The world as the last run left it.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The applications as the last run left them.
    pub fn applications(&self) -> &Traffic {
        &self.traffic
    }

    /// Words of the faulted interface's memory that are executed in the whole run, a bit each.
    pub fn fetched(&self) -> &[u64] {
        self.marks.first().map_or(&[], |mark| &mark.fetched_after)
    }
}
