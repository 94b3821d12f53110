use crate::scratch;
use std::fs;
use surefoot_checkpoint::generation::{Commit, MAGIC, Manifest};
use surefoot_checkpoint::{Disk, session};
use surefoot_heal::sidecar;

/// Letters, length, checksum.
const PRELUDE_BYTES: usize = 16;

/// The longest file that a sidecar is looked at with.
const FILE_BYTES_MAX: usize = 16 << 10;

fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Gives what stands at the beginning its checksum, if its length is possible.
fn mend(bytes: &mut [u8], magic: [u8; 8]) {
    let Some((prelude, text)) = bytes.split_first_chunk_mut::<PRELUDE_BYTES>() else { return };
    prelude[..8].copy_from_slice(&magic);
    let length = u32::from_le_bytes([prelude[8], prelude[9], prelude[10], prelude[11]]) as usize;
    if let Some(text) = text.get(..length) {
        prelude[12..].copy_from_slice(&crc32c(text).to_le_bytes());
    }
}

/// A manifest and the mark of a whole generation: as they are, and with their checksums mended.
pub fn manifest(bytes: &[u8]) {
    let _ = Manifest::from_bytes(bytes);
    let mut mended = bytes.to_vec();
    mend(&mut mended, MAGIC);
    if let Ok(manifest) = Manifest::from_bytes(&mended) {
        let _ = manifest.geometry().map(|geometry| (geometry.file_bytes(), geometry.table_bytes(), geometry.pages()));
        let again = manifest.to_bytes().map(|bytes| Manifest::from_bytes(&bytes));
        assert_eq!(again.ok(), Some(Ok(manifest)), "it says the same when it is read again");
    }
    mend(&mut mended, *b"SFCOMM01");
    scratch::with_folder(|folder| drop(Commit::read(&Disk, &scratch::write(folder, "commit", &mended))));
}

/// A file and its sidecar, as they are and with the label's checksum mended: looked at, and repaired where that is possible.
pub fn sidecar(bytes: &[u8]) {
    let Some((&[low, high], rest)) = bytes.split_first_chunk() else { return };
    let file_bytes = usize::from(u16::from_le_bytes([low, high])) % FILE_BYTES_MAX;
    let (file, beside) = rest.split_at(file_bytes.min(rest.len()));
    let mut beside = beside.to_vec();
    mend(&mut beside, *b"SFSIDE01");
    scratch::with_folder(|folder| {
        let path = scratch::write(folder, "file", file);
        let sidecar_path = sidecar::sidecar_path(&path);
        // What an earlier repair has left is not this one's.
        let _ = fs::remove_file(&sidecar_path);
        if fs::write(&sidecar_path, &beside).is_err() || sidecar::check(&path, &mut |_, _| {}).is_err() {
            return;
        }
        let repaired = sidecar::repair(&path, true, sidecar::Trust::DirectoryOwner, &mut |_, _| {});
        if let Ok(sidecar::Repaired::Done { .. }) = repaired {
            let found = sidecar::check(&path, &mut |_, _| {});
            let found = found.unwrap_or_else(|error| panic!("what was repaired cannot be checked: {error}"));
            assert!(found.is_file_whole() && found.is_sidecar_whole(), "what was repaired is whole: {found:?}");
        }
    });
}

/// The journal of a job: the older file and the newer one. What is read is written as text and read again.
pub fn journal(bytes: &[u8]) {
    let (older, newer) = bytes.split_at(bytes.len() / 2);
    scratch::with_folder(|folder| {
        scratch::write(folder, "journal.1.jsonl", older);
        scratch::write(folder, "journal.jsonl", newer);
        let Ok(Some(history)) = session::journal::read(folder, 1000) else { return };
        for entry in &history.entries {
            let text = serde_json::to_string(entry).unwrap_or_else(|error| panic!("{error}: {entry:?}"));
            let again: session::journal::Entry =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(serde_json::to_string(&again).ok(), Some(text), "it says the same when it is read again");
        }
    });
}
