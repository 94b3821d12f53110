#![allow(clippy::unwrap_used)]

use super::*;
use std::fs::{self, File};
use std::io::Write;
use surefoot_random::Random;
use surefoot_testkit::HostTree;

/// This test's own file: large, with a table of frames and an index, and what runs is inside of it.
fn own_image() -> Image {
    Image::read(&mut &File::open("/proc/self/exe").unwrap()).unwrap()
}

fn own_bytes() -> Vec<u8> {
    fs::read("/proc/self/exe").unwrap()
}

fn image_of(bytes: &[u8]) -> Result<Image, Fault> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Image::read(&mut &file)
}

#[inline(never)]
fn marker(number: u64) -> u64 {
    std::hint::black_box(number).wrapping_mul(3)
}

#[test]
fn the_description_of_a_function_of_this_program_is_found() {
    let image = own_image();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let address = marker as *const () as u64;
    let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
    let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address)).unwrap();
    let bias = image.bias(mapping.start, mapping.offset).unwrap();
    assert!(image.description(address - bias).is_some());
    assert_eq!(image.description(0), None, "before the first function there is none");
    // One step up from the function's first instruction, where the return address is on top of the stack.
    let copy = UserCopy {
        ip: address,
        sp: 0x7000,
        stack: [0xABCDu64, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect(),
        ..UserCopy::default()
    };
    let mut context = UnwindContext::new();
    let caller = walk::by_description(&image, &mut context, &copy, &Registers::of(&copy), address - bias).unwrap();
    assert_eq!((caller.registers.address(), caller.interrupted), (Some(0xABCD), false));
    assert_eq!(marker(2), 6);
}

#[test]
fn code_that_no_file_describes_is_walked_by_frame_pointers_within_the_copied_bytes() {
    let words = [0u64, 0x7030, 0xAAAA, 0, 0, 0, 0x7010, 0xBBBB];
    let copy = UserCopy {
        ip: 0x1000,
        sp: 0x7000,
        bp: 0x7008,
        stack: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        ..UserCopy::default()
    };
    let tree = HostTree::new().file("proc/7/maps", "");
    let mut unwinder = Unwinder::new(&Root::at(tree.path()));
    // The second frame pointer leads back down, which ends the walk.
    assert_eq!(unwinder.unwind((7, 0), &copy).frames, [0x1000, 0xAAAA, 0xBBBB]);
    let outside = UserCopy { bp: 0x9000, ..copy.clone() };
    assert_eq!(unwinder.unwind((7, 0), &outside).frames, [0x1000]);
    assert_eq!(unwinder.unwind((8, 0), &copy).frames, [0x1000], "of a process that is gone nothing more is known");
}

#[test]
fn a_process_that_has_taken_its_share_of_the_time_waits_for_the_next_while_others_are_walked() {
    let copy = UserCopy { ip: 0x1000, sp: 0x7000, bp: 0x7000, stack: vec![0x70; 64], ..UserCopy::default() };
    let tree = HostTree::new().file("proc/7/maps", "").file("proc/9/maps", "");
    let mut unwinder = Unwinder::new(&Root::at(tree.path()));
    let whole = unwinder.unwind((7, 0), &copy);
    assert!(whole.frames.len() > 1 && !whole.was_cut, "{whole:?}");
    let spend = |unwinder: &mut Unwinder, spent_ns| unwinder.processes.get_mut(&7).unwrap().spent_ns = spent_ns;
    spend(&mut unwinder, ALLOWED_NS);
    assert_eq!(unwinder.unwind((7, 0), &copy), Unwound { frames: vec![0x1000], was_cut: true });
    assert_eq!(unwinder.unwind((9, 0), &copy), whole);
    // Its mappings are read anew after a while, and the time with them; also when it has ended meanwhile.
    std::fs::remove_file(tree.path().join("proc/7/maps")).unwrap();
    unwinder.processes.get_mut(&7).unwrap().since -= BELIEVED;
    assert_eq!(unwinder.unwind((7, 0), &copy), whole);
}

/// A file that costs its user nothing, and whose tables would be as long as it is.
#[test]
fn tables_of_any_length_take_a_bounded_amount_of_memory() {
    let sparse = |index_bytes: u64| {
        let mut bytes = vec![0u8; 0x300];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01");
        put(18, &62u16.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &2u16.to_le_bytes());
        for (at, kind, offset, length) in [(64, 1u32, 0u64, 1u64 << 40), (120, 0x6474_E550, 0x200, index_bytes)] {
            put(at, &kind.to_le_bytes());
            put(at + 8, &offset.to_le_bytes());
            put(at + 16, &offset.to_le_bytes());
            put(at + 32, &length.to_le_bytes());
        }
        put(0x200, &[1, 0x1B, 0x03, 0x3B]);
        put(0x204, &(0x1000u32 - 0x204).to_le_bytes());
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        file.set_len(1 << 33).unwrap();
        Image::read(&mut &file)
    };
    let image = sparse(8 << 20).unwrap();
    assert_eq!(image.bytes(), 40 << 20);
    assert_eq!(sparse((8 << 20) + 1).unwrap_err(), Fault::Malformed);
}

#[test]
fn a_file_that_contradicts_itself_is_an_error_and_takes_no_memory() {
    let good = own_bytes();
    assert!(image_of(&good).is_ok());
    assert_eq!(image_of(b"#!/bin/sh\n").unwrap_err(), Fault::NotElf);
    assert_eq!(image_of(&[]).unwrap_err(), Fault::NotElf);
    assert_eq!(image_of(&good[..64]).unwrap_err(), Fault::Malformed, "the headers are cut off");
    let mut other = good.clone();
    other[18] = 183;
    assert_eq!(image_of(&other).unwrap_err(), Fault::NotElf, "of another machine");
    let mut far = good.clone();
    far[32..40].fill(0xFF);
    assert_eq!(image_of(&far).unwrap_err(), Fault::Malformed);
    // Every program header claims 2^63 bytes.
    let mut huge = good.clone();
    let (headers, count) = (u64::from_le_bytes(good[32..40].try_into().unwrap()) as usize, usize::from(good[56]));
    for number in 0..count {
        huge[headers + number * 56 + 39] = 0x7F;
    }
    assert_eq!(image_of(&huge).unwrap_err(), Fault::Malformed);
    let mut none = good;
    none[56..58].fill(0);
    assert_eq!(image_of(&none).unwrap_err(), Fault::Malformed);
}

/// Frames of what a broken table says are as good as any; what counts is that each walk ends.
#[test]
fn a_broken_table_of_frames_never_panics_nor_runs_for_long() {
    let whole = own_image();
    let mut context = UnwindContext::new();
    let mut random = Random::new(1);
    let mut next = || random.word();
    let copy = UserCopy { ip: 1, sp: 0x7000, bp: 0x7100, stack: vec![0x70; 8192], ..UserCopy::default() };
    let registers = Registers::of(&copy);
    let start = Instant::now();
    let (mut walked, mut failed) = (0, 0);
    for _ in 0..300 {
        let mut image = whole.clone();
        for _ in 0..image.frames.len() / 50 {
            let at = next() as usize % image.frames.len();
            image.frames[at] = next() as u8;
        }
        for _ in 0..200 {
            let address = image.frames_address.wrapping_add(next() % (64 << 20));
            let caller = walk::by_description(&image, &mut context, &copy, &registers, address);
            if caller.is_some() { walked += 1 } else { failed += 1 }
        }
    }
    assert!(walked > 100 && failed > 100, "{walked} and {failed}");
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn an_expression_that_never_ends_is_given_up() {
    // DW_OP_skip to itself, as the rule of the frame: DW_CFA_def_cfa_expression.
    let image = Image::made_up(&[0x0F, 3, 0x2F, 0xFD, 0xFF]);
    let copy = UserCopy { ip: 0x1000, sp: 0x7000, stack: vec![0; 64], ..UserCopy::default() };
    let mut context = UnwindContext::new();
    assert!(walk::by_description(&image, &mut context, &copy, &Registers::of(&copy), 0x1000).is_none());
    // The same table with a rule that ends: DW_CFA_def_cfa rsp + 8.
    let image = Image::made_up(&[0x0C, 7, 8]);
    let caller = walk::by_description(&image, &mut context, &copy, &Registers::of(&copy), 0x1000);
    assert_eq!(caller.unwrap().registers.address(), Some(0));
}

#[test]
fn tables_are_kept_within_limits_and_the_oldest_make_room() {
    let tree = HostTree::new();
    let mut unwinder = Unwinder::new(&Root::at(tree.path()));
    let image = Arc::new(own_image());
    for number in 0..1_000 {
        unwinder.uses += 1;
        unwinder.keep(("fe:00".into(), number), Ok(Arc::clone(&image)));
        assert!(unwinder.files_bytes <= FILES_BYTES_MAX || unwinder.files.len() == 1);
        assert!(unwinder.files.contains_key(&("fe:00".into(), number)));
    }
    assert_eq!(unwinder.files_bytes, unwinder.files.len() * image.bytes());
    for number in 0..1_000 {
        unwinder.keep(("fe:01".into(), number), Err(Fault::NotElf));
    }
    assert!(unwinder.files.len() <= FILES_MAX);
}
