//! The command line.

use crate::config::ConfigCommand;
use crate::demo::DemoOptions;
use crate::ecc::options::EccCommand;
use crate::generate::GenerateOptions;
use crate::history::options::HistoryOptions;
use crate::rooms::{RoomCommand, RoomOptions};
use crate::why::WhyOptions;
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_console::units::{Per, parse_ns, parse_time, parse_whole_rate};
use surefoot_daemon::{Detail, Listen, Listening, SERIES_MAX, SERIES_MIN, TlsFiles};
use surefoot_hostfs::privilege::{Lockdown, Privilege};
use surefoot_hostfs::{Root, cpus};
use surefoot_journal::deeds::Record;
use surefoot_model::{CauseKind, CpuId};
use surefoot_probes::{Flavour, Workload};
use surefoot_stall::{Question, SentinelConfig, SourceChoice, forewarning};

/// What help says of what a command sends to the cores, from the figures that the output has, too.
fn cost_of(questions: &[(&str, Question)]) -> String {
    let each = questions.iter().map(|(when, question)| format!("{when}{}", forewarning(*question)));
    format!("Interrupts sent to the cores: {}. None in between.", each.collect::<Vec<_>>().join("; "))
}

/// The port of the page unless another is named.
pub const PORT_DEFAULT: u16 = 7077;

/// Where watch tells of itself as root, unless another directory is named.
pub const RUN_DIRECTORY: &str = "/run/surefoot";

/// Stacks that a raising core takes per second unless another number is named.
pub const STACKS_PER_S: u64 = 5_000;

/// Keeps a Linux server's work going through hardware trouble: shows how much time each core lost, to what, and how sure
/// that is; keeps checkpoints, and verifies and repairs them.
#[derive(Parser)]
#[command(name = "surefoot", version, subcommand_required = true, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Show live what is happening on this host, here and as a web page on 127.0.0.1.
    #[command(after_help = surefoot_terminal::keys_help() + "\n" + &cost_of(&[("", Question::Ledger), ("with --who, ", Question::Raisers)]))]
    Watch(Box<WatchOptions>),
    /// Play a made-up day of trouble on a made-up host; nothing on this host is read or changed.
    #[command(after_help = surefoot_terminal::keys_help())]
    Demo(DemoOptions),
    /// Lost time: probe cores, name who interrupts them, audit their isolation, report, record and replay.
    Stall {
        #[command(subcommand)]
        command: StallCommand,
    },
    /// Show what was lost, found and done in the past, from the watch's history.
    History(HistoryOptions),
    /// Error-correcting codes: which DRAM faults they correct, detect or miss.
    Ecc {
        #[command(subcommand)]
        command: EccCommand,
    },
    /// The commands of single rooms.
    #[command(flatten)]
    Room(RoomCommand),
    /// Show which capabilities work on this host, which do not, and why.
    Status(StatusOptions),
    /// Say what matters most on this host now, or who takes time from a process.
    Why(WhyOptions),
    /// The settings of `surefoot watch`: check the file, show what holds and why, list all with their defaults.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Read the names in other users' programs for the process that starts this; see `surefoot_stall::who::names`.
    #[command(name = READ_NAMES, hide = true)]
    ReadNames,
    /// Look into directories for the process that starts this; see `surefoot_daemon::rooms::apart`.
    #[command(name = LOOK_APART, hide = true)]
    LookApart,
    /// Guard the workload of the process that starts this; see `surefoot_disturb::workload`.
    #[command(name = GUARD_WORKLOAD, hide = true)]
    GuardWorkload,
    /// Write man pages and completions for shells; packages and `make install` use it.
    #[command(hide = true)]
    Generate(GenerateOptions),
}

/// The command with which Surefoot starts itself to read names.
pub const READ_NAMES: &str = "read-names";

/// The command with which it starts itself to look into directories.
pub const LOOK_APART: &str = "look-apart";

/// The command with which Surefoot starts itself to guard a workload.
pub const GUARD_WORKLOAD: &str = "guard-workload";

#[derive(Subcommand)]
pub enum StallCommand {
    /// Spin on cores and explain every gap. Uses the cores completely while it runs.
    Probe(ProbeOptions),
    /// Name what interrupts a core, who raised it, and what to change.
    #[command(after_help = cost_of(&[("", Question::RaisersAlone)]))]
    Who(WhoOptions),
    /// Check whether cores are really isolated. Each check: actual, expected, fix, evidence.
    Audit(AuditOptions),
    /// Watch for a while, then print the ledger of each core.
    #[command(after_help = cost_of(&[("", Question::Ledger), ("with --who, ", Question::Raisers)]))]
    Report(ReportOptions),
    /// Watch for a while and write every event into a file.
    #[command(after_help = cost_of(&[("", Question::Ledger), ("with --who, ", Question::Raisers)]))]
    Record(RecordOptions),
    /// Print the report of a recording; on any machine, without privilege.
    Replay(ReplayOptions),
}

/// A list of cores such as `0-3,8`. A separate type, because clap takes a plain vector for a repeated option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(pub Vec<CpuId>);

/// A list of kinds of causes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindList(pub Vec<CauseKind>);

/// Reads a list of cores.
pub fn cpu_list(text: &str) -> Result<CpuList, String> {
    let cpus = cpus::parse_list(text).map_err(|error| error.to_string())?;
    if cpus.is_empty() { Err("name at least one core, such as 1 or 0-3,8".into()) } else { Ok(CpuList(cpus)) }
}

fn kind_list(text: &str) -> Result<KindList, String> {
    text.split(',').map(|kind| kind.trim().parse()).collect::<Result<_, _>>().map(KindList)
}

pub fn sentinel(text: &str) -> Result<SentinelConfig, String> {
    const FORM: &str = "write the core, or the core and the share of time in percent, such as 0 or 0:10";
    let (cpu, duty) = text.split_once(':').unwrap_or((text, "10"));
    let cpu = cpu.parse().map_err(|_| format!("'{cpu}' is not a core; {FORM}"))?;
    let duty_percent =
        duty.trim_end_matches('%').parse().map_err(|_| format!("'{duty}' is not a percentage; {FORM}"))?;
    if !(1..=100).contains(&duty_percent) {
        return Err(format!("{duty_percent} % is outside 1 to 100 %; {FORM}"));
    }
    Ok(SentinelConfig { cpu: CpuId(cpu), duty_percent })
}

fn thread_name(text: &str) -> Result<String, String> {
    match text.len() {
        1..=15 => Ok(text.to_owned()),
        bytes => Err(format!("the kernel keeps thread names of 1 to 15 bytes, this one has {bytes}")),
    }
}

/// Data source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Source {
    /// eBPF where it is allowed, the kernel's counters elsewhere.
    #[default]
    Best,
    /// eBPF on BTF-typed tracepoints, or an error.
    Ebpf,
    /// eBPF on plain tracepoints (kernels without BTF), or an error.
    Plain,
    /// The kernel's counters only: no privilege needed, no causes by name.
    Counters,
}

impl From<Source> for SourceChoice {
    fn from(source: Source) -> Self {
        match source {
            Source::Best => SourceChoice::Best,
            Source::Ebpf => SourceChoice::Ebpf(Flavour::Btf),
            Source::Plain => SourceChoice::Ebpf(Flavour::Plain),
            Source::Counters => SourceChoice::Counters,
        }
    }
}

/// Whose preemption counts where no process or thread is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkloadOfCores {
    /// The task that owns each core (the one that others preempt there); real-time tasks count against all tasks
    Cores,
    /// No task: only interrupts and kernel threads count
    None,
}

/// What to watch; shared by watch, report and record.
#[derive(Args, Clone)]
pub struct What {
    /// Cores to watch, such as 1 or 0-3,8; implies --workload cores unless another workload is named [default: all online]
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    /// Count preemption of this process as lost time
    #[arg(long, value_name = "PID", conflicts_with = "comm", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Count preemption of threads with this name as lost time
    #[arg(long, value_name = "NAME", value_parser = thread_name)]
    pub comm: Option<String>,
    /// Without --pid and --comm: whose preemption counts as lost time [default: cores with --cpu, none otherwise]
    #[arg(long, value_enum, conflicts_with_all = ["pid", "comm"])]
    pub workload: Option<WorkloadOfCores>,
    /// Name who interrupts these cores (a subset of --cpu); needs eBPF and BTF
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub who: Option<CpuList>,
    /// Spin on this core, 10 % of the time by default, to find stops of all cores such as SMIs
    #[arg(long, value_name = "CORE[:PERCENT]", value_parser = sentinel)]
    pub sentinel: Option<SentinelConfig>,
    /// Shortest gap to report
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = parse_ns)]
    pub min_gap: u64,
    /// Data source
    #[arg(long, value_enum, default_value_t)]
    pub source: Source,
    #[command(flatten)]
    pub rooms: RoomOptions,
    /// The processes of `surefoot why --unit`, before --pid.
    #[arg(skip)]
    pub processes: Vec<u32>,
}

/// Where deeds are recorded: in the file that `--journal` names, else in the host's journal.
pub fn record(root: &Root, journal: Option<&Path>) -> anyhow::Result<Record> {
    match journal {
        // As any path that is typed: --host-root says which host is looked at, and not where the command writes.
        Some(path) => Ok(Record::File(std::path::absolute(path).context("--journal")?)),
        None => Ok(Record::OfHost(root.path("/"))),
    }
}

/// Whether privileges suffice to attach: what is refused right after needs no notice.
pub fn can_attach(root: &Root) -> bool {
    let privilege = Privilege::read(root);
    let may_load = privilege.is_root() && privilege.capabilities.bpf() && privilege.capabilities.perfmon();
    may_load && privilege.lockdown != Some(Lockdown::Confidentiality)
}

impl What {
    /// Says on standard error what attaching is about to send to the cores, where eBPF is used.
    pub fn forewarn(&self, root: &Root) {
        let question = if self.who.is_some() { Question::Raisers } else { Question::Ledger };
        if self.source != Source::Counters && can_attach(root) {
            surefoot_console::tell!("{}", forewarning(question));
        }
        if self.rooms.host_root.is_none() {
            crate::rooms::forewarn_of_memory(root);
        }
    }

    /// The workload that preemption is counted against.
    pub fn workload(&self) -> Workload {
        let of_cores = match self.workload {
            Some(chosen) => chosen == WorkloadOfCores::Cores,
            None => self.cpu.is_some(),
        };
        if !self.processes.is_empty() {
            return Workload::Processes(self.processes.clone());
        }
        match (self.pid, &self.comm, of_cores) {
            (Some(pid), ..) => Workload::Processes(vec![pid]),
            (None, Some(comm), _) => Workload::Comm(comm.clone()),
            (None, None, true) => Workload::Cores,
            (None, None, false) => Workload::None,
        }
    }
}

/// Which rows to print.
#[derive(Args, Clone, Default)]
pub struct Filter {
    /// Print only these causes, such as timer,softirq
    #[arg(long, value_name = "LIST", value_parser = kind_list)]
    pub kinds: Option<KindList>,
    /// Also print what these rooms saw: memory, checkpoint, nic, disturb, remedy, or all
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub rooms: Vec<RoomName>,
}

/// A room whose tables a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoomName {
    /// Memory errors
    Memory,
    /// Checkpoints
    Checkpoint,
    /// Network interfaces
    Nic,
    /// Disturbances
    Disturb,
    /// Remedies
    Remedy,
    /// All of them
    All,
}

impl Filter {
    /// What a report of everything shows.
    pub fn all() -> Self {
        Filter { kinds: None, rooms: vec![RoomName::All] }
    }

    /// Whether the tables of a room are asked for.
    pub fn shows(&self, room: RoomName) -> bool {
        self.rooms.iter().any(|&named| named == room || named == RoomName::All)
    }
}

#[derive(Args, Clone)]
pub struct WatchOptions {
    #[command(flatten)]
    pub what: What,
    /// Settings [default: /etc/surefoot/surefoot.toml as root, none otherwise and with --host-root]
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub config: Option<PathBuf>,
    /// The options that are given, in the words of settings.
    #[arg(skip)]
    pub given: Vec<surefoot_settings::Chosen>,
    /// Window length
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub interval: Duration,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// Port of the web page on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = PORT_DEFAULT)]
    pub port: u16,
    /// Serve no web page, no API and no metrics; still keep the history and health.json
    #[arg(long, conflicts_with_all = ["port", "page_group"])]
    pub no_page: bool,
    /// Keep the history in this file [default: /var/lib/surefoot/history.db as root, none otherwise and with --host-root]
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Keep no history
    #[arg(long, conflicts_with = "history")]
    pub no_history: bool,
    /// Write health.json into this directory [default: /run/surefoot as root, none otherwise and with --host-root]
    #[arg(long, value_name = "DIRECTORY")]
    pub run_directory: Option<PathBuf>,
    #[command(flatten)]
    pub page: crate::rooms::ShownOptions,
    /// Also show everything on the page to members of this group [default: root and this user only]
    #[arg(long, value_name = "GROUP")]
    pub page_group: Option<String>,
    #[command(flatten)]
    pub listen: ListenOptions,
    /// How finely the metrics tell lost time: host (sums over all cores), core (also of each core), cause (also by name)
    #[arg(long, value_name = "DETAIL", value_parser = detail(), default_value = "host", conflicts_with = "no_page")]
    pub metrics_detail: Detail,
    /// Most series of a scrape [default: 300 with host, 10000 with core, 100000 with cause]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(SERIES_MIN as i64..=SERIES_MAX as i64), conflicts_with = "no_page")]
    pub metrics_series: Option<u32>,
    /// Also export memory errors as node_edac_*, as node_exporter does; not beside a node_exporter whose edac collector runs
    #[arg(long, conflicts_with = "no_page")]
    pub metrics_edac: bool,
    /// Also trust job findings of these UIDs in health.json, such as 1000,1001 [default: root and this user only]
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    pub health_users: Vec<u32>,
    /// Show a recording instead of this host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpu", "pid", "comm", "who", "sentinel", "history", "checkpoints", "experiments", "host_root", "redfish", "event_log"])]
    pub replay: Option<PathBuf>,
    /// JSON lines instead of the live screen
    #[arg(long)]
    pub json: bool,
}

/// Where a watch serves its page beside 127.0.0.1.
#[derive(Args, Clone, Default)]
pub struct ListenOptions {
    /// Also serve page, API and metrics here, by roles: unix:PATH, or with TLS ADDRESS:PORT; repeatable
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["no_page", "replay"])]
    pub listen: Vec<Listen>,
    /// Certificate that is shown to clients of --listen, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authority that signed the certificates of clients, PEM; without --roles each of these may scrape the metrics
    #[arg(long, value_name = "FILE")]
    pub tls_client_authority: Option<PathBuf>,
    /// Roles of tokens, certificates and users at --listen (TOML): metrics, page or all
    #[arg(long, value_name = "FILE")]
    pub roles: Option<PathBuf>,
}

impl ListenOptions {
    /// For the daemon.
    ///
    /// # Errors
    /// Files without a place that they are for, and a certificate without its key.
    pub fn listening(&self) -> anyhow::Result<Listening> {
        let files = [
            ("--tls-certificate", &self.tls_certificate),
            ("--tls-key", &self.tls_key),
            ("--tls-client-authority", &self.tls_client_authority),
            ("--roles", &self.roles),
        ];
        if self.listen.is_empty() {
            let named = files.iter().find(|(_, file)| file.is_some());
            return match named {
                Some((option, _)) => anyhow::bail!("{option} is for --listen, which names no address"),
                None => Ok(Listening::default()),
            };
        }
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_authority: self.tls_client_authority.clone(),
            }),
            (None, None) if self.tls_client_authority.is_none() => None,
            (None, _) => anyhow::bail!("--listen: TLS needs a certificate (--tls-certificate)"),
            (Some(_), None) => anyhow::bail!("--listen: the certificate needs its key (--tls-key)"),
        };
        Ok(Listening { places: self.listen.clone(), tls, roles: self.roles.clone() })
    }
}

/// How finely the metrics tell lost time.
fn detail() -> impl TypedValueParser<Value = Detail> {
    let named = |word: String| Detail::ALL.into_iter().find(|detail| detail.as_str() == word).unwrap_or_default();
    PossibleValuesParser::new(Detail::ALL.map(Detail::as_str)).map(named)
}

#[derive(Args)]
pub struct ReportOptions {
    #[command(flatten)]
    pub what: What,
    #[command(flatten)]
    pub filter: Filter,
    /// How long to watch
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub duration: Duration,
    /// JSON lines instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RecordOptions {
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub what: What,
    #[command(flatten)]
    pub filter: Filter,
    /// Window length
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub interval: Duration,
    /// Keep the command lines of experiments, which are left out otherwise
    #[arg(long)]
    pub with_commands: bool,
    /// How long to record
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub duration: Duration,
    /// JSON lines instead of tables for the report at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReplayOptions {
    /// The recording
    pub file: PathBuf,
    #[command(flatten)]
    pub filter: Filter,
    /// Print only these cores
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    /// Print only gaps from this length on
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    pub min_gap: Option<u64>,
    /// JSON lines instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ProbeOptions {
    /// Cores to spin on, such as 1 or 2-3
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list)]
    pub cpu: CpuList,
    /// How long to spin
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub duration: Duration,
    /// Report gaps longer than this
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = parse_ns)]
    pub threshold: u64,
    /// Spin with this real-time priority (SCHED_FIFO)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Where the causes come from
    #[arg(long, value_enum, default_value_t)]
    pub source: Source,
    /// JSON lines: one per gap, then a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct WhoOptions {
    /// Cores to watch, such as 1 or 2-3
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list, required_unless_present = "replay")]
    pub cpu: Option<CpuList>,
    /// The process that works there: count time in which other tasks preempt it as lost
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// How long to watch, 10s unless it is given; given, it attaches also where a running watch could answer
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// What a running watch --who of these cores has found in the newest of the time; attaches nothing
    #[arg(long, value_name = "TIME", value_parser = parse_time,
          conflicts_with_all = ["anew", "duration", "pid", "trace", "compare", "no_stacks", "stacks_per_s", "replay"])]
    pub last: Option<Duration>,
    /// Attach and watch for --duration, also where a running watch --who follows these cores and could answer at once,
    /// without sending the cores anything
    #[arg(long)]
    pub anew: bool,
    /// The run directory of that watch
    #[arg(long, value_name = "DIRECTORY", default_value = RUN_DIRECTORY, conflicts_with = "anew")]
    pub run_directory: PathBuf,
    /// Take no stacks of the raisers: cheaper for them
    #[arg(long)]
    pub no_stacks: bool,
    /// Stacks that each raising core takes at most; raisers beyond that are only named
    #[arg(long = "stacks", alias = "stacks-per-s", value_name = "RATE", default_value = "5000/s", value_parser = stacks_per_s)]
    pub stacks_per_s: u64,
    /// Write the raisers' stacks into this file, folded, for flame-graph tools
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write each arrival with its raiser into this file, for ui.perfetto.dev: the first 200,000 arrivals and 400,000
    /// slices, 256 MiB at most
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the result into this file, to be replayed on any machine; includes what --trace needs when that is 20,000
    /// slices and arrivals or fewer
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Replace the recording if it exists
    #[arg(long, requires = "record")]
    pub force: bool,
    /// Print a recording exactly as it was printed live; on any machine, without privilege
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpu", "pid", "duration", "no_stacks", "stacks_per_s"])]
    pub replay: Option<PathBuf>,
    /// Compare with this recording, made before a change by --record or by stall record --who: what each cause took per
    /// second then and now. With --replay, two recordings are compared
    #[arg(long, value_name = "BEFORE")]
    pub compare: Option<PathBuf>,
    /// JSON lines: what to fix first, then one per kind of interrupt and core
    #[arg(long)]
    pub json: bool,
}

/// A whole number in a second; a number alone, as before, is one.
fn stacks_per_s(text: &str) -> Result<u64, String> {
    parse_whole_rate(text, Per::Second)
}

#[derive(Args)]
pub struct AuditOptions {
    /// Cores that are meant to be isolated, such as 1 or 1-3
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list)]
    pub cpu: CpuList,
    /// Audit a recorded tree with proc, sys, dev and etc instead of this host, without measuring
    #[arg(long, value_name = "DIRECTORY")]
    pub root: Option<PathBuf>,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    pub duration: Duration,
    /// JSON lines instead of text: one per check and core
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatusOptions {
    /// Where a running watch is looked for
    #[arg(long, value_name = "DIR", default_value = RUN_DIRECTORY)]
    pub run_directory: PathBuf,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Each option does to what counts as lost what the guide says (docs/guide/lost-time.md, "Name the workload").
    #[test]
    fn cores_that_are_named_have_a_workload_unless_another_or_none_is() {
        #[derive(clap::Parser)]
        struct TestArguments {
            #[command(flatten)]
            what: What,
        }
        let workload = |words: &str| {
            let words = ["surefoot"].into_iter().chain(words.split_whitespace());
            TestArguments::try_parse_from(words).map(|line| line.what.workload()).map_err(|error| error.kind())
        };
        for (words, wanted) in [
            ("", Workload::None),
            ("--workload none", Workload::None),
            ("--workload cores", Workload::Cores),
            ("--cpu 1", Workload::Cores),
            ("--cpus 1", Workload::Cores),
            ("--cpu 1 --workload cores", Workload::Cores),
            ("--cpu 1 --workload none", Workload::None),
            ("--pid 7", Workload::Processes(vec![7])),
            ("--cpu 1 --pid 7", Workload::Processes(vec![7])),
            ("--cpu 1 --comm poller", Workload::Comm("poller".to_owned())),
        ] {
            assert_eq!(workload(words), Ok(wanted), "{words}");
        }
        for words in ["--pid 7 --workload cores", "--comm poller --workload none"] {
            assert_eq!(workload(words), Err(clap::error::ErrorKind::ArgumentConflict), "{words}");
        }
    }

    /// Each command under its whole name.
    fn commands<'a>(command: &'a clap::Command, before: &str, all: &mut Vec<(String, &'a clap::Command)>) {
        for command in command.get_subcommands() {
            let name = format!("{before} {}", command.get_name());
            commands(command, &name, all);
            all.push((name, command));
        }
    }

    #[test]
    fn cores_are_named_by_one_option_whose_former_spelling_is_hidden() {
        let root = Arguments::command();
        let mut all = Vec::new();
        commands(&root, "surefoot", &mut all);
        let mut with_cores = Vec::new();
        for (name, command) in all {
            for argument in command.get_arguments() {
                assert_ne!(argument.get_long(), Some("cpus"), "{name}");
                if argument.get_long() == Some("cpu") {
                    assert_eq!(argument.get_all_aliases(), Some(vec!["cpus"]), "{name}");
                    assert_eq!(argument.get_visible_aliases(), Some(vec![]), "{name}");
                    with_cores.push(name.clone());
                }
            }
        }
        with_cores.sort();
        let stall =
            ["audit", "probe", "record", "replay", "report", "who"].map(|name| format!("surefoot stall {name}"));
        let others =
            ["surefoot disturb length", "surefoot history", "surefoot watch", "surefoot why"].map(str::to_owned);
        let mut expected = [&others[..], &stall[..]].concat();
        expected.sort();
        assert_eq!(with_cores, expected);
    }

    #[test]
    fn sentinels_are_a_core_and_a_share() {
        assert_eq!(sentinel("3"), Ok(SentinelConfig { cpu: CpuId(3), duty_percent: 10 }));
        assert_eq!(sentinel("0:50%"), Ok(SentinelConfig { cpu: CpuId(0), duty_percent: 50 }));
        for text in ["", "x", "0:0", "0:101", "0:300", "0:", ":5"] {
            assert!(sentinel(text).expect_err(text).contains("such as 0 or 0:10"), "{text}");
        }
    }

    #[test]
    fn help_and_the_guide_say_the_same_of_what_attaching_sends() {
        let guide = include_str!("../../../docs/guide/lost-time.md");
        let mut command = Arguments::command();
        let help = command.find_subcommand_mut("watch").map(|watch| watch.render_long_help().to_string());
        let help: Vec<_> =
            help.into_iter().flat_map(|help| help.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
        for question in [Question::Ledger, Question::Raisers] {
            assert!(guide.contains(&format!("    {}\n", forewarning(question))), "{question:?}");
            assert!(help.join(" ").contains(&forewarning(question)), "{question:?}: {help:?}");
        }
    }
}
