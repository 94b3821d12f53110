use crate::scratch;
use surefoot_model::{Event, Report};
use surefoot_store::recording::Reader;

const FILE_HEADER_BYTES: usize = 14;
const FRAME_HEADER_BYTES: usize = 10;

/// A recording: as it is, and with its checksums mended. What is read is summed up, and written as text and read again.
pub fn recording(bytes: &[u8]) {
    read(bytes);
    let mut mended = bytes.to_vec();
    if mend(&mut mended) {
        read(&mended);
    }
}

fn read(bytes: &[u8]) {
    scratch::with_folder(|folder| {
        let Ok(mut reader) = Reader::open(scratch::write(folder, "recording", bytes)) else { return };
        let events: Vec<Event> = reader.by_ref().collect();
        let _ = (reader.end().to_string(), reader.skipped().to_string(), reader.dropped_events());
        let _ = Report::of(&events).cores();
        for event in &events {
            let _ = (event.comes_to_ns(), event.held_bytes(), event.happened());
            let text = serde_json::to_string(event).unwrap_or_else(|error| panic!("{error}: {event:?}"));
            let again: Event = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(serde_json::to_string(&again).ok(), Some(text), "it says the same when it is read again");
        }
    });
}

/// Gives the file the head of a recording, and each whole frame its checksum.
fn mend(bytes: &mut [u8]) -> bool {
    if bytes.len() < FILE_HEADER_BYTES {
        return false;
    }
    bytes[..10].copy_from_slice(b"SUREFOOT\x01\x00");
    let sum = crc32fast::hash(&bytes[..10]);
    bytes[10..14].copy_from_slice(&sum.to_le_bytes());
    let mut rest = &mut bytes[FILE_HEADER_BYTES..];
    while let Some((header, after)) = rest.split_first_chunk_mut::<FRAME_HEADER_BYTES>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some((payload, next)) = after.split_at_mut_checked(length) else { break };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header[4..6]);
        hasher.update(payload);
        header[6..].copy_from_slice(&hasher.finalize().to_le_bytes());
        rest = next;
    }
    true
}
