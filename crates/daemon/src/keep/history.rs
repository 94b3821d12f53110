//! The history on a thread of its own: a full disk or a dead one slows nobody down.
//!
//! While the history cannot be written, the store keeps a few MiB of records for the next try, and this
//! queue some more; what is given up beyond that is counted. One notice says that it began, at most one a
//! minute while it lasts, and one that it is over.

// The store's errors carry what a person needs to act on; they are made once a second at most.
#![allow(clippy::result_large_err)]

use crate::keep::queue::{Popped, Queue};
use crate::keep::seldom::Seldom;
use crate::keep::shared::Shared;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surefoot_http::lock;
use surefoot_model::{Event, Finding, HostDescription};
use surefoot_rooms::drops::Drops;
use surefoot_rooms::moment::Moment;
use surefoot_settings::Live;
use surefoot_store::history::{self as store, Limits, View};

/// Events that may wait for the history, and memory for them.
const QUEUE_EVENTS_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// How often waiting records are committed when nothing else comes.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);
/// The first pause before a history that cannot be opened is tried again; it doubles with each try,
/// because opening a large file checks it from end to end.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(60);

/// How long an event of a made-up day waits for room in the queue.
const MEMORY_PATIENCE: Duration = Duration::from_secs(5);

/// What waits for the history.
enum Item {
    Event(Arc<Event>),
    /// All findings of a moment, `CLOCK_REALTIME`.
    Findings(u64, Vec<Finding>),
}

/// The way to the history's thread, and a way to read.
pub(crate) struct History {
    /// `None` where it is in memory.
    path: Option<PathBuf>,
    queue: Queue<Item>,
    view: Mutex<Option<View>>,
    /// Why the history is not being written; `None` while it is.
    trouble: Mutex<Option<String>>,
    /// Whether it could not be opened or written when that was tried last.
    fails: AtomicBool,
}

impl History {
    pub(crate) fn new(path: PathBuf) -> Self {
        History::of(Some(path))
    }

    /// One of a made-up day, which is told as fast as it can be written, and leaves no file.
    pub(crate) fn in_memory() -> Self {
        History::of(None)
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.path.is_none()
    }

    /// How long events wait for room: those of a host never hold up the watch.
    fn patience(&self) -> Duration {
        if self.is_in_memory() { MEMORY_PATIENCE } else { Duration::ZERO }
    }

    fn of(path: Option<PathBuf>) -> Self {
        let trouble = Some("it is being opened".to_owned());
        let queue = Queue::new(QUEUE_EVENTS_MAX, QUEUE_BYTES_MAX);
        History { path, queue, view: Mutex::new(None), trouble: Mutex::new(trouble), fails: AtomicBool::new(false) }
    }

    /// Hands an event to the history's thread, without waiting.
    pub(crate) fn offer(&self, event: &Arc<Event>, drops: &Drops) {
        // Capabilities are of the moment; the history has no place for them.
        let kept = matches!(**event, Event::Capabilities { .. })
            || self.queue.push(Item::Event(Arc::clone(event)), event.held_bytes(), self.patience());
        if !kept {
            drops.history.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands all findings of a moment to the history's thread, without waiting. Those that find no room are no loss: the
    /// next ones come in a second.
    pub(crate) fn offer_findings(&self, now_realtime_ns: u64, findings: &[Finding]) {
        let bytes = findings.iter().map(|finding| size_of_val(finding) + finding.key.len() + finding.sentence.len());
        let item = Item::Findings(now_realtime_ns, findings.to_vec());
        self.queue.push(item, bytes.sum(), self.patience());
    }

    /// Why it cannot be opened or written; `None` where it can, and before the first try.
    pub(crate) fn failing(&self) -> Option<String> {
        self.fails.load(Ordering::Relaxed).then(|| lock(&self.trouble).clone()).flatten()
    }

    /// Lets the history's thread write what waits and end.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// The body of the history's thread.
    pub(crate) fn run(&self, shared: &Shared) {
        let mut writer = Writer {
            history: self,
            shared,
            dropped_counted: 0,
            dropped_before_trouble: 0,
            troubled: false,
            notice_given: false,
            past_gone: false,
            notice: Seldom::default(),
        };
        let mut pause = RETRY_FIRST;
        loop {
            match writer.open() {
                Ok(open) => {
                    pause = RETRY_FIRST;
                    if writer.serve(open) == End::Closed {
                        return;
                    }
                }
                Err(error) => writer.failed(&error),
            }
            if self.queue.wait_closed(pause) {
                return;
            }
            pause = (pause * 2).min(RETRY_LAST);
        }
    }

    /// Reads from the history.
    ///
    /// # Errors
    /// Why that is not possible now, as a sentence.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&View) -> T) -> Result<T, String> {
        match &*lock(&self.view) {
            Some(view) => Ok(read(view)),
            None => {
                let why = lock(&self.trouble).clone().unwrap_or_default();
                let path = self.path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
                Err(format!("the history{path} cannot be read now: {why}"))
            }
        }
    }
}

/// What bounds the history, as it is set now.
pub(crate) fn limits_of(live: &Live) -> Limits {
    let held = live.now();
    let of = &held.settings.history;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Limits {
        size_bytes_max: of.size,
        second_spans_kept_s: of.seconds_for.as_secs(),
        minute_spans_kept_s: of.minutes_for.as_secs(),
        gaps_per_day_max: count(of.gaps_per_day),
        notices_max: count(of.notices),
        findings_max: count(of.findings),
        records_max: count(of.records),
        body_bytes_max: count(of.record_size),
        waiting_bytes_max: count(of.waiting_size),
    }
}

/// Why the writing of an open history ended.
#[derive(PartialEq, Eq)]
enum End {
    /// The server stops.
    Closed,
    /// The file must be opened anew.
    Broken,
}

struct Writer<'a> {
    history: &'a History,
    shared: &'a Shared,
    /// What the open history dropped, as far as it is counted already.
    dropped_counted: u64,
    dropped_before_trouble: u64,
    troubled: bool,
    notice_given: bool,
    /// The file with what was kept before is gone.
    past_gone: bool,
    notice: Seldom,
}

impl Writer<'_> {
    fn open(&mut self) -> surefoot_store::Result<store::History> {
        let open = match &self.history.path {
            Some(path) => store::History::open(path, limits_of(&self.shared.settings))?,
            None => store::History::in_memory(Limits::default())?,
        };
        *lock(&self.history.view) = Some(open.open_view()?);
        self.dropped_counted = 0;
        Ok(open)
    }

    fn serve(&mut self, mut open: store::History) -> End {
        // An earlier description of the host may have been dropped; without it times have no meaning.
        let mut result = self.before(&mut open).and_then(|()| open.commit());
        loop {
            self.count_dropped(&open);
            match result {
                Ok(()) if self.troubled => {
                    // An event is taken in long before it is on the disk; only a commit shows that all is well.
                    match open.commit() {
                        Ok(()) => self.succeeded(),
                        // How much waits by now, and why.
                        Err(error) => self.failed(&error),
                    }
                }
                // The latter is the word of a caller who sent events before the host's; it is counted.
                Ok(()) | Err(surefoot_store::Error::NoHostYet { .. }) => {}
                Err(error) => {
                    self.failed(&error);
                    if !matches!(error, surefoot_store::Error::HistoryWrite { .. }) {
                        self.count_dropped(&open);
                        *lock(&self.history.view) = None;
                        return End::Broken;
                    }
                }
            }
            // What is set may have changed.
            if let Err(error) = open.set_limits(limits_of(&self.shared.settings)) {
                self.failed(&error);
            }
            result = match self.history.queue.pop(COMMIT_PERIOD) {
                Popped::Item(Item::Event(event)) => open.record(&event),
                Popped::Item(Item::Findings(now_ns, findings)) => {
                    open.record_findings(i64::try_from(now_ns).unwrap_or(i64::MAX), &findings)
                }
                Popped::Empty => open.commit(),
                Popped::Closed => {
                    self.close(open);
                    return End::Closed;
                }
            };
        }
    }

    /// Writes what waits and closes the history. SQLite moves the log into the database, and removes it, when the last connection closes
    /// and may write: the one that reads goes first.
    fn close(&mut self, mut open: store::History) {
        // A reader may take long; then the log stays, and the next start takes up what is in it.
        let _ = open.commit();
        *lock(&self.history.trouble) = Some("the watch is ending".to_owned());
        *lock(&self.history.view) = None;
    }

    /// Tells a history that was just opened what the times of events mean.
    fn before(&self, open: &mut store::History) -> surefoot_store::Result<()> {
        let Moment { host: Some(host), clock, .. } = self.shared.moment() else { return Ok(()) };
        let realtime_offset_ns = clock.first_offset_ns().unwrap_or(host.realtime_offset_ns);
        open.record(&Event::Host(HostDescription { realtime_offset_ns, ..host }))?;
        clock.changes().iter().try_for_each(|change| open.record(&Event::Clock(*change)))
    }

    fn failed(&mut self, error: &surefoot_store::Error) {
        if !std::mem::replace(&mut self.troubled, true) {
            self.dropped_before_trouble = self.shared.drops.history.load(Ordering::Relaxed);
        }
        self.past_gone |= matches!(error, surefoot_store::Error::Gone { .. });
        *lock(&self.history.trouble) = Some(error.to_string());
        self.history.fails.store(true, Ordering::Relaxed);
        if self.notice.is_due() {
            self.notice_given = true;
            let text =
                format!("The history is not being written: {error}. Everything else goes on; it is tried again.");
            self.shared.notice(text);
        }
    }

    fn succeeded(&mut self) {
        self.troubled = false;
        self.history.fails.store(false, Ordering::Relaxed);
        *lock(&self.history.trouble) = None;
        if std::mem::take(&mut self.notice_given) {
            let dropped = self.shared.drops.history.load(Ordering::Relaxed) - self.dropped_before_trouble;
            let past = match std::mem::take(&mut self.past_gone) {
                true => ", nor is what the file that is gone kept",
                false => "",
            };
            self.shared.notice(format!("The history is being written again; {dropped} events are not in it{past}."));
        }
    }

    /// Adds what the store gave up to the server's own count.
    fn count_dropped(&mut self, open: &store::History) {
        let dropped = open.dropped().total();
        self.shared.drops.history.fetch_add(dropped - self.dropped_counted, Ordering::Relaxed);
        self.dropped_counted = dropped;
    }
}
