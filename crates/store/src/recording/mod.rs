//! Recordings: a stream of events in one file that replays on any machine.
//!
//! # Format, version 1
//!
//! All numbers are little-endian. The file opens with 14 bytes whose layout no later version changes, so that
//! every reader can name the version that it cannot read:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SUREFOOT` |
//! | 2 | format version |
//! | 4 | CRC-32 of the 10 bytes before |
//!
//! Then frames follow, each written by one system call:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the payload, 16 MiB at most |
//! | 1 | kind: 1 events, 2 end |
//! | 1 | flags: bit 0, the payload is a raw deflate stream (RFC 1951); the other bits are 0 |
//! | 4 | CRC-32 of kind, flags and payload |
//! | length | payload |
//!
//! - *events*: one [`surefoot_model::Event`] as JSON per line, each line closed by a line feed; 64 MiB at most when
//!   decompressed, 32 MiB at most per line.
//! - *end*: two numbers of 8 bytes: how many lines the events frames hold in all, and how many events the writer had
//!   to drop because the file could not take them. It is the last frame; a file without it is torn.
//!
//! A reader skips and counts frames of a kind or with a flag that it does not know, lines of a type that it does not
//! know, and fields that it does not know. Later writers of version 1 may therefore add any of these, and may make
//! the end frame longer. Whatever changes the meaning of what exists takes a new version. A field that is added to the
//! model needs a default (`#[serde(default)]`), or events of earlier recordings are skipped for the lack of it.
//!
//! The CRC-32 is the one of zlib and PNG (polynomial 0xEDB88320).

mod frame;
mod line;
mod reader;
mod writer;

pub use frame::{EVENT_BYTES_MAX, FRAME_BYTES_MAX, FRAME_DECOMPRESSED_BYTES_MAX, VERSION};
pub use reader::{End, Reader, Skipped};
pub use writer::{Existing, Writer, Written};
