//! Where the next checkpoint goes: memory, the SSD, both, the shared directory, nowhere.
//!
//! Who asks, or saves, tells what his rank knows (`facts`); what all know comes to rank 0, which asks the policy
//! ([`crate::Controller`], in the crate `placement`) and tells all ranks, in one agreement. Each asks its own policy again,
//! with the same answer, for the reasons.

use crate::Error;
use crate::controller::{Controller, Decision, Place, Policy, Shared, SharedSituation, Sharing, Situation};
use crate::session::ranks::{Gathered, Message, OfRoot, flag};
use crate::session::schedule::drive;
use crate::session::schedule::ending::ending_place;
use crate::session::schedule::facts::{self, Facts, Known, SharedFacts};
use crate::session::tiers::{Target, Which};
use crate::session::{Checkpointer, clock};
use crate::tier::{self, Room};
use std::path::Path;
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

/// How often a decision is put again because what was on its way has arrived meanwhile.
const ARRIVALS_MAX: usize = 4;

/// The places, in the order of their numbers in a message.
const PLACES: [Place; 4] = [Place::Skip, Place::Memory, Place::Both, Place::Durable];

/// What the policy is asked.
#[derive(Debug, Clone)]
pub(in crate::session) enum Question {
    /// Whether a checkpoint is worth its time now.
    Need,
    /// Where the one that is taken now goes, if the program does not say.
    Save(Option<Decision>),
}

/// What all ranks decided.
pub(in crate::session) struct Decided {
    pub(in crate::session) decision: Decision,
    pub(in crate::session) situation: Situation,
    /// Whether the shared directory gets it, too.
    pub(in crate::session) is_shared: bool,
    /// Whether it is taken because the program is to end.
    pub(in crate::session) is_last: bool,
    /// What rank 0 says, and whether a rank cannot save.
    pub(in crate::session) told: Message,
}

/// What a decision goes by, beside the situation.
struct Rules<'a> {
    question: &'a Question,
    /// That the program is to end.
    ending: Option<Decision>,
    sharing: Shared,
}

impl Rules<'_> {
    /// The policy's answer; `said` is the place that rank 0 chose.
    fn apply(
        self,
        controller: &mut Controller,
        situation: &Situation,
        shared: Option<&SharedSituation>,
        said: Option<Place>,
    ) -> (Decision, bool) {
        let sharing = |place: Place| shared.map(|shared| self.sharing.decide(place, shared));
        match self.question {
            Question::Need => {
                let mut decision = self.ending.unwrap_or_else(|| controller.is_due(situation));
                // The bound of the shared directory asks for a checkpoint as well as that of the SSD.
                let asks = matches!((decision.place, controller.policy()), (Place::Skip, Policy::Surefoot(_)));
                if let Some(Sharing { is_copied: true, reason }) = sharing(Place::Memory).filter(|_| asks) {
                    decision.place = Place::Memory;
                    decision.reasons.insert(0, reason);
                }
                decision.place = said.unwrap_or(decision.place);
                (decision, false)
            }
            Question::Save(asked) => {
                let asked = asked.clone().or(self.ending);
                let mut decision = asked.unwrap_or_else(|| controller.decide(situation));
                decision.place = said.unwrap_or(decision.place);
                let sharing = sharing(decision.place);
                let is_shared = sharing.as_ref().is_some_and(|sharing| sharing.is_copied);
                decision.reasons.extend(sharing.map(|sharing| sharing.reason));
                (decision, is_shared)
            }
        }
    }
}

impl Checkpointer {
    /// Has all ranks decide, in one agreement. `hindrance` is why this rank could not save.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub(in crate::session) fn decide(
        &mut self,
        question: &Question,
        hindrance: Option<&Error>,
    ) -> Result<Decided, Error> {
        let drive = self.look_at_drive();
        let mut arrivals = 0;
        loop {
            let now_s = self.schedule.now_s();
            let mut own = Message { gathered: self.told(now_s, drive.clone()), ..Message::default() };
            if let Some(error) = hindrance {
                own.fail(self.ranks.rank(), &error.reason());
            }
            let told = self.ranks.tell(own, |all| self.decide_for_all(question, now_s, all))?;
            let arrived = [(Which::Durable, flag::WRITES_DURABLE), (Which::Shared, flag::WRITES_SHARED)]
                .map(|(which, flag)| self.tiers.is_on_its_way(which) && !told.gathered.has(flag));
            if arrived == [false; 2] || arrivals == ARRIVALS_MAX {
                return self.decided(question, now_s, told);
            }
            arrivals += 1;
            let arriving = Instant::now();
            for (which, _) in [Which::Durable, Which::Shared].into_iter().zip(arrived).filter(|(_, arrived)| *arrived) {
                self.end_drain(which)?;
            }
            if matches!(question, Question::Need) {
                // A save counts all of its time.
                self.schedule.course.checkpoint_s += arriving.elapsed().as_secs_f64();
            }
        }
    }

    /// What all know, where this rank writes so many bytes of a checkpoint that was decided on before. Collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub(in crate::session) fn situation_of_late(&mut self, own_bytes: u64) -> Result<Situation, Error> {
        let drive = self.look_at_drive();
        let now_s = self.schedule.now_s();
        let mut own = Message { gathered: self.told(now_s, drive), ..Message::default() };
        own.gathered.node.size_bytes = own_bytes;
        let told = self.ranks.tell(own, |all| all.of_root = self.of_root(now_s))?;
        Ok(facts::together(&told.gathered, &told.of_root, self.known()).0)
    }

    /// Rank 0's clock.
    fn of_root(&self, now_s: f64) -> OfRoot {
        let last_s = |target: &Option<Target>| target.as_ref().map_or(0.0, |target| target.copies.last_s);
        let written_s = self.tiers.durable.as_ref().map_or(0.0, |durable| durable.last_written_s(self.schedule.began));
        // Where this is put again, it is still one call.
        let mut course = self.schedule.course;
        OfRoot {
            since_any_s: now_s - self.schedule.course.last_any_s,
            since_durable_s: now_s - last_s(&self.tiers.durable),
            since_written_s: now_s - written_s,
            since_shared_s: now_s - last_s(&self.tiers.shared),
            step_s: course.called(now_s),
            nonce: clock::nonce(),
            realtime_ns: clock::realtime_ns(),
            ..OfRoot::default()
        }
    }

    /// Rank 0's part: what all know is in the message, and what it decides goes there.
    fn decide_for_all(&self, question: &Question, now_s: f64, all: &mut Message) {
        all.of_root = self.of_root(now_s);
        let (situation, shared) = facts::together(&all.gathered, &all.of_root, self.known());
        let rules = self.rules(question, &all.gathered, &situation);
        let (decision, is_shared) =
            rules.apply(&mut self.schedule.controller.clone(), &situation, shared.as_ref(), None);
        all.of_root.place = PLACES.iter().position(|place| *place == decision.place).unwrap_or(0) as u64;
        all.of_root.is_shared = u64::from(is_shared);
    }

    /// What rank 0 said, with the reasons.
    fn decided(&mut self, question: &Question, now_s: f64, told: Message) -> Result<Decided, Error> {
        self.schedule.course.called(now_s);
        let (situation, shared) = facts::together(&told.gathered, &told.of_root, self.known());
        #[cfg(test)]
        self.schedule.asked.push(situation.clone());
        let number = told.of_root.place;
        let said = usize::try_from(number).ok().and_then(|number| PLACES.get(number)).copied();
        let said = said.ok_or_else(|| Error::Group { why: format!("rank 0 named the place {number}") })?;
        let rules = self.rules(question, &told.gathered, &situation);
        let is_last = rules.ending.is_some();
        self.schedule.ending.is_agreed |= told.gathered.has(flag::TOLD_TO_END);
        let (mut decision, _) = rules.apply(&mut self.schedule.controller, &situation, shared.as_ref(), Some(said));
        if decision.place.is_durable() {
            decision.reasons.extend(self.tiers.durable.as_ref().and_then(Target::is_volatile));
        }
        Ok(Decided { decision, situation, is_shared: told.of_root.is_shared == 1, is_last, told })
    }

    fn rules<'a>(&self, question: &'a Question, all: &Gathered, situation: &Situation) -> Rules<'a> {
        let is_ending =
            (self.schedule.ending.is_agreed || all.has(flag::TOLD_TO_END)) && !self.schedule.ending.is_saved;
        Rules {
            question,
            ending: is_ending.then(|| ending_place(self.tiers.durable.is_some(), situation)),
            sharing: self.config.shared.as_ref().map(|shared| shared.rule).unwrap_or_default(),
        }
    }

    fn known(&self) -> Known {
        Known {
            taken_count: self.schedule.course.taken_count,
            unshared_count: self.schedule.unshared_count,
            has_durable: self.tiers.durable.is_some(),
            memory_wear_factor: self.schedule.memory_wear_factor,
        }
    }

    /// What this rank tells the others before a decision.
    fn told(&self, now_s: f64, drive: drive::DriveFacts) -> Gathered {
        let granted_share = drive::granted_share(&self.config.policy);
        let rank = self.ranks.rank();
        let facts = self.facts(now_s, drive);
        let mut told = facts.told(rank, self.nodes.of_rank(rank), self.nodes.is_first_on_ssd, granted_share);
        let is_running = |target: &Option<Target>| {
            target.as_ref().and_then(|target| target.drain.as_ref()).is_some_and(|drain| drain.is_running())
        };
        for (flag, is_set) in [
            (flag::WRITES_DURABLE, is_running(&self.tiers.durable)),
            (flag::WRITES_SHARED, is_running(&self.tiers.shared)),
            (flag::TOLD_TO_END, self.schedule.ending.is_told()),
        ] {
            told.flags |= if is_set { flag } else { 0 };
        }
        told
    }

    /// What the next checkpoint needs in each tier of this rank, and what is free there; another rank may be the one without
    /// room.
    pub(in crate::session) fn room_said(&self) -> String {
        let facts = self.facts(0.0, drive::DriveFacts::default());
        let said = |directory: &Path, needed_bytes: u64, free_bytes: Option<u64>| {
            let free = free_bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string());
            let needed = match needed_bytes {
                u64::MAX => "more than there can be".to_owned(),
                bytes => format!("{bytes} bytes"),
            };
            let place = directory.display();
            match free_bytes.is_some_and(|free_bytes| needed_bytes <= free_bytes) {
                true => format!("{place} on rank {} has room for the {needed} that are needed", self.ranks.rank()),
                false => format!("make room in {place}: {needed} are needed, {free} bytes are free"),
            }
        };
        let memory = self.tiers.memory.as_ref().map(|memory| match memory.held() {
            Some(why) => format!("{}: no slot can take another checkpoint: {why}", memory.directory().display()),
            None => said(memory.directory(), facts.memory_needed_bytes, Some(facts.memory_available_bytes)),
        });
        let durable =
            self.tiers.durable.as_ref().map(|durable| {
                said(durable.tier.directory(), facts.durable_needed_bytes, facts.durable_available_bytes)
            });
        memory.into_iter().chain(durable).collect::<Vec<_>>().join("; ")
    }

    /// Why the durable tier takes none of this rank, and what can be done.
    pub(in crate::session) fn durable_room_said(&self) -> Option<String> {
        let durable = self.tiers.durable.as_ref()?;
        let facts = self.facts(0.0, drive::DriveFacts::default());
        let (place, needed) = (durable.tier.directory().display(), facts.durable_needed_bytes);
        let free = match facts.durable_available_bytes {
            Some(free) if free < needed => free,
            Some(_) => {
                return Some(format!(
                    "{place} has room on rank {}; another rank's tier is full, or cannot be written to",
                    self.ranks.rank()
                ));
            }
            None => return Some(format!("{place} cannot be written to")),
        };
        let stored = durable.tier.generations().unwrap_or_default();
        let complete = stored.iter().filter(|stored| stored.committed_ranks.is_some()).count();
        let setting = durable.kind.as_str();
        let remedy = match complete {
            0 | 1 => format!("name a larger directory with {setting}"),
            count => {
                format!("start the job again with {setting}.keep={}: its restart then removes the oldest", count - 1)
            }
        };
        Some(format!(
            "{place} is full: {needed} bytes are needed, {free} are free beside {complete} complete checkpoints \
             ({setting}.keep={}). Free {} bytes there, or {remedy}",
            durable.tier.keep(),
            needed - free
        ))
    }

    fn facts(&self, now_s: f64, drive: drive::DriveFacts) -> Facts {
        let payload_bytes = self.regions.bytes() + self.files.bytes();
        let room = self.tiers.memory.as_ref().and_then(|memory| {
            let geometry = self.geometry(payload_bytes).ok()?;
            memory.room(&geometry, Path::new("/")).ok()
        });
        let room = room.unwrap_or(Room { needed_bytes: u64::MAX, available_bytes: 0 });
        let bytes_for = |target: &Target| target.tier.bytes_for(payload_bytes).unwrap_or(u64::MAX);
        let small_bytes = tier::small_bytes(self.regions.names(), self.files.names());
        let room_for = |target: &Target| bytes_for(target).saturating_add(small_bytes);
        // Of all ranks, as far as one knows: the others' parts are about as long.
        let all_bytes = |target: &Target| room_for(target).saturating_mul(u64::from(self.ranks.size()));
        let durable = self.tiers.durable.as_ref();
        Facts {
            host: self.schedule.host.clone(),
            now_s,
            checkpoint_s: self.schedule.course.checkpoint_s,
            size_bytes: durable.map_or(payload_bytes, bytes_for),
            durable_needed_bytes: durable.map_or(0, room_for),
            durable_bytes: durable.map_or(0, |durable| durable.copies.bytes),
            memory_needed_bytes: room.needed_bytes,
            memory_available_bytes: room.available_bytes,
            has_memory: self.tiers.memory.is_some(),
            durable_available_bytes: durable.and_then(|durable| durable.free_bytes(all_bytes(durable))),
            is_durable_shared: durable.is_some_and(|durable| durable.kind == Tier::Shared),
            shared: self.tiers.shared.as_ref().map(|shared| SharedFacts {
                needed_bytes: room_for(shared),
                available_bytes: match shared.rest() {
                    None => shared.free_bytes(all_bytes(shared)).unwrap_or(0),
                    Some(_) => 0,
                },
                drain_s: shared.copies.drain_s(),
                is_draining: shared.drain.is_some() || self.tiers.to_share.is_some(),
            }),
            memory_cost_s: self.schedule.course.memory_cost_s(),
            durable_extra_s: self.schedule.course.durable_extra_s(),
            drain_loss_s: self.schedule.course.drain_loss_s(),
            durable_alone_s: self.schedule.course.durable_alone_s(),
            drain_s: durable.map_or(0.0, |durable| durable.copies.drain_s()),
            is_draining: durable.is_some_and(|durable| durable.drain.is_some()),
            durable_rest: durable.and_then(Target::rest).unwrap_or_default(),
            memory_suspect: facts::memory_suspect(&self.config.health_file),
            drive,
        }
    }
}
