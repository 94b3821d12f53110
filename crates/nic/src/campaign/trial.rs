//! One fault after the other.

use super::CampaignError;
use super::classes::{Outcome, Seen, Standard};
use super::fault::{Fault, FaultId, Space, Stack};
use super::golden::{Golden, daemons_rest, passed_count, turn};
use crate::device::TrapPolicy;
use crate::device::registers::{dma, offset};
use crate::host::daemon::{Detector, Step};
use crate::host::selftest::Finding;
use crate::world::traffic::Traffic;
use crate::world::{Node, World};

/// A message that comes so much later than without the fault is late.
pub const LATE_NS: u64 = 200_000;
/// What has not happened so long after the end of the run without a fault does not happen, where nothing is recovered:
/// longer than a self-test waits for a message.
const SETTLE_NS: u64 = 14_000_000;
/// The same where recovery goes on: longer than a library takes to send again, several times over.
const RECOVER_NS: u64 = 400_000_000;
/// What a library needs to tell its application that the interface was given up.
const TELL_NS: u64 = 100_000;

/// Who detected a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detection {
    /// Who.
    pub by: Detector,
    /// On which host.
    pub place: usize,
    /// When, in virtual time.
    pub at_ns: u64,
}

/// The name of a detector in outputs.
pub fn detector_name(by: Detector) -> &'static str {
    match by {
        Detector::Watchdog => "watchdog",
        Detector::Interface => "interface",
        Detector::SelfTest(_) => "self_test",
        Detector::Library => "library",
        Detector::Neighbour => "neighbour",
        Detector::Silence => "silence",
    }
}

/// The name of what a self-test found.
pub fn finding_name(by: Detector) -> Option<&'static str> {
    let Detector::SelfTest(finding) = by else { return None };
    Some(match finding {
        Finding::Missing => "missing",
        Finding::Content => "content",
        Finding::Count => "count",
        Finding::Refused => "refused",
        Finding::Slow => "slow",
    })
}

/// What a fault did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// From which it can be replayed.
    pub id: FaultId,
    /// The place as people call it.
    pub place: String,
    /// The function of a bit in code.
    pub function: Option<String>,
    /// In the paper's words.
    pub outcome: Outcome,
    /// In the standard ones.
    pub standard: Standard,
    /// Nobody executes the word after the fault, so it was not run.
    pub is_pruned: bool,
    /// Who found it.
    pub detection: Option<Detection>,
    /// From the fault to its detection.
    pub detection_ns: Option<u64>,
    /// From detection until all ports were back, of the last recovery.
    pub recovery_ns: Option<u64>,
    /// Recoveries, on both hosts.
    pub recovery_count: u32,
    /// A daemon found that reloading does not help.
    pub is_given_up: bool,
    /// Messages that did not arrive, and of which their sender was told nothing until the end of the run.
    pub untold_count: u64,
    /// When it struck, in virtual time; `None` for one that was pruned.
    pub struck_ns: Option<u64>,
}

/// Where faults are tried: a run without a fault, and its world to run others in.
pub struct Lab {
    golden: Golden,
    patience_ns: u64,
    /// Faults that were run, and those that were known to be masked without.
    pub run_count: u64,
    /// See [`Lab::run_count`].
    pub pruned_count: u64,
    /// Runs that ended early because nothing differed any more.
    pub early_count: u64,
}

impl Lab {
    /// A place to try faults of this run in.
    pub fn new(golden: Golden) -> Self {
        let recovers = golden.experiment.build == crate::firmware::Build::Tolerant;
        let patience_ns = if recovers { RECOVER_NS } else { SETTLE_NS };
        Lab { golden, patience_ns, run_count: 0, pruned_count: 0, early_count: 0 }
    }

    /// The same with runs that wait so long, after the end of the one without a fault, for what has not happened yet.
    pub fn patient(self, patience_ns: u64) -> Self {
        Lab { patience_ns, ..self }
    }

    /// The run without a fault.
    pub fn golden(&self) -> &Golden {
        &self.golden
    }

    pub(super) fn patience_ns(&self) -> u64 {
        self.patience_ns
    }

    pub(super) fn golden_mut(&mut self) -> &mut Golden {
        &mut self.golden
    }

    fn id(&self, fault: &Fault) -> FaultId {
        let experiment = &self.golden.experiment;
        let stack = Stack::of(experiment);
        FaultId { experiment: experiment.name.clone(), stack, seed: self.golden.seed, fault: *fault }
    }

    /// The last mark before a fault strikes.
    pub(super) fn mark_before(&self, fault: &Fault) -> usize {
        let place = self.golden.experiment.place;
        let before = |mark: &super::golden::Mark| mark.world.instruction_count(place) <= fault.at_instruction;
        self.golden.marks.partition_point(before).saturating_sub(1)
    }

    /// Whether nobody executes the word after the mark.
    fn is_dead(&self, mark: usize, location: u32) -> bool {
        let (word, bit) = (location as usize / 4 / 64, location as usize / 4 % 64);
        self.golden.marks[mark].fetched_after.get(word).is_some_and(|bits| bits >> bit & 1 == 0)
    }

    /// Tries a fault and says what it did.
    ///
    /// # Errors
    /// When the interface has no such bit.
    pub fn record(&mut self, fault: &Fault) -> Result<Record, CampaignError> {
        let mark = self.mark_before(fault);
        if fault.space == Space::Code && self.is_dead(mark, fault.location) {
            self.pruned_count += 1;
            return Ok(self.pruned(fault));
        }
        self.run_count += 1;
        let mut run = Run::begin(&mut self.golden, fault, mark, self.patience_ns)?;
        while run.goes_on() {
            run.turn();
        }
        let record = run.end();
        self.early_count += u64::from(record.1);
        let id = self.id(fault);
        let function = self.function(fault);
        Ok(Record { id, function, place: fault.place(), ..record.0 })
    }

    /// After the last run: whether each receive buffer is with its interface, once. `None` where it ended before everything was delivered.
    pub fn has_all_buffers(&mut self) -> Option<bool> {
        let (world, traffic, _) = self.golden.parts();
        let lives =
            |node: &Node| node.crashed_ns.is_none() && node.daemon.as_ref().is_none_or(|daemon| !daemon.has_given_up());
        let is_whole = traffic.is_done() && traffic.verdict().is_perfect() && world.nodes.iter().all(lives);
        is_whole.then(|| traffic.has_all_buffers(world))
    }

    fn function(&self, fault: &Fault) -> Option<String> {
        let firmware = self.golden.firmware();
        let of = (fault.space == Space::Code).then(|| firmware.function_at(fault.location)).flatten();
        of.map(|function| function.name.clone())
    }

    fn pruned(&self, fault: &Fault) -> Record {
        Record {
            id: self.id(fault),
            place: fault.place(),
            function: self.function(fault),
            outcome: Outcome::NoEffect,
            standard: Standard::Masked,
            is_pruned: true,
            detection: None,
            detection_ns: None,
            recovery_ns: None,
            recovery_count: 0,
            is_given_up: false,
            untold_count: 0,
            struck_ns: None,
        }
    }
}

/// A run with a fault.
pub struct Run<'a> {
    golden: &'a mut Golden,
    fault: Fault,
    place: usize,
    next_mark: usize,
    is_same: bool,
    limit_ns: u64,
    /// Steps of the daemons that were before.
    steps_before: [usize; 2],
    recovers: bool,
}

impl<'a> Run<'a> {
    /// Goes back to a mark, and plans the fault.
    ///
    /// # Errors
    /// When the interface has no such bit.
    pub fn begin(golden: &'a mut Golden, fault: &Fault, mark: usize, patience_ns: u64) -> Result<Self, CampaignError> {
        let place = golden.experiment.place;
        let recovers = golden.experiment.build == crate::firmware::Build::Tolerant;
        let limit_ns = golden.end_ns + patience_ns;
        let (world, traffic, marks) = golden.parts();
        world.restore(&marks[mark].world);
        traffic.restore(&marks[mark].traffic);
        let device = &mut world.nodes[place].device;
        // A stuck bit outlives resets, but not the run.
        let planned = device.plan(fault.at_instruction, fault.damage());
        planned.map_err(|error| CampaignError::Experiment(error.to_string()))?;
        let steps_before = [world.nodes[0].steps.len(), world.nodes[1].steps.len()];
        Ok(Run { golden, fault: *fault, place, next_mark: mark + 1, is_same: false, limit_ns, steps_before, recovers })
    }

    /// Whether there is more to be seen.
    pub fn goes_on(&mut self) -> bool {
        if self.is_as_without() {
            self.is_same = true;
            return false;
        }
        let (passed_before, end_ns) = (self.golden.passed_counts, self.golden.end_ns);
        let (world, traffic, _) = self.golden.parts();
        let crashed = world.nodes.iter().any(|node| node.crashed_ns.is_some());
        if crashed || world.now_ns() > self.limit_ns {
            return false;
        }
        let given_up = world.nodes.iter().any(|node| node.daemon.as_ref().is_some_and(|one| one.has_given_up()));
        if given_up {
            // Where nothing is recovered, a hung interface stays as it is; another one may go on sending.
            let is_hung = !self.recovers && self.hang().is_some();
            let now_ns = self.golden.world().now_ns();
            // Whoever uses the other interface learns it later, when nobody answers.
            let waits = self.recovers && self.limit_ns > self.golden.end_ns + RECOVER_NS;
            return !is_hung
                && !self.golden.applications().is_done()
                && (waits || now_ns <= self.settled_ns() || now_ns <= self.gave_up_ns() + TELL_NS);
        }
        let tests_are_over = (0..2).all(|place| passed_count(world, place) >= passed_before[place]);
        // After a recovery there is another test only if there is more traffic.
        let recovered = world.nodes.iter().flat_map(|node| node.steps.last()).any(|(_, step)| *step == Step::Recovered);
        let tests_are_over = tests_are_over || (recovered && world.now_ns() > end_ns);
        !(traffic.is_done() && tests_are_over && daemons_rest(world))
    }

    fn gave_up_ns(&self) -> u64 {
        let given_up = (0..2).flat_map(|place| self.new_steps(place)).filter(|(_, step)| *step == Step::GivenUp);
        given_up.map(|&(at_ns, _)| at_ns).max().unwrap_or(0)
    }

    fn settled_ns(&self) -> u64 {
        self.golden.end_ns + SETTLE_NS
    }

    /// Whether nothing but the flipped bit differs from the run without the fault, and that bit will not matter.
    fn is_as_without(&mut self) -> bool {
        let Fault { space, location, .. } = self.fault;
        let place = self.place;
        let (world, traffic, marks) = self.golden.parts();
        while marks.get(self.next_mark).is_some_and(|mark| mark.world.now_ns() < world.now_ns()) {
            self.next_mark += 1;
        }
        let Some(mark) = marks.get(self.next_mark).filter(|mark| mark.world.now_ns() == world.now_ns()) else {
            return false;
        };
        self.next_mark += 1;
        if space == Space::Stuck || world.nodes[place].device.damaged_ns().is_none() {
            return false;
        }
        let (word, bit) = (location as usize / 4 / 64, location as usize / 4 % 64);
        let is_dead = mark.fetched_after.get(word).is_some_and(|bits| bits >> bit & 1 == 0);
        let but_for = (space == Space::Code && is_dead).then_some((place, location));
        traffic.same_state(&mark.traffic) && world.same_state(&mark.world, but_for)
    }

    /// One turn of applications, daemons, interfaces and link.
    pub fn turn(&mut self) {
        let (world, traffic, _) = self.golden.parts();
        turn(world, traffic);
    }

    /// The world as it is now.
    pub fn world(&self) -> &World {
        self.golden.world()
    }

    /// The applications as they are now.
    pub fn traffic(&self) -> &Traffic {
        self.golden.applications()
    }

    /// When a message is delivered without the fault.
    pub fn usual_delivery_ns(&self, from: usize, message: u32) -> Option<u64> {
        self.golden.delivered_ns[from].get(message as usize).copied()
    }

    /// The run without the fault.
    pub fn golden(&mut self) -> &mut Golden {
        self.golden
    }

    /// The first detection by the daemon of the faulted interface; where it found nothing, by the other one.
    pub fn detection(&self) -> Option<Detection> {
        let found = |place: usize| {
            self.new_steps(place).iter().find_map(|&(at_ns, step)| match step {
                Step::Detected(by) => Some(Detection { by, place, at_ns }),
                _ => None,
            })
        };
        found(self.place).or_else(|| found(1 - self.place))
    }

    /// What a host's daemon did since the run began.
    pub fn new_steps(&self, place: usize) -> &[(u64, Step)] {
        let steps = &self.golden.world().nodes[place].steps;
        steps.get(self.steps_before[place]..).unwrap_or_default()
    }

    /// The host whose interface hangs.
    fn hang(&self) -> Option<usize> {
        (0..2).find(|&place| {
            // One that traps may say so; one that finds its tables damaged says so and goes on.
            let traps = self.golden.experiment.trap_policy == TrapPolicy::Interrupt;
            let hears =
                |by| matches!(by, Detector::Watchdog | Detector::Silence) || (traps && by == Detector::Interface);
            self.golden.world().nodes[place].device.halted().is_some()
                || self.new_steps(place).iter().any(|(_, step)| matches!(step, Step::Detected(by) if hears(*by)))
        })
    }

    fn seen(&self) -> Seen {
        let (world, traffic) = (self.golden.world(), self.golden.applications());
        let verdict = traffic.verdict();
        let is_content = |sent: &crate::world::traffic::Seen, got: &crate::world::traffic::Seen| {
            sent.id == got.id && sent.bytes == got.bytes && sent.checksum != got.checksum
        };
        let contents = |history: &crate::world::traffic::History| {
            let wrong = |got: &&crate::world::traffic::Seen| history.sent.iter().any(|sent| is_content(sent, got));
            history.delivered.iter().filter(wrong).count() as u64
        };
        let is_late = traffic.histories.iter().zip(&self.golden.delivered_ns).any(|(history, times)| {
            let late = |seen: &crate::world::traffic::Seen| {
                times.get(seen.id as usize).is_some_and(|usual_ns| seen.at_ns > usual_ns + LATE_NS)
            };
            history.delivered.iter().any(late)
        });
        let devices = world.nodes.iter().map(|node| &node.device);
        let has_dma_failed = devices.clone().any(|device| device.counts().dma_faults > 0)
            || world.nodes[self.place].device.peek(offset::DMA_STATUS) & dma::BUSY != 0
                && world.nodes[self.place].device.halted().is_none();
        Seen {
            content_count: traffic.histories.iter().map(contents).sum::<u64>().min(verdict.corrupted_count),
            verdict,
            is_crashed: world.nodes.iter().any(|node| node.crashed_ns.is_some()),
            is_hung: self.hang().is_some(),
            has_dma_failed,
            is_late,
            is_detected: self.detection().is_some(),
            is_masked: self.is_same || self.ends_alike(),
        }
    }

    /// Whether the run ended as the one without the fault, but for the flipped bit.
    fn ends_alike(&self) -> bool {
        let Some(last) = self.golden.marks.last() else { return false };
        let but_for =
            matches!(self.fault.space, Space::Code | Space::Data).then_some((self.place, self.fault.location));
        self.golden.applications().same_state(&last.traffic) && self.golden.world().same_state(&last.world, but_for)
    }

    /// What the fault did, and whether the run ended early. The id, the place's names are the caller's.
    pub fn end(self) -> (Record, bool) {
        let is_early = self.is_same;
        let seen = match is_early {
            true => Seen {
                verdict: Default::default(),
                content_count: 0,
                is_crashed: false,
                is_hung: false,
                has_dma_failed: false,
                is_late: false,
                is_detected: false,
                is_masked: true,
            },
            false => self.seen(),
        };
        let struck_ns = self.golden.world().nodes[self.place].device.damaged_ns();
        let detection = self.detection();
        let steps = || (0..2).flat_map(|place| self.new_steps(place));
        let count = |of: Step| steps().filter(|(_, step)| *step == of).count() as u32;
        let record = Record {
            id: FaultId {
                experiment: String::new(),
                stack: Stack::of(&self.golden.experiment),
                seed: self.golden.seed,
                fault: self.fault,
            },
            place: String::new(),
            function: None,
            outcome: seen.outcome(),
            standard: seen.standard(),
            is_pruned: false,
            detection,
            detection_ns: detection.zip(struck_ns).map(|(found, struck_ns)| found.at_ns.saturating_sub(struck_ns)),
            recovery_ns: self.recovery_ns(),
            recovery_count: count(Step::Recovered),
            is_given_up: self.recovers && count(Step::GivenUp) > 0,
            untold_count: seen.verdict.pending_count,
            struck_ns,
        };
        self.golden.parts().0.nodes[self.place].device.release_stuck();
        (record, is_early)
    }

    /// Of the last recovery.
    fn recovery_ns(&self) -> Option<u64> {
        let of = |place: usize| {
            let steps = self.new_steps(place);
            let back = steps.iter().rposition(|(_, step)| *step == Step::Recovered)?;
            let found = steps[..back].iter().rposition(|(_, step)| matches!(step, Step::Detected(_)))?;
            Some(steps[back].0 - steps[found].0)
        };
        [of(0), of(1)].into_iter().flatten().max()
    }
}
