//! Random programs of all instructions of rv32im that end in a trap, made to do much before they do.

use super::program::{Program, word};
use surefoot_nic::cpu::Operation::{self, *};

/// Operands at which 32-bit arithmetic turns.
pub const CORNERS: [u32; 15] =
    [0, 1, 2, 31, 32, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX, u32::MAX - 1];

/// Numbers from a seed, in the shapes that these tests need.
pub struct Random(surefoot_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// A corner case of 32-bit arithmetic, or any number.
    pub fn operand(&mut self) -> u32 {
        match self.below(3) {
            0 => self.of(&CORNERS),
            1 => 1 << self.below(32),
            _ => self.next() as u32,
        }
    }
}

pub const ARITHMETIC: [Operation; 18] =
    [Add, Sub, Sll, Slt, Sltu, Xor, Srl, Sra, Or, And, Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu];
pub const IMMEDIATE: [Operation; 6] = [Addi, Slti, Sltiu, Xori, Ori, Andi];
pub const SHIFTS: [Operation; 3] = [Slli, Srli, Srai];
pub const LOADS: [(Operation, u32); 5] = [(Lb, 1), (Lbu, 1), (Lh, 2), (Lhu, 2), (Lw, 4)];
pub const STORES: [(Operation, u32); 3] = [(Sb, 1), (Sh, 2), (Sw, 4)];
pub const BRANCHES: [Operation; 6] = [Beq, Bne, Blt, Bge, Bltu, Bgeu];

/// Where the programs have their data; x8 and x9 point into it, and are seldom changed.
pub const DATA: u32 = 0x2000;
pub const DATA_BYTES: u32 = 0x1000;
const POINTERS: [u8; 2] = [8, 9];
const CODE_WORDS: u32 = 120;

/// A program, what its registers begin with, and what its data is.
pub struct RandomProgram {
    pub code: Vec<u8>,
    pub data: Vec<u8>,
    pub x: [u32; 32],
    /// The addresses of instructions that the program replaces as it should, with a fence.
    pub patched: Vec<u32>,
}

pub fn random_program(random: &mut Random) -> RandomProgram {
    let mut x = [0; 32];
    for value in x.iter_mut().skip(1) {
        *value = random.operand();
    }
    for pointer in POINTERS {
        x[usize::from(pointer)] = DATA + 4 * random.below(DATA_BYTES / 4);
    }
    let data = (0..DATA_BYTES / 4).flat_map(|_| random.operand().to_le_bytes()).collect();
    let mut program = Program::default();
    let mut patched = Vec::new();
    while program.here() < CODE_WORDS * 4 {
        if random.below(50) == 0 {
            patched.push(patch(&mut program, random));
        } else {
            push_some(&mut program, random);
        }
    }
    // What ends it if nothing else does; branches may go beyond the first.
    for _ in 0..16 {
        program.push(word(random.of(&[Ecall, Ebreak]), 0, 0, 0, 0));
    }
    RandomProgram { code: program.image(), data, x, patched }
}

fn destination(random: &mut Random) -> u8 {
    let register = random.below(32) as u8;
    if POINTERS.contains(&register) && random.below(10) != 0 { 10 } else { register }
}

fn push_some(program: &mut Program, random: &mut Random) {
    let rd = destination(random);
    let [rs1, rs2] = [(); 2].map(|()| random.below(32) as u8);
    let wide = (random.next() as i32) >> 20;
    match random.below(100) {
        0..40 => program.push(word(random.of(&ARITHMETIC), rd, rs1, rs2, 0)),
        40..52 => program.push(word(random.of(&IMMEDIATE), rd, rs1, 0, wide)),
        52..58 => program.push(word(random.of(&SHIFTS), rd, rs1, 0, random.below(32) as i32)),
        58..62 => program.push(word(random.of(&[Lui, Auipc]), rd, 0, 0, (random.next() as u32 & !0xfff) as i32)),
        62..72 => {
            let (operation, bytes) = random.of(&LOADS);
            let at = (wide / 4) & -(bytes as i32);
            program.push(word(operation, rd, random.of(&POINTERS), 0, at))
        }
        72..82 => {
            let (operation, bytes) = random.of(&STORES);
            let at = (wide / 4) & -(bytes as i32);
            program.push(word(operation, 0, random.of(&POINTERS), rs2, at))
        }
        82..90 => {
            // Mostly on, and back seldom enough for most programs to come to an end.
            let distance =
                if random.below(6) == 0 { -4 * random.below(8) as i32 } else { 4 + 4 * random.below(5) as i32 };
            program.push(word(random.of(&BRANCHES), 0, rs1, rs2, distance))
        }
        90..92 => program.push(word(Jal, rd, 0, 0, 4 + 4 * random.below(5) as i32)),
        92..94 => {
            // The target's lowest bit counts for nothing.
            let distance = 8 + 4 * random.below(4) as i32 + random.below(2) as i32;
            program.push(word(Auipc, rd.max(1), 0, 0, 0));
            program.push(word(Jalr, rd, rd.max(1), 0, distance))
        }
        94..96 => program.push(word(random.of(&[Fence, FenceI]), 0, 0, 0, 0)),
        // Anything at all, which is seldom an instruction, or from anywhere.
        98 if random.below(6) == 0 => program.push(random.next() as u32),
        99 if random.below(6) == 0 => program.push(word(random.of(&LOADS).0, rd, rs1, 0, wide)),
        _ => program.push(word(Addi, rd, rs1, 0, wide)),
    };
}

/// Stores another instruction over the next but one, which the fence between makes it be executed; gives its address.
fn patch(program: &mut Program, random: &mut Random) -> u32 {
    let rd = destination(random);
    let new = word(Addi, rd, random.below(32) as u8, 0, random.below(2000) as i32);
    program.load(5, new).push(word(Auipc, 6, 0, 0, 0));
    program.push(word(Sw, 0, 6, 5, 12)).push(word(FenceI, 0, 0, 0, 0));
    program.push(word(Xori, rd, rd, 0, 77));
    program.here() - 4
}
