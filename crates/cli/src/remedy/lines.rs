//! The JSON lines of `surefoot remedy`; a case in a list is `surefoot_daemon::fleet::CaseLine`.

use serde::Serialize;
use surefoot_model::{AuditEntry, Case};

/// A case with everything that is known of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "case_detail")]
pub struct DetailLine<'a> {
    #[serde(flatten)]
    pub case: &'a Case,
}

/// A line of the audit trail: who did what, when and why.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "audit_entry")]
pub struct AuditLine<'a> {
    #[serde(flatten)]
    pub entry: &'a AuditEntry,
}
