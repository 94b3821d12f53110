//! What a campaign runs, and which faults it has.

use super::fault::{Fault, PC, Space};
use super::{CampaignError, random};
use crate::device::registers::{NAMES, SRAM_BYTES, offset};
use crate::device::{Stuck, TrapPolicy};
use crate::firmware::{Build, Firmware};
use crate::host::bus::Guard;
use crate::host::daemon::DaemonConfig;
use crate::host::port::PortConfig;
use crate::host::selftest::{DAEMON_BYTES, SelfTestConfig};
use crate::world::traffic::{Kind, TrafficConfig, WINDOW_MAX, areas};
use crate::world::{LinkFaults, WorldConfig};
use std::ops::Range;
use std::sync::Arc;

/// The longest message of an experiment, bytes.
pub const MESSAGE_BYTES_MAX: u32 = 16_384;
/// The most messages in each direction.
pub const MESSAGES_MAX: u32 = 10_000;
/// The most faults of a campaign.
pub const FAULTS_MAX: u64 = 20_000_000;

/// The experiments of the paper's Table 1, and two that it leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Every bit of the function that sends a part of a message.
    SendChunk,
    /// Every bit of the six DMA registers, stuck.
    DmaRegisters,
    /// Any bit of the code.
    Code,
    /// Any bit of the other memory.
    Data,
    /// Any bit of the processor's registers.
    Registers,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 5] =
        [Preset::SendChunk, Preset::DmaRegisters, Preset::Code, Preset::Data, Preset::Registers];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::SendChunk => "send-chunk",
            Preset::DmaRegisters => "dma-registers",
            Preset::Code => "code",
            Preset::Data => "data",
            Preset::Registers => "registers",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// How many faults are drawn when nobody says so; `None` for all.
    pub fn sample(self) -> Option<u64> {
        match self {
            // Of the registers there are 1,024 bits.
            Preset::SendChunk | Preset::DmaRegisters | Preset::Registers => None,
            // As many as the paper drew of its code.
            Preset::Code | Preset::Data => Some(1430),
        }
    }
}

/// Which bits may be hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The code of one function.
    Function(String),
    /// All code.
    Code,
    /// The memory behind the code.
    Data,
    /// The processor's registers and program counter.
    Registers,
    /// These special registers, stuck at zero and at one.
    Special(Vec<u32>),
}

/// The six registers of the DMA engine.
pub const DMA_REGISTERS: [u32; 6] =
    [offset::DMA_HOST, offset::DMA_LOCAL, offset::DMA_COUNT, offset::DMA_CONTROL, offset::DMA_STATUS, offset::DMA_SUM];

/// What a campaign runs.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name; no colon, because ids begin with it.
    pub name: String,
    /// The control program: `detecting` as in Table 1, where nothing is recovered; `tolerant` with recovery and
    /// end-to-end checks.
    pub build: Build,
    /// Which bits may be hit.
    pub target: Target,
    /// How often each bit is hit, at other times.
    pub repeat: u32,
    /// The interface that is hit: 0 or 1.
    pub place: usize,
    /// What happens when its processor traps.
    pub trap_policy: TrapPolicy,
    /// Whether an IOMMU guards the host.
    pub guard: Guard,
    /// Messages in each direction.
    pub message_count: u32,
    /// Their lengths in turn, bytes.
    pub message_bytes: Vec<u32>,
    /// From a message to the next, ns.
    pub every_ns: u64,
    /// Both hosts send.
    pub both_ways: bool,
    /// By which service.
    pub kind: Kind,
    /// Whether the watchdog is heard (an ablation when not).
    pub hears_watchdog: bool,
    /// Whether the self-test runs (an ablation when not).
    pub tests_itself: bool,
}

/// A build by its name.
pub fn build_named(name: &str) -> Option<Build> {
    [Build::Plain, Build::Detecting, Build::Tolerant].into_iter().find(|build| build.name() == name)
}

/// A message of a self-test that takes longer, in virtual time, is slow: between what it takes beside all the traffic of the
/// presets, and what a retransmission takes.
pub const SELF_TEST_SLOW_NS: u64 = 1_500_000;

/// From a self-test to the next, in campaigns: the second one begins when every fault has struck, so that all of it sees
/// what each did.
pub const SELF_TEST_INTERVAL_NS: u64 = 4_000_000;

impl Experiment {
    /// CRC-32 of all that describes it: two experiments of one name that differ have different ones.
    pub fn digest(&self) -> u32 {
        crc32fast::hash(format!("{self:?}").as_bytes())
    }

    /// One of those that come with Surefoot.
    pub fn preset(preset: Preset) -> Self {
        Experiment {
            name: preset.name().to_owned(),
            build: Build::Detecting,
            target: match preset {
                Preset::SendChunk => Target::Function("send_chunk_normal_low".to_owned()),
                Preset::DmaRegisters => Target::Special(DMA_REGISTERS.to_vec()),
                Preset::Code => Target::Code,
                Preset::Data => Target::Data,
                Preset::Registers => Target::Registers,
            },
            repeat: 1,
            place: 0,
            trap_policy: TrapPolicy::Halt,
            guard: Guard::None,
            message_count: 26,
            message_bytes: vec![64, 1000, 4096, 5000, 200, 8192, 12],
            every_ns: 75_000,
            both_ways: true,
            kind: Kind::Normal,
            hears_watchdog: true,
            tests_itself: true,
        }
    }

    /// Whether there is such an experiment.
    ///
    /// # Errors
    /// [`CampaignError::Experiment`], which says what is wrong.
    pub fn check(&self) -> Result<(), CampaignError> {
        let name_is_fit = !self.name.is_empty()
            && self.name.len() <= 60
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let bytes_are_fit = !self.message_bytes.is_empty()
            && self.message_bytes.len() <= 64
            && self.message_bytes.iter().all(|bytes| (12..=MESSAGE_BYTES_MAX).contains(bytes));
        let problem = if !name_is_fit {
            "the name of an experiment is 1 to 60 letters, digits, dots, dashes and underscores".to_owned()
        } else if !bytes_are_fit {
            format!("an experiment has 1 to 64 message lengths of 12 to {MESSAGE_BYTES_MAX} bytes")
        } else if !(4..=MESSAGES_MAX).contains(&self.message_count) {
            format!("{} messages, but an experiment has 4 to {MESSAGES_MAX}", self.message_count)
        } else if !(1..=1000).contains(&self.repeat) {
            format!("each bit can be hit 1 to 1000 times, not {}", self.repeat)
        } else if self.place > 1 {
            format!("the interfaces are 0 and 1; there is no {}", self.place)
        } else if self.every_ns > 10_000_000 {
            format!("{} ns between two messages, but at most 10,000,000 are possible", self.every_ns)
        } else {
            return Ok(());
        };
        Err(CampaignError::Experiment(problem))
    }

    /// The world that it runs in.
    pub fn world(&self, firmware: Arc<Firmware>) -> WorldConfig {
        let self_test = SelfTestConfig {
            interval_ns: SELF_TEST_INTERVAL_NS,
            loss_every: 2,
            slow_ns: SELF_TEST_SLOW_NS,
            ..SelfTestConfig::default()
        };
        let daemon = DaemonConfig {
            self_test: self.tests_itself.then_some(self_test),
            hears_watchdog: self.hears_watchdog,
            ask_ns: 5_000_000,
            ..DaemonConfig::default()
        };
        let most = self.message_bytes.iter().copied().max().unwrap_or(64).max(64).next_power_of_two();
        WorldConfig {
            firmware,
            daemon: match self.build {
                Build::Plain => None,
                Build::Detecting => Some(DaemonConfig { verifies: false, numbers: false, reloads_max: 0, ..daemon }),
                Build::Tolerant => Some(daemon),
            },
            arena_bytes: DAEMON_BYTES + (areas(self.kind) * WINDOW_MAX * most).next_multiple_of(4096),
            guard: self.guard,
            trap_policy: self.trap_policy,
            faults: LinkFaults::default(),
            seed: 0,
        }
    }

    /// How applications use their ports.
    pub fn port(&self) -> PortConfig {
        let waits_for_test = self.tests_itself && self.build != Build::Plain;
        match self.build {
            Build::Plain | Build::Detecting => PortConfig { waits_for_test, ..PortConfig::plain(0) },
            Build::Tolerant => PortConfig { waits_for_test, ..PortConfig::tolerant(0) },
        }
    }

    /// What applications send.
    pub fn traffic(&self, seed: u64) -> TrafficConfig {
        TrafficConfig {
            message_count: self.message_count,
            message_bytes: self.message_bytes.iter().copied().max().unwrap_or(64),
            window: WINDOW_MAX,
            both_ways: self.both_ways,
            kind: self.kind,
            seed,
        }
    }

    /// How many places (bits, and for stuck ones values) there are.
    ///
    /// # Errors
    /// When the control program has no such function, or the interface no such register.
    pub fn place_count(&self, firmware: &Firmware) -> Result<u64, CampaignError> {
        Ok(match &self.target {
            Target::Special(registers) => {
                if let Some(unknown) = registers.iter().find(|one| NAMES.iter().all(|(offset, _)| offset != *one)) {
                    return Err(CampaignError::Experiment(format!("there is no special register at {unknown:#x}")));
                }
                registers.len() as u64 * 64
            }
            Target::Registers => 32 * 32,
            _ => {
                let range = self.memory(firmware)?;
                u64::from(range.end - range.start) * 8
            }
        })
    }

    fn memory(&self, firmware: &Firmware) -> Result<Range<u32>, CampaignError> {
        let code_end = firmware.code_bytes & !3;
        match &self.target {
            Target::Function(name) => match firmware.function(name) {
                Some(function) => Ok(function.address..(function.address + function.bytes) & !3),
                None => {
                    let why = format!("the {} control program has no function '{name}'", self.build.name());
                    Err(CampaignError::Experiment(why))
                }
            },
            Target::Data => Ok(code_end..SRAM_BYTES),
            _ => Ok(0..code_end),
        }
    }

    /// Whether a fault strikes what this experiment is about: a fault's id holds an address, and those of another control program
    /// lie elsewhere.
    ///
    /// # Errors
    /// When it strikes another function than the experiment's.
    pub fn must_have(&self, firmware: &Firmware, fault: &Fault) -> Result<(), CampaignError> {
        let Target::Function(name) = &self.target else { return Ok(()) };
        if fault.space == Space::Code && self.memory(firmware)?.contains(&fault.location) {
            return Ok(());
        }
        let there = firmware.function_at(fault.location).filter(|_| fault.space == Space::Code);
        let there = there.map_or_else(|| format!("not in {name}"), |found| format!("in {}, not in {name}", found.name));
        Err(CampaignError::Experiment(format!(
            "{} {:#x} is {there}: such a fault is not one of '{}' with this control program; run the campaign again for its ids",
            fault.space.name(),
            fault.location,
            self.name
        )))
    }

    /// The place with this number, without its time.
    fn at(&self, firmware: &Firmware, place: u64) -> Result<Fault, CampaignError> {
        let bit = (place % 32) as u8;
        let word = (place / 32) as u32;
        let flip = |space, location| Fault { space, location, bit, stuck_at: None, at_instruction: 0 };
        Ok(match &self.target {
            Target::Special(registers) => {
                let stuck_at = Some(if word.is_multiple_of(2) { Stuck::Zero } else { Stuck::One });
                let location = registers.get(word as usize / 2).copied().unwrap_or_default();
                Fault { stuck_at, ..flip(Space::Stuck, location) }
            }
            Target::Registers => flip(Space::Register, (word + 1).min(PC)),
            Target::Data => flip(Space::Data, self.memory(firmware)?.start + word * 4),
            Target::Function(_) | Target::Code => flip(Space::Code, self.memory(firmware)?.start + word * 4),
        })
    }

    /// The faults of a campaign: all, or a sample of them, each at a time of its own in the window of instructions.
    ///
    /// # Errors
    /// As [`Experiment::place_count`], when the sample is larger than all, and when there are more than [`FAULTS_MAX`].
    pub fn faults(
        &self,
        firmware: &Firmware,
        window: Range<u64>,
        sample: Option<u64>,
        seed: u64,
    ) -> Result<Vec<Fault>, CampaignError> {
        self.check()?;
        let of = self.place_count(firmware)? * u64::from(self.repeat);
        let count = sample.unwrap_or(of);
        if count > of {
            return Err(CampaignError::Experiment(format!(
                "a sample of {count} faults is asked for, but the experiment has {of} (--repeat hits each bit several times)"
            )));
        }
        if count > FAULTS_MAX {
            return Err(CampaignError::Experiment(format!("{count} faults, but a campaign has at most {FAULTS_MAX}")));
        }
        let drawn = if count == of { (0..of).collect() } else { random::draw(seed, count, of) };
        let length = (window.end - window.start).max(1);
        drawn
            .into_iter()
            .map(|number| {
                let fault = self.at(firmware, number / u64::from(self.repeat))?;
                let at_instruction = window.start + random::below(!seed, number, length);
                Ok(Fault { at_instruction, ..fault })
            })
            .collect()
    }
}
