//! The event log of a baseboard controller: what it wrote down within a day, and is not over. Who reads the log is not this crate's.
//!
//! The log keeps its entries until somebody clears it, so that an old one says nothing of today. Its clock may be wrong: an entry without
//! a date is old where an old one stands below it, and otherwise may be of today. What cannot be read or judged makes the answer unknown.

use super::Said;
use std::collections::BTreeMap;
use surefoot_hostfs::stamp::Clock;
use surefoot_hostfs::stamp::event_log::{Order, Stamp};
use surefoot_model::CheckState;

/// How far back an entry counts.
const RECENT_NS: u64 = 86_400 * 1_000_000_000;
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
    "predictive failure asserted",
    "hang",
    "transition to non-critical from ok",
];
/// Words of an entry in which nothing is wrong. In small letters.
const FINE: &[&str] = &[
    "presence detected",
    "present",
    "device inserted",
    "device installed",
    "device removed",
    "device absent",
    "device enabled",
    "fully redundant",
    "transition to ok",
    "transition to running",
    "transition to active",
    "transition to idle",
    "transition to busy",
    "transition to on line",
    "transition to power save",
    "transition to non-critical from more severe",
    "state deasserted",
    "predictive failure deasserted",
    "limit not exceeded",
    "performance met",
    "monitor",
    "informational",
    "spare device",
    "non-critical going",
    "boot",
    "initiated by",
    "power off/down",
    "power cycle",
    "power button",
    "sleep button",
    "system restart",
    "system reconfigured",
    "timestamp clock sync",
    "initialization",
    "starting",
    "version change",
    "log almost full",
    "s0/g0",
    "s4/s5",
    "s5/g2",
    "g3/mechanical off",
    "legacy on",
    "legacy off",
];

/// Judges what `ipmitool -c sel elist` prints in UTC and without a locale: number, date, time, sensor, event, direction.
pub fn judge(text: &str, now_realtime_ns: u64) -> Said {
    let mut found = Found::default();
    let clock = Clock { now_realtime_ns, booted_realtime_ns: None };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.by_ref().take(LINES_MAX).for_each(|line| found.take(line, &clock));
    found.unread_count += lines.count() as u64;
    found.said()
}

/// An entry of trouble: its state, when it was, and itself in words.
type Trouble = (CheckState, u64, String);

#[derive(Debug, Default)]
struct Found {
    /// The newest entry of each sensor and event is what counts: what was deasserted is over.
    newest: BTreeMap<(String, String), Trouble>,
    /// Entries of trouble without a date, below which none stands that is known to be old.
    undated: BTreeMap<(String, String), String>,
    total_count: u64,
    unread_count: u64,
}

impl Found {
    fn take(&mut self, line: &str, clock: &Clock) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let &[_, date, time, sensor, event, ref rest @ ..] = fields.as_slice() else {
            self.unread_count += 1;
            return;
        };
        self.total_count += 1;
        let state = severity(event, sensor);
        let key = (sensor.to_owned(), event.to_owned());
        let is_over = rest.first().is_some_and(|direction| direction.eq_ignore_ascii_case("deasserted"));
        let at_ns = Stamp::read(date, time).ok().and_then(|stamp| stamp.realtime_ns(Order::MonthFirst));
        let at_ns = at_ns.filter(|&at_ns| clock.is_plausible(at_ns));
        let is_old = at_ns.is_some_and(|at_ns| at_ns.saturating_add(RECENT_NS) < clock.now_realtime_ns);
        if is_old {
            // What stands above it is as old.
            self.undated.clear();
        }
        if is_over || is_old || state == CheckState::Ok {
            self.newest.remove(&key);
            self.undated.remove(&key);
            return;
        }
        match at_ns {
            Some(at_ns) => _ = self.newest.insert(key, (state, at_ns, format!("{date} {time} {sensor}: {event}"))),
            None => _ = self.undated.insert(key, format!("without a date: {sensor}: {event}")),
        }
    }

    fn said(self) -> Said {
        let total = self.total_count;
        let mut troubles: Vec<Trouble> = self.newest.into_values().collect();
        troubles.sort_by_key(|(state, at_ns, _)| std::cmp::Reverse((*state, *at_ns)));
        let worst = troubles.first().cloned();
        let mut evidence: Vec<String> = troubles.into_iter().map(|(_, _, line)| line).collect();
        let undated_count = self.undated.len();
        evidence.extend(self.undated.into_values());
        if self.unread_count > 0 {
            evidence.push(format!("lines that are not entries of an event log: {}", self.unread_count));
        }
        let said = match worst {
            Some((CheckState::Unknown, _, line)) => Said::unknown(format!(
                "The baseboard controller's log has an entry of the last day that Surefoot does not know: {line}. Look it up in \
                 the manual of the machine"
            )),
            Some((state, _, line)) => {
                Said::new(state, format!("The baseboard controller wrote down in the last day: {line}."))
            }
            None if undated_count > 0 => Said::unknown(format!(
                "{undated_count} of {total} entries of the baseboard controller's log have no date and may be of the last day: set \
                 its clock and clear the log once they are dealt with"
            )),
            None if self.unread_count > 0 => Said::unknown(format!(
                "{} lines of the baseboard controller's log cannot be read: run `ipmitool -c sel elist` to see them",
                self.unread_count
            )),
            None => Said::new(
                CheckState::Ok,
                format!("None of {total} entries of the baseboard controller tells of trouble in the last day."),
            ),
        };
        said.with_evidence(evidence)
    }
}

fn severity(event: &str, sensor: &str) -> CheckState {
    let (event, sensor) = (event.to_ascii_lowercase(), sensor.to_ascii_lowercase());
    let text = format!("{sensor} {event}");
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // 'Correctable' is part of 'uncorrectable', and 'critical' of 'non-critical'.
    let without = text.replace("non-critical going", "").replace("non-critical from more severe", "");
    match () {
        () if has(CRITICAL) => CheckState::Critical,
        () if WARNING.iter().any(|word| without.contains(word)) => CheckState::Warning,
        () if FINE.iter().any(|word| event.contains(word)) => CheckState::Ok,
        () => CheckState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23 12:00:00 UTC, by `date -u -d`.
    const NOW: u64 = 1_795_435_200 * 1_000_000_000;

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
";
        let said = judge(text, NOW);
        assert_eq!(said.state, CheckState::Critical);
        assert!(said.sentence.contains("DIMM_B2: Uncorrectable ECC"), "{}", said.sentence);
        assert_eq!(said.evidence.len(), 3, "{:?}", said.evidence);
        assert!(
            said.evidence[1].contains("FAN3") && said.evidence[2].contains("without a date"),
            "{:?}",
            said.evidence
        );
        assert_eq!(judge("", NOW).state, CheckState::Ok);
        // Two days later all of it is old, also the entry without a date, above which one stands that has one.
        assert_eq!(judge(text, NOW + 2 * RECENT_NS).state, CheckState::Ok);
    }

    #[test]
    fn what_cannot_be_read_dated_or_judged_is_not_taken_for_fine() {
        for (text, state) in [
            ("rubbish\n", CheckState::Unknown),
            ("6,Pre-Init,0000000042,Memory DIMM_B2,Correctable ECC,Asserted\n", CheckState::Unknown),
            ("6,01/01/70,00:00:42 UTC,Memory DIMM_B2,Correctable ECC,Asserted\n", CheckState::Unknown),
            ("6,Pre-Init,0000000042,Memory DIMM_B2,Presence detected,Asserted\n", CheckState::Ok),
            ("6,11/23/26,08:00:00 UTC,Module / Board MB,Quantum foam,Asserted\n", CheckState::Unknown),
            ("6,11/01/26,08:00:00 UTC,Module / Board MB,Quantum foam,Asserted\n", CheckState::Ok),
            (
                "6,11/23/26,08:00:00 UTC,Memory Mem ECC Warning,Transition to Non-critical from OK,Asserted\n",
                CheckState::Warning,
            ),
            ("6,11/23/26,08:00:00 UTC,Memory Mem ECC Warning,Transition to OK,Asserted\n", CheckState::Ok),
            // A clock of twelve hours: a day ago at eleven is more than a day, at twenty-three less.
            ("6,11/22/2026,11:00:00 AM UTC,Memory DIMM_B2,Uncorrectable ECC,Asserted\n", CheckState::Ok),
            ("6,11/22/2026,11:00:00 PM UTC,Memory DIMM_B2,Uncorrectable ECC,Asserted\n", CheckState::Critical),
        ] {
            assert_eq!(judge(text, NOW).state, state, "{text}");
        }
        let known = "5,11/23/26,09:00:00,Memory DIMM_B2,Uncorrectable ECC,Asserted\nrubbish\n";
        let said = judge(known, NOW);
        assert_eq!(said.state, CheckState::Critical, "what is worse goes first");
        assert!(said.evidence.iter().any(|line| line.contains("not entries")), "{:?}", said.evidence);
    }
}
