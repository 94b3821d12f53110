//! Ranks that are threads of one process: for programs with threads only, and for tests with many ranks.

use super::Group;
use crate::Error;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long a rank waits for another before it says that it is missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages that wait between two ranks.
const WAITING_MAX: usize = 64;

/// Buffers of messages that a rank keeps for the next ones, and the longest that is kept: a fresh one of a megabyte costs
/// the kernel more than the copy into it.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// What a rank of threads has said to others and heard of them. What has no bytes needs no message, and is none.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: [AtomicU64; 2],
    received: [AtomicU64; 2],
}

impl Traffic {
    fn count(of: &[AtomicU64; 2], bytes: usize) {
        of[0].fetch_add(u64::from(bytes > 0), Ordering::Relaxed);
        of[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Messages and bytes that this rank has sent so far.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent[0].load(Ordering::Relaxed), self.sent[1].load(Ordering::Relaxed))
    }

    /// Messages and bytes that it has received.
    pub fn received(&self) -> (u64, u64) {
        (self.received[0].load(Ordering::Relaxed), self.received[1].load(Ordering::Relaxed))
    }
}

/// One rank of a group of threads. A broadcast goes from rank to rank in a tree: each passes it on to two at most.
pub struct ThreadGroup {
    rank: u32,
    traffic: Arc<Traffic>,
    spare: RefCell<Vec<Vec<u8>>>,
    patience: Duration,
    to: Vec<SyncSender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

/// The ranks of a group of `size` threads, to be moved into one thread each. `patience` limits how long a rank waits
/// for a missing one; the default is a minute.
pub fn thread_group(size: u32, patience: Option<Duration>) -> Vec<ThreadGroup> {
    let mut ranks: Vec<ThreadGroup> = (0..size)
        .map(|rank| ThreadGroup {
            rank,
            traffic: Arc::default(),
            spare: RefCell::default(),
            patience: patience.unwrap_or(PATIENCE),
            to: Vec::new(),
            from: Vec::new(),
        })
        .collect();
    for sender in 0..size as usize {
        for receiver in 0..size as usize {
            let (tx, rx) = sync_channel(WAITING_MAX);
            ranks[sender].to.push(tx);
            ranks[receiver].from.push(rx);
        }
    }
    ranks
}

impl ThreadGroup {
    /// What it has said and heard so far; it may be asked for after the group has gone into a session.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<(), Error> {
        let to_rank = self.to.get(to as usize).ok_or_else(|| Error::Group { why: format!("there is no rank {to}") })?;
        Traffic::count(&self.traffic.sent, bytes.len());
        let mut message = self.spare.borrow_mut().pop().unwrap_or_default();
        message.clear();
        message.extend_from_slice(bytes);
        to_rank.try_send(message).map_err(|_| Error::Group { why: format!("rank {to} does not listen") })
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>, Error> {
        let from_rank =
            self.from.get(from as usize).ok_or_else(|| Error::Group { why: format!("there is no rank {from}") })?;
        let got = from_rank.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Error::Group { why: format!("rank {from} did not answer within {:?}", self.patience) }
            }
            RecvTimeoutError::Disconnected => Error::Group { why: format!("rank {from} is gone") },
        })?;
        Traffic::count(&self.traffic.received, got.len());
        Ok(got)
    }

    /// So many bytes from a rank.
    fn receive_of(&self, from: u32, length: usize) -> Result<Vec<u8>, Error> {
        let got = self.receive(from)?;
        match got.len() == length {
            true => Ok(got),
            false => Err(Error::Group { why: format!("rank {from} sent {} bytes, not {length}", got.len()) }),
        }
    }

    fn receive_into(&self, from: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let got = self.receive_of(from, bytes.len())?;
        bytes.copy_from_slice(&got);
        self.keep(got);
        Ok(())
    }

    /// Keeps a buffer for a later message.
    fn keep(&self, buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            spare.push(buffer);
        }
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.to.len() as u32
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        let size = self.size();
        let place = (self.rank + size - root) % size;
        let rank_of = |place: u32| (place + root) % size;
        let heard = if place == 0 { Ok(()) } else { self.receive_into(rank_of((place - 1) / 2), bytes) };
        // Those below a rank that heard nothing need not wait: what they get is too short.
        let passed = if heard.is_ok() { &*bytes } else { &[] };
        let below = (2 * place + 1..=2 * place + 2).filter(|below| *below < size);
        below.fold(heard, |heard, below| heard.and(self.send(rank_of(below), passed)))
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        (0..self.size()).filter(|&rank| rank != self.rank).try_for_each(|rank| self.send(rank, own))?;
        (0..self.size()).map(|rank| if rank == self.rank { Ok(own.to_vec()) } else { self.receive(rank) }).collect()
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        if !send.is_empty() {
            self.send(to, send)?;
        }
        if receive.is_empty() { Ok(()) } else { self.receive_into(from, receive) }
    }

    fn post(&self, to: u32, bytes: &[u8]) -> Result<bool, Error> {
        self.send(to, bytes).map(|()| true)
    }

    fn can_post(&self) -> bool {
        true
    }

    fn exchange_buffer(&self, to: u32, send: &[u8], from: u32, receive: Vec<u8>) -> Result<Vec<u8>, Error> {
        if !send.is_empty() {
            self.send(to, send)?;
        }
        if receive.is_empty() {
            return Ok(receive);
        }
        let got = self.receive_of(from, receive.len())?;
        self.keep(receive);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn on_all<T: Send>(size: u32, run: impl Fn(ThreadGroup) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = thread_group(size, None).into_iter().map(|rank| scope.spawn(|| run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_ranks_hear_the_root_and_each_other() {
        let heard = on_all(3, |group| {
            let mut bytes = [group.rank() as u8; 4];
            group.broadcast(&mut bytes, 2).unwrap();
            let all = group.gather_all(&vec![7; group.rank() as usize]).unwrap();
            let mut from_left = [0];
            let (size, rank) = (group.size(), group.rank());
            group.exchange((rank + 1) % size, &[rank as u8], (rank + size - 1) % size, &mut from_left).unwrap();
            (bytes, all, from_left[0])
        });
        let all = vec![vec![], vec![7], vec![7, 7]];
        assert_eq!(heard, [([2; 4], all.clone(), 2), ([2; 4], all.clone(), 0), ([2; 4], all, 1)]);
    }

    #[test]
    fn a_rank_that_is_gone_or_silent_is_named() {
        let mut ranks = thread_group(2, Some(Duration::from_millis(10)));
        let first = ranks.remove(0);
        let error = first.gather_all(&[]).unwrap_err().to_string();
        assert!(error.contains("rank 1 did not answer"), "{error}");
        drop(ranks);
        let error = first.gather_all(&[]).unwrap_err().to_string();
        assert!(error.contains("rank 1"), "{error}");
    }
}
