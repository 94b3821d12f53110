//! From the raw fields of what the kernel reports to an [`ErrorReport`]: pure functions over plain data, whoever read the fields
//! (tracefs, the database of rasdaemon, a log).
//!
//! Text of drivers is not trusted: what cannot be read of it is left out, and the rest stands.
//!
//! ```
//! use surefoot_memory::reports::{McEvent, mc_event};
//! let report = mc_event(&McEvent {
//!     label: "CPU_SrcID#0_MC#1_Chan#0_DIMM#1".into(),
//!     error_count: 3,
//!     driver_detail: "err_code:0x0101:0x0090 ProcessorSocketId:0x0 MemoryControllerId:0x1 PhysicalRankId:0x4 \
//!                     Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1".into(),
//!     ..McEvent::default()
//! });
//! assert_eq!((report.count, report.location.row, report.location.slot), (3, Some(0x1a2b), Some(1)));
//! ```

mod cxl;
mod label;
mod mc_event;
mod mce_record;
pub(crate) mod words;

pub use cxl::{CxlEvent, CxlKind, cxl_event};
pub use mc_event::{McErrorType, McEvent, mc_event};
pub use mce_record::{CpuVendor, MceRecord, mce_record};

use surefoot_model::{ErrorReport, one_line};

/// The longest [`ErrorReport::detail`] and [`ErrorReport::label`], in characters.
pub const TEXT_CHARACTERS_MAX: usize = 240;

/// Text of a driver on one line, as long as a report holds.
pub(crate) fn cut(text: &str) -> String {
    one_line(text.trim()).chars().take(TEXT_CHARACTERS_MAX).collect()
}

/// Where the module of a report sits, in one name that is the same for all reports of that place: the label where there is one,
/// otherwise controller, channel, slot and rank as far as they are known. `None` where the report tells nothing of the kind.
///
/// The name is no [`surefoot_model::Dimm::id`]; who knows the host's modules finds them by label and place.
pub fn place_of(report: &ErrorReport) -> Option<String> {
    // Of several labels any may be the one: together they are one group of suspects.
    if has_one_label(report) || is_list(report) {
        return Some(report.label.clone());
    }
    let location = &report.location;
    let known = known(report).map(|(word, value)| format!("{}{value}", if word == "controller" { "mc" } else { word }));
    // A socket or a controller alone has many modules.
    let is_a_place = location.channel.is_some() || location.slot.is_some() || location.rank.is_some();
    is_a_place.then(|| known.collect::<Vec<_>>().join("/"))
}

/// What a report tells of the place of its error, in words, where that names no module: neither a label nor a slot. `None` where
/// it does, or a device has named itself.
pub fn only_place_of(report: &ErrorReport) -> Option<String> {
    let names_itself = report.dimm.is_some() && report.dimm != place_of(report);
    if is_sensor_alone(&report.label) {
        return Some(report.label.clone());
    }
    let is_list = label::is_list(&report.label);
    // Of two channels in lockstep a slot is known, and not of which of them.
    if names_itself || has_one_label(report) || (report.location.slot.is_some() && !is_list) {
        return None;
    }
    let known: Vec<String> = known(report).map(|(word, value)| format!("{word} {value}")).collect();
    Some(match (known.is_empty(), is_list) {
        (_, true) => report.label.clone(),
        (true, false) => "not told".to_owned(),
        (false, false) => known.join(", "),
    })
}

/// Whether its label is a list, of which any may be the module.
pub(crate) fn is_list(report: &ErrorReport) -> bool {
    label::is_list(&report.label)
}

/// Whether its label is that of one module: "any memory" and lists of several labels name none.
fn has_one_label(report: &ErrorReport) -> bool {
    !report.label.is_empty() && !label::is_list(&report.label) && !is_no_label(&report.label)
}

/// The label of an error that a sensor of the management controller tells: its module where the event has its number.
pub(crate) fn sensor_label(sensor: &str, module: Option<u8>) -> String {
    module.map_or(format!("{SENSOR}{sensor}"), |module| format!("{SENSOR}{sensor}{OF_SENSOR}{module}"))
}

const SENSOR: &str = "sensor ";
const OF_SENSOR: &str = " module ";

/// Whether a label is a sensor's that names no module: it may watch all of a socket's.
fn is_sensor_alone(label: &str) -> bool {
    label.starts_with(SENSOR) && !label.contains(OF_SENSOR)
}

/// The numbers that say where a module is, as far as a report has them.
fn known(report: &ErrorReport) -> impl Iterator<Item = (&'static str, u32)> {
    let location = &report.location;
    let parts = [
        ("socket", location.socket),
        ("controller", location.controller),
        ("channel", location.channel),
        ("slot", location.slot),
        ("rank", if location.slot.is_none() { location.rank } else { None }),
    ];
    parts.into_iter().filter_map(|(word, value)| Some((word, value?)))
}

/// What EDAC says instead of a label where it knows no module.
fn is_no_label(label: &str) -> bool {
    matches!(label, "any memory" | "unknown memory" | "unknown label")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::DramLocation;

    fn report(label: &str, location: DramLocation) -> ErrorReport {
        let mut report = mc_event(&McEvent { label: label.into(), ..McEvent::default() });
        report.location = location;
        report
    }

    #[test]
    fn a_place_without_a_slot_is_no_module() {
        let channel = DramLocation { socket: Some(1), channel: Some(2), ..DramLocation::default() };
        let rank = DramLocation { controller: Some(0), rank: Some(3), ..channel };
        let slot = DramLocation { slot: Some(0), ..channel };
        for (label, location, name, place) in [
            ("", channel, Some("socket1/channel2"), Some("socket 1, channel 2")),
            ("any memory", rank, Some("socket1/mc0/channel2/rank3"), Some("socket 1, controller 0, channel 2, rank 3")),
            ("A1 or A2", channel, Some("A1 or A2"), Some("A1 or A2")),
            ("A1 or A2", DramLocation::default(), Some("A1 or A2"), Some("A1 or A2")),
            ("unknown memory", DramLocation::default(), None, Some("not told")),
            ("", slot, Some("socket1/channel2/slot0"), None),
            ("A1", channel, Some("A1"), None),
            ("A1 or B1", slot, Some("A1 or B1"), Some("A1 or B1")),
            ("sensor 0x87", DramLocation::default(), Some("sensor 0x87"), Some("sensor 0x87")),
            ("sensor 0x87 module 5", DramLocation::default(), Some("sensor 0x87 module 5"), None),
        ] {
            let mut report = report(label, location);
            assert_eq!(only_place_of(&report).as_deref(), place, "{label} {location:?}");
            report.dimm = place_of(&report);
            assert_eq!(report.dimm.as_deref(), name, "{label} {location:?}");
            assert_eq!(only_place_of(&report).as_deref(), place, "{label} {location:?}");
            // A device that names itself is a module, wherever it is.
            report.label = String::new();
            report.dimm = Some("cxl:0x1234".into());
            assert_eq!(only_place_of(&report), None);
        }
    }
}
