//! The modules that firmware names: structures of type 17, *Memory Device*, of the SMBIOS tables.
//!
//! Offsets are those of the System Management BIOS Reference Specification 3.7 (DSP0134), section 7.18. The tables are read as
//! `/sys/firmware/dmi/tables/DMI` gives them; `smbios_entry_point` beside it only says where its end is, and is checked.

use crate::read::Problems;
use std::io::Read;
use std::path::Path;
use surefoot_hostfs::{Error, Root};
use surefoot_model::{MemorySource, is_filler, one_line};

/// The tables of the largest machines have some hundred KiB.
const TABLE_BYTES_MAX: usize = 4 << 20;
/// Structures of all types.
const STRUCTURES_MAX: usize = 16_384;
/// Slots of one host.
const SLOTS_MAX: usize = 1024;
/// A string of a structure; longer ones are cut.
const STRING_MAX: usize = 64;

const MEMORY_DEVICE: u8 = 17;
const END_OF_TABLE: u8 = 127;

/// What firmware says of the module in one slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Number of its structure.
    pub handle: u16,
    /// Name of the slot, such as `DIMM_A1`.
    pub locator: String,
    /// Name of the bank or channel, such as `P0_Node0_Channel0_Dimm0`.
    pub bank_locator: String,
    /// Who made it; empty where that is not told.
    pub manufacturer: String,
    /// Serial number; empty where that is not told, or is a filler.
    pub serial: String,
    /// Part number; empty in the same way.
    pub part: String,
    /// Size; 0 for an empty slot or one whose size is not known.
    pub size_bytes: u64,
}

/// The modules of filled slots, in the order of the tables.
pub(crate) fn read(root: &Root, problems: &mut Problems) -> Vec<Installed> {
    let folder = root.sys("firmware/dmi/tables");
    let path = folder.join("DMI");
    let bytes = match bytes(root, &path) {
        Ok(bytes) => bytes,
        Err(error) => {
            // Many hosts have no such table, and users other than root may not read it: then there are places and no serials.
            if !error.is_absent() && !error.is_denied() {
                problems.unreadable(MemorySource::Edac, &path, &error);
            }
            return Vec::new();
        }
    };
    let end = match entry_point(root, &folder.join("smbios_entry_point")) {
        Ok(end) => end.map_or(bytes.len(), |end| end.min(bytes.len())),
        Err(why) => {
            problems.add(MemorySource::Edac, &folder.join("smbios_entry_point"), why);
            bytes.len()
        }
    };
    let (found, wrong) = parse(&bytes[..end]);
    if let Some(why) = wrong {
        problems.add(MemorySource::Edac, &path, why);
    }
    found
}

fn bytes(root: &Root, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = root.open_plain(path)?;
    let read = file.take(TABLE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    if bytes.len() > TABLE_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_path_buf(), limit_bytes: TABLE_BYTES_MAX as u64 });
    }
    Ok(bytes)
}

/// The table's length by the 32-bit entry point; that of 64 bits has only a limit.
fn entry_point(root: &Root, path: &Path) -> Result<Option<usize>, String> {
    let bytes = match bytes(root, path) {
        Ok(bytes) => bytes,
        Err(error) if error.is_absent() || error.is_denied() => return Ok(None),
        Err(error) => return Err(crate::read::reason(&error)),
    };
    let word = |at: usize| bytes.get(at..at + 2).map(|word| usize::from(u16::from_le_bytes([word[0], word[1]])));
    let sum = |length: u8| {
        let covered = bytes.get(..usize::from(length))?;
        Some(covered.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) == 0)
    };
    let (length, end) = if bytes.starts_with(b"_SM3_") {
        (bytes.get(6).copied(), None)
    } else if bytes.starts_with(b"_SM_") {
        (bytes.get(5).copied(), word(0x16))
    } else {
        return Err(
            "it begins with neither _SM_ nor _SM3_, so it is no entry point; the table was read without it".into()
        );
    };
    match length.and_then(sum) {
        Some(true) => Ok(end),
        _ => Err("its check sum is wrong; the table was read without it".into()),
    }
}

/// The filled slots of a table, and what ended its reading before its end.
fn parse(table: &[u8]) -> (Vec<Installed>, Option<String>) {
    let mut found = Vec::new();
    let mut at = 0;
    for count in 0.. {
        let rest = &table[at..];
        if rest.len() < 4 {
            break;
        }
        if count >= STRUCTURES_MAX || found.len() >= SLOTS_MAX {
            return (
                found,
                Some(format!(
                    "it names more than {SLOTS_MAX} modules or {STRUCTURES_MAX} structures; the others were left out"
                )),
            );
        }
        let length = usize::from(rest[1]);
        let Some(end) = (length >= 4).then(|| end_of(rest, length)).flatten() else {
            return (found, Some(format!("the structure at byte {at} has no end; modules beyond it were left out")));
        };
        if rest[0] == END_OF_TABLE {
            break;
        }
        if rest[0] == MEMORY_DEVICE {
            found.extend(device(&rest[..length], &rest[length..end]));
        }
        at += end;
    }
    (found, None)
}

/// Where the structure and its strings end: behind two zeros.
fn end_of(rest: &[u8], length: usize) -> Option<usize> {
    let strings = rest.get(length..)?;
    strings.windows(2).position(|pair| pair == [0, 0]).map(|place| length + place + 2)
}

/// The module of a structure; `None` for an empty slot.
fn device(body: &[u8], strings: &[u8]) -> Option<Installed> {
    let byte = |at: usize| body.get(at).copied();
    let word = |at: usize| Some(u16::from_le_bytes([byte(at)?, byte(at + 1)?]));
    let text = |at: usize| byte(at).map(|number| string(strings, number)).unwrap_or_default();
    let size_bytes = match word(0x0c)? {
        0 => return None,
        0xffff => 0,
        // The size stands in a field of its own, in MiB, with a bit that means nothing.
        0x7fff => {
            let mut wide = [0_u8; 4];
            if let Some(bytes) = body.get(0x1c..0x20) {
                wide.copy_from_slice(bytes);
            }
            u64::from(u32::from_le_bytes(wide) & 0x7fff_ffff) << 20
        }
        size if size & 0x8000 != 0 => u64::from(size & 0x7fff) << 10,
        size => u64::from(size) << 20,
    };
    let known = |at: usize| Some(text(at)).filter(|text| !is_filler(text)).unwrap_or_default();
    Some(Installed {
        handle: word(2)?,
        locator: text(0x10),
        bank_locator: text(0x11),
        manufacturer: known(0x17),
        serial: known(0x18),
        part: known(0x1a),
        size_bytes,
    })
}

/// The string with this number, counted from 1; 0 is none.
fn string(strings: &[u8], number: u8) -> String {
    let Some(place) = usize::from(number).checked_sub(1) else { return String::new() };
    let bytes = strings.split(|byte| *byte == 0).nth(place).unwrap_or_default();
    one_line(String::from_utf8_lossy(bytes).trim()).chars().take(STRING_MAX).collect()
}

#[cfg(test)]
#[path = "firmware_tests.rs"]
mod tests;
