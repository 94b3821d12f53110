//! Ranks that are threads of one process: for programs with threads only, and for tests with many ranks.

use super::Group;
use crate::Error;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long a rank waits for another before it says that it is missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages that wait between two ranks.
const WAITING_MAX: usize = 64;

/// One rank of a group of threads.
pub struct ThreadGroup {
    rank: u32,
    patience: Duration,
    to: Vec<SyncSender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

/// The ranks of a group of `size` threads, to be moved into one thread each. `patience` limits how long a rank waits
/// for a missing one; the default is a minute.
pub fn thread_group(size: u32, patience: Option<Duration>) -> Vec<ThreadGroup> {
    let mut ranks: Vec<ThreadGroup> = (0..size)
        .map(|rank| ThreadGroup { rank, patience: patience.unwrap_or(PATIENCE), to: Vec::new(), from: Vec::new() })
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
    fn send(&self, to: u32, bytes: &[u8]) -> Result<(), Error> {
        let to_rank = self.to.get(to as usize).ok_or_else(|| Error::Group { why: format!("there is no rank {to}") })?;
        to_rank.try_send(bytes.to_vec()).map_err(|_| Error::Group { why: format!("rank {to} does not listen") })
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>, Error> {
        let from_rank =
            self.from.get(from as usize).ok_or_else(|| Error::Group { why: format!("there is no rank {from}") })?;
        from_rank.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Error::Group { why: format!("rank {from} did not answer within {:?}", self.patience) }
            }
            RecvTimeoutError::Disconnected => Error::Group { why: format!("rank {from} is gone") },
        })
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
        if self.rank == root {
            return (0..self.size()).filter(|&rank| rank != root).try_for_each(|rank| self.send(rank, bytes));
        }
        let got = self.receive(root)?;
        if got.len() != bytes.len() {
            return Err(Error::Group { why: format!("rank {root} sent {} bytes, not {}", got.len(), bytes.len()) });
        }
        bytes.copy_from_slice(&got);
        Ok(())
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        (0..self.size()).filter(|&rank| rank != self.rank).try_for_each(|rank| self.send(rank, own))?;
        (0..self.size()).map(|rank| if rank == self.rank { Ok(own.to_vec()) } else { self.receive(rank) }).collect()
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.send(to, send)?;
        let got = self.receive(from)?;
        if got.len() != receive.len() {
            return Err(Error::Group { why: format!("rank {from} sent {} bytes, not {}", got.len(), receive.len()) });
        }
        receive.copy_from_slice(&got);
        Ok(())
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
