use super::access::{self, Again};
use crate::keep::shared::{LIVE_CLIENTS, LiveEvent, News, Shared};
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
use std::time::{Duration, Instant};
use surefoot_http::shares::{ClientSlot, Limits};
use surefoot_http::{ApiError, json};
use surefoot_model::{ClockChange, Event, Gap, GapCorrection, Headline, Notice};
use surefoot_rooms::stall::view::WindowView;
use surefoot_rooms::viewer::Viewer;
use tokio_stream::Stream;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// A comment goes out after this time without an event, so that both sides see a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);
/// How long it is believed that a client may still see what it could before.
const BELIEVED: Duration = Duration::from_secs(1);

/// The events from now on, for as long as the client may see the same. One that comes back is told how many it missed in between.
pub(crate) fn events(shared: &Arc<Shared>, viewer: Viewer, again: Again, headers: &HeaderMap) -> Response {
    let Some(place) = shared.live_clients.place_of(access::holder(&viewer)) else {
        let Limits { all, of_user, .. } = LIVE_CLIENTS;
        let text = format!(
            "too many clients listen already ({of_user} of one user, {all} in all is the limit); close one of them and \
             try again"
        );
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
        again,
        asked: Instant::now(),
        greeting: Some(Message::default().retry(RETRY).comment("surefoot live events")),
        missed,
        told: newest,
        waiting: None,
        _place: place,
    };
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    Sse::new(stream).keep_alive(heartbeat).into_response()
}

/// Live events in the words of server-sent events. Ends when the server shuts down.
struct LiveStream {
    events: BroadcastStream<LiveEvent>,
    shared: Arc<Shared>,
    viewer: Viewer,
    again: Again,
    /// When that was asked last.
    asked: Instant,
    greeting: Option<Message>,
    missed: u64,
    /// The number of the newest event that the client has, or was told that it missed.
    told: u64,
    /// The event after those that were missed.
    waiting: Option<Message>,
    _place: ClientSlot,
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
                Some(Ok(_)) if self.is_over() => return Poll::Ready(None),
                Some(Ok(live)) => {
                    let missed = self.missed_before(live.sequence);
                    let message = self.viewer.show(live, message).into_answer();
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
    /// Whether the client may not see any more what it could when it came, so that it has to come again.
    fn is_over(&mut self) -> bool {
        if self.asked.elapsed() < BELIEVED {
            return false;
        }
        self.asked = Instant::now();
        self.again.viewer() != Some(self.viewer)
    }

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

fn message(live: LiveEvent) -> Option<Message> {
    let message = match &live.news {
        News::Who { start_ns, end_ns } => LiveMessage::Who { start_ns: *start_ns, end_ns: *end_ns },
        News::Findings { all, .. } => LiveMessage::Findings { headline: all },
        // Only its number, so that the client does not count it as missed.
        News::Withheld => return Some(Message::default().id(live.sequence?.to_string())),
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
    use surefoot_model::{Finding, Room, Severity, Subject};
    use surefoot_rooms::moment::Findings;

    fn always(viewer: Viewer) -> Again {
        Again::new(move || Some(viewer))
    }

    #[test]
    fn news_of_findings_do_not_count_as_events_that_a_slow_client_missed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let shared = Arc::new(Shared::new(&Config::default(), None));
        let response = events(&shared, access::SEES_ALL, always(access::SEES_ALL), &HeaderMap::new());
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

    #[test]
    fn others_hear_neither_notices_nor_names_and_are_told_of_none_that_they_missed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let shared = Arc::new(Shared::new(&Config::default(), None));
        let viewer = Viewer { uid: Some(1000), sees_all: false, named: None };
        let response = events(&shared, viewer, always(viewer), &HeaderMap::new());
        shared.fold(Event::Notice(Notice { at_ns: 1, text: "SECRET".to_owned() }));
        let told = Finding::new(Room::Stall, "a", Subject::host(), Severity::Notice, "SECRET took it.");
        let public = Finding::new(Room::Stall, "a", Subject::host(), Severity::Notice, "A task took it.");
        let all = vec![told.with_public(&public)];
        shared.tell_of(&Findings { headline: Headline::of(&all), all });
        shared.close_live();
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), 1 << 20)).unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(!text.contains("SECRET") && !text.contains("lagged"), "{text}");
        assert!(text.contains("A task took it.") && text.contains("id: 1\n"), "{text}");
    }

    #[test]
    fn one_user_does_not_take_all_places_for_live_events() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let shared = Arc::new(Shared::new(&Config::default(), None));
        let listen = |uid| {
            let viewer = Viewer { uid: Some(uid), sees_all: false, named: None };
            events(&shared, viewer, always(viewer), &HeaderMap::new())
        };
        let of_one: Vec<Response> = (0..40).map(|_| listen(1000)).collect();
        assert_eq!(of_one.iter().filter(|response| response.status().is_success()).count(), LIVE_CLIENTS.of_user);
        assert!([1001, 0].into_iter().all(|uid| listen(uid).status().is_success()));
        drop(of_one);
        // Nor does one of another machine, where users are nobody and callers have names.
        let named = |name| {
            let viewer = Viewer { uid: None, sees_all: false, named: Some(name) };
            events(&shared, viewer, always(viewer), &HeaderMap::new())
        };
        let of_one: Vec<Response> = (0..40).map(|_| named(1)).collect();
        assert_eq!(of_one.iter().filter(|response| response.status().is_success()).count(), LIVE_CLIENTS.of_user);
        assert!(named(2).status().is_success());
    }
}
