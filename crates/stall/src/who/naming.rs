//! Names user stacks on a thread of their own: reading the symbols of a large program takes longer than the rings hold
//! records, and who reads the rings must not wait for it.

use super::names::{Deaths, IDLE};
use super::stacks::UserStacks;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;

/// Stacks that wait for their names; more stay addresses.
const WAITING: usize = 4096;

struct Request {
    row: u32,
    pid: u32,
    addresses: Vec<u64>,
    top: u64,
}

/// The names of a stack, and the row that it belongs to.
pub(crate) type Named = (u32, Vec<String>);

/// The thread that names, as seen from the one that asks.
pub(crate) struct Namer {
    requests: SyncSender<Vec<Request>>,
    /// What is to be asked at the end of the look: the thread is woken once for all of it.
    unsent: Vec<Request>,
    answers: Receiver<Named>,
    outstanding: usize,
    deaths: Deaths,
}

impl Namer {
    /// Starts the thread; it runs where the calling one may run, and ends when this is dropped. `None` when no thread can
    /// be had.
    pub(crate) fn start(root: &Root) -> Option<Self> {
        let (requests, asked) = sync_channel::<Vec<Request>>(WAITING);
        // As many as can be outstanding, so that the thread never waits for its answers to be taken.
        let (answer, answers) = sync_channel::<Named>(2 * WAITING);
        let deaths = Deaths::default();
        let (root, counted) = (root.clone(), deaths.clone());
        let run = move || {
            let mut stacks = UserStacks::new(&root, counted);
            while let Some(batch) = next(&asked, &mut stacks) {
                for request in batch {
                    let names = stacks.frames(request.pid, &request.addresses, request.top);
                    if answer.send((request.row, names)).is_err() {
                        return;
                    }
                }
            }
        };
        // It ends by itself when nobody asks any more.
        std::thread::Builder::new().name("surefoot-namer".to_owned()).spawn(run).ok()?;
        Some(Namer { requests, unsent: Vec::new(), answers, outstanding: 0, deaths })
    }

    /// How often the process that reads files ended over one.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.count()
    }

    /// Stacks whose names are not there yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Asks for the names of a stack, to be put into a row. Returns why it has none until they are there.
    pub(crate) fn ask(&mut self, row: u32, pid: u32, addresses: &[u64], top: u64) -> &'static str {
        if addresses.is_empty() {
            return "";
        }
        let request = Request { row, pid, addresses: addresses.to_vec(), top };
        if self.outstanding >= WAITING {
            return "not named: too many stacks at once";
        }
        self.outstanding += 1;
        self.unsent.push(request);
        "not named yet"
    }

    /// The names that have been found; waits until all are there, but no longer than `patience`.
    pub(crate) fn take(&mut self, patience: Duration) -> Vec<Named> {
        let deadline = Instant::now() + patience;
        if !self.unsent.is_empty() {
            // No more batches than stacks that are outstanding, so there is room; that nobody reads them is seen below.
            let _ = self.requests.try_send(std::mem::take(&mut self.unsent));
        }
        let mut named = Vec::new();
        while self.outstanding > 0 {
            match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(answer) => {
                    self.outstanding -= 1;
                    named.push(answer);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => self.outstanding = 0,
            }
        }
        named
    }
}

/// The next requests. While none comes, what was kept for the last ones goes.
fn next(asked: &Receiver<Vec<Request>>, stacks: &mut UserStacks) -> Option<Vec<Request>> {
    while stacks.is_reading() {
        match asked.recv_timeout(IDLE) {
            Ok(batch) => return Some(batch),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    asked.recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::names::tests::use_this_program;

    #[inline(never)]
    fn a_function_that_the_namer_knows() {}

    #[test]
    fn names_come_later_and_to_the_row_that_asked() {
        use_this_program();
        let mut namer = Namer::start(&Root::host()).unwrap();
        let own = a_function_that_the_namer_knows as *const () as u64;
        assert_eq!(namer.ask(3, std::process::id(), &[own], 0), "not named yet");
        assert_eq!(namer.ask(4, std::process::id(), &[], 0), "", "nothing to name");
        namer.ask(5, u32::MAX - 7, &[0x10], 0);
        let named = namer.take(Duration::from_secs(60));
        assert_eq!(named.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [3, 5]);
        assert!(named[0].1[0].contains("a_function_that_the_namer_knows"), "{named:?}");
        assert_eq!(named[1].1, ["0x10 (the process is gone)"]);
        assert_eq!(namer.take(Duration::from_secs(60)), [], "nothing is outstanding, so nobody waits");
    }

    #[test]
    fn what_nobody_takes_is_limited() {
        use_this_program();
        let mut namer = Namer::start(&Root::host()).unwrap();
        let shown: Vec<&str> = (0..WAITING as u32 + 5).map(|row| namer.ask(row, u32::MAX - 7, &[0x10], 0)).collect();
        assert_eq!(shown[0], "not named yet");
        assert_eq!(shown[WAITING + 4], "not named: too many stacks at once");
        assert_eq!(namer.take(Duration::from_secs(60)).len(), WAITING);
    }
}
