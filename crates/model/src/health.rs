use crate::{Finding, Headline, Part, Room, Severity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The health of a host in one small file, for other programs on it: the daemon writes it, the checkpoint controller
/// reads it before each decision.
///
/// It is replaced as a whole, so that a reader never sees half of it, when it has something else to say and every 20 s; and
/// removed when the daemon stops. A reader tells a daemon that died by the age of the file: see [`Health::is_current`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Health {
    /// [`Health::VERSION`].
    pub version: u32,
    /// `CLOCK_REALTIME` of the writing, nanoseconds.
    pub updated_realtime_ns: u64,
    /// The node name; empty until it is known.
    pub host: String,
    /// The worst severity and its sentence.
    pub headline: Headline,
    /// Age of the newest window of lost time when this was written, nanoseconds; `None` without data.
    pub data_age_ns: Option<u64>,
    /// What its cores lost in the last minute; `None` while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostRate>,
    /// What each room that watches this host has found. A room that is not here says nothing of the host.
    pub rooms: BTreeMap<Room, RoomHealth>,
    /// Its parts that are known by their serial numbers; none where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Parts that are not listed: no room in the file, or a serial number that is not unique.
    #[serde(default)]
    pub parts_left_out: u64,
}

/// What the watched cores of a host lost of their busy time, unexplained time included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LostRate {
    /// Of all of them together, nanoseconds per second.
    pub total_ns_per_s: u64,
    /// How many there are.
    pub cores: u32,
    /// Of the one that lost most, nanoseconds per second.
    pub worst_ns_per_s: u64,
    /// Which one that is.
    pub worst_cpu: u32,
    /// Whether single interruptions were seen. Otherwise it is what the kernel's counters tell, and more may have been lost.
    pub is_traced: bool,
}

impl LostRate {
    /// Of an average core, nanoseconds per second; hosts with many cores and with few are compared by it.
    pub fn mean_ns_per_s(&self) -> u64 {
        self.total_ns_per_s / u64::from(self.cores.max(1))
    }
}

/// What one room has found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct RoomHealth {
    /// The worst severity of its findings.
    pub severity: Severity,
    /// Its findings above `ok`, the worst first.
    pub findings: Vec<Finding>,
    /// Findings that had no room in the file.
    pub findings_left_out: u64,
    /// Lines of evidence of the findings here that had no room in the file.
    #[serde(default)]
    pub evidence_left_out: u64,
}

impl Health {
    /// The version that this describes. Version 1 had a state and reasons in place of findings.
    pub const VERSION: u32 = 2;

    /// The file's name in the daemon's run directory.
    pub const FILE_NAME: &'static str = "health.json";

    /// Where the daemon writes and programs look, unless told otherwise.
    pub const FILE: &'static str = "/run/surefoot/health.json";

    /// The longest file that is written or read.
    pub const FILE_BYTES_MAX: u64 = 1 << 16;

    /// Older health says nothing any more: the daemon writes every 20 s, whatever there is to say.
    pub const STALE_NS: u64 = 60_000_000_000;

    /// The findings of one room that are kept in the file.
    pub const FINDINGS_PER_ROOM_MAX: usize = 20;

    /// Whether this is of the version described here and not older than [`Health::STALE_NS`]. What is from further in the future
    /// was written by another clock than the reader's, so nobody knows how old it is.
    pub fn is_current(&self, now_realtime_ns: u64) -> bool {
        self.version == Health::VERSION && now_realtime_ns.abs_diff(self.updated_realtime_ns) <= Health::STALE_NS
    }

    /// The worst finding of a room at or above a severity.
    pub fn worst(&self, room: Room, at_least: Severity) -> Option<&Finding> {
        let findings = &self.rooms.get(&room)?.findings;
        findings.iter().filter(|finding| finding.severity >= at_least).min_by(|a, b| crate::by_urgency(a, b))
    }
}

impl RoomHealth {
    /// The health that these findings of one room make.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        let severity = findings.iter().map(|finding| finding.severity).max().unwrap_or_default();
        findings.retain(|finding| finding.severity > Severity::Ok);
        findings.sort_by(crate::by_urgency);
        let left_out = findings.len().saturating_sub(Health::FINDINGS_PER_ROOM_MAX);
        findings.truncate(Health::FINDINGS_PER_ROOM_MAX);
        RoomHealth { severity, findings, findings_left_out: left_out as u64, evidence_left_out: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Subject, SubjectKind};

    fn finding(number: u64, severity: Severity) -> Finding {
        let subject = Subject::new(SubjectKind::Dimm, format!("A{number}"));
        Finding::new(Room::Memory, "errors", subject, severity, "It has errors.").since(number)
    }

    #[test]
    fn a_room_keeps_its_worst_findings_and_counts_the_rest() {
        let mut findings: Vec<Finding> = (1..=30).map(|number| finding(number, Severity::Notice)).collect();
        findings.push(finding(31, Severity::Critical));
        findings.push(finding(32, Severity::Ok));
        let health = RoomHealth::of(findings);
        assert_eq!((health.severity, health.findings.len(), health.findings_left_out), (Severity::Critical, 20, 11));
        assert_eq!(health.findings[0].subject.name, "A31");
    }

    #[test]
    fn only_current_health_of_this_version_speaks() {
        let rooms = BTreeMap::from([(Room::Memory, RoomHealth::of(vec![finding(1, Severity::Critical)]))]);
        let headline = Headline::new(Severity::Critical, "");
        let mut health = Health {
            version: Health::VERSION,
            updated_realtime_ns: 1_000,
            host: String::new(),
            headline,
            data_age_ns: None,
            lost: None,
            rooms,
            parts: Vec::new(),
            parts_left_out: 0,
        };
        assert!(health.is_current(1_000 + Health::STALE_NS) && !health.is_current(1_001 + Health::STALE_NS));
        health.updated_realtime_ns += 2 * Health::STALE_NS;
        assert!(
            health.is_current(1_000 + Health::STALE_NS) && !health.is_current(999 + Health::STALE_NS),
            "the future"
        );
        health.updated_realtime_ns -= 2 * Health::STALE_NS;
        assert!(health.worst(Room::Memory, Severity::Critical).is_some());
        assert_eq!(health.worst(Room::Stall, Severity::Ok), None);
        health.version = 1;
        assert!(!health.is_current(1_000));
    }
}
