//! What callers may do here.

use serde::Deserialize;
use std::path::Path;
use surefoot_http::{Error, who};

/// Who may do what.
pub(super) type Access = who::Access<Role>;
/// One who is known.
pub(crate) type Caller = who::Caller<Role>;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See cases, the audit trail and metrics.
    Read,
    /// Pause, resume and cancel, and what `read` may.
    Operate,
    /// Approve steps, and what `read` may.
    Approve,
    /// Tell of alerts of any host.
    Report,
    /// Tell of findings of its own host, and do its orders.
    Agent,
}

impl Role {
    pub(super) const ALL: [Role; 5] = [Role::Read, Role::Operate, Role::Approve, Role::Report, Role::Agent];

    /// The word in files and messages.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Approve => "approve",
            Role::Report => "report",
            Role::Agent => "agent",
        }
    }
}

/// Reads who may do what. Root and the server's own user may do everything.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn read(path: &Path) -> Result<Access, Error> {
    Access::read(path, &Role::ALL, parse)
}

/// Reads a file of who may do what.
///
/// # Errors
/// What is wrong where.
pub(super) fn parse(text: &str) -> Result<who::File<Role>, String> {
    surefoot_remedy::from_toml(text)
}

/// Whether a caller has one of these roles.
pub(crate) fn may_any(caller: &Caller, roles: &[Role]) -> bool {
    let may = |role: &Role| match role {
        // Who may change something may see it.
        Role::Read => caller.roles.iter().any(|own| matches!(own, Role::Read | Role::Operate | Role::Approve)),
        role => caller.roles.contains(role),
    };
    roles.iter().any(may)
}
