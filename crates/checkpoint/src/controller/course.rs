//! What is remembered between decisions: what checkpoints cost, when they were taken, how often it is asked. A session and
//! the simulation keep it the same way, so that what is simulated decides as what runs.
//!
//! Times are seconds since the session began. What was not measured yet costs nothing: so the first checkpoint is
//! durable at once, and the next decisions know what it cost.

use super::Place;

/// How much a new measurement counts against those before it.
const NEWEST_SHARE: f64 = 0.3;

/// Of one job, so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Course {
    /// Checkpoints taken.
    pub taken_count: u64,
    /// Visible seconds in calls.
    pub checkpoint_s: f64,
    /// When the last checkpoint was taken, or came back.
    pub last_any_s: f64,
    memory_cost_s: Option<f64>,
    durable_cost_s: Option<f64>,
    calls: Calls,
}

impl Course {
    /// Takes note of a call; returns the longest of the last gaps, see [`super::Situation::step_s`].
    pub fn called(&mut self, now_s: f64) -> f64 {
        self.calls.step_s(now_s)
    }

    /// Takes note of a checkpoint that was taken, for which the program waited so long, until `ended_s`.
    pub fn took(&mut self, place: Place, visible_s: f64, ended_s: f64) {
        let cost = match place {
            Place::Memory => &mut self.memory_cost_s,
            _ => &mut self.durable_cost_s,
        };
        blend(cost, visible_s);
        self.taken_count += 1;
        self.last_any_s = ended_s;
    }

    /// Visible seconds of a checkpoint in memory; 0 before there was one.
    pub fn memory_cost_s(&self) -> f64 {
        self.memory_cost_s.unwrap_or(0.0)
    }

    /// Visible seconds of a durable checkpoint; 0 before there was one.
    pub fn durable_cost_s(&self) -> f64 {
        self.durable_cost_s.unwrap_or(0.0)
    }
}

/// Of one durable tier, so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Copies {
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
        assert_eq!((course.memory_cost_s(), course.durable_cost_s(), copies.drain_s()), (0.0, 0.0, 0.0));
        course.took(Place::Both, 2.0, 5.0);
        course.took(Place::Memory, 1.0, 9.0);
        course.took(Place::Memory, 2.0, 12.0);
        assert_eq!((course.memory_cost_s(), course.durable_cost_s()), (1.3, 2.0));
        assert_eq!((course.taken_count, course.last_any_s), (3, 12.0));
        assert_eq!(copies.last_written_s(Some(3.0)), 3.0);
        copies.arrived(3.0, 4.0, 100);
        copies.written(13.0, 10);
        assert_eq!((copies.drain_s(), copies.bytes, copies.last_written_s(None)), (4.0, 110, 13.0));
    }
}
