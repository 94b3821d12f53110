//! One stack, frame by frame: the registers of a caller from those of its callee, as the file's table of frames says.
//!
//! Written on gimli alone, because a watched process may bring any file: expressions stop after a number of steps, and
//! a frame that does not lie above the one before it ends the walk.

use super::elf::Image;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, EvaluationResult, LittleEndian, Location, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use surefoot_probes::UserCopy;

/// Steps of one DWARF expression.
const EXPRESSION_STEPS_MAX: u32 = 1_000;

/// The numbers that DWARF gives the registers of x86-64 (System V ABI, AMD64 supplement, figure 3.36).
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
const R12: usize = 12;
const RETURN: usize = 16;
const REGISTERS: usize = 17;

/// The registers that a function leaves as it found them.
const KEPT: [usize; 6] = [RBX, RBP, R12, R12 + 1, R12 + 2, R12 + 3];

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Expression = UnwindExpression<usize>;

/// Registers whose values are known.
#[derive(Debug, Clone)]
pub(super) struct Registers([Option<u64>; REGISTERS]);

impl Registers {
    pub(super) fn of(copy: &UserCopy) -> Self {
        let mut values = [None; REGISTERS];
        values[RBX] = Some(copy.bx);
        values[RBP] = Some(copy.bp);
        values[RSP] = Some(copy.sp);
        for (value, kept) in values[R12..RETURN].iter_mut().zip(copy.r12_to_r15) {
            *value = Some(kept);
        }
        values[RETURN] = Some(copy.ip);
        Registers(values)
    }

    pub(super) fn address(&self) -> Option<u64> {
        self.0[RETURN]
    }

    fn get(&self, register: Register) -> Option<u64> {
        self.0.get(usize::from(register.0)).copied().flatten()
    }
}

/// A caller.
pub(super) struct Caller {
    pub(super) registers: Registers,
    /// Whether the callee was begun by a signal: the caller's address is then where it was interrupted, and no return
    /// address.
    pub(super) interrupted: bool,
}

/// The word at an address of the copied stack.
fn word_at(copy: &UserCopy, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(copy.sp)?).ok()?;
    Some(u64::from_le_bytes(copy.stack.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The caller's registers by frame pointer, for code that no file describes.
pub(super) fn by_frame_pointer(copy: &UserCopy, registers: &Registers) -> Option<Caller> {
    let (frame, sp) = (registers.0[RBP]?, registers.0[RSP]?);
    if frame < sp {
        return None;
    }
    let mut values = [None; REGISTERS];
    values[RBP] = Some(word_at(copy, frame)?);
    values[RETURN] = Some(word_at(copy, frame.checked_add(8)?)?);
    values[RSP] = Some(frame.checked_add(16)?);
    Some(Caller { registers: Registers(values), interrupted: false })
}

/// The caller's registers by the description that covers this address of the file; `None` where the stack ends or
/// nothing covers it.
pub(super) fn by_description(
    image: &Image,
    context: &mut UnwindContext<usize>,
    copy: &UserCopy,
    registers: &Registers,
    file_address: u64,
) -> Option<Caller> {
    let mut frames: EhFrame<Bytes<'_>> = EhFrame::new(&image.frames, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(image.frames_address);
    let offset = EhFrameOffset(image.description(file_address)?);
    let description = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
    if description.cie().return_address_register() != Register(RETURN as u16) {
        return None;
    }
    let encoding = description.cie().encoding();
    let interrupted = description.is_signal_trampoline();
    let row = description.unwind_info_for_address(&frames, &bases, context, file_address).ok()?;
    let evaluation = Evaluation { frames: &frames, encoding, copy, registers };
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => registers.get(*register)?.checked_add_signed(*offset)?,
        CfaRule::Expression(expression) => evaluation.value(expression, None)?,
    };
    // A caller's frame lies above its callee's; anything else would let a walk run in circles.
    if frame <= registers.0[RSP]? {
        return None;
    }
    let mut values = [None; REGISTERS];
    for kept in KEPT {
        values[kept] = registers.0[kept];
    }
    for (register, rule) in row.registers() {
        if let Some(value) = values.get_mut(usize::from(register.0)) {
            *value = evaluation.rule(*register, rule, frame);
        }
    }
    if values[RSP].is_none() {
        values[RSP] = Some(frame);
    }
    Some(Caller { registers: Registers(values), interrupted })
}

struct Evaluation<'a> {
    frames: &'a EhFrame<Bytes<'a>>,
    encoding: gimli::Encoding,
    copy: &'a UserCopy,
    registers: &'a Registers,
}

impl Evaluation<'_> {
    fn rule(&self, register: Register, rule: &RegisterRule<usize>, frame: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.registers.get(register),
            RegisterRule::Offset(offset) => word_at(self.copy, frame.checked_add_signed(*offset)?),
            RegisterRule::ValOffset(offset) => frame.checked_add_signed(*offset),
            RegisterRule::Register(other) => self.registers.get(*other),
            RegisterRule::Expression(expression) => word_at(self.copy, self.value(expression, Some(frame))?),
            RegisterRule::ValExpression(expression) => self.value(expression, Some(frame)),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// What an expression says, within a number of steps, of registers and the copied stack alone.
    fn value(&self, expression: &Expression, initial: Option<u64>) -> Option<u64> {
        let mut evaluation = expression.get(self.frames).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(EXPRESSION_STEPS_MAX);
        if let Some(value) = initial {
            evaluation.set_initial_value(value);
        }
        let mut result = evaluation.evaluate().ok()?;
        for _ in 0..EXPRESSION_STEPS_MAX {
            result = match result {
                EvaluationResult::Complete => {
                    let pieces = evaluation.as_result();
                    let [piece] = pieces else { return None };
                    return match piece.location {
                        Location::Address { address } => Some(address),
                        Location::Value { value: Value::Generic(value) } => Some(value),
                        _ => None,
                    };
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.registers.get(register)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(word_at(self.copy, address)?)).ok()?
                }
                _ => return None,
            };
        }
        None
    }
}
