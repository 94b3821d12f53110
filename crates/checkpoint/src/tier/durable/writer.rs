//! Writes an image with several writes under way, no faster than allowed.

use crate::StoredFile;
use crate::image::PAGE_BYTES;
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

/// Writes all of `bytes` from `offset` on.
///
/// # Errors
/// The first error; writes that are under way are waited for, and none is begun after it.
pub(super) fn write_all(
    file: &dyn StoredFile,
    bytes: &[u8],
    offset: u64,
    queue_depth: usize,
    pace: &Pace,
) -> io::Result<()> {
    let pieces: Vec<&[u8]> = bytes.chunks(WRITE_BYTES).collect();
    let (next, failed, error) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(number) else { return };
            match file.write_at(piece, offset + (number * WRITE_BYTES) as u64) {
                Ok(()) => pace.wait(piece.len()),
                Err(what) => {
                    failed.store(true, Ordering::Relaxed);
                    error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                }
            }
        }
    };
    let helpers = queue_depth.min(pieces.len()).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
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
