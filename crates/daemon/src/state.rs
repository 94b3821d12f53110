use crate::checkpoints::Checkpoints;
use crate::config::{Config, Mode};
use crate::history::History;
use crate::ring::Ring;
use crate::shelf::Shelf;
use crate::totals::Totals;
use crate::verdict::{self, HostVerdict};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_model::{Capability, CpuId, Event, Gap, HostDescription, Notice, SelfCost, WhoReport, Window};
use tokio::sync::{Semaphore, broadcast};

/// Memory for the kept windows, whatever their number: 16 MiB.
const WINDOWS_BYTES_MAX: usize = 16 << 20;
/// Memory for the kept gaps: 4 MiB.
const GAPS_BYTES_MAX: usize = 4 << 20;
/// Notices that are kept, and memory for them.
const NOTICES_MAX: usize = 100;
const NOTICES_BYTES_MAX: usize = 1 << 20;
/// Own notices that wait for the caller to take them.
const OWN_NOTICES_MAX: usize = 16;
/// Events that a live client may lag behind before it loses some.
const LIVE_EVENTS_MAX: usize = 256;
/// Clients of the live events at one time.
pub(crate) const LIVE_CLIENTS_MAX: usize = 32;
/// Answers of several MiB that may be in memory at one time; others wait for their turn.
const LARGE_ANSWERS_MAX: usize = 4;
/// The least time between two notices about the same trouble.
const NOTICE_PERIOD: Duration = Duration::from_secs(60);
/// The stretch of data that the verdict speaks of.
pub(crate) const VERDICT_SPAN_NS: u64 = 60_000_000_000;

/// An event on its way to the live clients.
#[derive(Debug, Clone)]
pub(crate) struct LiveEvent {
    /// Counts windows, gaps, notices and reports of raisers since the server began, from 1.
    pub(crate) sequence: u64,
    pub(crate) news: News,
}

/// What the live clients are told.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// The event itself.
    Event(Arc<Event>),
    /// That there is a newer report of raisers. It can have megabytes, and many of them would wait for a slow client;
    /// who wants it asks for it.
    Who {
        /// Start of what it reports of, `CLOCK_MONOTONIC`.
        start_ns: u64,
        /// Its end.
        end_ns: u64,
    },
}

/// What was lost on the way, by place; each count grows only.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    /// Events that found the queue of the server full.
    pub(crate) queue: AtomicU64,
    /// Events that the history did not keep.
    pub(crate) history: AtomicU64,
    /// Events that slow live clients missed, summed over the clients.
    pub(crate) live: AtomicU64,
    /// Events too large to be kept in memory.
    pub(crate) oversized: AtomicU64,
    /// Times that `health.json` could not be written.
    pub(crate) health: AtomicU64,
}

/// [`Drops`] with those of the sources, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Dropped {
    pub(crate) queue: u64,
    pub(crate) history: u64,
    pub(crate) live: u64,
    pub(crate) oversized: u64,
    pub(crate) health: u64,
    /// Short gaps that made room in memory for newer and longer ones.
    pub(crate) short_gaps: u64,
    /// Events that the kernel's side overwrote before they were read.
    pub(crate) kernel: u64,
    /// Snapshots of a core that could not be read consistently.
    pub(crate) torn: u64,
}

/// Lets a repeated notice through at most once a minute, so that it does not push the others out.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Option<Instant>);

impl Seldom {
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= NOTICE_PERIOD);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// What all threads of the server share.
pub(crate) struct Shared {
    pub(crate) mode: Mode,
    pub(crate) drops: Drops,
    pub(crate) live_clients: Arc<Semaphore>,
    pub(crate) large_answers: Arc<Semaphore>,
    pub(crate) history: Option<History>,
    pub(crate) checkpoints: Checkpoints,
    live: Mutex<Option<broadcast::Sender<LiveEvent>>>,
    queue_notice: Mutex<Seldom>,
    /// The server's own notices that nobody has taken yet.
    own_notices: Mutex<VecDeque<Notice>>,
    state: Mutex<State>,
}

struct State {
    host: Option<HostDescription>,
    capabilities: Vec<Capability>,
    windows: Ring,
    gaps: Shelf,
    notices: Ring,
    /// The newest report of who interrupted the watched cores.
    who: Option<Arc<Event>>,
    totals: Totals,
    sequence: u64,
}

/// What is kept, at one moment; cheap to take, because events are shared.
pub(crate) struct Kept {
    /// The number of the newest live event that is part of this.
    pub(crate) sequence: u64,
    /// Now on the clock of the events; in a replay the end of the data.
    pub(crate) now_ns: u64,
    pub(crate) host: Option<HostDescription>,
    pub(crate) capabilities: Vec<Capability>,
    pub(crate) dropped: Dropped,
    windows: Vec<Arc<Event>>,
    gaps: Vec<Arc<Event>>,
    notices: Vec<Arc<Event>>,
    who: Option<Arc<Event>>,
}

impl Shared {
    pub(crate) fn new(config: &Config, history: Option<History>) -> Self {
        let state = State {
            host: None,
            capabilities: Vec::new(),
            windows: Ring::new(config.keep_windows, WINDOWS_BYTES_MAX),
            gaps: Shelf::new(config.keep_gaps, GAPS_BYTES_MAX),
            notices: Ring::new(NOTICES_MAX, NOTICES_BYTES_MAX),
            who: None,
            totals: Totals::default(),
            sequence: 0,
        };
        Shared {
            mode: config.mode.clone(),
            drops: Drops::default(),
            live_clients: Arc::new(Semaphore::new(LIVE_CLIENTS_MAX)),
            large_answers: Arc::new(Semaphore::new(LARGE_ANSWERS_MAX)),
            history,
            checkpoints: Checkpoints::new(config),
            live: Mutex::new(Some(broadcast::channel(LIVE_EVENTS_MAX).0)),
            queue_notice: Mutex::default(),
            own_notices: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// Takes an event in: into memory, to the live clients and to the history.
    pub(crate) fn fold(&self, event: Event) {
        let event = Arc::new(event);
        self.remember(&event);
        if let Some(history) = &self.history {
            history.offer(&event, &self.drops);
        }
    }

    /// Takes a word about the stream itself in.
    pub(crate) fn notice(&self, text: String) {
        let at_ns = self.now_ns(&self.state());
        let notice = Notice { at_ns, text };
        let mut own = lock(&self.own_notices);
        if own.len() == OWN_NOTICES_MAX {
            own.pop_front();
        }
        own.push_back(notice.clone());
        drop(own);
        self.fold(Event::Notice(notice));
    }

    /// The server's own notices since the last call; of many that nobody took the newest.
    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        lock(&self.own_notices).drain(..).collect()
    }

    /// Counts an event that the full queue refused, and says so, at most once a minute.
    pub(crate) fn queue_was_full(&self) {
        self.drops.queue.fetch_add(1, Ordering::Relaxed);
        if lock(&self.queue_notice).is_due() {
            let text = "The server cannot keep up and drops events; they are counted under the dropped events.";
            self.notice(text.to_owned());
        }
    }

    fn remember(&self, event: &Arc<Event>) {
        let mut state = self.state();
        let kept = match &**event {
            Event::Host(host) => {
                state.host = Some(host.clone());
                return;
            }
            Event::Capabilities { capabilities } => {
                state.capabilities.clone_from(capabilities);
                return;
            }
            Event::Window(window) => {
                state.totals.add_window(window);
                state.windows.push(Arc::clone(event))
            }
            Event::Gap(gap) => {
                state.totals.add_gap(gap);
                state.gaps.push(Arc::clone(event), gap.duration_ns)
            }
            Event::Notice(_) => state.notices.push(Arc::clone(event)),
            Event::Who(who) => {
                state.totals.set_who(who);
                state.who = Some(Arc::clone(event));
                true
            }
        };
        if !kept {
            self.drops.oversized.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.sequence += 1;
        // Sent under the lock, so that clients get the events in the order of their numbers.
        // Nobody listening is no error.
        if let Some(live) = &*lock(&self.live) {
            let news = match &**event {
                Event::Who(who) => News::Who { start_ns: who.start_ns, end_ns: who.end_ns },
                _ => News::Event(Arc::clone(event)),
            };
            let _ = live.send(LiveEvent { sequence: state.sequence, news });
        }
    }

    /// A receiver of the events from now on, and the number of the newest event before them;
    /// `None` when the server is shutting down.
    pub(crate) fn subscribe(&self) -> Option<(broadcast::Receiver<LiveEvent>, u64)> {
        let state = self.state();
        let receiver = lock(&self.live).as_ref()?.subscribe();
        Some((receiver, state.sequence))
    }

    /// Ends all streams of live events.
    pub(crate) fn close_live(&self) {
        lock(&self.live).take();
    }

    /// What is kept now.
    pub(crate) fn kept(&self) -> Kept {
        let state = self.state();
        Kept {
            sequence: state.sequence,
            now_ns: self.now_ns(&state),
            host: state.host.clone(),
            capabilities: state.capabilities.clone(),
            dropped: self.dropped(&state.totals, &state.gaps),
            windows: state.windows.events().cloned().collect(),
            gaps: state.gaps.events().cloned().collect(),
            notices: state.notices.events().cloned().collect(),
            who: state.who.clone(),
        }
    }

    /// The host, once its event has come.
    pub(crate) fn host(&self) -> Option<HostDescription> {
        self.state().host.clone()
    }

    /// What works on the host, as far as it is known.
    pub(crate) fn capabilities(&self) -> Vec<Capability> {
        self.state().capabilities.clone()
    }

    /// The sums since the server began, with what was dropped and the age of the newest window;
    /// the age is `None` before the first one.
    pub(crate) fn totals(&self) -> (Totals, Dropped, Option<Duration>) {
        let state = self.state();
        let age = newest_window(&state.windows)
            .map(|window| Duration::from_nanos(self.now_ns(&state).saturating_sub(window.end_ns)));
        (state.totals.clone(), self.dropped(&state.totals, &state.gaps), age)
    }

    /// Now on the clock of the events. A recording's time stands still at its end.
    fn now_ns(&self, state: &State) -> u64 {
        match self.mode {
            Mode::Live => clock::monotonic_ns(),
            Mode::Replay { .. } => newest_window(&state.windows).map_or(0, |window| window.end_ns),
        }
    }

    fn dropped(&self, totals: &Totals, gaps: &Shelf) -> Dropped {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Dropped {
            queue: count(&self.drops.queue),
            history: count(&self.drops.history),
            live: count(&self.drops.live),
            oversized: count(&self.drops.oversized),
            health: count(&self.drops.health),
            short_gaps: gaps.let_go(),
            kernel: totals.kernel_dropped,
            torn: totals.torn,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Kept {
    /// The cores that are watched; empty as long as the host is unknown.
    pub(crate) fn watched(&self) -> &[CpuId] {
        self.host.as_ref().map_or(&[], |host| &host.cpus)
    }

    /// The windows as events, oldest first.
    pub(crate) fn window_events(&self) -> impl Iterator<Item = &Event> {
        self.windows.iter().map(|event| &**event)
    }

    /// The windows, oldest first.
    pub(crate) fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        self.windows.iter().filter_map(|event| as_window(event))
    }

    /// The gaps, in the order in which they were found.
    pub(crate) fn gaps(&self) -> impl DoubleEndedIterator<Item = &Gap> {
        self.gaps.iter().filter_map(|event| if let Event::Gap(gap) = &**event { Some(gap) } else { None })
    }

    /// The notices, oldest first.
    pub(crate) fn notices(&self) -> impl DoubleEndedIterator<Item = &Notice> {
        self.notices.iter().filter_map(|event| if let Event::Notice(notice) = &**event { Some(notice) } else { None })
    }

    /// The newest report of who interrupted the watched cores, where that is watched.
    pub(crate) fn who(&self) -> Option<&WhoReport> {
        self.who.as_deref().and_then(|event| if let Event::Who(who) = event { Some(who) } else { None })
    }

    /// End of the newest window; 0 without one.
    pub(crate) fn end_ns(&self) -> u64 {
        self.windows().next_back().map_or(0, |window| window.end_ns)
    }

    /// How old the newest window is; `None` without one.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        self.windows().next_back().map(|window| self.now_ns.saturating_sub(window.end_ns))
    }

    /// What the newest window cost.
    pub(crate) fn cost(&self) -> SelfCost {
        self.windows().next_back().map(|window| window.cost.clone()).unwrap_or_default()
    }

    /// The windows of the last minute of data.
    pub(crate) fn last_minute(&self) -> Vec<&Window> {
        let from_ns = self.end_ns().saturating_sub(VERDICT_SPAN_NS);
        self.windows().filter(|window| window.end_ns > from_ns).collect()
    }

    /// One sentence about the last minute of data.
    pub(crate) fn verdict(&self) -> HostVerdict {
        let from_ns = self.end_ns().saturating_sub(VERDICT_SPAN_NS);
        let gaps: Vec<&Gap> =
            self.gaps().filter(|gap| gap.start_ns.saturating_add(gap.duration_ns) > from_ns).collect();
        verdict::of_refs(&self.last_minute(), &gaps)
    }
}

fn newest_window(windows: &Ring) -> Option<&Window> {
    windows.events().next_back().and_then(|event| as_window(event))
}

fn as_window(event: &Event) -> Option<&Window> {
    if let Event::Window(window) = event { Some(window) } else { None }
}

/// A panic of another thread leaves plain numbers behind, which are as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_found_the_queue_full_are_counted_with_one_notice() {
        let shared = Shared::new(&Config::default(), None);
        for _ in 0..1_000 {
            shared.queue_was_full();
        }
        let kept = shared.kept();
        assert_eq!(kept.dropped.queue, 1_000);
        assert_eq!(kept.notices().count(), 1);
        assert!(shared.totals().1 == kept.dropped, "the metrics say the same");
    }
}
