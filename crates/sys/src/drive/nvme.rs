//! The log pages in which an NVMe drive counts its wear: parsed here, asked for by one small function.
//!
//! Fields, units and offsets are those of the NVM Express Base Specification 2.0, sections 5.16.1.3 (SMART / Health
//! Information, log 02h) and 5.16.1.10 (Endurance Group Information, log 09h).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Bytes of either log page.
pub const LOG_BYTES: usize = 512;

/// A data unit of log 02h: a thousand blocks of 512 bytes.
const HEALTH_UNIT_BYTES: u128 = 512_000;

/// A unit of log 09h.
const ENDURANCE_UNIT_BYTES: u128 = 1_000_000_000;

/// No drive has written more; what a page says beyond is no count.
const BYTES_MAX: u128 = 1 << 63;

/// A hundred years: no drive was on for longer.
const HOURS_MAX: u128 = 876_600;

/// Endurance logs count in units of 1e9 bytes: below so many units the quotient of two counts says little.
const UNITS_FOR_RATIO: u128 = 100;

/// Log page 02h: what the whole drive counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthLog {
    /// What the drive warns of, a bit for each.
    pub critical_warning: u8,
    /// The drive's estimate of its life used; 100 is the end of the maker's prediction, and 255 is where it stops.
    pub percent_used: u8,
    /// Spare flash left, percent; `None` where the page says what is no share.
    pub spare_percent: Option<u8>,
    /// Bytes that hosts wrote; `None` where the drive does not count.
    pub written_bytes: Option<u64>,
    /// Errors of the medium that were not corrected.
    pub media_error_count: u64,
    /// Hours switched on; `None` where the page says what cannot be.
    pub power_on_hours: Option<u64>,
}

impl HealthLog {
    /// Reads a page.
    ///
    /// # Errors
    /// Why these bytes are no such page, in words.
    pub fn parse(page: &[u8]) -> Result<Self, &'static str> {
        check(page)?;
        let written = number(page, 48).saturating_mul(HEALTH_UNIT_BYTES);
        let hours = number(page, 128);
        Ok(HealthLog {
            critical_warning: page[0],
            percent_used: page[5],
            spare_percent: Some(page[3]).filter(|&percent| percent <= 100),
            written_bytes: counted(written),
            media_error_count: u64::try_from(number(page, 160)).unwrap_or(u64::MAX),
            power_on_hours: (hours <= HOURS_MAX).then_some(hours as u64),
        })
    }
}

/// Log page 09h: what one endurance group counts. A zero says that the drive does not report a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnduranceLog {
    /// Bytes that may be written over the group's life where none is written twice.
    pub estimate_bytes: Option<u64>,
    /// Bytes that hosts wrote.
    pub written_bytes: Option<u64>,
    /// Bytes that went to the flash.
    pub media_written_bytes: Option<u64>,
}

impl EnduranceLog {
    /// Reads a page.
    ///
    /// # Errors
    /// Why these bytes are no such page, in words.
    pub fn parse(page: &[u8]) -> Result<Self, &'static str> {
        check(page)?;
        let bytes = |at| counted(number(page, at).saturating_mul(ENDURANCE_UNIT_BYTES));
        Ok(EnduranceLog { estimate_bytes: bytes(32), written_bytes: bytes(64), media_written_bytes: bytes(80) })
    }

    /// Bytes to the flash over bytes from hosts; `None` where there is too little to divide, or the quotient cannot be.
    pub fn write_amplification(&self) -> Option<f64> {
        let (host, media) = (self.written_bytes?, self.media_written_bytes?);
        let is_enough = u128::from(host.min(media)) >= UNITS_FOR_RATIO * ENDURANCE_UNIT_BYTES;
        // Drives that compress write less than they get; nothing writes a thousand times as much.
        Some(media as f64 / host as f64).filter(|ratio| is_enough && (0.01..=1_000.0).contains(ratio))
    }
}

fn check(page: &[u8]) -> Result<(), &'static str> {
    match page {
        page if page.len() < LOG_BYTES => Err("the log page is cut"),
        page if page.iter().all(|&byte| byte == 0xFF) => Err("the log page is all ones, as of a drive that is gone"),
        _ => Ok(()),
    }
}

/// A count in bytes that can be: neither zero, which stands for not reported, nor beyond anything.
fn counted(bytes: u128) -> Option<u64> {
    (bytes > 0 && bytes <= BYTES_MAX).then_some(bytes as u64)
}

/// The 16-byte number, lowest byte first, at this offset of a page whose length was checked.
fn number(page: &[u8], at: usize) -> u128 {
    page[at..at + 16].iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// `struct nvme_admin_cmd` of <linux/nvme_ioctl.h>, 72 bytes.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const ADMIN_IOCTL: libc::Ioctl = libc::_IOWR::<AdminCommand>(b'N' as u32, 0x41);

/// The kernel ends a command that takes longer.
const TIMEOUT_MS: u32 = 5_000;

const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const ALL_NAMESPACES: u32 = 0xFFFF_FFFF;

/// The pages of one drive, or why there is none.
#[derive(Debug)]
pub struct Logs {
    /// Log 02h.
    pub health: io::Result<Vec<u8>>,
    /// Log 09h; `None` where the drive has no endurance groups.
    pub endurance: Option<io::Result<Vec<u8>>>,
}

/// Asks the drive behind a block device such as /dev/nvme0n1; its namespace is `namespace`, 0 where that is not known.
/// May take as long as the kernel lets a drive take, so it belongs on a thread that nobody waits for without a limit.
///
/// # Errors
/// When the device cannot be opened; most often CAP_SYS_ADMIN is missing.
pub fn logs(device: &Path, namespace: u32) -> io::Result<Logs> {
    let file = surefoot_hostfs::open(device)?;
    let health = log_page(&file, 0x02, 0);
    // Byte 102 of the namespace's description names its endurance group; 0 is none.
    let group = match namespace {
        0 => 0,
        _ => identify_namespace(&file, namespace).map_or(0, |page| u16::from_le_bytes([page[102], page[103]])),
    };
    Ok(Logs { health, endurance: (group != 0).then(|| log_page(&file, 0x09, group)) })
}

fn log_page(file: &File, page: u8, specific: u16) -> io::Result<Vec<u8>> {
    let last_word = (LOG_BYTES / 4 - 1) as u32;
    let mut words = [0; 6];
    words[0] = u32::from(page) | last_word << 16;
    words[1] = u32::from(specific) << 16;
    admin(file, GET_LOG_PAGE, ALL_NAMESPACES, words, LOG_BYTES)
}

fn identify_namespace(file: &File, namespace: u32) -> io::Result<Vec<u8>> {
    admin(file, IDENTIFY, namespace, [0; 6], 4096)
}

/// One command that reads `bytes` bytes from the drive and changes nothing on it.
fn admin(file: &File, opcode: u8, namespace: u32, words_10_15: [u32; 6], bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; bytes];
    let mut command = AdminCommand {
        opcode,
        namespace,
        address: buffer.as_mut_ptr() as u64,
        data_bytes: bytes as u32,
        words_10_15,
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the descriptor is open, the command is laid out as the kernel's, and the buffer that it names has the length
    // that it names and outlives the call.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_IOCTL, &raw mut command) };
    match answer {
        0 => Ok(buffer),
        status if status > 0 => Err(io::Error::other(format!("the drive refused with status {status:#06x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// A page after Figure 207 of the NVM Express Base Specification 2.0: byte 3 available spare, 5 percentage used, 47:32
    /// data units read, 63:48 data units written, 143:128 power-on hours, 175:160 media errors.
    fn health_page(units: u128, hours: u128) -> Vec<u8> {
        let mut page = vec![0; LOG_BYTES];
        (page[0], page[3], page[4], page[5]) = (0x01, 97, 10, 112);
        page[32..48].copy_from_slice(&0xABCDu128.to_le_bytes());
        page[48..64].copy_from_slice(&units.to_le_bytes());
        page[128..144].copy_from_slice(&hours.to_le_bytes());
        page[160..176].copy_from_slice(&3u128.to_le_bytes());
        page
    }

    /// A page after Figure 217: 47:32 endurance estimate, 63:48 data units read, 79:64 data units written, 95:80 media
    /// units written.
    fn endurance_page(estimate: u128, written: u128, media: u128) -> Vec<u8> {
        let mut page = vec![0; LOG_BYTES];
        for (at, value) in [(32, estimate), (48, 0x77), (64, written), (80, media)] {
            page[at..at + 16].copy_from_slice(&u128::to_le_bytes(value));
        }
        page
    }

    #[test]
    fn the_command_is_as_long_as_the_kernels() {
        assert_eq!((size_of::<AdminCommand>(), std::mem::offset_of!(AdminCommand, words_10_15)), (72, 40));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(ADMIN_IOCTL, 0xC048_4E41);
    }

    #[test]
    fn counts_stand_where_the_specification_puts_them() {
        let health = HealthLog::parse(&health_page(1_000_000, 12_345)).unwrap();
        let wanted = HealthLog {
            critical_warning: 0x01,
            percent_used: 112,
            spare_percent: Some(97),
            written_bytes: Some(512_000_000_000),
            media_error_count: 3,
            power_on_hours: Some(12_345),
        };
        assert_eq!(health, wanted);
        let endurance = EnduranceLog::parse(&endurance_page(3_000_000, 100_000, 250_000)).unwrap();
        assert_eq!(endurance.estimate_bytes, Some(3_000_000_000_000_000));
        assert_eq!(endurance.written_bytes, Some(100_000_000_000_000));
        assert_eq!(endurance.media_written_bytes, Some(250_000_000_000_000));
        assert_eq!(endurance.write_amplification(), Some(2.5));
    }

    #[test]
    fn what_is_not_reported_or_cannot_be_is_not_known() {
        let health = HealthLog::parse(&health_page(0, u128::MAX)).unwrap();
        assert_eq!((health.written_bytes, health.power_on_hours), (None, None));
        assert_eq!(HealthLog::parse(&health_page(u128::MAX, 0)).unwrap().written_bytes, None);
        let mut page = health_page(1, 1);
        (page[3], page[5]) = (101, 255);
        let health = HealthLog::parse(&page).unwrap();
        assert_eq!((health.spare_percent, health.percent_used), (None, 255));
        for (written, media) in [(0, 5_000), (5_000, 0), (99, 5_000), (1_000, 2_000_000), (u128::MAX, 1)] {
            let page = EnduranceLog::parse(&endurance_page(0, written, media)).unwrap();
            assert_eq!((page.write_amplification(), page.estimate_bytes), (None, None), "{written} {media}");
        }
    }

    #[test]
    fn a_cut_page_and_one_of_ones_are_refused() {
        for bytes in 0..LOG_BYTES {
            let page = &health_page(1, 1)[..bytes];
            assert!(HealthLog::parse(page).is_err() && EnduranceLog::parse(page).is_err(), "{bytes}");
        }
        assert!(HealthLog::parse(&[0xFF; LOG_BYTES]).unwrap_err().contains("gone"));
        assert!(EnduranceLog::parse(&[0xFF; LOG_BYTES]).is_err());
    }

    proptest! {
        #[test]
        fn no_page_makes_a_parser_panic_or_say_what_cannot_be(page in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(health) = HealthLog::parse(&page) {
                prop_assert!(health.spare_percent.is_none_or(|percent| percent <= 100));
                prop_assert!(health.power_on_hours.is_none_or(|hours| u128::from(hours) <= HOURS_MAX));
            }
            if let Ok(endurance) = EnduranceLog::parse(&page) {
                prop_assert!(endurance.write_amplification().is_none_or(|ratio| ratio.is_finite() && ratio > 0.0));
            }
        }
    }

    #[test]
    fn what_is_no_nvme_drive_is_refused_by_the_kernel() {
        let zero = logs(Path::new("/dev/zero"), 1).unwrap();
        assert!(zero.health.is_err() && zero.endurance.is_none());
        assert!(logs(Path::new("/nowhere/nvme0n1"), 1).is_err());
    }
}
