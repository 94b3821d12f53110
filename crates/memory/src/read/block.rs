//! Threshold blocks of AMD's memory controllers: what the hardware itself counted, per channel.
//!
//! `error_count` is the number of errors since the block was last reset, up to 4095, of all severities; it has no module. Reading one
//! makes the kernel ask the processor that owns the block.

use super::Problems;
use super::edac::numbered;
use super::file::{self, Counter, Failed};
use std::path::{Path, PathBuf};
use surefoot_hostfs::{Error, Root};
use surefoot_model::MemorySource::ThresholdBlock;

/// What a counter of a block holds at most: 12 bits.
pub const FULL: u64 = 0xfff;
/// Processors that are looked at.
const PROCESSORS_MAX: usize = 4096;
/// Entries of a processor's folder that are looked at.
const BANKS_MAX: usize = 1024;
/// Blocks of one processor.
const BLOCKS_MAX: usize = 64;
/// Blocks of one host.
const ALL_BLOCKS_MAX: usize = 1024;
/// Folders of a bank in which a block of DRAM errors may lie.
const DRAM: [&str; 2] = ["dram_ecc", "dram"];

/// A threshold block of a memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The processor that it was read through.
    pub cpu: u32,
    /// The node of that processor; `None` where it is not told.
    pub node: Option<u32>,
    /// Its bank's name, such as `umc_2`; `northbridge` before Zen.
    pub bank: String,
    /// The channel in its bank's name.
    pub channel: Option<u32>,
    /// Errors since it was reset; `None` where that cannot be read.
    pub errors: Option<u64>,
    /// The count at which it interrupts, where it does.
    pub limit: Option<u64>,
    /// Whether it interrupts there; `None` where it does not tell.
    pub is_interrupting: Option<bool>,
}

impl Block {
    /// Its place, such as `cpu4/umc_2`.
    pub fn place(&self) -> String {
        format!("cpu{}/{}", self.cpu, self.bank)
    }

    /// Whether it counts no further.
    pub fn is_full(&self) -> bool {
        self.errors.is_some_and(|errors| errors >= FULL)
    }
}

/// The blocks that there are, with their counters open.
#[derive(Debug, Default)]
pub(super) struct Plan {
    blocks: Vec<(Block, Option<Counter>)>,
}

impl Plan {
    /// All blocks of the host. A bank that every processor of a node shows is read through the first.
    pub fn of(root: &Root, problems: &mut Problems) -> Self {
        let folder = root.sys("devices/system/machinecheck");
        let mut found = Plan::default();
        let names = names(&folder, PROCESSORS_MAX, problems).into_iter();
        let mut cpus: Vec<u32> = names.filter_map(|name| numbered(&name, "machinecheck")).collect();
        cpus.sort_unstable();
        for cpu in cpus {
            let own = folder.join(format!("machinecheck{cpu}"));
            for (bank, dram) in banks(&own, problems) {
                if found.blocks.len() >= ALL_BLOCKS_MAX {
                    problems.add(ThresholdBlock, &own, format!("blocks beyond {ALL_BLOCKS_MAX} were left out"));
                    return found;
                }
                found.add(root, cpu, bank, &dram, problems);
            }
        }
        found
    }

    fn add(&mut self, root: &Root, cpu: u32, bank: String, dram: &Path, problems: &mut Problems) {
        let node = node(root, cpu);
        // Every processor of a node shows its one northbridge.
        if bank == "northbridge" && self.blocks.iter().any(|(known, _)| known.bank == bank && known.node == node) {
            return;
        }
        let channel = numbered(&bank, "umc_").or_else(|| (bank == "umc").then_some(0));
        let limit = open(root, dram.join("threshold_limit"), problems);
        let limit = limit.and_then(|counter| value(&counter, problems));
        let errors = open(root, dram.join("error_count"), problems);
        // A block without an interrupt has no such file.
        let switch = Counter::open(root, dram.join("interrupt_enable"), 1);
        let is_interrupting = switch.ok().and_then(|switch| switch.read().ok()).map(|value| value != 0);
        self.blocks.push((Block { cpu, node, bank, channel, errors: None, limit, is_interrupting }, errors));
    }

    /// The counts; a problem for each that cannot be read.
    pub fn read(&self, problems: &mut Problems) -> Vec<Block> {
        let read = |(block, counter): &(Block, Option<Counter>)| {
            let errors = counter.as_ref().and_then(|counter| value(counter, problems));
            Block { errors, ..block.clone() }
        };
        self.blocks.iter().map(read).collect()
    }
}

/// The names in a folder; none where there is no such folder.
fn names(folder: &Path, limit: usize, problems: &mut Problems) -> Vec<String> {
    match file::entries(ThresholdBlock, folder, limit, problems) {
        Ok(entries) => entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => {
            problems.unreadable(ThresholdBlock, folder, &Error::Read { path: folder.to_path_buf(), source });
            Vec::new()
        }
    }
}

/// Banks with a block of DRAM errors, by name.
fn banks(folder: &Path, problems: &mut Problems) -> Vec<(String, PathBuf)> {
    let names = names(folder, BANKS_MAX, problems).into_iter();
    let mut banks: Vec<String> =
        names.filter(|name| name == "umc" || name == "northbridge" || numbered(name, "umc_").is_some()).collect();
    banks.sort_unstable_by_key(|name| (numbered(name, "umc_"), name.clone()));
    if banks.len() > BLOCKS_MAX {
        problems.add(
            ThresholdBlock,
            folder,
            format!("{} banks more than {BLOCKS_MAX} were left out", banks.len() - BLOCKS_MAX),
        );
        banks.truncate(BLOCKS_MAX);
    }
    let with_dram = |bank: String| {
        let path = DRAM.iter().map(|name| folder.join(&bank).join(name)).find(|path| path.is_dir())?;
        Some((bank, path))
    };
    banks.into_iter().filter_map(with_dram).collect()
}

fn open(root: &Root, path: PathBuf, problems: &mut Problems) -> Option<Counter> {
    let opened = Counter::open(root, path.clone(), u64::from(u32::MAX));
    opened.map_err(|failed| tell(&path, failed, problems)).ok()
}

fn value(counter: &Counter, problems: &mut Problems) -> Option<u64> {
    counter.read().map_err(|failed| tell(&counter.path, failed, problems)).ok()
}

fn tell(path: &Path, failed: Failed, problems: &mut Problems) {
    match failed {
        Failed::Absent => problems.add(ThresholdBlock, path, "it is not there, though the block is; look again"),
        Failed::Wrong(why) => problems.add(ThresholdBlock, path, why),
    }
}

/// The memory node of a processor.
fn node(root: &Root, cpu: u32) -> Option<u32> {
    let entries = std::fs::read_dir(root.sys(format!("devices/system/cpu/cpu{cpu}"))).ok()?;
    entries.flatten().take(256).find_map(|entry| numbered(entry.file_name().to_str()?, "node"))
}
