//! Memory for the bodies of messages that are being read: so much of it in all, and a share of it for each who sends, so that one who
//! sends slowly keeps no other out.

use crate::{ApiError, lock};
use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What the shortest body takes.
const BYTES_MIN: usize = 4 << 10;
/// All of it.
const BYTES_MAX: usize = 64 << 20;
/// What one takes who sends: the longest message of Alertmanager, where it does not say how long it is.
const BYTES_OF_ONE_MAX: usize = 16 << 20;

/// Bytes that are taken, by who sends.
type Taken = Arc<Mutex<HashMap<String, usize>>>;

/// The memory.
#[derive(Default)]
pub struct Bodies {
    taken: Taken,
}

/// Room for one body, until it is dropped.
pub struct Reservation {
    taken: Taken,
    name: String,
    bytes: usize,
}

impl Bodies {
    /// Room for a body of so many bytes, if there is any left for this one.
    pub fn room(&self, name: &str, bytes: usize) -> Option<Reservation> {
        let bytes = bytes.max(BYTES_MIN);
        let mut taken = lock(&self.taken);
        let (own, all) = (taken.get(name).copied().unwrap_or(0), taken.values().sum::<usize>());
        if own + bytes > BYTES_OF_ONE_MAX || all + bytes > BYTES_MAX {
            return None;
        }
        taken.insert(name.to_owned(), own + bytes);
        Some(Reservation { taken: Arc::clone(&self.taken), name: name.to_owned(), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&self.name) {
            Some(bytes) if *bytes > self.bytes => *bytes -= self.bytes,
            _ => _ = taken.remove(&self.name),
        }
    }
}

/// The bytes of a body, at most so many, told beforehand or not.
///
/// # Errors
/// 413 for more of them, 400 for a body that breaks off or is not framed as HTTP has it.
pub async fn read(body: Body, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(whole) => Ok(whole.to_bytes().into()),
        Err(why) if why.is::<LengthLimitError>() => Err(too_long(bytes_max)),
        Err(_) => Err(ApiError::bad_request("the body broke off, or its chunks are malformed; send it again".into())),
    }
}

/// The refusal of a body of more bytes.
pub fn too_long(bytes_max: usize) -> ApiError {
    let text = format!("the body is longer than {bytes_max} bytes; send less at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_sends_much_leaves_room_for_others_and_gives_back_what_he_took() {
        let bodies = Bodies::default();
        let slow: Vec<Reservation> = std::iter::from_fn(|| bodies.room("agent n1", 1 << 20)).collect();
        assert_eq!(slow.len(), 16);
        assert!(bodies.room("agent n1", 0).is_none());
        // A connection each of as many as one user has on this machine.
        let short: Vec<Reservation> = (0..512).map_while(|_| bodies.room("user 0", 300)).collect();
        assert_eq!(short.len(), 512);
        drop(short);
        let other = bodies.room("user alertmanager", 16 << 20).unwrap();
        let rest: Vec<Reservation> = (2..9).flat_map(|host| bodies.room(&format!("agent n{host}"), 16 << 20)).collect();
        assert_eq!(rest.len(), 2, "64 MiB in all");
        drop((slow, other, rest));
        assert!(lock(&bodies.taken).is_empty());
    }
}
