//! From one value of a counter to the next: how many errors that is, and how sure.

/// A counter at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count<'a> {
    /// What it says.
    pub value: u64,
    /// Seconds since it was reset, as the kernel says.
    pub reset_s: Option<u64>,
    /// Which boot of the host.
    pub boot_id: Option<&'a str>,
    /// Seconds since that boot.
    pub clock_s: Option<f64>,
    /// The highest value that it holds; it goes on with 0.
    pub max: u64,
    /// The highest rate that was ever seen of it, errors per second; 0 where none was.
    pub seen_per_s: f64,
}

/// What happened to a counter between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not read before.
    First,
    /// It went on.
    Grew,
    /// It went beyond its highest value and on from 0.
    Wrapped,
    /// Somebody reset it, or loaded the driver anew.
    Reset,
    /// The host was booted anew.
    Rebooted,
    /// It is lower than before, and nothing explains that.
    WentBack,
    /// What it counted before may be another module's: see [`crate::counts`].
    Mixed,
}

impl Change {
    /// Whether no error can have been missed on the way.
    pub fn is_exact(self) -> bool {
        matches!(self, Change::First | Change::Grew | Change::Wrapped)
    }

    /// What it means for the count, in a sentence for people.
    pub fn says(self) -> &'static str {
        match self {
            Change::First | Change::Grew => "it was counted on",
            Change::Wrapped => "it went beyond 2^32 and was counted on; nothing is lost",
            Change::Reset => {
                "the counters were reset or the driver reloaded: errors since the reading before are lost; find out who \
                 writes reset_counters"
            }
            Change::Rebooted => "the host was rebooted: errors since the last reading are lost",
            Change::Mixed => {
                "the host was rebooted or the driver reloaded, and nothing tells this module from others of its kind: its counts from before \
                 may be theirs, and theirs its own; run as root where the serial numbers can be read, or compare the labels on the modules"
            }
            Change::WentBack => {
                "it decreased although the kernel reports no reset; counting continues from here, and errors in between are lost"
            }
        }
    }
}

/// Two clocks that count whole seconds, read one after the other, may differ by this much though nothing happened.
const SLACK_S: f64 = 2.0;

/// A counter that wraps does so at a rate like those that were seen of it before: at most so many times the highest. It came to the upper
/// half of 2^32 at that rate, so that one that never came there did not wrap.
const FASTER_MAX: f64 = 100.0;

/// Without a clock only the last sixteenth of the range is near enough to the end.
const NEAR_END: u64 = 16;

/// The errors since the value before, and what happened. They are never more than there were.
pub fn step(before: Option<&Count<'_>>, now: &Count<'_>) -> (u64, Change) {
    let Some(before) = before else { return (now.value, Change::First) };
    if is_other_boot(before, now) {
        return (now.value, Change::Rebooted);
    }
    let was_reset = was_reset(before, now);
    if was_reset == Some(true) {
        return (now.value, Change::Reset);
    }
    if now.value >= before.value {
        return (now.value - before.value, Change::Grew);
    }
    if was_reset.is_none() {
        return (now.value, Change::Reset);
    }
    let wrapped = (now.max.saturating_sub(before.value)).saturating_add(now.value).saturating_add(1);
    let is_believable = match now.clock_s.zip(before.clock_s) {
        Some((then_s, before_s)) => {
            let is_high = before.value > now.max / 2;
            is_high && wrapped as f64 <= (then_s - before_s) * before.seen_per_s * FASTER_MAX
        }
        None => before.value > now.max - now.max / NEAR_END,
    };
    if is_believable && before.value <= now.max { (wrapped, Change::Wrapped) } else { (0, Change::WentBack) }
}

fn is_other_boot(before: &Count<'_>, now: &Count<'_>) -> bool {
    match (before.boot_id, now.boot_id) {
        (Some(before), Some(now)) => before != now,
        // The clock of a boot only goes forward.
        _ => before.clock_s.zip(now.clock_s).is_some_and(|(before, now)| now < before),
    }
}

/// Whether the counter was reset between the two; `None` where the kernel does not tell when it was reset.
fn was_reset(before: &Count<'_>, now: &Count<'_>) -> Option<bool> {
    let (then_s, now_s) = (before.reset_s?, now.reset_s?);
    Some(match before.clock_s.zip(now.clock_s) {
        // By the host's clock the moment of the reset has moved, and lies between the two readings: a driver whose time stands still
        // was not reset.
        Some((then, now)) => {
            let has_moved = now - now_s as f64 > then - then_s as f64 + SLACK_S;
            has_moved && now_s as f64 <= now - then + SLACK_S
        }
        None => now_s < then_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = u32::MAX as u64;

    fn at(value: u64, reset_s: impl Into<Option<u64>>, clock_s: f64) -> Count<'static> {
        Count { value, reset_s: reset_s.into(), boot_id: Some("a"), clock_s: Some(clock_s), max: MAX, seen_per_s: 2e5 }
    }

    #[test]
    fn a_wrap_is_told_from_a_reset_by_the_time_since_the_reset() {
        assert_eq!(step(Some(&at(MAX - 4, 100, 200.0)), &at(5, 160, 260.0)), (10, Change::Wrapped));
        assert_eq!(step(Some(&at(MAX - 4, 100, 200.0)), &at(5, 30, 260.0)), (5, Change::Reset));
        // A reset after which it counted further than before.
        assert_eq!(step(Some(&at(5, 100, 200.0)), &at(9, 30, 260.0)), (9, Change::Reset));
        assert_eq!(step(Some(&at(5, 100, 200.0)), &at(9, 160, 260.0)), (4, Change::Grew));
        // A time that stands still is no reset.
        assert_eq!(step(Some(&at(5, 5_000, 200.0)), &at(9, 5_000, 260.0)), (4, Change::Grew));
        // Two clocks of whole seconds.
        assert_eq!(step(Some(&at(5, 100, 200.9)), &at(9, 159, 261.8)), (4, Change::Grew));
    }

    #[test]
    fn what_goes_back_without_a_reason_adds_nothing() {
        assert_eq!(step(Some(&at(500, 100, 200.0)), &at(5, 160, 260.0)), (0, Change::WentBack));
        // Without the kernel's word a reset is the reason.
        assert_eq!(step(Some(&at(500, None, 200.0)), &at(5, None, 260.0)), (5, Change::Reset));
    }

    /// 500, then 499: a driver that resets its counter, or a fault of it, and not 4.29 billion errors, however long the look took.
    #[test]
    fn a_counter_that_fell_wrapped_only_from_near_its_top_at_a_rate_that_was_seen() {
        let fell = |from: u64, to: u64, within_s: f64, seen_per_s: f64| {
            let before = Count { seen_per_s, ..at(from, 100, 200.0) };
            step(Some(&before), &at(to, 100 + within_s as u64, 200.0 + within_s))
        };
        for within_s in [1.0, 130.0, 86_400.0, 1e7] {
            assert_eq!(fell(500, 499, within_s, 1e6), (0, Change::WentBack), "{within_s}");
        }
        // Near its top, and at a rate that was never seen; at one that was.
        assert_eq!(fell(MAX - 1_000_000, 5, 10.0, 0.5), (0, Change::WentBack));
        assert_eq!(fell(MAX - 1_000_000, 5, 10.0, 0.0), (0, Change::WentBack));
        assert_eq!(fell(MAX - 1_000_000, 5, 10.0, 90_000.0), (1_000_006, Change::Wrapped));
        // A turn of the whole range from just below the top to just below that.
        assert_eq!(fell(MAX, MAX - 1, 60.0, 10.0), (0, Change::WentBack));
        let unclocked = |from| {
            let before = Count { clock_s: None, ..at(from, 100, 0.0) };
            step(Some(&before), &Count { clock_s: None, ..at(5, 160, 0.0) })
        };
        assert_eq!(unclocked(MAX / 2 + 1), (0, Change::WentBack));
        assert_eq!(unclocked(MAX - 9), (15, Change::Wrapped));
    }

    #[test]
    fn another_boot_begins_anew() {
        let other = Count { boot_id: Some("b"), ..at(700, 40, 50.0) };
        assert_eq!(step(Some(&at(500, 100, 200.0)), &other), (700, Change::Rebooted));
        let unnamed = |value, clock_s| Count { boot_id: None, ..at(value, None, clock_s) };
        assert_eq!(step(Some(&unnamed(500, 200.0)), &unnamed(700, 50.0)), (700, Change::Rebooted));
        assert_eq!(step(None, &other), (700, Change::First));
    }

    #[test]
    fn a_counter_above_its_own_limit_is_no_wrap() {
        let odd = Count { max: 10, ..at(500, 100, 200.0) };
        assert_eq!(step(Some(&odd), &Count { max: 10, ..at(5, 160, 260.0) }), (0, Change::WentBack));
    }
}
