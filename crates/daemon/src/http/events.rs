use super::access::Viewer;
use super::api_error::ApiError;
use super::json;
use crate::keep::shared::{LIVE_CLIENTS_MAX, LiveEvent, News, Shared};
use crate::rooms::stall::WindowView;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use surefoot_model::{ClockChange, Event, Gap, GapCorrection, Headline, Notice};
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// A comment goes out after this time without an event, so that both sides see a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);

/// The events from now on. A client that comes back is told how many it missed in between.
pub(crate) fn events(shared: &Arc<Shared>, viewer: Viewer, headers: &HeaderMap) -> Response {
    let Ok(slot) = Arc::clone(&shared.live_clients).try_acquire_owned() else {
        let text =
            format!("{LIVE_CLIENTS_MAX} clients listen already, which is the limit; close one of them and try again");
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let Some((receiver, newest)) = shared.subscribe() else {
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down").into_response();
    };
    let last_seen =
        headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    let missed = match last_seen {
        Some(last_seen) if last_seen <= newest => newest - last_seen,
        // A number from the future belongs to an earlier run of the server: all of this one's are new.
        Some(_) => newest,
        None => 0,
    };
    let stream = LiveStream {
        events: BroadcastStream::new(receiver),
        shared: Arc::clone(shared),
        viewer,
        greeting: Some(Message::default().retry(RETRY).comment("surefoot live events")),
        missed,
        told: newest,
        waiting: None,
        _slot: slot,
    };
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    Sse::new(stream).keep_alive(heartbeat).into_response()
}

/// Live events in the words of server-sent events. Ends when the server shuts down.
struct LiveStream {
    events: BroadcastStream<LiveEvent>,
    shared: Arc<Shared>,
    viewer: Viewer,
    greeting: Option<Message>,
    missed: u64,
    /// The number of the newest event that the client has, or was told that it missed.
    told: u64,
    /// The event after those that were missed.
    waiting: Option<Message>,
    _slot: OwnedSemaphorePermit,
}

impl Stream for LiveStream {
    type Item = Result<Message, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(Ok(greeting)));
        }
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            return Poll::Ready(Some(Ok(lagged(missed))));
        }
        if let Some(waiting) = self.waiting.take() {
            return Poll::Ready(Some(Ok(waiting)));
        }
        loop {
            match std::task::ready!(Pin::new(&mut self.events).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Ok(live)) => {
                    let missed = self.missed_before(live.sequence);
                    let message = message(&live, self.viewer);
                    if missed > 0 {
                        self.shared.drops.live.fetch_add(missed, Ordering::Relaxed);
                        self.waiting = message;
                        return Poll::Ready(Some(Ok(lagged(missed))));
                    }
                    if let Some(message) = message {
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
                // How many of them were events, and not news of findings, the number of the next one tells.
                Some(Err(BroadcastStreamRecvError::Lagged(_))) => {}
            }
        }
    }
}

impl LiveStream {
    /// How many events went by since the one before.
    fn missed_before(&mut self, sequence: Option<u64>) -> u64 {
        let Some(sequence) = sequence else { return 0 };
        let before = std::mem::replace(&mut self.told, sequence);
        sequence.saturating_sub(before.saturating_add(1))
    }
}

fn lagged(missed: u64) -> Message {
    LiveMessage::Lagged { missed }.text().unwrap_or_default()
}

/// What a live client is sent. Its type is also the name of the server-sent event.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LiveMessage<'a> {
    /// A window, without histograms.
    Window(WindowView<'a>),
    Gap(&'a Gap),
    /// What became known of a gap that was told of; it takes that one's place.
    GapCorrection(&'a GapCorrection),
    /// Times from here on are other times of the day.
    Clock(&'a ClockChange),
    Notice(&'a Notice),
    /// There is a newer report of raisers, at /api/v1/who.
    Who {
        /// Start of what it reports of, `CLOCK_MONOTONIC`.
        start_ns: u64,
        /// Its end.
        end_ns: u64,
    },
    /// Findings came, went or changed; they are at /api/v1/overview.
    Findings {
        headline: &'a Headline,
    },
    /// The client was too slow, or away.
    Lagged {
        /// Events that it has missed.
        missed: u64,
    },
}

impl LiveMessage<'_> {
    fn text(&self) -> Option<Message> {
        let name = match self {
            LiveMessage::Window(_) => "window",
            LiveMessage::Gap(_) => "gap",
            LiveMessage::GapCorrection(_) => "gap_correction",
            LiveMessage::Clock(_) => "clock",
            LiveMessage::Notice(_) => "notice",
            LiveMessage::Who { .. } => "who",
            LiveMessage::Findings { .. } => "findings",
            LiveMessage::Lagged { .. } => "lagged",
        };
        Some(Message::default().event(name).data(json::to_string(self).ok()?))
    }
}

fn message(live: &LiveEvent, viewer: Viewer) -> Option<Message> {
    let message = match &live.news {
        News::Who { start_ns, end_ns } => LiveMessage::Who { start_ns: *start_ns, end_ns: *end_ns },
        News::Findings { all, public } => {
            LiveMessage::Findings { headline: if viewer.sees_all { all } else { public } }
        }
        News::Event(event) => match &**event {
            Event::Window(window) => LiveMessage::Window(WindowView::whole(window)),
            Event::Gap(gap) => LiveMessage::Gap(gap),
            Event::GapCorrection(correction) => LiveMessage::GapCorrection(correction),
            Event::Clock(change) => LiveMessage::Clock(change),
            Event::Notice(notice) => LiveMessage::Notice(notice),
            // Their news is of another kind, or nobody waits for it.
            _ => return None,
        },
    };
    let message = message.text()?;
    Some(match live.sequence {
        Some(sequence) => message.id(sequence.to_string()),
        None => message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keep::board::Findings;
    use surefoot_model::{Finding, Room, Severity, Subject};

    #[test]
    fn news_of_findings_do_not_count_as_events_that_a_slow_client_missed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let shared = Arc::new(Shared::new(&Config::default(), None));
        let response = events(&shared, Viewer::ALL, &HeaderMap::new());
        // The client reads nothing while more comes than is kept for it.
        for at_ns in 0..1_000 {
            shared.fold(Event::Notice(Notice { at_ns, text: String::new() }));
            let finding = Finding::new(Room::Stall, "a", Subject::host(), Severity::Notice, "It is.");
            let all = vec![finding; usize::from(at_ns % 10 == 0)];
            shared.tell_of(&Findings { headline: Headline::of(&all), all });
        }
        shared.close_live();
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), 1 << 20)).unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let received = text.matches("event: notice").count() as u64;
        let missed: u64 = text
            .lines()
            .filter_map(|line| {
                line.strip_prefix(r#"data: {"type":"lagged","missed":"#)?.strip_suffix('}')?.parse::<u64>().ok()
            })
            .sum();
        assert!(text.contains("event: findings") && missed > 0, "{text}");
        assert_eq!(received + missed, 1_000);
        assert_eq!(shared.dropped().live, missed);
    }
}
