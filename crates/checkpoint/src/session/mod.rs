//! A job's checkpoints, as its program sees them: register memory, take checkpoints, restart.
//!
//! A session owns one of each and calls them in the order of the protocol, in `open`, `save`, `restart` and `finish`. They know
//! nothing of it: each takes what it needs, and returns what the program is to be told. Which may use which is in
//! `xtask/src/storeys.rs`.
//!
//! # Where to look
//! - *Whether a checkpoint goes to the SSD*: `schedule/decide.rs` asks for it on all ranks; the rule itself is
//!   [`crate::Controller`], in the crate `placement`.
//! - *What ranks say to each other*: `ranks`, one message for whatever they agree on; what that costs, [`scale`].
//! - *Where checkpoints lie*: `tiers`. *Who else keeps them*: `redundancy`. *On which nodes*: `nodes`. *Who reaches which*:
//!   `reach`.
//! - *How one is taken*: `save.rs`; *how it comes back*: `restart.rs`, with another number of ranks `resized`.
//! - *What is written down*: [`journal`].

mod ahead;
mod bytes;
mod clock;
mod files;
mod finish;
pub mod journal;
mod nodes;
mod open;
mod outcomes;
mod ranks;
mod reach;
mod redundancy;
mod regions;
mod resized;
mod restart;
mod run;
mod save;
pub mod scale;
mod schedule;
#[cfg(test)]
mod tests;
mod tiers;

pub(crate) use nodes::{WasComplete, may_be_placement, ranks_here, was_complete};
pub use outcomes::{Finished, Restored, Saved};
pub use regions::Placing;
pub use resized::{Piece, Resized};

use crate::Error;
use crate::config::Config;
use crate::controller::Decision;
use crate::generation::GenerationId;
use crate::settings::{self, Told};
use crate::tier::leave_nothing;
use files::Files;
use journal::Journal;
use nodes::Nodes;
use ranks::{Call, Ranks, told_on_all};
use redundancy::Redundancy;
use regions::Regions;
use run::Run;
use schedule::Schedule;
use schedule::decide::{Decided, Question};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tiers::{Tiers, Which};

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
    config: Config,
    /// The others, and how this rank talks to them.
    ranks: Ranks,
    nodes: Nodes,
    /// What is saved.
    regions: Regions,
    files: Files,
    /// Where to, who else keeps it, and when.
    tiers: Tiers,
    redundancy: Redundancy,
    /// From which loss that does not protect, in a sentence of every report.
    weakness: Option<String>,
    schedule: Schedule,
    run: Run,
    journal: Journal,
    /// The settings with which it was opened, until they are left in the job's directory.
    settings: Option<Vec<Told>>,
    /// What the names of regions begin with that a restart with another number of ranks leaves out.
    left_out: Option<String>,
}

impl Checkpointer {
    /// Registers memory to be saved and restored under a name; the same name again moves it.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that cannot be one, and for more regions than possible.
    ///
    /// # Safety
    /// Until the region is released or moved, or this session ends, `bytes` bytes from `start` on may be read and
    /// written during every call of this session, and nothing else writes to them then, nor reads during a restart.
    pub unsafe fn protect(&mut self, name: &str, start: *mut u8, bytes: usize) -> Result<(), Error> {
        self.used();
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
        self.used();
        self.files.route(name)
    }

    /// Whether a checkpoint is worth its time now, and why.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn need_checkpoint(&mut self) -> Result<Decision, Error> {
        self.collective(Call::Need, Self::need)
    }

    fn need(&mut self) -> Result<Decision, Error> {
        let begun = Instant::now();
        self.schedule.enter(begun, false, self.tiers.is_writing());
        let Decided { decision, situation, .. } = self.decide(&Question::Need, None)?;
        if decision.is_refused {
            // Who saves only when it is worth it is told nowhere else.
            let said = self.schedule.watch_age(&decision, &situation, &self.tiers, self.run.newest.is_some());
            self.journal.notes(said);
        }
        self.journal.answered(&decision, &situation);
        self.verify_suspect_memory();
        self.make_ahead_for_regions();
        self.schedule.course.returned(self.schedule.now_s(), false);
        Ok(decision)
    }

    /// Takes a checkpoint of all regions, where the policy says. When it returns `Ok`, every rank's part is where the
    /// decision says; the way to the durable tier ends later, see [`Checkpointer::finish`].
    ///
    /// # Errors
    /// On all ranks when it fails on one, with the first failure; the job and the former checkpoints are as before.
    /// [`Error::NoTier`] when no tier can take it.
    pub fn checkpoint(&mut self) -> Result<Saved, Error> {
        self.collective(Call::Save(None), |job| job.take_checkpoint(None))
    }

    /// Makes a call of all ranks. The first that they tell each other in it states the call, its number and the newest
    /// generation: where these differ, all of them get an error before anything is written. After an error
    /// of the group this session says no more to the others, who may be elsewhere.
    fn collective<T>(&mut self, call: Call, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.collective_after(self.newest(), call, work)
    }

    /// As [`Checkpointer::collective`], for a call about this generation.
    fn collective_after<T>(
        &mut self,
        generation: GenerationId,
        call: Call,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !call.only_reads() {
            self.used();
        }
        self.ranks.begin(call, false, generation)?;
        // A decision needs the tree of the nodes, which a rank that is just opening does not know.
        let is_decision = call.begins_with_decision() && self.ranks.are_on_one_node();
        let begun = if is_decision { Ok(()) } else { self.ranks.all_or_none(Ok(())) };
        self.ended(begun).and_then(|()| {
            let done = work(self);
            self.ended(done)
        })
    }

    /// Takes part in an agreement before a call of this name (`save`, `restart`, `read_resized` and so on), for a layer
    /// above that prepares calls and may fail on one rank: `failure` says at what. Collective.
    ///
    /// # Errors
    /// [`Error::OtherRank`] when another rank failed, also where this one did; [`Error::Group`] when a rank is in another
    /// call; [`Error::Option`] where there is no call of this name.
    pub fn prepare(&mut self, call: &str, failure: Option<&str>) -> Result<(), Error> {
        let known = Call::of(call);
        let unknown = known.is_none().then(|| format!("there is no call {call:?}"));
        self.ranks.begin(known.unwrap_or(Call::Unknown), true, self.newest())?;
        let told = self.ended(self.ranks.tell_failure(unknown.as_deref().or(failure)));
        if told.is_err() {
            self.ranks.settle();
        }
        unknown.map_or(told, |why| Err(Error::Option { option: "call", why }))
    }

    /// Takes part in a call that this rank cannot make, so that the other ranks fail with its reason instead of waiting for it.
    /// `call` is the name as for [`Checkpointer::prepare`], `about` the checkpoint that a `read_resized` is from. Collective: the
    /// other ranks are in that call.
    ///
    /// # Errors
    /// [`Error::Group`] when a rank is in another call; [`Error::Option`] when there is no call of this name.
    pub fn refuse(&mut self, call: &str, about: Option<&Resized>, why: &str) -> Result<(), Error> {
        let call = Call::of(call)
            .ok_or_else(|| Error::Option { option: "call", why: format!("there is no call {call:?}") })?;
        let refused = Error::Option { option: "argument", why: why.to_owned() };
        let told = match call {
            // It has no way to fail on the others: they get their answer.
            Call::Need => self.collective(call, Self::need).map(drop),
            Call::Save(_) => self.collective(call, |job| job.take_checkpoint_or(None, Some(refused))).map(drop),
            _ => {
                self.ranks.begin(call, false, about.map_or_else(|| self.newest(), |about| about.generation))?;
                let told = self.ended(self.ranks.all_or_none(Err(refused)));
                if call.may_be_last() {
                    self.ranks.settle();
                }
                told
            }
        };
        told_on_all(told).map(drop)
    }

    /// Has the other ranks told why this session closes, where it closes before they do.
    pub fn explain_close(&self, why: &str) {
        self.ranks.explain_close(why);
    }

    /// The number of the newest generation of all ranks, and which this session has come to.
    fn newest(&self) -> GenerationId {
        GenerationId { number: self.run.number, nonce: self.run.newest.map_or(0, |(generation, _)| generation.nonce) }
    }

    /// The result of a call, after which the ranks may have to part.
    fn ended<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Group { why }) = &done {
            self.ranks.end(why);
        }
        done
    }

    /// Takes a checkpoint where it is asked for, or else where the policy says.
    fn take_checkpoint(&mut self, asked: Option<Decision>) -> Result<Saved, Error> {
        self.take_checkpoint_or(asked, None)
    }

    /// As [`Checkpointer::take_checkpoint`]; with a hindrance, which is then the error of all ranks, this rank saves nothing.
    fn take_checkpoint_or(&mut self, asked: Option<Decision>, hindrance: Option<Error>) -> Result<Saved, Error> {
        let begun = Instant::now();
        self.schedule.enter(begun, true, self.tiers.is_writing());
        let contents = hindrance.map_or_else(|| self.files.contents(), Err);
        let decided = self.decide(&Question::Save(asked), contents.as_ref().err())?;
        let Decided { decision, situation, is_last, .. } = &decided;
        let (decision, situation, is_last) = (decision.clone(), situation.clone(), *is_last);
        let waiting = Instant::now();
        if decision.place.is_durable() {
            // One at a time: the former is waited for, which the decision counted in.
            self.end_drain(Which::Durable)?;
        }
        let waited_s = waiting.elapsed().as_secs_f64();
        let taken = match decision.is_refused {
            true => {
                let (schedule, around) = self.scheduling();
                let why = format!("{}: {}", decision.reasons.join("; "), schedule.room_said(&around));
                Err(Error::NoTier { age_s: situation.since_any_s, why })
            }
            false => self.take(decided, contents, begun, waited_s),
        };
        let has_newest = self.run.newest.is_some();
        let (schedule, around) = self.scheduling();
        let untaken = schedule.watch_age(&decision, &situation, around.tiers, has_newest);
        let undurable = schedule.watch_durable(&around, &decision, &situation);
        self.journal.notes(untaken.into_iter().chain(undurable));
        if is_last && taken.is_ok() {
            // Nobody may call again: this one is durable now, or it is said why not.
            self.end_drain(Which::Durable)?;
            self.schedule.ending.saved();
        }
        self.schedule.course.checkpoint_s += begun.elapsed().as_secs_f64();
        self.journal.decided(self.schedule.controller.policy(), &decision, &situation, &taken);
        self.verify_suspect_memory();
        self.make_ahead_for_regions();
        self.schedule.course.returned(self.schedule.now_s(), true);
        taken
    }

    /// When the host's health says that memory lost bits, and each time that it says so anew, checks and repairs what this rank keeps in
    /// memory. All of it: which module a copy is in is not known. Not collective.
    fn verify_suspect_memory(&mut self) {
        let suspect = schedule::facts::memory_suspect(&self.config.health_file);
        if suspect == self.run.suspect {
            return;
        }
        if !suspect.is_empty() {
            let copies = self.tiers.scrub_memory();
            let what = match copies.is_empty() {
                true => "this rank has no copy there".to_owned(),
                false => "every copy there was verified, as it is not known which module holds it".to_owned(),
            };
            self.journal.notes(std::iter::once(format!("memory is suspect ({suspect}): {what}")).chain(copies));
        }
        self.run.suspect = suspect;
    }

    /// Whether a rank of this job was told to end by SIGTERM, as of the last [`Checkpointer::need_checkpoint`] or
    /// [`Checkpointer::checkpoint`]: the same on all ranks. Always false unless the setting `sigterm` is `checkpoint`. Not
    /// collective.
    pub fn is_told_to_end(&self) -> bool {
        self.schedule.ending.is_agreed
    }

    /// Lines of the journal that could not be written: what the page then does not know. No checkpoint depends on it.
    pub fn journal_lost_count(&self) -> u64 {
        self.journal.lost_count()
    }

    /// Leaves the settings with which this job was opened beside its journal and in its other tiers, so that one leads to the others. No
    /// checkpoint depends on it: that it could not be written is a notice. A session that only reads leaves those of the job's last run there.
    pub fn publish_settings(&mut self, settings: Vec<Told>) {
        if !self.run.is_used {
            self.settings = Some(settings);
            return;
        }
        let Some(first) = self.journal.directory().map(Path::to_owned) else { return };
        let others: Vec<PathBuf> = self.tiers.opened_directories().filter(|path| *path != first).collect();
        for directory in std::iter::once(first).chain(others) {
            if let Err(error) = settings::publish(&directory, &settings) {
                self.journal.note(format!("{}: the settings could not be left there: {error}", directory.display()));
            }
        }
    }

    /// What happened in the background since the last call: a durable checkpoint that was written, or was not.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.journal.take_notices()
    }

    fn make_ahead(&mut self, payload_bytes: u64) {
        ahead::make_ahead(&mut self.tiers, &self.config, &self.nodes, payload_bytes);
    }

    /// Once regions are registered: slots for them.
    fn make_ahead_for_regions(&mut self) {
        if self.regions.bytes() > 0 {
            self.make_ahead(self.regions.bytes() + self.files.bytes());
        }
    }

    /// A report, with what redundancy does not protect from.
    fn with_weakness(&self, report: String) -> String {
        self.weakness.iter().fold(report, |report, weakness| format!("{report}; {weakness}"))
    }

    /// Says once that a program saves beside checkpoints of an earlier run for which it never asked.
    fn note_unasked(&mut self) {
        let is_past = |number: &u64| *number <= self.run.completed.generation.number;
        let Some(number) = self.run.unasked.take().filter(|number| !is_past(number)) else { return };
        self.journal.note(format!(
            "generation {number} of an earlier run is there, and this run saves without having asked for it: newer checkpoints \
             take the place of that run's. Call restart before the first save to go on from it; to start the job over, call \
             complete or discard at the end of a run, or run `{}`",
            self.tiers.removal()
        ));
    }

    /// From here on the session is in the job's journal, and its settings beside it.
    fn used(&mut self) {
        if std::mem::replace(&mut self.run.is_used, true) {
            return;
        }
        self.journal.opened(&self.config, self.ranks.size(), self.weakness.as_deref());
        if let Some(settings) = self.settings.take() {
            self.publish_settings(settings);
        }
    }
}

/// A session that only read leaves no directory that it made.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        if self.run.is_used {
            return;
        }
        for directory in self.tiers.unused_directories() {
            leave_nothing(&directory, &self.config.job, self.ranks.rank());
        }
    }
}
