//! The engine without threads and clock: it is told the time, asks the store, and says what is to be begun. Runs with made-up time and
//! faults drive this, and the engine's own thread does.

use super::{Attempt, Counts, Ended, Settings};
use crate::act::Outcome;
use crate::act::debug_mode::repairs_of;
use crate::decide::{self, Controller, HeldBack, HeldReason};
use crate::parts::{self, PartHistory};
use crate::policy::{HOUR_NS, Policies};
use crate::{Casebook, Error, Result, Step};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_model::Case;

/// How often the end of one attempt is worked out anew because somebody changed the case meanwhile.
const CONFLICTS_MAX: usize = 100;
/// Cases of a host that are looked through for earlier repairs, the newest.
const CASES_WITH_REPAIRS_MAX: usize = 1_000;

/// Held alerts that are remembered as noted. With more of them some are noted again.
const NOTED_MAX: usize = 100_000;

/// The engine without threads. Times are since any fixed moment, by a clock that never jumps.
pub struct Core {
    book: Box<dyn Casebook>,
    name: String,
    settings: Settings,
    counts: Arc<Counts>,
    /// The attempts under way, by the case; each case has one at most.
    running: BTreeMap<u64, Running>,
    /// The alerts that the trail says are held back, with the time of the decision that last found them so.
    held_back: BTreeMap<Noted, u64>,
    /// Whether alerts that were settled are to be looked at again.
    is_to_reconsider: bool,
    last_error: Option<String>,
}

/// An alert that the trail says is held back: host, key, why, and since when it fires where each firing is noted.
type Noted = (String, String, HeldReason, u64);

struct Running {
    attempt: Attempt,
    stop: Arc<AtomicBool>,
    held_until: Duration,
    /// What came of it, until that is written.
    ended: Option<Ended>,
}

/// An attempt that is to be begun.
#[derive(Debug, Clone)]
pub struct Begin {
    /// What.
    pub attempt: Attempt,
    /// Set when it is to be broken off.
    pub stop: Arc<AtomicBool>,
}

impl Core {
    /// A controller of this name, which no other has that ever used the store.
    pub fn new(book: Box<dyn Casebook>, name: String, settings: Settings, counts: Arc<Counts>) -> Self {
        let (running, held_back) = (BTreeMap::new(), BTreeMap::new());
        Core { book, name, settings, counts, running, held_back, is_to_reconsider: true, last_error: None }
    }

    /// Writes what has ended, holds what goes on, decides. What is to be begun, and whether there is more to decide at once.
    pub fn round(&mut self, policies: &Policies, now: Duration) -> (Vec<Begin>, bool) {
        self.keep(policies, now);
        if self.is_to_reconsider && self.told(|book| book.reconsider()).is_some() {
            self.is_to_reconsider = false;
        }
        let Some((changed, change_count)) = self.decide(policies) else { return (Vec::new(), false) };
        let begun = changed.iter().filter_map(|case| self.begin(case, policies, now)).collect();
        self.counts.running.store(self.running.len() as u64, Ordering::Relaxed);
        (begun, change_count > 0)
    }

    /// Writes what has ended and holds what goes on, and begins nothing. What has ended is written first: its lease may have run out while
    /// the store was away, and what is known of it counts as long as nobody has taken it over.
    pub fn keep(&mut self, policies: &Policies, now: Duration) {
        self.write_ends(policies);
        self.hold(now);
    }

    /// Takes what came of an attempt; `None` where whoever made it died, and nobody knows.
    pub fn note_end(&mut self, case: u64, fence: u64, ended: Option<Ended>) {
        let Some(running) = self.running.get_mut(&case).filter(|running| running.attempt.fence == fence) else {
            return;
        };
        match ended {
            Some(ended) => running.ended = Some(ended),
            // Its lease runs out, and then it is looked what became of it.
            None => self.lose(case),
        }
    }

    /// There are other policies: alerts that were settled are looked at again.
    pub fn reconsider(&mut self) {
        self.is_to_reconsider = true;
    }

    /// Tells everything under way to break off.
    pub fn break_off(&self) {
        self.running.values().for_each(|running| running.stop.store(true, Ordering::Release));
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// What the store said, where its last call failed.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Asks the store; `None` where it fails, which is said.
    fn told<T>(&mut self, ask: impl FnOnce(&mut dyn Casebook) -> Result<T>) -> Option<T> {
        match ask(self.book.as_mut()) {
            Ok(said) => {
                self.last_error = None;
                Some(said)
            }
            Err(error) => {
                self.last_error = Some(error.to_string());
                None
            }
        }
    }

    fn decide(&mut self, policies: &Policies) -> Option<(Vec<Case>, usize)> {
        let controller = Controller {
            name: self.name.clone(),
            free_count: self.settings.steps_at_once.saturating_sub(self.running.len()),
            lease_ns: self.lease_ns(),
        };
        let mut change_count = 0;
        let mut held = (Vec::new(), BTreeMap::new());
        let changed = self.told(|book| {
            book.decide(policies.look_back_ns(), &mut |world| {
                let changes = decide::decide(world, policies, &controller);
                change_count = changes.len();
                held = decide::held_back(world, policies, &controller);
                changes
            })
        });
        self.counts.decided.fetch_add(1, Ordering::Relaxed);
        let changed = changed?;
        self.note_held_back(held.0, &held.1);
        Some((changed, change_count))
    }

    /// Writes into the trail that an alert is held back, once for as long as it is; each controller of a store does. What was held back within
    /// an hour counts as held back all the while: an alert may come and go, and a decision is told of some thousand alerts at most.
    fn note_held_back(&mut self, held: Vec<HeldBack>, counts: &BTreeMap<HeldReason, usize>) {
        for reason in HeldReason::ALL {
            let count = counts.get(&reason).copied().unwrap_or(0);
            self.counts.held_back(reason).store(count as u64, Ordering::Relaxed);
        }
        let Some(now_ns) = held.iter().map(|held| held.entry.at_realtime_ns).max() else { return };
        self.held_back.retain(|_, last_ns| last_ns.abs_diff(now_ns) < HOUR_NS);
        if self.held_back.len() > NOTED_MAX {
            self.held_back.clear();
        }
        for HeldBack { host, key, reason, since_realtime_ns, entry } in held {
            let alert = (host, key, reason, since_realtime_ns);
            if self.held_back.contains_key(&alert) || self.told(|book| book.note(&entry)).is_some() {
                self.held_back.insert(alert, now_ns);
            }
        }
    }

    fn lease_ns(&self) -> u64 {
        u64::try_from(self.settings.lease.as_nanos()).unwrap_or(u64::MAX)
    }

    fn begin(&mut self, case: &Case, policies: &Policies, now: Duration) -> Option<Begin> {
        let mut attempt = Attempt::of(case, &self.name)?;
        // A change of a case whose attempt is under way, such as a clock that was mended, begins nothing.
        if self.running.get(&case.id).is_some_and(|running| running.attempt.fence == attempt.fence) {
            return None;
        }
        let rule = policies.policy(&case.policy).and_then(|policy| policy.replace_after);
        // What was begun is gone on with: it may have repaired already.
        let is_fresh = !attempt.is_in_doubt && attempt.order.memo.is_empty();
        let rule = rule.filter(|_| is_fresh && case.ends_as.is_none() && parts::serves_repair(&attempt.order.step));
        let mut ended = None;
        if rule.is_some() || matches!(attempt.order.step, Step::SoftRepair(_) | Step::HardRepair(_)) {
            // Without the books nothing is repaired: the lease runs out, and the step is found not done.
            let mut books = self.told(|book| book.part_book(case, CASES_WITH_REPAIRS_MAX))?;
            books.cases.retain(|other| other.id != case.id);
            let of_part: Vec<Case> =
                books.cases.iter().filter(|other| parts::may_be_of(other, case)).cloned().collect();
            attempt.order.repairs = repairs_of(&of_part);
            let store_now_ns = self.told(|book| book.now_realtime_ns())?;
            let history = PartHistory::of(&books, case, store_now_ns);
            // What cannot be read may be one repair too many, or have used up a row.
            let unread = parts::reason_unread(&books).filter(|_| is_fresh && case.ends_as.is_none());
            let why = unread.or_else(|| rule.and_then(|rule| history.reason_to_replace(rule, store_now_ns)));
            ended =
                why.map(|detail| Ended::Outcome(Outcome::Failed { detail, memo: String::new(), is_passing: false }));
        }
        self.counts.attempts.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let running = Running {
            attempt: attempt.clone(),
            stop: Arc::clone(&stop),
            held_until: now + self.settings.lease,
            ended: ended.clone(),
        };
        // An earlier attempt is one whose lease ran out while the store was away.
        if let Some(before) = self.running.insert(case.id, running) {
            before.stop.store(true, Ordering::Release);
        }
        // Of a part that is to be replaced nothing more is begun; that is written in the next round.
        ended.is_none().then_some(Begin { attempt, stop })
    }

    /// Holds the leases of what is under way. What cannot be held is told to break off, because another controller may take it over.
    fn hold(&mut self, now: Duration) {
        let due = now + self.settings.lease * 4 / 5;
        let is_due = |running: &&Running| running.held_until <= due;
        let held: Vec<(u64, u64)> = self
            .running
            .values()
            .filter(is_due)
            .map(|running| (running.attempt.order.case, running.attempt.fence))
            .collect();
        if held.is_empty() {
            return;
        }
        let store_now_ns = self.told(|book| book.now_realtime_ns());
        let lease_ns = self.lease_ns();
        for (id, fence) in held {
            let said = store_now_ns.map(|now_ns| self.book.hold(id, fence, now_ns.saturating_add(lease_ns)));
            let Some(running) = self.running.get_mut(&id) else { continue };
            match said {
                Some(Ok(())) => running.held_until = now + self.settings.lease,
                Some(Err(Error::Conflict { .. } | Error::NoCase { .. })) => self.lose(id),
                Some(Err(_)) | None if running.held_until <= now => running.stop.store(true, Ordering::Release),
                Some(Err(_)) | None => {}
            }
        }
    }

    /// The lease is another's: the step is broken off, and its end counts for nothing.
    fn lose(&mut self, id: u64) {
        if let Some(running) = self.running.remove(&id) {
            running.stop.store(true, Ordering::Release);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write_ends(&mut self, policies: &Policies) {
        let ended: Vec<u64> =
            self.running.iter().filter(|(_, running)| running.ended.is_some()).map(|(id, _)| *id).collect();
        for id in ended {
            if !self.write_end(id, policies) {
                // The store cannot be asked now, so not for the others either.
                return;
            }
        }
    }

    /// Whether the store could be asked.
    fn write_end(&mut self, id: u64, policies: &Policies) -> bool {
        let Some(Running { attempt, ended: Some(ended), .. }) = self.running.get(&id) else { return true };
        let (attempt, ended, name) = (attempt.clone(), ended.clone(), self.name.clone());
        for _ in 0..CONFLICTS_MAX {
            let written = self.told(|book| {
                let case = match book.case(id) {
                    Err(Error::NoCase { .. } | Error::UnreadCase { .. }) => return Ok(Written::Late),
                    case => case?,
                };
                let Some((case, entry)) = attempt.end(&case, &ended, policies, &name, book.now_realtime_ns()?) else {
                    return Ok(Written::Late);
                };
                match book.update(&case, &entry) {
                    Ok(_) => Ok(Written::Yes),
                    Err(Error::Conflict { .. }) => Ok(Written::Changed),
                    Err(error) => Err(error),
                }
            });
            match written {
                None => return false,
                Some(Written::Yes) => drop(self.running.remove(&id)),
                Some(Written::Late) => self.lose(id),
                Some(Written::Changed) => continue,
            }
            return true;
        }
        // So many changes at once are no person's; it is tried again in the next round.
        true
    }
}

/// What became of writing an end down.
enum Written {
    Yes,
    /// The case has gone on without it.
    Late,
    /// Somebody changed the case meanwhile: it is worked out anew.
    Changed,
}
