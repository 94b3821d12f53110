//! What the connections of one process to one store share: whether the store may be made, and which file it is.

use crate::database::InPlace;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How a store is opened. Clones share which file it is: once one of them has opened a file, the others open that one or none.
#[derive(Debug, Clone)]
pub struct Opening {
    creates: bool,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The file that was opened first, without its log.
    file: Option<InPlace>,
    /// The same with its log, as long as any connection has it open.
    open: Weak<InPlace>,
    /// Where what a file held that is gone from its place was saved, or why not.
    saved: Option<std::result::Result<PathBuf, String>>,
}

impl Opening {
    /// Makes the store where there is none.
    pub fn create() -> Opening {
        Opening { creates: true, shared: Arc::default() }
    }

    /// Refuses where there is none: who only looks at a store, or changes cases in it, makes no empty one.
    pub fn existing() -> Opening {
        Opening { creates: false, shared: Arc::default() }
    }

    /// Whether the store may be made now: not once it was opened.
    ///
    /// # Errors
    /// [`Error::Moved`] if the file that was opened before is no longer in its place.
    pub(super) fn may_create(&self) -> Result<bool> {
        let shared = self.shared();
        let moved = match (shared.open.upgrade(), &shared.file) {
            (Some(open), _) => open.moved(),
            (None, Some(file)) => file.moved(),
            (None, None) => return Ok(self.creates),
        };
        match moved {
            Some(moved) => Err(Error::Moved { what: moved.what, saved: shared.saved.clone() }),
            None => Ok(false),
        }
    }

    /// Takes note of the file at this path, which a connection has open, its log with it.
    pub(super) fn opened(&self, path: &Path) -> Result<Arc<InPlace>> {
        let mut shared = self.shared();
        if let Some(open) = shared.open.upgrade() {
            return Ok(open);
        }
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let open = Arc::new(InPlace::of(path).map_err(failed)?);
        shared.file.get_or_insert_with(|| open.without_log());
        shared.open = Arc::downgrade(&open);
        Ok(open)
    }

    /// Refuses if a file is no longer in its place; the first to notice has its contents saved.
    pub(super) fn check(
        &self,
        in_place: &InPlace,
        save: impl FnOnce() -> std::result::Result<PathBuf, String>,
    ) -> Result<()> {
        let Some(moved) = in_place.moved() else { return Ok(()) };
        let mut shared = self.shared();
        if moved.is_certain && shared.saved.is_none() {
            shared.saved = Some(save());
        }
        Err(Error::Moved { what: moved.what, saved: shared.saved.clone() })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn no_store(store: String, what: &str) -> Error {
    Error::NoStore { store, why: format!("{what}; `surefoot remedy serve --store` makes a new one") }
}
