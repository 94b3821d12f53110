//! Answers with a media type and no caching.

use crate::json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_stream::Stream;

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// A large answer goes out in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// A JSON answer, never stored by anybody on the way.
pub fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    let (status, text) = to_json(status, value);
    with_type(status, JSON, text)
}

/// The text of a JSON answer.
pub fn json_text(value: &impl Serialize) -> Bytes {
    Bytes::from(to_json(StatusCode::OK, value).1)
}

fn to_json(status: StatusCode, value: &impl Serialize) -> (StatusCode, Vec<u8>) {
    match json::to_vec(value) {
        // For whoever asks by hand, whose prompt would stand behind it.
        Ok(mut text) => {
            text.push(b'\n');
            (status, text)
        }
        // Plain structs and maps with string keys always have a JSON form.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, br#"{"error":"the answer has no JSON form"}"#.to_vec()),
    }
}

/// An answer of this media type, never stored by anybody on the way.
pub fn with_type(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A body that is large, so that only so many may be in memory: its permit is held until the client has all of it.
pub fn held(text: impl Into<Bytes>, permit: impl Send + Unpin + 'static) -> Body {
    Body::from_stream(Held { rest: text.into(), _permit: permit })
}

struct Held<P> {
    rest: Bytes,
    _permit: P,
}

impl<P: Unpin> Stream for Held<P> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready((length > 0).then_some(Ok(piece)))
    }
}
