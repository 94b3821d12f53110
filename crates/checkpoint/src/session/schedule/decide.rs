//! Where the next checkpoint goes: memory, the SSD, both, the shared directory, nowhere.
//!
//! Who asks, or saves, tells what his rank knows (`facts`); what all know comes to rank 0, which asks the policy
//! ([`crate::Controller`], in the crate `placement`) and tells all ranks, in one agreement. Each asks its own policy again,
//! with the same answer, for the reasons.

use super::Schedule;
use super::drive;
use super::facts::{self, Facts, Known, SharedFacts};
use crate::Error;
use crate::config::Config;
use crate::controller::{Controller, Decision, Place, Policy, Shared, SharedSituation, Sharing, Situation};
use crate::session::clock;
use crate::session::files::Files;
use crate::session::nodes::Nodes;
use crate::session::ranks::{Gathered, Message, OfRoot, Ranks, flag};
use crate::session::regions::Regions;
use crate::session::tiers::{Target, Tiers, Which};
use crate::tier::{self, MemorySpace};
use std::path::Path;
use surefoot_model::CheckpointTier as Tier;

/// The places, in the order of their numbers in a message.
const PLACES: [Place; 4] = [Place::Skip, Place::Memory, Place::Both, Place::Durable];

/// What the policy is asked.
#[derive(Debug, Clone)]
pub enum Question {
    /// Whether a checkpoint is worth its time now.
    Need,
    /// Where the one that is taken now goes, if the program does not say.
    Save(Option<Decision>),
}

/// What all ranks decided.
pub struct Decided {
    pub decision: Decision,
    pub situation: Situation,
    /// Whether the shared directory gets it, too.
    pub is_shared: bool,
    /// Whether it is taken because the program is to end.
    pub is_last: bool,
    /// What rank 0 says, and whether a rank cannot save.
    pub told: Message,
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

/// What a decision looks at beside its own course.
pub struct Around<'a> {
    pub config: &'a Config,
    pub ranks: &'a Ranks,
    pub nodes: &'a Nodes,
    pub regions: &'a Regions,
    pub files: &'a Files,
    pub tiers: &'a Tiers,
}

/// What all ranks were told when one asked.
pub struct Asked {
    now_s: f64,
    told: Message,
}

impl Asked {
    /// Where what is on its way on this rank has arrived on all, in [`Which::Durable`] and [`Which::Shared`].
    pub fn arrived(&self, tiers: &Tiers) -> Vec<Which> {
        let writes = [(Which::Durable, flag::WRITES_DURABLE), (Which::Shared, flag::WRITES_SHARED)];
        let arrived = |(which, flag)| (tiers.is_on_its_way(which) && !self.told.gathered.has(flag)).then_some(which);
        writes.into_iter().filter_map(arrived).collect()
    }
}

/// A decision that is not the policy's.
pub fn asked_for(place: Place, why: &str) -> Decision {
    Decision { place, reasons: vec![why.to_owned()], is_refused: false }
}

/// Where the next checkpoint goes because a rank was told to end.
fn ending_place(has_durable: bool, situation: &Situation) -> Decision {
    let has_memory = situation.fits_memory && situation.memory_suspect.is_empty();
    let place = match (has_durable, has_memory) {
        (true, true) => Place::Both,
        (true, false) => Place::Durable,
        (false, _) => Place::Memory,
    };
    asked_for(place, "SIGTERM came: the program is to end")
}

impl Schedule {
    /// Has all ranks decide, in one agreement. `hindrance` is why this rank could not save.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn ask(
        &self,
        around: &Around<'_>,
        question: &Question,
        drive: drive::DriveFacts,
        hindrance: Option<&Error>,
    ) -> Result<Asked, Error> {
        let now_s = self.now_s();
        let mut own = Message { gathered: self.told(around, now_s, drive), ..Message::default() };
        if let Some(error) = hindrance {
            own.fail(around.ranks.rank(), &error.reason());
        }
        let told = around.ranks.tell(own, |all| self.decide_for_all(around, question, now_s, all))?;
        Ok(Asked { now_s, told })
    }

    /// What all know, where this rank writes so many bytes of a checkpoint that was decided on before. Collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn situation_of_late(
        &self,
        around: &Around<'_>,
        own_bytes: u64,
        drive: drive::DriveFacts,
    ) -> Result<Situation, Error> {
        let now_s = self.now_s();
        let mut own = Message { gathered: self.told(around, now_s, drive), ..Message::default() };
        own.gathered.node.size_bytes = own_bytes;
        let told = around.ranks.tell(own, |all| all.of_root = self.of_root(around, now_s))?;
        Ok(facts::together(&told.gathered, &told.of_root, self.known(around)).0)
    }

    /// Rank 0's clock.
    fn of_root(&self, around: &Around<'_>, now_s: f64) -> OfRoot {
        let last_s = |target: &Option<Target>| target.as_ref().map_or(0.0, |target| target.copies.last_s);
        let written_s = around.tiers.durable.as_ref().map_or(0.0, |durable| durable.last_written_s(self.began));
        // Where this is put again, it is still one call.
        let mut course = self.course;
        OfRoot {
            since_any_s: now_s - self.course.last_any_s,
            since_durable_s: now_s - last_s(&around.tiers.durable),
            since_written_s: now_s - written_s,
            since_shared_s: now_s - last_s(&around.tiers.shared),
            step_s: course.called(now_s),
            nonce: clock::nonce(),
            realtime_ns: clock::realtime_ns(),
            ..OfRoot::default()
        }
    }

    /// Rank 0's part: what all know is in the message, and what it decides goes there.
    fn decide_for_all(&self, around: &Around<'_>, question: &Question, now_s: f64, all: &mut Message) {
        all.of_root = self.of_root(around, now_s);
        let (situation, shared) = facts::together(&all.gathered, &all.of_root, self.known(around));
        let rules = self.rules(around, question, &all.gathered, &situation);
        let (decision, is_shared) = rules.apply(&mut self.controller.clone(), &situation, shared.as_ref(), None);
        all.of_root.place = PLACES.iter().position(|place| *place == decision.place).unwrap_or(0) as u64;
        all.of_root.is_shared = u64::from(is_shared);
    }

    /// What rank 0 said, with the reasons.
    pub fn decided(&mut self, around: &Around<'_>, question: &Question, asked: Asked) -> Result<Decided, Error> {
        let Asked { now_s, told } = asked;
        self.course.called(now_s);
        let (situation, shared) = facts::together(&told.gathered, &told.of_root, self.known(around));
        #[cfg(test)]
        self.asked.push(situation.clone());
        let number = told.of_root.place;
        let said = usize::try_from(number).ok().and_then(|number| PLACES.get(number)).copied();
        let said = said.ok_or_else(|| Error::Group { why: format!("rank 0 named the place {number}") })?;
        let rules = self.rules(around, question, &told.gathered, &situation);
        let is_last = rules.ending.is_some();
        self.ending.is_agreed |= told.gathered.has(flag::TOLD_TO_END);
        let (mut decision, _) = rules.apply(&mut self.controller, &situation, shared.as_ref(), Some(said));
        if decision.place.is_durable() {
            decision.reasons.extend(around.tiers.durable.as_ref().and_then(Target::is_volatile));
        }
        Ok(Decided { decision, situation, is_shared: told.of_root.is_shared == 1, is_last, told })
    }

    fn rules<'a>(
        &self,
        around: &Around<'_>,
        question: &'a Question,
        all: &Gathered,
        situation: &Situation,
    ) -> Rules<'a> {
        let is_ending = (self.ending.is_agreed || all.has(flag::TOLD_TO_END)) && !self.ending.is_saved;
        Rules {
            question,
            ending: is_ending.then(|| ending_place(around.tiers.durable.is_some(), situation)),
            sharing: around.config.shared.as_ref().map(|shared| shared.rule).unwrap_or_default(),
        }
    }

    fn known(&self, around: &Around<'_>) -> Known {
        Known {
            taken_count: self.course.taken_count,
            unshared_count: self.unshared_count,
            has_durable: around.tiers.durable.is_some(),
            memory_wear_factor: self.memory_wear_factor,
        }
    }

    /// What this rank tells the others before a decision.
    fn told(&self, around: &Around<'_>, now_s: f64, drive: drive::DriveFacts) -> Gathered {
        let granted_share = drive::granted_share(&around.config.policy);
        let rank = around.ranks.rank();
        let facts = self.facts(around, now_s, drive);
        let mut told =
            facts.told(rank, around.nodes.of_rank(rank), around.nodes.is_first_at(Tier::Durable), granted_share);
        let is_running = |target: &Option<Target>| {
            target.as_ref().and_then(|target| target.drain.as_ref()).is_some_and(|drain| drain.is_running())
        };
        for (flag, is_set) in [
            (flag::WRITES_DURABLE, is_running(&around.tiers.durable)),
            (flag::WRITES_SHARED, is_running(&around.tiers.shared)),
            (flag::TOLD_TO_END, self.ending.is_told()),
        ] {
            told.flags |= if is_set { flag } else { 0 };
        }
        told
    }

    /// What the next checkpoint needs in each tier of this rank, and what is free there; another rank may be the one without
    /// room.
    pub fn room_said(&self, around: &Around<'_>) -> String {
        let facts = self.facts(around, 0.0, drive::DriveFacts::default());
        let said = |directory: &Path, needed_bytes: u64, free_bytes: Option<u64>| {
            let free = free_bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string());
            let needed = match needed_bytes {
                u64::MAX => "more than there can be".to_owned(),
                bytes => format!("{bytes} bytes"),
            };
            let place = directory.display();
            match free_bytes.is_some_and(|free_bytes| needed_bytes <= free_bytes) {
                true => format!("{place} on rank {} has room for the {needed} that are needed", around.ranks.rank()),
                false => format!("make room in {place}: {needed} are needed, {free} bytes are free"),
            }
        };
        let memory = around.tiers.memory.as_ref().map(|memory| match memory.held() {
            Some(why) => format!("{}: no slot can take another checkpoint: {why}", memory.directory().display()),
            None => said(memory.directory(), facts.memory_needed_bytes, Some(facts.memory_available_bytes)),
        });
        let durable =
            around.tiers.durable.as_ref().map(|durable| {
                said(durable.tier.directory(), facts.durable_needed_bytes, facts.durable_available_bytes)
            });
        memory.into_iter().chain(durable).collect::<Vec<_>>().join("; ")
    }

    /// Why the durable tier takes none of this rank, and what can be done.
    pub fn durable_room_said(&self, around: &Around<'_>) -> Option<String> {
        let durable = around.tiers.durable.as_ref()?;
        let facts = self.facts(around, 0.0, drive::DriveFacts::default());
        let (place, needed) = (durable.tier.directory().display(), facts.durable_needed_bytes);
        let free = match facts.durable_available_bytes {
            Some(free) if free < needed => free,
            Some(_) => {
                return Some(format!(
                    "{place} has room on rank {}; another rank's tier is full, or cannot be written to",
                    around.ranks.rank()
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

    fn facts(&self, around: &Around<'_>, now_s: f64, drive: drive::DriveFacts) -> Facts {
        let payload_bytes = around.regions.bytes() + around.files.bytes();
        let room = around.tiers.memory.as_ref().and_then(|memory| {
            let geometry = around.config.geometry(payload_bytes).ok()?;
            memory.room(&geometry, Path::new("/")).ok()
        });
        let room = room.unwrap_or(MemorySpace { needed_bytes: u64::MAX, available_bytes: 0 });
        let bytes_for = |target: &Target| target.tier.bytes_for(payload_bytes).unwrap_or(u64::MAX);
        let small_bytes = tier::small_bytes(around.regions.names(), around.files.names());
        let room_for = |target: &Target| bytes_for(target).saturating_add(small_bytes);
        // Of all ranks, as far as one knows: the others' parts are about as long.
        let all_bytes = |target: &Target| room_for(target).saturating_mul(u64::from(around.ranks.size()));
        let durable = around.tiers.durable.as_ref();
        Facts {
            host: self.host.clone(),
            now_s,
            checkpoint_s: self.course.checkpoint_s,
            size_bytes: durable.map_or(payload_bytes, bytes_for),
            durable_needed_bytes: durable.map_or(0, room_for),
            durable_bytes: durable.map_or(0, |durable| durable.copies.bytes),
            memory_needed_bytes: room.needed_bytes,
            memory_available_bytes: room.available_bytes,
            has_memory: around.tiers.memory.is_some(),
            durable_available_bytes: durable.and_then(|durable| durable.free_bytes(all_bytes(durable))),
            is_durable_shared: durable.is_some_and(|durable| durable.kind == Tier::Shared),
            shared: around.tiers.shared.as_ref().map(|shared| SharedFacts {
                needed_bytes: room_for(shared),
                available_bytes: match shared.rest() {
                    None => shared.free_bytes(all_bytes(shared)).unwrap_or(0),
                    Some(_) => 0,
                },
                drain_s: shared.copies.drain_s(),
                is_draining: shared.drain.is_some() || around.tiers.to_share.is_some(),
            }),
            memory_cost_s: self.course.memory_cost_s(),
            durable_extra_s: self.course.durable_extra_s(),
            drain_loss_s: self.course.drain_loss_s(),
            durable_alone_s: self.course.durable_alone_s(),
            drain_s: durable.map_or(0.0, |durable| durable.copies.drain_s()),
            is_draining: durable.is_some_and(|durable| durable.drain.is_some()),
            durable_rest: durable.and_then(Target::rest).unwrap_or_default(),
            memory_suspect: facts::memory_suspect(&around.config.health_file),
            drive,
        }
    }
}
