//! SATA and SAS drives, through `smartctl --json` of smartmontools.
//!
//! Why not our own ATA commands: the interesting attributes have numbers and units that differ from maker to maker, and
//! SMART reaches a drive behind a SAS controller or a USB bridge in half a dozen ways. smartmontools holds both as data,
//! kept by its authors for twenty years. Where it is not installed the counts of the kernel remain.

use crate::program;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use surefoot_model::Digits;

/// Rows of a table that are looked at; ATA has room for 30 attributes.
const ROWS_MAX: usize = 512;

const GIB: u64 = 1 << 30;

/// What a drive says of its wear; of each number its field or attribute.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Smart {
    /// The full name; the kernel cuts it to sixteen characters.
    pub model: Option<String>,
    /// Bytes that hosts wrote.
    pub written_bytes: Option<(u64, String)>,
    /// Life used, percent.
    pub percent_used: Option<(u64, String)>,
    /// Spare left, percent.
    pub spare_percent: Option<(u64, String)>,
    /// Bytes to the flash over bytes from hosts.
    pub write_amplification: Option<(f64, String)>,
    /// Hours switched on.
    pub power_on_hours: Option<u64>,
}

/// Where it is installed.
pub fn program() -> Option<PathBuf> {
    program::find("smartctl")
}

/// Asks about one device, and waits no longer than `patience`.
///
/// # Errors
/// Why there is no answer, in words.
pub fn ask(program: &Path, device: &Path, patience: Duration) -> Result<Smart, String> {
    let mut command = Command::new(program);
    // Attributes, all device statistics, the solid-state page of SAS, and SAS's counts of bytes.
    command.args(["--json=c", "-i", "-A", "-l", "devstat", "-l", "ssd", "-l", "error", "--"]).arg(device);
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    parse(&program::answer(command, b"", patience)?)
}

/// Reads an answer.
///
/// # Errors
/// Why it says nothing about a drive, in words.
pub fn parse(text: &[u8]) -> Result<Smart, String> {
    let answer: Value = serde_json::from_slice(text).map_err(|error| format!("smartctl gave no JSON: {error}"))?;
    // Bits 0 and 1: the command line or the device was not understood. The others speak of the drive's health.
    let status = answer["smartctl"]["exit_status"].as_u64().unwrap_or(0);
    if status & 3 != 0 {
        let said = answer["smartctl"]["messages"][0]["string"].as_str().unwrap_or("it did not say why");
        return Err(format!("smartctl: {}", surefoot_hostfs::shorten(said)));
    }
    let drive = Drive(&answer);
    let found = Smart {
        model: answer["model_name"].as_str().map(surefoot_hostfs::shorten).filter(|model| !model.is_empty()),
        written_bytes: drive.written().filter(|(bytes, _)| *bytes > 0),
        percent_used: drive.percent_used().filter(|(percent, _)| *percent <= 255),
        spare_percent: drive.spare().filter(|(percent, _)| *percent <= 100),
        write_amplification: drive.write_amplification(),
        power_on_hours: answer["power_on_time"]["hours"].as_u64().filter(|&hours| hours <= 876_600),
    };
    let has_nothing = found.written_bytes.is_none() && found.percent_used.is_none() && found.power_on_hours.is_none();
    if has_nothing { Err("smartctl: the drive tells nothing of its wear".into()) } else { Ok(found) }
}

struct Drive<'a>(&'a Value);

/// A row of the ATA attributes.
struct Attribute<'a> {
    id: u64,
    name: &'a str,
    /// Normalised: most count down from 100.
    value: u64,
    raw: u64,
}

impl Attribute<'_> {
    fn said(&self) -> String {
        format!("attribute {} {}", self.id, surefoot_hostfs::shorten(self.name))
    }
}

impl<'a> Drive<'a> {
    fn rows(table: &'a Value) -> impl Iterator<Item = &'a Value> {
        table.as_array().into_iter().flatten().take(ROWS_MAX)
    }

    /// The attributes, where smartmontools knows the model: otherwise names and units are guesses.
    fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> {
        let is_known = self.0["in_smartctl_database"].as_bool() == Some(true);
        Self::rows(&self.0["ata_smart_attributes"]["table"]).filter(move |_| is_known).filter_map(|row| {
            Some(Attribute {
                id: row["id"].as_u64()?,
                name: row["name"].as_str()?,
                value: row["value"].as_u64()?,
                raw: row["raw"]["value"].as_u64()?,
            })
        })
    }

    /// A valid field of the ATA device statistics (ACS-3, log 04h), by page and offset.
    fn statistic(&self, page: u64, offset: u64) -> Option<u64> {
        let pages = Self::rows(&self.0["ata_device_statistics"]["pages"]);
        let fields = pages.filter(|found| found["number"] == page).flat_map(|found| Self::rows(&found["table"]));
        let mut fields = fields.filter(|field| field["offset"] == offset && field["flags"]["valid"] == true);
        fields.next()?["value"].as_u64()
    }

    fn written(&self) -> Option<(u64, String)> {
        let block = self.0["logical_block_size"].as_u64().filter(|bytes| (512..=65_536).contains(bytes)).unwrap_or(512);
        let by_statistic = || {
            let blocks = self.statistic(1, 24)?;
            Some((blocks.checked_mul(block)?, "device statistics, logical sectors written".to_owned()))
        };
        let by_attribute = || {
            let mut found = self.attributes().filter(|found| [225, 241, 246].contains(&found.id));
            found.find_map(|found| Some((found.raw.checked_mul(unit_bytes(found.name)?)?, found.said())))
        };
        let by_sas = || {
            let gigabytes = &self.0["scsi_error_counter_log"]["write"]["gigabytes_processed"];
            let gigabytes = gigabytes.as_str().and_then(|text| text.real()).or_else(|| gigabytes.as_f64())?;
            let bytes = Some(gigabytes * 1e9).filter(|bytes| (0.0..1e19).contains(bytes))?;
            Some((bytes as u64, "SAS error counter log, gigabytes written".to_owned()))
        };
        by_statistic().or_else(by_attribute).or_else(by_sas)
    }

    fn percent_used(&self) -> Option<(u64, String)> {
        const LIFE_LEFT: [&str; 7] = [
            "Wear_Leveling_Count",
            "SSD_Life_Left",
            "Media_Wearout_Indicator",
            "Percent_Lifetime_Remain",
            "Remaining_Lifetime_Perc",
            "Percent_Life_Remaining",
            "Drive_Life_Remaining%",
        ];
        let by_statistic = || Some((self.statistic(7, 8)?, "device statistics, percentage used".to_owned()));
        let by_sas = || {
            let percent = self.0["scsi_percentage_used_endurance_indicator"].as_u64()?;
            Some((percent, "SAS percentage used".to_owned()))
        };
        let by_summary = || Some((self.0["endurance_used"]["current_percent"].as_u64()?, "endurance_used".to_owned()));
        let by_attribute = || {
            let mut found = self.attributes().filter(|found| LIFE_LEFT.contains(&found.name) && found.value <= 100);
            found.next().map(|found| (100 - found.value, found.said()))
        };
        by_statistic().or_else(by_sas).or_else(by_summary).or_else(by_attribute)
    }

    fn spare(&self) -> Option<(u64, String)> {
        Some((self.0["spare_available"]["current_percent"].as_u64()?, "spare_available".to_owned()))
    }

    fn write_amplification(&self) -> Option<(f64, String)> {
        let named = |names: &[&str]| self.attributes().find(|found| names.contains(&found.name));
        let plausible = |ratio: f64| (0.01..=1_000.0).contains(&ratio);
        // Micron and Crucial count pages that hosts caused, and pages that the drive added.
        let pages = || {
            let host = named(&["Host_Program_Page_Count"])?;
            let added = named(&["FTL_Program_Page_Count", "Bckgnd_Program_Page_Cnt"])?;
            let ratio = (host.raw > 0).then(|| 1.0 + added.raw as f64 / host.raw as f64)?;
            Some((ratio, format!("{} and {}", host.said(), added.said())))
        };
        let flash = || {
            let flash = named(&["NAND_Writes_1GiB", "NAND_Writes_GiB", "Total_NAND_Writes_GiB"])?;
            let (host_bytes, _) = self.written().filter(|(bytes, _)| *bytes >= 100 * GIB)?;
            Some((flash.raw as f64 * GIB as f64 / host_bytes as f64, flash.said()))
        };
        pages().or_else(flash).filter(|(ratio, _)| plausible(*ratio))
    }
}

/// The unit that the name of an attribute of written amounts tells; `None` where it tells none.
fn unit_bytes(name: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] = [
        ("LBAs_Written", 512),
        ("_32MiB", 32 << 20),
        ("_1GiB", GIB),
        ("_GiB", GIB),
        ("_MiB", 1 << 20),
        ("_TiB", 1 << 40),
    ];
    let speaks_of_writes = name.contains("Writ") && !name.contains("NAND");
    UNITS.iter().find(|(ending, _)| speaks_of_writes && name.ends_with(ending)).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
#[path = "smartctl_tests.rs"]
mod tests;
