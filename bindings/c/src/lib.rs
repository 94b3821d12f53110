//! Surefoot for programs in C, C++ and Fortran: the checkpoints of `surefoot-checkpoint` behind opaque handles and
//! integer status codes.
//!
//! The header `surefoot_checkpoint.h` is made from these sources by `cargo xtask header`; MPI is above this library, in
//! `surefoot_checkpoint_mpi.h`, so that no MPI's binary interface gets in here.
//!
//! # Invariants
//! - A handle is a number that was given out once and is never given out again, not an address: one that was closed, or
//!   never was one, is an error and no crash. The same for a handle that two threads use at once.
//! - No panic crosses into C: it becomes [`SurefootStatus::Internal`].
//! - Every failure leaves a sentence for `surefoot_error_text`.
//!
//! ```
//! use std::ffi::CStr;
//! // SAFETY: the text ends in a NUL, and the answer is read before the next call.
//! unsafe {
//!     assert!(surefoot::surefoot_config_new(c"no such name!".as_ptr()).is_null());
//!     let why = CStr::from_ptr(surefoot::surefoot_error_text(std::ptr::null_mut()));
//!     assert!(why.to_bytes().starts_with(b"job: "));
//! }
//! ```

mod checkpoint;
mod config;
mod group;
mod handle;
mod resized;
mod status;
mod version;

pub use checkpoint::*;
pub use config::*;
pub use group::{SurefootGroup, surefoot_group_failed};
pub use resized::*;
pub use status::SurefootStatus;
pub use version::surefoot_version;
