//! Programs out of our own encoder.

use surefoot_nic::cpu::{Instruction, Operation, encode};
use surefoot_nic::device::registers::REGISTERS;

/// The register that holds the address of the special registers.
const BASE: u8 = 31;
/// The register that values go through on their way to special registers.
const VALUE: u8 = 30;

/// A program that grows at its end.
#[derive(Default, Clone)]
pub struct Program {
    words: Vec<u32>,
}

pub fn word(operation: Operation, rd: u8, rs1: u8, rs2: u8, immediate: i32) -> u32 {
    let instruction = Instruction { operation, rd, rs1, rs2, immediate };
    encode(instruction).unwrap_or_else(|| panic!("{instruction:?} has no word"))
}

impl Program {
    /// A program that finds the special registers through x31.
    pub fn new() -> Program {
        let mut program = Program::default();
        program.load(BASE, REGISTERS);
        program
    }

    pub fn push(&mut self, word: u32) -> &mut Program {
        self.words.push(word);
        self
    }

    /// `register = value`, in two instructions.
    pub fn load(&mut self, register: u8, value: u32) -> &mut Program {
        let low = (value << 20) as i32 >> 20;
        self.push(word(Operation::Lui, register, 0, 0, (value.wrapping_sub(low as u32)) as i32));
        self.push(word(Operation::Addi, register, register, 0, low))
    }

    /// Writes a special register; four instructions.
    pub fn set(&mut self, special: u32, value: u32) -> &mut Program {
        self.load(VALUE, value);
        self.push(word(Operation::Sw, 0, BASE, VALUE, special as i32))
    }

    /// Reads a special register.
    pub fn get(&mut self, register: u8, special: u32) -> &mut Program {
        self.push(word(Operation::Lw, register, BASE, 0, special as i32))
    }

    /// Where the next instruction will be.
    pub fn here(&self) -> u32 {
        self.words.len() as u32 * 4
    }

    /// Goes back or on to this address for ever.
    pub fn jump(&mut self, to: u32) -> &mut Program {
        let distance = to.wrapping_sub(self.here()) as i32;
        self.push(word(Operation::Jal, 0, 0, 0, distance))
    }

    /// Stays here for ever.
    pub fn stay(&mut self) -> &mut Program {
        self.jump(self.here())
    }

    pub fn image(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}
