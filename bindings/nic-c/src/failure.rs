//! Why a call failed: a number, and a sentence.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use surefoot_nic::host::port::RequestError;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    Argument(String),
    NoToken(String),
    Open(String),
    Internal(String),
    Ended(String),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Failure {
        match error {
            RequestError::NoToken(count) => {
                Failure::NoToken(format!("all {count} tokens are in use: surefoot_nic_receive brings them back"))
            }
            other => Failure::Argument(other.to_string()),
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of the last failure of this thread; empty before the first.
pub fn last_text() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |text| text.as_ptr())).unwrap_or(c"".as_ptr())
}

/// Runs what a call from C does, and lets no panic pass.
pub fn border(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => return number,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Internal("a fault of this library; please report it".to_owned()),
    };
    let (number, text) = match failure {
        Failure::Argument(text) => (-1, text),
        Failure::NoToken(text) => (-2, text),
        Failure::Open(text) => (-3, text),
        Failure::Internal(text) => (-4, text),
        Failure::Ended(text) => (-5, text),
    };
    // The kernel's number says nothing that its words do not.
    let text = match text.rsplit_once(" (os error ") {
        Some((words, _)) if text.ends_with(')') => words.to_owned(),
        _ => text,
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // In a thread that ends there is nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(text));
    number
}
