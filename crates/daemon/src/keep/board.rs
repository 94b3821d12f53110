//! The findings that hold now, of all rooms, with when each began.

use std::collections::BTreeMap;
use surefoot_model::{Finding, Severity};

/// Findings that are told of. The worst stay.
const FINDINGS_MAX: usize = 500;

/// The findings that hold now.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Severity and beginning of each finding, by key.
    known: BTreeMap<String, (Severity, u64)>,
    told: Vec<(String, Severity)>,
}

impl Board {
    /// Takes all findings of a moment in the place of those before: sorts them by urgency, cuts them to their limit, and
    /// gives each the time since when it holds at this severity. Returns how many were cut. `now_realtime_ns` is when a new one begins;
    /// `None` for a recording, of which only the end is judged: since when it held there is not known, and stays 0.
    pub(crate) fn take(&mut self, findings: &mut Vec<Finding>, now_realtime_ns: Option<u64>) -> usize {
        let mut known = BTreeMap::new();
        for finding in &mut *findings {
            let since_ns = match self.known.get(&finding.key) {
                _ if finding.since_realtime_ns > 0 => finding.since_realtime_ns,
                Some(&(severity, since_ns)) if severity == finding.severity => since_ns,
                _ => now_realtime_ns.unwrap_or(0),
            };
            finding.since_realtime_ns = since_ns;
        }
        findings.sort_by(surefoot_model::by_urgency);
        let all = findings.len();
        // Of two with one key, which would be one to everybody who remembers it, the more urgent stays.
        findings.retain(|finding| {
            let place = (finding.severity, finding.since_realtime_ns);
            known.len() < FINDINGS_MAX && known.insert(finding.key.clone(), place).is_none()
        });
        self.known = known;
        all - findings.len()
    }

    /// Whether a finding above `ok` came, went or became another severity since the last call.
    pub(crate) fn has_news(&mut self, findings: &[Finding]) -> bool {
        let of = |finding: &Finding| (finding.key.clone(), finding.severity);
        let told: Vec<(String, Severity)> =
            findings.iter().filter(|finding| finding.severity > Severity::Ok).map(of).collect();
        let has_news = told != self.told;
        self.told = told;
        has_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Room, Subject, SubjectKind};

    fn finding(name: &str, severity: Severity) -> Finding {
        let subject = Subject::new(SubjectKind::Job, name);
        Finding::new(Room::Checkpoint, "stale", subject, severity, "It is stale.")
    }

    #[test]
    fn a_finding_keeps_its_beginning_for_as_long_as_its_severity_lasts() {
        let mut board = Board::default();
        let mut since = |severity, now| {
            let mut findings = vec![finding("a", severity)];
            board.take(&mut findings, now);
            findings[0].since_realtime_ns
        };
        let mut since = |severity, now| since(severity, Some(now));
        assert_eq!(since(Severity::Notice, 10), 10);
        assert_eq!(since(Severity::Notice, 20), 10);
        assert_eq!(since(Severity::Warning, 30), 30);
        assert_eq!(since(Severity::Warning, 40), 30);
        let mut told = vec![finding("a", Severity::Warning).since(5)];
        board.take(&mut told, Some(50));
        assert_eq!(told[0].since_realtime_ns, 5, "who knows better says so");
    }

    #[test]
    fn of_a_recording_it_is_not_known_since_when_a_finding_holds() {
        let mut findings = vec![finding("a", Severity::Notice), finding("b", Severity::Notice).since(7)];
        Board::default().take(&mut findings, None);
        let since: Vec<u64> = findings.iter().map(|finding| finding.since_realtime_ns).collect();
        assert_eq!(since, [0, 7]);
    }

    #[test]
    fn the_worst_stay_and_the_rest_is_counted() {
        let mut board = Board::default();
        let mut findings: Vec<Finding> = (0..600).map(|job| finding(&job.to_string(), Severity::Notice)).collect();
        findings.push(finding("bad", Severity::Critical));
        assert_eq!(board.take(&mut findings, Some(1)), 101);
        assert_eq!((findings.len(), &*findings[0].subject.name), (500, "bad"));
    }

    #[test]
    fn of_two_findings_with_one_key_the_more_urgent_stays() {
        let mut findings = vec![finding("a", Severity::Notice), finding("a", Severity::Critical)];
        assert_eq!(Board::default().take(&mut findings, Some(1)), 1);
        assert_eq!(findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Critical]);
    }

    #[test]
    fn news_is_what_comes_goes_or_changes_its_severity() {
        let mut board = Board::default();
        assert!(!board.has_news(&[finding("a", Severity::Ok)]));
        assert!(board.has_news(&[finding("a", Severity::Notice)]));
        assert!(!board.has_news(&[finding("a", Severity::Notice)]));
        assert!(board.has_news(&[finding("a", Severity::Warning)]));
        assert!(board.has_news(&[]));
    }
}
