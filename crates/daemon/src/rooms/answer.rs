//! The text of a room's answer.

use axum::body::Bytes;
use serde::Serialize;
use surefoot_http::json_text;

/// The text of an answer, which is cut until that is short enough.
pub(super) fn within<T: Serialize>(bytes_max: usize, answer: T, cut: impl Fn(&mut T)) -> Bytes {
    surefoot_rooms::answer::within(bytes_max, answer, |answer| json_text(answer), cut)
}
