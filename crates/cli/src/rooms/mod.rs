//! What each room brings to the command: a source of events, options, commands, words for its records, a part of the
//! summary and of the report. A new room is a line in each of these here, and nowhere else in this crate but for the
//! `mod` of its commands.

pub mod checkpoint;
pub mod disturb;
pub mod findings;
pub mod memory;
pub mod nic;
pub mod remedy;

use crate::args::{Filter, RoomName, Source, What, can_attach};
use crate::checkpoint::options::CheckpointCommand;
use crate::disturb::DisturbCommand;
use crate::memory::MemoryCommand;
use crate::memory::bmc::BmcOptions;
use crate::nic::NicCommand;
use crate::remedy::RemedyCommand;
use crate::remedy::hosts::FleetCommand;
use crate::settle;
use crate::stall::report;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_daemon::rooms::{
    Options, checkpoint as checkpoints, disturb as experiments, memory as memory_errors, nic as interfaces,
    remedy as remedies, stall, watch,
};
use surefoot_daemon::sources::{Running, Sources, StartError, Statistics};
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::Root;
use surefoot_interfaces::presence as interfaces_presence;
use surefoot_memory::{follow, presence};
use surefoot_model::{Capability, Deed, Event, Report, Room, StreamClock, one_line};
use surefoot_remedy::checks::CheckFile;
use surefoot_settings::Live;
use surefoot_store::history::KeptRecord;
use surefoot_sys::signals;

/// The sources that the command line asks for. Keeps this process off the watched cores.
pub fn sources(root: &Root, what: &What, window: Duration) -> anyhow::Result<Sources> {
    let config = report::config(what, window).checked(root)?;
    // The counters follow no workload, which is refused when they are started.
    if what.source != Source::Counters {
        crate::stall::threads::tell_comm(what.comm.as_deref(), root);
    }
    settle::settle_for(what, root);
    let options = what.rooms.for_daemon()?;
    let (live, held) = (&options.settings, options.settings.now());
    let set = &held.settings;
    let stall = match set.stall.watched {
        true => stall::source(root, config),
        false => stall::switched_off(root, config, format!("switched off in {}", held.origin("stall.watched"))),
    };
    let mut sources = Sources::new().with("stall", stall);
    if set.checkpoint.watched && !options.checkpoints.is_empty() {
        sources = sources.with("checkpoint", checkpoints::source(root, options.checkpoints, live));
    }
    if set.memory.watched && options.memory.is_any(root) {
        sources = sources.with("memory", options.memory.source(root, live));
    }
    if set.nic.watched && interfaces_presence::unsupported(root).is_none() {
        sources = sources.with("nic", interfaces::source(root, live));
    }
    if set.disturb.watched && !options.disturb.directories.is_empty() {
        sources = sources.with("disturb", experiments::source(&options.disturb, live));
    }
    sources = sources.with(watch::DEEDS, watch::deeds_source(root, live));
    if let Some(checks) = options.remedy.source(root).filter(|_| set.remedy.watched) {
        sources = sources.with("remedy", checks);
    }
    Ok(sources)
}

/// Says on standard error what following memory errors is about to do to the cores, where it is going to be tried with any hope.
pub fn forewarn_of_memory(root: &Root) {
    if presence::unsupported(root).is_none() && can_attach(root) {
        let cores = surefoot_hostfs::cpus::possible(root).map_or(0, |cores| cores.len());
        surefoot_console::tell!("{}", follow::forewarning(cores));
    }
}

/// What works on this host, room by room.
pub fn capabilities(root: &Root) -> Vec<Capability> {
    let mut rows = surefoot_stall::host_capabilities(root);
    rows.push(crate::checkpoint::drive::capability(root));
    rows.push(presence::capability(root));
    rows.push(interfaces_presence::capability(root));
    rows.extend(surefoot_disturb::presence::capabilities(root));
    rows.extend(surefoot_remedy::act::presence::capabilities());
    rows.extend(surefoot_daemon::capabilities());
    rows
}

/// The commands of rooms.
#[derive(Subcommand)]
pub enum RoomCommand {
    /// Checkpoints: list, verify, repair and restore them; protect other files; plan and simulate.
    Checkpoint {
        #[command(subcommand)]
        command: CheckpointCommand,
    },
    /// Memory errors: DIMMs, their counts and faults, the polling interval.
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// Network interfaces: how each does, probes of a neighbour, and recovery.
    Nic {
        #[command(subcommand)]
        command: NicCommand,
    },
    /// Disturbances: what stalls do to a workload, here and on many nodes.
    Disturb {
        #[command(subcommand)]
        command: DisturbCommand,
    },
    /// Remedies: cases from an alert to a repaired host.
    Remedy {
        #[command(subcommand)]
        command: RemedyCommand,
    },
    /// The hosts of a controller of remedies: what is found of each, room by room.
    Fleet {
        #[command(subcommand)]
        command: FleetCommand,
    },
}

impl RoomCommand {
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match self {
            RoomCommand::Checkpoint { command } => crate::checkpoint::run(command),
            RoomCommand::Memory { command } => crate::memory::run(command),
            RoomCommand::Nic { command } => crate::nic::run(command),
            RoomCommand::Disturb { command } => crate::disturb::run(command),
            RoomCommand::Remedy { command } => crate::remedy::run(command),
            RoomCommand::Fleet { command } => crate::remedy::hosts::run(command),
        }
    }
}

/// What rooms are to look at; shared by watch, report and record. A recording has it already.
#[derive(Args, Clone)]
pub struct RoomOptions {
    /// Also show checkpoints below this directory; repeatable
    #[arg(long, value_name = "DIR")]
    pub checkpoints: Vec<PathBuf>,
    /// Look for memory errors in this recorded tree (with sys and proc) instead of this host
    #[arg(long, value_name = "DIR")]
    pub host_root: Option<PathBuf>,
    /// Read journals of `surefoot disturb run --journals DIR` from this directory instead of the default; repeatable
    #[arg(long, value_name = "DIR")]
    pub experiments: Vec<PathBuf>,
    #[command(flatten)]
    pub bmc: BmcOptions,
    /// Also run the periodic checks in this file (TOML; empty: the built-in checks)
    #[arg(long, value_name = "FILE")]
    pub checks: Option<PathBuf>,
    /// Where a watch keeps the counts of memory errors between runs.
    #[arg(skip)]
    pub memory_state: Option<PathBuf>,
    /// The history of a watch, whose reports of memory errors tell of faults.
    #[arg(skip)]
    pub memory_history: Option<PathBuf>,
    /// What is set of a watch.
    #[arg(skip)]
    pub settings: Live,
}

impl RoomOptions {
    /// The same for the daemon, with absolute paths, because reports and pages show commands that somebody pastes elsewhere.
    pub fn for_daemon(&self) -> anyhow::Result<Options> {
        let checkpoints = absolute("--checkpoints", &self.checkpoints)?;
        let memory = memory_errors::Options {
            host_root: self.host_root.clone(),
            bmc: self.bmc.sources(&crate::memory::status::root(self.host_root.as_ref())?)?,
            state: self.memory_state.clone(),
            history: self.memory_history.clone(),
        };
        let is_named = !self.experiments.is_empty();
        let directories = match is_named {
            false => surefoot_experiment::log::directory(&Root::host()).into_iter().collect(),
            // The child that looks there has another working directory.
            true => absolute("--experiments", &self.experiments)?,
        };
        let disturb = experiments::Options { directories, is_named, ..experiments::Options::default() };
        let checks = self.checks.as_deref().map(CheckFile::read).transpose()?;
        let remedy = remedies::Options { checks };
        Ok(Options { settings: self.settings.clone(), checkpoints, memory, disturb, remedy, ..Options::default() })
    }

    /// What a watch needs to look at them, by the kernel's names.
    pub fn privileges(&self) -> &'static [&'static str] {
        // Directories and manifests of checkpoints are private to their users.
        if self.checkpoints.is_empty() { &[] } else { &["CAP_DAC_READ_SEARCH"] }
    }
}

fn absolute(option: &str, paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = paths.iter().map(std::path::absolute).collect::<io::Result<_>>();
    absolute.with_context(|| format!("{option}: the working directory cannot be read; give an absolute path"))
}

/// What rooms show on the page that is no event.
#[derive(Args, Clone)]
pub struct ShownOptions {
    #[command(flatten)]
    campaigns: crate::nic::page::PageOptions,
    #[command(flatten)]
    predictions: crate::disturb::page::PredictionOptions,
}

/// The same with its files open.
pub struct ShownFiles {
    campaigns: interfaces::campaign::Options,
    predictions: Vec<Arc<experiments::PredictionFile>>,
}

impl ShownOptions {
    /// Opens the files, while this process may still read them.
    pub fn open(&self) -> anyhow::Result<ShownFiles> {
        Ok(ShownFiles { campaigns: self.campaigns.open()?, predictions: self.predictions.open()? })
    }
}

impl ShownFiles {
    /// Adds them to what the daemon is told.
    pub fn add_to(self, options: Options) -> Options {
        let disturb = experiments::Options { predictions: self.predictions, ..options.disturb };
        Options { campaigns: self.campaigns, disturb, ..options }
    }
}

/// What a record of the history says, in the words of its room; `None` where that has none for it.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    if record.kind.starts_with("deed") {
        return serde_json::from_value(record.body.clone()).ok().map(|deed: Deed| {
            let why = format!("by {}, {}", deed.actor, deed.reason);
            format!("{} ({})", deed.words(), one_line(&why))
        });
    }
    match record.room {
        Room::Checkpoint => checkpoint::happened::words_of(record),
        Room::Memory => memory::happened::words_of(record),
        Room::Nic => nic::happened::words_of(record),
        Room::Disturb => disturb::happened::words_of(record),
        Room::Remedy => remedy::words_of(record),
        _ => None,
    }
}

/// Starts the sources; they run until Ctrl-C, or for this time.
pub fn start(sources: Sources, statistics: &Statistics, duration: Option<Duration>) -> anyhow::Result<Running> {
    let stop = signals::stop_flag()?;
    sources.start(statistics, stop, duration).map_err(own_error)
}

/// Ends the sources, and says which of them do not end.
pub fn end(running: Running) {
    for source in running.end() {
        surefoot_console::tell!(
            "surefoot: the source '{source}' did not end in time and is left behind: a file system, a device or a program does not answer, \
             or this machine is too busy"
        );
    }
}

/// The source's own error, so that its exit code is known.
fn own_error(error: StartError) -> anyhow::Error {
    match error.downcast::<surefoot_stall::Error>() {
        Ok(error) => anyhow::Error::new(*error),
        Err(other) => anyhow::anyhow!(other),
    }
}

/// Everything that a stream of events says, summed up: the fold of each room.
#[derive(Default)]
pub struct Summary {
    /// Lost time.
    pub stall: Report,
    /// Checkpoints.
    pub checkpoint: surefoot_rooms::checkpoint::State,
    /// Memory errors.
    pub memory: surefoot_rooms::memory::State,
    /// Network interfaces.
    pub nic: surefoot_rooms::nic::State,
    /// Experiments.
    pub disturb: surefoot_rooms::disturb::State,
    /// Periodic checks.
    pub remedy: surefoot_rooms::remedy::State,
    clock: StreamClock,
    /// The rooms of which there was anything.
    seen: BTreeSet<Room>,
    /// What judges the events; `None` where no findings are asked for.
    judge: Option<Server>,
}

impl Summary {
    /// One that says what the rooms find, too: of what is live as of its recording, by the clock of the events.
    pub fn judging() -> anyhow::Result<Self> {
        let mode = Mode::Replay { file: String::new() };
        let judge = Server::start(Config { port: None, mode, ..Config::default() })?;
        Ok(Summary { judge: Some(judge), ..Summary::default() })
    }

    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        if let Some(judge) = &self.judge {
            judge.publish(event.clone());
        }
        self.clock.take(event);
        self.seen.extend(match event {
            Event::Window(_) => Some(Room::Stall),
            Event::Memory(_) => Some(Room::Memory),
            Event::Checkpoint(_) => Some(Room::Checkpoint),
            Event::Interface(_) => Some(Room::Nic),
            Event::Disturb(_) => Some(Room::Disturb),
            Event::Check(_) => Some(Room::Remedy),
            _ => None,
        });
        self.stall.add(event);
        self.memory.take(event);
        self.remedy.take(event);
        match event {
            Event::Checkpoint(seen) => self.checkpoint.take(seen),
            Event::Interface(seen) => self.nic.seen(seen),
            Event::Disturb(seen) => self.disturb.take(seen),
            _ => {}
        }
    }

    /// The rooms of which it has anything, in words.
    pub fn rooms(&self) -> Vec<&'static str> {
        self.seen.iter().map(|room| room.label()).collect()
    }

    /// Prints the report as the user asked for it.
    pub fn print(&self, out: &mut impl Write, filter: &Filter, json: bool) -> io::Result<()> {
        report::print(out, &self.stall, filter, json)?;
        if let Some(judge) = &self.judge {
            findings::print(out, judge, json)?;
        }
        if filter.shows(RoomName::Memory) {
            memory::print(out, &self.memory, json)?;
        }
        if filter.shows(RoomName::Nic) {
            nic::print(out, &self.nic, json)?;
        }
        // Without a window it is not known of which time the stream is.
        let time = match self.stall.windows {
            0 => (0, u64::MAX),
            _ => (self.clock.realtime_ns(self.stall.start_ns), self.clock.end_realtime_ns()),
        };
        if filter.shows(RoomName::Disturb) {
            disturb::print_between(out, &self.disturb, time, json)?;
        }
        if filter.shows(RoomName::Checkpoint) {
            checkpoint::print(out, &self.checkpoint, self.clock.end_realtime_ns(), json)?;
        }
        if filter.shows(RoomName::Remedy) {
            remedy::print(out, &self.remedy, json)?;
        }
        out.flush()
    }
}
