//! Host DMA, link, timers, mailboxes and interrupts, each driven by a program.

use super::host::{HOST_BASE, Host, device, device_with};
use super::program::{Program, word};
use surefoot_nic::cpu::{Cause, Operation};
use surefoot_nic::device::registers::{dma, interrupt, isr, link, offset};
use surefoot_nic::device::{
    BusFault, DeviceConfig, Error, HostEventKind, Packet, Space, Stop, Stuck, Timing, TrapPolicy,
};

/// Where tests put data, far behind their programs.
const DATA: u32 = 0x8000;

fn dma_program(host: u32, local: u32, count: u32, direction: u32) -> Program {
    let mut program = Program::new();
    program.set(offset::DMA_HOST, host).set(offset::DMA_LOCAL, local).set(offset::DMA_COUNT, count);
    program.set(offset::DMA_CONTROL, direction | dma::START).set(offset::WAIT, isr::DMA);
    program.get(1, offset::DMA_STATUS).get(2, offset::DMA_SUM).get(3, offset::RTC).stay();
    program
}

#[test]
fn a_dma_to_the_host_takes_its_time_and_tells_its_sum() {
    let mut device = device(&dma_program(HOST_BASE + 0x100, DATA, 1024, dma::TO_HOST));
    let data: Vec<u8> = (0..1024).map(|byte| (byte * 7 % 251) as u8).collect();
    device.write_sram(DATA, &data).unwrap();
    let mut host = Host::new();
    // Two instructions for the base and four stores of three; the engine starts when the last of them is done.
    let start_ns = 14 * 8;
    let end_ns = start_ns + 1000 + (1024 * 1000_u64).div_ceil(264);
    assert_eq!(device.run(&mut host, end_ns - 1), Stop::Idle { until_ns: Some(end_ns) });
    assert!(host.memory[0x100..0x500].iter().all(|byte| *byte == 0), "bytes came before the end");
    assert_eq!(device.run(&mut host, end_ns + 80), Stop::Reached);
    assert_eq!(host.memory[0x100..0x500], data);
    assert_eq!(device.core().x[1..4], [0, crc32fast::hash(&data), ((end_ns + 16) / 1000) as u32]);
    // The wait took no instructions: 14 stores' and loads' instructions, three loads, and the rest in the loop.
    assert_eq!(device.instruction_count(), 17 + 10);
}

#[test]
fn a_dma_from_the_host_brings_code_that_is_executed_at_once() {
    let mut program = Program::new();
    let target = 0x400;
    program.set(offset::DMA_HOST, HOST_BASE).set(offset::DMA_LOCAL, target).set(offset::DMA_COUNT, 8);
    // Executed once before the DMA, so that the old words are in the decode cache.
    program.load(5, target).push(word(Operation::Jalr, 1, 5, 0, 0));
    program.set(offset::DMA_CONTROL, dma::START).set(offset::WAIT, isr::DMA);
    program.push(word(Operation::Jalr, 1, 5, 0, 0)).stay();
    let mut device = device(&program);
    let function = |value: i32| {
        [word(Operation::Addi, 10, 10, 0, value), word(Operation::Jalr, 0, 1, 0, 0)].map(u32::to_le_bytes).concat()
    };
    device.write_sram(target, &function(1)).unwrap();
    let mut host = Host::new();
    host.memory[..8].copy_from_slice(&function(100));
    device.run(&mut host, 10_000);
    assert_eq!(device.core().x[10], 101);
}

#[test]
fn a_wild_dma_is_reported_and_moves_nothing() {
    for (has_iommu, direction, fault) in [
        (false, dma::TO_HOST, BusFault::WildWrite),
        (false, 0, BusFault::WildRead),
        (true, dma::TO_HOST, BusFault::Refused),
        (true, 0, BusFault::Refused),
    ] {
        let mut device = device(&dma_program(0x2000_0000, DATA, 64, direction));
        device.write_sram(DATA, &[9; 64]).unwrap();
        let mut host = Host::new();
        host.has_iommu = has_iommu;
        device.run(&mut host, 5000);
        assert_eq!(device.core().x[1], dma::FAULT);
        assert_eq!(device.read_sram(DATA, 64).unwrap(), [9; 64]);
        let kinds: Vec<_> = device.host_events().0.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [HostEventKind::Dma(0x2000_0000, Some(fault))]);
        assert_eq!(device.counts().dma_faults, 1);
    }
}

#[test]
fn a_dma_outside_of_the_sram_is_a_fault_and_no_affair_of_the_host() {
    for direction in [0, dma::TO_HOST] {
        let mut device = device(&dma_program(HOST_BASE, 0x1ffe0, 64, direction));
        device.run(&mut Host::new(), 5000);
        assert_eq!(device.core().x[1], dma::FAULT);
        assert_eq!(device.host_events().0, []);
    }
}

#[test]
fn a_fenced_device_touches_neither_host_nor_link() {
    let mut program = Program::new();
    program.set(offset::HOST_INTERRUPT, interrupt::EVENTS).set(offset::PONG, 7).set(offset::MAILBOX_POP, 2);
    program.set(offset::SEND_POINTER, DATA).set(offset::SEND_BYTES, 64);
    program.set(offset::DMA_HOST, HOST_BASE).set(offset::DMA_LOCAL, DATA).set(offset::DMA_COUNT, 64);
    program.set(offset::DMA_CONTROL, dma::TO_HOST | dma::START).set(offset::WAIT, isr::DMA).stay();
    for (epoch, happens) in [(1, true), (2, false)] {
        let mut device = device(&program);
        device.write_sram(DATA, &[5; 64]).unwrap();
        let mut host = Host::new();
        host.epoch = epoch;
        host.mailboxes[2].push_back([1; 16]);
        device.run(&mut host, 10_000);
        assert_eq!(host.mailboxes[2].is_empty(), happens);
        assert_eq!(host.memory[0] == 5, happens);
        assert_eq!((host.interrupts.len(), host.pongs.len()), (usize::from(happens), usize::from(happens)));
        assert_eq!(device.outgoing().is_some(), happens);
        assert_eq!(device.counts().fenced, if happens { 0 } else { 5 });
    }
}

#[test]
fn a_packet_leaves_with_its_sum_after_its_time() {
    let mut program = Program::new();
    program.set(offset::SEND_POINTER, DATA).set(offset::SEND_BYTES, 160).set(offset::WAIT, isr::SENT).stay();
    let mut device = device(&program);
    device.write_sram(DATA, &[3; 160]).unwrap();
    let mut host = Host::new();
    let departs_ns = 8 * 8 + 300 + 1000;
    device.run(&mut host, departs_ns - 1);
    assert_eq!(device.outgoing(), None);
    device.run(&mut host, departs_ns);
    let bytes = vec![3; 160];
    assert_eq!(device.outgoing(), Some(Packet { at_ns: departs_ns, crc: crc32fast::hash(&bytes), bytes }));
}

fn packet(fill: u8) -> Packet {
    let bytes = vec![fill; 64];
    Packet { at_ns: 0, crc: crc32fast::hash(&bytes), bytes }
}

#[test]
fn packets_fill_the_buffers_then_four_wait_and_the_rest_is_lost() {
    let mut program = Program::new();
    program.set(offset::RECEIVE_POINTER0, DATA).set(offset::RECEIVE_POINTER1, DATA + 0x2000);
    program.set(offset::WAIT, isr::IT0);
    // Later the program provides buffer 0 again.
    program.set(offset::RECEIVE_POINTER0, DATA + 0x4000).set(offset::WAIT, isr::IT1).stay();
    let mut device = device(&program);
    let mut host = Host::new();
    for fill in 1..=7 {
        device.deliver(1000 + u64::from(fill), packet(fill));
    }
    device.run(&mut host, 2000);
    let first = |device: &surefoot_nic::device::Device, at: u32| device.read_sram(at, 1).unwrap()[0];
    assert_eq!((first(&device, DATA), first(&device, DATA + 0x2000)), (1, 2));
    assert_eq!(device.peek(offset::RECEIVE_BYTES1), 64);
    assert_eq!(device.peek(offset::ISR), isr::RECEIVED0 | isr::RECEIVED1);
    assert_eq!((device.counts().receive_waited, device.counts().receive_dropped), (4, 1));
    // A flip of ISR wakes the processor, which arms buffer 0 and gets the first that waited.
    device.flip(Space::Device(offset::ISR), 0, 0).unwrap();
    device.run(&mut host, 3000);
    assert_eq!(first(&device, DATA + 0x4000), 3);
    assert_eq!(device.counts().received, 3);
}

#[test]
fn damage_on_the_link_is_told_and_a_giant_is_dropped() {
    let mut program = Program::new();
    program.set(offset::RECEIVE_POINTER0, DATA).set(offset::WAIT, isr::RECEIVED0).stay();
    let mut device = device(&program);
    let mut damaged = packet(1);
    damaged.bytes[5] ^= 1;
    device.deliver(500, Packet { bytes: vec![0; 4161], ..packet(0) });
    device.deliver(600, damaged);
    device.run(&mut Host::new(), 1000);
    assert_eq!(device.peek(offset::RECEIVE_STATUS0), link::DAMAGED);
    assert_eq!((device.counts().receive_too_long, device.counts().received_damaged), (1, 1));
}

#[test]
fn the_watchdog_interrupts_a_host_whose_control_program_hangs_or_trapped() {
    for (policy, hang, expected) in [
        (TrapPolicy::Halt, true, vec![interrupt::WATCHDOG]),
        (TrapPolicy::Halt, false, vec![interrupt::WATCHDOG]),
        (TrapPolicy::Interrupt, false, vec![interrupt::TRAP, interrupt::WATCHDOG]),
    ] {
        let mut program = Program::new();
        program.set(offset::IMR, isr::IT1).set(offset::IT1, 800);
        if hang {
            program.stay()
        } else {
            program.push(0)
        };
        let mut device = device_with(DeviceConfig { trap_policy: policy, ..DeviceConfig::default() }, &program);
        let mut host = Host::new();
        let fires_ns = 8 * 8 + 800_000;
        let stop = device.run(&mut host, fires_ns - 8);
        assert_eq!(host.interrupts.len(), expected.len() - 1);
        assert_eq!(matches!(stop, Stop::Halted(trap) if trap.cause == Cause::Illegal && trap.pc == 32), !hang);
        device.run(&mut host, fires_ns);
        assert_eq!(host.interrupts, expected);
        assert_eq!(device.host_events().0.last().unwrap().at_ns, fires_ns);
        device.run(&mut host, 10 * fires_ns);
        assert_eq!(host.interrupts, expected, "it interrupts once");
    }
}

#[test]
fn a_command_wakes_the_processor_and_none_is_left_behind() {
    let mut program = Program::new();
    let turn = program.here();
    program.set(offset::WAIT, isr::MAILBOX | isr::PING).set(offset::ISR, isr::MAILBOX | isr::PING);
    program.get(1, offset::MAILBOX_READY).get(2, offset::MAILBOX_WINDOW + 3 * 64 + 4);
    program.push(word(Operation::Add, 3, 3, 2, 0)).set(offset::MAILBOX_POP, 3);
    program.get(4, offset::PING).push(word(Operation::Xori, 5, 4, 0, -1));
    program.push(word(Operation::Sw, 0, 31, 5, offset::PONG as i32)).jump(turn);
    let mut device = device(&program);
    let mut host = Host::new();
    assert_eq!(device.run(&mut host, 1000), Stop::Idle { until_ns: None });
    for number in [10, 200, 3000] {
        let mut command = [0; 16];
        command[1] = number;
        host.mailboxes[3].push_back(command);
    }
    // The program takes one command per turn, and waits between.
    assert_eq!(device.run(&mut host, 3000), Stop::Idle { until_ns: None });
    assert_eq!((device.core().x[3], host.mailboxes[3].len()), (3210, 0));
    host.ping = 0x1234;
    device.run(&mut host, 5000);
    assert_eq!(host.pongs.last(), Some(&!0x1234));
}

#[test]
fn a_slice_takes_its_time_from_the_caller() {
    let mut program = Program::new();
    program.set(offset::IT0, 50).set(offset::WAIT, isr::IT0).stay();
    let config = DeviceConfig { timing: Timing::immediate(), ..DeviceConfig::default() };
    let mut device = device_with(config, &program);
    let mut host = Host::new();
    assert_eq!(device.run_slice(&mut host, 7_000, 1000), Stop::Idle { until_ns: Some(57_000) });
    assert_eq!((device.instruction_count(), device.now_ns()), (8, 7_000));
    assert_eq!(device.run_slice(&mut host, 56_999, 1000), Stop::Idle { until_ns: Some(57_000) });
    assert_eq!(device.run_slice(&mut host, 60_000, 1000), Stop::Reached);
    assert_eq!(device.instruction_count(), 1008);
}

#[test]
fn engines_without_timing_are_done_within_the_call() {
    let config = DeviceConfig { timing: Timing::immediate(), ..DeviceConfig::default() };
    let mut device = device_with(config, &dma_program(HOST_BASE, DATA, 64, dma::TO_HOST));
    device.write_sram(DATA, &[5; 64]).unwrap();
    let mut host = Host::new();
    assert_eq!(device.run_slice(&mut host, 100, 20), Stop::Reached);
    assert_eq!((host.memory[63], device.core().x[1]), (5, 0));
}

#[test]
fn accesses_to_nothing_are_traps() {
    for (address, operation, cause) in [
        (0x2_0000, Operation::Lw, Cause::LoadFault),
        (0x1_ffff, Operation::Lh, Cause::LoadMisaligned),
        (0x8000_0000, Operation::Lb, Cause::LoadFault),
        (0x8000_0088, Operation::Lw, Cause::LoadFault),
        (0x8000_0300, Operation::Lw, Cause::LoadFault),
        (0x8000_0002, Operation::Lw, Cause::LoadMisaligned),
        (0x2_0000, Operation::Sw, Cause::StoreFault),
        (0x8000_0088, Operation::Sw, Cause::StoreFault),
        (0x8000_0010, Operation::Sh, Cause::StoreFault),
        (0x102, Operation::Sw, Cause::StoreMisaligned),
        (0xffff_ffff, Operation::Sb, Cause::StoreFault),
    ] {
        let mut program = Program::new();
        let is_store = matches!(operation, Operation::Sb | Operation::Sh | Operation::Sw);
        program.load(6, address).push(word(operation, if is_store { 0 } else { 7 }, 6, 0, 0));
        let mut device = device(&program);
        let Stop::Halted(trap) = device.run(&mut Host::new(), 1000) else { panic!("{address:#x} gave no trap") };
        assert_eq!((trap.cause, trap.pc, trap.value), (cause, 16, address));
        // The trap is not done: four instructions are.
        assert_eq!(device.instruction_count(), 4);
    }
}

#[test]
fn what_is_written_to_a_read_only_register_is_gone() {
    let mut program = Program::new();
    for register in [offset::NODE, offset::EPOCH, offset::DMA_STATUS, offset::DMA_SUM, offset::RTC] {
        program.set(register, u32::MAX);
    }
    program.get(1, offset::NODE).get(2, offset::EPOCH).get(3, offset::DMA_STATUS).stay();
    let mut device = device_with(DeviceConfig { node: 5, ..DeviceConfig::default() }, &program);
    device.run(&mut Host::new(), 500);
    assert_eq!(device.core().x[1..4], [5, 1, 0]);
}

#[test]
fn a_stuck_bit_misleads_the_engine() {
    let mut device = device(&dma_program(HOST_BASE, DATA, 64, dma::TO_HOST));
    device.stick(offset::DMA_HOST, 8, Stuck::One).unwrap();
    device.write_sram(DATA, &[5; 64]).unwrap();
    let mut host = Host::new();
    device.run(&mut host, 5000);
    assert_eq!((host.memory[0], host.memory[0x100]), (0, 5));
}

#[test]
fn flips_where_there_is_no_bit_are_errors() {
    let mut device = device(&Program::new());
    for (space, location, bit) in [
        (Space::Sram, 0x20000, 0),
        (Space::Sram, 2, 0),
        (Space::Sram, 0, 32),
        (Space::Register(0), 0, 0),
        (Space::Register(32), 0, 0),
        (Space::Device(0x88), 0, 0),
    ] {
        assert_eq!(device.flip(space, location, bit), Err(Error::NoSuchBit { space, location, bit }));
    }
    assert_eq!(device.load(&[0; 0x20001]), Err(Error::ImageTooLarge { bytes: 0x20001 }));
}

#[test]
fn flips_of_masks_and_buffers_hold_at_once() {
    let mut program = Program::new();
    program.set(offset::IT2, 1).set(offset::WAIT, isr::PING).stay();
    let mut device = device(&program);
    let mut host = Host::new();
    for fill in 1..=2 {
        device.deliver(1500, packet(fill));
    }
    device.run(&mut host, 2000);
    assert_eq!((host.interrupts.len(), device.peek(offset::ISR)), (0, isr::IT2));
    // The mask lets an old bit through; a flip arms buffer 1, whose pointer is 0; then the same bit of 0 is stuck, which
    // is filled whenever something comes.
    device.flip(Space::Device(offset::IMR), 0, 2).unwrap();
    device.flip(Space::Device(offset::RECEIVE_STATUS1), 0, 1).unwrap();
    device.flip(Space::Device(offset::RECEIVE_POINTER1), 0, 15).unwrap();
    device.run(&mut host, 2001);
    assert_eq!(host.interrupts, [interrupt::STATUS]);
    assert_eq!((device.counts().received, device.read_sram(DATA, 1).unwrap()[0]), (1, 1));
    device.flip(Space::Device(offset::RECEIVE_POINTER0), 0, 15).unwrap();
    device.stick(offset::RECEIVE_STATUS0, 1, Stuck::One).unwrap();
    for fill in 3..=5 {
        device.deliver(2500, packet(fill));
    }
    device.run(&mut host, 3000);
    assert_eq!((device.counts().received, device.read_sram(DATA, 1).unwrap()[0]), (5, 5));
}

#[test]
fn a_send_of_what_is_not_there_sends_nothing_and_says_it_is_done() {
    for (pointer, bytes) in [(0x1fff0, 64), (u32::MAX, 4), (DATA, 3)] {
        let mut program = Program::new();
        program.set(offset::SEND_POINTER, pointer).set(offset::SEND_BYTES, bytes).set(offset::WAIT, isr::SENT).stay();
        let mut device = device(&program);
        assert_eq!(device.run(&mut Host::new(), 10_000), Stop::Reached);
        assert_eq!((device.outgoing(), device.counts().send_faults), (None, 1));
    }
}

#[test]
fn a_receive_buffer_outside_of_the_sram_loses_packets_and_nothing_else() {
    let mut program = Program::new();
    program.set(offset::RECEIVE_POINTER0, 0x1ffe0).set(offset::WAIT, isr::RECEIVED0).stay();
    let mut device = device(&program);
    device.deliver(500, packet(1));
    let until = Stop::Idle { until_ns: None };
    assert_eq!(device.run(&mut Host::new(), 10_000), until);
    assert_eq!((device.counts().receive_faults, device.peek(offset::RECEIVE_STATUS0)), (1, link::ARMED));
}

#[test]
fn an_engine_that_is_busy_is_not_started_again() {
    let mut program = Program::new();
    program.set(offset::DMA_HOST, HOST_BASE).set(offset::DMA_LOCAL, DATA).set(offset::DMA_COUNT, 8);
    program.set(offset::SEND_POINTER, DATA).set(offset::SEND_BYTES, 64).set(offset::SEND_BYTES, 64);
    for _ in 0..2 {
        program.set(offset::DMA_CONTROL, dma::START | dma::TO_HOST);
    }
    program.stay();
    let mut device = device(&program);
    device.run(&mut Host::new(), 20_000);
    assert_eq!((device.counts().starts_while_busy, device.counts().dma_transfers, device.counts().sent), (2, 1, 1));
}

#[test]
fn buffers_are_filled_in_the_order_in_which_they_were_armed() {
    let mut program = Program::new();
    program.set(offset::RECEIVE_POINTER1, DATA + 0x2000).set(offset::RECEIVE_POINTER0, DATA);
    program.set(offset::WAIT, isr::RECEIVED0).stay();
    let mut device = device(&program);
    device.deliver(1000, packet(1));
    device.deliver(2000, packet(2));
    assert_eq!(device.run(&mut Host::new(), 1500), Stop::Idle { until_ns: Some(2000) });
    assert_eq!(device.peek(offset::ISR), isr::RECEIVED1);
    device.run(&mut Host::new(), 2500);
    assert_eq!((device.read_sram(DATA + 0x2000, 1).unwrap()[0], device.read_sram(DATA, 1).unwrap()[0]), (1, 2));
}

#[test]
fn a_dma_moves_any_number_of_bytes_between_any_addresses_and_at_most_4096() {
    for (host_at, local, count, moved) in [(3, DATA + 1, 7, 7), (0, DATA, 0, 0), (5, DATA, 0x8000_0010, 4096)] {
        for direction in [0, dma::TO_HOST] {
            let mut device = device(&dma_program(HOST_BASE + host_at, local, count, direction));
            device.write_sram(DATA, &[5; 8192]).unwrap();
            let mut host = Host::new();
            host.memory.fill(9);
            device.run(&mut host, 20_000);
            assert_eq!(device.core().x[1], 0);
            let changed = if direction == 0 {
                device.read_sram(DATA, 8192).unwrap().iter().filter(|byte| **byte == 9).count()
            } else {
                host.memory.iter().filter(|byte| **byte == 5).count()
            };
            assert_eq!(changed, moved);
            let first = if direction == 0 {
                device.read_sram(local, 1).unwrap()[0] == 9
            } else {
                host.memory[host_at as usize] == 5
            };
            assert_eq!(first, moved > 0);
        }
    }
}
