//! The C header beside this library says the same, or this does not compile.

use crate::directory::DIRECTORY_DEFAULT;
use crate::layout::{CAPACITY_DEFAULT, Gap, Header, NAME_BYTES_MAX, VERSION};
use std::mem::offset_of;

/// The header's numbers, and of each field its offset and size; `build.rs` reads them.
#[allow(non_upper_case_globals, reason = "the names of C")]
mod c {
    include!(concat!(env!("OUT_DIR"), "/c_header.rs"));
}

/// The size of a field; the function only tells its type.
const fn bytes_of<S, T>(_field: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

macro_rules! same_layout {
    ($rust:ty, $c:ident: $($field:ident),+ $(,)?) => {
        const _: () = {
            const NAMES: &[&str] = &[$(stringify!($field)),+];
            assert!(NAMES.len() == c::$c::FIELDS, concat!("struct ", stringify!($c), " has other fields in C"));
            $(assert!(
                offset_of!($rust, $field) == c::$c::$field.0 && bytes_of(|of: &$rust| &of.$field) == c::$c::$field.1,
                concat!("struct ", stringify!($c), " has '", stringify!($field), "' elsewhere, or of another size, in C")
            );)+
            assert!(size_of::<$rust>() == c::$c::BYTES, concat!("struct ", stringify!($c), " has another size in C"));
        };
    };
}

same_layout!(
    Header,
    sf_loop_header: magic, version, capacity, pid, tid, thread_start, threshold_ticks, name, pid_namespace, reserved, head,
    head_line
);
same_layout!(Gap, sf_loop_gap: before, after);

const _: () = {
    assert!(c::SF_LOOP_VERSION == VERSION as u64, "C writes another version");
    assert!(c::SF_LOOP_CAPACITY == CAPACITY_DEFAULT as u64, "C has a ring of another length");
    assert!(c::SF_LOOP_NAME_BYTES == NAME_BYTES_MAX as u64 + 1, "C has longer or shorter names");
    let (c, rust) = (c::SF_LOOP_DIRECTORY.as_bytes(), DIRECTORY_DEFAULT.as_bytes());
    assert!(c.len() == rust.len(), "C has another directory");
    let mut at = 0;
    while at < rust.len() {
        assert!(c[at] == rust[at], "C has another directory");
        at += 1;
    }
};
