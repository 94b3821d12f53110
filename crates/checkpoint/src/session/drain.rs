//! The way of a checkpoint from memory to the durable tier, in the background.

use super::target::Kind;
use super::{Nodes, agreement};
use crate::generation::{Commit, GenerationId};
use crate::tier::{Durable, StoredPart, Written};
use crate::{Error, Group};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A checkpoint on its way.
pub(super) struct Drain {
    generation: GenerationId,
    began: Instant,
    took: Option<Duration>,
    thread: Option<JoinHandle<Ended>>,
    written: Option<Result<Written, Error>>,
    free_bytes: Option<u64>,
}

/// The result of a writing thread: what was written, how long it took, and what could still be written afterwards.
type Ended = (Result<Written, Error>, Duration, Option<u64>);

/// What is written, by where it comes from.
pub(super) enum Content {
    /// A checkpoint in memory.
    Slot(StoredPart),
    /// One in another durable tier.
    Part(StoredPart),
}

impl Content {
    fn generation(&self) -> GenerationId {
        match self {
            Content::Slot(part) | Content::Part(part) => part.manifest.generation,
        }
    }

    fn write(&self, durable: &Durable) -> Result<Written, Error> {
        match self {
            Content::Slot(part) => durable.write(part),
            Content::Part(part) => durable.write_copy(part),
        }
    }
}

impl Drain {
    /// Begins to write what was taken at `began`. Where no thread is to be had, it is written before this returns.
    pub(super) fn start(durable: &Durable, content: Content, began: Instant) -> Self {
        let generation = content.generation();
        let content = Arc::new(content);
        let (theirs, tier) = (Arc::clone(&content), durable.clone());
        let write = move || {
            let written = theirs.write(&tier);
            // The slot is free from here on, not from when somebody asks.
            drop(theirs);
            (written, began.elapsed(), tier.free_bytes().ok())
        };
        match std::thread::Builder::new().name("checkpoint-drain".into()).spawn(write) {
            Ok(thread) => {
                Drain { generation, began, took: None, thread: Some(thread), written: None, free_bytes: None }
            }
            Err(_) => {
                let written = content.write(durable);
                let (took, free_bytes) = (Some(began.elapsed()), durable.free_bytes().ok());
                Drain { generation, began, took, thread: None, written: Some(written), free_bytes }
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

    /// What could be written there when it ended.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    pub(super) fn took_s(&self) -> f64 {
        self.took.unwrap_or_default().as_secs_f64()
    }

    /// What this rank wrote, once all ranks have written, or the first failure; `None` while one still writes.
    pub(super) fn outcome(&mut self, group: &dyn Group, waits: bool) -> Result<Option<Result<Written, Error>>, Error> {
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if (is_over || waits)
            && let Some(thread) = self.thread.take()
        {
            let (written, took, free_bytes) = thread.join().unwrap_or_else(|_| {
                let why = "the writing thread ended early".into();
                (Err(Error::Option { option: "durable", why }), Duration::ZERO, None)
            });
            self.free_bytes = free_bytes;
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

/// Rank 0 marks a generation that all ranks have written as complete, and removes what is older than is to be kept. On
/// a drive that only the ranks of another node see, the first rank there does.
pub(super) fn commit(
    group: &dyn Group,
    durable: &Durable,
    kind: Kind,
    generation: GenerationId,
    nodes: Nodes,
) -> Result<(), Error> {
    let mark = Commit { generation, ranks: group.size() };
    let own = if group.rank() == 0 { durable.commit(mark) } else { Ok(()) };
    agreement::all_or_none(group, own)?;
    let has_own_drive = kind == Kind::Ssd && nodes.are_several && nodes.is_first_here && group.rank() != 0;
    if kind == Kind::Ssd && nodes.are_several {
        let own = match has_own_drive && !durable.is_committed(generation) {
            true => durable.commit(mark),
            false => Ok(()),
        };
        agreement::all_or_none(group, own)?;
    }
    if group.rank() == 0 || has_own_drive {
        // What cannot be removed now is tried again after the next.
        let _ = durable.prune();
    }
    Ok(())
}
