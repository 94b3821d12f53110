//! What can be asked wrongly. A word that cannot be corrected is no error but an [`crate::Outcome`].

use crate::{Code, Path};

/// A call that the code cannot serve, with the limit that it is beyond. Nothing was read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A list has the wrong number of elements.
    #[error("{code} takes {wanted} {what}, but {given} were given")]
    WrongCount {
        /// The code that was asked.
        code: Code,
        /// What the list holds.
        what: &'static str,
        /// How many the code takes.
        wanted: usize,
        /// How many there were.
        given: usize,
    },
    /// A row of parity that the code does not have, or not by itself.
    #[error("{code} has no separate parity row {row}: encode all rows")]
    NoSuchRow {
        /// The code that was asked.
        code: Code,
        /// The row, from 0.
        row: usize,
    },
    /// The shards of one call are not equally long.
    #[error("shard {shard} has {given} bytes, but shard 0 has {wanted}: all shards of a call must be equally long")]
    UnequalShards {
        /// The first shard that differs, counted over data and parity.
        shard: usize,
        /// The length of shard 0, in bytes.
        wanted: usize,
        /// Its length, in bytes.
        given: usize,
    },
    /// The shards have no bytes, so that there is no codeword.
    #[error("the shards have 0 bytes: give at least 1 byte per shard")]
    EmptyShards,
    /// More symbols are missing than the code has parity symbols.
    #[error("{given} erasures, but {code} repairs at most {limit}")]
    TooManyErasures {
        /// The code that was asked.
        code: Code,
        /// The number of its parity symbols.
        limit: usize,
        /// How many erasures were named.
        given: usize,
    },
    /// An erasure is not a symbol of the code.
    #[error("erasure at symbol {position}, but {code} has the symbols 0 to {last}")]
    ErasureOutside {
        /// The code that was asked.
        code: Code,
        /// The position that was named.
        position: usize,
        /// The last symbol of the code.
        last: usize,
    },
    /// An erasure is named twice.
    #[error("symbol {position} is named as an erasure twice: name each once")]
    DuplicateErasure {
        /// The position.
        position: usize,
    },
    /// The mode and the erasures together ask for more than the distance allows: 2 errors + erasures < distance.
    #[error(
        "correcting {errors} errors beside {erasures} erasures needs distance {}, but {code} has {distance}",
        2 * errors + erasures + 1
    )]
    BeyondDistance {
        /// The code that was asked.
        code: Code,
        /// How many errors at unknown positions the mode corrects.
        errors: usize,
        /// How many erasures were named.
        erasures: usize,
        /// The minimum distance of the code.
        distance: usize,
    },
    /// The processor, or its operating system, lacks the instructions that were asked for.
    #[error("the path {path} needs {needs}: choose one that Path::is_available")]
    PathUnavailable {
        /// The path.
        path: Path,
        /// What it needs.
        needs: &'static str,
    },
    /// A buffer does not hold whole lines or stripes, or none at all.
    #[error("{given} bytes are not one or more whole {what} of {unit_bytes} bytes: pad the last one with zeros")]
    NotWhole {
        /// What it should hold.
        what: &'static str,
        /// The length of one, in bytes.
        unit_bytes: usize,
        /// The length of the buffer, in bytes.
        given: usize,
    },
    /// A buffer has not the length that belongs to the data.
    #[error("{wanted} {what} are needed, but there are {given}")]
    WrongBytes {
        /// What it holds.
        what: &'static str,
        /// The length that is needed.
        wanted: usize,
        /// The length of the buffer.
        given: usize,
    },
    /// There is no such chip in a rank.
    #[error("chip {chip} is erased, but a rank has the chips 0 to {last}")]
    ChipOutside {
        /// The chip that was named.
        chip: usize,
        /// The last chip.
        last: usize,
    },
    /// There is no such stripe in the data.
    #[error("there is no stripe {stripe} to repair: stripes are 0 to {last}")]
    StripeOutside {
        /// The stripe that was named.
        stripe: usize,
        /// The last stripe.
        last: usize,
    },
    /// The shards of a stripe together would have more bytes than can be addressed.
    #[error("a shard of {given} bytes is too long: {code} takes at most {limit} bytes")]
    ShardTooLong {
        /// The code that was asked.
        code: Code,
        /// The longest shard, in bytes.
        limit: usize,
        /// The length of the shard, in bytes.
        given: usize,
    },
}
