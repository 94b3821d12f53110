//! The engine's own thread: the only one that asks the store.

use super::{Attempt, Ended, Settings, Shared};
use crate::act::Act;
use crate::decide::{self, Controller};
use crate::policy::Policies;
use crate::{Casebook, Error};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use surefoot_model::Case;

/// How often the end of one attempt is worked out anew because somebody changed the case meanwhile.
const CONFLICTS_MAX: usize = 100;

pub(super) enum Message {
    /// Decide now.
    Wake,
    /// There are other policies.
    Reloaded,
    /// The attempt of this case and fence has ended; `None` where its thread died, and nobody knows what became of it.
    Ended(u64, u64, Option<Ended>),
}

pub(super) struct Work {
    book: Box<dyn Casebook>,
    shared: Arc<Shared>,
    name: String,
    settings: Settings,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    /// The attempts under way, by the case; each case has one at most.
    running: BTreeMap<u64, Running>,
    /// Whether alerts that were settled are to be looked at again.
    is_to_reconsider: bool,
}

struct Running {
    attempt: Attempt,
    stop: Arc<AtomicBool>,
    held_until: Instant,
    /// What came of it, while the store cannot be written to.
    ended: Option<Ended>,
}

impl Work {
    pub(super) fn new(
        book: Box<dyn Casebook>,
        shared: Arc<Shared>,
        name: String,
        settings: Settings,
        sender: Sender<Message>,
        receiver: Receiver<Message>,
    ) -> Self {
        Work { book, shared, name, settings, sender, receiver, running: BTreeMap::new(), is_to_reconsider: true }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopped.load(Ordering::Acquire) {
            let is_more = self.round();
            self.listen(if is_more { Duration::ZERO } else { self.wait() });
        }
        self.running.values().for_each(|running| running.stop.store(true, Ordering::Release));
        let until = Instant::now() + self.settings.lease;
        while !self.running.is_empty() && Instant::now() < until {
            self.hold();
            self.write_ends();
            self.listen(self.settings.period.min(Duration::from_millis(100)));
        }
    }

    fn wait(&self) -> Duration {
        self.settings.period.min(self.settings.lease / 5)
    }

    /// Writes what has ended, holds what goes on, decides. Whether there is more to decide at once.
    fn round(&mut self) -> bool {
        self.hold();
        self.write_ends();
        if self.is_to_reconsider && self.told(|book| book.reconsider()).is_some() {
            self.is_to_reconsider = false;
        }
        self.decide()
    }

    /// Waits for messages, and takes all that are there.
    fn listen(&mut self, at_most: Duration) {
        let mut next = self.receiver.recv_timeout(at_most).ok();
        while let Some(message) = next {
            match message {
                Message::Wake => self.shared.is_woken.store(false, Ordering::Release),
                Message::Reloaded => self.is_to_reconsider = true,
                Message::Ended(id, fence, ended) => self.note_end(id, fence, ended),
            }
            next = self.receiver.try_recv().ok();
        }
    }

    fn note_end(&mut self, id: u64, fence: u64, ended: Option<Ended>) {
        let Some(running) = self.running.get_mut(&id).filter(|running| running.attempt.fence == fence) else { return };
        match ended {
            Some(ended) => running.ended = Some(ended),
            // Its lease runs out, and then it is looked what became of it.
            None => self.lose(id),
        }
    }

    /// Asks the store; `None` where it fails, which is counted and said.
    fn told<T>(&mut self, ask: impl FnOnce(&mut dyn Casebook) -> crate::Result<T>) -> Option<T> {
        let said = ask(self.book.as_mut());
        let mut last_error = self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(said) => {
                *last_error = None;
                Some(said)
            }
            Err(error) => {
                *last_error = Some(error.to_string());
                self.shared.counts.store_errors.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn decide(&mut self) -> bool {
        let (policies, act) = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let controller = Controller {
            name: self.name.clone(),
            free_count: self.settings.steps_at_once.saturating_sub(self.running.len()),
            lease_ns: u64::try_from(self.settings.lease.as_nanos()).unwrap_or(u64::MAX),
        };
        let begun = Instant::now();
        let mut change_count = 0;
        let changed = self.told(|book| {
            book.decide(policies.look_back_ns(), &mut |world| {
                let changes = decide::decide(world, &policies, &controller);
                change_count = changes.len();
                changes
            })
        });
        let counts = &self.shared.counts;
        counts.decided.fetch_add(1, Ordering::Relaxed);
        counts.decision_ns.store(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let Some(changed) = changed else { return false };
        for case in &changed {
            self.begin(case, &act, begun);
        }
        self.shared.counts.running.store(self.running.len() as u64, Ordering::Relaxed);
        // New cases are to begin, and changes that were cut off are to follow.
        change_count > 0
    }

    /// Has an attempt made in a thread of its own, where the case holds a lease for it.
    fn begin(&mut self, case: &Case, act: &Arc<dyn Act>, decided: Instant) {
        let Some(attempt) = Attempt::of(case, &self.name) else { return };
        // A change of a case whose attempt is under way, such as a clock that was mended, begins nothing.
        if self.running.get(&case.id).is_some_and(|running| running.attempt.fence == attempt.fence) {
            return;
        }
        self.shared.counts.attempts.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let (grace, sender, act) = (self.settings.grace, self.sender.clone(), Arc::clone(act));
        let (made, stopped) = (attempt.clone(), Arc::clone(&stop));
        let id = case.id;
        let thread = std::thread::Builder::new().name(format!("case {id}")).spawn(move || {
            if made.is_in_doubt && !pause(grace, &stopped) {
                return;
            }
            let ended = catch_unwind(AssertUnwindSafe(|| made.make(act.as_ref(), &stopped))).ok();
            // A send fails only after the engine's thread has ended; the step is then found by the next controller.
            let _ = sender.send(Message::Ended(id, made.fence, ended));
        });
        match thread {
            Ok(_) => {
                let held_until = decided + self.settings.lease;
                let before = self.running.insert(id, Running { attempt, stop, held_until, ended: None });
                // An earlier attempt whose lease ran out while the store was away.
                if let Some(before) = before {
                    before.stop.store(true, Ordering::Release);
                }
            }
            // Without a thread nothing was done; the lease runs out, and it is found so.
            Err(error) => {
                let mut last_error = self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner);
                *last_error = Some(format!("no thread for a step: {error}"));
            }
        }
    }

    /// Holds the leases of what is under way. What cannot be held is told to break off, because another controller may take it over.
    fn hold(&mut self) {
        let due = Instant::now() + self.settings.lease * 4 / 5;
        let ids: Vec<u64> =
            self.running.iter().filter(|(_, running)| running.held_until < due).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let asked = Instant::now();
        let now_ns = self.told(|book| book.now_realtime_ns());
        let lease_ns = u64::try_from(self.settings.lease.as_nanos()).unwrap_or(u64::MAX);
        for id in ids {
            let Some(fence) = self.running.get(&id).map(|running| running.attempt.fence) else { continue };
            let held = now_ns.map(|now_ns| self.book.hold(id, fence, now_ns.saturating_add(lease_ns)));
            let Some(running) = self.running.get_mut(&id) else { continue };
            match held {
                Some(Ok(())) => running.held_until = asked + self.settings.lease,
                Some(Err(Error::Conflict { .. } | Error::NoCase { .. })) => self.lose(id),
                Some(Err(_)) | None => {
                    if running.held_until < Instant::now() {
                        running.stop.store(true, Ordering::Release);
                    }
                }
            }
        }
    }

    /// The lease is another's: the step is broken off, and its end counts for nothing.
    fn lose(&mut self, id: u64) {
        if let Some(running) = self.running.remove(&id) {
            running.stop.store(true, Ordering::Release);
            self.shared.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write_ends(&mut self) {
        let ended: Vec<u64> =
            self.running.iter().filter(|(_, running)| running.ended.is_some()).map(|(id, _)| *id).collect();
        let policies = Arc::clone(&self.shared.current.lock().unwrap_or_else(PoisonError::into_inner).0);
        for id in ended {
            if !self.write_end(id, &policies) {
                // The store cannot be asked now, so not for the others either.
                return;
            }
        }
    }

    /// Whether the store could be asked.
    fn write_end(&mut self, id: u64, policies: &Policies) -> bool {
        for _ in 0..CONFLICTS_MAX {
            let Some(Running { attempt, ended: Some(ended), .. }) = self.running.get(&id) else { return true };
            let (attempt, ended, name) = (attempt.clone(), ended.clone(), self.name.clone());
            let written = self.told(|book| {
                let case = match book.case(id) {
                    Err(Error::NoCase { .. }) => return Ok(None),
                    case => case?,
                };
                let Some((case, entry)) = attempt.end(&case, &ended, policies, &name, book.now_realtime_ns()?) else {
                    return Ok(None);
                };
                match book.update(&case, &entry) {
                    Ok(case) => Ok(Some(Ok(case))),
                    Err(Error::Conflict { .. }) => Ok(Some(Err(()))),
                    Err(error) => Err(error),
                }
            });
            match written {
                None => return false,
                Some(None) => self.lose(id),
                Some(Some(Ok(_))) => {
                    self.running.remove(&id);
                }
                Some(Some(Err(()))) => continue,
            }
            return true;
        }
        // So many changes at once are no person's; it is tried again in the next round.
        true
    }
}

/// Waits so long; `false` where it is told to stop.
fn pause(time: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + time;
    loop {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
