//! Keys from the bytes that a terminal sends.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A letter, digit or sign.
    Char(char),
    /// Enter.
    Enter,
    /// Backspace.
    Backspace,
    /// Escape.
    Escape,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Ctrl-C, where the terminal makes no signal of it.
    Interrupt,
    /// Ctrl-L: draw everything again.
    Redraw,
    /// Ctrl-U: begin the line again.
    Clear,
}

/// Bytes of one key that are waited for; what is longer is no key.
const BYTES_MAX: usize = 32;

/// Takes bytes in and gives keys out. A sequence that means nothing here is left out.
#[derive(Debug, Default)]
pub struct Keys {
    /// The beginning of a key whose end comes with the next bytes.
    begun: Vec<u8>,
}

impl Keys {
    /// The keys that are complete with these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = all.as_slice();
        while let Some((&first, after)) = rest.split_first() {
            let used = match first {
                0x1b => match sequence(after) {
                    Sequence::Key(key, used) => {
                        keys.extend(key);
                        used + 1
                    }
                    Sequence::Begun if rest.len() <= BYTES_MAX => {
                        self.begun = rest.to_vec();
                        return keys;
                    }
                    Sequence::Begun => 1,
                },
                ..0x20 | 0x7f => {
                    keys.extend(control(first));
                    1
                }
                _ => match letter(rest) {
                    Some((letter, used)) => {
                        keys.extend(letter.map(Key::Char));
                        used
                    }
                    None => {
                        self.begun = rest.to_vec();
                        return keys;
                    }
                },
            };
            rest = rest.get(used..).unwrap_or_default();
        }
        keys
    }

    /// Whether a key has begun whose end has not come.
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Nothing more came for a while: an escape by itself is the key.
    pub fn give_up(&mut self) -> Option<Key> {
        let begun = std::mem::take(&mut self.begun);
        (begun == [0x1b]).then_some(Key::Escape)
    }
}

enum Sequence {
    /// A key, or nothing that means anything here, and its bytes after the escape.
    Key(Option<Key>, usize),
    Begun,
}

/// What follows an escape.
fn sequence(after: &[u8]) -> Sequence {
    match after {
        [] => Sequence::Begun,
        [b'[', rest @ ..] => {
            // Parameters, then the letter that ends it.
            let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                let is_sequence = rest.iter().all(|byte| (0x20..=0x3f).contains(byte));
                return if is_sequence { Sequence::Begun } else { Sequence::Key(None, 1) };
            };
            // Function keys of the Linux console are two letters.
            if (end, rest[end]) == (0, b'[') {
                return if rest.len() > 1 { Sequence::Key(None, 3) } else { Sequence::Begun };
            }
            Sequence::Key(of_csi(&rest[..end], rest[end]), end + 2)
        }
        [b'O'] => Sequence::Begun,
        [b'O', last, ..] => Sequence::Key(of_csi(&[], *last), 2),
        // An escape, and another key after it.
        _ => Sequence::Key(Some(Key::Escape), 0),
    }
}

fn of_csi(parameters: &[u8], last: u8) -> Option<Key> {
    let first = parameters.split(|&byte| byte == b';').next().unwrap_or_default();
    Some(match (last, first) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'Z', _) => Key::BackTab,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        // Enter of the number pad.
        (b'M', b"") => Key::Enter,
        _ => return None,
    })
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x03 => Key::Interrupt,
        0x0c => Key::Redraw,
        0x15 => Key::Clear,
        // As in `less` and `vi`: Ctrl-F, Ctrl-B, Ctrl-D.
        0x06 | 0x04 => Key::PageDown,
        0x02 => Key::PageUp,
        _ => return None,
    })
}

/// The letter at the beginning, if it is one, and its bytes; `None` where the rest of it is still to come.
fn letter(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let all = bytes.get(..length)?;
    match std::str::from_utf8(all) {
        Ok(text) => Some((text.chars().next(), length)),
        Err(_) => Some((None, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_terminals_are_known_however_their_bytes_arrive() {
        let sent = b"a\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[Z\t\r\x7f\x1b[1;5C\x1b[[Aq\x1b[15~\xc3\xa4\x1b[200~/\x03";
        let wanted = [
            Key::Char('a'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::BackTab,
            Key::Tab,
            Key::Enter,
            Key::Backspace,
            Key::Right,
            Key::Char('q'),
            Key::Char('ä'),
            Key::Char('/'),
            Key::Interrupt,
        ];
        for at in 0..=sent.len() {
            let mut keys = Keys::default();
            let mut found = keys.take(&sent[..at]);
            found.extend(keys.take(&sent[at..]));
            assert_eq!(found, wanted, "cut at {at}");
            assert!(!keys.has_begun());
        }
    }

    #[test]
    fn an_escape_by_itself_is_one_once_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!((keys.take(b"\x1b"), keys.has_begun(), keys.give_up()), (vec![], true, Some(Key::Escape)));
        assert_eq!(keys.take(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        // An endless sequence is no key, and keeps nothing.
        keys.take(&[b"\x1b[".as_slice(), &[b'1'; 1000]].concat());
        assert!(!keys.has_begun());
    }
}
