//! `key:value` pairs in the text of drivers.
//!
//! | who | how |
//! |---|---|
//! | skx, i10nm without ADXL | `ProcessorSocketId:0x0 … Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1`; before 5.19 `socket:0 imc:1 rank:0 bg:1 ba:2 row:0x1a2b col:0x3f8` |
//! | skx, i10nm with ADXL | names of the firmware: `ProcessorSocketId ChannelId DimmSlotId PhysicalRankId Row Column Bank BankGroup` … |
//! | sb_edac | `area:DRAM err_code:0001:0090 socket:0 ha:0 channel_mask:1 rank:1` |
//! | ghes_edac | `APEI location: node:0 card:1 module:0 rank:1 bank:2 row:100 col:24 bit_pos:3 …` |
//! | the kernel's print of a CPER | `node: 0 card: 1 module: 0 rank: 1 bank: 2 row: 100 column: 24` |

use surefoot_model::{Digits, DramLocation};

/// The longest text that is searched, bytes; drivers have buffers of 1,024.
const TEXT_BYTES_MAX: usize = 4096;

/// The pairs of a text, in order. Values that are no number are left out.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let text = &text[..end];
    text.match_indices(':').filter_map(move |(colon, _)| {
        let before = &text[..colon];
        let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let begin = before.rfind(|letter| !is_of_key(letter)).map_or(0, |at| at + last_len(before, at));
        let key = &before[begin..];
        let value = text[colon + 1..].trim_start_matches(' ');
        if key.is_empty() { None } else { number(value).map(|value| (key, value)) }
    })
}

/// How many bytes the letter at this place has.
fn last_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// The number that a text begins with: decimal, or hexadecimal after `0x`. It must end where the word ends.
pub(crate) fn number(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    let word = &text[..end];
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => digits.hex_digits::<u64>(),
        None => word.digits(),
    }
}

/// The DRAM coordinates that a text tells, in the words of any of the drivers.
pub(crate) fn location(text: &str) -> DramLocation {
    let mut found = DramLocation::default();
    // Both names of the bank's number in its group are told by some firmware; `bank_address` is the exact one.
    let mut bank_address = None;
    for (key, value) in pairs(text) {
        // Firmware marks what it does not know by all bits set.
        let Some(value) = u32::try_from(value).ok().filter(|&value| value != u32::MAX) else { continue };
        let place = match key.to_ascii_lowercase().as_str() {
            "processorsocketid" | "socket" | "node" => &mut found.socket,
            "memorycontrollerid" | "imc" => &mut found.controller,
            "channelid" | "channel" | "card" => &mut found.channel,
            "dimmslotid" | "slot" | "dimm" | "module" => &mut found.slot,
            "physicalrankid" | "rank" | "csrow" => &mut found.rank,
            "bankgroup" | "bg" | "bank_group" => &mut found.bank_group,
            "bank" | "ba" => &mut found.bank,
            "bank_address" => &mut bank_address,
            "row" => &mut found.row,
            "column" | "col" => &mut found.column,
            _ => continue,
        };
        *place = Some(value);
    }
    found.bank = bank_address.or(found.bank);
    found
}

/// What is known of either; the first goes first.
pub(crate) fn merged(first: DramLocation, second: DramLocation) -> DramLocation {
    DramLocation {
        socket: first.socket.or(second.socket),
        controller: first.controller.or(second.controller),
        channel: first.channel.or(second.channel),
        slot: first.slot.or(second.slot),
        rank: first.rank.or(second.rank),
        bank_group: first.bank_group.or(second.bank_group),
        bank: first.bank.or(second.bank),
        row: first.row.or(second.row),
        column: first.column.or(second.column),
        address: first.address.or(second.address),
        grain_bits: first.grain_bits.or(second.grain_bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_driver_is_read() {
        let skx = location(
            " OVERFLOW err_code:0x0101:0x0090 ProcessorSocketId:0x1 MemoryControllerId:0x0 PhysicalRankId:0x4 Row:0x1a2b \
             Column:0x3f8 Bank:0x2 BankGroup:0x1",
        );
        let expected = DramLocation {
            socket: Some(1),
            controller: Some(0),
            rank: Some(4),
            row: Some(0x1a2b),
            column: Some(0x3f8),
            bank: Some(2),
            bank_group: Some(1),
            ..DramLocation::default()
        };
        assert_eq!(skx, expected);
        let before = location(" err_code:0x0101:0x0090 socket:1 imc:0 rank:4 bg:1 ba:2 row:0x1a2b col:0x3f8");
        assert_eq!(before, expected);
        let adxl = location(
            "err_code:0x0101:0x0090  ProcessorSocketId:0x1 MemoryControllerId:0x0 ChannelAddress:0xabcdef0 ChannelId:0x1 \
             RankAddress:0x5 PhysicalRankId:0x4 DimmSlotId:0x0 DimmRankId:0x0 Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1",
        );
        assert_eq!(adxl, DramLocation { channel: Some(1), slot: Some(0), ..expected });
        let ghes =
            location("APEI location: node:0 card:3 module:1 rank:1 bank:2 row:100 col:24 bit_pos:3 status(0x400): x");
        assert_eq!(
            (ghes.socket, ghes.channel, ghes.slot, ghes.rank, ghes.bank, ghes.row, ghes.column),
            (Some(0), Some(3), Some(1), Some(1), Some(2), Some(100), Some(24))
        );
        let cper = location("node: 0 card: 3 bank: 258 bank_group: 1 bank_address: 2 row: 100 column: 24");
        assert_eq!((cper.bank_group, cper.bank, cper.row, cper.column), (Some(1), Some(2), Some(100), Some(24)));
    }

    #[test]
    fn what_firmware_does_not_know_is_left_out() {
        assert_eq!(location("Row:0xffffffff Column:0xffffffffffffffff Bank:x BankGroup:0x"), DramLocation::default());
        assert_eq!(location(":0x1 ::2 é:3"), DramLocation::default());
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC*", colons in "[a-zé:0-9x ]{0,80}") {
            let _ = location(&text);
            let _ = location(&colons);
        }
    }
}
