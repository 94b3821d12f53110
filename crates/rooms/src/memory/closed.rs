//! The words for a fault that was closed.

use surefoot_model::{Dimm, counted};
use time::{Date, OffsetDateTime};

/// When the fault of a module was closed, and whether errors came back; `None` if it never was.
pub fn closed_words(dimm: &Dimm) -> Option<String> {
    let closed = dimm.closed.as_ref()?;
    let times = match closed.closed_count {
        0 | 1 => String::new(),
        count => format!(" ({} closing)", ordinal(count)),
    };
    let back = match closed.back_realtime_ns {
        None => String::new(),
        Some(at_ns) => {
            let after = passed(at_ns.saturating_sub(closed.closed_realtime_ns));
            let count = match closed.back_count {
                0 | 1 => String::new(),
                count => format!("; {} time", ordinal(count)),
            };
            format!("; came back after {after}{count}")
        }
    };
    Some(format!("closed {} as {}{times}{back}", date(closed.closed_realtime_ns), closed.closing.as_str()))
}

fn date(realtime_ns: u64) -> Date {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(realtime_ns));
    moment.unwrap_or(OffsetDateTime::UNIX_EPOCH).date()
}

/// A length of time in its largest unit.
fn passed(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..120 => counted(seconds, "second", "seconds"),
        120..7_200 => counted(seconds / 60, "minute", "minutes"),
        7_200..172_800 => counted(seconds / 3_600, "hour", "hours"),
        _ => counted(seconds / 86_400, "day", "days"),
    }
}

fn ordinal(count: u32) -> String {
    match count {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        count => {
            let ending = match (count % 100, count % 10) {
                (11..=13, _) => "th",
                (_, 1) => "st",
                (_, 2) => "nd",
                (_, 3) => "rd",
                _ => "th",
            };
            format!("{count}{ending}")
        }
    }
}
