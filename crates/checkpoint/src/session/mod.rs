//! A job's checkpoints, as its program sees them: register memory, take checkpoints, restart.

mod agreement;
mod clock;
mod drain;
mod drive;
mod facts;
mod files;
pub mod journal;
mod parity;
mod partner;
mod regions;
#[cfg(test)]
mod rehearsed;
mod resized;
mod restart;
mod save;
mod target;

pub use resized::{Piece, Resized};
pub use restart::Restored;
pub use save::Saved;

use crate::config::Config;
use crate::controller::{Controller, Course, Decision, Fixed, Place, Policy, SharedSituation, Sharing, Situation};
use crate::generation::{GenerationId, check_name};
use crate::image::{Geometry, Protection};
use crate::storage::Disk;
use crate::tier::{Durable, DurableOptions, Memory, Room};
use crate::{Error, Group};
use drive::{DriveFacts, DriveFile};
use facts::{Facts, Known, SharedFacts};
use files::Files;
use journal::Journal;
use parity::Parity;
use partner::Partner;
use regions::Regions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use target::{Kind, Target, Which};

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
    /// The SSD; where there is none, the shared directory.
    durable: Option<Target>,
    /// The shared directory beside an SSD.
    shared: Option<Target>,
    /// The generation that the shared directory is to get as soon as the SSD has it, and when it was taken.
    to_share: Option<(GenerationId, Instant)>,
    /// Checkpoints that went to the SSD since the last that the shared directory was to get.
    unshared_count: u64,
    partner: Option<Partner>,
    parity: Option<Parity>,
    host: String,
    nodes: Nodes,
    /// How many were taken before it came back from a checkpoint of another number of ranks, whose memory is to be given
    /// back.
    resized_at: Option<u64>,
    /// What the names of regions begin with that a restart with another number of ranks leaves out.
    left_out: Option<String>,
    began: Instant,
    /// What it came back to and has not saved after: until then nothing newer is forgotten.
    came_back_to: Option<GenerationId>,
    /// How old the newest was when it was last said that none was taken; `None` when one was.
    said_untaken_s: Option<f64>,
    /// The highest number that any rank has seen.
    number: u64,
    course: Course,
    notices: Vec<String>,
    journal: Journal,
    drive_file: DriveFile,
    /// What was known at each decision.
    #[cfg(test)]
    asked: Vec<Situation>,
}

impl Checkpointer {
    /// Opens the tiers on all ranks.
    ///
    /// # Errors
    /// On all ranks when it fails on one: [`Error::Option`] without a tier or with a name that cannot be one,
    /// [`Error::Storage`] when a tier cannot be used or another process runs the same rank of the same job.
    pub fn open(config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        Checkpointer::open_on(clock::host(), config, group)
    }

    /// As [`Checkpointer::open`], on a machine of this name.
    fn open_on(host: String, config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        let opened = Tiers::open(&config, group.rank());
        let tiers = agreement::all_or_none(&*group, opened)?;
        let mut job = Checkpointer {
            controller: Controller::new(policy(&config)),
            regions: Regions::default(),
            files: tiers.files,
            nodes: Nodes::of(&*group, &host)?,
            resized_at: None,
            left_out: None,
            host,
            began: Instant::now(),
            came_back_to: None,
            said_untaken_s: None,
            number: 0,
            course: Course::default(),
            notices: Vec::new(),
            journal: Journal::new(&config, group.rank()),
            drive_file: DriveFile::of(&config),
            #[cfg(test)]
            asked: Vec::new(),
            group,
            config,
            memory: tiers.memory,
            durable: tiers.durable,
            shared: tiers.shared,
            to_share: None,
            unshared_count: 0,
            partner: None,
            parity: None,
        };
        let threads = job.config.memory.as_ref().and_then(|memory| memory.threads);
        let threads = threads.unwrap_or_else(|| threads_here(job.nodes.ranks_here));
        job.memory.iter_mut().for_each(|memory| memory.use_threads(threads));
        job.partner = job.find_partner()?;
        job.parity = job.find_parity()?;
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

    /// Finds out which ranks share parity, if that is wished.
    fn find_parity(&mut self) -> Result<Option<Parity>, Error> {
        let Some(wished) = self.config.parity else { return Ok(None) };
        let refuse = |why: &str| Err(Error::Option { option: "parity", why: why.to_owned() });
        if self.config.partner {
            return refuse("a partner keeps a whole copy already: ask for one of the two");
        }
        if !(1..=parity::DATA_MAX).contains(&wished.data) || !(1..=parity::PARITY_MAX).contains(&wished.parity) {
            return refuse("1 to 16 ranks give data, and 1 to 3 may be lost");
        }
        let Some(memory) = &self.config.memory else {
            return refuse("it protects checkpoints in memory, and no memory tier is configured");
        };
        let store =
            Memory::open_for_parity(&memory.directory, &self.config.job, self.group.rank(), memory.slots.max(2));
        let store = agreement::all_or_none(&*self.group, store)?;
        let parity = Parity::new(&*self.group, &self.host, store, wished.data, wished.parity)?;
        if let Some(most) = parity.crowded(&*self.group, &self.host)? {
            self.note(format!(
                "{most} of the ranks that share parity are on one node, and {} may be lost: start more nodes with fewer \
                 ranks each, or ask for less data to a stripe",
                wished.parity
            ));
        }
        Ok(Some(parity))
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
        let begun = Instant::now();
        self.finish_drains(false)?;
        self.course.checkpoint_s += begun.elapsed().as_secs_f64();
        let (situation, shared) = self.situation()?;
        let mut decision = self.controller.is_due(&situation);
        if let (Place::Skip, Policy::Surefoot(_), Some(shared)) = (decision.place, self.controller.policy(), shared) {
            // The bound of the shared directory asks for a checkpoint as well as that of the SSD.
            let sharing = self.sharing(Place::Memory, shared);
            if sharing.is_copied {
                decision.place = Place::Memory;
                decision.reasons.insert(0, sharing.reason);
            }
        }
        let decision = agreement::on_place(&*self.group, decision)?;
        self.record_answer(&decision, &situation);
        Ok(decision)
    }

    /// Takes a checkpoint of all regions, where the policy says. When it returns `Ok`, every rank's part is where the
    /// decision says; the way to the durable tier ends later, see [`Checkpointer::finish`].
    ///
    /// # Errors
    /// On all ranks when it fails on one, with the first failure; the job and the former checkpoints are as before.
    /// [`Error::NoTier`] when no tier can take it.
    pub fn checkpoint(&mut self) -> Result<Saved, Error> {
        let begun = Instant::now();
        self.finish_drains(false)?;
        let (situation, shared) = self.situation()?;
        let mut decision = agreement::on_place(&*self.group, self.controller.decide(&situation))?;
        let sharing = shared.map(|shared| self.sharing(decision.place, shared));
        let is_shared = u64::from(sharing.as_ref().is_some_and(|sharing| sharing.is_copied));
        let is_shared = agreement::of_root(&*self.group, is_shared)? == 1;
        decision.reasons.extend(sharing.map(|sharing| sharing.reason));
        if decision.place.is_durable() {
            // One at a time: the former is waited for, which the decision counted in.
            self.finish_drain(Which::Durable, true)?;
        }
        let taken = match decision.is_refused {
            true => Err(Error::NoTier { age_s: situation.since_any_s, why: decision.reasons.join("; ") }),
            false => self.take(decision.clone(), is_shared, &situation, begun),
        };
        self.watch_age(&decision, &situation);
        self.course.checkpoint_s += begun.elapsed().as_secs_f64();
        self.record_decision(&decision, &situation, &taken);
        taken
    }

    /// Says that none was taken, when that happens first and again when the newest has become twice as old.
    fn watch_age(&mut self, decision: &Decision, situation: &Situation) {
        let is_wished = !matches!(self.controller.policy(), Policy::Fixed(Fixed::Never) | Policy::Paper(_));
        if decision.place != Place::Skip || !is_wished {
            self.said_untaken_s = None;
            return;
        }
        let age_s = situation.since_any_s;
        if self.said_untaken_s.is_none_or(|said_s| age_s >= 2.0 * said_s) {
            self.said_untaken_s = Some(age_s.max(1.0));
            let why = decision.reasons.join("; ");
            self.note(format!("no checkpoint was taken; the newest is {age_s:.0} s old: {why}"));
        }
    }

    /// Waits until the newest durable checkpoint, and the newest in the shared directory, are written and marked as
    /// complete.
    ///
    /// # Errors
    /// [`Error::Group`]; that it could not be written is a notice.
    pub fn finish(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let finished = self.finish_drains(true);
        self.course.checkpoint_s += begun.elapsed().as_secs_f64();
        finished
    }

    /// What happened in the background since the last call: a durable checkpoint that was written, or was not.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Seconds since the session began.
    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The durable tiers: the SSD, then the shared directory.
    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.durable.iter().chain(&self.shared)
    }

    fn situation(&mut self) -> Result<(Situation, Option<SharedSituation>), Error> {
        let drive = self.look_at_drive();
        let now_s = self.now_s();
        let step_s = self.course.called(now_s);
        // The clocks of ranks differ by little, but decisions must not: rank 0's counts.
        let since = |last_s: f64| agreement::of_root(&*self.group, now_s - last_s);
        let since_last = |target: &Option<Target>| since(target.as_ref().map_or(0.0, |target| target.copies.last_s));
        let written_s = self.durable.as_ref().map_or(0.0, |durable| durable.last_written_s(self.began));
        let known = Known {
            taken_count: self.course.taken_count,
            since_any_s: since(self.course.last_any_s)?,
            since_durable_s: since_last(&self.durable)?,
            since_written_s: since(written_s)?,
            step_s: agreement::of_root(&*self.group, step_s)?,
            since_shared_s: since_last(&self.shared)?,
            unshared_count: self.unshared_count,
            granted_share: drive::granted_share(&self.config.policy),
        };
        let together = facts::together(&*self.group, &self.facts(now_s, drive), known)?;
        #[cfg(test)]
        self.asked.push(together.0.clone());
        Ok(together)
    }

    /// Whether a checkpoint is copied to the shared directory, and why.
    fn sharing(&self, place: Place, situation: SharedSituation) -> Sharing {
        self.config.shared.as_ref().map(|shared| shared.rule).unwrap_or_default().decide(place, &situation)
    }

    fn facts(&self, now_s: f64, drive: DriveFacts) -> Facts {
        let payload_bytes = self.regions.bytes() + self.files.bytes();
        let room = self.memory.as_ref().and_then(|memory| {
            let geometry = self.geometry(payload_bytes).ok()?;
            memory.room(&geometry, Path::new("/")).ok()
        });
        let room = room.unwrap_or(Room { needed_bytes: u64::MAX, available_bytes: 0 });
        let bytes_for = |target: &Target| target.tier.bytes_for(payload_bytes).unwrap_or(u64::MAX);
        // Of all ranks, as far as one knows: the others' parts are about as long.
        let all_bytes = |target: &Target| bytes_for(target).saturating_mul(u64::from(self.group.size()));
        let durable = self.durable.as_ref();
        Facts {
            host: self.host.clone(),
            now_s,
            checkpoint_s: self.course.checkpoint_s,
            size_bytes: durable.map_or(payload_bytes, bytes_for),
            durable_bytes: durable.map_or(0, |durable| durable.copies.bytes),
            memory_needed_bytes: room.needed_bytes,
            memory_available_bytes: room.available_bytes,
            has_memory: self.memory.is_some(),
            durable_available_bytes: durable.and_then(|durable| durable.free_bytes(all_bytes(durable))),
            is_durable_shared: durable.is_some_and(|durable| durable.kind == Kind::Shared),
            shared: self.shared.as_ref().map(|shared| SharedFacts {
                size_bytes: bytes_for(shared),
                available_bytes: shared.free_bytes(all_bytes(shared)).unwrap_or(0),
                drain_s: shared.copies.drain_s(),
                is_draining: shared.drain.is_some() || self.to_share.is_some(),
            }),
            memory_cost_s: self.course.memory_cost_s(),
            durable_cost_s: self.course.durable_cost_s(),
            drain_s: durable.map_or(0.0, |durable| durable.copies.drain_s()),
            is_draining: durable.is_some_and(|durable| durable.drain.is_some()),
            memory_suspect: facts::memory_suspect(&self.config.health_file),
            drive,
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
        let mut durable = Vec::new();
        for target in self.targets() {
            durable.extend(target.tier.generations()?);
        }
        let durable = durable.iter().map(|stored| stored.generation);
        // A number at the end of its range leaves no room for the next.
        let numbers = in_memory.chain(durable).map(|generation| generation.number.min(u64::MAX / 2));
        Ok(numbers.max().unwrap_or(0))
    }
}

/// What a rank saves to.
struct Tiers {
    memory: Option<Memory>,
    durable: Option<Target>,
    shared: Option<Target>,
    files: Files,
}

impl Tiers {
    fn open(config: &Config, rank: u32) -> Result<Self, Error> {
        check_name(&config.job).map_err(|why| Error::Option { option: "job", why })?;
        let memory = config.memory.as_ref();
        let memory =
            memory.map(|memory| Memory::open(&memory.directory, &config.job, rank, memory.slots)).transpose()?;
        let target = |directory: &Path, options: &DurableOptions, kind: Kind| {
            let tier = Durable::open(Arc::new(Disk), directory, &config.job, options.clone());
            tier.and_then(|tier| tier.take(rank)).map(|tier| Target::new(tier, kind))
        };
        let ssd = config.durable.as_ref().map(|durable| target(&durable.directory, &durable.options, Kind::Ssd));
        let shared = config.shared.as_ref().map(|shared| target(&shared.directory, &shared.options, Kind::Shared));
        let (ssd, shared) = (ssd.transpose()?, shared.transpose()?);
        let directories = [
            config.memory.as_ref().map(|memory| &memory.directory),
            config.durable.as_ref().map(|durable| &durable.directory),
            config.shared.as_ref().map(|shared| &shared.directory),
        ];
        let base = directories.into_iter().flatten().next();
        let base = base.ok_or_else(|| Error::Option {
            option: "memory",
            why: "no checkpoint directory configured: set memory, durable or shared".into(),
        })?;
        let files = Files::new(base, &config.job, rank)?;
        // Without an SSD the shared directory takes its place.
        let (durable, shared) = if ssd.is_some() { (ssd, shared) } else { (shared, None) };
        Ok(Tiers { memory, durable, shared, files })
    }
}

/// The policy of a job. Without an SSD the shared directory is the durable tier, and both bounds on age hold for it.
fn policy(config: &Config) -> Policy {
    let mut policy = config.policy.clone();
    if let (Policy::Surefoot(surefoot), None, Some(shared)) = (&mut policy, &config.durable, &config.shared) {
        surefoot.staleness_max_s = surefoot.staleness_max_s.min(shared.rule.staleness_max_s);
    }
    policy
}

/// How the ranks of a job lie on machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nodes {
    /// Whether there are several.
    are_several: bool,
    /// Whether this rank is the first on its own.
    is_first_here: bool,
    /// Ranks on this one's.
    ranks_here: usize,
}

impl Nodes {
    fn of(group: &dyn Group, host: &str) -> Result<Self, Error> {
        let hosts = group.gather_all(host.as_bytes())?;
        let first_here = hosts.iter().position(|other| other == host.as_bytes());
        Ok(Nodes {
            are_several: hosts.iter().any(|other| *other != hosts[0]),
            is_first_here: first_here == Some(group.rank() as usize),
            ranks_here: hosts.iter().filter(|other| *other == host.as_bytes()).count(),
        })
    }
}

/// Threads that copy where nobody says how many: this rank's share of the cores on which it may run. More than a few
/// cores do not copy faster, because memory is then what there is no more of.
fn threads_here(ranks_here: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / ranks_here.max(1)).clamp(1, 4)
}
