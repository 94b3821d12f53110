//! Has the slots of memory made before the saves that need them; how is `tier/ahead.rs`.
//!
//! For how many bytes: for what is registered, as of a restart, of a question whether a checkpoint is due, and of the end of
//! a save. At the opening nothing is registered yet, and it is for as many bytes as this rank saved last, where there is
//! such a checkpoint. A new job that is never asked anything makes its second slot from the end of its first save on.

use super::nodes::Nodes;
use super::schedule::facts;
use super::tiers::Tiers;
use crate::config::Config;
use crate::controller::{Fixed, Policy};
use crate::tier::Allowance;

/// Has slots made for payloads of so many bytes.
pub(super) fn make_ahead(tiers: &mut Tiers, config: &Config, nodes: &Nodes, payload_bytes: u64) {
    let saves_in_memory = !matches!(config.policy, Policy::Fixed(Fixed::Durable | Fixed::Never));
    let Some(memory) = config.memory.as_ref().filter(|_| saves_in_memory) else { return };
    let allowance =
        Allowance { bytes_max: memory.ahead_bytes_max.unwrap_or(u64::MAX), ranks_here: nodes.ranks_here.max(1) as u64 };
    if allowance.bytes_max == 0 || !facts::memory_suspect(&config.health_file).is_empty() {
        return;
    }
    let Ok(geometry) = config.geometry(payload_bytes) else { return };
    if let Some(memory) = &mut tiers.memory {
        memory.make_ahead(geometry.file_bytes(), allowance);
    }
}
