//! Sets of cores as the kernel writes them: `0-3,8`.

use crate::error::shorten;
use crate::{Error, Root};
use std::fmt::Write;
use std::path::PathBuf;
use surefoot_model::{CpuId, Digits};

/// The largest core number that is believed. Linux builds stop at 8,192 cores; the room above is for those to come.
pub const LARGEST_CPU: u32 = 65_535;

/// The cores that run now.
///
/// # Errors
/// When /sys/devices/system/cpu/online is missing or malformed.
pub fn online(root: &Root) -> Result<Vec<CpuId>, Error> {
    let path = set_path(root, "online");
    parse_file(&root.read_again(&path)?).map_err(|reason| Error::malformed(path, 1, reason))
}

/// The cores that could ever run, so that arrays indexed by core can be sized once.
///
/// # Errors
/// When /sys/devices/system/cpu/possible is missing or malformed.
pub fn possible(root: &Root) -> Result<Vec<CpuId>, Error> {
    let path = set_path(root, "possible");
    parse_file(&root.read(&path)?).map_err(|reason| Error::malformed(path, 1, reason))
}

/// The cores taken from the scheduler by `isolcpus=` or an isolated cpuset partition; empty when there are none.
///
/// # Errors
/// When /sys/devices/system/cpu/isolated is unreadable or malformed; its absence means none.
pub fn isolated(root: &Root) -> Result<Vec<CpuId>, Error> {
    optional(root, "isolated")
}

/// The cores without a scheduling tick while one task runs (`nohz_full=`); empty when there are none.
///
/// # Errors
/// When /sys/devices/system/cpu/nohz_full is unreadable or malformed; its absence means none.
pub fn nohz_full(root: &Root) -> Result<Vec<CpuId>, Error> {
    optional(root, "nohz_full")
}

fn set_path(root: &Root, set: &str) -> PathBuf {
    root.sys("devices/system/cpu").join(set)
}

fn optional(root: &Root, set: &str) -> Result<Vec<CpuId>, Error> {
    let path = set_path(root, set);
    match root.read_if_present(&path)? {
        None => Ok(Vec::new()),
        Some(text) => parse_file(&text).map_err(|reason| Error::malformed(path, 1, reason)),
    }
}

/// The kernel's own lists may be empty, and print `(null)` for a mask that was never set up.
fn parse_file(text: &str) -> Result<Vec<CpuId>, String> {
    match text.trim() {
        "" | "(null)" => Ok(Vec::new()),
        list => parse(list),
    }
}

/// Reads a list such as `0-3,8`. The answer is ascending and names each core once.
///
/// # Errors
/// [`Error::CpuList`] for an empty list, anything but numbers and ranges, a range that runs backwards, and numbers
/// above [`LARGEST_CPU`].
pub fn parse_list(list: &str) -> Result<Vec<CpuId>, Error> {
    let trimmed = list.trim();
    let parsed = if trimmed.is_empty() { Err("it names no core".to_owned()) } else { parse(trimmed) };
    parsed.map_err(|reason| Error::CpuList { list: shorten(list), reason })
}

fn parse(list: &str) -> Result<Vec<CpuId>, String> {
    // A set of flags bounds the memory however often a list repeats itself.
    let mut named = vec![false; LARGEST_CPU as usize + 1];
    let mut upper = 0;
    for item in list.split(',') {
        let item = item.trim();
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (number(first, item)?, number(last, item)?),
            None => (number(item, item)?, number(item, item)?),
        };
        if first > last {
            return Err(format!("'{}' runs backwards", shorten(item)));
        }
        named[first as usize..=last as usize].fill(true);
        upper = upper.max(last);
    }
    Ok((0..=upper).filter(|&cpu| named[cpu as usize]).map(CpuId).collect())
}

fn number(text: &str, item: &str) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let item = shorten(item);
        return Err(if item.is_empty() {
            "there is nothing between two commas".to_owned()
        } else {
            format!("'{item}' is neither a number nor a range such as 2-5")
        });
    }
    match text.digits() {
        Some(cpu) if cpu <= LARGEST_CPU => Ok(cpu),
        _ => Err(format!("{} is above the largest core number, {LARGEST_CPU}", shorten(text))),
    }
}

/// Reads a list of cores of a boot option such as `nohz_full=`, in the kernel's grammar for these (`bitmap_parselist`): numbers,
/// ranges, `N` for the last possible core, `all` for every possible core, and behind a range or `all` `:2/4` for the first two of
/// every four. `possible` are the cores that there can be; a list that names others is refused as a whole by the kernel.
///
/// # Errors
/// [`Error::CpuList`] for an empty list, a core that is not possible, and what the kernel does not read.
pub fn parse_boot_list(list: &str, possible: &[CpuId]) -> Result<Vec<CpuId>, Error> {
    let wrong = |reason: String| Error::CpuList { list: shorten(list), reason };
    let last = possible.iter().map(|cpu| cpu.0).max().filter(|&last| last <= LARGEST_CPU);
    let last = last.ok_or_else(|| wrong("the last possible core of this host is unknown".to_owned()))?;
    let mut named = vec![false; last as usize + 1];
    let items = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty());
    for item in items {
        let (cores, stride) = match item.split_once(':') {
            Some((cores, stride)) => (cores, Some(stride)),
            None => (item, None),
        };
        let end = |text: &str| match text {
            "N" => Ok(last),
            digits => number(digits, item).and_then(|cpu| {
                let above = || format!("core {cpu} is not possible here, where the last one is {last}");
                (cpu <= last).then_some(cpu).ok_or_else(above)
            }),
        };
        let (first, last, is_range) = match cores.split_once('-') {
            _ if cores.eq_ignore_ascii_case("all") => (0, last, true),
            Some((first, last)) => (end(first).map_err(wrong)?, end(last).map_err(wrong)?, true),
            None => (end(cores).map_err(wrong)?, end(cores).map_err(wrong)?, false),
        };
        let (used, of) = match stride {
            None => (1, 1),
            Some(stride) => is_range
                .then(|| stride.split_once('/'))
                .flatten()
                .and_then(|(used, of)| Some((number(used, item).ok()?, number(of, item).ok()?)))
                .filter(|&(used, of)| used > 0 && used <= of)
                .ok_or_else(|| wrong(format!("'{}' is not a range with groups such as 0-15:2/4", shorten(item))))?,
        };
        if first > last {
            return Err(wrong(format!("'{}' runs backwards", shorten(item))));
        }
        (first..=last).filter(|cpu| (cpu - first) % of < used).for_each(|cpu| named[cpu as usize] = true);
    }
    let cores: Vec<CpuId> = (0..=last).filter(|&cpu| named[cpu as usize]).map(CpuId).collect();
    if cores.is_empty() { Err(wrong("it names no core".to_owned())) } else { Ok(cores) }
}

/// Writes cores as the kernel does; unsorted and repeated cores are allowed.
pub fn format_list(cpus: &[CpuId]) -> String {
    let mut sorted: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut list = String::new();
    let mut rest = sorted.as_slice();
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..=u32::MAX).take_while(|(cpu, expected)| *cpu == expected).count();
        let last = rest[run - 1];
        let comma = if list.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = if first == last { write!(list, "{comma}{first}") } else { write!(list, "{comma}{first}-{last}") };
        rest = &rest[run..];
    }
    list
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids(cpus: &[u32]) -> Vec<CpuId> {
        cpus.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn lists_are_read_and_written() {
        for (list, cpus, written) in [
            ("0", ids(&[0]), "0"),
            ("0-3,8", ids(&[0, 1, 2, 3, 8]), "0-3,8"),
            ("8, 0-1\n", ids(&[0, 1, 8]), "0-1,8"),
            ("4-4,4,3-5", ids(&[3, 4, 5]), "3-5"),
            ("65535", ids(&[65_535]), "65535"),
        ] {
            let read = parse_list(list).unwrap();
            assert_eq!(read, cpus, "{list}");
            assert_eq!(format_list(&read), written);
        }
        assert_eq!(format_list(&[]), "");
    }

    #[test]
    fn boot_options_name_the_last_core_and_all_of_them() {
        let possible = ids(&[0, 1, 2, 3, 4, 5, 6, 7]);
        for (list, cores) in [
            ("4-N", "4-7"),
            ("N", "7"),
            ("N-N", "7"),
            ("0-N", "0-7"),
            ("all", "0-7"),
            ("ALL", "0-7"),
            ("1,3-N", "1,3-7"),
            ("0-7:2/4", "0-1,4-5"),
            ("0-N:1/2", "0,2,4,6"),
            ("all:1/4", "0,4"),
            ("1 3", "1,3"),
            ("3,", "3"),
            ("2-5", "2-5"),
        ] {
            assert_eq!(format_list(&parse_boot_list(list, &possible).unwrap()), cores, "{list}");
        }
        for (list, said) in [
            ("", "names no core"),
            ("n", "neither a number nor a range"),
            ("4-n", "neither a number nor a range"),
            ("4-M", "neither a number nor a range"),
            ("alles", "neither a number nor a range"),
            ("N-4", "runs backwards"),
            ("4-8", "core 8 is not possible here"),
            ("+4", "neither a number nor a range"),
            ("0-7:0/4", "such as 0-15:2/4"),
            ("0-7:5/4", "such as 0-15:2/4"),
            ("0-7:2", "such as 0-15:2/4"),
            ("3:1/2", "such as 0-15:2/4"),
        ] {
            let error = parse_boot_list(list, &possible).unwrap_err().to_string();
            assert!(error.contains(said), "{list}: {error}");
        }
        assert!(parse_boot_list("1", &[]).is_err(), "no core is known to be possible");
    }

    #[test]
    fn bad_lists_say_what_is_wrong() {
        for (list, message) in [
            ("", "'' is not a list of cores: it names no core"),
            ("3-1", "'3-1' is not a list of cores: '3-1' runs backwards"),
            ("1,,2", "'1,,2' is not a list of cores: there is nothing between two commas"),
            ("1-", "'1-' is not a list of cores: '1-' is neither a number nor a range such as 2-5"),
            ("-1", "'-1' is not a list of cores: '-1' is neither a number nor a range such as 2-5"),
            ("+1", "'+1' is not a list of cores: '+1' is neither a number nor a range such as 2-5"),
            ("0-7:2/4", "'0-7:2/4' is not a list of cores: '0-7:2/4' is neither a number nor a range such as 2-5"),
            ("0-65536", "'0-65536' is not a list of cores: 65536 is above the largest core number, 65535"),
            (
                "99999999999999999999",
                "'99999999999999999999' is not a list of cores: 99999999999999999999 is above the largest core number, 65535",
            ),
        ] {
            assert_eq!(parse_list(list).unwrap_err().to_string(), message);
        }
    }
}
