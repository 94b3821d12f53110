//! How the bytes of a memory become symbols: by chip, for 64-byte lines, and by shard, for pages and larger pieces.
//!
//! What matters is that the symbols of one codeword lie in different fault domains: then one physical fault is one wrong
//! symbol per codeword, and can be corrected.

pub mod chip;
pub mod shard;
