//! The drive's budget over restarts: what a session left is what the next one begins with.
//!
//! The budget is that of the job on one node's drive, the most limited one, and all ranks reckon with the same. So on each
//! drive one rank keeps it, beside the checkpoints that it counts, each time before one is written; and at the start all
//! go on with the least that any of them finds, filled up for the time since.
//!
//! - *Missing* on a drive: no session that limited itself has written there, so it begins full.
//! - *Damaged*: something was written there, and nobody knows how much: it begins empty.
//! - *From the future*: the clock was set back; no time counts as passed.

use super::Schedule;
use crate::Error;
use crate::controller::Situation;
use crate::session::clock;
use crate::session::ranks::Ranks;
use crate::tier::{Budget, Durable};

/// A word that is the larger, the larger the number is, which may be less than 0: what was written beyond the budget.
fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | SIGN }
}

/// The number of such a word.
fn from_ordered(word: u64) -> f64 {
    f64::from_bits(if word & SIGN == 0 { !word } else { word & !SIGN })
}

const SIGN: u64 = 1 << 63;

impl Schedule {
    /// Goes on with the budget that the last session left. Returns a notice where that of this rank's drive is in doubt.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn resume_budget(&mut self, ranks: &Ranks, durable: Option<&Durable>) -> Result<Option<String>, Error> {
        let Some(durable) = durable else { return Ok(None) };
        let (own, doubt) = if self.keeps_budget { find_budget(durable) } else { (None, None) };
        // What is told is the larger, the less is left; 0 where nothing is known.
        let word = |number: f64| !ordered(number);
        let least = ranks.most(own.map_or(0, |[left, _]| word(left)))?;
        if least == 0 {
            return Ok(doubt);
        }
        // Of the same on several drives the one that was left last counts.
        let is_least = |[left, _]: &[f64; 2]| word(*left) == least;
        let newest = ranks.most(own.filter(is_least).map_or(0, |[_, age]| word(age)))?;
        self.controller.resume_budget(from_ordered(!least), from_ordered(!newest));
        Ok(doubt)
    }

    /// Takes the checkpoint that is about to be written off the budget; returns what is left, where this rank keeps it.
    pub fn spend(&mut self, situation: &Situation) -> Option<Budget> {
        self.spend_bytes(situation, situation.size_bytes)
    }

    fn spend_bytes(&mut self, situation: &Situation, bytes: f64) -> Option<Budget> {
        // Where the program said where to, no decision has looked at the budget yet.
        self.controller.refill(situation);
        self.controller.spend(bytes);
        let left_bytes = self.controller.budget_bytes().filter(|_| self.keeps_budget)?;
        // A drive without a rated life left may take all at once, and that is no number to go on with.
        left_bytes.is_finite().then(|| Budget { left_bytes, realtime_ns: clock::realtime_ns() })
    }

    /// Takes a checkpoint in a memory tier that lies on a disk off the budget; returns why that could not be kept.
    pub fn spend_memory(&mut self, situation: &Situation, durable: Option<&Durable>) -> Option<Error> {
        if situation.memory_wear_bytes <= 0.0 {
            return None;
        }
        let left = self.spend_bytes(situation, situation.memory_wear_bytes);
        let durable = durable.filter(|durable| durable.fault().is_none());
        left.zip(durable).and_then(|(left, durable)| durable.keep_budget(&left).err())
    }
}

/// What was left on a drive, and how many seconds ago; and a notice where that is in doubt.
fn find_budget(durable: &Durable) -> (Option<[f64; 2]>, Option<String>) {
    // What could not be opened gets no checkpoints, and says so by itself.
    if durable.fault().is_some() {
        return (None, None);
    }
    let now_ns = clock::realtime_ns();
    match durable.kept_budget() {
        Ok(None) => (None, None),
        Ok(Some(Budget { left_bytes, realtime_ns })) => {
            let is_later = realtime_ns > now_ns;
            let doubt = is_later
                .then(|| "the drive's budget was kept later than it is now: no time counts as passed since".to_owned());
            (Some([left_bytes, now_ns.saturating_sub(realtime_ns) as f64 / 1e9]), doubt)
        }
        Err(error) => {
            let doubt = format!("the drive's budget begins empty, as that of the last run cannot be read: {error}");
            (Some([0.0, 0.0]), Some(doubt))
        }
    }
}

#[cfg(test)]
mod tests;
