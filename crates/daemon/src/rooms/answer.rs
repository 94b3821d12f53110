//! What the answers of all rooms have in common: how they begin, and how they are kept short.

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_http::json_text;
use surefoot_model::SCHEMA;

/// How the answer of a room begins.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Header {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The version of Surefoot.
    pub version: &'static str,
    /// Why there is nothing to see, and what to do; absent where there is.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Header {
    pub(super) fn new(why: Option<String>) -> Self {
        Header { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), why }
    }
}

/// A list with a limit, and how many rows are not in it.
pub(super) struct Limited<'a, T>(pub(super) &'a mut Vec<T>, pub(super) &'a mut u64);

impl<T> Limited<'_, T> {
    /// Leaves the second half out.
    pub(super) fn halve(self) {
        let kept = self.0.len() / 2;
        *self.1 += (self.0.len() - kept) as u64;
        self.0.truncate(kept);
    }

    /// Leaves the first half out: that of what comes oldest first.
    pub(super) fn halve_oldest(self) {
        let gone = self.0.len().div_ceil(2);
        *self.1 += gone as u64;
        self.0.drain(..gone);
    }
}

/// The text of an answer, which is cut until that is short enough.
pub(super) fn within<T: Serialize>(bytes_max: usize, mut answer: T, cut: impl Fn(&mut T)) -> Bytes {
    loop {
        let text = json_text(&answer);
        if text.len() <= bytes_max {
            return text;
        }
        cut(&mut answer);
    }
}
