//! The checksums of pages, and of their table.

use super::geometry::Geometry;
use std::borrow::Cow;

/// CRC32C of some bytes.
///
/// By the function of this one checksum: those that take an algorithm, and the crate's `Digest`, have the linker keep the
/// tables of all sixty, which are 0.65 MiB of the shared library.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC32C of a table: of the entries that count, not of what fills its last page.
pub fn digest(entries: &[u32]) -> u32 {
    crc32c(&bytes_of(entries))
}

/// The entries as they are stored, little endian. A table may have gigabytes: it is not copied where memory has it so.
fn bytes_of(entries: &[u32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        // SAFETY: every byte of a number is a byte, and the slice is borrowed for as long as the result.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), size_of_val(entries)) })
    } else {
        Cow::Owned(entries.iter().flat_map(|entry| entry.to_le_bytes()).collect())
    }
}

/// Where the entry of a page is.
pub(super) fn index(geometry: &Geometry, column: usize, row: usize) -> usize {
    column * geometry.rows() + row
}

/// Writes a table into its place in a file.
pub fn store(entries: &[u32], place: &mut [u8]) {
    let (used, rest) = place.split_at_mut(entries.len() * 4);
    for (entry, bytes) in entries.iter().zip(used.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    rest.fill(0);
}

/// Reads a table.
pub(super) fn load(bytes: &[u8], entries: usize) -> Vec<u32> {
    let words = bytes.chunks_exact(4).take(entries);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_and_its_digest_is_that_of_its_bytes() {
        let entries: Vec<u32> = (0..3000).map(|number| number * 77).collect();
        let mut place = vec![1; 12_288];
        store(&entries, &mut place);
        assert_eq!(load(&place, 3000), entries);
        assert_eq!(digest(&entries), crc32c(&place[..12_000]));
        // The check value of CRC-32/ISCSI.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
