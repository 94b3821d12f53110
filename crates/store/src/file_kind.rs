//! What a path leads to, in words.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;

/// What a file is, with its article, unless it is a regular one.
pub(crate) fn not_regular(found: &Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() => Some("a character device"),
        () if kind.is_block_device() => Some("a block device"),
        () => Some("a special file"),
    }
}
