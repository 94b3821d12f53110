//! Dates of ipmitool's event log, which it prints as the caller's locale writes them (`%x`, `%X %Z`).
//!
//! `11/23/26` and `08:14:46 UTC` without a locale; `11/23/2026` and `08:14:46 AM CET` with `en_US`; `23/11/26`, `23.11.2026`,
//! `2026-11-23` with others. Which of two numbers between slashes is the month one date alone may not tell; all dates of a list
//! are in one order, so one date that can only be read in one way decides for all.

use super::{SECOND_NS, at_offset, nanoseconds, of_day, offset_s};
use surefoot_model::Digits;

/// The order of the numbers between slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As ipmitool writes without a locale.
    MonthFirst,
    /// As most locales write.
    DayFirst,
}

/// The date and time of a record, as far as they can be read without knowing the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    date: Date,
    /// Second of the day; `None` where the list has no time of day.
    second: Option<u64>,
    /// Seconds east of Greenwich; `None` where no zone is named.
    east_s: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Date {
    /// Year, month, day.
    Known(u64, u64, u64),
    /// Two numbers between slashes, and the year behind them.
    Slashes(u64, u64, u64),
}

/// Why a record has no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undated {
    /// The controller's clock was not set: ipmitool prints `Pre-Init`, `S+ …`, `Unspecified` or `Unknown`.
    NotSet,
    /// The zone is a word that means several zones, or none that is known.
    Zone,
    /// The date or the time of day is written in no way that is known.
    Form,
}

impl Stamp {
    /// Reads the date and the time of day of a record.
    ///
    /// # Errors
    /// Why the record has no time.
    pub fn read(date: &str, time: &str) -> Result<Stamp, Undated> {
        if ["Pre-Init", "S+", "Unspecified", "Unknown"].iter().any(|word| date.starts_with(word)) {
            return Err(Undated::NotSet);
        }
        let date = self::date(date).ok_or(Undated::Form)?;
        let mut words = time.split_whitespace();
        let Some(clock) = words.next() else { return Ok(Stamp { date, second: None, east_s: None }) };
        // ipmitool 1.8.19 prints the date twice with -v, and no time of day.
        if self::date(clock) == Some(date) {
            return Ok(Stamp { date, second: None, east_s: None });
        }
        let (mut second, _) = of_day(clock).ok_or(Undated::Form)?;
        let mut word = words.next();
        if let Some(is_afternoon) = word.and_then(half_of_day) {
            let hour = second / 3600;
            if !(1..=12).contains(&hour) {
                return Err(Undated::Form);
            }
            second = second % 3600 + (hour % 12 + if is_afternoon { 12 } else { 0 }) * 3600;
            word = words.next();
        }
        let east_s = word.map(|zone| offset_s(zone).ok_or(Undated::Zone)).transpose()?;
        if words.next().is_some() {
            return Err(Undated::Form);
        }
        Ok(Stamp { date, second: Some(second), east_s })
    }

    /// The order that this date shows, where it can be read in one way only.
    pub fn order(&self) -> Option<Order> {
        let Date::Slashes(first, second, _) = self.date else { return None };
        match (first <= 12, second <= 12) {
            (true, false) => Some(Order::MonthFirst),
            (false, true) => Some(Order::DayFirst),
            _ => None,
        }
    }

    /// Whether it needs the order of the list.
    pub fn needs_order(&self) -> bool {
        matches!(self.date, Date::Slashes(first, second, _) if first != second)
    }

    /// Nanoseconds since 1970; `None` for what is no date in this order. Without a zone it is read as UTC, without a time of day
    /// as the beginning of the day.
    pub fn realtime_ns(&self, order: Order) -> Option<u64> {
        let (year, month, day) = match (self.date, order) {
            (Date::Known(year, month, day), _) => (year, month, day),
            (Date::Slashes(month, day, year), Order::MonthFirst) => (year, month, day),
            (Date::Slashes(day, month, year), Order::DayFirst) => (year, month, day),
        };
        let local_ns = nanoseconds(year, month, day, 0)? + self.second.unwrap_or(0) * SECOND_NS;
        at_offset(local_ns, 0, self.east_s.unwrap_or(0))
    }

    /// Whether the list tells the time of day.
    pub fn has_time_of_day(&self) -> bool {
        self.second.is_some()
    }

    /// Whether the list names a zone.
    pub fn has_zone(&self) -> bool {
        self.east_s.is_some()
    }
}

/// Whether a text is written as a date.
pub fn is_date(text: &str) -> bool {
    Stamp::read(text, "") != Err(Undated::Form)
}

fn date(text: &str) -> Option<Date> {
    let separator = ['/', '.', '-'].into_iter().find(|&separator| text.contains(separator))?;
    // Some locales end a date with a point.
    let parts: Vec<&str> = text.trim_end_matches('.').split(separator).map(str::trim).collect();
    let &[first, second, third] = parts.as_slice() else { return None };
    let (numbers, lengths) = ([first.digits()?, second.digits()?, third.digits()?], [first.len(), third.len()]);
    let [one, two, three] = numbers;
    if lengths[0] == 4 {
        return Some(Date::Known(one, two, three));
    }
    let year = match lengths[1] {
        4 => three,
        // As strptime reads %y.
        2 => three + if three < 69 { 2000 } else { 1900 },
        _ => return None,
    };
    match separator {
        '/' => Some(Date::Slashes(one, two, year)),
        '.' => Some(Date::Known(year, two, one)),
        // 23-11-2026 is a day first; 26-11-23 may be either.
        _ => (lengths[1] == 4).then_some(Date::Known(year, two, one)),
    }
}

/// Whether a word says that it is after noon; `None` for another word.
fn half_of_day(word: &str) -> Option<bool> {
    let letters: String = word.chars().filter(|&letter| letter != '.').collect();
    match letters.to_ascii_lowercase().as_str() {
        "am" => Some(false),
        "pm" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::iso;
    use super::*;
    use proptest::prelude::*;

    fn read(date: &str, time: &str) -> Option<u64> {
        let stamp = Stamp::read(date, time).unwrap();
        stamp.realtime_ns(stamp.order().unwrap_or(Order::MonthFirst))
    }

    #[test]
    fn every_locale_s_way_to_write_a_time_is_read() {
        for (date, time, expected) in [
            ("11/23/26", "08:00:00 UTC", "2026-11-23T08:00:00Z"),
            ("11/23/2026", "08:00:00", "2026-11-23T08:00:00Z"),
            ("11/20/2026", "11:40:35 PM UTC", "2026-11-20T23:40:35Z"),
            ("11/21/2026", "12:05:00 AM UTC", "2026-11-21T00:05:00Z"),
            ("11/21/2026", "12:05:00 PM UTC", "2026-11-21T12:05:00Z"),
            ("11/21/2026", "01:05:00 a.m. EST", "2026-11-21T06:05:00Z"),
            ("11/21/2026", "08:05:00 AM", "2026-11-21T08:05:00Z"),
            ("23/11/26", "09:00:00 CET", "2026-11-23T08:00:00Z"),
            ("23.11.2026", "09:00:00 CET", "2026-11-23T08:00:00Z"),
            ("03.04.26", "09:00:00 +03", "2026-04-03T06:00:00Z"),
            ("2026-11-23", "08:00:00 GMT", "2026-11-23T08:00:00Z"),
            ("23-11-2026", "08:00:00 GMT", "2026-11-23T08:00:00Z"),
            ("04/03/26", "08:00:00 UTC", "2026-04-03T08:00:00Z"),
            ("11/23/26", "11/23/26", "2026-11-23T00:00:00Z"),
        ] {
            assert_eq!(read(date, time), iso(expected), "{date} {time}");
        }
        assert_eq!(read("01/01/70", "00:00:12 UTC"), Some(12 * SECOND_NS), "a clock that was not set");
    }

    #[test]
    fn what_cannot_be_dated_says_why() {
        for (date, time, why) in [
            ("Pre-Init", "0000000012", Undated::NotSet),
            ("S+ 00/001", "00:00:12 UTC", Undated::NotSet),
            ("Unspecified", "Unspecified", Undated::NotSet),
            ("11/20/2026", "11:40:35 CST", Undated::Zone),
            ("11/20/2026", "13:40:35 PM UTC", Undated::Form),
            ("11/20/2026", "00:40:35 AM UTC", Undated::Form),
            ("11/20/2026", "11:40:35 PM UTC 5", Undated::Form),
            ("11/20/2026", "later", Undated::Form),
            ("26-11-23", "08:00:00 UTC", Undated::Form),
            ("+1/20/2026", "08:00:00 UTC", Undated::Form),
            ("11/20/20266", "08:00:00 UTC", Undated::Form),
            ("11/20", "08:00:00 UTC", Undated::Form),
        ] {
            assert_eq!(Stamp::read(date, time), Err(why), "{date} {time}");
        }
        let stamp = Stamp::read("31/31/26", "08:00:00 UTC").unwrap();
        assert_eq!((stamp.order(), stamp.realtime_ns(Order::MonthFirst)), (None, None));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC*", date in "[0-9/. -]{0,12}", time in "[0-9:APMUTC. +]{0,20}") {
            for (date, time) in [(&text, &text), (&date, &time)] {
                if let Ok(stamp) = Stamp::read(date, time) {
                    let _ = (stamp.order(), stamp.realtime_ns(Order::DayFirst), stamp.realtime_ns(Order::MonthFirst));
                }
            }
        }
    }
}
