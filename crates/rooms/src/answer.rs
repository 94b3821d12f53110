//! What the answers of all rooms have in common: how they begin, and how they are kept short.

use crate::SCHEMA;
use schemars::JsonSchema;
use serde::Serialize;

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
    /// Of this release, with why there is nothing to see.
    pub fn new(why: Option<String>) -> Self {
        Header { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), why }
    }
}

/// A list with a limit, and how many rows are not in it.
pub struct Limited<'a, T>(pub &'a mut Vec<T>, pub &'a mut u64);

impl<T> Limited<'_, T> {
    /// Leaves the second half out.
    pub fn halve(self) {
        let kept = self.0.len() / 2;
        *self.1 += (self.0.len() - kept) as u64;
        self.0.truncate(kept);
    }

    /// Leaves the first half out: that of what comes oldest first.
    pub fn halve_oldest(self) {
        let gone = self.0.len().div_ceil(2);
        *self.1 += gone as u64;
        self.0.drain(..gone);
    }
}

/// The text of an answer, which is cut until that is short enough.
pub fn within<T: Serialize, B: AsRef<[u8]>>(
    bytes_max: usize,
    mut answer: T,
    text: impl Fn(&T) -> B,
    cut: impl Fn(&mut T),
) -> B {
    loop {
        let text = text(&answer);
        if text.as_ref().len() <= bytes_max {
            return text;
        }
        cut(&mut answer);
    }
}
