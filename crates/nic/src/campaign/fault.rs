//! One fault, and the text from which it can be replayed.

use super::CampaignError;
use super::experiment::{Experiment, build_named};
use crate::device::TrapPolicy;
use crate::device::registers::name as register_name;
use crate::device::{self, Damage, Stuck};
use crate::firmware::Build;
use crate::host::bus::Guard;
use std::fmt;
use std::str::FromStr;

/// Where faults strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// A bit of the control program's code flips.
    Code,
    /// A bit of the other local memory flips: constants, variables, packet buffers, stack.
    Data,
    /// A bit of a register of the processor flips; the location is its number, 32 is the program counter.
    Register,
    /// A bit of a special register is stuck from then on; the location is its offset.
    Stuck,
}

impl Space {
    /// Its name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Space::Code => "code",
            Space::Data => "data",
            Space::Register => "register",
            Space::Stuck => "stuck",
        }
    }
}

/// The location of [`Space::Register`] that is the program counter.
pub const PC: u32 = 32;

/// One fault of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Where it strikes.
    pub space: Space,
    /// The place there: an address, a number, an offset.
    pub location: u32,
    /// The bit of the word.
    pub bit: u8,
    /// What a stuck bit always is.
    pub stuck_at: Option<Stuck>,
    /// It strikes when the faulted interface has done so many instructions.
    pub at_instruction: u64,
}

impl Fault {
    /// What the device is to do.
    pub fn damage(&self) -> Damage {
        let Fault { location, bit, .. } = *self;
        match (self.space, self.stuck_at) {
            (Space::Stuck, stuck) => Damage::Stick { register: location, bit, stuck: stuck.unwrap_or(Stuck::Zero) },
            (Space::Register, _) if location == PC => Damage::Flip { space: device::Space::Pc, location: 0, bit },
            (Space::Register, _) => {
                // There is no register 255, and the device says so.
                let number = u8::try_from(location).unwrap_or(u8::MAX);
                Damage::Flip { space: device::Space::Register(number), location: 0, bit }
            }
            (Space::Code | Space::Data, _) => Damage::Flip { space: device::Space::Sram, location, bit },
        }
    }

    /// The place as people call it.
    pub fn place(&self) -> String {
        match self.space {
            Space::Code | Space::Data => format!("{:#06x}", self.location),
            Space::Register if self.location == PC => "pc".to_owned(),
            Space::Register => format!("x{}", self.location),
            Space::Stuck => register_name(self.location).map_or_else(|| self.location.to_string(), str::to_owned),
        }
    }
}

/// What an experiment runs on: the control program, and what the hardware around it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stack {
    /// The control program.
    pub build: Build,
    /// An IOMMU guards the hosts.
    pub has_iommu: bool,
    /// A trap interrupts the host.
    pub interrupts: bool,
}

impl Stack {
    /// That of an experiment.
    pub fn of(experiment: &Experiment) -> Self {
        Stack {
            build: experiment.build,
            has_iommu: experiment.guard == Guard::Iommu,
            interrupts: experiment.trap_policy == TrapPolicy::Interrupt,
        }
    }

    /// Makes it that of an experiment.
    pub fn apply(self, experiment: &mut Experiment) {
        experiment.build = self.build;
        experiment.guard = if self.has_iommu { Guard::Iommu } else { Guard::None };
        experiment.trap_policy = if self.interrupts { TrapPolicy::Interrupt } else { TrapPolicy::Halt };
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iommu = if self.has_iommu { "+iommu" } else { "" };
        let trap = if self.interrupts { "+trap" } else { "" };
        write!(out, "{}{iommu}{trap}", self.build.name())
    }
}

impl FromStr for Stack {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let build =
            build_named(name).ok_or_else(|| format!("'{name}' is none of the builds plain, detecting and tolerant"))?;
        let mut stack = Stack { build, has_iommu: false, interrupts: false };
        for part in parts {
            match part {
                "iommu" => stack.has_iommu = true,
                "trap" => stack.interrupts = true,
                other => return Err(format!("'{other}' is neither iommu nor trap")),
            }
        }
        Ok(stack)
    }
}

/// What a fault is of, and the fault.
///
/// Its text is `EXPERIMENT:BUILD:SEED:SPACE:LOCATION:BIT@INSTRUCTION`, with `+iommu` and `+trap` behind the build where the
/// experiment has them, and `stuck0` and `stuck1` for a bit that is stuck, as in `send-chunk:detecting:7:code:0x2a54:5@48123`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FaultId {
    /// The experiment's name.
    pub experiment: String,
    /// What it runs on.
    pub stack: Stack,
    /// The campaign's seed, which is that of the traffic too.
    pub seed: u64,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for FaultId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { space, location, bit, stuck_at, at_instruction } = self.fault;
        let space = match (space, stuck_at) {
            (Space::Stuck, Some(Stuck::One)) => "stuck1",
            (Space::Stuck, _) => "stuck0",
            _ => space.name(),
        };
        let (build, experiment, seed) = (self.stack, &self.experiment, self.seed);
        write!(out, "{experiment}:{build}:{seed}:{space}:{location:#x}:{bit}@{at_instruction}")
    }
}

impl FromStr for FaultId {
    type Err = CampaignError;
    fn from_str(id: &str) -> Result<Self, CampaignError> {
        let wrong = |why: String| CampaignError::Id { id: id.chars().take(200).collect(), why };
        const FORM: &str = "the form is EXPERIMENT:BUILD:SEED:SPACE:LOCATION:BIT@INSTRUCTION";
        let form = || wrong(FORM.to_owned());
        let parts: Vec<&str> = id.split(':').collect();
        let [experiment, build, seed, space, location, last] = parts[..] else { return Err(form()) };
        let (bit, at_instruction) = last.split_once('@').ok_or_else(form)?;
        let (space, stuck_at) = match space {
            "code" => (Space::Code, None),
            "data" => (Space::Data, None),
            "register" => (Space::Register, None),
            "stuck0" => (Space::Stuck, Some(Stuck::Zero)),
            "stuck1" => (Space::Stuck, Some(Stuck::One)),
            other => {
                let why = format!("'{other}' is none of code, data, register, stuck0 and stuck1");
                return Err(wrong(why));
            }
        };
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse::<u64>().ok(),
        };
        let of = |text: &str| number(text).ok_or_else(|| wrong(format!("'{text}' is not a number; {FORM}")));
        let location =
            u32::try_from(of(location)?).map_err(|_| wrong(format!("the location {location} is too large")))?;
        let bit = of(bit)?;
        if bit > 31 {
            return Err(wrong(format!("a word has bits 0 to 31, not {bit}")));
        }
        let stack = build.parse().map_err(wrong)?;
        let fault = Fault { space, location, bit: bit as u8, stuck_at, at_instruction: of(at_instruction)? };
        let (seed, experiment) = (of(seed)?, experiment.to_owned());
        Ok(FaultId { experiment, stack, seed, fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_the_fault_that_it_was() {
        for (space, stuck_at) in [
            (Space::Code, None),
            (Space::Data, None),
            (Space::Register, None),
            (Space::Stuck, Some(Stuck::Zero)),
            (Space::Stuck, Some(Stuck::One)),
        ] {
            let fault = Fault { space, location: 0x2c, bit: 31, stuck_at, at_instruction: 123_456_789_012 };
            let stack = Stack { build: Build::Tolerant, has_iommu: true, interrupts: true };
            let id = FaultId { experiment: "my-own".into(), stack, seed: u64::MAX, fault };
            assert_eq!(id.to_string().parse::<FaultId>().unwrap(), id);
        }
    }

    #[test]
    fn what_is_no_id_says_why() {
        for (id, why) in [
            ("", "the form is"),
            ("a:detecting:7:code:0x10:5", "the form is"),
            ("a:detecting:7:core:0x10:5@1", "'core' is none of"),
            ("a:detecting:7:code:0x10:32@1", "not 32"),
            ("a:detecting:7:code:0x1000000000:3@1", "too large"),
            ("a:best:7:code:0x10:3@1", "'best' is none of"),
            ("a:plain+fast:7:code:0x10:3@1", "'fast' is neither"),
            ("a:plain:x:code:0x10:3@1", "'x' is not a number"),
        ] {
            let error = id.parse::<FaultId>().unwrap_err().to_string();
            assert!(error.contains(why), "{id}: {error}");
        }
    }
}
