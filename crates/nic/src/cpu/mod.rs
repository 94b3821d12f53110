//! The interface's processor: rv32im without compressed instructions, privilege levels or interrupts.
//!
//! What it does is a function of its registers, the program counter and the memory alone. The decoded form of a word is
//! derived from the word and forgotten with every change to it, so there is no hidden state.

pub mod decode;
pub(crate) mod execute;

pub use decode::{Instruction, Operation, decode, encode};

/// The registers x0 to x31, of which x0 is always zero, and the program counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Core {
    /// x0 to x31.
    pub x: [u32; 32],
    /// The address of the next instruction.
    pub pc: u32,
}

/// Why the processor stopped for good, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trap {
    /// What went wrong.
    pub cause: Cause,
    /// The address of the instruction that did it.
    pub pc: u32,
    /// The instruction's word for an illegal one, the address for an access, the target for a jump, else 0.
    pub value: u32,
}

/// The exceptions of the RISC-V privileged specification (volume II, table of `mcause`) that this processor can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A jump or the program counter is no multiple of four.
    FetchMisaligned,
    /// The program counter is outside of the SRAM.
    FetchFault,
    /// The word is no instruction of rv32im.
    Illegal,
    /// `ebreak`.
    Breakpoint,
    /// A load from an address that is no multiple of its size.
    LoadMisaligned,
    /// A load from where there is nothing.
    LoadFault,
    /// A store to an address that is no multiple of its size.
    StoreMisaligned,
    /// A store to where there is nothing.
    StoreFault,
    /// `ecall`.
    EnvironmentCall,
}
