#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use surefoot_testkit::HostTree;

/// A structure of a type, with its strings.
fn structure(kind: u8, body: &[u8], strings: &[&str]) -> Vec<u8> {
    let mut bytes = vec![kind, 4 + body.len() as u8, 0x11, 0];
    bytes.extend_from_slice(body);
    strings.iter().for_each(|text| bytes.extend(text.bytes().chain([0])));
    bytes.extend_from_slice(if strings.is_empty() { &[0, 0] } else { &[0] });
    bytes
}

/// A memory device with this size field, locator 1, bank 2, maker 3, serial 4, part 5.
fn device(size: u16, extended: u32, strings: &[&str]) -> Vec<u8> {
    let mut body = vec![0_u8; 0x54 - 4];
    body[0x0c - 4..0x0e - 4].copy_from_slice(&size.to_le_bytes());
    body[0x1c - 4..0x20 - 4].copy_from_slice(&extended.to_le_bytes());
    for (at, number) in [(0x10, 1), (0x11, 2), (0x17, 3), (0x18, 4), (0x1a, 5)] {
        body[at - 4] = number;
    }
    structure(17, &body, strings)
}

const STRINGS: [&str; 5] = ["DIMM_A1", "P0_Node0_Channel0_Dimm0", "Samsung", "03A10001", "M393A4K40DB3-CWE  "];

#[test]
fn a_filled_slot_has_its_names_and_its_size() {
    let (found, wrong) = parse(&device(0x4000, 0, &STRINGS));
    assert_eq!(wrong, None);
    let wanted = Installed {
        handle: 0x11,
        locator: "DIMM_A1".into(),
        bank_locator: "P0_Node0_Channel0_Dimm0".into(),
        manufacturer: "Samsung".into(),
        serial: "03A10001".into(),
        part: "M393A4K40DB3-CWE".into(),
        size_bytes: 16 << 30,
    };
    assert_eq!(found, [wanted]);
    for (size, extended, wanted) in
        [(0xffff, 0, 0), (0x7fff, 65_536, 64 << 30), (0x7fff, 0x8001_0000, 64 << 30), (0x8200, 0, 512 << 10)]
    {
        assert_eq!(parse(&device(size, extended, &STRINGS)).0[0].size_bytes, wanted, "{size:#x}");
    }
}

#[test]
fn empty_slots_and_what_comes_behind_the_end_are_no_modules() {
    assert_eq!(parse(&device(0, 0, &STRINGS)), (Vec::new(), None));
    let mut table = structure(127, &[], &[]);
    table.extend(device(0x4000, 0, &STRINGS));
    assert_eq!(parse(&table), (Vec::new(), None));
    assert_eq!(parse(&[]), (Vec::new(), None));
}

#[test]
fn fillers_are_no_serial_numbers() {
    for filler in ["", "Not Specified", "00000000", "0x00000000", "NO DIMM", "FFFFFFFF", "Unknown", "  "] {
        let found = parse(&device(0x4000, 0, &["A", "B", "C", filler, filler])).0;
        // An empty string ends the others.
        assert!(found.first().is_none_or(|slot| slot.serial.is_empty()), "{filler}: {found:?}");
    }
}

#[test]
fn a_table_that_is_cut_gives_what_is_whole_and_says_so() {
    let mut table = device(0x4000, 0, &STRINGS);
    let whole = table.len();
    table.extend(device(0x4000, 0, &STRINGS));
    let (found, wrong) = parse(&table[..table.len() - 3]);
    assert_eq!(found.len(), 1);
    assert!(wrong.unwrap().contains(&format!("at byte {whole} has no end")));
    let mut short = table.clone();
    short[whole + 1] = 3;
    assert!(parse(&short).1.is_some(), "a structure shorter than its head");
    let many = device(0x4000, 0, &STRINGS).repeat(SLOTS_MAX + 5);
    let (found, wrong) = parse(&many);
    assert!(found.len() == SLOTS_MAX && wrong.unwrap().contains("left out"));
}

#[test]
fn a_damaged_entry_point_is_told_and_the_table_read_all_the_same() {
    let table = device(0x4000, 0, &STRINGS);
    for (entry, words) in
        [(&b"_SM3_\x00\x18garbage-and-more-garbage"[..], "check sum"), (b"hello", "neither"), (b"", "neither")]
    {
        let tree = HostTree::new()
            .file("sys/firmware/dmi/tables/DMI", &table)
            .file("sys/firmware/dmi/tables/smbios_entry_point", entry);
        let mut problems = Problems::default();
        assert_eq!(read(&Root::at(tree.path()), &mut problems).len(), 1);
        assert!(problems.list[0].why.contains(words), "{problems:?}");
    }
}

#[test]
fn a_table_of_any_length_is_within_the_limit_or_refused() {
    let tree = HostTree::new().file("sys/firmware/dmi/tables/DMI", vec![1; TABLE_BYTES_MAX + 1]);
    let mut problems = Problems::default();
    assert!(read(&Root::at(tree.path()), &mut problems).is_empty());
    assert!(problems.list[0].why.contains("longer than"), "{problems:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (found, _) = parse(&bytes);
        for slot in &found {
            prop_assert!([&slot.locator, &slot.serial, &slot.part].iter().all(|text| !text.contains(char::is_control)));
        }
    }

    #[test]
    fn any_damage_of_a_good_table_is_read_without_harm(at in 0..200_usize, byte in any::<u8>()) {
        let mut table = device(0x7fff, 65_536, &STRINGS).repeat(2);
        let at = at % table.len();
        table[at] = byte;
        prop_assert!(parse(&table).0.len() <= 2);
    }
}

/// The oracle: dmidecode reads the tables of the fixtures, where it is installed.
#[test]
fn dmidecode_reads_the_same() {
    let name = "dmidecode_reads_the_same";
    let mut compared = 0;
    for fixture in ["intel-icelake-16dimm", "hpe-ghes-4dimm"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{fixture}.tree"));
        let tree = HostTree::unpacked(path);
        let ours = read(&Root::at(tree.path()), &mut Problems::default());
        let Some(theirs) = dmidecode(&tree) else {
            surefoot_testkit::not_run::not_run(name, "dmidecode is not installed");
            return;
        };
        let told: Vec<[String; 4]> = ours
            .iter()
            .map(|slot| [slot.locator.clone(), slot.bank_locator.clone(), slot.serial.clone(), slot.part.clone()])
            .collect();
        assert_eq!(told, theirs);
        compared += told.len();
    }
    assert_eq!(compared, 20);
}

/// Locator, bank, serial and part of the filled slots, as dmidecode prints them.
fn dmidecode(tree: &HostTree) -> Option<Vec<[String; 4]>> {
    let file = |name: &str| std::fs::read(tree.path().join("sys/firmware/dmi/tables").join(name)).unwrap();
    // Its dumps have the entry point first, with the table at byte 32.
    let mut dump = file("smbios_entry_point");
    dump[16..24].copy_from_slice(&32_u64.to_le_bytes());
    dump[5] = 0;
    dump[5] = dump.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
    dump.resize(32, 0);
    dump.extend(file("DMI"));
    let path = tree.path().join("dump");
    std::fs::write(&path, dump).unwrap();
    let program = ["/usr/sbin/dmidecode", "dmidecode"].into_iter().find_map(|program| {
        std::process::Command::new(program).args(["-t", "17", "--from-dump"]).arg(&path).output().ok()
    })?;
    let text = String::from_utf8(program.stdout).unwrap();
    let devices = text.split("Memory Device\n").skip(1).filter(|device| !device.contains("No Module Installed"));
    let field = |device: &str, name: &str| {
        let line = device.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default().to_owned()
    };
    Some(
        devices
            .map(|device| ["Locator", "Bank Locator", "Serial Number", "Part Number"].map(|name| field(device, name)))
            .collect(),
    )
}
