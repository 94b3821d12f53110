//! How many instructions a second the interpreter does, in millions.
//!
//! `cargo bench -p surefoot-nic --bench interpreter`. The work is what a control program does: a CRC-32 over a packet,
//! bit by bit, with loads and stores in between; and a polling loop over a special register. Each row is the median of
//! rounds that take turns, with the quartiles; the goal is 150 for the first.

use std::hint::black_box;
use std::time::Instant;
use surefoot_nic::cpu::Operation::{self, *};
use surefoot_nic::cpu::{Instruction, encode};
use surefoot_nic::device::registers::{INSTRUCTION_NS, REGISTERS, offset};
use surefoot_nic::device::{Bus, BusFault, Device, DeviceConfig, Stop};

/// Many short ones: on a busy machine most of them are not interrupted.
const ROUNDS: usize = 1000;
const INSTRUCTIONS: u64 = 100_000;

/// A host that asks nothing.
struct Quiet;

impl Bus for Quiet {
    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), BusFault> {
        Err(BusFault::WildRead)
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), BusFault> {
        Err(BusFault::WildWrite)
    }
    fn mailbox_ready(&mut self) -> u32 {
        0
    }
    fn mailbox_first(&mut self, _: u32) -> [u32; 16] {
        [0; 16]
    }
    fn mailbox_pop(&mut self, _: u32) {}
    fn ping(&mut self) -> u32 {
        0
    }
    fn pong(&mut self, _: u32) {}
    fn interrupt(&mut self, _: u32) {}
    fn epoch(&mut self) -> u32 {
        1
    }
}

fn word(operation: Operation, rd: u8, rs1: u8, rs2: u8, immediate: i32) -> u32 {
    encode(Instruction { operation, rd, rs1, rs2, immediate }).expect("the bench writes legal instructions")
}

/// For ever: the CRC-32 of 1 KiB at 0x4000 and a copy of it to 0x8000.
fn checksum() -> Vec<u32> {
    vec![
        word(Lui, 20, 0, 0, 0xedb8_8000_u32 as i32),
        word(Addi, 20, 20, 0, 0x320),
        word(Lui, 5, 0, 0, 0x4000),
        word(Lui, 6, 0, 0, 0x8000),
        word(Addi, 7, 5, 0, 1024),
        word(Addi, 10, 0, 0, -1),
        // A byte.
        word(Lbu, 11, 5, 0, 0),
        word(Sb, 0, 6, 11, 0),
        word(Xor, 10, 10, 11, 0),
        word(Addi, 12, 0, 0, 8),
        // A bit.
        word(Andi, 13, 10, 0, 1),
        word(Sub, 13, 0, 13, 0),
        word(And, 13, 13, 20, 0),
        word(Srli, 10, 10, 0, 1),
        word(Xor, 10, 10, 13, 0),
        word(Addi, 12, 12, 0, -1),
        word(Bne, 0, 12, 0, -24),
        word(Addi, 5, 5, 0, 1),
        word(Addi, 6, 6, 0, 1),
        word(Bltu, 0, 5, 7, -52),
        word(Jal, 0, 0, 0, -72),
    ]
}

/// For ever: 1 KiB copied word by word, as a memcpy does.
fn copy() -> Vec<u32> {
    vec![
        word(Lui, 5, 0, 0, 0x4000),
        word(Lui, 6, 0, 0, 0x8000),
        word(Addi, 7, 5, 0, 1024),
        word(Lw, 10, 5, 0, 0),
        word(Lw, 11, 5, 0, 4),
        word(Sw, 0, 6, 10, 0),
        word(Sw, 0, 6, 11, 4),
        word(Addi, 5, 5, 0, 8),
        word(Addi, 6, 6, 0, 8),
        word(Bltu, 0, 5, 7, -24),
        word(Jal, 0, 0, 0, -40),
    ]
}

/// For ever: asks ISR for work.
fn poll() -> Vec<u32> {
    vec![
        word(Lui, 31, 0, 0, REGISTERS as i32),
        word(Lw, 10, 31, 0, offset::ISR as i32),
        word(Andi, 10, 10, 0, 0x3ff),
        word(Beq, 0, 10, 0, -8),
    ]
}

fn main() {
    let programs =
        [("CRC-32 and copy, byte by byte", checksum()), ("copy, word by word", copy()), ("polling ISR", poll())];
    let mut rates = vec![Vec::new(); programs.len() * 2];
    let mut devices: Vec<Device> = programs.iter().map(|(_, words)| device(words)).collect();
    for _ in 0..ROUNDS {
        for (index, device) in devices.iter_mut().enumerate() {
            rates[index * 2].push(run(device, INSTRUCTIONS));
            rates[index * 2 + 1].push((0..20).map(|_| run(device, 100)).sum::<f64>() / 20.0);
        }
    }
    println!("million instructions a second: median (quartiles) of {ROUNDS} rounds");
    for (index, (name, _)) in programs.iter().enumerate() {
        for (row, what) in [(0, "in one run"), (1, "in runs of 100")] {
            let rates = &mut rates[index * 2 + row];
            rates.sort_by(f64::total_cmp);
            let at = |share: usize| rates[rates.len() * share / 4];
            println!("{name}, {what}: {:.0} ({:.0} to {:.0})", at(2), at(1), at(3));
        }
    }
}

fn device(words: &[u32]) -> Device {
    let image: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut device = Device::new(DeviceConfig::default());
    device.load(&image).expect("the program is small");
    device.reset(1);
    device
}

/// Millions of instructions a second.
fn run(device: &mut Device, instructions: u64) -> f64 {
    let until_ns = device.now_ns() + instructions * INSTRUCTION_NS;
    let before = device.instruction_count();
    let start = Instant::now();
    let stop = black_box(&mut *device).run(&mut Quiet, until_ns);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!((stop, device.instruction_count() - before), (Stop::Reached, instructions));
    instructions as f64 / seconds / 1e6
}
