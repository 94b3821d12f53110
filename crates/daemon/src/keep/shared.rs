use crate::alerts::Outbox;
use crate::config::Config;
use crate::http::access::Access;
use crate::http::series::Extent;
use crate::keep::board::Board;
use crate::keep::history::History;
use crate::keep::seldom::Seldom;
use crate::keep::stream::Stream;
use crate::rooms::{self, Room};
use crate::sources::Statistics;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use surefoot_hostfs::privilege::effective_user;
use surefoot_http::lock;
use surefoot_http::refused::Refused;
use surefoot_http::shares::{Limits, Shares};
use surefoot_model::{Event, Finding, Headline, Notice};
use surefoot_rooms::drops::{Dropped, Drops};
use surefoot_rooms::moment::{Findings, Moment, Now};
use surefoot_rooms::viewer::Private;
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::{Taken, stall};
use surefoot_settings::Live;
use surefoot_sys::peer::Holder;
use tokio::sync::{Semaphore, broadcast};

/// Own notices that wait for the caller to take them.
const OWN_NOTICES_MAX: usize = 16;
/// Events that a live client may lag behind before it loses some.
const LIVE_EVENTS_MAX: usize = 256;
/// Clients of the live events at one time, in all, of one user, and for those who have none.
pub(crate) const LIVE_CLIENTS: Limits = Limits { all: 24, of_user: 16, kept: 8 };
/// Answers of several MiB that may be in memory at one time; others wait for their turn.
const LARGE_ANSWERS_MAX: usize = 4;
/// Those of one user.
const LARGE_ANSWERS_OF_USER_MAX: usize = 2;

/// An event on its way to the live clients.
#[derive(Debug, Clone)]
pub(crate) struct LiveEvent {
    /// Counts the events since the server began, from 1. News of findings, which can be asked for at any time, have none.
    pub(crate) sequence: Option<u64>,
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
    /// That findings came, went or changed; who wants them asks for them.
    Findings {
        /// Of all findings.
        all: Headline,
        /// Of those that rest on no user's files.
        public: Headline,
    },
    /// Something that the client may not see. Its number is sent, so that the client does not count it as missed.
    Withheld,
}

impl Private for LiveEvent {
    fn seen_by(self, viewer: Viewer) -> Self {
        if viewer.sees_all {
            return self;
        }
        let news = match self.news {
            News::Findings { public, .. } => News::Findings { all: public.clone(), public },
            News::Event(event) => stall::public::news(event).map_or(News::Withheld, News::Event),
            other @ (News::Who { .. } | News::Withheld) => other,
        };
        LiveEvent { news, ..self }
    }
}

/// What all threads of the server share.
pub(crate) struct Shared {
    pub(crate) drops: Arc<Drops>,
    pub(crate) live_clients: Shares,
    pub(crate) large_answers: Arc<Semaphore>,
    turns: Mutex<BTreeMap<Holder, Arc<Semaphore>>>,
    /// Who may see what.
    pub(crate) access: Access,
    /// Who was turned away at the places beside 127.0.0.1, where there are any.
    pub(crate) refused: OnceLock<Arc<Refused>>,
    pub(crate) history: Option<History>,
    pub(crate) sources: Statistics,
    /// What an Alertmanager is told of.
    pub(crate) alerts: Outbox,
    /// What is set.
    pub(crate) settings: Live,
    /// Users whose word of their jobs reaches `health.json` and has series of its own.
    pub(crate) trusted: BTreeSet<u32>,
    /// How much a scrape of the metrics tells.
    pub(crate) extent: Extent,
    /// The rooms, in the order of the page.
    pub(crate) rooms: Vec<Arc<dyn Room>>,
    live: Mutex<Option<broadcast::Sender<LiveEvent>>>,
    queue_notice: Mutex<Seldom>,
    /// The server's own notices that nobody has taken yet.
    own_notices: Mutex<VecDeque<Notice>>,
    /// When the findings were folded last, `CLOCK_MONOTONIC`; 0 before the first time.
    pub(crate) folded_ns: AtomicU64,
    stream: Mutex<Stream>,
    board: Mutex<Board>,
}

impl Shared {
    pub(crate) fn new(config: &Config, history: Option<History>) -> Self {
        let drops = Arc::new(Drops::default());
        Shared {
            rooms: rooms::all(config, &drops),
            drops,
            live_clients: Shares::new(LIVE_CLIENTS),
            large_answers: Arc::new(Semaphore::new(LARGE_ANSWERS_MAX)),
            turns: Mutex::default(),
            access: Access::new(config),
            refused: OnceLock::new(),
            history,
            sources: config.sources.clone(),
            alerts: Outbox::default(),
            settings: config.rooms.settings.clone(),
            trusted: config.trusted.iter().copied().chain([0, effective_user()]).collect(),
            extent: config.metrics,
            live: Mutex::new(Some(broadcast::channel(LIVE_EVENTS_MAX).0)),
            queue_notice: Mutex::default(),
            own_notices: Mutex::default(),
            folded_ns: AtomicU64::default(),
            stream: Mutex::new(Stream::new(config.mode.clone(), config.rooms.settings.clone())),
            board: Mutex::default(),
        }
    }

    /// Takes an event in: into the rooms, to the live clients and to the history.
    pub(crate) fn fold(&self, event: Event) {
        let event = Arc::new(event);
        self.remember(&event);
        if let Some(history) = &self.history {
            history.offer(&event, &self.drops);
            // A made-up day is told faster than it passes: what was found in it is kept window by window.
            if history.is_in_memory() && matches!(*event, Event::Window(_)) {
                let moment = self.moment();
                history.offer_findings(moment.now_realtime_ns, &self.findings(&moment).all);
            }
        }
    }

    /// Takes a word about the stream itself in.
    pub(crate) fn notice(&self, text: String) {
        let at_ns = self.stream().now_ns();
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
        let mut is_news = self.stream().take(event);
        for room in &self.rooms {
            match room.take(event) {
                Taken::NotMine => {}
                Taken::Kept { is_news: of_room } => is_news |= of_room,
                Taken::Oversized => {
                    self.drops.oversized.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        if is_news {
            self.tell(match &**event {
                Event::Who(who) => News::Who { start_ns: who.start_ns, end_ns: who.end_ns },
                _ => News::Event(Arc::clone(event)),
            });
        }
    }

    /// Tells the live clients; nobody listening is no error.
    fn tell(&self, news: News) {
        // Sent under the lock, so that clients get the events in the order of their numbers.
        let mut stream = self.stream();
        let sequence = (!matches!(news, News::Findings { .. })).then(|| {
            stream.sequence += 1;
            stream.sequence
        });
        if let Some(live) = &*lock(&self.live) {
            let _ = live.send(LiveEvent { sequence, news });
        }
    }

    /// A receiver of the events from now on, and the number of the newest event before them;
    /// `None` when the server is shutting down.
    pub(crate) fn subscribe(&self) -> Option<(broadcast::Receiver<LiveEvent>, u64)> {
        let stream = self.stream();
        let receiver = lock(&self.live).as_ref()?.subscribe();
        Some((receiver, stream.sequence))
    }

    /// Ends all streams of live events.
    pub(crate) fn close_live(&self) {
        lock(&self.live).take();
    }

    /// The stream at this moment. Taken before a room is asked, its number is never newer than what the room shows.
    pub(crate) fn moment(&self) -> Moment {
        let history_fails = self.history.as_ref().and_then(History::failing);
        let mut moment = self.stream().moment();
        moment.history_fails = history_fails;
        moment
    }

    /// What all rooms find at a moment, the most urgent first.
    pub(crate) fn findings(&self, moment: &Moment) -> Findings {
        let mut all: Vec<Finding> = self.rooms.iter().flat_map(|room| room.findings(moment)).collect();
        let cut = lock(&self.board).take(&mut all, (!moment.is_replay()).then_some(moment.now_realtime_ns));
        self.drops.findings.store(cut as u64, Ordering::Relaxed);
        Findings { headline: moment.mode.headline_of(&all), all }
    }

    /// Everything that is not one room's, at this moment.
    pub(crate) fn now(&self) -> Now {
        let moment = self.moment();
        Now { findings: self.findings(&moment), dropped: self.dropped(), moment }
    }

    /// The turns of one user; those that nobody has or waits for are forgotten.
    pub(crate) fn turns_of(&self, holder: Holder) -> Arc<Semaphore> {
        let mut turns = lock(&self.turns);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(holder).or_insert_with(|| Arc::new(Semaphore::new(LARGE_ANSWERS_OF_USER_MAX))))
    }

    /// Tells the live clients if findings came, went or changed since this was called last.
    pub(crate) fn tell_of(&self, findings: &Findings) {
        if lock(&self.board).has_news(&findings.all) {
            let public: Vec<Finding> =
                findings.all.iter().filter(|one| one.uid.is_none()).cloned().map(Finding::for_everybody).collect();
            let public = self.stream().mode().headline_of(&public);
            self.tell(News::Findings { all: findings.headline.clone(), public });
        }
    }

    /// What was lost on the way so far.
    pub(crate) fn dropped(&self) -> Dropped {
        self.drops.now(self.sources.dropped())
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        lock(&self.stream)
    }

    /// What a thread that hangs in the middle of its work would do to the others.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> impl Drop {
        lock(&self.board)
    }
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
        assert_eq!(shared.dropped().queue, 1_000);
        assert_eq!(shared.moment().notices().count(), 1);
    }
}
