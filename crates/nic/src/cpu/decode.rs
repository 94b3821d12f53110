//! Words to instructions and back, after the RISC-V unprivileged specification (RV32I 2.1, M 2.0, Zifencei 2.0).

use Operation as Op;

/// What an instruction does: the 40 of rv32i, the 8 of the M extension, and `fence.i`.
#[allow(missing_docs, reason = "the names are the specification's mnemonics")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Not looked at yet; only in the decode cache.
    Undecoded,
    /// No instruction of rv32im.
    Illegal,
    Lui,
    Auipc,
    Jal,
    Jalr,
    Beq,
    Bne,
    Blt,
    Bge,
    Bltu,
    Bgeu,
    Lb,
    Lh,
    Lw,
    Lbu,
    Lhu,
    Sb,
    Sh,
    Sw,
    Addi,
    Slti,
    Sltiu,
    Xori,
    Ori,
    Andi,
    Slli,
    Srli,
    Srai,
    Add,
    Sub,
    Sll,
    Slt,
    Sltu,
    Xor,
    Srl,
    Sra,
    Or,
    And,
    Mul,
    Mulh,
    Mulhsu,
    Mulhu,
    Div,
    Divu,
    Rem,
    Remu,
    Fence,
    FenceI,
    Ecall,
    Ebreak,
}

/// A decoded instruction. Fields that its format lacks are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// What it does.
    pub operation: Operation,
    /// The register it writes, below 32.
    pub rd: u8,
    /// The first register it reads.
    pub rs1: u8,
    /// The second register it reads.
    pub rs2: u8,
    /// Its constant, sign-extended; for `lui` and `auipc` already in the upper 20 bits, for the shifts the amount.
    pub immediate: i32,
}

/// Opcodes, with the two low bits that mark a 32-bit instruction.
mod opcode {
    pub const LOAD: u32 = 0x03;
    pub const MISC_MEM: u32 = 0x0f;
    pub const OP_IMM: u32 = 0x13;
    pub const AUIPC: u32 = 0x17;
    pub const STORE: u32 = 0x23;
    pub const OP: u32 = 0x33;
    pub const LUI: u32 = 0x37;
    pub const BRANCH: u32 = 0x63;
    pub const JALR: u32 = 0x67;
    pub const JAL: u32 = 0x6f;
    pub const SYSTEM: u32 = 0x73;
}

/// The instruction in a word; `Illegal` with all fields zero where there is none. Fields that the specification tells an
/// implementation to ignore (those of the fences) are kept, so that [`encode`] gives back every legal word.
pub fn decode(word: u32) -> Instruction {
    let funct3 = word >> 12 & 7;
    let funct7 = word >> 25;
    match word & 0x7f {
        opcode::LUI => u_type(Op::Lui, word),
        opcode::AUIPC => u_type(Op::Auipc, word),
        opcode::JAL => Instruction { operation: Op::Jal, rd: rd(word), rs1: 0, rs2: 0, immediate: j_immediate(word) },
        opcode::JALR if funct3 == 0 => i_type(Op::Jalr, word),
        opcode::BRANCH => match funct3 {
            0 => b_type(Op::Beq, word),
            1 => b_type(Op::Bne, word),
            4 => b_type(Op::Blt, word),
            5 => b_type(Op::Bge, word),
            6 => b_type(Op::Bltu, word),
            7 => b_type(Op::Bgeu, word),
            _ => ILLEGAL,
        },
        opcode::LOAD => match funct3 {
            0 => i_type(Op::Lb, word),
            1 => i_type(Op::Lh, word),
            2 => i_type(Op::Lw, word),
            4 => i_type(Op::Lbu, word),
            5 => i_type(Op::Lhu, word),
            _ => ILLEGAL,
        },
        opcode::STORE => match funct3 {
            0 => s_type(Op::Sb, word),
            1 => s_type(Op::Sh, word),
            2 => s_type(Op::Sw, word),
            _ => ILLEGAL,
        },
        opcode::OP_IMM => decode_immediate(word, funct3, funct7),
        opcode::OP => decode_register(word, funct3, funct7),
        opcode::MISC_MEM if funct3 == 0 => i_type(Op::Fence, word),
        opcode::MISC_MEM if funct3 == 1 => i_type(Op::FenceI, word),
        opcode::SYSTEM if word == ECALL => Instruction { operation: Op::Ecall, ..ILLEGAL },
        opcode::SYSTEM if word == EBREAK => Instruction { operation: Op::Ebreak, ..ILLEGAL },
        _ => ILLEGAL,
    }
}

fn decode_immediate(word: u32, funct3: u32, funct7: u32) -> Instruction {
    match (funct3, funct7) {
        (0, _) => i_type(Op::Addi, word),
        (1, 0) => shift(Op::Slli, word),
        (2, _) => i_type(Op::Slti, word),
        (3, _) => i_type(Op::Sltiu, word),
        (4, _) => i_type(Op::Xori, word),
        (5, 0) => shift(Op::Srli, word),
        (5, 0x20) => shift(Op::Srai, word),
        (6, _) => i_type(Op::Ori, word),
        (7, _) => i_type(Op::Andi, word),
        _ => ILLEGAL,
    }
}

fn decode_register(word: u32, funct3: u32, funct7: u32) -> Instruction {
    let operation = match (funct7, funct3) {
        (0, 0) => Op::Add,
        (0x20, 0) => Op::Sub,
        (0, 1) => Op::Sll,
        (0, 2) => Op::Slt,
        (0, 3) => Op::Sltu,
        (0, 4) => Op::Xor,
        (0, 5) => Op::Srl,
        (0x20, 5) => Op::Sra,
        (0, 6) => Op::Or,
        (0, 7) => Op::And,
        (1, 0) => Op::Mul,
        (1, 1) => Op::Mulh,
        (1, 2) => Op::Mulhsu,
        (1, 3) => Op::Mulhu,
        (1, 4) => Op::Div,
        (1, 5) => Op::Divu,
        (1, 6) => Op::Rem,
        (1, 7) => Op::Remu,
        _ => return ILLEGAL,
    };
    Instruction { operation, rd: rd(word), rs1: rs1(word), rs2: rs2(word), immediate: 0 }
}

/// The word of an instruction: the inverse of [`decode`]. `None` for what is none, and for fields that do not fit.
pub fn encode(instruction: Instruction) -> Option<u32> {
    let word = match instruction.operation {
        Op::Undecoded | Op::Illegal => return None,
        Op::Lui => opcode::LUI | instruction.immediate as u32 & 0xffff_f000 | place(instruction.rd, 7),
        Op::Auipc => opcode::AUIPC | instruction.immediate as u32 & 0xffff_f000 | place(instruction.rd, 7),
        Op::Jal => opcode::JAL | j_bits(instruction.immediate as u32) | place(instruction.rd, 7),
        Op::Ecall => ECALL,
        Op::Ebreak => EBREAK,
        operation => encode_formatted(operation, instruction),
    };
    // What does not fit its field comes back as something else.
    (decode(word) == instruction).then_some(word)
}

fn encode_formatted(operation: Operation, instruction: Instruction) -> u32 {
    let immediate = instruction.immediate as u32;
    let (format, opcode, funct3, funct7) = parts(operation);
    let registers = match format {
        Format::Register => place(instruction.rd, 7) | place(instruction.rs2, 20),
        Format::Immediate => place(instruction.rd, 7) | immediate << 20,
        Format::Store => place(instruction.rs2, 20) | (immediate & 0x1f) << 7 | immediate >> 5 << 25,
        Format::Branch => place(instruction.rs2, 20) | b_bits(immediate),
    };
    opcode | funct3 << 12 | funct7 << 25 | place(instruction.rs1, 15) | registers
}

enum Format {
    Register,
    Immediate,
    Store,
    Branch,
}

/// Format, opcode, funct3 and funct7 of the operations that have them.
fn parts(operation: Operation) -> (Format, u32, u32, u32) {
    use Format::{Branch, Immediate, Register, Store};
    match operation {
        Op::Jalr => (Immediate, opcode::JALR, 0, 0),
        Op::Beq => (Branch, opcode::BRANCH, 0, 0),
        Op::Bne => (Branch, opcode::BRANCH, 1, 0),
        Op::Blt => (Branch, opcode::BRANCH, 4, 0),
        Op::Bge => (Branch, opcode::BRANCH, 5, 0),
        Op::Bltu => (Branch, opcode::BRANCH, 6, 0),
        Op::Bgeu => (Branch, opcode::BRANCH, 7, 0),
        Op::Lb => (Immediate, opcode::LOAD, 0, 0),
        Op::Lh => (Immediate, opcode::LOAD, 1, 0),
        Op::Lw => (Immediate, opcode::LOAD, 2, 0),
        Op::Lbu => (Immediate, opcode::LOAD, 4, 0),
        Op::Lhu => (Immediate, opcode::LOAD, 5, 0),
        Op::Sb => (Store, opcode::STORE, 0, 0),
        Op::Sh => (Store, opcode::STORE, 1, 0),
        Op::Sw => (Store, opcode::STORE, 2, 0),
        Op::Addi => (Immediate, opcode::OP_IMM, 0, 0),
        Op::Slli => (Immediate, opcode::OP_IMM, 1, 0),
        Op::Slti => (Immediate, opcode::OP_IMM, 2, 0),
        Op::Sltiu => (Immediate, opcode::OP_IMM, 3, 0),
        Op::Xori => (Immediate, opcode::OP_IMM, 4, 0),
        Op::Srli => (Immediate, opcode::OP_IMM, 5, 0),
        Op::Srai => (Immediate, opcode::OP_IMM, 5, 0x20),
        Op::Ori => (Immediate, opcode::OP_IMM, 6, 0),
        Op::Andi => (Immediate, opcode::OP_IMM, 7, 0),
        Op::Add => (Register, opcode::OP, 0, 0),
        Op::Sub => (Register, opcode::OP, 0, 0x20),
        Op::Sll => (Register, opcode::OP, 1, 0),
        Op::Slt => (Register, opcode::OP, 2, 0),
        Op::Sltu => (Register, opcode::OP, 3, 0),
        Op::Xor => (Register, opcode::OP, 4, 0),
        Op::Srl => (Register, opcode::OP, 5, 0),
        Op::Sra => (Register, opcode::OP, 5, 0x20),
        Op::Or => (Register, opcode::OP, 6, 0),
        Op::And => (Register, opcode::OP, 7, 0),
        Op::Mul => (Register, opcode::OP, 0, 1),
        Op::Mulh => (Register, opcode::OP, 1, 1),
        Op::Mulhsu => (Register, opcode::OP, 2, 1),
        Op::Mulhu => (Register, opcode::OP, 3, 1),
        Op::Div => (Register, opcode::OP, 4, 1),
        Op::Divu => (Register, opcode::OP, 5, 1),
        Op::Rem => (Register, opcode::OP, 6, 1),
        Op::Remu => (Register, opcode::OP, 7, 1),
        Op::FenceI => (Immediate, opcode::MISC_MEM, 1, 0),
        // The others have no such parts and do not come here; a fence is the harmless one.
        _ => (Immediate, opcode::MISC_MEM, 0, 0),
    }
}

const ECALL: u32 = 0x0000_0073;
const EBREAK: u32 = 0x0010_0073;

/// What stands for a word that is no instruction.
pub(crate) const ILLEGAL: Instruction = Instruction { operation: Op::Illegal, rd: 0, rs1: 0, rs2: 0, immediate: 0 };

/// What the decode cache holds for a word that was not looked at since it changed.
pub(crate) const UNDECODED: Instruction = Instruction { operation: Op::Undecoded, ..ILLEGAL };

fn rd(word: u32) -> u8 {
    (word >> 7 & 31) as u8
}

fn rs1(word: u32) -> u8 {
    (word >> 15 & 31) as u8
}

fn rs2(word: u32) -> u8 {
    (word >> 20 & 31) as u8
}

fn place(register: u8, at: u32) -> u32 {
    (u32::from(register) & 31) << at
}

fn u_type(operation: Operation, word: u32) -> Instruction {
    Instruction { operation, rd: rd(word), rs1: 0, rs2: 0, immediate: (word & 0xffff_f000) as i32 }
}

fn i_type(operation: Operation, word: u32) -> Instruction {
    Instruction { operation, rd: rd(word), rs1: rs1(word), rs2: 0, immediate: word as i32 >> 20 }
}

fn shift(operation: Operation, word: u32) -> Instruction {
    Instruction { operation, rd: rd(word), rs1: rs1(word), rs2: 0, immediate: i32::from(rs2(word)) }
}

fn s_type(operation: Operation, word: u32) -> Instruction {
    let immediate = word as i32 >> 25 << 5 | i32::from(rd(word));
    Instruction { operation, rd: 0, rs1: rs1(word), rs2: rs2(word), immediate }
}

/// Bit 31 is bit 12 of the distance, 30 to 25 are 10 to 5, 11 to 8 are 4 to 1, and bit 7 is bit 11.
fn b_type(operation: Operation, word: u32) -> Instruction {
    let low = (word >> 7 & 0x1e | word >> 20 & 0x7e0 | word << 4 & 0x800) as i32;
    let immediate = word as i32 >> 31 << 12 | low;
    Instruction { operation, rd: 0, rs1: rs1(word), rs2: rs2(word), immediate }
}

fn b_bits(immediate: u32) -> u32 {
    (immediate & 0x1e) << 7 | (immediate & 0x7e0) << 20 | (immediate & 0x800) >> 4 | (immediate & 0x1000) << 19
}

/// Bit 31 is bit 20 of the distance, 30 to 21 are 10 to 1, bit 20 is bit 11, and 19 to 12 are themselves.
fn j_immediate(word: u32) -> i32 {
    let low = (word & 0xf_f000 | word >> 9 & 0x800 | word >> 20 & 0x7fe) as i32;
    word as i32 >> 31 << 20 | low
}

fn j_bits(immediate: u32) -> u32 {
    immediate & 0xf_f000 | (immediate & 0x800) << 9 | (immediate & 0x7fe) << 20 | (immediate & 0x10_0000) << 11
}
