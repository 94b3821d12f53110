//! `mce:mce_record`: the registers of a machine-check bank.
//!
//! Only records of a memory controller are reports of memory; those of caches, buses and other units are `None`, because nothing
//! in them leads to a module. Sources: Intel SDM volume 3B, "Machine-Check Architecture"; AMD's Processor Programming
//! References, "MCA Registers" and "MCA_IPID"; `mce_is_memory_error` and `amd64_edac` in the kernel.

use super::mc_event::STATUS_COUNT_MAX;
use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource};

/// Who made the processor, as far as its records differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CpuVendor {
    /// Intel, and Zhaoxin, whose records follow Intel's.
    #[default]
    Intel,
    /// AMD and Hygon.
    Amd,
    /// Anyone else.
    Other,
}

impl CpuVendor {
    /// `cpuvendor` of the event: the kernel's `X86_VENDOR_*`.
    pub fn from_number(number: u64) -> CpuVendor {
        match number {
            // Intel, Centaur, Zhaoxin.
            0 | 5 | 10 => CpuVendor::Intel,
            // AMD, Hygon.
            2 | 9 => CpuVendor::Amd,
            _ => CpuVendor::Other,
        }
    }
}

/// The fields of the event, named as the kernel names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MceRecord {
    /// `CLOCK_MONOTONIC`; `None` for what was recorded before.
    pub at_ns: Option<u64>,
    /// `CLOCK_REALTIME`, nanoseconds: `walltime` has whole seconds only; 0 where it is not known.
    pub at_realtime_ns: u64,
    /// `IA32_MCG_CAP`.
    pub mcgcap: u64,
    /// `IA32_MCG_STATUS`.
    pub mcgstatus: u64,
    /// `MCi_STATUS`.
    pub status: u64,
    /// `MCi_ADDR`.
    pub addr: u64,
    /// `MCi_MISC`.
    pub misc: u64,
    /// `MCA_SYND`; 0 but on AMD.
    pub synd: u64,
    /// `MCA_IPID`; 0 but on AMD.
    pub ipid: u64,
    /// Core that read the bank; `None` where it is not known, as with the next two.
    pub cpu: Option<u32>,
    /// Socket.
    pub socketid: Option<u32>,
    /// Number of the bank.
    pub bank: Option<u32>,
    /// Who made the processor.
    pub vendor: CpuVendor,
}

/// `MCi_STATUS` and what its bits mean.
mod status {
    pub const VALID: u64 = 1 << 63;
    pub const OVER: u64 = 1 << 62;
    pub const UC: u64 = 1 << 61;
    pub const MISCV: u64 = 1 << 59;
    pub const ADDRV: u64 = 1 << 58;
    pub const PCC: u64 = 1 << 57;
    /// Intel: software must act before it goes on.
    pub const AR: u64 = 1 << 55;
    /// AMD: the syndrome register is valid.
    pub const SYNDV: u64 = 1 << 53;
    /// AMD: bad bits that nobody has used yet.
    pub const DEFERRED: u64 = 1 << 44;
    /// AMD: bad bits that somebody has used.
    pub const POISON: u64 = 1 << 43;
}

/// `IA32_MCG_CAP`: the processor counts corrected errors in `MCi_STATUS`.
const MCG_CMCI_P: u64 = 1 << 10;
/// `IA32_MCG_CAP`: it tells errors that need no action from those that do.
const MCG_SER_P: u64 = 1 << 24;

/// What is read of a bank of either maker.
struct Bank {
    severity: ErrorSeverity,
    count: u32,
    fidelity: Fidelity,
    location: DramLocation,
    what: String,
}

impl MceRecord {
    /// Why it cannot be told what the record is of; `None` where it can.
    pub fn lacks(&self) -> Option<&'static str> {
        match self.vendor {
            CpuVendor::Other => Some("a machine check of a processor whose records Surefoot cannot read"),
            // One of the northbridge is known by its bank alone.
            CpuVendor::Amd if self.ipid == 0 && self.bank.is_none() => {
                Some("a machine check without the number of its bank, which says what it is of")
            }
            CpuVendor::Amd | CpuVendor::Intel => None,
        }
    }
}

/// The report that a record is; `None` where it is not valid or not about memory.
pub fn mce_record(record: &MceRecord) -> Option<ErrorReport> {
    if record.status & status::VALID == 0 {
        return None;
    }
    let Bank { severity, count, fidelity, mut location, what } = match record.vendor {
        CpuVendor::Intel => intel(record)?,
        CpuVendor::Amd => amd(record)?,
        CpuVendor::Other => return None,
    };
    location.socket = record.socketid;
    let number = |number: Option<u32>| number.map_or("not told".to_owned(), |number| number.to_string());
    let (bank, cpu) = (number(record.bank), number(record.cpu));
    let detail = format!("{what}; bank {bank}, status {:#018x}, CPU {cpu}", record.status);
    Some(ErrorReport {
        at_realtime_ns: record.at_realtime_ns,
        at_ns: record.at_ns,
        source: MemorySource::MceRecord,
        severity,
        dimm: None,
        label: String::new(),
        count,
        fidelity,
        location,
        detail,
    })
}

fn intel(record: &MceRecord) -> Option<Bank> {
    let bits = record.status;
    let code = bits & 0xffff;
    // 000F 0000 1MMM CCCC; with bit 9, memory that another memory caches. F is not part of the code.
    if !matches!(code & 0xef80, 0x80 | 0x280) {
        return None;
    }
    let transaction = match code >> 4 & 7 {
        1 => "memory read error",
        2 => "memory write error",
        3 => "address or command error",
        4 => "memory scrubbing error",
        _ => "memory error",
    };
    let channel = u32::try_from(code & 0xf).ok().filter(|&channel| channel != 0xf);
    let severity = if bits & status::UC == 0 {
        ErrorSeverity::Corrected
    } else if record.mcgcap & MCG_SER_P != 0 && bits & (status::PCC | status::AR) == 0 {
        // Found by a scrubber or on its way to a cache: nobody has used it.
        ErrorSeverity::Deferred
    } else {
        ErrorSeverity::Uncorrected
    };
    let (count, fidelity) = intel_count(record, severity);
    Some(Bank {
        severity,
        count,
        fidelity,
        location: DramLocation { channel, ..intel_address(record) },
        what: transaction.to_owned(),
    })
}

fn intel_count(record: &MceRecord, severity: ErrorSeverity) -> (u32, Fidelity) {
    let is_over = record.status & status::OVER != 0;
    if severity != ErrorSeverity::Corrected {
        return (1, if is_over { Fidelity::LowerBound } else { Fidelity::Exact });
    }
    // Rasdaemon's database keeps the capabilities of older kernels as 0; then a count that is there is believed.
    let counted = (record.status >> 38) as u32 & STATUS_COUNT_MAX;
    let can_count = record.mcgcap == 0 || record.mcgcap & MCG_CMCI_P != 0;
    match (can_count, counted) {
        (false, _) => (1, Fidelity::Sampled),
        (true, counted) if is_over || counted == STATUS_COUNT_MAX => (counted.max(1), Fidelity::LowerBound),
        (true, counted) => (counted.max(1), Fidelity::Exact),
    }
}

/// The physical address, where the record says that it is one.
fn intel_address(record: &MceRecord) -> DramLocation {
    let has = |bit| record.status & bit != 0;
    if !has(status::ADDRV) || record.addr == 0 {
        return DramLocation::default();
    }
    // Without MISC nobody says which kind of address it is, and a page of another address may be taken out of use for it.
    if !has(status::MISCV) {
        return DramLocation::default();
    }
    // Bits 8:6: 2 is a physical address, 1 linear, 0 an offset, 3 a memory address that the host does not know.
    if record.misc >> 6 & 7 != 2 {
        return DramLocation::default();
    }
    let grain_bits = (record.misc & 0x3f) as u8;
    let address = record.addr.checked_shr(grain_bits.into()).map_or(0, |high| high << grain_bits);
    DramLocation { address: Some(address), grain_bits: Some(grain_bits), ..DramLocation::default() }
}

/// Hardware ID of AMD's unified memory controllers, `MCA_IPID` bits 43:32.
const UMC_HWID: u64 = 0x96;

fn amd(record: &MceRecord) -> Option<Bank> {
    let bits = record.status;
    let extended = bits >> 16 & 0x3f;
    let location = if record.ipid != 0 {
        let (hwid, kind) = (record.ipid >> 32 & 0xfff, record.ipid >> 48);
        // Types 0 and 1 are both generations of the controller; extended code 0 is an error of DRAM, others are of its own
        // queues and links.
        if hwid != UMC_HWID || kind > 1 || extended != 0 {
            return None;
        }
        let rank = (bits & status::SYNDV != 0).then_some((record.synd & 7) as u32);
        let channel = Some((record.ipid as u32) >> 20);
        // The address counts from the start of the channel; only the kernel's driver can make a physical one of it.
        DramLocation { channel, rank, ..DramLocation::default() }
    } else {
        // Before family 17h the northbridge reports in bank 4.
        if record.bank != Some(4) || extended != 8 {
            return None;
        }
        let has_address = bits & status::ADDRV != 0 && record.addr != 0;
        DramLocation { address: has_address.then_some(record.addr), ..DramLocation::default() }
    };
    let severity = if bits & status::DEFERRED != 0 {
        ErrorSeverity::Deferred
    } else if bits & (status::UC | status::POISON | status::PCC) != 0 {
        ErrorSeverity::Uncorrected
    } else {
        ErrorSeverity::Corrected
    };
    // The counter in MISC runs from where the threshold set it, for all severities; a record is one error of it.
    let fidelity = if bits & status::OVER != 0 { Fidelity::LowerBound } else { Fidelity::Sampled };
    Some(Bank { severity, count: 1, fidelity, location, what: "DRAM ECC error".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The record that the facts give for mce-inject: valid, MISCV, ADDRV, one corrected read error on channel 2.
    fn read_error() -> MceRecord {
        MceRecord {
            at_realtime_ns: 9,
            mcgcap: 0x0f00_0c14,
            status: 0x8c00_0040_0001_0092,
            addr: 0x12_3456_7040,
            misc: 0x8c,
            cpu: Some(0),
            socketid: Some(1),
            bank: Some(7),
            ..MceRecord::default()
        }
    }

    #[test]
    fn a_corrected_read_error_has_its_channel_count_and_address() {
        let report = mce_record(&read_error()).unwrap();
        assert_eq!((report.count, report.fidelity, report.severity), (1, Fidelity::Exact, ErrorSeverity::Corrected));
        // MISC 0x8c: physical, grain 12.
        let location = DramLocation {
            socket: Some(1),
            channel: Some(2),
            address: Some(0x12_3456_7000),
            grain_bits: Some(12),
            ..DramLocation::default()
        };
        assert_eq!(report.location, location);
        assert!(report.detail.starts_with("memory read error; bank 7, status 0x8c00004000010092"), "{}", report.detail);
    }

    #[test]
    fn the_count_is_bits_52_to_38_and_says_when_it_is_full() {
        let with = |bits| mce_record(&MceRecord { status: bits, ..read_error() }).unwrap();
        let counted = |count: u64| 0x8c00_0000_0001_0092 | count << 38;
        assert_eq!((with(counted(300)).count, with(counted(300)).fidelity), (300, Fidelity::Exact));
        assert_eq!((with(counted(0x7fff)).count, with(counted(0x7fff)).fidelity), (32767, Fidelity::LowerBound));
        assert_eq!(with(counted(300) | 1 << 62).fidelity, Fidelity::LowerBound);
        let cannot = MceRecord { mcgcap: 0x14, status: counted(300), ..read_error() };
        assert_eq!(mce_record(&cannot).map(|report| (report.count, report.fidelity)), Some((1, Fidelity::Sampled)));
    }

    #[test]
    fn an_address_that_is_not_physical_is_none() {
        let linear = mce_record(&MceRecord { misc: 0x4c, ..read_error() }).unwrap();
        assert_eq!(linear.location.address, None);
        let invalid = mce_record(&MceRecord { status: 0x8800_0040_0001_0092, ..read_error() }).unwrap();
        assert_eq!(invalid.location.address, None);
    }

    #[test]
    fn uncorrected_errors_are_told_by_whether_somebody_used_them() {
        let of =
            |bits| mce_record(&MceRecord { status: bits, mcgcap: 1 << 24, ..read_error() }).map(|one| one.severity);
        let uc = 0x8c00_0000_0001_0092 | status::UC;
        assert_eq!(of(uc), Some(ErrorSeverity::Deferred));
        assert_eq!(of(uc | status::AR), Some(ErrorSeverity::Uncorrected));
        assert_eq!(of(uc | status::PCC), Some(ErrorSeverity::Uncorrected));
    }

    #[test]
    fn what_is_not_memory_is_none() {
        // Not valid; a cache; a bus.
        for bits in [0x0c00_0040_0001_0092u64, 0x8c00_0040_0000_0134, 0x8c00_0040_0000_0e0b] {
            assert_eq!(mce_record(&MceRecord { status: bits, ..read_error() }), None, "{bits:#x}");
        }
        assert_eq!(mce_record(&MceRecord { vendor: CpuVendor::Other, ..read_error() }), None);
    }

    #[test]
    fn a_memory_controller_of_amd_is_told_by_its_ipid() {
        let umc = MceRecord {
            vendor: CpuVendor::Amd,
            status: status::VALID | status::ADDRV | status::SYNDV | 0x0000_011b,
            addr: 0x5000,
            ipid: 0x96_0030_0000 | 0xf00,
            synd: 0x5,
            bank: Some(18),
            ..MceRecord::default()
        };
        let report = mce_record(&umc).unwrap();
        assert_eq!((report.location.channel, report.location.rank, report.location.address), (Some(3), Some(5), None));
        assert_eq!((report.severity, report.fidelity), (ErrorSeverity::Corrected, Fidelity::Sampled));
        let deferred = MceRecord { status: umc.status | status::DEFERRED, ..umc.clone() };
        assert_eq!(mce_record(&deferred).map(|one| one.severity), Some(ErrorSeverity::Deferred));
        // The second generation of the controller; a link of it; a core.
        assert!(mce_record(&MceRecord { ipid: umc.ipid | 1 << 48, ..umc.clone() }).is_some());
        assert_eq!(mce_record(&MceRecord { status: umc.status | 4 << 16, ..umc.clone() }), None);
        assert_eq!(mce_record(&MceRecord { ipid: 0xb0_0000_0000, ..umc }), None);
    }

    proptest! {
        #[test]
        fn no_registers_do_harm(status: u64, addr: u64, misc: u64, ipid: u64, synd: u64, vendor in 0u64..12, bank: Option<u32>) {
            let vendor = CpuVendor::from_number(vendor);
            let record = MceRecord { status, addr, misc, ipid, synd, vendor, bank, ..MceRecord::default() };
            if let Some(report) = mce_record(&record) {
                prop_assert!(report.count >= 1);
            }
        }
    }
}
