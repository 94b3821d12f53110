//! The interpreter: instructions out of the decode cache until something else than the processor has to act.

use super::{Cause, Core, Instruction, Operation as Op, Trap};
use crate::device::sram::Sram;

/// Why the interpreter gave back control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As many instructions as were asked for are done.
    Budget,
    /// The instruction at `pc` loads a word from outside the SRAM into this register; it is not done yet.
    Load { rd: u8, address: u32 },
    /// The instruction at `pc` stores this word outside the SRAM; it is not done yet.
    Store { address: u32, value: u32 },
    /// The instruction at `pc` cannot be done.
    Trap(Trap),
}

/// What looks over the processor's shoulder. With `()` nothing does, and nothing is paid.
pub(crate) trait Observer {
    /// An instruction was done at this address; `rd` now has this value.
    fn done(&mut self, pc: u32, instruction: Instruction, value: u32);
}

impl Observer for () {
    #[inline(always)]
    fn done(&mut self, _: u32, _: Instruction, _: u32) {}
}

/// Executes at most `budget` instructions; says how many were done and why it stopped.
pub(crate) fn execute(core: &mut Core, sram: &mut Sram, budget: u64, observer: &mut impl Observer) -> (u64, Exit) {
    let Core { x, pc } = core;
    let mut at = *pc;
    let mut left = budget;
    if at & 3 != 0 {
        return (0, Exit::Trap(Trap { cause: Cause::FetchMisaligned, pc: at, value: at }));
    }
    let exit = loop {
        if left == 0 {
            break Exit::Budget;
        }
        let Some(instruction) = sram.decoded(at) else {
            break Exit::Trap(Trap { cause: Cause::FetchFault, pc: at, value: at });
        };
        match step(x, at, sram, instruction) {
            Ok(next) => {
                x[0] = 0;
                observer.done(at, instruction, x[usize::from(instruction.rd & 31)]);
                at = next;
                left -= 1;
            }
            // Decoded only now; the next turn finds it in the cache.
            Err(_) if instruction.operation == Op::Undecoded => sram.decode_at(at),
            Err(exit) => break exit,
        }
    };
    *pc = at;
    (budget - left, exit)
}

/// Does one instruction and gives the address of the next one; an error leaves all as it was.
#[inline(always)]
fn step(x: &mut [u32; 32], pc: u32, sram: &mut Sram, instruction: Instruction) -> Result<u32, Exit> {
    let Instruction { operation, rd, rs1, rs2, immediate } = instruction;
    // The mask tells the compiler that the index is in range.
    let rd = usize::from(rd & 31);
    let (a, b) = (x[usize::from(rs1 & 31)], x[usize::from(rs2 & 31)]);
    let constant = immediate as u32;
    let to = a.wrapping_add(constant);
    let next = pc.wrapping_add(4);
    match operation {
        Op::Lui => x[rd] = constant,
        Op::Auipc => x[rd] = pc.wrapping_add(constant),
        Op::Jal => return jump(pc, pc.wrapping_add(constant)).inspect(|_| x[rd] = next),
        Op::Jalr => return jump(pc, to & !1).inspect(|_| x[rd] = next),
        Op::Beq => return branch(pc, a == b, constant),
        Op::Bne => return branch(pc, a != b, constant),
        Op::Blt => return branch(pc, (a as i32) < b as i32, constant),
        Op::Bge => return branch(pc, a as i32 >= b as i32, constant),
        Op::Bltu => return branch(pc, a < b, constant),
        Op::Bgeu => return branch(pc, a >= b, constant),
        Op::Lb => x[rd] = load_byte(pc, sram, to)? as i8 as u32,
        Op::Lbu => x[rd] = u32::from(load_byte(pc, sram, to)?),
        Op::Lh => x[rd] = load_half(pc, sram, to)? as i16 as u32,
        Op::Lhu => x[rd] = u32::from(load_half(pc, sram, to)?),
        Op::Lw => x[rd] = load_word(pc, sram, to, rd as u8)?,
        Op::Sb => store_byte(pc, sram, to, b as u8)?,
        Op::Sh => store_half(pc, sram, to, b as u16)?,
        Op::Sw => store_word(pc, sram, to, b)?,
        Op::Addi => x[rd] = to,
        Op::Slti => x[rd] = u32::from((a as i32) < immediate),
        Op::Sltiu => x[rd] = u32::from(a < constant),
        Op::Xori => x[rd] = a ^ constant,
        Op::Ori => x[rd] = a | constant,
        Op::Andi => x[rd] = a & constant,
        Op::Slli => x[rd] = a << (constant & 31),
        Op::Srli => x[rd] = a >> (constant & 31),
        Op::Srai => x[rd] = (a as i32 >> (constant & 31)) as u32,
        Op::Add => x[rd] = a.wrapping_add(b),
        Op::Sub => x[rd] = a.wrapping_sub(b),
        Op::Sll => x[rd] = a << (b & 31),
        Op::Slt => x[rd] = u32::from((a as i32) < b as i32),
        Op::Sltu => x[rd] = u32::from(a < b),
        Op::Xor => x[rd] = a ^ b,
        Op::Srl => x[rd] = a >> (b & 31),
        Op::Sra => x[rd] = (a as i32 >> (b & 31)) as u32,
        Op::Or => x[rd] = a | b,
        Op::And => x[rd] = a & b,
        Op::Mul => x[rd] = a.wrapping_mul(b),
        Op::Mulh => x[rd] = ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
        Op::Mulhsu => x[rd] = ((i64::from(a as i32) * i64::from(b)) >> 32) as u32,
        Op::Mulhu => x[rd] = ((u64::from(a) * u64::from(b)) >> 32) as u32,
        // Division has no exception: by zero it gives all ones and the dividend, and the one overflow wraps.
        Op::Div => x[rd] = if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 },
        Op::Divu => x[rd] = a.checked_div(b).unwrap_or(u32::MAX),
        Op::Rem => x[rd] = if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 },
        Op::Remu => x[rd] = a.checked_rem(b).unwrap_or(a),
        // One processor without caches: memory is always in order, and a store into code holds at the next fetch.
        Op::Fence | Op::FenceI => {}
        Op::Undecoded | Op::Illegal => return Err(illegal(pc, sram)),
        Op::Ecall => return Err(trap(Cause::EnvironmentCall, pc, 0)),
        Op::Ebreak => return Err(trap(Cause::Breakpoint, pc, 0)),
    }
    Ok(next)
}

#[inline(always)]
fn branch(pc: u32, taken: bool, distance: u32) -> Result<u32, Exit> {
    if taken { jump(pc, pc.wrapping_add(distance)) } else { Ok(pc.wrapping_add(4)) }
}

#[inline(always)]
fn jump(pc: u32, target: u32) -> Result<u32, Exit> {
    if target & 3 == 0 { Ok(target) } else { Err(trap(Cause::FetchMisaligned, pc, target)) }
}

#[inline(always)]
fn load_byte(pc: u32, sram: &Sram, address: u32) -> Result<u8, Exit> {
    sram.byte(address).ok_or_else(|| bad_load(pc, address, 1))
}

#[inline(always)]
fn load_half(pc: u32, sram: &Sram, address: u32) -> Result<u16, Exit> {
    sram.half(address).ok_or_else(|| bad_load(pc, address, 2))
}

#[inline(always)]
fn load_word(pc: u32, sram: &Sram, address: u32, rd: u8) -> Result<u32, Exit> {
    sram.word(address).ok_or_else(
        || {
            if address & 3 == 0 { Exit::Load { rd, address } } else { bad_load(pc, address, 4) }
        },
    )
}

#[inline(always)]
fn store_byte(pc: u32, sram: &mut Sram, address: u32, value: u8) -> Result<(), Exit> {
    sram.put_byte(address, value).ok_or_else(|| bad_store(pc, address, 1))
}

#[inline(always)]
fn store_half(pc: u32, sram: &mut Sram, address: u32, value: u16) -> Result<(), Exit> {
    sram.put_half(address, value).ok_or_else(|| bad_store(pc, address, 2))
}

#[inline(always)]
fn store_word(pc: u32, sram: &mut Sram, address: u32, value: u32) -> Result<(), Exit> {
    sram.put_word(address, value)
        .ok_or_else(|| if address & 3 == 0 { Exit::Store { address, value } } else { bad_store(pc, address, 4) })
}

#[cold]
fn bad_load(pc: u32, address: u32, size: u32) -> Exit {
    let cause = if address & (size - 1) != 0 { Cause::LoadMisaligned } else { Cause::LoadFault };
    trap(cause, pc, address)
}

#[cold]
fn bad_store(pc: u32, address: u32, size: u32) -> Exit {
    let cause = if address & (size - 1) != 0 { Cause::StoreMisaligned } else { Cause::StoreFault };
    trap(cause, pc, address)
}

#[cold]
fn illegal(pc: u32, sram: &Sram) -> Exit {
    trap(Cause::Illegal, pc, sram.word(pc).unwrap_or(0))
}

fn trap(cause: Cause, pc: u32, value: u32) -> Exit {
    Exit::Trap(Trap { cause, pc, value })
}
