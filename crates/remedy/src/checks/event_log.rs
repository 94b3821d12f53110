//! The event log of a baseboard controller: what it wrote down within a day, and is not over. Who reads the log is not this crate's.
//!
//! The log keeps its entries until somebody clears it, so that an old one says nothing of today. Its clock may be wrong: entries without a
//! date count as old and are told.

use super::Said;
use std::collections::BTreeMap;
use surefoot_model::CheckState;

/// How far back an entry counts.
const RECENT_S: u64 = 86_400;
/// The longest list that is read.
const LINES_MAX: usize = 20_000;

/// Words of an entry that mean that work or data are at stake. In small letters.
const CRITICAL: &[&str] = &[
    "uncorrectable",
    "non-recoverable",
    "bus fatal",
    "machine check",
    "ierr",
    "thermal trip",
    "critical interrupt",
    "parity",
];
/// Words of an entry that mean that somebody should look. In small letters.
const WARNING: &[&str] = &[
    "correctable",
    "failure",
    "failed",
    "fault",
    "critical",
    "redundancy lost",
    "redundancy degraded",
    "log full",
    "log area",
    "drive present deasserted",
    "power supply ac lost",
    "predictive",
    "hang",
];

/// Judges what `ipmitool -c sel elist` prints: number, date, time, sensor, event, direction.
pub fn judge(text: &str, now_realtime_ns: u64) -> Said {
    // The newest entry of each sensor and event is what counts: what was deasserted is over.
    let mut newest: BTreeMap<(String, String), (CheckState, u64, String)> = BTreeMap::new();
    let (mut undated, mut total) = (0_u64, 0_u64);
    let now_s = now_realtime_ns / 1_000_000_000;
    for line in text.lines().take(LINES_MAX) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [_, date, time, sensor, event, rest @ ..] = fields.as_slice() else { continue };
        total += 1;
        let state = severity(event, sensor);
        let Some(at) = seconds(date, time) else {
            undated += u64::from(state != CheckState::Ok);
            continue;
        };
        let is_recent = at.saturating_add(RECENT_S) >= now_s;
        let is_over = rest.first().is_some_and(|direction| direction.eq_ignore_ascii_case("deasserted"));
        let key = ((*sensor).to_owned(), (*event).to_owned());
        if is_over || !is_recent || state == CheckState::Ok {
            newest.remove(&key);
        } else {
            newest.insert(key, (state, at, format!("{date} {time} UTC {sensor}: {event}")));
        }
    }
    let worst = newest.values().max_by_key(|(state, at, _)| (*state, *at));
    let mut evidence: Vec<(CheckState, u64, String)> = newest.values().cloned().collect();
    evidence.sort_by_key(|(state, at, _)| std::cmp::Reverse((*state, *at)));
    let mut evidence: Vec<String> = evidence.into_iter().map(|(_, _, line)| line).collect();
    if undated > 0 {
        evidence.push(format!("{undated} entries of trouble have no date, and are taken for old"));
    }
    let said = match worst {
        Some((state, _, line)) => {
            Said::new(*state, format!("The baseboard controller wrote down in the last day: {line}."))
        }
        None => Said::new(
            CheckState::Ok,
            format!("None of {total} entries of the baseboard controller tells of trouble in the last day."),
        ),
    };
    said.with_evidence(evidence)
}

fn severity(event: &str, sensor: &str) -> CheckState {
    let text = format!("{sensor} {event}").to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // 'Correctable' is part of 'uncorrectable', and 'critical' of 'non-critical'.
    let without = text.replace("non-critical", "");
    match () {
        () if has(CRITICAL) => CheckState::Critical,
        () if WARNING.iter().any(|word| without.contains(word)) => CheckState::Warning,
        () => CheckState::Ok,
    }
}

/// Seconds since 1970 of `11/23/26` or `11/23/2026` and `08:14:46` (with ` UTC` or without).
fn seconds(date: &str, time: &str) -> Option<u64> {
    let numbers = |text: &str, separator| -> Option<[u64; 3]> {
        let parts: Option<Vec<u64>> = text.split(separator).map(|part| part.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let [month, day, year] = numbers(date, '/')?;
    let [hour, minute, second] = numbers(time.split(' ').next()?, ':')?;
    let year = if year < 100 { 2000 + year } else { year };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..3000).contains(&year) {
        return None;
    }
    // Years begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    // 719,468 days from the first of March of year 0 to 1970.
    Some(days.checked_sub(719_468)? * 86_400 + hour.min(23) * 3_600 + minute.min(59) * 60 + second.min(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23 12:00:00 UTC, by `date -u -d`.
    const NOW: u64 = 1_795_435_200 * 1_000_000_000;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(seconds("11/23/26", "12:00:00"), Some(1_795_435_200));
        assert_eq!(seconds("02/29/2024", "23:59:59 UTC"), Some(1_709_251_199));
        assert_eq!(seconds("01/01/70", "00:00:00"), None.or(seconds("01/01/2070", "00:00:00")));
        assert_eq!(seconds("Pre-Init", "0000000042"), None);
        assert_eq!(seconds("13/01/26", "00:00:00"), None);
    }

    #[test]
    fn what_is_old_or_over_is_not_told_and_the_worst_comes_first() {
        let text = "\
1,11/20/26,08:14:46,Memory DIMM_A1,Uncorrectable ECC,Asserted
2,11/23/26,08:00:00,Fan FAN3,Lower Critical going low,Asserted
3,11/23/26,08:14:48,Power Supply PS2,Failure detected,Asserted
4,11/23/26,08:20:00,Power Supply PS2,Failure detected,Deasserted
5,11/23/26,09:00:00,Memory DIMM_B2,Uncorrectable ECC,Asserted
6,Pre-Init,0000000042,Memory DIMM_B2,Correctable ECC,Asserted
7,11/23/26,09:00:00,Temperature T1,Upper Non-critical going high,Asserted
rubbish
";
        let said = judge(text, NOW);
        assert_eq!(said.state, CheckState::Critical);
        assert!(said.sentence.contains("DIMM_B2: Uncorrectable ECC"), "{}", said.sentence);
        assert_eq!(said.evidence.len(), 3, "{:?}", said.evidence);
        assert!(said.evidence[1].contains("FAN3") && said.evidence[2].contains("no date"), "{:?}", said.evidence);
        assert_eq!(judge("", NOW).state, CheckState::Ok);
        assert_eq!(judge(text, NOW + 2 * RECENT_S * 1_000_000_000).state, CheckState::Ok);
    }
}
