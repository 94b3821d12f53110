//! The options of `surefoot memory simulate`, those of the path shared with `memory tune`.

use super::errors::Errors;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use surefoot_console::units::{parse_ns, parse_time_ns};
use surefoot_memory::simulate::{Costs, Mechanism, Path, Scene, StormRule};
use surefoot_memory::tune::CORES_ASSUMED;
use surefoot_store::shards::ShardChoice;

#[derive(Args)]
pub struct SimulateOptions {
    /// Who starts a report
    #[arg(long, value_enum, default_value = "polling")]
    pub mechanism: MechanismChoice,
    #[command(flatten)]
    pub errors: ErrorOptions,
    #[command(flatten)]
    pub path: PathOptions,
    /// Errors that raise an interrupt, or an SMI: its every-Nth rule; polling does without [default: 1]
    #[arg(long, value_name = "N")]
    pub threshold: Option<u32>,
    /// Between polls; interrupts and SMIs do without [default: 30s]
    #[arg(long, value_name = "T", value_parser = parse_time_ns)]
    pub interval: Option<u64>,
    /// How the kernel holds interrupts back when they come too fast: linux-6.7 (and before), linux-6.8 (and later), or never
    /// [default: never]
    #[arg(long, value_enum)]
    pub storms: Option<StormChoice>,
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Reproduce a figure of ICPE'20 with our model: 4, 6, 8, 9, 10, 11 or 12; the other options are its settings
    #[arg(long, value_name = "N", conflicts_with_all = ["shard", "merge", "hosts", "faulty_share"])]
    pub figure: Option<u32>,
    /// Also write the figure as an SVG picture
    #[arg(long, value_name = "FILE", requires = "figure")]
    pub svg: Option<PathBuf>,
    /// Requests per second of the service of figure 4
    #[arg(long, value_name = "N", default_value_t = 50.0, requires = "figure")]
    pub requests: f64,
    /// The work of a request of figure 4
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_ns, requires = "figure")]
    pub work: u64,
    /// How long a request of figure 4 may take
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_ns, requires = "figure")]
    pub deadline: u64,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ErrorOptions {
    /// When errors arrive: poisson:RATE/s, onoff:RATE/s,ON,OFF (such as onoff:100/s,30s,10m), pareto:MEAN/s for rates that
    /// differ between hosts, or trace:FILE; rates also per m, h or d [default: poisson:10/s; of a figure onoff:28/s,2m,2m; of
    /// tune the host's worst module, 10/s at least]
    #[arg(long, value_name = "ERRORS")]
    pub errors: Option<Errors>,
    /// How long [default: 1h; of a figure 20h; of a trace, up to its last error]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub duration: Option<u64>,
    /// The same seed gives the same output, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What reports go through.
#[derive(Args)]
pub struct PathOptions {
    /// Bits of a counter, 0 to 32; with 0 a poll can tell one error from none and no more
    /// [default: 15; of a figure 10; of tune what this host's processor has]
    #[arg(long, value_name = "K")]
    pub counter_bits: Option<u32>,
    /// Counters that errors come to [default: 1; of a figure 36; of a trace, those that it names]
    #[arg(long, value_name = "N")]
    pub banks: Option<u32>,
    /// How many times as many errors come to the first counter as to each other [default: 1; of a figure 2000]
    #[arg(long, value_name = "N")]
    pub hot: Option<u32>,
    /// Cores that a poll looks at and an SMI stops [default: 36; of tune those of this host, or of the tree]
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,
    /// What waking up for a poll takes [default: 2ms, literature]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub poll_cost: Option<u64>,
    /// What a poll takes for each core [default: 200us, literature]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub poll_core_cost: Option<u64>,
    /// What each record of a poll takes, without its line on the console [default: 775us, as an interrupt's]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub poll_record_cost: Option<u64>,
    /// What a corrected-error interrupt takes with its record, without its line on the console [default: 775us, literature]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub cmci_cost: Option<u64>,
    /// What printing the line of a record on the console takes; 0 where corrected errors are not printed [default: 32.225ms, which
    /// with its record makes the 33ms of a logged one in the literature; 0 beside --poll-record-cost or --cmci-cost]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub line_cost: Option<u64>,
    /// What an SMI takes, on all cores [default: 133ms, literature]
    #[arg(long, value_name = "TIME", value_parser = cost)]
    pub smi_cost: Option<u64>,
}

#[derive(Args)]
pub struct FleetOptions {
    /// Hosts, each with its own errors
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub hosts: u64,
    /// The share of the hosts that have errors at all
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub faulty_share: f64,
    /// Only simulate part i of n of the hosts, and write what --merge reads
    #[arg(long, value_name = "i/n", conflicts_with_all = ["json", "merge"])]
    pub shard: Option<ShardChoice>,
    /// Merge the shards of a run, and print what the whole run would have printed
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = [
        "mechanism", "errors", "duration", "seed", "counter_bits", "banks", "hot", "cores", "poll_cost", "poll_core_cost",
        "poll_record_cost", "cmci_cost", "line_cost", "smi_cost", "threshold", "interval", "storms", "hosts", "faulty_share",
    ])]
    pub merge: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MechanismChoice {
    Polling,
    Cmci,
    Smi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StormChoice {
    Never,
    #[value(name = "linux-6.7")]
    PerCore,
    #[value(name = "linux-6.8")]
    PerBank,
}

impl MechanismChoice {
    pub fn mechanism(self) -> Mechanism {
        match self {
            MechanismChoice::Polling => Mechanism::Polling,
            MechanismChoice::Cmci => Mechanism::Cmci,
            MechanismChoice::Smi => Mechanism::Smi,
        }
    }
}

impl StormChoice {
    fn rule(self) -> StormRule {
        match self {
            StormChoice::Never => StormRule::Never,
            StormChoice::PerCore => StormRule::PerCore,
            StormChoice::PerBank => StormRule::PerBank,
        }
    }
}

impl ErrorOptions {
    /// The errors, or others where none are named.
    pub fn errors_or(&self, otherwise: &str) -> Errors {
        self.errors.clone().unwrap_or_else(|| otherwise.parse().expect("our own defaults can be read"))
    }
}

impl PathOptions {
    pub fn costs(&self) -> Costs {
        let known = Costs::LITERATURE;
        Costs {
            poll_wake_ns: self.poll_cost.unwrap_or(known.poll_wake_ns),
            poll_core_ns: self.poll_core_cost.unwrap_or(known.poll_core_ns),
            poll_record_ns: self.poll_record_cost.unwrap_or(known.poll_record_ns),
            interrupt_ns: self.cmci_cost.unwrap_or(known.interrupt_ns),
            // Who names what a record takes has named all of it.
            line_ns: match (self.line_cost, self.poll_record_cost.or(self.cmci_cost)) {
                (Some(line_ns), _) => line_ns,
                (None, Some(_)) => 0,
                (None, None) => known.line_ns,
            },
            smi_ns: self.smi_cost.unwrap_or(known.smi_ns),
        }
    }
}

impl SimulateOptions {
    fn storms(&self) -> StormChoice {
        self.storms.unwrap_or(StormChoice::Never)
    }

    /// Refuses what changes nothing with this mechanism: who names it believes that it does. A figure has several mechanisms.
    pub fn check(&self) -> anyhow::Result<()> {
        use MechanismChoice::{Cmci, Polling, Smi};
        if self.figure.is_some() {
            return Ok(());
        }
        let path = &self.path;
        let (mechanism, has_storms) = (self.mechanism, self.storms() != StormChoice::Never);
        let is_polling = mechanism == Polling;
        let rows = [
            ("--storms", self.storms.is_some(), mechanism == Cmci),
            ("--poll-cost", path.poll_cost.is_some(), is_polling),
            ("--poll-core-cost", path.poll_core_cost.is_some(), is_polling || has_storms),
            ("--poll-record-cost", path.poll_record_cost.is_some(), is_polling),
            ("--cmci-cost", path.cmci_cost.is_some(), mechanism == Cmci),
            ("--line-cost", path.line_cost.is_some(), mechanism != Smi),
            ("--smi-cost", path.smi_cost.is_some(), mechanism == Smi),
        ];
        let name = mechanism.mechanism().name();
        for (option, is_given, means_something) in rows {
            anyhow::ensure!(
                !is_given || means_something,
                "{option} means nothing with --mechanism {name}; leave it out, or name the mechanism that it belongs to"
            );
        }
        // These two are of every run's common form, so that one line of a script serves all mechanisms.
        for (option, is_given) in [
            ("--threshold", self.threshold.is_some_and(|threshold| threshold > 1) && is_polling),
            ("--interval", self.interval.is_some() && !is_polling),
        ] {
            if is_given {
                surefoot_console::tell!("surefoot: {option} means nothing with --mechanism {name} and was not used");
            }
        }
        Ok(())
    }

    /// The path, as far as the errors do not decide on it.
    pub fn path(&self) -> Path {
        let known = if self.figure.is_some() { Scene::paper().path } else { Path::example() };
        Path {
            mechanism: self.mechanism.mechanism(),
            counter_bits: self.path.counter_bits.unwrap_or(known.counter_bits),
            threshold: self.threshold.unwrap_or(1),
            interval_ns: self.interval.unwrap_or(known.interval_ns),
            duration_ns: 0,
            banks: 0,
            hot: self.path.hot.unwrap_or(known.hot),
            cores: self.path.cores.unwrap_or(CORES_ASSUMED),
            costs: self.path.costs(),
            storms: self.storms().rule(),
        }
    }
}

/// A time that may be nothing.
fn cost(text: &str) -> Result<u64, String> {
    if matches!(text, "0" | "0s") { Ok(0) } else { parse_ns(text) }
}

fn duration(text: &str) -> Result<u64, String> {
    // A week is a duration that people write, and so is a year of days.
    match text.strip_suffix('w').and_then(|weeks| weeks.parse::<u64>().ok()) {
        Some(weeks) => parse_time_ns(&format!("{}d", weeks.saturating_mul(7))),
        None => parse_time_ns(text),
    }
}
