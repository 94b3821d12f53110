//! Firmware's table of hardware error sources.
//!
//! Lengths and offsets are those of the ACPI specification 6.5, section 18.3.2. The sources follow each other without a length of
//! their own, so that one of unknown type ends the reading.

use std::io::Read;
use surefoot_hostfs::Root;

const TABLE_BYTES_MAX: u64 = 1 << 20;
/// The header of every table, and the number of sources.
const SOURCES_AT: usize = 40;
const FIRMWARE_FIRST: u8 = 1;
const BANK_BYTES: usize = 28;

/// What the table says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hest {
    /// Whether firmware takes corrected machine checks first.
    pub is_corrected_firmware_first: bool,
    /// Generic sources, through which firmware hands errors on.
    pub generic_sources: u32,
    /// Whether a source of unknown kind ended the reading.
    pub is_cut: bool,
}

impl Hest {
    /// Reads it; `None` where firmware has no such table.
    pub(super) fn read(root: &Root) -> Result<Option<Self>, String> {
        let path = root.sys("firmware/acpi/tables/HEST");
        let file = match root.open_plain(&path) {
            Ok(file) => file,
            // Where there is no list of tables at all, nothing says that this one is missing.
            Err(error) if error.is_absent() && root.sys("firmware/acpi/tables").is_dir() => return Ok(None),
            Err(error) if error.is_absent() => {
                return Err(
                    "/sys/firmware/acpi/tables is not there: whether firmware has a HEST table is unknown".into()
                );
            }
            Err(error) => return Err(format!("{}: {}", path.display(), crate::read::reason(&error))),
        };
        let mut bytes = Vec::new();
        let read = file.take(TABLE_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = Self::parse(&bytes).ok_or_else(|| format!("{} is not a HEST table", path.display()))?;
        Ok(Some(parsed))
    }

    /// Reads the bytes of a table; `None` where they are none.
    pub fn parse(table: &[u8]) -> Option<Self> {
        if !table.starts_with(b"HEST") {
            return None;
        }
        let sources = u32::from_le_bytes(table.get(36..SOURCES_AT)?.try_into().ok()?);
        let mut found = Hest::default();
        let mut rest = table.get(SOURCES_AT..)?;
        for _ in 0..sources {
            let &[low, high, ..] = rest else {
                found.is_cut = true;
                break;
            };
            let kind = u16::from_le_bytes([low, high]);
            let Some(length) = length(kind, rest) else {
                found.is_cut = true;
                break;
            };
            // Flags of the sources of machine checks.
            if kind == 1 && rest.get(6).is_some_and(|flags| flags & FIRMWARE_FIRST != 0) {
                found.is_corrected_firmware_first = true;
            }
            found.generic_sources += u32::from(matches!(kind, 9 | 10));
            rest = rest.get(length..).unwrap_or_default();
        }
        Some(found)
    }
}

/// How long a source of a kind is; those of machine checks have banks behind them.
fn length(kind: u16, source: &[u8]) -> Option<usize> {
    Some(match kind {
        0 => 40 + BANK_BYTES * usize::from(*source.get(32)?),
        1 | 11 => 48 + BANK_BYTES * usize::from(*source.get(44)?),
        2 => 20,
        6 => 48,
        7 => 44,
        8 => 56,
        9 => 64,
        10 => 92,
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A table with an exception source of two banks, a corrected source with these flags and one bank, and a generic one.
    pub(in super::super) fn table(flags: u8) -> Vec<u8> {
        let mut bytes = b"HEST".to_vec();
        bytes.resize(36, 0);
        bytes.extend(3_u32.to_le_bytes());
        let mut exceptions = vec![0; 40 + 2 * BANK_BYTES];
        exceptions[32] = 2;
        let mut corrected = vec![0; 48 + BANK_BYTES];
        (corrected[0], corrected[6], corrected[44]) = (1, flags, 1);
        let mut generic = vec![0; 64];
        generic[0] = 9;
        bytes.into_iter().chain(exceptions).chain(corrected).chain(generic).collect()
    }

    #[test]
    fn firmware_first_is_a_flag_of_the_source_of_corrected_machine_checks() {
        let all = Hest { is_corrected_firmware_first: true, generic_sources: 1, is_cut: false };
        assert_eq!(Hest::parse(&table(1)), Some(all));
        assert_eq!(Hest::parse(&table(0)), Some(Hest { is_corrected_firmware_first: false, ..all }));
        let cut = Hest::parse(&table(1)[..100]);
        assert!(cut.is_some_and(|cut| cut.is_cut), "{cut:?}");
        assert_eq!(Hest::parse(b"DSDT"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(at in 0..300_usize, byte in any::<u8>(), length in 0..300_usize) {
            let mut bytes = table(1);
            let place = at % bytes.len();
            bytes[place] = byte;
            bytes.truncate(length);
            let _ = Hest::parse(&bytes);
        }
    }
}
