use crate::reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Characters of a client's own words that come back in an error.
const ECHO_CHARACTERS_MAX: usize = 100;

/// A refused request: a status and a sentence, sent as `{"error": …}`.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    text: String,
}

impl ApiError {
    /// A refusal with this status.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        ApiError { status, text: text.into() }
    }

    /// A request that cannot be understood.
    pub fn bad_request(text: String) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, text)
    }

    /// A value that cannot be used, and what can.
    pub fn bad_parameter(name: &str, value: &str, allowed: &str) -> Self {
        ApiError::bad_request(format!("parameter '{name}' cannot be '{}'; allowed: {allowed}", echo(value)))
    }
}

/// What a refused request is answered.
#[derive(Serialize, JsonSchema)]
pub struct ErrorAnswer<'a> {
    /// Why, and what can be done; one sentence.
    error: &'a str,
}

/// The beginning of a client's own words.
pub fn echo(text: &str) -> String {
    text.chars().take(ECHO_CHARACTERS_MAX).collect()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        reply::answer(self.status, &ErrorAnswer { error: &self.text })
    }
}
