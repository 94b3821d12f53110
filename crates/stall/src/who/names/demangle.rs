//! Names as they were written, from those that compilers make of them. A name may be made so that it doubles with every few
//! characters, so writing ends where enough is there.

use super::wire::NAME_BYTES_MAX;
use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::fmt::{self, Write};

/// Nested parts of a name of C++. What may be one thing or another is read twice, and what is in it twice again: the fuzzer found
/// 118 bytes that take four seconds at the library's own limit of 96. Of 30,000 names of libclang and libLLVM 7 are deeper than
/// this, and shown as they are.
const DEPTH_MAX: u32 = 56;

/// Bytes of a name that are looked at.
const MANGLED_BYTES_MAX: usize = 8 << 10;

/// Takes as much text as a name may have, and refuses more.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // Parts that write nothing cost time, too.
        for character in part.chars() {
            if self.text.len() + character.len_utf8() > NAME_BYTES_MAX - '…'.len_utf8() {
                self.is_full = true;
                return Err(fmt::Error);
            }
            self.text.push(character);
        }
        Ok(())
    }
}

/// The name as it was written; as it is, where no compiler is known that makes such names.
pub(super) fn demangled(name: &[u8]) -> String {
    let name = &name[..name.len().min(MANGLED_BYTES_MAX)];
    let as_it_is = String::from_utf8_lossy(name);
    let mut written = Bounded::default();
    if let Ok(rust) = rustc_demangle::try_demangle(&as_it_is) {
        let _ = write!(written, "{rust:#}");
    } else if name.starts_with(b"_Z")
        && let Ok(symbol) = Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(DEPTH_MAX))
    {
        let options = DemangleOptions::new().recursion_limit(DEPTH_MAX);
        // A name that cannot be written to its end is shown as far as it goes.
        if symbol.structured_demangle(&mut written, &options).is_err() && !written.is_full {
            written = Bounded::default();
        }
    }
    if written.text.is_empty() {
        let _ = written.write_str(&as_it_is);
    }
    if written.is_full {
        written.text.push('…');
    }
    written.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_they_were_written() {
        assert_eq!(
            demangled(b"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE"),
            "core::fmt::Formatter::write_str"
        );
        assert_eq!(
            demangled(b"_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(demangled(b"munmap"), "munmap");
        assert_eq!(demangled(b"_Znonsense"), "_Znonsense");
        assert_eq!(demangled(b"a\xff"), "a\u{fffd}");
    }

    /// Each template argument repeats all that stood before it: 2^n parts from some n characters.
    #[test]
    fn a_name_that_doubles_is_cut() {
        // A pair of ints, a pair of two of these, and so on: S_ is the template, S0_ the first pair.
        let mut name = "_Z1f4pairIiiE".to_owned();
        for level in 0..27u32 {
            let last = char::from_digit(level, 36).map_or('0', |digit| digit.to_ascii_uppercase());
            name += &format!("S_IS{last}_S{last}_E");
        }
        let start = std::time::Instant::now();
        let shown = demangled(name.as_bytes());
        assert!(shown.starts_with("f(pair<int, int>, pair<pair<int, int>, ") && shown.ends_with('…'), "{shown}");
        assert!(shown.len() <= NAME_BYTES_MAX, "{}", shown.len());
        assert!(start.elapsed().as_secs() < 60);
        let long = format!("_ZN{}E", "300".to_owned() + &"x".repeat(300) + "300" + &"y".repeat(300));
        let shown = demangled(long.as_bytes());
        assert!(shown.starts_with("xxx") && shown.ends_with("y…") && shown.len() <= NAME_BYTES_MAX, "{shown}");
    }
}
