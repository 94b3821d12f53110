//! The one grammar of times and sizes, in options, settings and files.

use std::time::Duration;

/// Beyond this nothing is a size or a time any more, and sums stay finite.
pub const NUMBER_MAX: f64 = 1e21;

/// As [`parse_duration`], for times that nobody means in less than seconds: a number alone is seconds, as for sleep(1).
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_bare { parse_duration(&format!("{text}s")) } else { parse_duration(text) }
}

/// Reads `10s`, `1.5ms`, `20us`, `100ns`, `5min`, `2h`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write a number and a unit, such as 10s, 1.5ms, 20us, 100ns, 5min, 2h or 7d";
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let seconds_per_unit = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "" => return Err(format!("'{text}' has no unit; {FORM}")),
        _ => return Err(format!("'{unit}' is not a unit of time; {FORM}")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a duration; {FORM}"))?;
    let duration = Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|_| format!("'{text}' is longer than can be counted"))?;
    if duration.is_zero() {
        return Err(format!("'{text}' is zero; {FORM}"));
    }
    Ok(duration)
}

/// As [`parse_time`], in seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    parse_time(text).map(|time| time.as_secs_f64())
}

/// As [`parse_seconds`]; infinite for `none`.
pub fn parse_seconds_or_none(text: &str) -> Result<f64, String> {
    if text == "none" { Ok(f64::INFINITY) } else { parse_seconds(text).map_err(|why| format!("{why}, or none")) }
}

/// As [`parse_duration`], in nanoseconds.
pub fn parse_ns(text: &str) -> Result<u64, String> {
    u64::try_from(parse_duration(text)?.as_nanos()).map_err(|_| format!("'{text}' is longer than can be counted"))
}

/// Reads `500B`, `64e9`, `64GB`, `8GiB`, `14.6PB`.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn parse_bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 12] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("PiB", 1_125_899_906_842_624.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let form = "write a number and a unit, such as 64GB, 8GiB, 14.6PB or 512B";
    // 64 may be meant for gigabytes; who writes 64e9 means bytes.
    if unit.is_none() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.is_empty() {
        return Err(format!("'{text}' has no unit; {form}"));
    }
    let (number, factor) = unit.unwrap_or((text, &1.0));
    let number = number.trim_end();
    let number: Option<f64> = number.parse().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= NUMBER_MAX);
    let bytes = number.ok_or_else(|| format!("'{text}' is not a size; {form}"))? * factor;
    if bytes <= NUMBER_MAX { Ok(bytes) } else { Err(format!("'{text}' is more than can be planned; {form}")) }
}

/// A time as [`parse_duration`] reads it, exactly: in the largest unit of which it is a whole number.
pub fn time_text(time: Duration) -> String {
    const UNITS: [(u128, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let ns = time.as_nanos();
    let fits = UNITS.iter().find(|(unit, _)| ns >= *unit && ns.is_multiple_of(*unit));
    fits.map_or("0s".to_owned(), |(unit, name)| format!("{}{name}", ns / unit))
}

/// A size as [`parse_bytes`] reads it, exactly.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_ns("20us"), Ok(20_000));
        assert_eq!(parse_ns("1ns"), Ok(1));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(
            (parse_duration("5min"), parse_duration("5m")),
            (Ok(Duration::from_secs(300)), Ok(Duration::from_secs(300)))
        );
        assert_eq!(
            (parse_time("5"), parse_time("0.5"), parse_time("5ms")),
            (parse_time("5s"), parse_time("500ms"), parse_duration("5ms"))
        );
        assert!(
            parse_time("").is_err() && parse_time("0").is_err() && parse_time(".").is_err() && parse_ns("5").is_err()
        );
        assert_eq!((parse_seconds("1h"), parse_seconds_or_none("none")), (Ok(3600.0), Ok(f64::INFINITY)));
        assert!(
            parse_seconds("1e3").is_err() && parse_seconds_or_none("never").is_err_and(|why| why.contains("or none"))
        );
    }

    #[test]
    fn what_is_no_duration_says_what_would_be() {
        for text in ["", "10", "s", "-1s", "1.2.3s", "10 s", "0s", "5weeks", "1e9s", "nans", "infs"] {
            let error = parse_duration(text).expect_err(text);
            assert!(error.contains("such as 10s"), "{text}: {error}");
        }
        assert!(parse_duration("999999999999999999999999s").is_err());
        assert!(parse_ns("999999999d").is_err());
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in
            [("500B", 500.0), ("64e9", 64e9), ("64GB", 64e9), ("1.5 MiB", 1_572_864.0), ("14.6PB", 14.6e15)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "GB", "-1", "0", "64", "1.5", "nan", "inf", "1e300", "1e20TB", "5XB", "5 G"] {
            assert!(parse_bytes(text).expect_err(text).contains("such as 64GB"), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for (time, text) in [
            (Duration::from_millis(1_500), "1500ms"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_secs(86_400), "1d"),
        ] {
            assert_eq!((time_text(time).as_str(), parse_duration(text)), (text, Ok(time)));
        }
        for (bytes, text) in [(256 << 20, "256MiB"), (1_000, "1000B"), (3 << 40, "3TiB")] {
            assert_eq!((bytes_text(bytes).as_str(), parse_bytes(text)), (text, Ok(bytes as f64)));
        }
    }
}
