//! Moments and stretches of time as people write and read them. All that is printed is UTC.

use std::time::Duration;
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime, UtcOffset};

use crate::units::parse_duration;
pub use crate::units::rfc3339;

const FORM: &str = "write a time such as 2026-11-21T03:00:00Z, '2026-11-21 03:00', 'yesterday 03:00', -2h or now";

/// The moment that the text names, nanoseconds since 1970.
///
/// # Errors
/// It is no time, with how to write one.
pub fn parse(text: &str, now_ns: i64) -> Result<i64, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now_ns);
    }
    if let Some(ago) = text.strip_prefix('-') {
        let ago = parse_duration(ago).map_err(|why| format!("{why}; or {FORM}"))?;
        return before(now_ns, ago);
    }
    let unreadable = || format!("'{text}' is not a time; {FORM}");
    let (text, offset) = split_offset(text);
    let offset = offset.unwrap_or("Z");
    let (day, clock) = text.split_once([' ', 'T']).map_or((text, "00:00"), |(day, clock)| (day, clock.trim()));
    let day = match day {
        "today" => today(now_ns, offset, 0),
        "yesterday" => today(now_ns, offset, 1),
        day => Some(day.to_owned()),
    };
    // Hours and minutes alone are a time of day, too; the format that the library reads wants seconds.
    let seconds = if clock.bytes().filter(|&byte| byte == b':').count() == 1 { ":00" } else { "" };
    let whole = format!("{}T{clock}{seconds}{offset}", day.ok_or_else(unreadable)?);
    let moment = OffsetDateTime::parse(&whole, &Rfc3339).map_err(|_| unreadable())?;
    i64::try_from(moment.unix_timestamp_nanos()).map_err(|_| format!("'{text}' is further away than can be counted"))
}

/// So long before a moment.
///
/// # Errors
/// It is further away than can be counted.
pub fn before(at_ns: i64, ago: Duration) -> Result<i64, String> {
    i64::try_from(ago.as_nanos())
        .ok()
        .and_then(|ago_ns| at_ns.checked_sub(ago_ns))
        .ok_or_else(|| format!("{ago:?} ago is further away than can be counted"))
}

/// The offset at the end of a text, with the blanks before it gone.
fn split_offset(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_suffix(['Z', 'z']) {
        return (rest.trim_end(), Some("Z"));
    }
    match text.len().checked_sub("+00:00".len()).and_then(|at| text.split_at_checked(at)) {
        // A date such as 2026-11-21 ends in six bytes with a minus, too, but has no colon.
        Some((rest, offset)) if offset.starts_with(['+', '-']) && offset.as_bytes()[3] == b':' => {
            (rest.trim_end(), Some(offset))
        }
        _ => (text, None),
    }
}

/// The date so many days before the one that it is there now.
fn today(now_ns: i64, offset: &str, days_ago: u8) -> Option<String> {
    let minutes = |text: &str| text.parse::<i32>().ok();
    let offset = match offset.split_at_checked(1)? {
        ("Z", _) => UtcOffset::UTC,
        (sign, clock) => {
            let (hours, rest) = clock.split_once(':')?;
            let seconds = (minutes(hours)? * 60 + minutes(rest)?) * 60;
            UtcOffset::from_whole_seconds(if sign == "-" { -seconds } else { seconds }).ok()?
        }
    };
    let mut date: Date = moment(now_ns).to_offset(offset).date();
    for _ in 0..days_ago {
        date = date.previous_day()?;
    }
    Some(format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()))
}

fn moment(at_ns: i64) -> OffsetDateTime {
    // Nanoseconds of 64 bits end in the year 2262, years of the library in 9999.
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ns)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// `2026-11-21 03:00:00`, for people, who are told once that it is UTC.
pub fn second(at_ns: i64) -> String {
    let at = moment(at_ns);
    let (hour, minute, second) = at.time().as_hms();
    format!("{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02}", at.year(), u8::from(at.month()), at.day())
}

/// `2026-11-21 03:00`.
pub fn minute(at_ns: i64) -> String {
    let mut text = second(at_ns);
    text.truncate(text.len() - ":00".len());
    text
}

/// A stretch of time in its two largest units: `2 d 3 h`, `12 min 5 s`, `0.250 s`.
pub fn stretch(ns: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = ns / 1_000_000_000;
    let Some(first) = UNITS.iter().position(|unit| seconds >= unit.0) else {
        return format!("{:.3} s", ns as f64 / 1e9);
    };
    let mut text = format!("{} {}", seconds / UNITS[first].0, UNITS[first].1);
    if let Some((unit_s, unit)) = UNITS.get(first + 1) {
        match seconds % UNITS[first].0 / unit_s {
            0 => {}
            rest => text += &format!(" {rest} {unit}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T14:05:06Z.
    const NOW_NS: i64 = 1_795_356_306_000_000_000;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, same) in [
            ("now", "2026-11-22T14:05:06Z"),
            ("-2h", "2026-11-22T12:05:06Z"),
            ("-1.5s", "2026-11-22T14:05:04.5Z"),
            ("2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z"),
            ("2026-11-21T03:00:00.25+01:00", "2026-11-21T02:00:00.25Z"),
            ("2026-11-21 03:00", "2026-11-21T03:00:00Z"),
            ("2026-11-21 03:00:07", "2026-11-21T03:00:07Z"),
            ("2026-11-21 03:00 -05:00", "2026-11-21T08:00:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("2026-11-21 +01:00", "2026-11-20T23:00:00Z"),
            ("yesterday 03:00", "2026-11-21T03:00:00Z"),
            ("yesterday", "2026-11-21T00:00:00Z"),
            ("today 23:59", "2026-11-22T23:59:00Z"),
            // It is already the 23rd there.
            ("today 01:00 +12:00", "2026-11-22T13:00:00Z"),
            ("yesterday 01:00 -15:00", "2026-11-20T16:00:00Z"),
        ] {
            assert_eq!(parse(text, NOW_NS).map(rfc3339).as_deref(), Ok(same), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_says_what_would_be() {
        for text in [
            "",
            "3",
            "x",
            "-",
            "-2",
            "-2 h",
            "25:00",
            "2026-13-01",
            "2026-11-21 24:00",
            "yesterday 3",
            "2026-11-21 03:00 +99:00",
            "tomorrow",
            "today 03:00 +ab:cd",
            "+01:00",
            "é2026+01:0",
        ] {
            let error = parse(text, NOW_NS).expect_err(text);
            assert!(error.contains("such as"), "{text}: {error}");
        }
        assert!(parse("9999-01-01", NOW_NS).expect_err("year 9999").contains("further away"));
        assert!(parse("-999999d", NOW_NS).is_err());
    }

    #[test]
    fn stretches_have_two_units() {
        for (ns, text) in [
            (250_000_000, "0.250 s"),
            (59_999_999_999, "59 s"),
            (725_000_000_000, "12 min 5 s"),
            (3_600_000_000_000, "1 h"),
            (86_400_000_000_000 * 30 + 3_600_000_000_000, "30 d 1 h"),
        ] {
            assert_eq!(stretch(ns), text);
        }
        assert_eq!((minute(NOW_NS), second(NOW_NS)), ("2026-11-22 14:05".into(), "2026-11-22 14:05:06".into()));
    }
}
