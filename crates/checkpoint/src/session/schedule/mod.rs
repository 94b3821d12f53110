//! When a checkpoint is taken, and where it goes. What is asked and told is in `decide`, what this rank knows in `facts`,
//! the drive beneath it in `drive`, what is left of its budget in `budget`, that the program is to end in `ending`.

pub mod budget;
pub mod decide;
pub mod drive;
pub mod ending;
pub mod facts;

use crate::config::Config;
#[cfg(test)]
use crate::controller::Visible;
use crate::controller::{Controller, Course, Decision, Fixed, Place, Policy, Situation};
use crate::session::tiers::{Tiers, Wear};
use decide::Around;
use drive::DriveFile;
use ending::Ending;
use std::time::Instant;

/// What a session goes by when it decides.
pub struct Schedule {
    pub controller: Controller,
    pub course: Course,
    pub began: Instant,
    pub ending: Ending,
    /// Checkpoints that went to the SSD since the last that the shared directory was to get.
    pub unshared_count: u64,
    pub drive_file: DriveFile,
    /// How often a checkpoint in the memory tier is written to a drive, on any rank: 0 where that tier is in memory.
    pub memory_wear_factor: f64,
    /// Whether this rank keeps the drive's budget: the first of those that share its directory.
    keeps_budget: bool,
    /// What tells this machine from others.
    pub host: String,
    /// How old the newest was when it was last said that none was taken; `None` when one was.
    said_untaken_s: Option<f64>,
    /// How old the durable copy was when it was last said that its tier takes none.
    said_undurable_s: Option<f64>,
    /// What was known at each decision.
    #[cfg(test)]
    pub asked: Vec<Situation>,
    /// What the last checkpoint cost.
    #[cfg(test)]
    pub cost: Visible,
}

impl Schedule {
    pub fn new(config: &Config, host: String, opened: Wear, ending: Ending, keeps_budget: bool) -> Self {
        Schedule {
            controller: Controller::new(policy(config)),
            course: Course::default(),
            began: Instant::now(),
            ending,
            unshared_count: 0,
            drive_file: DriveFile::of(config, opened.is_here),
            memory_wear_factor: if opened.is_anywhere { writes_in_memory(config) } else { 0.0 },
            keeps_budget,
            host,
            said_untaken_s: None,
            said_undurable_s: None,
            #[cfg(test)]
            asked: Vec::new(),
            #[cfg(test)]
            cost: Visible::default(),
        }
    }

    /// Seconds since the session began.
    pub fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Takes note of a call, for what writes in the background cost the program between calls.
    pub fn enter(&mut self, begun: Instant, is_save: bool, is_writing: bool) {
        let now_s = begun.saturating_duration_since(self.began).as_secs_f64();
        self.course.entered(now_s, is_save, is_writing);
    }
}

impl Schedule {
    /// Says that none was taken, when that happens first and again when the newest has become twice as old.
    pub fn watch_age(
        &mut self,
        decision: &Decision,
        situation: &Situation,
        tiers: &Tiers,
        has_newest: bool,
    ) -> Option<String> {
        let is_wished = !matches!(self.controller.policy(), Policy::Fixed(Fixed::Never) | Policy::Paper(_));
        if decision.place != Place::Skip || !is_wished {
            self.said_untaken_s = None;
            return None;
        }
        let age_s = situation.since_any_s;
        if !self.said_untaken_s.is_none_or(|said_s| age_s >= 2.0 * said_s) {
            return None;
        }
        self.said_untaken_s = Some(age_s.max(1.0));
        let why = decision.reasons.join("; ");
        let newest = match has_newest {
            true => format!("the newest is {age_s:.0} s old"),
            false => format!("there is none since the start {age_s:.0} s ago"),
        };
        Some(format!("no checkpoint was taken; {newest}: {why}; {}", tiers.directories()))
    }

    /// Says that the durable tier takes none, when that happens first and again when its newest has become twice as old.
    pub fn watch_durable(&mut self, around: &Around<'_>, decision: &Decision, situation: &Situation) -> Option<String> {
        let is_wished =
            !matches!(self.controller.policy(), Policy::Fixed(Fixed::Never | Fixed::Memory) | Policy::Paper(_));
        if situation.fits_durable || !situation.has_durable || decision.place == Place::Skip || !is_wished {
            self.said_undurable_s = None;
            return None;
        }
        let age_s = situation.since_durable_s;
        if !self.said_undurable_s.is_none_or(|said_s| age_s >= 2.0 * said_s) {
            return None;
        }
        self.said_undurable_s = Some(age_s.max(1.0));
        let why = self.durable_room_said(around).unwrap_or_default();
        let copies = around.tiers.durable.as_ref().and_then(|durable| durable.tier.generations().ok());
        let copy = match copies.map(|stored| stored.iter().any(|one| one.committed_ranks.is_some())) {
            Some(true) => format!("The newest durable copy is {age_s:.0} s old or older"),
            Some(false) => "There is no durable copy".to_owned(),
            None => "Whether there is a durable copy is unknown".to_owned(),
        };
        Some(format!("no checkpoint becomes durable: {why}. {copy}"))
    }
}

/// How often a node's memory tier takes the bytes of a checkpoint: once, and what other ranks keep of it.
fn writes_in_memory(config: &Config) -> f64 {
    let parity = config.parity.map_or(0.0, |parity| f64::from(parity.parity) / f64::from(parity.data.max(1)));
    1.0 + if config.partner { 1.0 } else { parity }
}

/// The policy of a job. Without an SSD the shared directory is the durable tier, and both bounds on age hold for it.
fn policy(config: &Config) -> Policy {
    let mut policy = config.policy.clone();
    if let (Policy::Surefoot(surefoot), None, Some(shared)) = (&mut policy, &config.durable, &config.shared) {
        surefoot.staleness_max_s = surefoot.staleness_max_s.min(shared.rule.staleness_max_s);
    }
    policy
}
