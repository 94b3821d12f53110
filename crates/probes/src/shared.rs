//! The numbers, sizes and offsets of the programs' headers, as the build took them from there (`build/numbers.rs`), and
//! the check that holds a Rust struct to them.
#![allow(dead_code, non_upper_case_globals, reason = "the programs' names, all of them, as C writes them")]

/// Where a field of a struct lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Its offset, bytes.
    pub(crate) at: usize,
    /// Its size, bytes.
    pub(crate) bytes: usize,
}

impl Field {
    /// The bytes of the field in those of its struct.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..self.at + self.bytes]
    }
}

include!(concat!(env!("OUT_DIR"), "/shared.rs"));

/// The size of a field; `field` only tells its type.
pub(crate) const fn bytes_of<S, T>(_field: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

/// Does not compile unless the struct of this name in the headers has these fields and no others, each with the offset
/// and the size that it has in Rust.
macro_rules! same_layout {
    ($rust:ty, $c:ident: $($field:ident),+ $(,)?) => {
        const _: () = {
            use crate::shared::{bytes_of, $c};
            const NAMES: &[&str] = &[$(stringify!($field)),+];
            assert!(NAMES.len() == $c::FIELDS, concat!("struct ", stringify!($c), " has other fields in C"));
            $(assert!(
                std::mem::offset_of!($rust, $field) == $c::$field.at
                    && bytes_of(|of: &$rust| &of.$field) == $c::$field.bytes,
                concat!("struct ", stringify!($c), " has '", stringify!($field), "' elsewhere, or of another size, in C")
            );)+
            assert!(size_of::<$rust>() == $c::BYTES, concat!("struct ", stringify!($c), " has another size in C"));
        };
    };
}
pub(crate) use same_layout;

/// A number that is known to fit into 32 bits.
pub(crate) const fn narrow(number: usize) -> u32 {
    assert!(number <= u32::MAX as usize);
    number as u32
}
