//! Durations, shares and moments, as people write and read them.

pub use surefoot_model::units::{parse_duration, parse_ns, parse_seconds, parse_seconds_or_none, parse_time};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

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
