//! Times as logs and other programs write them. What cannot be read is `None`, and never the time of something else.

pub mod event_log;

use surefoot_model::{Digits, one_line};

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What has to be known beside a log to date its lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// When the log was read, nanoseconds since 1970: syslog writes no year, and no line is younger than this.
    pub now_realtime_ns: u64,
    /// When the kernel booted that wrote the log, nanoseconds since 1970; `None` where that is not known, and then its seconds
    /// since boot date nothing.
    pub booted_realtime_ns: Option<u64>,
}

impl Clock {
    /// The youngest that a line can be: a day is for clocks that are ahead, and zones that the log does not name.
    pub fn latest_ns(&self) -> u64 {
        self.now_realtime_ns.saturating_add(DAY_NS)
    }

    /// Whether something that was recorded before now can be as old as this. What is older than the interfaces it was recorded
    /// through, or still to come, was stamped by a clock that was not set. Without a now nothing is too young.
    pub fn is_plausible(&self, at_realtime_ns: u64) -> bool {
        at_realtime_ns >= EARLIEST_NS && (self.now_realtime_ns == 0 || at_realtime_ns <= self.latest_ns())
    }
}

/// 1998-01-01: IPMI 1.0 is of this year, and EDAC and mcelog are younger.
const EARLIEST_NS: u64 = 883_612_800 * SECOND_NS;

/// The days of a month.
fn days_in(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A date and a time of day, UTC, in nanoseconds since 1970; `None` for what is no date or lies outside 1970 to 2261.
pub fn nanoseconds(year: u64, month: u64, day: u64, second_of_day: u64) -> Option<u64> {
    if !(1970..=2261).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
        || second_of_day > 86_400
    {
        return None;
    }
    // Days from 1 March of the year 0 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    let since_1970 = days.checked_sub(719_468)?;
    (since_1970 * 86_400 + second_of_day).checked_mul(SECOND_NS)
}

/// `HH:MM:SS`, with a fraction after `.` or `,`: seconds and nanoseconds of the day. A leap second is the first of the next minute.
pub fn of_day(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) =
        text.split_once(['.', ',']).map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut parts = whole.split(':').map(|part| if part.len() == 2 { part.digits::<u64>() } else { None });
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second, fraction.map_or(Some(0), nanoseconds_of_fraction)?))
}

/// The digits behind a point as nanoseconds; what is behind the ninth is left out.
pub fn nanoseconds_of_fraction(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{:0<9}", digits.get(..9).unwrap_or(digits)).digits()).flatten()
}

/// `2026-11-23 08:00:00 +0000`, `2026-11-23T08:00:00.123456+01:00`, `…Z`: date, time, and the offset where there is one.
pub fn iso(text: &str) -> Option<u64> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b' ' | b'T') {
        return None;
    }
    let mut parts = date.split('-');
    let mut next = || parts.next()?.digits::<u64>();
    let (year, month, day) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    let end = rest.find(['+', '-', 'Z', ' ']).unwrap_or(rest.len());
    let (second, fraction) = of_day(&rest[..end])?;
    let zone = rest[end..].trim();
    at_offset(nanoseconds(year, month, day, second)?, fraction, if zone.is_empty() { 0 } else { offset_s(zone)? })
}

/// A local time and its zone's distance from UTC, as UTC.
pub fn at_offset(local_ns: u64, fraction_ns: u64, east_s: i64) -> Option<u64> {
    let utc = i128::from(local_ns) - i128::from(east_s) * i128::from(SECOND_NS);
    u64::try_from(utc + i128::from(fraction_ns)).ok()
}

/// Seconds east of Greenwich of `+0100`, `-01:00`, `+01`, `Z`, `UTC`, or the short name of a zone that has one meaning. `CST`, `IST`,
/// `BST` and the like have several, on continents of their own, and are `None` as a word is that is no zone.
pub fn offset_s(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return ZONES.iter().find(|(name, _)| *name == zone).map(|&(_, minutes)| minutes * 60),
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((hours, minutes)), 5) => (hours, minutes),
        (None, 4) => digits.split_at_checked(2)?,
        (None, 2) => (digits, "0"),
        _ => return None,
    };
    let (hours, minutes) = (hours.digits::<i64>()?, minutes.digits::<i64>()?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Short names of zones, minutes east of Greenwich.
const ZONES: [(&str, i64); 29] = [
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("SAST", 120),
    ("MSK", 180),
    ("PKT", 300),
    ("WIB", 420),
    ("HKT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("EST", -300),
    ("EDT", -240),
    ("CDT", -300),
    ("MDT", -360),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
];

/// The number of a month by its English name of three letters.
pub fn month_of(word: &str) -> Option<u64> {
    MONTHS.iter().position(|month| *month == word).map(|place| place as u64 + 1)
}

/// A day and time without a year: the youngest year in which it does not lie after now.
pub fn without_year(month: u64, day: u64, second: u64, clock: &Clock) -> Option<u64> {
    if clock.now_realtime_ns == 0 {
        return None;
    }
    let year = 1970 + clock.now_realtime_ns / (SECOND_NS * 31_556_952);
    // Eight years back there is a 29 February, also over 2100.
    let years = (year.saturating_sub(8)..=year + 1).rev();
    years.filter_map(|year| nanoseconds(year, month, day, second)).find(|&ns| ns <= clock.latest_ns())
}

/// Why a time that a person gives is none.
pub fn not_iso(text: &str) -> String {
    format!("'{}' is no time such as 2026-11-23T08:00:00Z", one_line(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    // `date -u -d '2026-11-23 08:00:00' +%s`.
    const AT: u64 = 1_795_420_800 * SECOND_NS;

    #[test]
    fn every_way_to_write_a_time_is_read() {
        assert_eq!(iso("2026-11-23 08:00:00 +0000"), Some(AT));
        assert_eq!(iso("2026-11-23T09:00:00+01:00"), Some(AT));
        assert_eq!(iso("2026-11-23 09:00:00 CET"), Some(AT));
        assert_eq!(iso("2026-11-23T08:00:00Z"), Some(AT));
        assert_eq!(iso("2026-11-23T08:00:00.5"), Some(AT + SECOND_NS / 2));
        assert_eq!(iso("2026-11-23T13:30:00+0530"), Some(AT));
        // A leap second; the last day of February.
        assert_eq!(iso("2016-12-31T23:59:60Z"), iso("2017-01-01T00:00:00Z"));
        assert!(iso("2024-02-29T00:00:00Z").is_some());
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "2026-13-23 08:00:00",
            "2026-02-29 08:00:00",
            "2026-04-31 08:00:00",
            "2026-11-23 24:00:00",
            "2026-11-23 08:00:61",
            "2026-11-23 08:00:00 CST",
            "2026-11-23 08:00:00 +1",
            "2026-11-23 08:00:00 +0160",
            "2026-11-23T+8:00:00Z",
            "+026-11-23T08:00:00Z",
            "2026-11-23T08:00:00.+5Z",
            "2026-11-23T08:00:00.5x",
        ] {
            assert_eq!(iso(text), None, "{text}");
        }
    }

    #[test]
    fn zones_with_several_meanings_are_none() {
        assert_eq!((offset_s("EDT"), offset_s("NZDT"), offset_s("+03")), (Some(-14_400), Some(46_800), Some(10_800)));
        for zone in ["CST", "IST", "BST", "PST", "AM", "", "+3", "+1500", "+-100", "+0:100"] {
            assert_eq!(offset_s(zone), None, "{zone}");
        }
    }

    #[test]
    fn times_of_clocks_that_were_not_set_are_not_plausible() {
        let clock = Clock { now_realtime_ns: AT, booted_realtime_ns: None };
        for (at, is_plausible) in [
            (0, false),
            (12 * SECOND_NS, false),
            (iso("1997-12-31T23:59:59Z").unwrap(), false),
            (iso("1998-01-01T00:00:00Z").unwrap(), true),
            (AT + 3600 * SECOND_NS, true),
            (AT + 2 * DAY_NS, false),
        ] {
            assert_eq!(clock.is_plausible(at), is_plausible, "{at}");
        }
        assert!(Clock::default().is_plausible(AT));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC*", dates in "[0-9:/TZ.,+ \\[\\]-]{0,40}") {
            let _ = (iso(&text), iso(&dates), offset_s(&text), offset_s(&dates), of_day(&dates));
        }
    }
}
