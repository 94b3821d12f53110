//! The way of a checkpoint from memory to the durable tier, in the background.

use super::agreement;
use crate::generation::{Commit, GenerationId, Manifest};
use crate::tier::{Durable, SlotImage};
use crate::{Error, Group};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A checkpoint on its way.
pub(super) struct Drain {
    generation: GenerationId,
    began: Instant,
    took: Option<Duration>,
    thread: Option<JoinHandle<(Result<u64, Error>, Duration)>>,
    written: Option<Result<u64, Error>>,
}

impl Drain {
    /// Begins to write. Where no thread is to be had, it is written before this returns.
    pub(super) fn start(durable: Durable, manifest: Manifest, image: SlotImage) -> Self {
        let began = Instant::now();
        let generation = manifest.generation;
        let (spare, spare_manifest, spare_image) = (durable.clone(), manifest.clone(), image.clone());
        let write = move || {
            let written = durable.write(&manifest, image.bytes());
            // The slot is free from here on, not from when somebody asks.
            drop(image);
            (written, began.elapsed())
        };
        let thread = std::thread::Builder::new().name("checkpoint-drain".into()).spawn(write);
        match thread {
            Ok(thread) => Drain { generation, began, took: None, thread: Some(thread), written: None },
            Err(_) => {
                let written = spare.write(&spare_manifest, spare_image.bytes());
                Drain { generation, began, took: Some(began.elapsed()), thread: None, written: Some(written) }
            }
        }
    }

    pub(super) fn generation(&self) -> GenerationId {
        self.generation
    }

    /// When it was taken, in seconds after `origin`.
    pub(super) fn began_s(&self, origin: Instant) -> f64 {
        self.began.saturating_duration_since(origin).as_secs_f64()
    }

    pub(super) fn took_s(&self) -> f64 {
        self.took.unwrap_or_default().as_secs_f64()
    }

    /// Bytes written by this rank, once all ranks have written, or the first failure; `None` while one still writes.
    pub(super) fn outcome(&mut self, group: &dyn Group, waits: bool) -> Result<Option<Result<u64, Error>>, Error> {
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if (is_over || waits)
            && let Some(thread) = self.thread.take()
        {
            let (written, took) = thread.join().unwrap_or_else(|_| {
                (Err(Error::Option { option: "durable", why: "the writing thread ended early".into() }), Duration::ZERO)
            });
            self.written = Some(written);
            self.took = Some(took);
        }
        let running = agreement::sum(group, u64::from(self.written.is_none()))?;
        if running > 0 {
            return Ok(None);
        }
        let Some(written) = self.written.take() else { return Ok(None) };
        Ok(Some(agreement::all_or_none(group, written)))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // A process that ends lets its write come to an end; without the others it is not marked as complete.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Rank 0 marks a generation that all ranks have written as complete, and removes what is older than is to be kept.
pub(super) fn commit(group: &dyn Group, durable: &Durable, generation: GenerationId) -> Result<(), Error> {
    let own = match group.rank() {
        0 => durable.commit(Commit { generation, ranks: group.size() }),
        _ => Ok(()),
    };
    agreement::all_or_none(group, own)?;
    if group.rank() == 0 {
        // What cannot be removed now is tried again after the next.
        let _ = durable.prune();
    }
    Ok(())
}
