//! What looks over the processor's shoulder: which words were fetched, and a record step by step. A device without an
//! observation pays nothing for it.

use super::Device;
use super::registers::SRAM_BYTES;
use super::sram::Sram;
use crate::cpu::execute::Observer;
use crate::cpu::{Instruction, Operation};

/// Words of SRAM, a bit each, in words of 64.
const FETCHED_WORDS: usize = SRAM_BYTES as usize / 4 / 64;

/// One instruction that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many were done before it since the device was made.
    pub number: u64,
    /// Virtual time at which it began.
    pub at_ns: u64,
    /// Its address.
    pub pc: u32,
    /// What it is.
    pub instruction: Instruction,
    /// The register that it wrote and what is in it now.
    pub register: Option<(u8, u32)>,
    /// Its load or store of a special register or a mailbox.
    pub access: Option<Access>,
}

/// A load or store outside of the SRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address.
    pub address: u32,
    /// The word.
    pub value: u32,
    /// A store, not a load.
    pub is_store: bool,
}

/// What is recorded.
pub(super) struct Observation {
    fetched: Option<Box<[u64; FETCHED_WORDS]>>,
    steps: Option<Steps>,
    /// Of the next instruction.
    number: u64,
    at_ns: u64,
    instruction_ns: u64,
}

struct Steps {
    steps: Vec<Step>,
    steps_max: usize,
    missed: u64,
}

impl Observation {
    fn new() -> Observation {
        Observation { fetched: None, steps: None, number: 0, at_ns: 0, instruction_ns: 0 }
    }

    /// Instructions will follow each other from this one on.
    pub fn begin(&mut self, number: u64, at_ns: u64, instruction_ns: u64) {
        (self.number, self.at_ns, self.instruction_ns) = (number, at_ns, instruction_ns);
    }

    /// The instruction at `pc` loads or stores outside of the SRAM.
    pub fn access(
        &mut self,
        number: u64,
        at_ns: u64,
        pc: u32,
        sram: &Sram,
        (address, value, is_store): (u32, u32, bool),
        rd: Option<u8>,
    ) {
        self.fetch(pc);
        let instruction = sram.decoded(pc).unwrap_or(crate::cpu::decode::ILLEGAL);
        let register = rd.filter(|rd| *rd != 0).map(|rd| (rd, value));
        let access = Some(Access { address, value, is_store });
        self.note(Step { number, at_ns, pc, instruction, register, access });
    }

    fn fetch(&mut self, pc: u32) {
        if let Some(fetched) = &mut self.fetched {
            let word = pc as usize / 4;
            if let Some(bits) = fetched.get_mut(word / 64) {
                *bits |= 1 << (word % 64);
            }
        }
    }

    fn note(&mut self, step: Step) {
        let Some(record) = &mut self.steps else { return };
        if record.steps.len() < record.steps_max {
            record.steps.push(step);
        } else {
            record.missed += 1;
        }
    }
}

impl Observer for Observation {
    fn done(&mut self, pc: u32, instruction: Instruction, value: u32) {
        self.fetch(pc);
        let register = writes_register(instruction).then_some((instruction.rd, value));
        let (number, at_ns) = (self.number, self.at_ns);
        self.note(Step { number, at_ns, pc, instruction, register, access: None });
        self.number += 1;
        self.at_ns += self.instruction_ns;
    }
}

fn writes_register(instruction: Instruction) -> bool {
    instruction.rd != 0 && !matches!(instruction.operation, Operation::Fence | Operation::FenceI)
}

impl Device {
    /// Begins, or ends, to record which words are fetched.
    pub fn observe_fetches(&mut self, on: bool) {
        let fetched = on.then(|| Box::new([0; FETCHED_WORDS]));
        self.observation.get_or_insert_with(|| Box::new(Observation::new())).fetched = fetched;
        self.drop_idle_observation();
    }

    /// The words of SRAM that were executed since [`Device::observe_fetches`], a bit each from address 0 on, 64 to a
    /// number; empty where nobody asked. The instruction that traps was fetched too, and counts.
    pub fn fetched(&self) -> &[u64] {
        match self.observation.as_deref() {
            Some(Observation { fetched: Some(fetched), .. }) => &**fetched,
            _ => &[],
        }
    }

    /// Begins to record each instruction, at most so many.
    pub fn trace(&mut self, steps_max: usize) {
        let steps = Some(Steps { steps: Vec::new(), steps_max, missed: 0 });
        self.observation.get_or_insert_with(|| Box::new(Observation::new())).steps = steps;
    }

    /// Ends the record and gives it, with the number of instructions that did not fit.
    pub fn take_trace(&mut self) -> (Vec<Step>, u64) {
        let steps = self.observation.as_mut().and_then(|observation| observation.steps.take());
        self.drop_idle_observation();
        steps.map_or_else(Default::default, |record| (record.steps, record.missed))
    }

    fn drop_idle_observation(&mut self) {
        self.observation.take_if(|observation| observation.fetched.is_none() && observation.steps.is_none());
    }

    /// An instruction was fetched, though it could not be done.
    pub(super) fn note_trapped_fetch(&mut self, pc: u32) {
        if let Some(observation) = &mut self.observation {
            observation.fetch(pc);
        }
    }
}
