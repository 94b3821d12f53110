//! Predictions for jobs of many nodes: what is asked, its lines, its text and its shards.

pub mod asked;
pub mod lines;
pub mod shard_file;
pub mod text;
