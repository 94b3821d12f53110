use crate::Event;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Changes of the wall clock that a stream remembers: the newest. A clock that is set more often says little anyway.
const CHANGES_MAX: usize = 256;

/// The wall clock was set, or the machine slept: from here on a time of the stream is another time of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ClockChange {
    /// From when the new offset holds, `CLOCK_MONOTONIC`: when it was first seen, within a tenth of a second.
    pub at_ns: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` before, nanoseconds.
    pub former_offset_ns: i64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` from now on, nanoseconds.
    pub realtime_offset_ns: i64,
    /// How long the machine slept, nanoseconds: `CLOCK_BOOTTIME` went on meanwhile and `CLOCK_MONOTONIC` did not.
    #[serde(default)]
    pub slept_ns: u64,
}

impl ClockChange {
    /// How far the clock was set forward (or back, below 0) beyond what the machine slept, nanoseconds.
    pub fn set_by_ns(&self) -> i128 {
        i128::from(self.realtime_offset_ns) - i128::from(self.former_offset_ns) - i128::from(self.slept_ns)
    }

    /// The same moment on the wall clock, before and after; nanoseconds since 1970.
    pub fn realtime_ns(&self) -> (u64, u64) {
        let of = |offset_ns| self.at_ns.saturating_add_signed(offset_ns);
        (of(self.former_offset_ns), of(self.realtime_offset_ns))
    }
}

/// Below this, a change of the offset is the error of reading two clocks.
const READING_ERROR_NS: u128 = 1_000_000;

impl fmt::Display for ClockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u128| ns as f64 / 1e9;
        let set_by_ns = self.set_by_ns();
        let is_set = set_by_ns.unsigned_abs() > READING_ERROR_NS;
        if self.slept_ns > 0 {
            write!(f, "The machine slept for {:.3} s", seconds(self.slept_ns.into()))?;
            f.write_str(if is_set { ", and the wall clock was set " } else { "." })?;
        } else {
            f.write_str("The wall clock was set ")?;
        }
        if is_set || self.slept_ns == 0 {
            let way = if set_by_ns < 0 { "back" } else { "forward" };
            write!(f, "{way} by {:.3} s.", seconds(set_by_ns.unsigned_abs()))?;
        }
        Ok(())
    }
}

/// How far a stream of events has come, and what its times are on the clock of the world.
///
/// `CLOCK_MONOTONIC` knows nothing of the time of day. The host's description says how far apart the two are when
/// watching begins, and each [`ClockChange`] from when on they are as far apart as it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamClock {
    /// End of the newest window or look, `CLOCK_MONOTONIC`; `None` before the first.
    pub newest_ns: Option<u64>,
    /// The offset before the first of `changes`; `None` before the host was described.
    first_offset_ns: Option<i64>,
    /// Ascending in time.
    changes: Vec<ClockChange>,
}

impl StreamClock {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        match event {
            // A new description begins a new stretch of watching, after a boot for instance.
            Event::Host(host) => self.begin(host.realtime_offset_ns),
            Event::Clock(change) => self.change(change),
            _ => {}
        }
        self.newest_ns = self.newest_ns.max(event.comes_to_ns());
    }

    /// A host was described whose offset is this.
    pub fn begin(&mut self, offset_ns: i64) {
        self.first_offset_ns = Some(offset_ns);
        self.changes.clear();
    }

    /// The offset is another one from here on.
    pub fn change(&mut self, change: &ClockChange) {
        let place = self.changes.partition_point(|known| known.at_ns < change.at_ns);
        match self.changes.get_mut(place) {
            // Told again.
            Some(same) if same.at_ns == change.at_ns => *same = *change,
            _ => self.changes.insert(place, *change),
        }
        if self.changes.len() > CHANGES_MAX {
            self.first_offset_ns = Some(self.changes.remove(0).realtime_offset_ns);
        }
    }

    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` before the first change that is remembered; `None` before the host was
    /// described.
    pub fn first_offset_ns(&self) -> Option<i64> {
        self.first_offset_ns
    }

    /// The changes since then, oldest first.
    pub fn changes(&self) -> &[ClockChange] {
        &self.changes
    }

    /// The offset that held at a time of the stream; `None` before the host was described.
    pub fn offset_ns_at(&self, monotonic_ns: u64) -> Option<i64> {
        let after = self.changes.partition_point(|change| change.at_ns <= monotonic_ns);
        let before = after.checked_sub(1).map(|newest| self.changes[newest].realtime_offset_ns);
        self.first_offset_ns.map(|first| before.unwrap_or(first))
    }

    /// A time of the stream as `CLOCK_REALTIME`, as the wall clock showed it then; as it is where no host was described.
    pub fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns_at(monotonic_ns).unwrap_or(0))
    }

    /// The end of the stream, `CLOCK_REALTIME`; 0 before its first window or look.
    pub fn end_realtime_ns(&self) -> u64 {
        self.newest_ns.map_or(0, |newest_ns| self.realtime_ns(newest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointEvent, CheckpointLook};

    const SECOND_NS: u64 = 1_000_000_000;

    fn change(at_ns: u64, former_offset_ns: i64, realtime_offset_ns: i64, slept_ns: u64) -> ClockChange {
        ClockChange { at_ns, former_offset_ns, realtime_offset_ns, slept_ns }
    }

    #[test]
    fn a_stream_has_come_as_far_as_its_newest_event() {
        let mut clock = StreamClock::default();
        assert_eq!(clock.end_realtime_ns(), 0);
        for at_ns in [5, 9, 7] {
            let look = CheckpointLook { at_ns, ..CheckpointLook::default() };
            clock.take(&Event::Checkpoint(CheckpointEvent::Look(look)));
        }
        assert_eq!((clock.newest_ns, clock.end_realtime_ns()), (Some(9), 9));
        clock.begin(-4);
        assert_eq!((clock.end_realtime_ns(), clock.realtime_ns(3)), (5, 0));
    }

    #[test]
    fn each_stretch_of_a_stream_has_the_offset_that_held_then() {
        let mut clock = StreamClock::default();
        clock.begin(1_000);
        // Told late, and not in the order of time.
        clock.take(&Event::Clock(change(200, 9_000, 500, 0)));
        clock.take(&Event::Clock(change(100, 1_000, 9_000, 0)));
        let at = [99, 100, 199, 200, 300].map(|at_ns| clock.realtime_ns(at_ns));
        assert_eq!(at, [1_099, 9_100, 9_199, 700, 800]);
        clock.take(&Event::Clock(change(200, 9_000, 500, 0)));
        assert_eq!(clock.changes().len(), 2, "the same one, told again");
        clock.begin(7);
        assert_eq!((clock.realtime_ns(300), clock.changes().len()), (307, 0), "another boot");
    }

    #[test]
    fn of_many_changes_the_newest_are_remembered() {
        let mut clock = StreamClock::default();
        clock.begin(0);
        (1..=300).for_each(|at| clock.change(&change(at, 0, at as i64 * 1_000, 0)));
        assert_eq!(clock.changes().len(), CHANGES_MAX);
        assert_eq!((clock.realtime_ns(300), clock.realtime_ns(45)), (300_300, 45_045));
        assert_eq!(clock.realtime_ns(1), 1 + 44_000, "the oldest that is known");
    }

    #[test]
    fn a_change_says_whether_the_clock_was_set_or_the_machine_slept() {
        let said = |offset_ns: i64, slept_ns: u64| change(0, 0, offset_ns, slept_ns).to_string();
        let second_ns = SECOND_NS as i64;
        assert_eq!(said(3_600 * second_ns, 0), "The wall clock was set forward by 3600.000 s.");
        assert_eq!(said(-second_ns / 2, 0), "The wall clock was set back by 0.500 s.");
        assert_eq!(said(90 * second_ns, 90 * SECOND_NS), "The machine slept for 90.000 s.");
        assert_eq!(
            said(80 * second_ns, 90 * SECOND_NS),
            "The machine slept for 90.000 s, and the wall clock was set back by 10.000 s."
        );
        assert_eq!(change(0, i64::MIN, i64::MAX, u64::MAX).set_by_ns(), 0);
    }
}
