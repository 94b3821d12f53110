//! Writes an image with several writes under way, no faster than allowed.

use crate::StoredFile;
use crate::image::{Geometry, PAGE_BYTES, crc32c};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of one write: within the range in which drives reach their full speed.
const WRITE_BYTES: usize = 4 << 20;

/// Keeps a sum of bytes below a rate.
pub struct Pace {
    bytes_per_s: Option<u64>,
    began: Instant,
    bytes: AtomicUsize,
}

impl Pace {
    /// A pace that begins now; `None` holds nothing back.
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        Pace { bytes_per_s, began: Instant::now(), bytes: AtomicUsize::new(0) }
    }

    /// Waits until these bytes, which were just written, fit into the rate.
    pub fn wait(&self, bytes: usize) {
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let Some(rate) = self.bytes_per_s.filter(|&rate| rate > 0) else { return };
        let due = Duration::from_secs_f64(all as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }
}

/// Fills a piece of an image's pages, from this offset on.
pub(super) type Fill<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + Sync + 'a;

/// Writes an image's pages, a piece at a time as `fill` gives them, and returns their table.
///
/// # Errors
/// The first error of a write, or what `fill` says; writes that are under way are waited for, and none is begun after it.
pub(super) fn write_pages(
    file: &dyn StoredFile,
    fill: &Fill<'_>,
    geometry: &Geometry,
    queue_depth: usize,
    pace: &Pace,
) -> io::Result<Vec<u8>> {
    let table = Mutex::new(vec![0; geometry.table_bytes()]);
    let count = geometry.body_bytes().div_ceil(WRITE_BYTES);
    in_pieces(count, queue_depth, &|| {
        let mut room = vec![0u8; WRITE_BYTES + PAGE_BYTES];
        let table = &table;
        let write = move |number: usize| {
            let start = number * WRITE_BYTES;
            let bytes = WRITE_BYTES.min(geometry.body_bytes() - start);
            let aligned = room.as_ptr().align_offset(PAGE_BYTES);
            let piece = &mut room[aligned..aligned + bytes];
            fill(start as u64, piece)?;
            let sums: Vec<u8> = piece.chunks_exact(PAGE_BYTES).flat_map(|page| crc32c(page).to_le_bytes()).collect();
            let entry = start / PAGE_BYTES * 4;
            table.lock().unwrap_or_else(PoisonError::into_inner)[entry..entry + sums.len()].copy_from_slice(&sums);
            file.write_at(piece, start as u64)?;
            pace.wait(bytes);
            Ok(())
        };
        Box::new(write)
    })?;
    Ok(table.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Something that handles a piece by its number; each thread has its own.
pub(super) type Handle<'a> = Box<dyn FnMut(usize) -> io::Result<()> + 'a>;

/// Handles pieces 0 to `count` - 1, some at once, until one fails.
pub(super) fn in_pieces<'a>(count: usize, at_once: usize, handle: &(dyn Fn() -> Handle<'a> + Sync)) -> io::Result<()> {
    let (next, failed, error) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let mut handle = handle();
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            if let Err(what) = handle(number) {
                failed.store(true, Ordering::Relaxed);
                error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(count).saturating_sub(1) {
            // Without another thread there are fewer writes under way, no more.
            let _ = std::thread::Builder::new().name("checkpoint-write".into()).spawn_scoped(scope, work);
        }
        work();
    });
    match error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Writes the table twice. It is copied to an address that a direct file takes.
pub(super) fn write_tables(file: &dyn StoredFile, table: &[u8], offset: u64) -> io::Result<()> {
    let mut room = vec![0u8; table.len() + PAGE_BYTES];
    let start = room.as_ptr().align_offset(PAGE_BYTES);
    let aligned = &mut room[start..start + table.len()];
    aligned.copy_from_slice(table);
    file.write_at(aligned, offset)?;
    file.write_at(aligned, offset + table.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_kept() {
        let began = Instant::now();
        let pace = Pace::new(Some(1_000_000));
        (0..5).for_each(|_| pace.wait(10_000));
        assert!(began.elapsed() >= Duration::from_millis(49));
        Pace::new(None).wait(usize::MAX / 2);
    }
}
