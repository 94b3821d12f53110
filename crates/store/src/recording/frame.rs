//! The bytes of headers and frames; see the module above for the layout.

use flate2::write::DeflateEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use std::io::{self, Write};

/// The first bytes of every recording.
pub(super) const MAGIC: [u8; 8] = *b"SUREFOOT";

/// The version of the format that this code writes, and the only one that it reads.
pub const VERSION: u16 = 1;

/// The longest payload of a frame, as it stands in the file.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// The longest payload of a frame once decompressed: what bounds the memory that a hostile file can ask for.
pub const FRAME_DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// The longest event, as a line of JSON.
///
/// Parsing JSON takes up to sixteen times its length in memory, which makes this, and not the frame, the limit that
/// counts against hostile files. A window of 1,024 cores with 60 causes each stays below it.
pub const EVENT_BYTES_MAX: usize = 32 << 20;

pub(super) const FILE_HEADER_BYTES: usize = 14;
pub(super) const FRAME_HEADER_BYTES: usize = 10;
pub(super) const END_BYTES: usize = 16;

pub(super) const KIND_EVENTS: u8 = 1;
pub(super) const KIND_END: u8 = 2;
pub(super) const FLAG_DEFLATE: u8 = 1;

/// Output grows by this much at a time, so that a small frame takes little memory and a bomb takes its limit.
const INFLATE_STEP_BYTES: usize = 256 << 10;

pub(super) fn file_header(version: u16) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&version.to_le_bytes());
    let checksum = crc32fast::hash(&header[..10]);
    header[10..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// What stands before a payload.
pub(super) struct FrameHeader {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub checksum: u32,
}

impl FrameHeader {
    pub(super) fn of(bytes: [u8; FRAME_HEADER_BYTES]) -> Self {
        let [l0, l1, l2, l3, kind, flags, c0, c1, c2, c3] = bytes;
        FrameHeader {
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            kind,
            flags,
            checksum: u32::from_le_bytes([c0, c1, c2, c3]),
        }
    }

    pub(super) fn matches(&self, payload: &[u8]) -> bool {
        self.checksum == checksum(self.kind, self.flags, payload)
    }
}

fn checksum(kind: u8, flags: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind, flags]);
    hasher.update(payload);
    hasher.finalize()
}

/// One whole frame, ready to be written; `None` when the payload is longer than a frame may be.
pub(super) fn frame(kind: u8, flags: u8, payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() > FRAME_BYTES_MAX {
        return None;
    }
    let length = u32::try_from(payload.len()).ok()?;
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&checksum(kind, flags, payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// The raw deflate stream of `plain`.
pub(super) fn deflate(plain: &[u8], effort: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(plain.len() / 4 + 64), effort);
    encoder.write_all(plain)?;
    encoder.finish()
}

/// The bytes behind a raw deflate stream, `limit` at most, or why there are none.
///
/// The stream must end exactly where `packed` does: a stream that stops early would otherwise pass as a short one.
pub(super) fn inflate(packed: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let mut stream = Decompress::new(false);
    let mut plain = Vec::new();
    loop {
        if plain.len() > limit {
            return Err(format!("its content is larger than the limit of {limit} bytes"));
        }
        if plain.len() == plain.capacity() {
            plain.reserve(INFLATE_STEP_BYTES.max(plain.len()).min(limit + 1 - plain.len()));
        }
        let (used_before, made_before) = (stream.total_in(), stream.total_out());
        let rest = &packed[used_before as usize..];
        match stream.decompress_vec(rest, &mut plain, FlushDecompress::None) {
            Ok(Status::StreamEnd) if stream.total_in() as usize != packed.len() => {
                return Err("its compressed content ends before the frame does".into());
            }
            Ok(Status::StreamEnd) if plain.len() > limit => {}
            Ok(Status::StreamEnd) => return Ok(plain),
            Ok(_) if (stream.total_in(), stream.total_out()) == (used_before, made_before) => {
                return Err("its compressed content is cut short".into());
            }
            Ok(_) => {}
            Err(error) => return Err(format!("its content cannot be decompressed ({error})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflate_gives_back_what_deflate_took() {
        for length in [0usize, 1, 2, 100, INFLATE_STEP_BYTES, INFLATE_STEP_BYTES * 2 + 1, 3_000_000] {
            let plain: Vec<u8> = (0..length).map(|i| (i * i / 7 % 251) as u8).collect();
            assert_eq!(inflate(&deflate(&plain, Compression::fast()).unwrap(), length).unwrap(), plain);
            if length > 0 {
                assert!(
                    inflate(&deflate(&plain, Compression::fast()).unwrap(), length - 1).unwrap_err().contains("limit")
                );
            }
        }
    }

    #[test]
    fn a_stream_that_stops_early_or_late_is_refused() {
        let packed = deflate(b"the same words, the same words, the same words", Compression::fast()).unwrap();
        for cut in 0..packed.len() {
            assert!(inflate(&packed[..cut], 1000).is_err(), "cut at {cut}");
        }
        let mut longer = packed.clone();
        longer.push(0);
        assert!(inflate(&longer, 1000).is_err());
    }

    #[test]
    fn a_payload_over_the_limit_makes_no_frame() {
        assert!(frame(KIND_EVENTS, 0, &vec![0; FRAME_BYTES_MAX + 1]).is_none());
        assert_eq!(frame(KIND_EVENTS, 0, b"abc").unwrap().len(), FRAME_HEADER_BYTES + 3);
    }
}
