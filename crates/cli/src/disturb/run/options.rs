//! The options of `surefoot disturb run`.

use crate::disturb::log::LogOptions;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use surefoot_console::units::parse_time;
use surefoot_disturb::preset::Preset;
use surefoot_disturb::workload::Metric;
use surefoot_experiment::drift::reference::ReferenceChoice;
use surefoot_experiment::run::spec::SpecChoice;

/// What help says at its end.
pub const HELP: &str = "It stops cores of this machine for everybody who uses it. It is refused on a host that looks as if it were in \
                        use, and everything ends with this process, also when that is killed.";

/// A preset as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresetChoice(pub Preset);

impl FromStr for PresetChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Preset::ALL.into_iter().find(|preset| preset.name() == text);
        known.map(PresetChoice).ok_or_else(|| format!("'{text}' is no preset: slides or icpe20"))
    }
}

#[derive(Args)]
pub struct RunOptions {
    /// What is done: `freeze:length=2ms,period=1s[,cores=0-1][,phase=same|staggered|random][,method=bpf|spin|cgroup-freeze|stop]`, or
    /// ipi, timer, softirq or tlb-shootdown, as in ipi:rate=1000,cores=1; a guest of QEMU: guest-freeze or guest-stop, as in
    /// guest-freeze:length=105ms,period=1s,qmp=SOCKET (or pid=NUMBER); in a guest: smi or memory-error, as in smi:rate=1
    #[arg(long, value_name = "SPEC", required_unless_present_any = ["preset", "experiment"])]
    pub disturbance: Option<SpecChoice>,
    /// The command that it is done to, for the shell; or preset:NAME, a ready-made one of `surefoot disturb workloads`
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["preset", "experiment"])]
    pub workload: Option<String>,
    /// Several workloads under several disturbances, as this file (JSON) says
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disturbance", "workload", "metric", "preset"])]
    pub experiment: Option<PathBuf>,
    /// Repeat a publication's measurements beside its numbers: slides (the SMI slides) or icpe20
    #[arg(long, value_name = "NAME", conflicts_with_all = ["disturbance", "workload", "metric"])]
    pub preset: Option<PresetChoice>,
    /// Short runs of ready-made workloads; a preset ends within 10 minutes
    #[arg(long)]
    pub quick: bool,
    /// What preset slides compares the wall clock with: `ntp:SERVER[:PORT]`, or rtc [default: rtc where there is one]
    #[arg(long, value_name = "REFERENCE", requires = "preset")]
    pub reference: Option<ReferenceChoice>,
    /// Keep each run in this file, and go on from it where an experiment was ended
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disturbance", "workload"])]
    pub resume: Option<PathBuf>,
    /// Metric of a run: wall (its time), regex:EXPRESSION (the first group in its output) or json:NAME.NAME
    /// [default: wall; of a ready-made workload its first]
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<Metric>,
    /// Pairs of an undisturbed and a disturbed run; 6 are needed for an interval that holds the truth in 19 of 20 cases
    /// [default: 10; of a preset 6, quick 3; of a file what it says]
    #[arg(long, value_name = "N")]
    pub repetitions: Option<usize>,
    /// Chooses the order of the runs and the moments of the stalls
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A run that takes longer is ended, and the command with it
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub time_limit: Duration,
    /// All runs together may take so long
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_time)]
    pub total_limit: Duration,
    /// Disturb this host although it looks as if others needed it
    #[arg(long)]
    pub even_if_in_use: bool,
    /// Have the firmware of a real machine interrupt it (smi), or its kernel count errors that were not (memory-error)
    #[arg(long)]
    pub even_on_bare_metal: bool,
    #[command(flatten)]
    pub log: LogOptions,
    /// JSON lines instead of text: one per stall and per run, the effect last
    #[arg(long)]
    pub json: bool,
}
