//! Durations, shares and moments, as people write and read them.

use std::fmt;
pub use surefoot_model::units::{parse_duration, parse_ns, parse_seconds, parse_seconds_or_none, parse_time};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// As [`parse_time`], in nanoseconds.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn parse_time_ns(text: &str) -> Result<u64, String> {
    u64::try_from(parse_time(text)?.as_nanos()).map_err(|_| format!("'{text}' is longer than can be counted"))
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// So many in a second.
    Second,
    /// So many in an hour.
    Hour,
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Per::Second => "s",
            Per::Hour => "h",
        })
    }
}

/// Reads `10/s`, `5/min`, `1/h`, `0.2/d`, as so many per second; 0 is a rate.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a rate, such as 10/s, 5/min, 1/h or 0.2/d");
    let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
    let unit_s = parse_duration(&format!("1{unit}")).map_err(|_| wrong())?.as_secs_f64();
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 { Ok(number / unit_s) } else { Err(wrong()) }
}

/// As [`parse_rate`]; a number alone is of a second, as options that named their unit took it.
///
/// # Errors
/// As [`parse_rate`].
pub fn parse_rate_per_s(text: &str) -> Result<f64, String> {
    if text.contains('/') { parse_rate(text) } else { parse_rate(&format!("{text}/s")) }
}

/// As [`parse_rate`], a whole number in this time; a number alone is one, as options that named their unit took it.
///
/// # Errors
/// As [`parse_rate`], or that it is not whole.
pub fn parse_whole_rate(text: &str, per: Per) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let unit_s = if per == Per::Hour { 3_600.0 } else { 1.0 };
    let number = parse_rate(text)? * unit_s;
    // Far below one, and far above what dividing by a unit and multiplying by it may add.
    let is_whole = number <= u64::MAX as f64 && (number - number.round()).abs() < 1e-6;
    if is_whole { Ok(number.round() as u64) } else { Err(format!("'{text}' is not a whole number per {per}")) }
}

/// A number and what it counts.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Three significant digits and the unit that suits them: `1.23 ms`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    // What rounds up to 1,000 of a unit is 1 of the next.
    let unit = UNITS.iter().rev().find(|unit| ns as f64 >= unit.1 * 0.9995).unwrap_or(&UNITS[0]);
    let value = ns as f64 / unit.1;
    let digits = match value {
        _ if unit.0 == "ns" => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", unit.0)
}

/// A share as percent, with the digits that matter at its size.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    match share {
        _ if part == 0 => "0 %".to_owned(),
        share if share < 0.001 => "<0.001 %".to_owned(),
        share if share < 1.0 => format!("{share:.3} %"),
        share => format!("{share:.1} %"),
    }
}

/// Nanoseconds since 1970 as `2026-11-21T03:00:00.000000001Z`: for programs, because readers of JSON that take numbers for
/// doubles round what exceeds 2^53.
pub fn rfc3339(realtime_ns: impl TryInto<i64>) -> String {
    let at_ns = realtime_ns.try_into().unwrap_or(i64::MAX);
    // Nanoseconds of 64 bits end in the year 2262, years of the library in 9999.
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ns)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    moment.format(&Rfc3339).unwrap_or_default()
}

/// A number of bytes, with the binary unit that suits it.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_number_and_a_time() {
        for (text, per_s) in [("10/s", 10.0), ("6/min", 0.1), ("6/m", 0.1), ("18/h", 0.005), ("0/d", 0.0)] {
            assert_eq!(parse_rate(text), Ok(per_s));
        }
        for text in ["", "10", "10/", "/s", "10/fortnight", "-1/s", "nan/s", "10/2s/s", "x/h"] {
            assert!(parse_rate(text).expect_err(text).contains("such as 10/s"), "{text}");
        }
        let whole = [("10/h", Per::Hour), ("240/d", Per::Hour), ("10", Per::Hour), ("600/min", Per::Second)];
        assert_eq!(whole.map(|(text, per)| parse_whole_rate(text, per)), [Ok(10), Ok(10), Ok(10), Ok(10)]);
        assert!(parse_whole_rate("1/d", Per::Hour).unwrap_err().contains("whole number per h"));
        assert_eq!((parse_rate_per_s("10"), parse_rate_per_s("18/h")), (Ok(10.0), Ok(0.005)));
        assert_eq!((parse_time_ns("2"), parse_time_ns("2us")), (Ok(2_000_000_000), Ok(2_000)));
    }

    #[test]
    fn moments_keep_every_nanosecond() {
        assert_eq!(rfc3339(1_795_356_306_000_000_001_u64), "2026-11-22T14:05:06.000000001Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(u64::MAX), rfc3339(i64::MAX));
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (12_345, "12.3 us"),
            (999_949, "1.00 ms"),
            (999_400, "999 us"),
            (4_051_980, "4.05 ms"),
            (1_000_000_000, "1.00 s"),
            (61_000_000_000, "61.0 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(
            (percent(1, 3), percent(1, 300), percent(0, 5), percent(1, 0)),
            ("33.3 %".into(), "0.333 %".into(), "0 %".into(), "-".into())
        );
    }
}
