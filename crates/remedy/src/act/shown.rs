//! What programs said, as an outcome may show it.

use surefoot_model::one_line;

/// The longest text of a program that becomes part of an outcome.
const SHOWN_CHARACTERS_MAX: usize = 400;

/// The last line with letters, on one line and cut; programs say the reason of a failure last.
pub fn last_words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    cut(line)
}

/// Text of a stranger on one line, cut.
pub fn cut(text: &str) -> String {
    let mut shown: String = one_line(text).chars().take(SHOWN_CHARACTERS_MAX).collect();
    if text.chars().count() > SHOWN_CHARACTERS_MAX {
        shown.push_str(" ...");
    }
    shown
}

/// At most so many bytes of a text, and no half letter.
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=text.len().min(bytes_max)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A text with a remark behind it, where there is one.
pub fn remarked(text: &str, remark: &str) -> String {
    if remark.is_empty() { text.to_owned() } else { format!("{text}; {remark}") }
}
