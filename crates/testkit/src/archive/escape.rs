//! Bytes as text and back.

use std::fmt::Write;

/// The bytes as text without line ends; blanks and tabs are escaped, too, if the text must be one word.
pub(super) fn escape(bytes: &[u8], is_word: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                ' ' | '\t' if !is_word => text.push(letter),
                _ if letter.is_control() || letter == ' ' => hex(letter.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
                _ => text.push(letter),
            }
        }
        hex(chunk.invalid(), &mut text);
    }
    text
}

fn hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// The bytes that a text stands for.
pub(super) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    if let Some(letter) = text.chars().find(|letter| letter.is_control() && *letter != '\t') {
        return Err(format!("a bare control character; write {}", escape(letter.to_string().as_bytes(), true)));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                after
            }
            (b'\\', _) => return Err("a backslash that begins neither \\xNN nor \\\\".into()),
            _ => {
                bytes.push(first);
                after
            }
        };
    }
    Ok(bytes)
}

fn digit(letter: u8) -> Result<u8, String> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        _ => Err(format!("'{}' is not a lower-case hexadecimal digit", letter.escape_ascii())),
    }
}
