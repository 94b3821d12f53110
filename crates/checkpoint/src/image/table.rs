//! The checksums of pages, and of their table.

use super::geometry::Geometry;
use crc_fast::{CrcAlgorithm, Digest, checksum};

/// CRC32C of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC32C of a table: of the entries that count, not of what fills its last page.
pub(crate) fn digest(entries: &[u32]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut bytes = [0; 4096];
    for some in entries.chunks(1024) {
        for (entry, place) in some.iter().zip(bytes.chunks_exact_mut(4)) {
            place.copy_from_slice(&entry.to_le_bytes());
        }
        digest.update(&bytes[..some.len() * 4]);
    }
    digest.finalize() as u32
}

/// Where the entry of a page is.
pub(super) fn index(geometry: &Geometry, column: usize, row: usize) -> usize {
    column * geometry.rows() + row
}

/// Writes a table into its place in a file.
pub(crate) fn store(entries: &[u32], place: &mut [u8]) {
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
