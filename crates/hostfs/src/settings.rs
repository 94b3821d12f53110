//! Small files that hold one setting each: a number, a word, a list or a mask of cores.

use crate::cpus::{LARGEST_CPU, parse_list};
use crate::error::shorten;
use crate::{Error, Root};
use std::fmt::Write;
use std::path::Path;
use surefoot_model::{CpuId, Digits};

/// The most entries that are read of a folder of interrupt lines or idle states.
pub(crate) const MOST_ENTRIES: usize = 65_536;

/// No setting is longer; a list of 65,536 cores that alternate has 400 KiB.
pub(crate) const TEXT_LIMIT_BYTES: u64 = 1 << 20;

/// Reads a mask as the kernel writes it: words of eight hexadecimal digits, the highest cores first.
///
/// # Errors
/// The reason, when it is no such mask or names a core above [`LARGEST_CPU`].
pub fn parse_mask(text: &str) -> Result<Vec<CpuId>, String> {
    let words: Vec<&str> = text.trim().split(',').collect();
    let mut cpus = Vec::new();
    for (place, word) in words.iter().rev().enumerate() {
        let digits = word.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let one_word = words.len() == 1;
        // A mask for irqbalance may be one long number without commas.
        if digits.is_empty() || (!one_word && digits.len() > 8) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(format!("'{}' is not a mask of cores", shorten(text.trim())));
        }
        for (nibble, digit) in digits.bytes().rev().enumerate() {
            let value = char::from(digit).to_digit(16).unwrap_or(0);
            for bit in (0..4).filter(|bit| value >> bit & 1 == 1) {
                let cpu = place as u64 * 32 + nibble as u64 * 4 + bit;
                match u32::try_from(cpu) {
                    Ok(cpu) if cpu <= LARGEST_CPU => cpus.push(CpuId(cpu)),
                    _ => return Err(format!("{cpu} is above the largest core number, {LARGEST_CPU}")),
                }
            }
        }
    }
    Ok(cpus)
}

/// Writes cores as a mask that the kernel reads: `e` for cores 1 to 3, words of 32 cores with commas between.
pub fn format_mask(cpus: &[CpuId]) -> String {
    let words = cpus.iter().map(|cpu| cpu.0.min(LARGEST_CPU) as usize / 32).max().unwrap_or(0) + 1;
    let mut bits = vec![0u32; words];
    for cpu in cpus.iter().filter(|cpu| cpu.0 <= LARGEST_CPU) {
        bits[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32);
    }
    let mut text = String::new();
    for (place, word) in bits.iter().rev().enumerate() {
        // Writing to a String cannot fail.
        let _ = if place == 0 { write!(text, "{word:x}") } else { write!(text, ",{word:08x}") };
    }
    text
}

/// The cores of a file that holds a mask.
///
/// # Errors
/// When the file cannot be read or is no mask.
pub fn mask_file(root: &Root, path: &Path) -> Result<Vec<CpuId>, Error> {
    parse_mask(&root.read_up_to(path, TEXT_LIMIT_BYTES)?).map_err(|reason| Error::malformed(path, 1, reason))
}

/// The cores of a file that holds a list such as `0-3,8`; an empty file names none.
///
/// # Errors
/// When the file cannot be read or is no list.
pub fn list_file(root: &Root, path: &Path) -> Result<Vec<CpuId>, Error> {
    match root.read_up_to(path, TEXT_LIMIT_BYTES)?.trim() {
        "" | "(null)" => Ok(Vec::new()),
        list => parse_list(list).map_err(|error| Error::malformed(path, 1, error.to_string())),
    }
}

/// The whole number that a file of settings holds.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn number_file(root: &Root, path: &Path) -> Result<i64, Error> {
    let text = root.read_up_to(path, TEXT_LIMIT_BYTES)?;
    let text = text.trim();
    text.signed_digits().ok_or_else(|| Error::malformed(path, 1, format!("'{}' is not a whole number", shorten(text))))
}

/// The first line of a file of settings, without control characters.
///
/// # Errors
/// When the file cannot be read.
pub fn word_file(root: &Root, path: &Path) -> Result<String, Error> {
    Ok(shorten(root.read_up_to(path, TEXT_LIMIT_BYTES)?.lines().next().unwrap_or("").trim()))
}

/// The numbers of the entries `<prefix><number>` of a folder, of its first 65,536 entries.
///
/// # Errors
/// When the folder cannot be listed.
pub fn numbered(folder: &Path, prefix: &str) -> Result<Vec<u32>, Error> {
    let entries = std::fs::read_dir(folder).map_err(|source| Error::Read { path: folder.to_path_buf(), source })?;
    let numbers = entries
        .flatten()
        .take(MOST_ENTRIES)
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.digits());
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids(cpus: &[u32]) -> Vec<CpuId> {
        cpus.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn masks_are_read_and_written() {
        for (text, cpus, written) in [
            ("f\n", ids(&[0, 1, 2, 3]), "f"),
            ("0", ids(&[]), "0"),
            ("00000001,80000000", ids(&[31, 32]), "1,80000000"),
            ("0x3e", ids(&[1, 2, 3, 4, 5]), "3e"),
            ("100000000", ids(&[32]), "1,00000000"),
        ] {
            assert_eq!(parse_mask(text).unwrap(), cpus, "{text}");
            assert_eq!(format_mask(&cpus), written);
        }
        for text in ["", "xyz", "1,,2", "123456789,00000000", "-1", "1,f\u{1b}"] {
            assert!(parse_mask(text).is_err(), "{text}");
        }
        assert!(parse_mask(&"f".repeat(20_000)).unwrap_err().contains("above the largest core"));
    }
}
