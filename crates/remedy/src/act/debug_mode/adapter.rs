//! What a vendor calls its settings.

use crate::act::Attributes;
use crate::{Error, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The longest adapter's file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The settings of one vendor's firmware, as a TOML file says them:
///
/// ```toml
/// about = "servers of Example with firmware 2.0 or later"
///
/// [debug]                               # corrected errors go to the firmware, and each one is told
/// CorrectableErrorHandling = "FirmwareFirst"
/// CorrectableErrorThreshold = 1
///
/// [soft_repair]                         # repair until the next loss of power
/// PostPackageRepair = "Soft"
///
/// [hard_repair]                         # repair for good
/// PostPackageRepair = "Hard"
///
/// [spares]                              # DDR4: one row of each bank group; DDR5: of each bank
/// per = "bank_group"
/// rows = 1
///
/// [report]                              # asked after a repair's restart: which rows the firmware accepted
/// run = "/usr/lib/surefoot/adapters/example-report"
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Which machines it is for.
    #[serde(default)]
    pub about: String,
    /// Settings of the debug mode.
    pub debug: Attributes,
    /// Settings with which the firmware repairs softly at its next start; none where it cannot.
    #[serde(default)]
    pub soft_repair: Attributes,
    /// Settings with which it repairs for good; none where it cannot.
    #[serde(default)]
    pub hard_repair: Attributes,
    /// How many rows can be repaired.
    #[serde(default)]
    pub spares: Spares,
    /// Who tells what became of a repair; without it nobody does, and the policy has to accept that.
    #[serde(default)]
    pub report: Option<ReportBy>,
}

/// An executable that tells what the firmware reports on a repair.
///
/// It is started as a hook is, with the argument `report` and in the environment `SUREFOOT_HOST`, `SUREFOOT_PPR` (`soft` or `hard`) and
/// `SUREFOOT_ROWS`, the rows as JSON. It ends with 0 and prints one JSON object:
///
/// ```json
/// {"rows_asked": 2, "rows_accepted": 2, "spare_rows_left": 3}
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportBy {
    /// Its path.
    pub run: PathBuf,
}

/// How many spare rows a module has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spares {
    /// The part of a module that has them.
    pub per: Part,
    /// How many rows of it can be repaired for good.
    pub rows: u32,
}

impl Default for Spares {
    fn default() -> Self {
        Spares { per: Part::BankGroup, rows: 1 }
    }
}

/// A part of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A bank group, as in DDR4.
    BankGroup,
    /// A bank, as in DDR5.
    Bank,
}

impl Adapter {
    /// Reads an adapter's text.
    ///
    /// # Errors
    /// What is wrong with it, with the line.
    pub fn parse(text: &str) -> std::result::Result<Adapter, String> {
        let adapter: Adapter = crate::from_toml(text)?;
        if adapter.debug.is_empty() {
            return Err("[debug] changes no setting, so the driver would log nothing more than before".into());
        }
        let all = [&adapter.debug, &adapter.soft_repair, &adapter.hard_repair];
        match all.iter().flat_map(|part| part.iter()).find(|(_, value)| value.is_array() || value.is_object()) {
            Some((name, _)) => Err(format!("{name} is neither a text nor a number nor true or false")),
            None => Ok(adapter),
        }
    }

    /// Reads the adapter of this name in a folder: `NAME.toml`.
    ///
    /// # Errors
    /// [`Error::PolicyFile`], also for a name that is none.
    pub fn read(folder: &Path, name: &str) -> Result<Adapter> {
        let path = folder.join(format!("{name}.toml"));
        let failed = |why: String| Error::PolicyFile { file: path.display().to_string(), why };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(failed("an adapter's name has letters, digits, '-' and '_' alone".into()));
        }
        let found = super::super::hook::trusted_file(&path).map_err(&failed)?;
        let text = crate::policy::table::text_of(&found, FILE_BYTES_MAX)?;
        Adapter::parse(&text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_adapters_that_are_shipped_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/adapters");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                Adapter::parse(&std::fs::read_to_string(&path).unwrap())
                    .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
                count += 1;
            }
        }
        assert!(count >= 1);
    }

    #[test]
    fn what_is_wrong_with_an_adapter_is_said_with_its_line() {
        for (text, part) in [
            ("[debug]\n", "changes no setting"),
            ("[debug]\nA = 1\n[spare]\nrows = 1\n", "unknown field `spare`"),
            ("[debug]\nA = [1]\n", "A is neither"),
            ("[debug]\nA = 1\n[spares]\nper = \"rank\"\nrows = 1\n", "line 4"),
            ("about = 1\n[debug]\nA = 1\n", "line 1"),
        ] {
            let why = Adapter::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(Adapter::read(Path::new("/etc"), "../passwd").unwrap_err().to_string().contains("letters"));
    }
}
