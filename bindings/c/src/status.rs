//! The result of a call, as a number; the one place where errors become numbers.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use surefoot_checkpoint::Error;

/// What a function returns. Failures are negative; surefoot_error_text says more about each.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurefootStatus {
    /// Done.
    Ok = 0,
    /// There is no checkpoint to restart from: the program begins anew. Nothing was touched.
    Nothing = 1,
    /// The call itself is wrong: a NULL, a handle that is not open, a buffer that is too small.
    Argument = -1,
    /// A setting or a name cannot be used.
    Option = -2,
    /// The file system said no.
    Storage = -3,
    /// A file that is there is not what it should be.
    Damaged = -4,
    /// The ranks cannot talk, or are in different calls: the text says who is in which. The handle takes no more calls
    /// of all ranks and can only be closed.
    Group = -5,
    /// It failed on another rank, and so on all.
    OtherRank = -6,
    /// There are checkpoints, but none can be proved intact on all ranks. The regions hold nothing useful.
    NothingIntact = -7,
    /// There is not enough room in the memory tier or on the drive.
    NoRoom = -8,
    /// Another thread is in a call with this handle.
    Busy = -9,
    /// A fault of this library; please report it. The handle can only be closed.
    Internal = -10,
    /// The newest checkpoint was saved by another number of ranks: surefoot_checkpoint_restart_resized goes on from it.
    /// Nothing was touched.
    OtherRanks = -11,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller's argument.
    Argument(String),
    /// A handle in use.
    Busy,
    /// A panic, now or in a former call with this handle.
    Internal(String),
    /// The library's.
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

impl Failure {
    pub(crate) fn argument(why: impl Into<String>) -> Self {
        Failure::Argument(why.into())
    }

    pub(crate) fn status(&self) -> SurefootStatus {
        match self {
            Failure::Argument(_) => SurefootStatus::Argument,
            Failure::Busy => SurefootStatus::Busy,
            Failure::Internal(_) => SurefootStatus::Internal,
            Failure::Library(error) => match error {
                Error::Storage { .. } => SurefootStatus::Storage,
                Error::Option { .. } | Error::Setting { .. } => SurefootStatus::Option,
                Error::Damaged { .. } => SurefootStatus::Damaged,
                Error::Group { .. } => SurefootStatus::Group,
                Error::OtherRank { .. } => SurefootStatus::OtherRank,
                Error::NothingIntact { .. } => SurefootStatus::NothingIntact,
                Error::NoRoom { .. } | Error::NoSlot { .. } | Error::NoTier { .. } => SurefootStatus::NoRoom,
                Error::OtherRanks { .. } => SurefootStatus::OtherRanks,
                // An error that is newer than this table.
                _ => SurefootStatus::Internal,
            },
        }
    }

    pub(crate) fn text(&self) -> CString {
        match self {
            Failure::Argument(why) => to_c(why),
            Failure::Busy => c"another thread is in a call with this handle".to_owned(),
            Failure::Internal(why) => to_c(&format!("a fault of this library, please report it: {why}")),
            Failure::Library(error) => to_c(&error.to_string()),
        }
    }
}

/// A text as C knows it. What stands after a NUL could not be seen anyway.
pub(crate) fn to_c(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of the last failure in this thread; empty before the first. It stays until the next failure.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |text| text.as_ptr())).unwrap_or(c"".as_ptr())
}

fn keep_text(text: CString) {
    // In a thread that ends there is nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(text));
}

/// The border: runs what a call from C does, turns its result into a number, and lets no panic pass.
pub(crate) fn border(work: impl FnOnce() -> Result<SurefootStatus, Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => return status as c_int,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Failure::Internal(text.unwrap_or_else(|| "a panic without words".into()))
        }
    };
    keep_text(failure.text());
    failure.status() as c_int
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::CStr;
    use std::path::PathBuf;

    fn last() -> String {
        // SAFETY: nothing fails in this thread before the text is copied.
        unsafe { CStr::from_ptr(last_text()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn every_error_has_its_own_number_and_its_text() {
        let path = PathBuf::from("/a");
        let errors = [
            (Error::Option { option: "memory", why: "why".into() }, -2),
            (Error::Setting { place: "/etc/file, line 3".into(), why: "why".into() }, -2),
            (Error::storage("open", &path)(std::io::Error::from_raw_os_error(5)), -3),
            (Error::Damaged { path: path.clone(), why: "why".into() }, -4),
            (Error::Group { why: "why".into() }, -5),
            (Error::OtherRank { rank: 1, why: "why".into() }, -6),
            (Error::NothingIntact { why: "why".into() }, -7),
            (Error::NoRoom { path: path.clone(), needed_bytes: 2, available_bytes: 1 }, -8),
            (Error::NoSlot { path, why: "why".into() }, -8),
            (Error::NoTier { age_s: 3.0, why: "why".into() }, -8),
        ];
        for (error, number) in errors {
            let text = error.to_string();
            assert_eq!(border(|| Err(error.into())), number);
            assert_eq!(last(), text);
        }
        assert_eq!(border(|| Err(Failure::argument("NUL\0here"))), -1);
        assert_eq!(last(), "NUL");
    }

    #[test]
    fn a_panic_is_a_number_and_a_text() {
        assert_eq!(border(|| panic!("row {}", 3)), SurefootStatus::Internal as c_int);
        assert!(last().ends_with("row 3"), "{}", last());
        assert_eq!(border(|| panic!("plain")), -10);
        assert!(last().ends_with("plain"));
        assert_eq!(border(|| Ok(SurefootStatus::Nothing)), 1);
        assert!(last().ends_with("plain"), "success leaves the text alone");
    }
}
