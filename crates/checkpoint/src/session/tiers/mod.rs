//! Where a rank saves to: memory, the SSD, a directory that all nodes see. Each is opened by itself (`open`) and fails by
//! itself; what goes to a durable one goes in the background (`drain`), from memory where it is there (`slots`). A restart
//! looks what is there (`stored`), and whether it is whole (`prove`).

pub mod drain;
mod open;
mod prove;
mod same;
mod slots;
mod stored;
mod target;

pub use open::{Opened, UNSEEN_NUMBERS, Wear, open_to_others};
pub use prove::describe;
pub use stored::{Reached, StoredIn, expect_nothing_unlooked};
pub use target::{Target, Which};

use crate::generation::{Age, GenerationId, Manifest};
use crate::tier::{Memory, SlotId};
use std::path::PathBuf;
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

/// Whose parts are in the tiers.
#[derive(Default)]
struct Own {
    job: String,
    rank: u32,
    ranks: u32,
    /// The job's directory in memory, where that tier is configured.
    memory: Option<PathBuf>,
}

/// The tiers of one rank.
#[derive(Default)]
pub struct Tiers {
    own: Own,
    pub memory: Option<Memory>,
    /// The SSD; where there is none, the shared directory.
    pub durable: Option<Target>,
    /// The shared directory beside an SSD.
    pub shared: Option<Target>,
    /// The generation that the shared directory is to get as soon as the SSD has it, and when it was taken.
    pub to_share: Option<(GenerationId, Instant)>,
}

impl Tiers {
    /// The durable tiers: the SSD, then the shared directory.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.durable.iter().chain(&self.shared)
    }

    pub fn target(&self, which: Which) -> Option<&Target> {
        match which {
            Which::Durable => self.durable.as_ref(),
            Which::Shared => self.shared.as_ref(),
        }
    }

    pub fn target_mut(&mut self, which: Which) -> Option<&mut Target> {
        match which {
            Which::Durable => self.durable.as_mut(),
            Which::Shared => self.shared.as_mut(),
        }
    }

    /// Whether a copy is on its way there.
    pub fn is_on_its_way(&self, which: Which) -> bool {
        self.target(which).is_some_and(|target| target.drain.is_some())
    }

    /// Whether anything that was taken is on its way to another tier.
    pub fn is_writing(&self) -> bool {
        self.targets().any(|target| target.drain.is_some())
    }

    /// Where they are, in words.
    pub fn directories(&self) -> String {
        let memory = self.memory.iter().map(|memory| memory.directory().display().to_string());
        let targets = self.targets().map(|target| target.tier.directory().display().to_string());
        memory.chain(targets).collect::<Vec<_>>().join(" and ")
    }

    /// Those that could not be opened, and why.
    pub fn unopened(&self) -> Vec<String> {
        let memory =
            self.memory.iter().filter_map(|memory| Some(format!("memory cannot be used: {}", memory.fault()?)));
        let targets = self
            .targets()
            .filter_map(|target| Some(format!("{} cannot be used: {}", target.kind.name(), target.tier.fault()?)));
        memory.chain(targets).collect()
    }

    /// The newest run and the highest number of a generation of its own that this rank sees anywhere. What others left on its
    /// node a restart finds, but for what another release wrote into this rank's slots for them.
    pub fn newest_seen(&self, kept_for_others: Vec<Age>) -> Age {
        let durable = self.targets().flat_map(|target| target.tier.generations().unwrap_or_default());
        let left_alone = self.memory.iter().flat_map(Memory::left_alone).filter_map(|(_, other)| other.age);
        let in_memory = self.in_memory().map(|(_, manifest)| manifest.age()).chain(left_alone);
        let ages = in_memory.chain(durable.map(|stored| stored.age())).chain(kept_for_others);
        ages.fold(Age::default(), |seen, age| {
            let number = seen.generation.number.max(age.generation.number);
            Age { epoch: seen.epoch.max(age.epoch), generation: GenerationId { number, nonce: 0 } }
        })
    }

    /// The job's directories in the durable tiers that could be opened.
    pub fn opened_directories(&self) -> impl Iterator<Item = PathBuf> {
        let opened = self.targets().filter(|target| target.tier.fault().is_none());
        opened.map(|target| target.tier.directory().to_owned())
    }

    /// The job's directories that could be opened, where nothing was saved in this session.
    pub fn unused_directories(&self) -> Vec<PathBuf> {
        let memory = self.own.memory.clone().filter(|_| self.memory.as_ref().is_some_and(Memory::is_unused));
        memory.into_iter().chain(self.opened_directories()).collect()
    }

    /// The job's directory in each tier.
    pub fn job_directories(&self) -> Vec<(Tier, PathBuf)> {
        let memory = self.own.memory.iter().map(|directory| (Tier::Memory, directory.clone()));
        memory.chain(self.targets().map(|target| (target.kind, target.tier.directory().to_owned()))).collect()
    }

    /// The command that removes the job from all its tiers.
    pub fn removal(&self) -> String {
        let parts = self.own.job.split('/').count();
        let directories = self.job_directories();
        let bases = directories.iter().filter_map(|(_, directory)| directory.ancestors().nth(parts));
        let named: Vec<String> = bases.map(|base| format!(" --in {}", in_shell(&base.display().to_string()))).collect();
        format!("surefoot checkpoint remove {}{}", in_shell(&self.own.job), named.concat())
    }

    /// What another release wrote on this rank and is left alone, with what can be done. `is_named_here` says of which durable
    /// tiers this rank is to name it.
    pub fn left_alone(&self, is_named_here: impl Fn(Tier) -> bool) -> Vec<String> {
        let in_memory = self.memory.iter().flat_map(Memory::left_alone_said);
        let durable = self.targets().filter(|target| is_named_here(target.kind));
        in_memory.chain(durable.flat_map(|target| target.tier.left_alone_said())).collect()
    }

    /// Ends the writes that are under way, and gives the locks up.
    pub fn close(&mut self) {
        *self = Tiers { own: std::mem::take(&mut self.own), ..Tiers::default() };
    }

    /// What this rank has in memory.
    fn in_memory(&self) -> impl Iterator<Item = (SlotId, &Manifest)> {
        self.memory.iter().flat_map(|memory| memory.manifests())
    }
}

/// A word of a command, quoted where a shell would take it for something else.
fn in_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:+,=@%".contains(&byte);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
