//! The event log of a baseboard controller: what it wrote down within a day, and is not over. Who reads the log is not this crate's.
//!
//! The log keeps its entries until somebody clears it, so that an old one says nothing of today. Its clock may be wrong: an entry without
//! a date is old where an old one stands below it, and otherwise may be of today. The list is in order, so that its order decides and not the
//! clock: what stands below an entry of the last day is of the last day, too. What cannot be read or judged makes the answer unknown.

use super::Said;
use std::collections::BTreeMap;
use surefoot_hostfs::stamp::Clock;
use surefoot_hostfs::stamp::event_log::{Order, Stamp};
use surefoot_model::CheckState;

/// How far back an entry counts.
const RECENT_NS: u64 = 86_400 * 1_000_000_000;
/// By how much an entry may be older than the one above it: clocks are set to another zone, or corrected a little.
const SET_BACK_NS: u64 = 26 * 3_600 * 1_000_000_000;
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
/// Sensors whose every entry means that somebody should look, but for the ends of one: a watchdog that fired, a start that failed.
/// In small letters.
const TELLTALES: &[&str] = &["watchdog", "boot error"];
/// How an entry begins or ends in which nothing is wrong. In small letters.
const FINE: &[&str] = &[
    "presence detected",
    "present",
    "drive present",
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
    "informational",
    "spare device",
    "non-critical going high",
    "non-critical going low",
    "boot completed",
    "boot to diagnostic",
    "requested pxe boot",
    "os initiated hard reset",
    "installation started",
    "installation completed",
    "initiated by",
    "power off/down",
    "power cycle",
    "power button",
    "sleep button",
    "system restart",
    "system reconfigured",
    "timestamp clock sync",
    "initialization",
    "starting operating system boot process",
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
    let mut found = LogSummary::default();
    let clock = Clock { now_realtime_ns, booted_realtime_ns: None };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.by_ref().take(LINES_MAX).for_each(|line| found.take(line, &clock));
    found.unread_count += lines.count() as u64;
    found.said()
}

/// An entry of trouble: its state, when it was, and itself in words.
type Trouble = (CheckState, u64, String);

#[derive(Debug, Default)]
struct LogSummary {
    /// The newest entry of each sensor and event is what counts: what was deasserted is over.
    newest: BTreeMap<(String, String), Trouble>,
    /// Entries of trouble without a date, below which none stands that is known to be old.
    undated: BTreeMap<(String, String), String>,
    /// The latest date so far.
    latest_ns: u64,
    total_count: u64,
    unread_count: u64,
}

impl LogSummary {
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
        // The list is in order: a clock that began anew, after its battery was empty, says nothing of the day.
        let is_in_order = |at_ns: u64| at_ns.saturating_add(SET_BACK_NS) >= self.latest_ns;
        let at_ns = at_ns.filter(|&at_ns| clock.is_plausible(at_ns) && is_in_order(at_ns));
        self.latest_ns = self.latest_ns.max(at_ns.unwrap_or(0));
        let is_old = at_ns.is_some() && self.latest_ns.saturating_add(RECENT_NS) < clock.now_realtime_ns;
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
            Some(at_ns) if self.newest.get(&key).is_none_or(|(_, known_ns, _)| *known_ns <= at_ns) => {
                self.newest.insert(key, (state, at_ns, format!("{date} {time} {sensor}: {event}")));
            }
            Some(_) => {}
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
        () if TELLTALES.iter().any(|word| sensor.contains(word)) => CheckState::Warning,
        () if FINE.iter().any(|words| is_at_an_end(&event, words)) => CheckState::Ok,
        () => CheckState::Unknown,
    }
}

/// Whether an entry begins or ends with these words, and not within a word.
fn is_at_an_end(event: &str, words: &str) -> bool {
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    event.strip_prefix(words).is_some_and(|rest| !is_word(rest.chars().next()))
        || event.strip_suffix(words).is_some_and(|rest| !is_word(rest.chars().next_back()))
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
    fn a_fired_watchdog_and_a_failed_start_are_not_fine() {
        for (sensor, event, state) in [
            ("Watchdog2 OS Watchdog", "Power cycle", CheckState::Warning),
            ("Watchdog2 OS Watchdog", "Hard reset", CheckState::Warning),
            ("Boot Error BE1", "No bootable media", CheckState::Warning),
            ("Boot Error BE1", "Non-bootable disk in drive", CheckState::Warning),
            ("Module / Board MB", "Reboot loop", CheckState::Unknown),
            ("Management Subsystem Health BMC", "Monitor lost", CheckState::Unknown),
            ("Module / Board MB", "Not present", CheckState::Ok),
            ("Module / Board MB", "Represented", CheckState::Unknown),
            ("Power Unit PU", "Power cycle", CheckState::Ok),
            ("Power Unit PU", "Power off/down", CheckState::Ok),
            ("OS Boot OS", "C: boot completed", CheckState::Ok),
            ("System Boot Initiated SB", "Initiated by power up", CheckState::Ok),
            ("System ACPI Power State ACPI", "S0/G0: working", CheckState::Ok),
        ] {
            assert_eq!(severity(event, sensor), state, "{sensor}: {event}");
        }
    }

    #[test]
    fn entries_of_a_clock_that_began_anew_are_undated_and_make_none_old() {
        let text = "\
1,11/23/26,08:00:00,Memory DIMM_A1,Correctable ECC,Asserted
2,Pre-Init,0000000042,Memory DIMM_C1,Uncorrectable ECC,Asserted
3,01/01/2000,00:03:00,Memory DIMM_B2,Uncorrectable ECC,Asserted
";
        let said = judge(text, NOW);
        assert_eq!(said.state, CheckState::Warning);
        assert!(said.evidence.iter().any(|line| line.contains("DIMM_B2")), "{:?}", said.evidence);
        assert!(said.evidence.iter().any(|line| line.contains("DIMM_C1")), "{:?}", said.evidence);
        let set_back = text
            .replace("11/23/26,08:00:00,Memory DIMM_A1,Correctable", "11/20/26,08:00:00,Memory DIMM_A1,Correctable");
        assert_eq!(judge(&set_back, NOW).state, CheckState::Unknown, "nothing shows that they are old");
    }

    /// The clock was set back by a zone and a day: the entry below is the later one, whatever its stamp says.
    #[test]
    fn an_entry_with_an_older_stamp_ends_no_trouble_above_it() {
        let recent = "1,11/23/26,11:30:00,Memory DIMM_A1,Uncorrectable ECC,Asserted\n";
        for (below, said) in [
            ("2,11/22/26,11:30:00,Memory DIMM_A1,Uncorrectable ECC,Asserted\n", "11/23/26 11:30:00"),
            ("2,11/22/26,10:30:00,Memory DIMM_A1,Uncorrectable ECC,Asserted\n", "11/23/26 11:30:00"),
            ("2,11/22/26,09:00:00,Memory DIMM_A1,Uncorrectable ECC,Asserted\n", "11/23/26 11:30:00"),
            ("2,11/22/26,11:00:00,Memory DIMM_B1,Correctable ECC,Asserted\n", "DIMM_A1"),
        ] {
            let judged = judge(&format!("{recent}{below}"), NOW);
            assert_eq!(judged.state, CheckState::Critical, "{below}");
            assert!(judged.sentence.contains(said), "{below}: {}", judged.sentence);
        }
        // What is over by the order of the list is over, whatever its stamp.
        let over = "2,11/22/26,11:00:00,Memory DIMM_A1,Uncorrectable ECC,Deasserted\n";
        assert_eq!(judge(&format!("{recent}{over}"), NOW).state, CheckState::Ok);
        // An entry without a date between the two is no older than the one above it.
        let fine = "1,11/23/26,11:30:00,Module / Board MB,Presence detected,Asserted\n";
        let undated = "2,Pre-Init,0000000042,Memory DIMM_C1,Uncorrectable ECC,Asserted\n";
        let below = "3,11/22/26,11:00:00,Module / Board MB,Presence detected,Asserted\n";
        assert_eq!(judge(&format!("{fine}{undated}{below}"), NOW).state, CheckState::Unknown);
        assert_eq!(
            judge(&format!("{undated}{below}"), NOW).state,
            CheckState::Ok,
            "nothing above it is of the last day"
        );
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
