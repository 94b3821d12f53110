//! The one way of text to people. Names of programs, threads, symbols, hosts and jobs are what strangers called them: whatever
//! of them would command a terminal, or turn the direction of writing, becomes `?` here, wherever it came from.

use std::io::{self, Stderr, StdoutLock, Write};
use std::path::Path;
use surefoot_model::is_harmful;
pub use surefoot_model::one_line;
use surefoot_sys::stdout::{expect_writable, remember};

/// Standard output. What it does not take is remembered: the command fails at its end also where the writer went on.
pub fn stdout() -> Clean<Out> {
    Clean::new(Out(io::stdout().lock()))
}

/// Standard output, unless it is closed.
pub struct Out(StdoutLock<'static>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        remember(expect_writable().and_then(|()| self.0.write(bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        remember(self.0.flush())
    }
}

/// Standard error.
pub fn stderr() -> Clean<Stderr> {
    Clean::new(io::stderr())
}

/// Writes one line to standard error. A closed standard error is no error of the command.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let words = $crate::exit::without_number(&format!($($words)*));
        let _ = writeln!($crate::people::stderr(), "{}", $crate::people::one_line(&words));
    }};
}
pub use crate::tell;

/// Text of several lines as a terminal may show it.
pub fn clean(text: &str) -> String {
    let is_kept = |letter: char| matches!(letter, '\n' | '\t') || !is_harmful(letter);
    text.chars().map(|letter| if is_kept(letter) { letter } else { '?' }).collect()
}

/// A path as it may stand in a line.
pub fn path(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// JSON whose strings a terminal may show. What a reader takes from it stays the same: outside of strings there is nothing
/// to escape, and within them an escape is the letter.
pub fn escaped(text: String) -> String {
    if !text.chars().any(is_harmful) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        if is_harmful(letter) {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}"));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// A writer through which only harmless text goes.
pub struct Clean<W: Write> {
    out: W,
    /// The beginning of a letter whose end comes with the next bytes.
    begun: Vec<u8>,
}

impl<W: Write> Clean<W> {
    /// A writer on top of `out`.
    pub fn new(out: W) -> Self {
        Clean { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut text = String::with_capacity(all.len());
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    break;
                }
                Err(error) => {
                    let (whole, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(whole).unwrap_or_default());
                    let Some(bad) = error.error_len() else {
                        self.begun = after.to_vec();
                        break;
                    };
                    // A byte of no letter may be a command to a terminal that takes bytes one by one.
                    text.push('?');
                    rest = &after[bad..];
                }
            }
        }
        self.out.write_all(clean(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        let mut out = Clean::new(&mut bytes);
        pieces.iter().for_each(|piece| out.write_all(piece).unwrap());
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn nothing_that_commands_a_terminal_goes_through() {
        let hostile = "a\u{1b}]0;x\u{7}b\u{9b}2Jc\u{202e}d\u{2028}e\u{85}f\rg\u{61c}h";
        assert_eq!(written(&[hostile.as_bytes()]), "a?]0;x?b?2Jc?d?e?f?g?h");
        assert_eq!(written(&[b"\x9b2J\xffok"]), "?2J?ok", "bytes that are no text");
        assert_eq!(written(&["zwölf\tµs\n".as_bytes()]), "zwölf\tµs\n");
    }

    #[test]
    fn it_does_not_matter_where_a_text_is_cut() {
        let text = "µ\u{9b}→\u{e0041}\u{1b}x".as_bytes();
        for at in 0..=text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(written(&[left, right]), "µ?→??x", "cut at {at}");
        }
    }
}
