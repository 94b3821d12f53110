//! Whether a checkpoint is copied to the shared directory, too: the third tier, which survives the loss of a node.
//!
//! The rule, in this order:
//! 1. Nothing was saved, the former copy is still being written, or there is no room: no.
//! 2. The copy there would pass its bound before the next checkpoint could get there: yes, wherever this one goes.
//! 3. It goes to the SSD, and is the Nth that does since the last that was copied: yes.
//! 4. Otherwise no: many programs share that directory.

use super::Place;

/// How often the shared directory gets a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shared {
    /// How old the copy there may get, seconds.
    pub staleness_max_s: f64,
    /// Every how many of the checkpoints that go to the SSD are copied, whatever the age; `None` for no such rule.
    pub every: Option<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { staleness_max_s: 14_400.0, every: None }
    }
}

/// What is known before the decision; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedSituation {
    /// Seconds since the newest copy there was taken; since the start without one.
    pub since_shared_s: f64,
    /// As [`super::Situation::step_s`].
    pub step_s: f64,
    /// Seconds from taking a checkpoint until its copy is complete there, measured; the maximum over ranks.
    pub drain_s: f64,
    /// Whether a former copy is still on its way.
    pub is_draining: bool,
    /// Whether all ranks' parts fit there.
    pub fits: bool,
    /// Checkpoints that went to the SSD since the last that was copied.
    pub durable_count: u64,
}

/// Whether a checkpoint is copied, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    /// Whether it is.
    pub is_copied: bool,
    /// Why, one sentence.
    pub reason: String,
}

impl Shared {
    /// Whether a checkpoint that goes to `place` is copied as well.
    pub fn decide(&self, place: Place, situation: &SharedSituation) -> Sharing {
        let sharing = |is_copied: bool, reason: String| Sharing { is_copied, reason };
        let age_s = situation.since_shared_s;
        let nth = situation.durable_count.saturating_add(1);
        match () {
            () if place == Place::Skip => sharing(false, "nothing is saved, so nothing is shared".into()),
            () if situation.is_draining => {
                sharing(false, "the former copy is still on its way to the shared directory".into())
            }
            () if !situation.fits => sharing(false, "the shared directory cannot take it, or cannot be reached".into()),
            () if self.is_overdue(situation) => sharing(
                true,
                format!(
                    "the copy in the shared directory is {age_s:.0} s old and would pass its bound of {:.0} s",
                    self.staleness_max_s
                ),
            ),
            () if place.is_durable() && self.every.is_some_and(|every| nth >= every) => {
                sharing(true, format!("it is number {nth} to the SSD since the last that the shared directory got"))
            }
            () => sharing(
                false,
                format!(
                    "the copy in the shared directory is {age_s:.0} s old and may get {:.0} s",
                    self.staleness_max_s
                ),
            ),
        }
    }

    /// Whether waiting for the next call would make the copy too old: a step until then, the way there, and up to
    /// another step until the call that finds it written and marks it as complete.
    pub fn is_overdue(&self, situation: &SharedSituation) -> bool {
        situation.since_shared_s + 2.0 * situation.step_s + situation.drain_s >= self.staleness_max_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> SharedSituation {
        SharedSituation {
            since_shared_s: 100.0,
            step_s: 10.0,
            drain_s: 5.0,
            is_draining: false,
            fits: true,
            durable_count: 2,
        }
    }

    #[test]
    fn the_bound_and_the_count_ask_for_copies_and_nothing_else_does() {
        let rule = Shared { staleness_max_s: 200.0, every: Some(3) };
        let late = SharedSituation { since_shared_s: 185.0, ..calm() };
        for (place, situation, is_copied, word) in [
            (Place::Memory, calm(), false, "may get 200 s"),
            (Place::Both, calm(), true, "number 3"),
            (Place::Durable, calm(), true, "number 3"),
            (Place::Both, SharedSituation { durable_count: 1, ..calm() }, false, "may get"),
            (Place::Memory, late, true, "pass its bound of 200 s"),
            (Place::Skip, late, false, "nothing is saved"),
            (Place::Both, SharedSituation { is_draining: true, ..late }, false, "still on its way"),
            (Place::Both, SharedSituation { fits: false, ..late }, false, "cannot take it"),
        ] {
            let sharing = rule.decide(place, &situation);
            assert_eq!(sharing.is_copied, is_copied, "{place:?} {situation:?}");
            assert!(sharing.reason.contains(word), "{sharing:?}");
        }
        let by_age = Shared { every: None, ..rule };
        assert!(!by_age.decide(Place::Both, &calm()).is_copied);
    }

    #[test]
    fn a_copy_that_keeps_its_bound_never_gets_older() {
        let rule = Shared { staleness_max_s: 300.0, every: None };
        let (mut copied_s, mut oldest_s, mut copies) = (0.0, 0.0f64, 0);
        for step in 1..=1_000 {
            let now_s = f64::from(step) * 10.0;
            let situation = SharedSituation { since_shared_s: now_s - copied_s, durable_count: 0, ..calm() };
            if rule.decide(Place::Memory, &situation).is_copied {
                // It is there, and counts, when it is written.
                oldest_s = oldest_s.max(now_s + situation.drain_s - copied_s);
                copied_s = now_s;
                copies += 1;
            }
        }
        assert!(oldest_s <= 300.0 && copies < 40, "{oldest_s} s, {copies} copies");
    }
}
