//! Decides, has steps done and writes down what came of them, until it is stopped.
//!
//! One thread decides and writes; each step has a thread of its own, of which there are at most [`Settings::steps_at_once`]. What was
//! written as begun and never ended, because a controller was killed at whatever point, is found by the next one that lives, this or
//! another: see [`crate::decide`].

mod attempt;
mod core;
mod run;

pub use self::core::{Begin, Core};
pub use attempt::{Attempt, Ended};

use crate::decide::HeldReason;
use crate::policy::Policies;
use crate::{Act, Casebook, decide};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How an engine works; [`Settings::default`] is for real use, tests make it faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// At most so many steps are done at the same time; others wait.
    pub steps_at_once: usize,
    /// How often it decides where nobody wakes it.
    pub period: Duration,
    /// How long a lease lasts; it is held anew every fifth of it.
    pub lease: Duration,
    /// How long after a lease ran out it is waited, by a clock that never jumps, before it is looked what became of the step. Its
    /// holder may still live: without the store it breaks off a lease after it held it last, so this is longer than a lease.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::with_lease(Duration::from_nanos(decide::LEASE_NS))
    }
}

impl Settings {
    /// The usual settings with another lease.
    pub fn with_lease(lease: Duration) -> Self {
        Settings { steps_at_once: 64, period: Duration::from_secs(1), lease, grace: lease + lease / 3 }
    }
}

/// Counts of an engine since its start, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Decisions made.
    pub decided: AtomicU64,
    /// Steps that were begun, gone on with or looked for.
    pub attempts: AtomicU64,
    /// Attempts whose end counts for nothing, because the lease was lost.
    pub lost: AtomicU64,
    /// Steps that are being done.
    pub running: AtomicU64,
    /// Alerts that get no case now, in the order of [`HeldReason::ALL`].
    held_back: [AtomicU64; HeldReason::ALL.len()],
    /// How long the last round took, nanoseconds: holding, writing ends, deciding.
    pub round_ns: AtomicU64,
}

impl Counts {
    /// Alerts that get no case now for this reason.
    pub fn held_back(&self, reason: HeldReason) -> &AtomicU64 {
        &self.held_back[reason as usize]
    }
}

/// A running engine. It is stopped by [`Engine::stop`] and when it is dropped.
pub struct Engine {
    shared: Arc<Shared>,
    sender: Sender<run::Message>,
    thread: Option<JoinHandle<()>>,
}

/// What the engine's handle and its thread share.
struct Shared {
    /// Which policies and hands count; each decision takes the newest.
    current: Mutex<(Arc<Policies>, Arc<dyn Act>)>,
    is_stopped: AtomicBool,
    /// Whether a wake-up is on its way, so that a thousand of them are one.
    is_woken: AtomicBool,
    counts: Arc<Counts>,
    last_error: Mutex<Option<String>>,
}

impl Engine {
    /// Starts an engine on a casebook. Several engines, in whichever processes, may share one store: each step is done by one of them.
    ///
    /// `book` is this engine's own handle of the store; those who take alerts in and answer people have others. `act` does the steps.
    /// `name` names this controller in leases and the audit trail; the engine adds what makes it the only one of its name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::AtomicBool;
    /// use surefoot_remedy::act::{Act, PriorAttempt, Order, Outcome};
    /// use surefoot_model::Observed;
    /// use surefoot_remedy::{engine::Engine, memory_book::MemoryBook, policy::Policies};
    ///
    /// struct Nothing;
    ///
    /// impl Act for Nothing {
    ///     fn dry_run(&self, order: &Order) -> String {
    ///         format!("would {} {}", order.step, order.host)
    ///     }
    ///     fn run(&self, order: &Order, _: &AtomicBool) -> Outcome {
    ///         let evidence = format!("{} {}", order.step, order.host);
    ///         Outcome::done(Observed::Effect { evidence }, "")
    ///     }
    ///     fn find(&self, _: &Order) -> PriorAttempt {
    ///         PriorAttempt::MayRepeat
    ///     }
    /// }
    ///
    /// let policies = Policies::parse("[[policy]]\nsteps = [\"drain\", \"return\"]", "policy.toml")?;
    /// let book = MemoryBook::default();
    /// let engine = Engine::start(Box::new(book.clone()), Arc::new(Nothing), policies, "here");
    /// // Whoever takes alerts in writes them to the store, and wakes the engine.
    /// engine.wake();
    /// engine.stop();
    /// # Ok::<(), surefoot_remedy::Error>(())
    /// ```
    pub fn start(book: Box<dyn Casebook>, act: Arc<dyn Act>, policies: Policies, name: &str) -> Engine {
        Engine::start_with(book, act, policies, name, Settings::default())
    }

    /// As [`Engine::start`], with settings.
    pub fn start_with(
        book: Box<dyn Casebook>,
        act: Arc<dyn Act>,
        policies: Policies,
        name: &str,
        settings: Settings,
    ) -> Engine {
        let (sender, receiver) = channel();
        let counts = Arc::new(Counts::default());
        let shared = Arc::new(Shared {
            current: Mutex::new((Arc::new(policies), act)),
            is_stopped: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
            counts: Arc::clone(&counts),
            last_error: Mutex::new(None),
        });
        let core = Core::new(book, unique(name), settings.clone(), counts);
        let work = run::Work { core, shared: Arc::clone(&shared), settings, sender: sender.clone(), receiver };
        let thread = std::thread::Builder::new().name("remedy".into()).spawn(move || work.run()).ok();
        Engine { shared, sender, thread }
    }

    /// Takes other policies, and the hands that were made of the same file. Steps that are being done are ended by the old hands.
    pub fn reload(&self, policies: Policies, act: Arc<dyn Act>) {
        *self.shared.current.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::new(policies), act);
        // A send fails only after the thread has ended, and then nobody decides any more.
        let _ = self.sender.send(run::Message::Reloaded);
    }

    /// Has it decide now: alerts came in, a person asked for something.
    pub fn wake(&self) {
        if !self.shared.is_woken.swap(true, Ordering::AcqRel) {
            let _ = self.sender.send(run::Message::Wake);
        }
    }

    /// What it counted since its start.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// What the store said last, where its last call failed.
    pub fn last_error(&self) -> Option<String> {
        self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it still works; it does not where no thread could be started.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Begins nothing more, tells the steps that are being done to break off, and waits until their ends are written, for the length of
    /// a lease at most. What is not is found by the next controller.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        let _ = self.sender.send(run::Message::Wake);
        if let Some(thread) = self.thread.take() {
            // It panics nowhere that we know of; if it did, the next controller finds its steps.
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

/// A controller that starts anew is another one: it must not take a lease of its forerunner for its own.
fn unique(name: &str) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name: String = surefoot_model::one_line(name).chars().take(200).collect();
    format!("{name}/{}/{:x}", std::process::id(), since.as_nanos() as u64)
}
