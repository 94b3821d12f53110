//! A job's checkpoints, as its program sees them: register memory, take checkpoints, restart.

mod agreement;
mod clock;
mod drain;
mod facts;
mod files;
pub mod journal;
mod partner;
mod regions;
mod restart;
mod save;

pub use restart::Restored;
pub use save::Saved;

use crate::config::Config;
use crate::controller::{Controller, Decision, Situation};
use crate::generation::check_name;
use crate::image::{Geometry, Protection};
use crate::storage::Disk;
use crate::tier::{Durable, Memory, memory_available_bytes};
use crate::{Error, Group};
use drain::Drain;
use facts::{Facts, Known};
use files::Files;
use journal::Journal;
use partner::Partner;
use regions::Regions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Notices that wait for [`Checkpointer::take_notices`]; of more the oldest go.
const NOTICES_MAX: usize = 100;

/// The checkpoints of one rank of a job.
///
/// Every method that returns a `Result` but [`Checkpointer::protect`] and [`Checkpointer::release`] is collective: all
/// ranks call the same ones in the same order, and get the same kind of result. Not for several threads at once: it is
/// `Send`, and every method takes `&mut self`.
///
/// ```
/// use surefoot_checkpoint::{Alone, Checkpointer, Config};
/// let tier = tempfile::tempdir()?;
/// let mut state = vec![0u8; 100_000];
/// let mut job = Checkpointer::open(Config::new("example", tier.path(), None), Box::new(Alone))?;
/// // SAFETY: `state` outlives `job`, and is left alone during its calls.
/// unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
/// if job.restart()?.is_none() {
///     state.fill(7);
/// }
/// job.checkpoint()?;
/// state.fill(0); // The program goes wrong,
/// let restored = job.restart()?; // and begins where it was.
/// assert!(restored.is_some() && state[99_999] == 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Checkpointer {
    group: Box<dyn Group>,
    config: Config,
    regions: Regions,
    files: Files,
    controller: Controller,
    memory: Option<Memory>,
    durable: Option<Durable>,
    partner: Option<Partner>,
    drain: Option<Drain>,
    host: String,
    began: Instant,
    /// The highest number that any rank has seen.
    number: u64,
    taken_count: u64,
    checkpoint_s: f64,
    durable_bytes: u64,
    memory_cost_s: Option<f64>,
    durable_cost_s: Option<f64>,
    drain_s: Option<f64>,
    last_any_s: f64,
    last_durable_s: f64,
    notices: Vec<String>,
    journal: Journal,
}

impl Checkpointer {
    /// Opens the tiers on all ranks.
    ///
    /// # Errors
    /// On all ranks when it fails on one: [`Error::Option`] without a tier or with a name that cannot be one,
    /// [`Error::Storage`] when a tier cannot be used or another process runs the same rank of the same job.
    pub fn open(config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        let opened = open_tiers(&config, group.rank());
        let (memory, durable, files) = agreement::all_or_none(&*group, opened)?;
        let mut job = Checkpointer {
            controller: Controller::new(config.policy.clone()),
            regions: Regions::default(),
            files,
            drain: None,
            host: clock::host(),
            began: Instant::now(),
            number: 0,
            taken_count: 0,
            checkpoint_s: 0.0,
            durable_bytes: 0,
            memory_cost_s: None,
            durable_cost_s: None,
            drain_s: None,
            last_any_s: 0.0,
            last_durable_s: 0.0,
            notices: Vec::new(),
            journal: Journal::new(&config, group.rank()),
            group,
            config,
            memory,
            durable,
            partner: None,
        };
        job.partner = job.find_partner()?;
        let newest = job.newest_number();
        let newest = agreement::all_or_none(&*job.group, newest)?;
        job.number = agreement::most(&*job.group, newest)?;
        job.record_opening();
        Ok(job)
    }

    /// Finds who keeps this rank's copy, if that is wished and there is another rank.
    fn find_partner(&self) -> Result<Option<Partner>, Error> {
        let Some(memory) = self.config.memory.as_ref().filter(|_| self.config.partner && self.group.size() > 1) else {
            return Ok(None);
        };
        let (job, rank) = (&self.config.job, self.group.rank());
        let store = Memory::open_for_partner(&memory.directory, job, rank, memory.slots.max(2));
        let store = agreement::all_or_none(&*self.group, store)?;
        Partner::new(&*self.group, &self.host, store).map(Some)
    }

    /// Registers memory to be saved and restored under a name; the same name again moves it.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that cannot be one, and for more regions than possible.
    ///
    /// # Safety
    /// Until the region is released or moved, or this session ends, `bytes` bytes from `start` on may be read and
    /// written during every call of this session, and nothing else writes to them then, nor reads during a restart.
    pub unsafe fn protect(&mut self, name: &str, start: *mut u8, bytes: usize) -> Result<(), Error> {
        self.regions.protect(name, start, bytes)
    }

    /// Forgets a region.
    ///
    /// # Errors
    /// [`Error::Option`] when there is none of this name.
    pub fn release(&mut self, name: &str) -> Result<(), Error> {
        self.regions.release(name)
    }

    /// The path at which this rank writes a file that belongs to its checkpoints, from now on. The file is complete when
    /// the next checkpoint is taken, and left alone meanwhile. After a restart it is there again. Not collective.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that cannot be one, or has a `/`.
    pub fn route_file(&mut self, name: &str) -> Result<PathBuf, Error> {
        self.files.route(name)
    }

    /// Whether a checkpoint is worth its time now, and why.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn need_checkpoint(&mut self) -> Result<Decision, Error> {
        self.finish_drain(false)?;
        let situation = self.situation()?;
        let decision = self.controller.is_due(&situation);
        agreement::on_place(&*self.group, decision)
    }

    /// Takes a checkpoint of all regions, where the policy says. When it returns `Ok`, every rank's part is where the
    /// decision says; the way to the durable tier ends later, see [`Checkpointer::finish`].
    ///
    /// # Errors
    /// On all ranks when it fails on one, with the first failure; the job and the former checkpoints are as before.
    pub fn checkpoint(&mut self) -> Result<Saved, Error> {
        let begun = Instant::now();
        self.finish_drain(false)?;
        let situation = self.situation()?;
        let decision = agreement::on_place(&*self.group, self.controller.decide(&situation))?;
        if decision.place.is_durable() {
            // One at a time: the former is waited for, which the decision counted in.
            self.finish_drain(true)?;
        }
        let taken = self.take(decision.clone(), &situation, begun);
        self.checkpoint_s += begun.elapsed().as_secs_f64();
        self.record_decision(&decision, &situation, &taken);
        taken
    }

    /// Waits until the newest durable checkpoint is written and marked as complete.
    ///
    /// # Errors
    /// [`Error::Group`]; that it could not be written is a notice.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.finish_drain(true)
    }

    /// What happened in the background since the last call: a durable checkpoint that was written, or was not.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Seconds since the session began.
    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn situation(&self) -> Result<Situation, Error> {
        let now_s = self.now_s();
        let known = Known {
            taken_count: self.taken_count,
            since_any_s: now_s - self.last_any_s,
            since_durable_s: now_s - self.last_durable_s,
            drive: self.config.durable.as_ref().and_then(|durable| durable.drive),
        };
        // The clocks of ranks differ by little, but decisions must not: rank 0's counts.
        let known = Known {
            since_any_s: agreement::of_root(&*self.group, known.since_any_s)?,
            since_durable_s: agreement::of_root(&*self.group, known.since_durable_s)?,
            ..known
        };
        facts::together(&*self.group, &self.facts(now_s), known)
    }

    fn facts(&self, now_s: f64) -> Facts {
        let payload_bytes = self.regions.bytes() + self.files.bytes();
        let memory_needed = self.memory.as_ref().and_then(|memory| {
            let geometry = self.geometry(payload_bytes).ok()?;
            match memory.room(&geometry, Path::new("/")) {
                Ok(()) => Some((0, u64::MAX)),
                Err(Error::NoRoom { needed_bytes, available_bytes, .. }) => Some((needed_bytes, available_bytes)),
                Err(_) => None,
            }
        });
        let (memory_needed_bytes, memory_available_bytes) = memory_needed.unwrap_or((u64::MAX, 0));
        let size_bytes = match &self.durable {
            Some(durable) => durable.bytes_for(payload_bytes).unwrap_or(u64::MAX),
            None => payload_bytes,
        };
        Facts {
            host: self.host.clone(),
            now_s,
            checkpoint_s: self.checkpoint_s,
            size_bytes,
            durable_bytes: self.durable_bytes,
            memory_needed_bytes,
            memory_available_bytes: memory_available_bytes.min(memory_available_bytes_here()),
            has_memory: self.memory.is_some(),
            durable_available_bytes: self.durable.as_ref().and_then(|durable| durable.free_bytes().ok()),
            memory_cost_s: self.memory_cost_s.unwrap_or(0.0),
            durable_cost_s: self.durable_cost_s.unwrap_or(0.0),
            drain_s: self.drain_s.unwrap_or(0.0),
            is_draining: self.drain.is_some(),
            memory_suspect: facts::memory_suspect(&self.config.health_file),
        }
    }

    fn geometry(&self, payload_bytes: u64) -> Result<Geometry, Error> {
        let protection = self.config.memory.as_ref().map_or(Protection::Checked, |memory| memory.protection);
        Geometry::new(payload_bytes, protection)
    }

    fn note(&mut self, text: String) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.remove(0);
        }
        self.notices.push(text);
    }

    /// The highest number of a generation that this rank sees anywhere.
    fn newest_number(&self) -> Result<u64, Error> {
        let in_memory =
            self.memory.iter().flat_map(|memory| memory.manifests().map(|(_, manifest)| manifest.generation));
        let durable = match &self.durable {
            Some(durable) => durable.generations()?,
            None => Vec::new(),
        };
        let durable = durable.iter().map(|stored| stored.generation);
        // A number at the end of its range leaves no room for the next.
        let numbers = in_memory.chain(durable).map(|generation| generation.number.min(u64::MAX / 2));
        Ok(numbers.max().unwrap_or(0))
    }
}

fn open_tiers(config: &Config, rank: u32) -> Result<(Option<Memory>, Option<Durable>, Files), Error> {
    check_name(&config.job).map_err(|why| Error::Option { option: "job", why })?;
    if config.memory.is_none() && config.durable.is_none() {
        return Err(Error::Option { option: "memory", why: "name a memory or a durable directory".into() });
    }
    let memory = config.memory.as_ref();
    let memory = memory.map(|memory| Memory::open(&memory.directory, &config.job, rank, memory.slots)).transpose()?;
    let durable = config
        .durable
        .as_ref()
        .map(|durable| Durable::open(Arc::new(Disk), &durable.directory, &config.job, durable.options.clone()));
    let memory_directory = config.memory.as_ref().map(|memory| memory.directory.as_path());
    let durable_directory = config.durable.as_ref().map(|durable| durable.directory.as_path());
    let files = memory_directory.or(durable_directory).map(|base| Files::new(base, &config.job, rank)).transpose()?;
    let files = files.ok_or_else(|| Error::Option { option: "memory", why: "there is no tier".into() })?;
    Ok((memory, durable.transpose()?, files))
}

fn memory_available_bytes_here() -> u64 {
    memory_available_bytes(Path::new("/")).unwrap_or(u64::MAX)
}
