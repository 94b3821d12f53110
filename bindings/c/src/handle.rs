//! Handles: numbers in the place of addresses.

use crate::status::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The most handles of a kind that are open at once.
const OPEN_MAX: usize = 1024;

/// The next handle of any kind; handles of two kinds are never equal. They are odd, as the address of nothing is, so
/// that who follows one by mistake finds out.
static NEXT: AtomicUsize = AtomicUsize::new(0x1001);

/// The open handles of one kind.
pub(crate) struct Table<T> {
    kind: &'static str,
    /// `None` for one that is kept for what is being opened.
    open: Mutex<BTreeMap<usize, Option<Arc<Mutex<T>>>>>,
}

/// A handle that is kept for what is being opened; given back where nothing is put there.
pub(crate) struct Place<'a, T> {
    table: &'a Table<T>,
    handle: usize,
}

impl<T> Place<'_, T> {
    /// Opens the handle.
    pub(crate) fn fill(self, value: T) -> usize {
        self.table.entries().insert(self.handle, Some(Arc::new(Mutex::new(value))));
        self.handle
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        let mut open = self.table.entries();
        if open.get(&self.handle).is_some_and(Option::is_none) {
            open.remove(&self.handle);
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Table { kind, open: Mutex::new(BTreeMap::new()) }
    }

    /// Gives out a new handle.
    pub(crate) fn add(&self, value: T) -> Result<usize, Failure> {
        self.reserve().map(|place| place.fill(value))
    }

    /// Keeps a new handle for what is about to be opened.
    pub(crate) fn reserve(&self) -> Result<Place<'_, T>, Failure> {
        let mut open = self.entries();
        if open.len() == OPEN_MAX {
            return Err(Failure::Argument(format!("{OPEN_MAX} are open already: {}", self.kind)));
        }
        let handle = NEXT.fetch_add(2, Ordering::Relaxed);
        open.insert(handle, None);
        Ok(Place { table: self, handle })
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<usize, Option<Arc<Mutex<T>>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something with what a handle stands for.
    pub(crate) fn with<R>(&self, handle: usize, work: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        let shared = self.entries().get(&handle).cloned().flatten();
        let shared = shared.ok_or_else(|| self.unknown(handle))?;
        let mut value = lock(&shared)?;
        work(&mut value)
    }

    /// Closes a handle and returns what it stood for.
    pub(crate) fn remove(&self, handle: usize) -> Result<Arc<Mutex<T>>, Failure> {
        let mut open = self.entries();
        let shared = open.get(&handle).and_then(Option::as_ref).ok_or_else(|| self.unknown(handle))?;
        if matches!(shared.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Failure::Busy);
        }
        open.remove(&handle).flatten().ok_or_else(|| self.unknown(handle))
    }

    fn unknown(&self, handle: usize) -> Failure {
        Failure::Argument(match handle {
            0 => format!("the handle is NULL where an open one is needed: {}", self.kind),
            _ => format!("the handle is not open, or was closed: {}", self.kind),
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    shared.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Failure::Busy,
        TryLockError::Poisoned(_) => Failure::Internal("a former call with this handle ended in a fault".into()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn only_what_is_open_can_be_used_and_only_by_one_at_a_time() {
        let table = Table::new("number");
        let handle = table.add(5).unwrap();
        assert!(matches!(table.with(0, |_| Ok(())), Err(Failure::Argument(why)) if why.contains("NULL")));
        assert!(matches!(table.with(handle + 2, |_| Ok(())), Err(Failure::Argument(_))));
        let inside = table.with(handle, |number| {
            assert!(matches!(table.with(handle, |_| Ok(())), Err(Failure::Busy)));
            assert!(matches!(table.remove(handle), Err(Failure::Busy)));
            *number += 1;
            Ok(*number)
        });
        assert_eq!(inside.unwrap(), 6);
        let _ = catch_unwind(AssertUnwindSafe(|| table.with(handle, |_| -> Result<(), Failure> { panic!("inside") })));
        assert!(matches!(table.with(handle, |_| Ok(())), Err(Failure::Internal(_))), "after a panic");
        table.remove(handle).unwrap();
        assert!(matches!(table.remove(handle), Err(Failure::Argument(_))), "closed twice");
        assert_ne!(table.add(7).unwrap(), handle, "a handle is never given out again");
    }

    #[test]
    fn there_is_a_limit() {
        let table = Table::new("number");
        let handles: Vec<usize> = (0..OPEN_MAX).map(|number| table.add(number).unwrap()).collect();
        assert!(matches!(table.add(0), Err(Failure::Argument(_))));
        table.remove(handles[3]).unwrap();
        let place = table.reserve().unwrap();
        assert!(matches!(table.add(0), Err(Failure::Argument(_))), "the last one is kept for somebody");
        drop(place);
        let handle = table.reserve().unwrap().fill(8);
        assert_eq!(table.with(handle, |number| Ok(*number)).unwrap(), 8);
        assert!(matches!(table.reserve(), Err(Failure::Argument(_))));
    }

    #[test]
    fn a_handle_that_is_kept_is_not_open() {
        let table = Table::<usize>::new("number");
        let place = table.reserve().unwrap();
        let handle = place.handle;
        assert!(matches!(table.with(handle, |_| Ok(())), Err(Failure::Argument(_))));
        assert!(matches!(table.remove(handle), Err(Failure::Argument(_))));
        assert_eq!(place.fill(3), handle);
        assert_eq!(table.with(handle, |number| Ok(*number)).unwrap(), 3);
    }
}
