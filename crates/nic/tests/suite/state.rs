//! Decoding, changes to code, flips, snapshots and determinism.

use super::host::{HOST_BASE, Host, device};
use super::program::{Program, word};
use super::random_program::{Random, random_program};
use proptest::prelude::*;
use surefoot_nic::cpu::{Cause, Operation::*, decode, encode};
use surefoot_nic::device::registers::{self, dma, isr, offset};
use surefoot_nic::device::{Device, DeviceConfig, Packet, Snapshot, Space, Stop, Stuck};

#[test]
fn a_word_is_what_its_instruction_is_encoded_to_or_no_instruction() {
    let mut random = Random::new(1);
    let mut legal = 0;
    // A part of all words at a stride without a pattern, and all of the opcode's neighbourhood.
    let strided = (0..1_u64 << 32).step_by(4099).map(|word| word as u32);
    let near =
        (0..1_000_000).map(|_| random.next() as u32 & !0x7f | random.of(&[0x03, 0x13, 0x23, 0x33, 0x63, 0x67, 0x0f]));
    for word in strided.chain(near) {
        let instruction = decode(word);
        match encode(instruction) {
            Some(back) => assert_eq!(back, word, "{instruction:?}"),
            None => assert_eq!(instruction.operation, Illegal, "{word:#x}"),
        }
        legal += u64::from(instruction.operation != Illegal);
    }
    assert!(legal > 400_000, "{legal}");
}

#[test]
fn what_does_not_fit_its_field_has_no_word() {
    use surefoot_nic::cpu::Instruction;
    for (operation, rd, immediate) in
        [(Addi, 1, 2048), (Addi, 32, 0), (Jal, 1, 3), (Beq, 0, 4096), (Lui, 1, 1), (Slli, 1, 32)]
    {
        assert_eq!(encode(Instruction { operation, rd, rs1: 0, rs2: 0, immediate }), None, "{operation:?}");
    }
}

/// A loop that adds 1 to x10 and, once x10 is 5, stores another addition over its own first instruction.
fn changes_itself() -> Program {
    let mut program = Program::default();
    program.load(5, word(Addi, 10, 10, 0, 100)).load(6, 5);
    let turn = program.here();
    program.push(word(Addi, 10, 10, 0, 1)).push(word(Bne, 0, 10, 6, -4));
    program.push(word(Sw, 0, 0, 5, turn as i32));
    program.push(word(Addi, 11, 11, 0, 1)).push(word(Jal, 0, 0, 0, -16));
    program
}

#[test]
fn a_store_into_code_holds_at_the_next_fetch() {
    let mut device = device(&changes_itself());
    // 4 of set-up, 5 turns of 2, the store, the count and the jump: the next is the changed instruction.
    device.run(&mut Host::new(), (4 + 10 + 3) * 8);
    assert_eq!(device.core().x[10..12], [5, 1]);
    device.run(&mut Host::new(), (4 + 10 + 4) * 8);
    assert_eq!(device.core().x[10], 105);
}

#[test]
fn a_byte_or_half_stored_into_code_holds_too() {
    for (operation, at, value, expected) in [(Sb, 3, 0x7f, 0x7f0), (Sh, 2, 0x7ff5, 0x7ff)] {
        let mut program = Program::default();
        // Twice through the last instruction, whose constant is changed between.
        program.load(5, value).push(word(Jal, 0, 0, 0, 12));
        program.push(word(operation, 0, 0, 5, 20 + at)).push(word(Add, 10, 0, 0, 0));
        assert_eq!(program.here(), 20);
        program.push(word(Addi, 10, 10, 0, 0)).push(word(Beq, 0, 10, 0, -12)).stay();
        let mut device = device(&program);
        device.run(&mut Host::new(), 400);
        assert_eq!(device.core().x[10], expected);
    }
}

#[test]
fn a_flip_in_code_holds_at_the_next_fetch() {
    let mut program = Program::default();
    program.push(word(Addi, 10, 10, 0, 1)).push(word(Jal, 0, 0, 0, -4));
    let mut device = device(&program);
    let mut host = Host::new();
    device.run(&mut host, 20 * 8);
    assert_eq!(device.core().x[10], 10);
    // The constant becomes 1 + 32.
    device.flip(Space::Sram, 0, 25).unwrap();
    device.run(&mut host, 22 * 8);
    assert_eq!(device.core().x[10], 43);
    device.flip(Space::Sram, 0, 25).unwrap();
    device.flip(Space::Register(10), 0, 31).unwrap();
    device.run(&mut host, 24 * 8);
    assert_eq!(device.core().x[10], 44 | 1 << 31);
    device.flip(Space::Sram, 4, 0).unwrap();
    let Stop::Halted(trap) = device.run(&mut host, 26 * 8) else { panic!("no trap") };
    assert_eq!((trap.cause, trap.pc), (Cause::Illegal, 4));
}

#[test]
fn a_flipped_program_counter_goes_elsewhere() {
    for (bit, cause, pc) in [(1, Cause::FetchMisaligned, 2), (17, Cause::FetchFault, 0x20000), (4, Cause::Illegal, 16)]
    {
        let mut program = Program::default();
        program.stay();
        let mut device = device(&program);
        device.run(&mut Host::new(), 80);
        device.flip(Space::Pc, 0, bit).unwrap();
        let Stop::Halted(trap) = device.run(&mut Host::new(), 160) else { panic!("no trap") };
        assert_eq!((trap.cause, trap.pc), (cause, pc));
    }
}

/// For ever: DMA there and back, a send, a receive, all engines and timers at work.
fn busy() -> Program {
    let mut program = Program::new();
    program.load(10, HOST_BASE).set(offset::IMR, isr::IT0).set(offset::DMA_COUNT, 96);
    let turn = program.here();
    program.push(word(Sw, 0, 31, 10, offset::DMA_HOST as i32)).set(offset::DMA_LOCAL, 0x4000);
    program.set(offset::DMA_CONTROL, dma::START | dma::TO_HOST).set(offset::RECEIVE_POINTER0, 0x4010);
    program.set(offset::SEND_POINTER, 0x4000).set(offset::SEND_BYTES, 100).set(offset::IT0, 1);
    program.set(offset::WAIT, isr::DMA | isr::IT0).set(offset::ISR, u32::MAX);
    program.get(11, offset::DMA_SUM).get(12, offset::RTC).get(14, offset::RECEIVE_STATUS0);
    program.load(13, 0x4000).push(word(Sw, 0, 13, 11, 0)).push(word(Sw, 0, 13, 12, 4));
    program.push(word(Addi, 10, 10, 0, 4)).set(offset::RECEIVE_POINTER1, 0x4100).jump(turn);
    program
}

/// Delivers packets at times drawn from the seed, and runs in steps.
fn run_busy(device: &mut Device, host: &mut Host, steps_ns: &[u64]) -> Vec<Packet> {
    let mut left = Vec::new();
    for until_ns in steps_ns {
        device.run(host, *until_ns);
        left.extend(std::iter::from_fn(|| device.outgoing()));
    }
    left
}

fn deliver_some(device: &mut Device) {
    let mut random = Random::new(7);
    for _ in 0..30 {
        let bytes: Vec<u8> = (0..4 * random.below(60)).map(|_| random.next() as u8).collect();
        let crc = crc32fast::hash(&bytes) ^ u32::from(random.below(4) == 0);
        device.deliver(u64::from(random.below(100_000)), Packet { at_ns: 0, bytes, crc });
    }
}

proptest! {
    #[test]
    fn a_run_is_the_same_in_one_piece_and_in_many(mut cuts in prop::collection::vec(1_u64..100_000, 0..40)) {
        cuts.sort_unstable();
        cuts.push(100_000);
        let (mut one, mut many) = (device(&busy()), device(&busy()));
        let (mut host_of_one, mut host_of_many) = (Host::new(), Host::new());
        deliver_some(&mut one);
        deliver_some(&mut many);
        let left = run_busy(&mut one, &mut host_of_one, &[100_000]);
        prop_assert_eq!(&left, &run_busy(&mut many, &mut host_of_many, &cuts));
        prop_assert!(left.len() > 20 && host_of_one.interrupts.len() > 5, "{} packets", left.len());
        prop_assert_eq!(one.state_hash(), many.state_hash());
        prop_assert!(one.same_state(&many.snapshot()));
        prop_assert_eq!(one.counts(), many.counts());
        prop_assert!(host_of_one.memory == host_of_many.memory && host_of_one.interrupts == host_of_many.interrupts);
    }

    #[test]
    fn what_is_restored_goes_on_as_it_did(cut in 1_u64..60_000, flips in prop::collection::vec((0_u32..0x8000, 0_u8..32), 0..20)) {
        let mut device = device(&busy());
        deliver_some(&mut device);
        let mut host = Host::new();
        run_busy(&mut device, &mut host, &[cut]);
        let (snapshot, memory, hash) = (device.snapshot(), host.memory.clone(), device.state_hash());
        let goes_on = |device: &mut Device| {
            let mut host = Host { memory: memory.clone(), ..Host::new() };
            let left = run_busy(device, &mut host, &[cut + 40_000]);
            (left, host.memory, host.interrupts, device.state_hash(), device.instruction_count())
        };
        let first = goes_on(&mut device);
        prop_assert!(!device.same_state(&snapshot));
        // Whatever happened to it since, its state is again what it was.
        for (word, bit) in flips {
            device.flip(Space::Sram, word * 4, bit).unwrap();
        }
        device.stick(offset::ISR, 3, Stuck::One).unwrap();
        device.run(&mut host, cut + 50_000);
        device.restore(&snapshot);
        prop_assert!(device.same_state(&snapshot) && device.state_hash() == hash);
        prop_assert!(goes_on(&mut device) == first);
        let mut other = Device::new(DeviceConfig::default());
        other.restore(&snapshot);
        prop_assert!(goes_on(&mut other) == first);
    }
}

#[test]
fn every_flip_is_seen_in_the_state_and_a_second_one_undoes_it() {
    let mut device = device(&busy());
    run_busy(&mut device, &mut Host::new(), &[12_345]);
    let snapshot: Snapshot = device.snapshot();
    let mut random = Random::new(3);
    let sram = (0..200).map(|_| (Space::Sram, 4 * random.below(0x8000)));
    let core = (1..32).map(|register| (Space::Register(register), 0)).chain([(Space::Pc, 0)]);
    let timers = [offset::IT0, offset::IT1, offset::IT2];
    let special = registers::NAMES.iter().map(|(register, _)| *register);
    // A running timer loses its fraction of a microsecond when it is set, and a start cannot be taken back.
    let special = special.filter(|register| !timers.contains(register)).map(|register| (Space::Device(register), 0));
    let all: Vec<_> = sram.chain(core).chain(special).collect();
    for (space, location) in all {
        for bit in (0..32).filter(|bit| (space, *bit) != (Space::Device(offset::DMA_CONTROL), 1)) {
            device.flip(space, location, bit).unwrap();
            assert!(!device.same_state(&snapshot), "{space:?} {location:#x} {bit}");
            device.flip(space, location, bit).unwrap();
            assert!(device.same_state(&snapshot), "{space:?} {location:#x} {bit}");
        }
    }
}

#[test]
fn a_flip_that_starts_an_engine_starts_it() {
    let mut program = Program::new();
    program.set(offset::DMA_HOST, HOST_BASE).set(offset::DMA_COUNT, 4).set(offset::DMA_CONTROL, dma::TO_HOST).stay();
    let mut device = device(&program);
    let mut host = Host::new();
    device.run(&mut host, 200);
    device.flip(Space::Device(offset::DMA_CONTROL), 0, 1).unwrap();
    device.run(&mut host, 2000);
    assert_eq!(host.memory[..4], device.read_sram(0, 4).unwrap()[..]);
    assert_eq!(device.counts().dma_transfers, 1);
    // A timer that stood begins to count.
    device.flip(Space::Device(offset::IT2), 0, 1).unwrap();
    device.run(&mut host, 4100);
    assert_eq!(device.peek(offset::ISR), isr::DMA | isr::IT2);
}

#[test]
fn a_reset_leaves_the_memory_and_what_is_on_the_link() {
    let mut device = device(&busy());
    run_busy(&mut device, &mut Host::new(), &[5_000]);
    let memory = device.read_sram(0, 0x20000).unwrap().to_vec();
    device.deliver(6_000, Packet { at_ns: 0, bytes: vec![1; 4], crc: crc32fast::hash(&[1; 4]) });
    device.reset(9);
    assert_eq!(device.read_sram(0, 0x20000).unwrap(), memory);
    assert_eq!((device.core().pc, device.core().x, device.peek(offset::EPOCH)), (0, [0; 32], 9));
    for (register, name) in registers::NAMES {
        let expected = if *register == offset::EPOCH { 9 } else { 0 };
        assert_eq!(device.peek(*register), expected, "{name}");
    }
    assert_eq!(device.next_event_ns(), Some(6_000));
}

#[test]
fn the_same_seed_gives_the_same_state_and_the_hash_tells_two_apart() {
    let hash = |seed: u64| {
        let program = random_program(&mut Random::new(seed));
        let mut device = Device::new(DeviceConfig::default());
        device.load(&program.code).unwrap();
        device.reset(1);
        device.run(&mut Host::new(), 4000);
        device.state_hash()
    };
    let hashes: Vec<u64> = (0..200).map(hash).collect();
    assert_eq!(hashes, (0..200).map(hash).collect::<Vec<_>>());
    let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len());
}

#[test]
fn a_trace_tells_each_step_and_has_a_limit() {
    let mut program = Program::new();
    program.set(offset::IT1, 800).get(9, offset::NODE).push(word(Sw, 0, 0, 9, 0x100)).push(0);
    let mut device = device(&program);
    device.trace(7);
    device.observe_fetches(true);
    device.run(&mut Host::new(), 1000);
    let (steps, missed) = device.take_trace();
    assert_eq!((steps.len(), missed), (7, 0));
    for (index, step) in steps.iter().enumerate() {
        assert_eq!((step.number, step.at_ns, step.pc), (index as u64, index as u64 * 8, index as u32 * 4));
    }
    assert_eq!(steps[1].register, Some((31, registers::REGISTERS)));
    let access = steps[4].access.unwrap();
    assert_eq!((access.address, access.value, access.is_store), (0x8000_0008, 800, true));
    let access = steps[5].access.unwrap();
    assert_eq!((access.address, access.is_store, steps[5].register), (0x8000_0080, false, Some((9, 0))));
    // The eighth word, which is no instruction, was fetched too.
    assert_eq!(device.fetched()[0], 0xff);
    assert!(device.fetched()[1..].iter().all(|bits| *bits == 0));
    device.observe_fetches(false);
    assert_eq!(device.fetched(), [0_u64; 0]);
    let mut device = super::host::device(&busy());
    device.trace(3);
    device.run(&mut Host::new(), 80);
    assert_eq!((device.take_trace().1, device.take_trace()), (7, (Vec::new(), 0)));
}
