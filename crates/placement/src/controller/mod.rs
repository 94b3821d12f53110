//! Where the next checkpoint goes, and why. Pure: no clock, no file, no randomness.
//!
//! The words and rules of the *paper* are those of MEMSYS'16 (Abeyratne et al., section 3, Algorithm 1). Its lifetime
//! rule compares two estimates in which the drive's wear cancels out, and with its performance rule big checkpoints never
//! become durable after the first; [`Policy::Paper`] keeps that, for reproduction. [`Policy::Surefoot`] budgets from the
//! drive's real wear and age instead and bounds the age of the durable copy.

mod budget;
mod course;
#[cfg(test)]
mod days;
mod drive;
mod fixed;
pub mod interval;
mod loss;
mod paper;
mod shared;
mod surefoot;

use std::borrow::Cow;

pub use budget::Bucket;
pub use course::{Copies, Course, Visible};
pub use drive::{Endurance, of_drives, of_wear};
pub use fixed::Fixed;
pub use paper::{Paper, PaperRules};
pub use shared::{Shared, SharedSituation, Sharing};
pub use surefoot::{Priority, Surefoot};

/// Seconds of a year of 365.25 days.
pub const YEAR_S: f64 = 365.25 * 86_400.0;

/// What a drive can still take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drive {
    /// Bytes that it is rated for in all, by the same measure as `written_bytes`.
    pub rated_bytes: f64,
    /// Bytes written so far, by everybody, or the used share of the rating.
    pub written_bytes: f64,
    /// Seconds until the end of its planned life; 0 or less when that is over.
    pub remaining_s: f64,
    /// Seconds of life that its rating is meant for, such as five years.
    pub rated_life_s: f64,
}

/// What is known before a decision. The same on all ranks: sums, maxima and minima over them, as each field says.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// Seconds since the job began.
    pub now_s: f64,
    /// Of these, visible time in checkpoints; the maximum over ranks.
    pub checkpoint_s: f64,
    /// Bytes of the next checkpoint on one node; the maximum over nodes.
    pub size_bytes: f64,
    /// Bytes that the durable tier has taken from this job on one node so far; the maximum over nodes.
    pub durable_bytes: f64,
    /// Checkpoints taken so far.
    pub taken_count: u64,
    /// Seconds since the last checkpoint; since the start without one.
    pub since_any_s: f64,
    /// Seconds since the newest checkpoint that is durable was taken; since the start without one.
    pub since_durable_s: f64,
    /// The same of the newest that is durable or on its way to be.
    pub since_written_s: f64,
    /// Seconds from one call to the next, the longest of the last few: how late a decision may be put off to, and how
    /// long what is written may wait until it is marked as complete.
    pub step_s: f64,
    /// Visible seconds of a copy in memory, measured, 0 before there was one; the maximum over ranks. What taking a slot
    /// for the first time costs is not in it.
    pub memory_cost_s: f64,
    /// Visible seconds of a durable copy beyond the copy in memory that it is written from, measured, 0 before there was
    /// one; the maximum over ranks.
    pub durable_extra_s: f64,
    /// Seconds that the program loses while one is written in the background, as its steps and saves are slower then,
    /// measured; the maximum over ranks. `None` before that was measured.
    pub drain_loss_s: Option<f64>,
    /// Visible seconds of a checkpoint that goes to the durable tier alone, measured, 0 before there was one; the maximum
    /// over ranks.
    pub durable_alone_s: f64,
    /// Seconds from taking a durable checkpoint until it is written in the background, measured; 0 before there was one,
    /// and where it is written at once.
    pub drain_s: f64,
    /// Whether a former durable checkpoint is still being written.
    pub is_draining: bool,
    /// Bytes that a checkpoint in the memory tier writes to a drive on one node: 0 where the tier is in memory, as it should be.
    pub memory_wear_bytes: f64,
    /// Whether the memory tier has room for the checkpoint on every node.
    pub fits_memory: bool,
    /// Whether there is a durable tier at all.
    pub has_durable: bool,
    /// Whether the durable tier can take it on every node.
    pub fits_durable: bool,
    /// Why the durable tier is left alone for now although it has room: writes to it have failed. Empty where it is not; and
    /// where memory cannot take the checkpoint, it is tried all the same.
    pub durable_rest: String,
    /// Why memory must not be trusted on some node, as the host's health says; empty where it may.
    pub memory_suspect: String,
    /// The most worn drive of all nodes; `None` where wear is not known.
    pub drive: Option<Drive>,
    /// What that is known from, or why it is not, a sentence; empty where there is nothing to say.
    pub drive_said: String,
}

impl Situation {
    /// As it is for who leaves alone what is to be left alone.
    fn rested(&self) -> Cow<'_, Self> {
        match self.durable_rest.is_empty() || !self.can_use_memory() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Situation { fits_durable: false, ..self.clone() }),
        }
    }

    /// Why the durable tier cannot take a checkpoint, where it cannot.
    fn durable_fault(&self) -> Option<String> {
        match () {
            () if self.fits_durable => None,
            () if !self.has_durable => Some("no durable tier is set".to_owned()),
            () if !self.durable_rest.is_empty() => Some(self.durable_rest.clone()),
            () => Some("no durable tier can take it: it is full, or it cannot be written".to_owned()),
        }
    }

    /// Whether a checkpoint can go to memory.
    fn can_use_memory(&self) -> bool {
        self.memory_fault().is_none()
    }

    /// Why none can.
    fn memory_fault(&self) -> Option<String> {
        match () {
            () if !self.memory_suspect.is_empty() => Some(format!("memory is not used: {}", self.memory_suspect)),
            () if !self.fits_memory => {
                Some("no memory tier can take it: none is set, it has no room, or it cannot be used".to_owned())
            }
            () => None,
        }
    }
}

/// Where a checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Nowhere.
    Skip,
    /// Into memory only.
    Memory,
    /// Into memory, and from there to the durable tier.
    Both,
    /// To the durable tier only.
    Durable,
}

impl Place {
    /// Whether it goes to the durable tier.
    pub fn is_durable(self) -> bool {
        matches!(self, Place::Both | Place::Durable)
    }

    /// A word for tables.
    pub fn label(self) -> &'static str {
        match self {
            Place::Skip => "skip",
            Place::Memory => "memory",
            Place::Both => "memory and SSD",
            Place::Durable => "SSD",
        }
    }
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Where to.
    pub place: Place,
    /// Why, one sentence each, the deciding one first.
    pub reasons: Vec<String>,
    /// Whether one was wished that no tier can take.
    pub is_refused: bool,
}

impl Decision {
    fn new(place: Place, reason: impl Into<String>) -> Self {
        Decision { place, reasons: vec![reason.into()], is_refused: false }
    }

    fn refused(self) -> Self {
        Decision { place: Place::Skip, is_refused: true, ..self }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }
}

/// The policies by the words by which they are set, and what each does: the same in settings, simulations and journals. `every:N`
/// and `paper-every:N` stand for every number.
pub const POLICIES: [(&str, &str); 9] = [
    (
        "surefoot",
        "optimal intervals in each tier, a budget from the drive's real wear, a bound on the age of the durable copy",
    ),
    (
        "paper",
        "MEMSYS'16: the SSD where the drive then lasts its years and checkpoints take a tenth of the time at most; what memory cannot hold is skipped",
    ),
    ("paper-performance", "as paper, and what memory cannot hold goes to the SSD"),
    ("paper-lifetime", "as paper, by the drive's years alone, however long checkpoints take"),
    ("memory", "always memory"),
    ("durable", "always the SSD alone"),
    ("every:N", "always memory, and every Nth to the SSD as well, in the background"),
    (
        "paper-every:N",
        "MEMSYS'16's fixed ratio (9:1 is paper-every:10): memory, but every Nth to the SSD alone, for which the job waits",
    ),
    ("never", "no checkpoint"),
];

/// Which rule decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// Ours: real wear, optimal intervals, bounded age of the durable copy.
    Surefoot(Surefoot),
    /// The paper's Algorithm 1.
    Paper(Paper),
    /// Always the same.
    Fixed(Fixed),
}

impl Policy {
    /// The word by which it is set.
    pub fn word(&self) -> String {
        match self {
            Policy::Surefoot(_) => "surefoot".into(),
            Policy::Paper(paper) if paper.rules.performance && !paper.rules.size => "paper-performance".into(),
            Policy::Paper(paper) if paper.rules.performance => "paper".into(),
            Policy::Paper(_) => "paper-lifetime".into(),
            Policy::Fixed(Fixed::Memory) => "memory".into(),
            Policy::Fixed(Fixed::Durable) => "durable".into(),
            Policy::Fixed(Fixed::Never) => "never".into(),
            Policy::Fixed(Fixed::EveryNth(n)) => format!("every:{n}"),
            Policy::Fixed(Fixed::PaperNth(n)) => format!("paper-every:{n}"),
        }
    }
}

/// Carries what a policy remembers from one decision to the next. All ranks hold the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    policy: Policy,
    bucket: Bucket,
}

impl Controller {
    /// A controller that begins with this policy.
    pub fn new(policy: Policy) -> Self {
        Controller { policy, bucket: Bucket::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a checkpoint is worth its time now, and where it would go. A program that takes one whenever it likes need not ask.
    pub fn is_due(&mut self, situation: &Situation) -> Decision {
        let situation = &*situation.rested();
        match &self.policy {
            Policy::Surefoot(policy) => within_reach(policy.is_due(&mut self.bucket, situation), situation),
            Policy::Paper(_) | Policy::Fixed(_) => self.decide(situation),
        }
    }

    /// Where the checkpoint that is about to be taken goes.
    pub fn decide(&mut self, situation: &Situation) -> Decision {
        let situation = &*situation.rested();
        let decision = match &self.policy {
            Policy::Surefoot(policy) => policy.decide(&mut self.bucket, situation),
            _ if !situation.has_durable && !matches!(self.policy, Policy::Fixed(Fixed::Never | Fixed::Memory)) => {
                Decision::new(Place::Memory, "memory is the only tier")
            }
            Policy::Paper(policy) => policy.decide(situation),
            Policy::Fixed(policy) => policy.decide(situation),
        };
        within_reach(decision, situation)
    }

    /// Brings the budget up to now, for a write that no decision of this policy asked for, such as the one at a job's end.
    pub fn refill(&mut self, situation: &Situation) {
        if let Policy::Surefoot(policy) = &self.policy {
            policy.refill(&mut self.bucket, situation);
        }
    }

    /// Takes what is going to be written to the durable tier off the budget. It stays off where the write fails: how much
    /// of it the drive took nobody knows.
    pub fn spend(&mut self, bytes: f64) {
        self.bucket.spend(bytes);
    }

    /// What may still be written to the drive, as of the last decision; `None` where nothing limits it. It may be less than
    /// 0.
    pub fn budget_bytes(&self) -> Option<f64> {
        self.bucket.tokens_bytes()
    }

    /// Goes on with the budget that a former session left, so long before this one began. Otherwise a session begins with a
    /// full one, and a job that crashes in a loop would write a burst at each start.
    pub fn resume_budget(&mut self, left_bytes: f64, age_s: f64) {
        self.bucket = Bucket::resumed(left_bytes, age_s);
    }
}

/// What no policy may do: use memory that is suspect or full, or a durable tier that cannot take it.
fn within_reach(decision: Decision, situation: &Situation) -> Decision {
    let uses_memory = matches!(decision.place, Place::Memory | Place::Both);
    let place = decision.place;
    let memory_fault = situation.memory_fault().filter(|_| uses_memory);
    let durable_fault = situation.durable_fault();
    match (memory_fault, durable_fault) {
        (None, None) => decision,
        (None, Some(fault)) if place == Place::Both => Decision { place: Place::Memory, ..decision }.because(fault),
        (None, Some(fault))
            if place == Place::Durable && situation.fits_memory && situation.memory_suspect.is_empty() =>
        {
            Decision { place: Place::Memory, ..decision }.because(fault)
        }
        (None, Some(fault)) if place == Place::Durable => decision.refused().because(fault),
        (None, Some(_)) => decision,
        // A checkpoint that memory cannot hold is worth a write, for otherwise there is none; the paper skips it.
        (Some(fault), None) => Decision { place: Place::Durable, ..decision }.because(fault),
        (Some(fault), Some(other)) => decision.refused().because(fault).because(other),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub fn calm() -> Situation {
        Situation {
            now_s: 1000.0,
            checkpoint_s: 1.0,
            size_bytes: 1e9,
            durable_bytes: 0.0,
            taken_count: 3,
            since_any_s: 10.0,
            since_durable_s: 100.0,
            since_written_s: 100.0,
            step_s: 5.0,
            memory_cost_s: 0.2,
            durable_extra_s: 0.1,
            drain_loss_s: Some(0.2),
            durable_alone_s: 4.0,
            drain_s: 4.0,
            is_draining: false,
            memory_wear_bytes: 0.0,
            fits_memory: true,
            has_durable: true,
            fits_durable: true,
            durable_rest: String::new(),
            memory_suspect: String::new(),
            drive: None,
            drive_said: String::new(),
        }
    }

    #[test]
    fn suspect_or_full_memory_sends_it_to_the_durable_tier_and_says_so() {
        let mut controller = Controller::new(Policy::Fixed(Fixed::Memory));
        assert_eq!(controller.decide(&calm()).place, Place::Memory);
        let decision = controller.decide(&Situation { memory_suspect: "uncorrected errors".into(), ..calm() });
        assert_eq!(decision.place, Place::Durable);
        assert!(decision.reasons[1].contains("uncorrected errors"), "{decision:?}");
        assert_eq!(controller.decide(&Situation { fits_memory: false, ..calm() }).place, Place::Durable);
        let nowhere = Situation { fits_memory: false, fits_durable: false, ..calm() };
        let refused = controller.decide(&nowhere);
        assert!(refused.place == Place::Skip && refused.is_refused, "{refused:?}");
        assert!(!Controller::new(Policy::Fixed(Fixed::Never)).decide(&nowhere).is_refused, "nobody wished for one");
        let mut durable = Controller::new(Policy::Fixed(Fixed::Durable));
        assert_eq!(durable.decide(&calm()).place, Place::Durable);
        assert_eq!(durable.decide(&Situation { fits_durable: false, ..calm() }).place, Place::Memory);
        // Who only asks is told the same.
        let mut ours = Controller::new(Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() }));
        let old = Situation { since_any_s: 1_000.0, ..calm() };
        for (situation, place) in [
            (calm(), Place::Both),
            (Situation { fits_durable: false, ..old.clone() }, Place::Memory),
            (Situation { fits_memory: false, ..calm() }, Place::Durable),
            (nowhere, Place::Skip),
        ] {
            assert_eq!(ours.is_due(&situation).place, place);
            assert_eq!(ours.decide(&situation).place, place);
        }
        // Where there is no SSD nobody speaks of it.
        let alone = Situation { has_durable: false, fits_durable: false, since_any_s: 1_000.0, ..calm() };
        let lifetime = PaperRules { lifetime: true, performance: false, size: true };
        let policies = [
            Policy::Surefoot(Surefoot::default()),
            Policy::Paper(Paper::default()),
            Policy::Paper(Paper { rules: lifetime, ..Paper::default() }),
            Policy::Fixed(Fixed::Memory),
            Policy::Fixed(Fixed::Durable),
            Policy::Fixed(Fixed::EveryNth(2)),
            Policy::Fixed(Fixed::PaperNth(2)),
        ];
        for (policy, taken_count) in policies.into_iter().flat_map(|policy| [(policy.clone(), 1), (policy, 2)]) {
            let mut controller = Controller::new(policy.clone());
            let situation = Situation { taken_count, ..alone.clone() };
            for decision in [controller.decide(&situation), controller.is_due(&situation)] {
                assert_eq!(decision.place, Place::Memory, "{policy:?}: {decision:?}");
                let said = decision.reasons.join("; ");
                assert!(!said.contains("SSD"), "{policy:?}: {said}");
            }
        }
        // A drive that failed is left alone for a while, but for a checkpoint that memory cannot take.
        let rests = Situation { durable_rest: "2 writes in a row have failed".into(), ..old };
        for (situation, place) in
            [(rests.clone(), Place::Memory), (Situation { fits_memory: false, ..rests }, Place::Durable)]
        {
            for decision in [ours.is_due(&situation), ours.decide(&situation), durable.decide(&situation)] {
                assert_eq!(decision.place, place, "{decision:?}");
                let said = decision.reasons.join("; ");
                assert_eq!(said.contains("2 writes in a row"), place == Place::Memory, "{said}");
            }
        }
        // A bound that cannot be kept for the want of a durable tier does not ask for a checkpoint at each call.
        assert_eq!(ours.is_due(&Situation { fits_durable: false, ..calm() }).place, Place::Skip);
    }
}
