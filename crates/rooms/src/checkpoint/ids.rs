//! IDs that stand for jobs' names in what every user can read.
//!
//! An ID is HMAC-SHA-256 of user and name, cut to 32 bits. The key is random and secret: with an unkeyed hash whoever guesses a name can
//! confirm it. `ring` computes it, which TLS brings along already; the standard library's keyed hash (`RandomState`) is random too, but
//! its key cannot be kept, and the ID of a job is part of a finding's key, by which alerts go on over a restart of the watch. So the watch
//! keeps the key in a file; this crate has no files, and is given it.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::sync::OnceLock;

/// The length of a key.
pub const KEY_BYTES: usize = 32;

/// Gives the key that is kept; `None` where none can be.
type Kept = Box<dyn Fn() -> Option<[u8; KEY_BYTES]> + Send + Sync>;

/// Makes IDs with one key, which is asked for or made once the first job has to be named.
#[derive(Default)]
pub struct Ids {
    /// Without one, the IDs are those of this process alone.
    kept: Option<Kept>,
    key: OnceLock<hmac::Key>,
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("are_published", &self.are_published()).finish_non_exhaustive()
    }
}

impl Ids {
    /// With a key that is kept, for IDs that others meet. Where there is none, the IDs are other ones after the next start.
    pub fn published(kept: impl Fn() -> Option<[u8; KEY_BYTES]> + Send + Sync + 'static) -> Self {
        Ids { kept: Some(Box::new(kept)), key: OnceLock::new() }
    }

    /// Whether others meet these IDs, in `health.json`.
    pub fn are_published(&self) -> bool {
        self.kept.is_some()
    }

    fn key(&self) -> &hmac::Key {
        let found = || self.kept.as_ref().and_then(|kept| kept()).unwrap_or_else(random_key);
        self.key.get_or_init(|| hmac::Key::new(hmac::HMAC_SHA256, &found()))
    }

    /// The ID of a user's job; that of another user's job of this name is another one.
    pub fn of(&self, uid: Option<u32>, name: &str) -> String {
        let mut text = uid.map_or_else(|| b"?".to_vec(), |uid| uid.to_le_bytes().to_vec());
        text.extend_from_slice(name.as_bytes());
        let digest: String =
            hmac::sign(self.key(), &text).as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("job-{digest}")
    }
}

/// A new key.
pub fn random_key() -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).expect("the kernel gives random bytes to everybody");
    key
}
