//! Sizes, times and dates as people read them.

/// Three digits and a decimal unit: `1.23 GB`.
pub fn size(bytes: f64) -> String {
    const UNITS: [(&str, f64); 6] = [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("PB", 1e15)];
    let unit = UNITS.iter().rev().find(|unit| bytes >= unit.1 * 0.9995).unwrap_or(&UNITS[0]);
    match unit.0 {
        "B" => format!("{bytes:.0} B"),
        name => format!("{} {name}", three(bytes / unit.1)),
    }
}

/// Three digits and a unit from seconds to years.
pub fn time(seconds: f64) -> String {
    const UNITS: [(&str, f64); 5] = [("s", 1.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("y", 31_557_600.0)];
    if !seconds.is_finite() {
        return "never".into();
    }
    // 90 s are read more easily than 1.5 min.
    let unit = UNITS.iter().rev().find(|unit| seconds >= unit.1 * 1.995).unwrap_or(&UNITS[0]);
    format!("{} {}", three(seconds / unit.1), unit.0)
}

/// How long ago something was: `5.00 min old`, or how far from the future it is.
pub fn moment(age_s: f64) -> String {
    match age_s < 0.0 {
        true => format!("{} in the future", time(-age_s)),
        false => format!("{} old", time(age_s)),
    }
}

fn three(value: f64) -> String {
    let digits = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A share as percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A moment in UTC: `2026-11-22 00:31:05`.
pub fn utc(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{} {hour:02}:{minute:02}:{second:02}", date(seconds / 86_400))
}

/// The date so many days after 1970-01-01. The days of 400 years are a fixed number, and years begin in March, so that
/// the leap day is the last of a year.
pub fn date(days: u64) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_779, "2026-11-22"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), text);
        }
        assert_eq!(utc(86_399_000_000_000), "1970-01-01 23:59:59");
    }

    #[test]
    fn sizes_and_times_have_three_digits() {
        assert_eq!((size(64e9), size(999.0), size(999_900.0)), ("64.0 GB".into(), "999 B".into(), "1.00 MB".into()));
        assert_eq!((time(90.0), time(8421.0), time(f64::INFINITY)), ("90.0 s".into(), "2.34 h".into(), "never".into()));
    }
}
