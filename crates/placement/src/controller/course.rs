//! What is remembered between decisions: what checkpoints cost, when they were taken, how often it is asked. A session and
//! the simulation keep it the same way, so that what is simulated decides as what runs.
//!
//! Times are seconds since the session began. What was not measured yet costs nothing: so the first checkpoint is
//! durable at once, and the next decisions know what it cost.

use super::Place;
use super::loss::Loss;

/// How much a new measurement counts against those before it.
const NEWEST_SHARE: f64 = 0.3;

/// Of one job, so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Course {
    /// Checkpoints taken.
    pub taken_count: u64,
    /// Visible seconds in calls.
    pub checkpoint_s: f64,
    /// When the last checkpoint was taken, or came back.
    pub last_any_s: f64,
    memory: MemoryCost,
    durable_extra_s: Option<f64>,
    durable_alone_s: Option<f64>,
    loss: Loss,
    calls: Calls,
}

/// For how long the program waited for a checkpoint, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Visible {
    /// In all.
    pub all_s: f64,
    /// Of this, for slots of memory that were used for the first time: they are taken once and used again and again.
    pub preparing_s: f64,
    /// Of this, for the durable copy beyond the copy in memory: for the former one, and for what starts the write.
    pub durable_s: f64,
    /// Whether another one was being written beside it.
    pub is_beside_write: bool,
}

impl Course {
    /// Takes note of a call that began, whether it saves or only asks, and whether anything was being written in the
    /// background since the last.
    pub fn entered(&mut self, now_s: f64, is_save: bool, is_writing: bool) {
        self.loss.called(now_s, is_save, is_writing);
    }

    /// Takes note of its end.
    pub fn returned(&mut self, now_s: f64, is_save: bool) {
        self.loss.returned(now_s, is_save);
    }

    /// When the last call began and ended.
    pub fn last_call_s(&self) -> (f64, f64) {
        self.loss.last_call_s()
    }

    /// Takes note of a decision that a call makes; returns the longest of the last gaps, see
    /// [`super::Situation::step_s`].
    pub fn called(&mut self, now_s: f64) -> f64 {
        self.calls.step_s(now_s)
    }

    /// Takes note of a checkpoint that was taken, until `ended_s`.
    pub fn took(&mut self, place: Place, visible: Visible, ended_s: f64) {
        let copy_s = (visible.all_s - visible.preparing_s - visible.durable_s).max(0.0);
        match place {
            Place::Skip => return,
            Place::Durable => blend(&mut self.durable_alone_s, visible.all_s),
            Place::Memory | Place::Both => {
                let is_usual = visible.preparing_s <= 0.0 && !visible.is_beside_write;
                if let Some(usual_s) = self.memory.usual_s.filter(|_| visible.is_beside_write) {
                    self.loss.saved(copy_s - usual_s);
                }
                self.memory.took(copy_s, is_usual);
            }
        }
        if place == Place::Both {
            blend(&mut self.durable_extra_s, visible.durable_s);
            self.loss.began();
        }
        self.taken_count += 1;
        self.last_any_s = ended_s;
    }

    /// Takes note of a write in the background that has ended, so long after its checkpoint was taken.
    pub fn arrived(&mut self, took_s: f64) {
        self.loss.ended(took_s);
    }

    /// Takes note of one that failed.
    pub fn failed(&mut self) {
        self.loss.failed();
    }

    /// Visible seconds of a copy in memory; 0 before there was one.
    pub fn memory_cost_s(&self) -> f64 {
        self.memory.usual_s.or(self.memory.unusual_s).unwrap_or(0.0)
    }

    /// Visible seconds of a durable copy beyond that in memory; 0 before there was one.
    pub fn durable_extra_s(&self) -> f64 {
        self.durable_extra_s.unwrap_or(0.0)
    }

    /// Visible seconds of a checkpoint that goes to the durable tier alone; 0 before there was one.
    pub fn durable_alone_s(&self) -> f64 {
        self.durable_alone_s.unwrap_or(0.0)
    }

    /// Seconds that the program loses while one is written in the background; `None` before that was measured.
    pub fn drain_loss_s(&self) -> Option<f64> {
        self.loss.lost_s()
    }
}

/// What a copy in memory costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct MemoryCost {
    /// Of saves into slots that were used before, with nothing beside them.
    usual_s: Option<f64>,
    /// Of others: only as long as there was no usual one.
    unusual_s: Option<f64>,
}

impl MemoryCost {
    fn took(&mut self, copy_s: f64, is_usual: bool) {
        blend(if is_usual { &mut self.usual_s } else { &mut self.unusual_s }, copy_s);
    }
}

/// Of one durable tier, so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Copies {
    /// Bytes that it took.
    pub bytes: u64,
    /// When the newest one that is marked as complete there was taken.
    pub last_s: f64,
    drain_s: Option<f64>,
}

impl Copies {
    /// Takes note of one that was found to be written, in the background, so long after it was taken.
    pub fn arrived(&mut self, taken_s: f64, took_s: f64, bytes: u64) {
        self.written(taken_s, bytes);
        blend(&mut self.drain_s, took_s);
    }

    /// Takes note of one for which the program waited.
    pub fn written(&mut self, taken_s: f64, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.last_s = taken_s;
    }

    /// Seconds from taking a checkpoint until it is written in the background; 0 before there was one.
    pub fn drain_s(&self) -> f64 {
        self.drain_s.unwrap_or(0.0)
    }

    /// When the newest one was taken that is there, or on its way since `on_its_way_s`.
    pub fn last_written_s(&self, on_its_way_s: Option<f64>) -> f64 {
        on_its_way_s.unwrap_or(self.last_s)
    }
}

/// Blends a measurement into an average that forgets.
fn blend(average: &mut Option<f64>, newest: f64) {
    *average = Some(average.map_or(newest, |old| old + NEWEST_SHARE * (newest - old)));
}

/// Gaps between calls that are remembered.
const GAPS: usize = 8;

/// How often a session is asked: one that polls before it saves asks twice in a row, so the longest of a few gaps counts.
/// What comes before the first call is no gap: a program may need long to start, and does so once.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Calls {
    last_s: Option<f64>,
    gaps_s: [f64; GAPS],
    count: usize,
}

impl Calls {
    /// Takes note of a call; returns the longest of the last gaps, 0 at the first call.
    fn step_s(&mut self, now_s: f64) -> f64 {
        if let Some(last_s) = self.last_s.replace(now_s) {
            self.gaps_s[self.count % GAPS] = now_s - last_s;
            self.count += 1;
        }
        self.gaps_s.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_last_gaps_is_the_step() {
        let mut calls = Calls::default();
        assert_eq!(calls.step_s(1_800.0), 0.0, "a long start is no step");
        assert_eq!(calls.step_s(1_830.0), 30.0);
        for call in 1..8 {
            assert_eq!(calls.step_s(1_830.0 + f64::from(call)), 30.0);
        }
        assert_eq!(calls.step_s(1_838.0), 1.0);
        assert_eq!(calls.step_s(1_838.0), 1.0, "polling and then saving at once is one step");
    }

    #[test]
    fn what_was_measured_counts_from_the_first_on_and_is_forgotten_slowly() {
        let (mut course, mut copies) = (Course::default(), Copies::default());
        assert_eq!((course.memory_cost_s(), course.durable_extra_s(), copies.drain_s()), (0.0, 0.0, 0.0));
        let visible = |all_s, durable_s| Visible { all_s, durable_s, ..Visible::default() };
        course.took(Place::Both, visible(2.0, 1.0), 5.0);
        assert_eq!(
            (course.memory_cost_s(), course.durable_extra_s()),
            (1.0, 1.0),
            "the durable copy's is what is more"
        );
        course.took(Place::Memory, visible(2.0, 0.0), 12.0);
        assert_eq!((course.memory_cost_s(), course.durable_extra_s()), (1.3, 1.0));
        course.took(Place::Durable, visible(7.0, 0.0), 20.0);
        assert_eq!((course.memory_cost_s(), course.durable_alone_s()), (1.3, 7.0));
        assert_eq!((course.taken_count, course.last_any_s), (3, 20.0));
        assert_eq!(copies.last_written_s(Some(3.0)), 3.0);
        copies.arrived(3.0, 4.0, 100);
        copies.written(13.0, 10);
        assert_eq!((copies.drain_s(), copies.bytes, copies.last_written_s(None)), (4.0, 110, 13.0));
    }

    #[test]
    fn what_slots_cost_when_they_are_taken_is_no_cost_of_every_save() {
        let mut course = Course::default();
        let first = Visible { all_s: 3.2, preparing_s: 3.0, ..Visible::default() };
        course.took(Place::Memory, first, 4.0);
        assert!((course.memory_cost_s() - 0.2).abs() < 1e-9, "{}", course.memory_cost_s());
        // Another rank may have waited for its own slot: what this rank saw then counts only until there is better.
        course.took(Place::Memory, Visible { all_s: 3.4, preparing_s: 1.4, ..first }, 9.0);
        course.took(Place::Memory, Visible { all_s: 0.1, ..Visible::default() }, 12.0);
        assert_eq!(course.memory_cost_s(), 0.1);
        course.took(Place::Memory, Visible { all_s: 1.9, is_beside_write: true, ..Visible::default() }, 15.0);
        assert_eq!(course.memory_cost_s(), 0.1, "what a write beside it costs is the write's");
    }
}
