//! Which parts of which checkpoints are within reach of some rank, and how they get to a rank that needs them.
//!
//! Before a restart each rank says in one short message what it reaches, of all ranks (`inventory`, by what `scan` finds). A part
//! that is not where its rank runs is proved by a rank that reaches it (`prove`) and read from there (`read`); so is the file
//! from which parity is rebuilt (`bring`). What is out of reach or passed over, a report says (`report`).

mod bring;
mod inventory;
mod prove;
mod read;
mod report;
mod scan;

pub(super) use bring::Wanted;
pub(super) use inventory::Inventory;
pub(super) use prove::Proved;
#[cfg(test)]
pub(super) use read::PIECE_BYTES;
pub(super) use read::{Wish, fetch};
pub(super) use scan::Breadth;
