//! The registers of a machine check as the kernel and mcelog print them: words and numbers in turn, in hexadecimal.

use crate::reports::{CpuVendor, MceRecord};
use surefoot_model::Digits;

/// A record that is being gathered from several lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    pub record: MceRecord,
    /// Whether its status was seen, without which it says nothing.
    pub has_status: bool,
    /// Its first line.
    pub line: u64,
    /// Whether the record names the maker of the processor.
    pub is_vendor_told: bool,
    /// The module and the channel in words, which mcelog reads out of `MCi_MISC` for processors whose memory controller tells them there.
    pub module: (Option<u32>, Option<u32>),
}

/// The number after a word, such as `ADDR 1b3f4000` or `STATUS: 0x8c…`.
pub(super) fn hex_after(text: &str, word: &str) -> Option<u64> {
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let is_word =
            rest[..at].chars().next_back().is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '_');
        let after = &rest[at + word.len()..];
        let value = after.trim_start_matches([':', ' ', '=']);
        // "TSC0" is no TSC.
        if is_word && value.len() < after.len() {
            return hex(value);
        }
        rest = after;
    }
    None
}

/// A hexadecimal number at the beginning of a text, with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u64> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(text.len());
    text[..end].hex_digits::<u64>()
}

/// A decimal number after a word.
pub(super) fn decimal_after(text: &str, word: &str) -> Option<u64> {
    let at = text.find(word)?;
    let digits = text[at + word.len()..].trim_start_matches([':', ' ']);
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].digits()
}

impl Gathered {
    /// Takes what a line has of `TSC … ADDR … MISC … SYND … IPID …`.
    pub fn take_registers(&mut self, text: &str) -> bool {
        let record = &mut self.record;
        let registers = [
            ("ADDR", &mut record.addr),
            ("MISC", &mut record.misc),
            ("SYND", &mut record.synd),
            ("IPID", &mut record.ipid),
        ];
        let mut any = text.contains("TSC ");
        for (word, register) in registers {
            if let Some(value) = hex_after(text, word) {
                (*register, any) = (value, true);
            }
        }
        any
    }

    /// Takes `PROCESSOR vendor:cpuid TIME seconds SOCKET n APIC n microcode x`.
    pub fn take_processor(&mut self, text: &str) -> bool {
        let Some((_, rest)) = text.split_once("PROCESSOR ") else { return false };
        let vendor = rest.split(':').next().and_then(|number| number.trim().digits());
        self.record.vendor = vendor.map_or(CpuVendor::Other, CpuVendor::from_number);
        self.is_vendor_told = true;
        if let Some(seconds) = decimal_after(rest, "TIME ") {
            self.record.at_realtime_ns = seconds.saturating_mul(1_000_000_000);
        }
        if let Some(socket) = decimal_after(rest, "SOCKET ") {
            self.record.socketid = u32::try_from(socket).ok();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_by_their_words() {
        let mut gathered = Gathered::default();
        assert!(gathered.take_registers("TSC 5f4d1c6c1c8 ADDR 1b3f4000 MISC 8c SYND 5 IPID 9600350f00 "));
        let record = &gathered.record;
        assert_eq!((record.addr, record.misc, record.synd, record.ipid), (0x1b3f_4000, 0x8c, 5, 0x96_0035_0f00));
        assert!(gathered.take_processor("PROCESSOR 2:a00f11 TIME 1700000000 SOCKET 1 APIC 0 microcode a0011ce"));
        assert_eq!((gathered.record.vendor, gathered.record.socketid), (CpuVendor::Amd, Some(1)));
        assert_eq!(gathered.record.at_realtime_ns, 1_700_000_000_000_000_000);
        assert!(!gathered.take_registers("MICROADDR 5 ADDRX é"));
    }
}
