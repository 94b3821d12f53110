//! `ras:mc_event`: what an EDAC driver makes of an error.

use super::{cut, label, words};
use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource};

/// `error_type` of the event, the kernel's `hw_event_mc_err_type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum McErrorType {
    /// 0.
    #[default]
    Corrected,
    /// 1.
    Uncorrected,
    /// 2.
    Deferred,
    /// 3.
    Fatal,
    /// 4.
    Info,
}

impl McErrorType {
    /// The word that the kernel's print and rasdaemon use; `None` for another one.
    pub fn from_word(word: &str) -> Option<McErrorType> {
        Some(match word {
            "Corrected" => McErrorType::Corrected,
            "Uncorrected" => McErrorType::Uncorrected,
            "Deferred" => McErrorType::Deferred,
            "Fatal" => McErrorType::Fatal,
            "Info" => McErrorType::Info,
            _ => return None,
        })
    }
}

/// The fields of the event, named as the kernel names them, and when it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McEvent {
    /// `CLOCK_REALTIME`; 0 where it is not known.
    pub at_realtime_ns: u64,
    /// `CLOCK_MONOTONIC`; `None` for what was recorded before.
    pub at_ns: Option<u64>,
    /// What became of the bits.
    pub error_type: McErrorType,
    /// What the driver says happened, such as `memory read error`.
    pub msg: String,
    /// The module's label.
    pub label: String,
    /// Errors; 0 is a fault of some firmware and counts as 1.
    pub error_count: u32,
    /// Number of the controller; `None` where it is not known.
    pub mc_index: Option<u32>,
    /// Position in the driver's first layer; below 0 where it is not known.
    pub top_layer: i32,
    /// Position in its second layer.
    pub middle_layer: i32,
    /// Position in its third layer.
    pub lower_layer: i32,
    /// Physical address; 0 where it is not known.
    pub address: u64,
    /// Low bits of the address that mean nothing; `None` where it is not known.
    pub grain_bits: Option<u8>,
    /// Syndrome of the code; it means something only together with the controller's tables.
    pub syndrome: u64,
    /// The driver's own words.
    pub driver_detail: String,
}

/// What of a driver's words shows whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// skx, i10nm, sb_edac: layers are channel and slot, and the count is the hardware's.
    Intel,
    /// ghes_edac: one layer, the number of the module in SMBIOS; one report for each record of firmware.
    Firmware,
    /// Anyone else: the event does not name its layers.
    Other,
}

impl Driver {
    fn of(event: &McEvent) -> Driver {
        let detail = &event.driver_detail;
        if detail.contains("APEI location") {
            return Driver::Firmware;
        }
        let is_intel =
            ["ProcessorSocketId:", "imc:", "area:", "channel_mask:"].iter().any(|word| detail.contains(word));
        if is_intel || event.label.contains("SrcID#") { Driver::Intel } else { Driver::Other }
    }
}

/// A full counter of corrected errors in `MCi_STATUS`, bits 52:38.
pub(super) const STATUS_COUNT_MAX: u32 = 0x7fff;

/// The report that an event is. `source` is the tracepoint; who read it elsewhere says so afterwards.
pub fn mc_event(event: &McEvent) -> ErrorReport {
    let driver = Driver::of(event);
    let severity = match event.error_type {
        McErrorType::Corrected | McErrorType::Info => ErrorSeverity::Corrected,
        McErrorType::Deferred => ErrorSeverity::Deferred,
        McErrorType::Uncorrected | McErrorType::Fatal => ErrorSeverity::Uncorrected,
    };
    ErrorReport {
        at_realtime_ns: event.at_realtime_ns,
        at_ns: event.at_ns,
        source: MemorySource::McEvent,
        severity,
        dimm: None,
        label: cut(&event.label),
        count: event.error_count.max(1),
        fidelity: fidelity(event, driver, severity),
        location: location(event, driver),
        detail: detail(event),
    }
}

fn fidelity(event: &McEvent, driver: Driver, severity: ErrorSeverity) -> Fidelity {
    // amd64_edac and ghes_edac say 1 for each record, whatever the hardware counted.
    if driver != Driver::Intel {
        return Fidelity::Sampled;
    }
    let is_full = event.error_count >= STATUS_COUNT_MAX || event.driver_detail.contains("OVERFLOW");
    // An uncorrected error is a record of its own, never a count.
    if is_full && severity == ErrorSeverity::Corrected { Fidelity::LowerBound } else { Fidelity::Exact }
}

fn location(event: &McEvent, driver: Driver) -> DramLocation {
    let layer = |position: i32| u32::try_from(position).ok();
    let mut layers = DramLocation { controller: event.mc_index, ..DramLocation::default() };
    match driver {
        Driver::Intel => (layers.channel, layers.slot) = (layer(event.top_layer), layer(event.middle_layer)),
        Driver::Firmware | Driver::Other => {}
    }
    if event.address != 0 {
        layers.address = Some(event.address);
        layers.grain_bits = event.grain_bits;
    }
    let said = words::merged(words::location(&event.driver_detail), label::location(&event.label));
    // The kernel's number of the controller is the one that its files have; the driver's own starts again on each socket.
    let mut found = words::merged(DramLocation { controller: layers.controller, ..said }, layers);
    if driver == Driver::Firmware {
        // The one "controller" of ghes_edac is all memory of the host.
        found.controller = None;
    }
    found
}

fn detail(event: &McEvent) -> String {
    let texts = [event.msg.trim(), event.driver_detail.trim()];
    let said: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    cut(&said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skx() -> McEvent {
        McEvent {
            at_realtime_ns: 7,
            msg: "memory read error".into(),
            label: "CPU_SrcID#1_MC#0_Chan#2_DIMM#1".into(),
            error_count: 5,
            mc_index: Some(2),
            top_layer: 2,
            middle_layer: 1,
            lower_layer: -1,
            address: 0x12_3456_7000,
            grain_bits: Some(5),
            driver_detail: "err_code:0x0101:0x0092 ProcessorSocketId:0x1 MemoryControllerId:0x0 PhysicalRankId:0x4 \
                            Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1"
                .into(),
            ..McEvent::default()
        }
    }

    #[test]
    fn an_intel_event_is_exact_and_has_all_coordinates() {
        let report = mc_event(&skx());
        let expected = DramLocation {
            socket: Some(1),
            controller: Some(2),
            channel: Some(2),
            slot: Some(1),
            rank: Some(4),
            bank_group: Some(1),
            bank: Some(2),
            row: Some(0x1a2b),
            column: Some(0x3f8),
            address: Some(0x12_3456_7000),
            grain_bits: Some(5),
        };
        assert_eq!(report.location, expected);
        assert_eq!((report.count, report.fidelity, report.severity), (5, Fidelity::Exact, ErrorSeverity::Corrected));
        assert!(report.detail.starts_with("memory read error; err_code:0x0101"), "{}", report.detail);
    }

    #[test]
    fn a_lost_count_is_a_lower_bound() {
        let overflow = McEvent { driver_detail: format!(" OVERFLOW {}", skx().driver_detail), ..skx() };
        assert_eq!(mc_event(&overflow).fidelity, Fidelity::LowerBound);
        assert_eq!(mc_event(&McEvent { error_count: 32767, ..skx() }).fidelity, Fidelity::LowerBound);
        assert_eq!(mc_event(&McEvent { error_count: 32766, ..skx() }).fidelity, Fidelity::Exact);
    }

    #[test]
    fn drivers_that_say_one_per_record_are_sampled() {
        let amd = McEvent { label: "mc#0csrow#2channel#1".into(), error_count: 1, address: 64, ..McEvent::default() };
        let report = mc_event(&amd);
        assert_eq!(report.fidelity, Fidelity::Sampled);
        assert_eq!((report.location.rank, report.location.channel), (Some(2), Some(1)));
        let ghes = McEvent {
            driver_detail: "APEI location: node:0 card:3 module:1 rank:1 bank:2 row:100 col:24 DIMM location:P1 A1 \
                            status(0x0000000000000400): Storage error in DRAM memory"
                .into(),
            ..amd
        };
        let report = mc_event(&ghes);
        assert_eq!((report.fidelity, report.location.controller), (Fidelity::Sampled, None));
        assert_eq!((report.location.row, report.location.column), (Some(100), Some(24)));
    }

    #[test]
    fn nothing_known_is_nothing_claimed() {
        let nothing = mc_event(&McEvent { top_layer: -1, middle_layer: -1, lower_layer: -1, ..McEvent::default() });
        assert_eq!(nothing.location, DramLocation::default());
        assert_eq!(nothing.count, 1);
    }

    #[test]
    fn fatal_and_uncorrected_are_lost_bits_and_deferred_are_not_used_yet() {
        let of = |word| mc_event(&McEvent { error_type: McErrorType::from_word(word).unwrap(), ..skx() }).severity;
        use ErrorSeverity::{Corrected, Deferred, Uncorrected};
        let words = ["Corrected", "Uncorrected", "Deferred", "Fatal", "Info"];
        assert_eq!(words.map(of), [Corrected, Uncorrected, Deferred, Uncorrected, Corrected]);
        assert_eq!(McErrorType::from_word("Catastrophic"), None);
    }
}
