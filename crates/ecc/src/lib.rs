//! Reed-Solomon codes over GF(2^8) at memory speed: RS(36,32), RS(18,16), and RS(19,16) that extends the latter.
//!
//! [`Code`] says what the codes are: field, matrix, symbol order, source. Its methods are the scalar reference, one
//! codeword at a time. [`Batch`] does the same for thousands of codewords per call, with the vector instructions that
//! the processor has. [`layout`] makes symbols of memory: by DRAM chip, or by page and larger shard.
//! [`hardware`] writes the scalar decoder as Verilog.
//!
//! # Invariants
//! - No I/O, no clock, no thread, no global state.
//! - A call that cannot be served is an [`Error`] that names the limit; it never panics, and nothing was changed.
//! - A word that cannot be corrected within the distance is [`Outcome::Detected`] and left as it was.
//! - Buffers of one call cannot overlap: what is written is borrowed as `&mut`.
//!
//! ```
//! use surefoot_ecc::{Code, Decoder, Outcome, SymbolError};
//! let mut word = [0; 19];
//! word[..16].copy_from_slice(b"sixteen symbols!");
//! Code::Rs19_16.encode(&mut word)?;
//! word[3] ^= 0x55;
//! let outcome = Code::Rs19_16.decode(&mut word, Decoder::default())?;
//! assert_eq!(outcome, Outcome::Corrected(SymbolError { position: 3, value: 0x55 }));
//! assert_eq!(&word[..16], b"sixteen symbols!");
//! # Ok::<(), surefoot_ecc::Error>(())
//! ```

mod batch;
pub mod code;
pub mod coverage;
mod error;
pub mod field;
pub mod hardware;
pub mod layout;
mod matrix;
mod reference;

pub use batch::{Batch, Check, Path, Report};
pub use code::{Code, SYMBOLS_MAX, SYNDROMES_MAX};
pub use error::Error;
pub use reference::{Decoder, LocationCheck, Mode, Outcome, SymbolError};
