//! The list of functions that a compiler at run time writes (perf's map: start and size in hexadecimal, and a name). It is
//! read from its beginning for every question and nothing of it is kept, because it grows while its program runs.

use super::wire::{Fault, NAME_BYTES_MAX, Name, Names};
use std::fs::File;
use std::os::unix::fs::FileExt;

const PIECE_BYTES: usize = 64 << 10;

/// The longest line that is looked at.
const LINE_BYTES_MAX: usize = 4 << 10;

/// The functions at these addresses. What was written last counts: code is moved and its place used again.
pub(super) fn names(file: &File, bytes: u64, addresses: &[u64]) -> Result<Names, Fault> {
    let mut found: Vec<Option<String>> = vec![None; addresses.len()];
    let mut piece = vec![0; PIECE_BYTES];
    let mut line: Vec<u8> = Vec::new();
    let mut at = 0;
    while at < bytes {
        let want = usize::try_from(bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        // It may have become shorter meanwhile.
        let read = file.read_at(&mut piece[..want], at).map_err(|_| Fault::Unreadable)?;
        if read == 0 {
            break;
        }
        at += read as u64;
        let mut rest = &piece[..read];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if line.is_empty() {
                note(&rest[..end], addresses, &mut found);
            } else {
                append(&mut line, &rest[..end]);
                note(&line, addresses, &mut found);
                line.clear();
            }
            rest = &rest[end + 1..];
        }
        append(&mut line, rest);
    }
    let name = |text: Option<String>| text.map(|text| Name { text, is_inlined: false }).into_iter().collect();
    Ok(found.into_iter().map(name).collect())
}

fn append(line: &mut Vec<u8>, part: &[u8]) {
    let room = LINE_BYTES_MAX.saturating_sub(line.len());
    line.extend_from_slice(&part[..part.len().min(room)]);
}

fn note(line: &[u8], addresses: &[u64], found: &mut [Option<String>]) {
    let Some((start, rest)) = number(line) else { return };
    let Some((size, name)) = number(rest) else { return };
    for (address, found) in addresses.iter().zip(found) {
        if address.wrapping_sub(start) < size {
            *found = Some(String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned());
        }
    }
}

/// A hexadecimal number, and what follows the blank after it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|&byte| byte == b' ')?;
    let digits = text[..end].strip_prefix(b"0x").unwrap_or(&text[..end]);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut value = 0u64;
    for &digit in digits {
        value = value << 4 | u64::from(char::from(digit).to_digit(16)?);
    }
    Some((value, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    fn named(text: &[u8], addresses: &[u64]) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let names = names(&file, text.len() as u64 + 100, addresses).unwrap();
        names.into_iter().map(|names| names.into_iter().map(|name| name.text).collect()).collect()
    }

    #[test]
    fn the_newest_function_at_an_address_is_named() {
        let text = b"1000 10 old\n0x1000 20 LazyCompile:*run app.js:1\nnonsense\n2000 zz no\n3000 8 three\n1 1";
        assert_eq!(
            named(text, &[0x1008, 0x101f, 0x1020, 0x3000, 0x2000]),
            ["LazyCompile:*run app.js:1", "LazyCompile:*run app.js:1", "", "three", ""]
        );
        assert_eq!(named(b"", &[1]), [""]);
    }

    #[test]
    fn lines_over_the_bounds_of_a_piece_are_whole_and_long_ones_are_cut() {
        let mut text = Vec::new();
        for number in 0..20_000 {
            text.extend(format!("{:x} 10 function_{number}\n", number * 16).bytes());
        }
        text.extend(b"f0000000 1 ");
        text.extend([b'x'; 100_000]);
        text.extend(b"\nf0000010 1 last\n");
        let addresses: Vec<u64> = (0..128).map(|number| number * 100 * 16).collect();
        let names = named(&text, &addresses);
        assert!(names.iter().enumerate().all(|(at, name)| *name == format!("function_{}", at * 100)), "{names:?}");
        assert_eq!(named(&text, &[0xf000_0000])[0].len(), NAME_BYTES_MAX);
        assert_eq!(named(&text, &[0xf000_0010]), ["last"]);
    }
}
