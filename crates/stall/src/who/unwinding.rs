//! Unwinds copied stacks on a thread of its own: the first stack of a program has its files read, which takes longer than
//! the rings hold records. What has arrived waits here until its raiser's stack is there, and is counted then.

use super::image::Of;
use super::unwind::{Unwinder, Unwound};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;
use surefoot_probes::{Raised, UserCopy};

/// Arrivals that wait for their stacks, with up to 8 KiB each; more are counted with the stacks that they have.
const WAITING: usize = 1024;

/// Stacks that are remembered by their record: a timer expires again and again for one arming.
const REMEMBERED: usize = 1024;

/// A copied stack, by the time and the core of its record.
struct Request {
    number: u64,
    record: (u64, CpuId),
    of: Of,
    copy: Arc<UserCopy>,
}

/// What was found, and the number of the request.
type Answer = (u64, Unwound);

/// The thread that unwinds, as seen from the one that asks, and what waits for it.
pub(crate) struct Unwinding<T> {
    requests: Option<SyncSender<Vec<Request>>>,
    /// What is to be asked at the end of the look: the thread is woken once for all of it.
    unsent: Vec<Request>,
    answers: Receiver<Answer>,
    /// Oldest first, as they are answered.
    waiting: VecDeque<(u64, Raised, T)>,
    next_number: u64,
    not_unwound: u64,
}

impl<T> Unwinding<T> {
    /// Starts the thread; it runs where the calling one may run, and ends when this is dropped. Without one nothing is
    /// unwound.
    pub(crate) fn start(root: &Root) -> Self {
        let (requests, asked) = sync_channel::<Vec<Request>>(WAITING);
        // As many as can wait, so that the thread never waits for its answers to be taken.
        let (answer, answers) = sync_channel::<Answer>(WAITING);
        let root = root.clone();
        let run = move || {
            let (mut unwinder, mut known) = (Unwinder::new(&root), HashMap::new());
            for Request { number, record, of, copy } in asked.into_iter().flatten() {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                let found: &mut Unwound = known.entry(record).or_insert_with(|| unwinder.unwind(of, &copy));
                if answer.send((number, found.clone())).is_err() {
                    return;
                }
            }
        };
        // It ends by itself when nobody asks any more.
        let thread = std::thread::Builder::new().name("surefoot-unwind".to_owned()).spawn(run);
        let requests = thread.is_ok().then_some(requests);
        Unwinding { requests, unsent: Vec::new(), answers, waiting: VecDeque::new(), next_number: 0, not_unwound: 0 }
    }

    /// Keeps an arrival until its raiser's stack is unwound. Gives it back at once where there is nothing to unwind, or no
    /// room.
    pub(crate) fn keep(&mut self, mut raised: Raised, arrival: T) -> Option<(Raised, T)> {
        let Some(copy) = raised.user_copy.take() else { return Some((raised, arrival)) };
        let number = self.next_number;
        let of = (raised.pid, raised.image);
        let request = Request { number, record: (raised.at_ns, raised.from), of, copy };
        if self.waiting.len() >= WAITING || self.requests.is_none() {
            self.not_unwound += 1;
            return Some((raised, arrival));
        }
        self.unsent.push(request);
        self.next_number += 1;
        self.waiting.push_back((number, raised, arrival));
        None
    }

    /// Asks for what was kept since the last time.
    fn ask(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.unsent);
        // No more batches than arrivals that wait, so there is always room for one; a thread that has gone is seen by its
        // answers.
        let _ = self.requests.as_ref().map(|requests| requests.try_send(batch));
    }

    /// The arrivals whose stacks are there, oldest first; waits until all are, but no longer than `patience`.
    pub(crate) fn take(&mut self, patience: Duration) -> Vec<(Raised, T)> {
        self.ask();
        let deadline = Instant::now() + patience;
        let mut done = Vec::new();
        while let Some((number, ..)) = self.waiting.front() {
            match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((answered, Unwound { frames, was_cut })) => {
                    debug_assert_eq!(answered, *number, "requests are answered in their order");
                    self.not_unwound += u64::from(was_cut);
                    done.extend(
                        self.waiting.pop_front().map(|(_, raised, arrival)| (completed(raised, frames), arrival)),
                    );
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    self.requests = None;
                    break;
                }
            }
        }
        done
    }

    /// Whatever still waits, with the stacks that it has; nothing can be kept any more.
    pub(crate) fn give_up(&mut self) -> Vec<(Raised, T)> {
        self.requests = None;
        self.not_unwound += self.waiting.len() as u64;
        self.waiting.drain(..).map(|(_, raised, arrival)| (raised, arrival)).collect()
    }

    /// Arrivals that were given back with a stack that should have been unwound, or unwound further.
    pub(crate) fn not_unwound(&self) -> u64 {
        self.not_unwound
    }
}

/// The record with these frames, where they are more than frame pointers gave.
fn completed(mut raised: Raised, frames: Vec<u64>) -> Raised {
    if frames.len() > raised.user_stack.len() {
        raised.user_stack = frames;
        // The walk has the caller of a frameless wrapper, so it need not be guessed.
        raised.user_top = 0;
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::joiner::tests::raised;
    use surefoot_probes::RaisedKind;
    use surefoot_testkit::HostTree;

    /// Of nobody, so that its walk ends after the first frame.
    fn copied(at_ns: u64, ip: u64) -> Raised {
        let copy = UserCopy { ip, ..UserCopy::default() };
        Raised { pid: u32::MAX - 7, user_copy: Some(Arc::new(copy)), ..raised(RaisedKind::Function, at_ns, 1, 2) }
    }

    #[test]
    fn what_has_a_copied_stack_waits_for_it_and_nothing_else_does() {
        let tree = HostTree::new();
        let mut unwinding = Unwinding::start(&Root::at(tree.path()));
        let (plain, word) = unwinding.keep(raised(RaisedKind::Function, 1, 1, 2), "plain").unwrap();
        assert_eq!((plain.at_ns, word), (1, "plain"));
        assert!(unwinding.keep(copied(2, 0x10), "first").is_none());
        assert!(unwinding.keep(copied(3, 0x20), "second").is_none());
        // The same record has the same stack, whatever comes with it.
        assert!(unwinding.keep(copied(2, 0x30), "third").is_none());
        let done = unwinding.take(Duration::from_secs(60));
        let found: Vec<(&[u64], &str)> = done.iter().map(|(raised, word)| (&raised.user_stack[..], *word)).collect();
        assert_eq!(found, [(&[0x10][..], "first"), (&[0x20], "second"), (&[0x10], "third")]);
        assert!(unwinding.take(Duration::from_secs(60)).is_empty(), "nothing waits, so nobody does");
        assert_eq!(unwinding.not_unwound(), 0);
    }

    #[test]
    fn a_longer_stack_by_frame_pointers_stays() {
        let of = |user_stack: Vec<u64>| Raised { user_stack, user_top: 9, ..copied(1, 1) };
        let kept = completed(of(vec![1, 2]), vec![3, 4]);
        assert_eq!((kept.user_stack, kept.user_top), (vec![1, 2], 9));
        let replaced = completed(of(vec![1, 2]), vec![3, 4, 5]);
        assert_eq!((replaced.user_stack, replaced.user_top), (vec![3, 4, 5], 0));
    }

    #[test]
    fn what_finds_no_room_or_no_time_keeps_its_stack_and_is_counted() {
        let tree = HostTree::new();
        let mut unwinding = Unwinding::start(&Root::at(tree.path()));
        let given_back =
            (0..WAITING as u64 + 5).filter(|&at_ns| unwinding.keep(copied(at_ns, 1), ()).is_some()).count();
        assert_eq!((given_back, unwinding.not_unwound()), (5, 5));
        assert_eq!(unwinding.give_up().len(), WAITING);
        assert_eq!(unwinding.not_unwound(), 5 + WAITING as u64);
        assert!(unwinding.keep(copied(9, 1), ()).is_some(), "it is over");
    }
}
