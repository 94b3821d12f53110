//! Opens a session on all ranks: its tiers, the nodes, who keeps checkpoints for whom, and which was the newest.
//!
//! It is here, and at a restart, that ranks tell each other more than an agreement: where each runs, a hundred bytes of every
//! rank to every other one.

use super::finish::of_earlier_release;
use super::journal::Journal;
use super::nodes::Nodes;
use super::ranks::Ranks;
use super::redundancy::Redundancy;
use super::regions::Regions;
use super::run::Run;
use super::schedule::ending::Ending;
use super::schedule::{Schedule, facts};
use super::tiers::{Opened, UNSEEN_NUMBERS, open_to_others};
use super::{Checkpointer, clock};
use crate::config::Config;
use crate::settings;
use crate::storage::Disk;
use crate::tier::Memory;
use crate::{Error, Group, Storage};
use std::sync::Arc;

impl Checkpointer {
    /// Opens the tiers on all ranks.
    ///
    /// # Errors
    /// On all ranks when it fails on one: [`Error::Option`] without a tier, with a name that cannot be one, or where settings
    /// differ between ranks that must be the same,
    /// [`Error::Storage`] when a tier cannot be used or another process runs the same rank of the same job.
    pub fn open(config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        Checkpointer::open_as(clock::host(), &clock::host_name(), config, group)
    }

    /// Lets the other ranks know, which are in [`Checkpointer::open`], that this one has no settings to open with. Returns
    /// the error of this rank; where a rank before it has the same, one that says so.
    pub fn decline(error: Error, group: Box<dyn Group>) -> Error {
        let why = error.reason();
        let declined = Ranks::new(group, "").agree_on_settings(Err(error));
        declined.err().unwrap_or(Error::Group { why })
    }

    /// As [`Checkpointer::open`], on a machine of this name.
    #[cfg(test)]
    pub(super) fn open_on(host: String, config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        let name = host.clone();
        Checkpointer::open_as(host, &name, config, group)
    }

    /// As [`Checkpointer::open_on`], on a machine that people call by another name.
    pub(super) fn open_as(host: String, name: &str, config: Config, group: Box<dyn Group>) -> Result<Self, Error> {
        Checkpointer::open_with(&(Arc::new(Disk) as Arc<dyn Storage>), host, name, config, group)
    }

    /// As [`Checkpointer::open_as`], with the durable tiers on this storage.
    pub(super) fn open_with(
        storage: &Arc<dyn Storage>,
        host: String,
        name: &str,
        config: Config,
        group: Box<dyn Group>,
    ) -> Result<Self, Error> {
        let mut ranks = Ranks::new(group, &config.job);
        ranks.agree_on_settings(Ok(settings::to_be_equal(&config)))?;
        let opened =
            Opened::open(&config, storage, &ranks).and_then(|opened| Ok((opened, Ending::watching(config.sigterm)?)));
        let (mut opened, ending) = ranks.all_or_none(opened)?;
        let unopened = opened.expect_a_reason_to_go_on(&ranks)?;
        let usable = opened.usable(&config);
        let nodes = Nodes::of(&ranks, &host, name, &config)?;
        ranks.place(nodes.of_ranks());
        let Opened { mut tiers, files, media, wear, .. } = opened;
        let unchecked = tiers.expect_one_shared(&ranks, &nodes)?;
        let threads = config.memory.as_ref().and_then(|memory| memory.threads);
        let threads = threads.unwrap_or_else(|| threads_here(nodes.ranks_here));
        tiers.memory.iter_mut().for_each(|memory| memory.use_threads(threads));
        let fault = tiers.memory.as_ref().and_then(Memory::fault);
        let (redundancy, weakness) = Redundancy::open(&ranks, &nodes, &config, fault)?;
        let keeps_budget = tiers.durable.as_ref().is_some_and(|durable| nodes.is_first_at(durable.kind));
        let mut job = Checkpointer {
            journal: Journal::new(&usable, ranks.rank()),
            schedule: Schedule::new(&config, host, wear, ending, keeps_budget),
            config,
            ranks,
            nodes,
            regions: Regions::default(),
            files,
            tiers,
            redundancy,
            weakness,
            run: Run::default(),
            left_out: None,
            settings: None,
        };
        job.journal.notes(job.weakness.iter().cloned().chain(unchecked).chain(media.notices(&job.config)));
        job.begin(unopened)?;
        Ok(job)
    }

    /// Finds its place in the job's line of checkpoints, and says what is to be said at the start.
    fn begin(&mut self, unopened: Option<String>) -> Result<(), Error> {
        let newest = self.tiers.newest_seen(self.redundancy.ages_left_alone());
        [self.run.number, self.run.epoch] = self.ranks.most_of_each(Run::after(newest))?;
        self.run.unasked = Some(self.run.number).filter(|number| *number > 0);
        if unopened.is_some() {
            // What lies there may have higher numbers, and what is taken from here on is newer than that.
            self.run.number += UNSEEN_NUMBERS;
        }
        let durable = self.tiers.durable.as_ref().map(|durable| &durable.tier);
        self.journal.notes(self.schedule.resume_budget(&self.ranks, durable)?);
        self.find_completion()?;
        let memory = self.config.memory.as_ref().filter(|_| newest.generation.number == 0);
        self.journal.notes(memory.and_then(|memory| of_earlier_release(&memory.directory, &self.config.job)));
        if let Some(payload_bytes) = self.tiers.last_payload_bytes() {
            self.make_ahead(payload_bytes);
        }
        self.journal.notes(open_to_others(&self.config));
        self.journal.notes(facts::health_doubt(&self.config.health_file));
        self.journal.notes(self.tiers.left_alone(|kind| self.nodes.is_first_at(kind)));
        self.journal.notes(self.redundancy.left_alone());
        let policy = self.config.policy.word();
        self.journal.notes(unopened.map(|unopened| {
            format!(
                "{unopened}. No checkpoint of any rank goes to that tier until the job restarts, although the policy \
                 ({policy}) asks for it: fix the directory, then restart the job"
            )
        }));
        Ok(())
    }
}

/// Threads that copy where nobody says how many: this rank's share of the cores on which it may run. More than a few
/// cores do not copy faster, because memory is then what there is no more of.
fn threads_here(ranks_here: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / ranks_here.max(1)).clamp(1, 4)
}
