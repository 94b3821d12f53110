//! Times as logs write them.

use surefoot_model::one_line;

const SECOND_NS: u64 = 1_000_000_000;
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

/// A date and a time of day, UTC, in nanoseconds since 1970; `None` for what is no date or lies outside 1970 to 2261.
fn nanoseconds(year: u64, month: u64, day: u64, second_of_day: u64) -> Option<u64> {
    if !(1970..=2261).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
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

/// `HH:MM:SS`, with a fraction after `.` or `,`: seconds and nanoseconds of the day.
fn of_day(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let mut parts = whole.split(':').map(|part| if part.len() == 2 { part.parse::<u64>().ok() } else { None });
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let digits: String = fraction.chars().take(9).collect();
    let nanoseconds = if digits.is_empty() { 0 } else { format!("{digits:0<9}").parse().ok()? };
    Some((hour * 3600 + minute * 60 + second, nanoseconds))
}

/// `2026-11-23 08:00:00 +0000`, `2026-11-23T08:00:00.123456+01:00`, `…Z`: date, time, and the offset where there is one.
pub fn iso(text: &str) -> Option<u64> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b' ' | b'T') {
        return None;
    }
    let mut parts = date.split('-');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let end = rest.find(['+', '-', 'Z', ' ']).unwrap_or(rest.len());
    let (second, fraction) = of_day(&rest[..end])?;
    let local = nanoseconds(year, month, day, second)?;
    let utc = i128::from(local) - i128::from(offset_s(rest[end..].trim())?) * i128::from(SECOND_NS);
    u64::try_from(utc + i128::from(fraction)).ok()
}

/// Seconds east of Greenwich: `+0100`, `-01:00`, `Z`, or nothing.
fn offset_s(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first() {
        None | Some(b'Z') => return Some(0),
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|&letter| letter != ':').collect();
    let number: i64 = if digits.len() == 4 { digits.parse().ok()? } else { return None };
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

/// `11/23/26` or `11/23/2026`, and `08:14:46 UTC`, as ipmitool writes them. Without a zone the time is that of the controller,
/// and taken for UTC.
pub(super) fn sel(date: &str, time: &str) -> Option<u64> {
    let mut parts = date.split('/');
    let mut next = || parts.next()?.trim().parse::<u64>().ok();
    let (month, day, year) = (next()?, next()?, next()?);
    let year = if year < 100 { 2000 + year } else { year };
    let (second, _) = of_day(time.split_whitespace().next()?)?;
    nanoseconds(year, month, day, second)
}

/// What stands before the kernel's words, and when that was; 0 where it dates nothing. Gives the words.
pub(super) fn kernel<'a>(line: &'a str, clock: &Clock) -> (u64, &'a str) {
    let line = line.trim_start();
    // `dmesg -x`: kern  :warn  : [    1.2]
    let line = line.strip_prefix("kern").and_then(|rest| rest.find('[').map(|at| &rest[at..])).unwrap_or(line);
    // Without a stamp a line may begin with a bracket of its own: `[Hardware Error]`.
    if let Some((stamp, words)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && let Some(at_ns) = bracket(stamp.trim(), clock)
    {
        return (at_ns, words.trim_start());
    }
    // ISO: journalctl -o short-iso, rsyslog, dmesg --time-format iso.
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    if let Some(at_ns) = iso(&first.replace(',', ".")) {
        return (at_ns, after_host(rest));
    }
    if let Some((at_ns, rest)) = syslog(line, clock) {
        return (at_ns, after_host(rest));
    }
    (0, line)
}

/// `12.345678` seconds since boot, or `Mon Nov 23 08:00:00 2026` (`dmesg -T`, whose times are local and taken for UTC). `None`
/// for what is no stamp; 0 where the boot is not known.
fn bracket(stamp: &str, clock: &Clock) -> Option<u64> {
    if let Some((seconds, fraction)) = stamp.split_once('.') {
        let digits: String = fraction.chars().take(9).collect();
        let seconds = seconds.trim().parse::<u64>().ok()?;
        let fraction = format!("{digits:0<9}").parse::<u64>().ok()?;
        let since_boot = seconds.checked_mul(SECOND_NS).and_then(|ns| ns.checked_add(fraction));
        let booted = clock.booted_realtime_ns;
        return Some(booted.zip(since_boot).and_then(|(booted, since)| booted.checked_add(since)).unwrap_or(0));
    }
    let words: Vec<&str> = stamp.split_whitespace().collect();
    let &[_, month, day, time, year] = words.as_slice() else { return None };
    let (month, (second, _)) = (month_of(month)?, of_day(time)?);
    nanoseconds(year.parse().ok()?, month, day.parse().ok()?, second)
}

fn month_of(word: &str) -> Option<u64> {
    MONTHS.iter().position(|month| *month == word).map(|place| place as u64 + 1)
}

/// `Nov 23 08:00:00 `: the youngest year that does not lie after now.
fn syslog<'a>(line: &'a str, clock: &Clock) -> Option<(u64, &'a str)> {
    let (month, rest) = line.split_once(' ')?;
    let (day, rest) = rest.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    let (month, day, (second, fraction)) = (month_of(month)?, day.parse().ok()?, of_day(time)?);
    if clock.now_realtime_ns == 0 {
        return Some((0, rest));
    }
    // A day for clocks that are ahead and zones that are not told.
    let latest = clock.now_realtime_ns.saturating_add(86_400 * SECOND_NS);
    let year = 1970 + clock.now_realtime_ns / (SECOND_NS * 31_556_952);
    let years = [year + 1, year, year - 1];
    let at_ns = years.into_iter().filter_map(|year| nanoseconds(year, month, day, second)).find(|&ns| ns <= latest);
    Some((at_ns.unwrap_or(0).saturating_add(fraction), rest))
}

/// What follows `host kernel: `, and after it the seconds since boot that rsyslog leaves in.
fn after_host(rest: &str) -> &str {
    let words = ["kernel: ", "mcelog: "].iter().find_map(|tag| {
        rest.find(tag).filter(|&at| rest[..at].matches(' ').count() <= 2).map(|at| &rest[at + tag.len()..])
    });
    let words = words.unwrap_or(rest).trim_start();
    match words.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((stamp, after)) if stamp.trim().parse::<f64>().is_ok() => after.trim_start(),
        _ => words,
    }
}

/// Why a time that a person gives is none.
pub fn not_iso(text: &str) -> String {
    format!("'{}' is no time such as 2026-11-23T08:00:00Z", one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // `date -u -d '2026-11-23 08:00:00' +%s`.
    const AT: u64 = 1_795_420_800 * SECOND_NS;

    fn clock() -> Clock {
        Clock { now_realtime_ns: AT + 3600 * SECOND_NS, booted_realtime_ns: Some(AT - 100 * SECOND_NS) }
    }

    #[test]
    fn every_way_to_write_a_time_is_read() {
        assert_eq!(iso("2026-11-23 08:00:00 +0000"), Some(AT));
        assert_eq!(iso("2026-11-23T09:00:00+01:00"), Some(AT));
        assert_eq!(iso("2026-11-23T08:00:00Z"), Some(AT));
        assert_eq!(iso("2026-11-23T08:00:00.5"), Some(AT + SECOND_NS / 2));
        assert_eq!(sel("11/23/26", "08:00:00 UTC"), Some(AT));
        assert_eq!(sel("11/23/2026", "08:00:00"), Some(AT));
        for line in [
            "[  100.000000] words",
            "[Mon Nov 23 08:00:00 2026] words",
            "Nov 23 08:00:00 host kernel: words",
            "Nov 23 08:00:00 host kernel: [   99.123456] words",
            "2026-11-23T08:00:00+0000 host kernel: words",
            "2026-11-23T08:00:00,000000+00:00 words",
            "kern  :warn  : [  100.000000] words",
        ] {
            assert_eq!(kernel(line, &clock()), (AT, "words"), "{line}");
        }
    }

    #[test]
    fn a_line_of_december_that_is_read_in_january_is_of_last_year() {
        let january = Clock { now_realtime_ns: iso("2027-01-02T00:00:00Z").unwrap(), booted_realtime_ns: None };
        assert_eq!(kernel("Dec 31 08:00:00 host kernel: x", &january).0, iso("2026-12-31T08:00:00Z").unwrap());
        assert_eq!(kernel("Jan  1 08:00:00 host kernel: x", &january).0, iso("2027-01-01T08:00:00Z").unwrap());
    }

    #[test]
    fn what_dates_nothing_is_0_and_the_words_stay() {
        assert_eq!(kernel("[  100.5] words", &Clock::default()), (0, "words"));
        assert_eq!(kernel("words", &clock()), (0, "words"));
        assert_eq!(kernel("[Hardware Error]: words", &clock()), (0, "[Hardware Error]: words"));
        assert_eq!(iso("2026-13-23 08:00:00"), None);
        assert_eq!(iso("2026-11-23 08:00:00 CET"), None);
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC*", dates in "[0-9:/TZ.,+ \\[\\]-]{0,40}") {
            let _ = (kernel(&text, &clock()), kernel(&dates, &clock()), iso(&text), iso(&dates), sel(&dates, &dates));
        }
    }
}
