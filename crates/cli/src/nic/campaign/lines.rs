//! The JSON lines of `surefoot nic campaign`: those of faults and tables are the daemon's, which shows them, too.

use serde::Serialize;
use surefoot_nic::campaign::blocks::Block;

pub use surefoot_rooms::nic::campaign::lines::{FaultLine, MissingRow, ShareRow, TableLine};

/// A basic block of the control program.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "block")]
pub struct BlockLine<'a> {
    /// Its first address.
    pub from: u32,
    /// The address behind it.
    pub to: u32,
    pub function: &'a str,
    /// The experiment executes it.
    pub used: bool,
    /// The self-test alone executes it.
    pub tested: bool,
}

impl<'a> BlockLine<'a> {
    pub fn of(block: &'a Block) -> Self {
        let Block { from, to, function, is_used, is_tested } = block;
        BlockLine { from: *from, to: *to, function, used: *is_used, tested: *is_tested }
    }
}

/// All blocks of a control program, summed up.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "blocks")]
pub struct BlocksLine {
    pub experiment: String,
    pub block_count: u64,
    /// Executed by the experiment.
    pub used_count: u64,
    /// Executed by the self-test alone, of those that the experiment executes.
    pub tested_count: u64,
    pub code_bytes: u64,
    pub used_bytes: u64,
}

impl BlocksLine {
    pub fn of(experiment: &str, blocks: &[Block]) -> Self {
        let used = || blocks.iter().filter(|block| block.is_used);
        let bytes = |block: &Block| u64::from(block.to - block.from);
        BlocksLine {
            experiment: experiment.to_owned(),
            block_count: blocks.len() as u64,
            used_count: used().count() as u64,
            tested_count: used().filter(|block| block.is_tested).count() as u64,
            code_bytes: blocks.iter().map(bytes).sum(),
            used_bytes: used().map(bytes).sum(),
        }
    }
}
