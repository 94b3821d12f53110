//! The way of a checkpoint from memory to the durable tier, in the background.

use super::Target;
use crate::Error;
use crate::generation::{Commit, GenerationId};
use crate::session::nodes::Nodes;
use crate::session::ranks::{Message, Ranks};
use crate::tier::{Budget, Durable, StoredPart, Written};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use surefoot_model::CheckpointTier as Tier;

/// A checkpoint on its way.
pub struct Drain {
    generation: GenerationId,
    taken: Instant,
    took: Option<Duration>,
    thread: Option<JoinHandle<Ended>>,
    written: Option<Result<Written, Error>>,
    free_bytes: Option<u64>,
    unkept: Option<Error>,
}

/// The result of a writing thread.
struct Ended {
    written: Result<Written, Error>,
    took: Duration,
    /// What could still be written afterwards.
    free_bytes: Option<u64>,
    /// Why the drive's budget could not be kept for the next session.
    unkept: Option<Error>,
}

/// What is written, by where it comes from.
pub enum Content {
    /// A checkpoint in memory.
    Slot(StoredPart),
    /// One in another durable tier.
    Part(StoredPart),
    /// This rank's part is there already; others' are not.
    There(GenerationId),
}

impl Content {
    fn generation(&self) -> GenerationId {
        match self {
            Content::Slot(part) | Content::Part(part) => part.manifest.generation,
            Content::There(generation) => *generation,
        }
    }

    /// Bytes that it takes in a durable tier; 0 where it is there.
    pub fn bytes_for(&self, durable: &Durable) -> u64 {
        match self {
            Content::Slot(part) | Content::Part(part) => durable.bytes_for(part.manifest.payload_bytes).unwrap_or(0),
            Content::There(_) => 0,
        }
    }

    fn write(&self, durable: &Durable) -> Result<Written, Error> {
        match self {
            Content::Slot(part) => durable.write(part),
            Content::Part(part) => durable.write_copy(part),
            Content::There(_) => Ok(Written::default()),
        }
    }
}

impl Drain {
    /// Begins to write what was taken at `began`; what the drive's budget is then comes first, so that a process that is
    /// killed meanwhile has it in its books. Where no thread is to be had, it is written before this returns.
    pub fn start(durable: &Durable, content: Content, began: Instant, left: Option<Budget>) -> Self {
        Drain::begin(durable, content, [began, began], left)
    }

    /// As [`Drain::start`], of what was taken a while ago: how long it takes counts from now on.
    pub fn start_late(durable: &Durable, content: Content, taken: Instant, left: Option<Budget>) -> Self {
        Drain::begin(durable, content, [taken, Instant::now()], left)
    }

    fn begin(durable: &Durable, content: Content, [taken, began]: [Instant; 2], left: Option<Budget>) -> Self {
        let generation = content.generation();
        let content = Arc::new(content);
        let (theirs, tier) = (Arc::clone(&content), durable.clone());
        let write = move || {
            let unkept = left.and_then(|left| tier.keep_budget(&left).err());
            let written = theirs.write(&tier);
            // The slot is free from here on, not from when somebody asks.
            drop(theirs);
            Ended { written, took: began.elapsed(), free_bytes: tier.free_bytes().ok(), unkept }
        };
        let mut drain =
            Drain { generation, taken, took: None, thread: None, written: None, free_bytes: None, unkept: None };
        match std::thread::Builder::new().name("checkpoint-drain".into()).spawn(write) {
            Ok(thread) => drain.thread = Some(thread),
            Err(_) => {
                drain.unkept = left.and_then(|left| durable.keep_budget(&left).err());
                drain.written = Some(content.write(durable));
                (drain.took, drain.free_bytes) = (Some(began.elapsed()), durable.free_bytes().ok());
            }
        }
        drain
    }

    pub fn generation(&self) -> GenerationId {
        self.generation
    }

    /// When it was taken, in seconds after `origin`.
    pub fn began_s(&self, origin: Instant) -> f64 {
        self.taken.saturating_duration_since(origin).as_secs_f64()
    }

    /// What could be written there when it ended.
    pub fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    /// Why the drive's budget could not be kept for the next session.
    pub fn take_unkept(&mut self) -> Option<Error> {
        self.unkept.take()
    }

    pub fn took_s(&self) -> f64 {
        self.took.unwrap_or_default().as_secs_f64()
    }

    /// Whether it is still being written here.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until it is written here.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().unwrap_or_else(|_| {
                let why = "the writing thread ended early".into();
                let written = Err(Error::Option { option: "durable", why });
                Ended { written, took: Duration::ZERO, free_bytes: None, unkept: None }
            });
            self.free_bytes = ended.free_bytes;
            self.unkept = ended.unkept;
            self.written = Some(ended.written);
            self.took = Some(ended.took);
        }
    }

    /// What this rank wrote, when all ranks have written, and of all of them the bytes and the largest `medium`; or the first
    /// failure.
    pub fn outcome(&mut self, ranks: &Ranks, medium: u64) -> Result<(Written, [u64; 2]), Error> {
        self.wait();
        let gone = || Err(Error::Option { option: "durable", why: "it was asked for twice".into() });
        let written = self.written.take().unwrap_or_else(gone);
        let bytes = written.as_ref().map_or(0, |written| written.bytes);
        let (written, told) =
            ranks.agree(written, Message { sums: [bytes, 0], mosts: [medium, 0], ..Message::default() })?;
        Ok((written, [told.sums[0], told.mosts[0]]))
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

impl Target {
    /// Whether a rank keeps the drive of a node without rank 0.
    fn has_own_drive(&self, ranks: &Ranks, nodes: &Nodes) -> bool {
        self.kind == Tier::Durable && nodes.ssd_count > 1 && nodes.is_first_at(self.kind) && !ranks.is_root()
    }

    /// Whether this rank removes what is not to be kept.
    pub(super) fn is_pruned_here(&self, ranks: &Ranks, nodes: &Nodes) -> bool {
        ranks.is_root() || self.has_own_drive(ranks, nodes)
    }

    /// Rank 0 marks a generation that all ranks have written as complete, and removes what is older than is to be kept. On
    /// a drive that rank 0 does not see, the first rank there does.
    pub fn commit(&self, ranks: &Ranks, nodes: &Nodes, generation: GenerationId) -> Result<(), Error> {
        let mark = || {
            // Of the run that the part says which this rank has just written: it may be one before this.
            let epoch = self.tier.manifest(generation, ranks.rank())?.epoch;
            self.tier.commit(Commit { generation, ranks: ranks.size(), epoch })
        };
        let own = if ranks.is_root() { mark() } else { Ok(()) };
        ranks.all_or_none(own)?;
        if self.kind == Tier::Durable && nodes.ssd_count > 1 {
            let own = match self.has_own_drive(ranks, nodes) && !self.tier.is_committed(generation) {
                true => mark(),
                false => Ok(()),
            };
            ranks.all_or_none(own)?;
        }
        if self.is_pruned_here(ranks, nodes) {
            // What cannot be removed now is tried again after the next.
            let _ = self.tier.prune();
        }
        Ok(())
    }
}
