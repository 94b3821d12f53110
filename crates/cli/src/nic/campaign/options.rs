//! The options of `surefoot nic campaign`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use surefoot_nic::campaign::Preset;
use surefoot_nic::campaign::experiment::FAULTS_MAX;
use surefoot_nic::firmware::Build;
use surefoot_store::shards::ShardChoice;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PresetName {
    /// Every bit of the function that sends a part of a message (Table 1)
    SendChunk,
    /// Every bit of the six DMA registers, stuck at 0 and at 1 (Table 1)
    DmaRegisters,
    /// Bits of the whole code (Table 1)
    Code,
    /// Bits of variables, packet buffers, constants and stack
    Data,
    /// Bits of the processor's registers
    Registers,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Preset {
        match name {
            PresetName::SendChunk => Preset::SendChunk,
            PresetName::DmaRegisters => Preset::DmaRegisters,
            PresetName::Code => Preset::Code,
            PresetName::Data => Preset::Data,
            PresetName::Registers => Preset::Registers,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuildName {
    /// No detection, no recovery (GM)
    Plain,
    /// Watchdog and self-test, no recovery (FDGM): Table 1
    Detecting,
    /// Recovery, and checks from library to library (FTGM)
    Tolerant,
}

impl From<BuildName> for Build {
    fn from(name: BuildName) -> Build {
        match name {
            BuildName::Plain => Build::Plain,
            BuildName::Detecting => Build::Detecting,
            BuildName::Tolerant => Build::Tolerant,
        }
    }
}

/// Which experiment; shared by the commands that run one.
#[derive(Args, Clone)]
pub struct Choice {
    /// One of the experiments that come with Surefoot
    #[arg(long, value_enum, value_name = "NAME")]
    pub preset: Option<PresetName>,
    /// An experiment described in this JSON file
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub experiment: Option<PathBuf>,
    /// The control program [default: detecting, as in Table 1]
    #[arg(long, value_enum, value_name = "BUILD")]
    pub build: Option<BuildName>,
    /// An ELF file for rv32im with a control program of your own, which --build says how to use
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// An IOMMU guards the hosts: wild accesses are refused
    #[arg(long)]
    pub iommu: bool,
    /// The interface interrupts its host when its processor traps, as modern ones do
    #[arg(long)]
    pub trap_interrupt: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CampaignOptions {
    #[command(subcommand)]
    pub command: Option<CampaignCommand>,
    #[command(flatten)]
    pub choice: Choice,
    /// Faults, drawn from all [default: all of send-chunk, dma-registers and registers, 1430 of the others]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=FAULTS_MAX))]
    pub sample: Option<u64>,
    /// Hit each bit so often, each time at another moment; the paper did 10 times [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// The seed of the sample, of the moments and of the messages
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Only this part of the faults, such as 1/4; the files of all parts one after the other are that of the whole
    #[arg(long, value_name = "PART/PARTS", default_value = "1/1")]
    pub shard: ShardChoice,
    /// File for one JSON line per fault; a campaign that was interrupted goes on at its end
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum CampaignCommand {
    /// Merge the files of campaigns, and show the table of each experiment.
    Report(ReportOptions),
    /// Show which basic blocks of the control program an experiment uses, and which of them the self-test reaches.
    Blocks(BlocksOptions),
}

#[derive(Args)]
pub struct BlocksOptions {
    #[command(flatten)]
    pub choice: Choice,
    /// The seed of the messages
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReportOptions {
    /// Files that `surefoot nic campaign --output` wrote
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}
