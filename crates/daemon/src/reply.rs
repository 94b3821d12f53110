use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

/// A JSON answer, never stored by anybody on the way.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let (status, text) = match serde_json::to_vec(value) {
        Ok(text) => (status, text),
        // Plain structs and maps with string keys always have a JSON form.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, br#"{"error":"the answer has no JSON form"}"#.to_vec()),
    };
    with_type(status, "application/json", text)
}

/// An answer of this media type, never stored by anybody on the way.
pub(crate) fn with_type(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
