//! Which library this is.

use std::ffi::{CStr, c_char};

/// The version of the workspace, as C knows it.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL in it"),
};

/// The version of the library that runs, such as "0.1.0"; SUREFOOT_VERSION is that of the header. Libraries whose
/// versions differ only in the last number have the same interface, and one SONAME.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_version() -> *const c_char {
    VERSION.as_ptr()
}
