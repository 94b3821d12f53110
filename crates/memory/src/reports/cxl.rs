//! `cxl:cxl_dram` and `cxl:cxl_general_media`: what a CXL memory device says of its media.
//!
//! Source: CXL 3.1, "General Media Event Record" and "DRAM Event Record"; `drivers/cxl/core/trace.h`.

use super::cut;
use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource};

/// Which of the two records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CxlKind {
    /// `cxl_dram`: has bank, row and column.
    #[default]
    Dram,
    /// `cxl_general_media`: has channel and rank.
    GeneralMedia,
}

/// The fields of either event, named as the kernel names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CxlEvent {
    /// Which record.
    pub kind: CxlKind,
    /// `CLOCK_REALTIME`; 0 where it is not known.
    pub at_realtime_ns: u64,
    /// `CLOCK_MONOTONIC`; `None` for what was recorded before.
    pub at_ns: Option<u64>,
    /// The device, such as `mem0`.
    pub memdev: String,
    /// The device's serial number.
    pub serial: u64,
    /// Which of its logs: 0 informational, 1 warning, 2 failure, 3 fatal.
    pub log: u8,
    /// `hdr_flags`: bit 2 a condition that stays, bit 5 replacement needed.
    pub hdr_flags: u32,
    /// Address in the device.
    pub dpa: u64,
    /// Host physical address; all bits set where the kernel could not translate it.
    pub hpa: Option<u64>,
    /// `descriptor`: bit 0 uncorrectable, bit 1 a threshold was crossed.
    pub descriptor: u8,
    /// `type`, whose numbers differ between the two records.
    pub event_type: u8,
    /// `validity_flags`, which say what of the following is known; `None` where they were not kept: then only what is not 0 is, see
    /// [`CxlEvent::told`].
    pub validity_flags: Option<u16>,
    /// Channel.
    pub channel: u8,
    /// Rank.
    pub rank: u8,
    /// Bank group.
    pub bank_group: u8,
    /// Bank.
    pub bank: u8,
    /// Row.
    pub row: u32,
    /// Column.
    pub column: u16,
    /// `cvme_count` or `cme_count`: corrected errors since the counter was set; 0 where it is not known.
    pub corrected_count: u32,
}

impl CxlEvent {
    /// Whether its type is one of those of CXL 3.1: ECC errors, wrong addresses, errors of the data path, violations of the trusted
    /// execution environment, scrubbing, and counts.
    pub fn has_known_type(&self) -> bool {
        self.event_type <= 5
    }

    /// The bits of `validity_flags` of the fields that are not 0. Rasdaemon keeps no flags, and 0 for a field that the device does not
    /// vouch for: what is not 0 was vouched for, and a 0 may be a place or nothing.
    pub fn told(&self) -> u16 {
        let fields = [
            (0, u32::from(self.channel)),
            (1, self.rank.into()),
            (3, self.bank_group.into()),
            (4, self.bank.into()),
            (5, self.row),
            (6, self.column.into()),
        ];
        fields.into_iter().filter(|(_, value)| *value != 0).fold(0, |flags, (bit, _)| flags | 1 << bit)
    }
}

/// The report that an event is; `None` where it is not about bits of the media (a wrong address, a state of security).
pub fn cxl_event(event: &CxlEvent) -> Option<ErrorReport> {
    let what = match (event.kind, event.event_type) {
        (_, 0) => "media ECC error",
        (CxlKind::Dram, 1) | (CxlKind::GeneralMedia, 4) => "ECC error while scrubbing",
        (CxlKind::Dram, 3) | (CxlKind::GeneralMedia, 2) => "data path error",
        (_, 5) => "corrected errors counted by the device",
        _ => return None,
    };
    let is_uncorrected = event.descriptor & 1 != 0;
    let is_counted = event.event_type == 5 && event.corrected_count > 0;
    Some(ErrorReport {
        at_realtime_ns: event.at_realtime_ns,
        at_ns: event.at_ns,
        source: MemorySource::CxlEvent,
        severity: if is_uncorrected { ErrorSeverity::Uncorrected } else { ErrorSeverity::Corrected },
        dimm: (event.serial != 0).then(|| format!("cxl:{:#x}", event.serial)),
        label: cut(&event.memdev),
        count: if is_counted { event.corrected_count } else { 1 },
        // The device decides which errors it tells.
        fidelity: if is_counted { Fidelity::LowerBound } else { Fidelity::Sampled },
        location: location(event),
        detail: cut(&format!("{what}; {} dpa {:#x}{}", event.memdev, event.dpa, flags(event))),
    })
}

fn flags(event: &CxlEvent) -> String {
    let words = [(1 << 2, "a condition that stays"), (1 << 3, "maintenance needed"), (1 << 5, "replacement needed")];
    let said = words.iter().filter(|(bit, _)| event.hdr_flags & bit != 0);
    said.map(|(_, word)| format!(", {word}")).collect()
}

fn location(event: &CxlEvent) -> DramLocation {
    let address = event.hpa.filter(|&hpa| hpa != u64::MAX && hpa != 0);
    let dram = event.kind == CxlKind::Dram;
    let flags = event.validity_flags.unwrap_or_else(|| event.told());
    let known = |bit: u16, is_told: bool, value: u32| (is_told && flags & 1 << bit != 0).then_some(value);
    DramLocation {
        channel: known(0, true, event.channel.into()),
        rank: known(1, true, event.rank.into()),
        bank_group: known(3, dram, event.bank_group.into()),
        bank: known(4, dram, event.bank.into()),
        row: known(5, dram, event.row),
        column: known(6, dram, event.column.into()),
        address,
        // An event speaks of 64 bytes.
        grain_bits: address.map(|_| 6),
        ..DramLocation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dram() -> CxlEvent {
        CxlEvent {
            memdev: "mem0".into(),
            serial: 0x1234,
            dpa: 0x1000,
            hpa: Some(u64::MAX),
            validity_flags: Some(0x7b),
            channel: 1,
            rank: 0,
            bank_group: 2,
            bank: 3,
            row: 77,
            column: 8,
            ..CxlEvent::default()
        }
    }

    #[test]
    fn a_dram_event_has_its_coordinates() {
        let report = cxl_event(&dram()).unwrap();
        let location = DramLocation {
            channel: Some(1),
            rank: Some(0),
            bank_group: Some(2),
            bank: Some(3),
            row: Some(77),
            column: Some(8),
            ..DramLocation::default()
        };
        assert_eq!((report.location, report.dimm.as_deref()), (location, Some("cxl:0x1234")));
        assert_eq!(report.severity, ErrorSeverity::Corrected);
    }

    #[test]
    fn what_the_device_does_not_vouch_for_is_left_out() {
        let report = cxl_event(&CxlEvent { validity_flags: Some(1 << 1), ..dram() }).unwrap();
        assert_eq!(report.location, DramLocation { rank: Some(0), ..DramLocation::default() });
        // Without flags a 0 is no place: of this event the rank and the column are not known.
        let unknown = cxl_event(&CxlEvent { validity_flags: None, column: 0, ..dram() }).unwrap().location;
        assert_eq!((unknown.rank, unknown.column, unknown.row, unknown.bank), (None, None, Some(77), Some(3)));
    }

    #[test]
    fn a_counter_is_a_lower_bound_and_other_events_are_no_errors() {
        let counter = CxlEvent { event_type: 5, corrected_count: 40, ..dram() };
        assert_eq!(cxl_event(&counter).map(|one| (one.count, one.fidelity)), Some((40, Fidelity::LowerBound)));
        assert_eq!(cxl_event(&CxlEvent { event_type: 2, ..dram() }), None);
        let lost = CxlEvent { descriptor: 1, hpa: Some(0x4000), ..dram() };
        let report = cxl_event(&lost).unwrap();
        assert_eq!((report.severity, report.location.address), (ErrorSeverity::Uncorrected, Some(0x4000)));
    }
}
