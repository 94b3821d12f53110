//! What the connections of one process to one store share: whether the store may be made, and which file it is.

use crate::database::{Content, InPlace};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How a store is opened. Clones share which file it is: once one of them has opened a file, the others open that one or none.
#[derive(Debug, Clone)]
pub struct Opening {
    creates: bool,
    reads: bool,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The file that was opened first, without its log.
    file: Option<InPlace>,
    /// The same with its log, as long as any connection has it open.
    open: Weak<InPlace>,
    /// What the file says of its content, from the first connection on.
    content: Option<Content>,
    /// Where the log of a file went that was written over, or why not.
    log_aside: Option<std::result::Result<PathBuf, String>>,
    /// Where what a file held that is gone from its place was saved, or why not.
    saved: Option<std::result::Result<PathBuf, String>>,
}

impl Opening {
    /// Makes the store where there is none.
    pub fn create() -> Opening {
        Opening { creates: true, reads: false, shared: Arc::default() }
    }

    /// Refuses where there is none: who only looks at a store, or changes cases in it, makes no empty one.
    pub fn existing() -> Opening {
        Opening { creates: false, reads: false, shared: Arc::default() }
    }

    /// Reads a store in a file as it is at one moment, from a copy in memory: nothing of it or beside it is changed, created or locked. Not for a
    /// process that has the same store open, whose locks the kernel would drop. A store on a server is opened as by [`Opening::existing`].
    pub fn to_read() -> Opening {
        Opening { creates: false, reads: true, shared: Arc::default() }
    }

    /// Whether it is only read.
    pub(super) fn reads(&self) -> bool {
        self.reads
    }

    /// Whether the store may be made now: not once it was opened.
    ///
    /// # Errors
    /// [`Error::Moved`] if the file that was opened before is no longer in its place.
    pub(super) fn may_create(&self) -> Result<bool> {
        let mut shared = self.shared();
        let opened = match (shared.open.upgrade(), &shared.file) {
            (Some(open), _) => open,
            (None, Some(file)) => Arc::new(file.clone()),
            (None, None) => return Ok(self.creates),
        };
        shared.refuse(&opened, None).map(|()| false)
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
        self.shared().refuse(in_place, Some(Box::new(save)))
    }

    /// Takes note of what the file says of its content, unless another connection has.
    pub(super) fn marked(&self, content: impl FnOnce() -> Content) {
        self.shared().content.get_or_insert_with(content);
    }

    /// Whether the file in this place was written over, as far as any connection has noticed.
    pub(super) fn is_overwritten(&self, in_place: &InPlace) -> bool {
        matches!(self.shared().refuse(in_place, None), Err(Error::Overwritten { .. }))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Saves what an open file holds: where to, or why not.
type Save<'a> = Box<dyn FnOnce() -> std::result::Result<PathBuf, String> + 'a>;

impl Shared {
    /// Refuses a file that is gone from its place, or was written over there. The log of one that was written over fits nothing that is there
    /// now: it is moved aside, and is then gone from its place, too.
    fn refuse(&mut self, in_place: &InPlace, save: Option<Save<'_>>) -> Result<()> {
        let moved = in_place.moved();
        let is_foreign = self.content.as_ref().is_some_and(Content::is_foreign);
        if let (false, Some(moved)) = (is_foreign, moved) {
            if let (true, None, Some(save)) = (moved.is_certain, &self.saved, save) {
                self.saved = Some(save());
                // The log of a file that is gone would be read into whatever takes its place, the saved copy among them.
                if matches!(self.saved, Some(Ok(_))) && in_place.is_deleted() {
                    in_place.remove_log();
                }
            }
            return Err(Error::Moved { what: moved.what, saved: self.saved.clone() });
        }
        let Some(content) = self.content.as_mut() else { return Ok(()) };
        if !content.is_overwritten() {
            return Ok(());
        }
        if self.log_aside.is_none() {
            self.log_aside = in_place.set_log_aside();
        }
        let path = content.path().to_owned();
        let is_empty = std::fs::metadata(&path).is_ok_and(|about| about.len() == 0);
        Err(Error::Overwritten { path, is_empty, log: self.log_aside.clone() })
    }
}
