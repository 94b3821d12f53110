//! The kernel's trace events: which are there, and how their records are laid out.

use crate::Root;
use std::path::PathBuf;

/// Where tracefs may be mounted, the modern place first.
pub(crate) fn mount_points(root: &Root) -> [PathBuf; 2] {
    [root.sys("kernel/tracing"), root.sys("kernel/debug/tracing")]
}
