//! The history on a thread of its own: a full disk or a dead one slows nobody down.
//!
//! While the history cannot be written, the store keeps a few MiB of records for the next try, and this
//! queue some more; what is given up beyond that is counted. One notice says that it began, at most one a
//! minute while it lasts, and one that it is over.

// The store's errors carry what a person needs to act on; they are made once a second at most.
#![allow(clippy::result_large_err)]

use crate::api_error::ApiError;
use crate::filter::parameters;
use crate::queue::{Popped, Queue};
use crate::reply;
use crate::state::{Drops, Seldom, Shared};
use crate::view::{PastGapView, PastNoticeView, PastWindowView};
use crate::weight::event_bytes;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use surefoot_model::Event;
use surefoot_store::history::{self as store, GapFilter, Limits, Resolution, View};

/// Events that may wait for the history, and memory for them.
const QUEUE_EVENTS_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// How often waiting records are committed when nothing else comes.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);
/// The first pause before a history that cannot be opened is tried again; it doubles with each try,
/// because opening a large file checks it from end to end.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(60);
/// The windows of one answer, as JSON.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The gaps of one answer: the longest ones.
const ANSWER_GAPS_MAX: usize = 200;
/// The notices of one answer: the newest ones.
const ANSWER_NOTICES_MAX: usize = 100;
/// The range of an answer that names none.
const RANGE_S_DEFAULT: i64 = 3_600;
/// Later times have no nanoseconds in 64 bits.
const TIME_S_MAX: i64 = 9_000_000_000;

/// The way to the history's thread, and a way to read.
pub(crate) struct History {
    path: PathBuf,
    queue: Queue<Arc<Event>>,
    view: Mutex<Option<View>>,
    /// Why the history is not being written; `None` while it is.
    trouble: Mutex<Option<String>>,
}

impl History {
    pub(crate) fn new(path: PathBuf) -> Self {
        let trouble = Some("it is being opened".to_owned());
        let queue = Queue::new(QUEUE_EVENTS_MAX, QUEUE_BYTES_MAX);
        History { path, queue, view: Mutex::new(None), trouble: Mutex::new(trouble) }
    }

    /// Hands an event to the history's thread, without waiting.
    pub(crate) fn offer(&self, event: &Arc<Event>, drops: &Drops) {
        // Capabilities are of the moment; the history has no place for them.
        let kept = matches!(**event, Event::Capabilities { .. })
            || self.queue.push(Arc::clone(event), event_bytes(event), Duration::ZERO);
        if !kept {
            drops.history.fetch_add(1, Ordering::Relaxed);
        }
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

    /// Reads from the history; an error says why that is not possible now.
    fn read<T>(&self, read: impl FnOnce(&View) -> Result<T, ApiError>) -> Result<T, ApiError> {
        match &*lock(&self.view) {
            Some(view) => read(view),
            None => {
                let why = lock(&self.trouble).clone().unwrap_or_default();
                let text = format!("the history {} cannot be read now: {why}", self.path.display());
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, text))
            }
        }
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
    notice: Seldom,
}

impl Writer<'_> {
    fn open(&mut self) -> surefoot_store::Result<store::History> {
        let open = store::History::open(&self.history.path, Limits::default())?;
        *lock(&self.history.view) = Some(open.open_view()?);
        self.dropped_counted = 0;
        Ok(open)
    }

    fn serve(&mut self, mut open: store::History) -> End {
        // An earlier description of the host may have been dropped; without it times have no meaning.
        let host = self.shared.host();
        let mut result = host.map_or(Ok(()), |host| open.record(&Event::Host(host))).and_then(|()| open.commit());
        loop {
            self.count_dropped(&open);
            match result {
                Ok(()) if self.troubled => {
                    // An event is taken in long before it is on the disk; only a commit shows that all is well.
                    if open.commit().is_ok() {
                        self.succeeded();
                    }
                }
                // The latter is the word of a caller who sent events before the host's; it is counted.
                Ok(()) | Err(surefoot_store::Error::NoHostYet { .. }) => {}
                Err(error) => {
                    self.failed(&error);
                    if !matches!(error, surefoot_store::Error::HistoryWrite { .. }) {
                        *lock(&self.history.view) = None;
                        return End::Broken;
                    }
                }
            }
            result = match self.history.queue.pop(COMMIT_PERIOD) {
                Popped::Item(event) => open.record(&event),
                Popped::Empty => open.commit(),
                // Dropping it commits.
                Popped::Closed => return End::Closed,
            };
        }
    }

    fn failed(&mut self, error: &surefoot_store::Error) {
        if !std::mem::replace(&mut self.troubled, true) {
            self.dropped_before_trouble = self.shared.drops.history.load(Ordering::Relaxed);
        }
        *lock(&self.history.trouble) = Some(error.to_string());
        if self.notice.is_due() {
            self.notice_given = true;
            let text =
                format!("The history is not being written: {error}. Everything else goes on; it is tried again.");
            self.shared.notice(text);
        }
    }

    fn succeeded(&mut self) {
        self.troubled = false;
        *lock(&self.history.trouble) = None;
        if std::mem::take(&mut self.notice_given) {
            let dropped = self.shared.drops.history.load(Ordering::Relaxed) - self.dropped_before_trouble;
            self.shared.notice(format!("The history is being written again; {dropped} events are not in it."));
        }
    }

    /// Adds what the store gave up to the server's own count.
    fn count_dropped(&mut self, open: &store::History) {
        let dropped = open.dropped().total();
        self.shared.drops.history.fetch_add(dropped - self.dropped_counted, Ordering::Relaxed);
        self.dropped_counted = dropped;
    }
}

/// Answers `/api/v1/history`.
pub(crate) async fn answer(shared: Arc<Shared>, uri: &Uri) -> Result<Response, ApiError> {
    let question = Question::of(uri)?;
    if shared.history.is_none() {
        let text = "no history is kept; start with a history file to keep one";
        return Err(ApiError::new(StatusCode::NOT_FOUND, text));
    }
    let permit = shared.large_answer().await?;
    // Reading a file would hold up all other clients on the server's one thread.
    let reading = tokio::task::spawn_blocking(move || match &shared.history {
        Some(history) => history.read(|view| question.answer(view)),
        None => Err(ApiError::new(StatusCode::NOT_FOUND, "no history is kept")),
    });
    let text = reading
        .await
        .map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the history broke off"))??;
    Ok(reply::with_type(StatusCode::OK, reply::JSON, reply::held(text, permit)))
}

/// What a client wants to know about the past.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Question {
    from_s: i64,
    to_s: i64,
    resolution: Resolution,
}

impl Question {
    fn of(uri: &Uri) -> Result<Self, ApiError> {
        let (mut from_s, mut to_s, mut resolution) = (None, None, Resolution::Minute);
        for (name, value) in parameters(uri, &["from_s", "to_s", "resolution"])? {
            match name.as_str() {
                "from_s" => from_s = Some(time_s(&name, &value)?),
                "to_s" => to_s = Some(time_s(&name, &value)?),
                _ => resolution = resolution_of(&value)?,
            }
        }
        // Windows are asked for by their beginning; one second more includes the newest.
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let to_s = to_s.unwrap_or(i64::try_from(now_s).unwrap_or(TIME_S_MAX).saturating_add(1));
        let from_s = from_s.unwrap_or(to_s.saturating_sub(RANGE_S_DEFAULT).max(0));
        if from_s >= to_s {
            let allowed = format!("a time before to_s, which is {to_s}");
            return Err(ApiError::bad_parameter("from_s", &from_s.to_string(), &allowed));
        }
        Ok(Question { from_s, to_s, resolution })
    }

    fn range_ns(&self) -> Range<i64> {
        self.from_s.saturating_mul(1_000_000_000)..self.to_s.saturating_mul(1_000_000_000)
    }

    /// The answer as JSON. Windows become text one by one, so that a long range needs no more memory than its answer.
    fn answer(&self, view: &View) -> Result<String, ApiError> {
        let mut windows = String::new();
        let mut whole = Ok(());
        let read = view.for_each_window(self.range_ns(), self.resolution, |window| {
            if windows.len() > ANSWER_BYTES_MAX {
                whole = Err(self.too_long());
                return ControlFlow::Break(());
            }
            if !windows.is_empty() {
                windows.push(',');
            }
            match serde_json::to_string(&PastWindowView::of(&window)) {
                Ok(text) => windows.push_str(&text),
                Err(error) => whole = Err(unreadable(&error.to_string())),
            }
            if whole.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(|error| unreadable(&error.to_string()))?;
        whole?;
        let filter = GapFilter { range: Some(self.range_ns()), limit: ANSWER_GAPS_MAX, ..GapFilter::default() };
        let gaps = view.gaps(&filter).map_err(|error| unreadable(&error.to_string()))?;
        let gaps: Vec<PastGapView<'_>> = gaps.iter().map(PastGapView::of).collect();
        let notices = view.notices(self.range_ns()).map_err(|error| unreadable(&error.to_string()))?;
        let newest = notices.len().saturating_sub(ANSWER_NOTICES_MAX);
        let notices: Vec<PastNoticeView<'_>> = notices[newest..].iter().map(PastNoticeView::of).collect();
        let part = |value: serde_json::Result<String>| value.map_err(|error| unreadable(&error.to_string()));
        Ok(format!(
            r#"{{"from_s":{},"to_s":{},"resolution":"{}","windows":[{windows}],"gaps":{},"notices":{}}}"#,
            self.from_s,
            self.to_s,
            word(self.resolution),
            part(serde_json::to_string(&gaps))?,
            part(serde_json::to_string(&notices))?,
        ))
    }

    fn too_long(&self) -> ApiError {
        let text = format!(
            "the answer would be longer than {} MiB; ask for a shorter time between from_s and to_s{}",
            ANSWER_BYTES_MAX >> 20,
            if self.resolution == Resolution::Second { ", or for resolution=minute" } else { "" }
        );
        ApiError::bad_request(text)
    }
}

fn unreadable(why: &str) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the history cannot be read: {why}"))
}

fn time_s(name: &str, text: &str) -> Result<i64, ApiError> {
    match text.parse::<i64>() {
        Ok(time_s) if (0..=TIME_S_MAX).contains(&time_s) => Ok(time_s),
        _ => {
            let allowed = format!("whole seconds since 1970 (UTC), from 0 to {TIME_S_MAX}");
            Err(ApiError::bad_parameter(name, text, &allowed))
        }
    }
}

fn resolution_of(text: &str) -> Result<Resolution, ApiError> {
    [Resolution::Second, Resolution::Minute]
        .into_iter()
        .find(|&resolution| word(resolution) == text)
        .ok_or_else(|| ApiError::bad_parameter("resolution", text, "second or minute"))
}

fn word(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Second => "second",
        Resolution::Minute => "minute",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
