//! What a write in the background costs the program: how much longer it is between calls, and in them, while one is
//! under way. It shares cores, memory and the drive with the program, so it is not free, and nobody else can say what it
//! takes.
//!
//! A gap is the time from the end of one call to the beginning of the next, in which the program works. Gaps in which
//! nothing was written tell how long one usually is; what the gaps that a write reached into are longer in all, and
//! the saves beside it, is what it took. A write that has ended slows nothing down, so it takes no more than its
//! own time.

/// Gaps without a write that are remembered.
const GAPS: usize = 64;

/// As many of them, at least, make a usual one.
pub(super) const GAPS_LEAST: usize = 4;

/// After so many writes the oldest begin to be forgotten.
const WRITES: u32 = 16;

/// Of one job, so far. Times are seconds since the session began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// When the last call returned, and whether it only asked.
    returned: Option<(f64, bool)>,
    quiet_s: [f64; GAPS],
    quiet_count: usize,
    /// What the write that is under way has taken; `None` without one, and where nothing is there to compare with.
    present_s: Option<f64>,
    lost_s: f64,
    writes: u32,
    /// When the last call began.
    called_s: f64,
}

impl Default for Loss {
    fn default() -> Self {
        Loss {
            returned: None,
            quiet_s: [0.0; GAPS],
            quiet_count: 0,
            present_s: None,
            lost_s: 0.0,
            writes: 0,
            called_s: 0.0,
        }
    }
}

impl Loss {
    /// Takes note of a call that began, and whether anything was being written since the last one.
    pub fn called(&mut self, now_s: f64, is_save: bool, is_writing: bool) {
        self.called_s = now_s;
        let Some((returned_s, was_asked)) = self.returned else { return };
        // Who asks and then saves at once does no work between.
        if is_save && was_asked {
            return;
        }
        let gap_s = (now_s - returned_s).max(0.0);
        match (is_writing, &mut self.present_s) {
            (false, _) => {
                self.quiet_s[self.quiet_count % GAPS] = gap_s;
                self.quiet_count += 1;
            }
            (true, Some(present_s)) => *present_s += gap_s - mean(&self.quiet_s[..self.quiet_count.min(GAPS)]),
            (true, None) => {}
        }
    }

    /// Takes note of the end of a call.
    pub fn returned(&mut self, now_s: f64, is_save: bool) {
        self.returned = Some((now_s, !is_save));
    }

    /// When the last call began and ended.
    pub fn last_call_s(&self) -> (f64, f64) {
        (self.called_s, self.returned.map_or(0.0, |(returned_s, _)| returned_s))
    }

    /// Takes note of a write that began.
    pub fn began(&mut self) {
        self.present_s = (self.quiet_count >= GAPS_LEAST).then_some(0.0);
    }

    /// Takes note of a save beside it that took so much longer than it usually does.
    pub fn saved(&mut self, longer_s: f64) {
        if let Some(present_s) = &mut self.present_s {
            *present_s += longer_s;
        }
    }

    /// Takes note of its end, so long after it began.
    pub fn ended(&mut self, took_s: f64) {
        let Some(present_s) = self.present_s.take() else { return };
        self.writes = (self.writes + 1).min(WRITES);
        let took_s = took_s.max(0.0);
        // What chance makes shorter makes up for what it makes longer.
        self.lost_s += (present_s.clamp(-took_s, took_s) - self.lost_s) / f64::from(self.writes);
    }

    /// Forgets one that failed.
    pub fn failed(&mut self) {
        self.present_s = None;
    }

    /// Seconds that a write costs the program; `None` before that was measured once.
    pub fn lost_s(&self) -> Option<f64> {
        (self.writes > 0).then_some(self.lost_s.max(0.0))
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saves every `step_s`, each of `save_s`; every tenth is written for `write_s`, in which each step is `factor` times
    /// as long.
    fn lost(step_s: f64, save_s: f64, write_s: f64, factor: f64, asks: bool) -> Option<f64> {
        let mut loss = Loss::default();
        let (mut now_s, mut ends_s) = (0.0, None);
        for number in 0..400 {
            let began_s = now_s;
            // The program works at a lower speed for as long as there is a write.
            let slow_s = ends_s.map_or(0.0, |ends_s: f64| (ends_s - began_s).max(0.0));
            let done_s = slow_s / factor;
            now_s += if done_s >= step_s { step_s * factor } else { slow_s + step_s - done_s };
            if asks {
                loss.called(now_s, false, ends_s.is_some());
                loss.returned(now_s, false);
            }
            loss.called(now_s, true, ends_s.is_some());
            if ends_s.is_some_and(|ended_s| ended_s <= now_s) {
                loss.ended(write_s);
                ends_s = None;
            }
            now_s += save_s;
            if number % 10 == 5 && ends_s.is_none() {
                loss.began();
                ends_s = Some(now_s + write_s);
            }
            loss.returned(now_s, true);
        }
        loss.lost_s()
    }

    #[test]
    fn what_steps_are_longer_beside_a_write_is_what_it_costs() {
        for asks in [false, true] {
            for (step_s, write_s, factor) in [(1.0, 4.0, 1.5), (10.0, 4.0, 1.5), (0.1, 0.35, 2.0), (1.0, 4.0, 1.0)] {
                let lost_s = lost(step_s, 0.001, write_s, factor, asks).unwrap_or(f64::NAN);
                let wanted_s = write_s * (1.0 - 1.0 / factor);
                assert!((lost_s - wanted_s).abs() < 0.05 * write_s, "{step_s} {write_s} {factor}: {lost_s}");
            }
        }
    }

    #[test]
    fn it_takes_no_more_than_its_time_and_is_unknown_without_anything_to_compare_with() {
        let mut loss = Loss::default();
        loss.began();
        loss.ended(4.0);
        assert_eq!(loss.lost_s(), None, "there was no gap without a write");
        for call in 0..8 {
            loss.called(f64::from(call), true, false);
            loss.returned(f64::from(call), true);
        }
        loss.began();
        loss.called(1_000.0, true, true);
        loss.returned(1_000.0, true);
        loss.ended(4.0);
        assert_eq!(loss.lost_s(), Some(4.0), "something else took the rest");
        loss.began();
        loss.called(1_000.0, true, true);
        loss.failed();
        loss.ended(4.0);
        assert_eq!(loss.lost_s(), Some(4.0), "one that failed says nothing");
    }
}
