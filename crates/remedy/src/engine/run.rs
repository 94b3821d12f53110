//! The engine's own thread, and those of its steps.

use super::core::{Begin, Core};
use super::{Ended, Settings, Shared};
use crate::act::Act;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(super) enum Message {
    /// Decide now.
    Wake,
    /// There are other policies.
    Reloaded,
    /// The attempt of this case and fence has ended; `None` where its thread died.
    Ended(u64, u64, Option<Ended>),
}

pub(super) struct Work {
    pub(super) core: Core,
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Settings,
    pub(super) sender: Sender<Message>,
    pub(super) receiver: Receiver<Message>,
}

impl Work {
    pub(super) fn run(mut self) {
        let start = Instant::now();
        while !self.shared.is_stopped.load(Ordering::Acquire) {
            let (policies, act) = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let asked = Instant::now();
            let (begun, is_more) = self.core.round(&policies, start.elapsed());
            let took_ns = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.shared.counts.round_ns.store(took_ns, Ordering::Relaxed);
            self.say_error(self.core.last_error().map(str::to_owned));
            begun.into_iter().for_each(|begin| self.begin(begin, &act));
            self.listen(if is_more { Duration::ZERO } else { self.settings.period.min(self.settings.lease / 5) });
        }
        self.core.break_off();
        let until = Instant::now() + self.settings.lease;
        while !self.core.is_idle() && Instant::now() < until {
            let policies = Arc::clone(&self.shared.current.lock().unwrap_or_else(PoisonError::into_inner).0);
            self.core.keep(&policies, start.elapsed());
            self.listen(self.settings.period.min(Duration::from_millis(100)));
        }
    }

    fn say_error(&self, error: Option<String>) {
        *self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Waits for messages, and takes all that are there.
    fn listen(&mut self, at_most: Duration) {
        let mut next = self.receiver.recv_timeout(at_most).ok();
        while let Some(message) = next {
            match message {
                Message::Wake => self.shared.is_woken.store(false, Ordering::Release),
                Message::Reloaded => self.core.reconsider(),
                Message::Ended(case, fence, ended) => self.core.note_end(case, fence, ended),
            }
            next = self.receiver.try_recv().ok();
        }
    }

    /// Has an attempt made in a thread of its own.
    fn begin(&mut self, begin: Begin, act: &Arc<dyn Act>) {
        let (case, fence) = (begin.attempt.order.case, begin.attempt.fence);
        let (grace, sender, act) = (self.settings.grace, self.sender.clone(), Arc::clone(act));
        let thread = std::thread::Builder::new().name(format!("case {case}")).spawn(move || {
            // Broken off before it looked, it knows nothing: the lease is given up, or it would be held for ever.
            let is_to_make = !begin.attempt.is_in_doubt || pause(grace, &begin.stop);
            let made = || begin.attempt.make(act.as_ref(), &begin.stop);
            let ended = is_to_make.then(|| catch_unwind(AssertUnwindSafe(made)).ok()).flatten();
            // A send fails only after the engine's thread has ended; the step is then found by the next controller.
            let _ = sender.send(Message::Ended(case, fence, ended));
        });
        if let Err(error) = thread {
            // Nothing was done; the lease runs out, and that is found.
            self.core.note_end(case, fence, None);
            self.say_error(Some(format!("no thread for a step: {error}")));
        }
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
