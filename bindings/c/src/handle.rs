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
    open: Mutex<BTreeMap<usize, Arc<Mutex<T>>>>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Table { kind, open: Mutex::new(BTreeMap::new()) }
    }

    /// Gives out a new handle.
    pub(crate) fn add(&self, value: T) -> Result<usize, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == OPEN_MAX {
            return Err(Failure::Argument(format!("{OPEN_MAX} are open already: {}", self.kind)));
        }
        let handle = NEXT.fetch_add(2, Ordering::Relaxed);
        open.insert(handle, Arc::new(Mutex::new(value)));
        Ok(handle)
    }

    /// Runs something with what a handle stands for.
    pub(crate) fn with<R>(&self, handle: usize, work: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        let shared = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned();
        let shared = shared.ok_or_else(|| self.unknown(handle))?;
        let mut value = lock(&shared)?;
        work(&mut value)
    }

    /// Closes a handle and returns what it stood for.
    pub(crate) fn remove(&self, handle: usize) -> Result<Arc<Mutex<T>>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = open.get(&handle).ok_or_else(|| self.unknown(handle))?;
        if matches!(shared.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Failure::Busy);
        }
        open.remove(&handle).ok_or_else(|| self.unknown(handle))
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
        table.add(0).unwrap();
    }
}
