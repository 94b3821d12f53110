//! The JSON lines of `surefoot remedy`. What comes from the model stays as it is; each moment is given once more as text.

use serde::Serialize;
use surefoot_console::units::rfc3339;
use surefoot_controller::{CaseLine, CaseList, UnreadLine};
use surefoot_model::{AuditEntry, Case};

/// A case in a list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "case"))]
pub struct CaseRow<'a> {
    #[serde(flatten)]
    case: &'a CaseLine,
    /// `since_ns`, RFC 3339.
    since: String,
    /// `state_since_ns`, RFC 3339.
    state_since: String,
}

impl CaseRow<'_> {
    pub fn of(case: &CaseLine) -> CaseRow<'_> {
        CaseRow { case, since: rfc3339(case.since_ns), state_since: rfc3339(case.state_since_ns) }
    }
}

/// What a list of cases is of, after the cases.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "case_page")]
pub struct PageLine<'a> {
    /// Cases that are asked for; absent where the controller is of an older release and does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Older ones of them, which are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// What `--before` of the next page is; absent where nothing is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_before: Option<u64>,
    /// Cases that cannot be read: those of this page, and the first of those that are open.
    unread: &'a [UnreadLine],
    /// How many open cases cannot be read.
    unread_open_count: u64,
}

impl PageLine<'_> {
    pub fn of(list: &CaseList) -> PageLine<'_> {
        PageLine {
            total: list.total,
            left_out: list.left_out,
            next_before: list.next_before,
            unread: &list.unread,
            unread_open_count: list.unread_open_count,
        }
    }
}

/// A case with everything that is known of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "case_detail")]
pub struct DetailLine<'a> {
    #[serde(flatten)]
    pub case: &'a Case,
    /// `since_realtime_ns`, RFC 3339.
    since_realtime: String,
    /// `state_since_realtime_ns`, RFC 3339.
    state_since_realtime: String,
}

impl DetailLine<'_> {
    pub fn of(case: &Case) -> DetailLine<'_> {
        let (since, state_since) = (case.since_realtime_ns, case.state_since_realtime_ns);
        DetailLine { case, since_realtime: rfc3339(since), state_since_realtime: rfc3339(state_since) }
    }
}

/// What all cases tell of the part that a case is about.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "part_history")]
pub struct PartLine<'a> {
    /// What it is called; empty for the host itself.
    pub subject: &'a str,
    /// Its serial number; empty where that is not known.
    pub serial: &'a str,
    /// Cases that repaired it.
    pub repair_count: usize,
    /// How often it was replaced.
    pub replaced_count: usize,
    /// How many of those that were replaced tested good.
    pub tested_good_count: usize,
    /// Places, repairs and replacements in words, the oldest first.
    pub says: &'a [String],
}

/// A line of the audit trail: who did what, when and why.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "audit_entry")]
pub struct AuditLine<'a> {
    #[serde(flatten)]
    pub entry: &'a AuditEntry,
    /// `at_realtime_ns`, RFC 3339.
    at_realtime: String,
}

impl AuditLine<'_> {
    pub fn of(entry: &AuditEntry) -> AuditLine<'_> {
        AuditLine { entry, at_realtime: rfc3339(entry.at_realtime_ns) }
    }
}

/// Whether everything is paused, after it was asked for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "everything")]
pub struct EverythingLine {
    pub is_paused: bool,
}
