//! Names user stacks on a thread of their own: reading the symbols of a large program takes longer than the rings hold
//! records, and who reads the rings must not wait for it. Users take turns, because some have files that are long to read.

use super::image::Of;
use super::names::{Deaths, IDLE};
use super::stacks::UserStacks;
use super::turns::Turns;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, images};

/// Stacks that wait for their names; more stay addresses.
const WAITING: usize = 4096;

/// Of these, stacks of one user.
const WAITING_OF_USER: usize = WAITING / 2;

/// Whose processes are not known to be anybody's, because they are gone.
const UNKNOWN_USER: u32 = u32::MAX;

struct Request {
    row: u32,
    user: u32,
    of: Of,
    addresses: Vec<u64>,
    top: u64,
}

/// The names of a stack, and the row that it belongs to.
pub(crate) type Named = (u32, Vec<String>);

/// The thread that names, as seen from the one that asks.
pub(crate) struct Namer {
    root: Root,
    requests: SyncSender<Vec<Request>>,
    /// What is to be asked at the end of the look: the thread is woken once for all of it.
    unsent: Vec<Request>,
    answers: Receiver<(u32, Named)>,
    outstanding: usize,
    /// The same by user.
    of_users: HashMap<u32, usize>,
    deaths: Deaths,
}

impl Namer {
    /// Starts the thread; it runs where the calling one may run, and ends when this is dropped. `None` when no thread can
    /// be had.
    pub(crate) fn start(root: &Root) -> Option<Self> {
        let (requests, asked) = sync_channel::<Vec<Request>>(WAITING);
        // As many as can be outstanding, so that the thread never waits for its answers to be taken.
        let (answer, answers) = sync_channel::<(u32, Named)>(2 * WAITING);
        let deaths = Deaths::default();
        let (own_root, counted) = (root.clone(), deaths.clone());
        let run = move || {
            let mut stacks = UserStacks::new(&own_root, counted);
            let mut turns = Turns::default();
            while let Some((user, request)) = next(&asked, &mut turns, &mut stacks) {
                let begun = Instant::now();
                let names = stacks.frames(request.of, &request.addresses, request.top);
                turns.took(user, begun.elapsed());
                if answer.send((user, (request.row, names))).is_err() {
                    return;
                }
            }
        };
        // It ends by itself when nobody asks any more.
        std::thread::Builder::new().name("surefoot-namer".to_owned()).spawn(run).ok()?;
        let (root, unsent, of_users) = (root.clone(), Vec::new(), HashMap::new());
        Some(Namer { root, requests, unsent, answers, outstanding: 0, of_users, deaths })
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
    pub(crate) fn ask(&mut self, row: u32, of: Of, addresses: &[u64], top: u64) -> &'static str {
        if addresses.is_empty() {
            return "";
        }
        let user = images::user_of(&self.root, of.0).unwrap_or(UNKNOWN_USER);
        let own = self.of_users.get(&user).copied().unwrap_or(0);
        if self.outstanding >= WAITING || own >= waiting_max(user) {
            return "not named: too many stacks at once";
        }
        self.outstanding += 1;
        self.of_users.insert(user, own + 1);
        self.unsent.push(Request { row, user, of, addresses: addresses.to_vec(), top });
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
                Ok((user, answer)) => {
                    self.outstanding -= 1;
                    if let Some(own) = self.of_users.get_mut(&user) {
                        *own -= 1;
                        if *own == 0 {
                            self.of_users.remove(&user);
                        }
                    }
                    named.push(answer);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => self.outstanding = 0,
            }
        }
        named
    }
}

/// How many stacks of a user may wait. Root's may all, and those of processes that are gone, of which nothing is read.
fn waiting_max(user: u32) -> usize {
    if user == 0 || user == UNKNOWN_USER { WAITING } else { WAITING_OF_USER }
}

/// The next request. While none comes, what was kept for the last ones goes.
fn next(asked: &Receiver<Vec<Request>>, turns: &mut Turns<Request>, stacks: &mut UserStacks) -> Option<(u32, Request)> {
    loop {
        // Whatever has come is looked at before one is chosen.
        loop {
            match asked.try_recv() {
                Ok(batch) => batch.into_iter().for_each(|request| turns.push(request.user, request)),
                Err(TryRecvError::Empty) => break,
                // The rest is wanted by nobody.
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        if let Some(next) = turns.next() {
            return Some(next);
        }
        let waited = if stacks.is_reading() {
            asked.recv_timeout(IDLE)
        } else {
            asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match waited {
            Ok(batch) => batch.into_iter().for_each(|request| turns.push(request.user, request)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
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
        assert_eq!(namer.ask(3, (std::process::id(), 0), &[own], 0), "not named yet");
        assert_eq!(namer.ask(4, (std::process::id(), 0), &[], 0), "", "nothing to name");
        namer.ask(5, (u32::MAX - 7, 0), &[0x10], 0);
        let named = namer.take(Duration::from_secs(60));
        assert_eq!(named.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [3, 5]);
        assert!(named[0].1[0].contains("a_function_that_the_namer_knows"), "{named:?}");
        assert_eq!(named[1].1, ["0x10 (the process is gone)"]);
        assert_eq!(namer.take(Duration::from_secs(60)), [], "nothing is outstanding, so nobody waits");
    }

    /// A hundred stacks of a user whose files are long to read wait, and then one of another user comes.
    #[test]
    fn a_user_whose_files_take_long_does_not_keep_others_waiting() {
        let (asks, asked) = sync_channel(WAITING);
        let ask = |user, row| asks.send(vec![Request { row, user, of: (1, 0), addresses: vec![1], top: 0 }]).unwrap();
        let mut stacks = UserStacks::new(&Root::host(), Deaths::default());
        let mut turns = Turns::default();
        (0..100).for_each(|row| ask(7, row));
        let row = |next: Option<(u32, Request)>| next.map(|(user, request)| (user, request.row));
        assert_eq!(row(next(&asked, &mut turns, &mut stacks)), Some((7, 0)));
        turns.took(7, Duration::from_secs(5));
        ask(8, 100);
        assert_eq!(row(next(&asked, &mut turns, &mut stacks)), Some((8, 100)), "99 came before it");
        turns.took(8, Duration::from_millis(1));
        assert_eq!(row(next(&asked, &mut turns, &mut stacks)), Some((7, 1)));
        drop(asks);
        assert!(next(&asked, &mut turns, &mut stacks).is_none(), "what nobody waits for is left");
    }

    #[test]
    fn a_user_takes_half_of_the_places_at_the_most() {
        assert_eq!((waiting_max(0), waiting_max(1000), waiting_max(UNKNOWN_USER)), (WAITING, WAITING / 2, WAITING));
    }

    #[test]
    fn what_nobody_takes_is_limited() {
        use_this_program();
        let mut namer = Namer::start(&Root::host()).unwrap();
        let shown: Vec<&str> =
            (0..WAITING as u32 + 5).map(|row| namer.ask(row, (u32::MAX - 7, 0), &[0x10], 0)).collect();
        assert_eq!(shown[0], "not named yet");
        assert_eq!(shown[WAITING + 4], "not named: too many stacks at once");
        assert_eq!(namer.take(Duration::from_secs(60)).len(), WAITING);
    }
}
