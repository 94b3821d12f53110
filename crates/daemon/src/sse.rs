use crate::api_error::ApiError;
use crate::state::{LIVE_CLIENTS_MAX, LiveEvent, News, Shared};
use crate::view::EventView;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use surefoot_model::Event;
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// A comment goes out after this time without an event, so that both sides see a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);

/// The events from now on. A client that comes back is told how many it missed in between.
pub(crate) fn events(shared: &Arc<Shared>, headers: &HeaderMap) -> Response {
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
        greeting: Some(Message::default().retry(RETRY).comment("surefoot live events")),
        missed,
        _slot: slot,
    };
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    Sse::new(stream).keep_alive(heartbeat).into_response()
}

/// Live events in the words of server-sent events. Ends when the server shuts down.
struct LiveStream {
    events: BroadcastStream<LiveEvent>,
    shared: Arc<Shared>,
    greeting: Option<Message>,
    missed: u64,
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
        loop {
            match std::task::ready!(Pin::new(&mut self.events).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Ok(live)) => {
                    if let Some(message) = message(&live) {
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
                Some(Err(BroadcastStreamRecvError::Lagged(count))) => {
                    self.shared.drops.live.fetch_add(count, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(lagged(count))));
                }
            }
        }
    }
}

fn lagged(missed: u64) -> Message {
    Message::default().event("lagged").data(format!("{{\"missed\":{missed}}}"))
}

fn message(live: &LiveEvent) -> Option<Message> {
    let (name, data) = match &live.news {
        News::Who { start_ns, end_ns } => {
            ("who", serde_json::json!({ "type": "who", "start_ns": start_ns, "end_ns": end_ns }).to_string())
        }
        News::Event(event) => {
            let name = match &**event {
                Event::Window(_) => "window",
                Event::Gap(_) => "gap",
                Event::Notice(_) => "notice",
                // Their news is of another kind, or nobody waits for it.
                Event::Who(_) | Event::Host(_) | Event::Capabilities { .. } => return None,
            };
            (name, serde_json::to_string(&EventView::of(event)).ok()?)
        }
    };
    Some(Message::default().event(name).id(live.sequence.to_string()).data(data))
}
