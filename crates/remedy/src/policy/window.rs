//! Windows of maintenance: when hosts may be taken up. Times are UTC, because a fleet has more than one time zone and summer time
//! would move the windows.

use time::OffsetDateTime;

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400 * 1_000_000_000;
const MINUTE_NS: u64 = 60 * 1_000_000_000;

/// The days of the week, Monday first.
pub(super) const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A window of maintenance: a table `[[window]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its name, in policies and services.
    pub name: String,
    /// The days on which it opens, Monday first.
    pub days: [bool; 7],
    /// When it opens, minutes after midnight UTC.
    pub from_minute: u32,
    /// When it closes; where that is not after its opening, on the next day.
    pub to_minute: u32,
}

impl Window {
    /// Whether it is open.
    pub fn is_open(&self, realtime_ns: u64) -> bool {
        let day = realtime_ns / DAY_NS;
        let minute = ((realtime_ns % DAY_NS) / MINUTE_NS) as u32;
        // 1 January 1970 was a Thursday.
        let opens = |day: u64| self.days[((day + 3) % 7) as usize];
        if self.from_minute < self.to_minute {
            opens(day) && (self.from_minute..self.to_minute).contains(&minute)
        } else {
            (opens(day) && minute >= self.from_minute) || (opens(day + 6) && minute < self.to_minute)
        }
    }
}

/// A time for people, such as `2026-11-25 15:53:11 UTC`.
pub fn utc_text(realtime_ns: u64) -> String {
    // Every number of nanoseconds is a date before the year 2555.
    let moment =
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(realtime_ns)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = moment.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", moment.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wednesday, 25 November 2026, 00:00 UTC.
    const WEDNESDAY_NS: u64 = 1_795_564_800 * 1_000_000_000;

    fn window(days: &[usize], from_minute: u32, to_minute: u32) -> Window {
        let mut open = [false; 7];
        days.iter().for_each(|&day| open[day] = true);
        Window { name: "night".into(), days: open, from_minute, to_minute }
    }

    #[test]
    fn a_window_opens_on_its_days_alone() {
        let noon = window(&[2], 11 * 60, 13 * 60);
        let at = |day: u64, minute: u64| WEDNESDAY_NS + day * DAY_NS + minute * MINUTE_NS;
        assert!(!noon.is_open(at(0, 659)));
        assert!(noon.is_open(at(0, 660)));
        assert!(noon.is_open(at(0, 779)));
        assert!(!noon.is_open(at(0, 780)));
        assert!(!noon.is_open(at(1, 700)));
        assert!(noon.is_open(at(7, 700)));
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_opens() {
        let night = window(&[2], 22 * 60, 5 * 60);
        let at = |day: u64, minute: u64| WEDNESDAY_NS + day * DAY_NS + minute * MINUTE_NS;
        assert!(!night.is_open(at(0, 60)));
        assert!(night.is_open(at(0, 23 * 60)));
        assert!(night.is_open(at(1, 60)));
        assert!(!night.is_open(at(1, 5 * 60)));
        assert!(!night.is_open(at(1, 23 * 60)));
    }

    #[test]
    fn a_time_is_told_as_the_calendar_has_it() {
        for (second, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_564_800 + 3_661, "2026-11-25 01:01:01 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc_text(second * 1_000_000_000), text);
        }
        assert!(utc_text(u64::MAX).starts_with("2554-07-21"));
    }
}
