//! What a job wants of its checkpoints, and how it is said in words: `memory=/dev/shm`.

use crate::controller::{Endurance, Fixed, Paper, PaperRules, Policy, Priority, Shared, Surefoot, YEAR_S};
use crate::image::{Geometry, Protection};
use crate::tier::DurableOptions;
use crate::{Disk, Error, Storage};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use surefoot_model::DriveReport;

/// The memory tier.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// A directory on a memory file system.
    pub directory: PathBuf,
    /// Slots of each rank. Two keep the newest checkpoint while the next is written; a third lets one be on its way to
    /// the durable tier meanwhile.
    pub slots: usize,
    /// What protects a checkpoint in memory.
    pub protection: Protection,
    /// Threads of a rank that copy, 1 to 16; `None` for its share of the cores on which it may run, up to 4. All ranks
    /// are in the call then, so nobody else needs these cores.
    pub threads: Option<usize>,
    /// The most bytes of a rank's slots that are made before a save needs them, 0 for none; `None` for as many as leave
    /// at least as much memory as they take. That much is always left.
    pub ahead_bytes_max: Option<u64>,
}

impl MemoryConfig {
    /// Makes the directory where nobody said which one; any other must exist.
    ///
    /// # Errors
    /// [`Error::Storage`] when it cannot be made, or another user has made it.
    pub(crate) fn make_default(&self) -> Result<(), Error> {
        let path = memory_default();
        if self.directory != path {
            return Ok(());
        }
        match Disk.create_directory(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::storage("create", &path)(error))
            }
            _ => Disk.expect_own_directory(&path).map_err(Error::storage("use (set memory to another)", &path)),
        }
    }
}

/// The memory of jobs of which nothing else is said: a directory for each user, so that jobs of one name do not meet.
pub fn memory_default() -> PathBuf {
    // SAFETY: it only reads a number.
    memory_of(unsafe { libc::geteuid() })
}

/// As [`memory_default`], of this user.
pub fn memory_of(user: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/surefoot-{user}"))
}

/// What a job does that was marked as completed, see [`crate::Checkpointer::complete`], and is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterCompletion {
    /// It begins anew.
    #[default]
    Anew,
    /// It goes on from its last checkpoint, and the mark is taken away.
    Continue,
}

/// The durable tier.
#[derive(Debug, Clone)]
pub struct DurableConfig {
    /// A directory on the SSD.
    pub directory: PathBuf,
    /// How it writes.
    pub options: DurableOptions,
    /// What the user says of its drive; the rest is read from [`Config::drive_file`].
    pub endurance: Endurance,
}

/// The shared directory.
#[derive(Debug, Clone)]
pub struct SharedConfig {
    /// A directory that all nodes see, such as one of a parallel file system.
    pub directory: PathBuf,
    /// How it is written to.
    pub options: DurableOptions,
    /// How often. Without an SSD this directory takes its place, and the policy decides; the bound on age holds too.
    pub rule: Shared,
}

/// Parity between ranks, instead of a partner's whole copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityConfig {
    /// The most ranks of a group that give data to a stripe, 1 to 16; a group has that many and `parity` more, or fewer.
    pub data: u32,
    /// Ranks of a group that may be lost, 1 to 3.
    pub parity: u32,
}

impl ParityConfig {
    /// What `data` may be.
    pub const DATA: RangeInclusive<u32> = 1..=16;
    /// What `parity` may be.
    pub const PARITY: RangeInclusive<u32> = 1..=3;
}

/// Settings of a job; the same on all ranks.
#[derive(Debug, Clone)]
pub struct Config {
    /// The job's name, which becomes a directory in each tier.
    pub job: String,
    /// The memory tier; at least one tier is needed.
    pub memory: Option<MemoryConfig>,
    /// The durable tier.
    pub durable: Option<DurableConfig>,
    /// The third tier, which survives the loss of a node.
    pub shared: Option<SharedConfig>,
    /// Whether each rank's checkpoint in memory is also kept by another rank, on another node where there is one.
    pub partner: bool,
    /// Whether ranks keep parity of each other's checkpoints in memory; not together with `partner`.
    pub parity: Option<ParityConfig>,
    /// What decides where a checkpoint goes.
    pub policy: Policy,
    /// What it does when it was completed before.
    pub after_completion: AfterCompletion,
    /// Whether SIGTERM asks for a last checkpoint instead of ending the process; see
    /// [`crate::Checkpointer::is_told_to_end`].
    pub sigterm: bool,
    /// The host's health, as the daemon publishes it; no file says nothing.
    pub health_file: PathBuf,
    /// How worn the host's drives are, as `surefoot checkpoint drive --write` publishes it; `None` reads nothing.
    pub drive_file: Option<PathBuf>,
}

impl Config {
    /// The directories of the tiers that are configured.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        let memory = self.memory.iter().map(|memory| &memory.directory);
        let durable = self.durable.iter().map(|durable| &durable.directory);
        memory.chain(durable).chain(self.shared.iter().map(|shared| &shared.directory))
    }

    /// How an image of so many bytes is laid out and protected.
    pub(crate) fn geometry(&self, payload_bytes: u64) -> Result<Geometry, Error> {
        Ok(Geometry::new(payload_bytes, self.protection())?)
    }

    /// What protects a checkpoint's payload.
    pub(crate) fn protection(&self) -> Protection {
        self.memory.as_ref().map_or(Protection::Checked, |memory| memory.protection)
    }

    /// A job with both tiers and the default policy.
    pub fn new(job: impl Into<String>, memory: impl Into<PathBuf>, durable: Option<PathBuf>) -> Self {
        Config {
            job: job.into(),
            memory: Some(MemoryConfig {
                directory: memory.into(),
                slots: if durable.is_some() { 3 } else { 2 },
                protection: Protection::Shard,
                threads: None,
                ahead_bytes_max: None,
            }),
            durable: durable.map(|directory| DurableConfig {
                directory,
                options: DurableOptions::default(),
                endurance: Endurance::default(),
            }),
            shared: None,
            partner: false,
            parity: None,
            policy: Policy::Surefoot(Surefoot::default()),
            after_completion: AfterCompletion::default(),
            sigterm: false,
            health_file: PathBuf::from(surefoot_model::Health::FILE),
            drive_file: Some(PathBuf::from(DriveReport::FILE)),
        }
    }
}

/// What can be said in words, and what it means; the list for help texts.
pub const SETTINGS: &[(&str, &str)] = &[
    (
        "memory",
        "directory of the memory tier, such as /dev/shm; `default` for /dev/shm/surefoot-UID; `none` for no such tier",
    ),
    ("memory.slots", "checkpoints of a rank that memory has room for, 2 to 16"),
    ("memory.protection", "shard, chip or checked"),
    ("memory.threads", "threads of a rank that copy, 1 to 16; auto for its share of the cores, up to 4"),
    (
        "memory.ahead_bytes",
        "most bytes of a rank's slots that are made before a save needs them, 0 for none; auto for as many as leave at \
         least as much memory as they take",
    ),
    ("partner", "yes or no: whether another rank keeps a copy in its memory, too"),
    (
        "parity",
        "K+M, such as 4+1: of K+M ranks that keep parity of each other in memory M may be lost, K 1 to 16 and M 1 to 3; or `none`",
    ),
    ("durable", "directory on the SSD; `none` for no such tier"),
    ("durable.keep", "complete checkpoints that are kept there, at least 1"),
    ("durable.queue_depth", "writes under way at once, 1 to 64"),
    ("durable.protection", "shard or checked"),
    ("durable.limit_bytes_per_s", "most bytes that a rank writes per second, such as 250000000"),
    ("durable.allow_memory", ALLOW_MEMORY),
    ("shared", "directory that all nodes see, as a third tier; `none` for no such tier"),
    ("shared.keep", "complete checkpoints that are kept there, at least 1"),
    ("shared.queue_depth", "writes under way at once, 1 to 64"),
    ("shared.protection", "shard or checked"),
    ("shared.limit_bytes_per_s", "most bytes that a rank writes per second, such as 250000000"),
    ("shared.allow_memory", ALLOW_MEMORY),
    ("shared.staleness_max_s", "how old the copy there may get, seconds, more than 0"),
    ("shared.every", "copy every Nth checkpoint that goes to the SSD, regardless of age; `none`: by age alone"),
    ("endurance.rated_bytes", "bytes that the drive is rated for, such as 600e12"),
    ("endurance.written_bytes", "bytes that were written to it so far, such as 35e12"),
    ("endurance.remaining_years", "years until the end of its planned life, such as 3.5"),
    ("endurance.wa_factor", "write amplification here over that of the workload that its rating is for"),
    (
        "policy",
        "surefoot, paper, paper-performance, paper-lifetime, memory, durable, never, every:N for memory and every Nth on the SSD \
         as well, or paper-every:N for every Nth on the SSD alone",
    ),
    ("memory_mtbf_s", "seconds between failures that memory survives, more than 0"),
    ("durable_mtbf_s", "seconds between failures that only the SSD survives, more than 0"),
    ("staleness_max_s", "how old the durable copy may get, seconds, more than 0"),
    ("priority", "staleness or endurance: which bound wins when the drive cannot keep both"),
    ("after_completion", "anew or continue: whether the next run of a completed job starts over or goes on"),
    ("sigterm", "checkpoint or leave: whether SIGTERM asks for a last checkpoint; else it is left to the program"),
    ("health_file", "where the host's health is published"),
    ("drive_file", "where the wear of the host's drives is published; `none` to read nothing"),
];

/// What `allow_memory` of a durable tier means.
const ALLOW_MEMORY: &str = "yes or no: whether the directory may be in memory (tmpfs, ramfs, a RAM disk), for tests; its copies are \
                            then reported as not durable";

/// Settings whose value is an absolute path.
const PATHS: [&str; 5] = ["memory", "durable", "shared", "health_file", "drive_file"];

/// Settings that only the policy `surefoot` has.
const OF_SUREFOOT: [&str; 4] = ["memory_mtbf_s", "durable_mtbf_s", "staleness_max_s", "priority"];

impl Config {
    /// Refuses redundancy that contradicts itself.
    pub(crate) fn check_redundancy(&self) -> Result<(), Error> {
        let Some(ParityConfig { data, parity }) = self.parity else { return Ok(()) };
        let refuse = |why: String| Err(Error::Option { option: "parity", why });
        if self.partner {
            return refuse("a partner keeps a whole copy already: ask for one of the two".into());
        }
        if !ParityConfig::DATA.contains(&data) || !ParityConfig::PARITY.contains(&parity) {
            return refuse(format!("{data}+{parity} is not possible: 1 to 16 ranks give data, and 1 to 3 may be lost"));
        }
        match self.memory {
            Some(_) => Ok(()),
            None => refuse("it protects checkpoints in memory, and no memory tier is configured".into()),
        }
    }

    /// Refuses a policy that sends checkpoints to a tier that the job does not have.
    pub(crate) fn check_policy(&self) -> Result<(), Error> {
        let (uses_memory, uses_durable) = match self.policy {
            Policy::Surefoot(_) | Policy::Fixed(Fixed::Never) => (false, false),
            Policy::Fixed(Fixed::Memory) => (true, false),
            Policy::Fixed(Fixed::Durable) => (false, true),
            Policy::Paper(_) | Policy::Fixed(Fixed::EveryNth(_) | Fixed::PaperNth(_)) => (true, true),
        };
        let has_durable = self.durable.is_some() || self.shared.is_some();
        let why = match () {
            () if uses_durable && !has_durable => {
                "writes checkpoints to a durable tier, and none is configured: set durable to a directory on an SSD, or shared \
                 to one that all nodes see, or set policy to memory"
            }
            () if uses_memory && self.memory.is_none() => {
                "keeps checkpoints in memory, and no memory tier is configured: set memory to a directory on tmpfs, or set \
                 policy to surefoot or durable"
            }
            () => return Ok(()),
        };
        Err(Error::Option { option: "policy", why: format!("{} {why}", self.policy.word()) })
    }

    /// Changes one setting; [`SETTINGS`] are the names.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that there is not, or a value that it cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some(&(known, meaning)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
            let instead = crate::settings::instead_of(name, str::to_owned);
            let why = format!("there is no setting {name:?}; {instead}");
            return Err(Error::Option { option: "setting", why });
        };
        let refuse = |why: String| Error::Option { option: known, why };
        self.expect_settable(known).map_err(refuse)?;
        let refused = || match PATHS.contains(&known) {
            true => refuse(format!("{value:?} is not valid: the path must be absolute, such as /ckpt/a ({meaning})")),
            false => refuse(format!("{value:?} is not valid: {meaning}")),
        };
        if known == "policy" {
            return self.set_policy(policy(value).ok_or_else(refused)?).map_err(|why| refuse(format!("{value} {why}")));
        }
        match known.split_once('.') {
            Some(("memory", part)) => self.set_memory(part, value),
            Some(("durable", part)) => {
                self.durable.as_mut().and_then(|found| set_target(&mut found.options, part, value))
            }
            Some(("shared", part)) => self.set_shared(part, value),
            Some(("endurance", part)) => self.set_endurance(part, value),
            _ => self.set_plain(known, value),
        }
        .ok_or_else(refused)
    }

    /// Says what has to be set first, where a setting has nothing yet that it could be one of.
    fn expect_settable(&self, name: &str) -> Result<(), String> {
        let first = |tier: &str, is_set: bool| match is_set {
            true => Ok(()),
            false => Err(format!("no {tier} tier is set: set `{tier}` to a directory, too")),
        };
        match name.split_once('.') {
            Some(("memory", _)) => first("memory", self.memory.is_some()),
            Some(("durable" | "endurance", _)) => first("durable", self.durable.is_some()),
            Some(("shared", _)) => first("shared", self.shared.is_some()),
            _ if !OF_SUREFOOT.contains(&name) || matches!(self.policy, Policy::Surefoot(_)) => Ok(()),
            _ => {
                Err(format!("the policy {} has no such setting: it is one of the policy surefoot", self.policy.word()))
            }
        }
    }

    /// Changes the policy. What was set of it before stays, in whichever order it is said.
    fn set_policy(&mut self, wished: Policy) -> Result<(), String> {
        match (&self.policy, wished) {
            (Policy::Surefoot(_), Policy::Surefoot(_)) => Ok(()),
            (Policy::Surefoot(before), _) if *before != Surefoot::default() => Err(format!(
                "has none of {}, and one of these was set before: leave one of the two out",
                OF_SUREFOOT.join(", ")
            )),
            (_, wished) => {
                self.policy = wished;
                Ok(())
            }
        }
    }

    fn set_plain(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "memory" if value == "none" => self.memory = None,
            "memory" => {
                let directory = if value == "default" { memory_default() } else { directory(value)? };
                match &mut self.memory {
                    Some(memory) => memory.directory = directory,
                    None => self.memory = Config::new("", directory, None).memory,
                }
            }
            "durable" if value == "none" => self.durable = None,
            "durable" => {
                let directory = directory(value)?;
                match &mut self.durable {
                    Some(durable) => durable.directory = directory,
                    None => {
                        self.durable = Config::new("", "", Some(directory)).durable;
                        if let Some(memory) = &mut self.memory {
                            memory.slots = memory.slots.max(3);
                        }
                    }
                }
            }
            "shared" if value == "none" => self.shared = None,
            "shared" => {
                let directory = directory(value)?;
                match &mut self.shared {
                    Some(shared) => shared.directory = directory,
                    None => {
                        let (options, rule) = (DurableOptions::default(), Shared::default());
                        self.shared = Some(SharedConfig { directory, options, rule });
                        if let Some(memory) = &mut self.memory {
                            memory.slots = memory.slots.max(3);
                        }
                    }
                }
            }
            "partner" => self.partner = yes(value)?,
            "parity" if value == "none" => self.parity = None,
            "parity" => {
                let (data, parity) = value.split_once('+')?;
                let data = data.parse().ok().filter(|data| ParityConfig::DATA.contains(data))?;
                let parity = parity.parse().ok().filter(|parity| ParityConfig::PARITY.contains(parity))?;
                self.parity = Some(ParityConfig { data, parity });
            }
            "after_completion" => {
                self.after_completion = match value {
                    "anew" => AfterCompletion::Anew,
                    "continue" => AfterCompletion::Continue,
                    _ => return None,
                }
            }
            "sigterm" => self.sigterm = ["leave", "checkpoint"].iter().position(|word| *word == value)? == 1,
            "health_file" => self.health_file = directory(value)?,
            "drive_file" if value == "none" => self.drive_file = None,
            "drive_file" => self.drive_file = Some(directory(value)?),
            _ => {
                let Policy::Surefoot(surefoot) = &mut self.policy else { return None };
                match name {
                    "memory_mtbf_s" => surefoot.soft_failures_per_s = 1.0 / positive(value)?,
                    "durable_mtbf_s" => surefoot.hard_failures_per_s = 1.0 / positive(value)?,
                    "staleness_max_s" => surefoot.staleness_max_s = positive(value)?,
                    "priority" => surefoot.priority = priority(value)?,
                    _ => return None,
                }
            }
        }
        Some(())
    }

    fn set_memory(&mut self, part: &str, value: &str) -> Option<()> {
        let memory = self.memory.as_mut()?;
        match part {
            "slots" => memory.slots = value.parse().ok().filter(|slots| (2..=16).contains(slots))?,
            "threads" if value == "auto" => memory.threads = None,
            "threads" => memory.threads = Some(value.parse().ok().filter(|threads| (1..=16).contains(threads))?),
            "ahead_bytes" if value == "auto" => memory.ahead_bytes_max = None,
            "ahead_bytes" => memory.ahead_bytes_max = Some(value.parse().ok()?),
            _ => memory.protection = protection(value)?,
        }
        Some(())
    }

    fn set_shared(&mut self, part: &str, value: &str) -> Option<()> {
        let shared = self.shared.as_mut()?;
        match part {
            "staleness_max_s" => shared.rule.staleness_max_s = positive(value)?,
            "every" if value == "none" => shared.rule.every = None,
            "every" => shared.rule.every = Some(value.parse().ok().filter(|&every| every > 0)?),
            _ => set_target(&mut shared.options, part, value)?,
        }
        Some(())
    }

    fn set_endurance(&mut self, part: &str, value: &str) -> Option<()> {
        let number = match part {
            "written_bytes" => value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?,
            _ => positive(value)?,
        };
        let endurance = &mut self.durable.as_mut()?.endurance;
        match part {
            "rated_bytes" => endurance.rated_bytes = Some(number),
            "written_bytes" => endurance.written_bytes = Some(number),
            "remaining_years" => endurance.remaining_s = Some(number * YEAR_S),
            _ => endurance.amplification_factor = Some(number),
        }
        Some(())
    }
}

fn set_target(options: &mut DurableOptions, part: &str, value: &str) -> Option<()> {
    match part {
        "keep" => options.keep = value.parse().ok().filter(|&keep| keep > 0)?,
        "queue_depth" => options.queue_depth = value.parse().ok().filter(|depth| (1..=64).contains(depth))?,
        "protection" => options.protection = protection(value).filter(|&found| found != Protection::Chip)?,
        "allow_memory" => options.allow_memory = yes(value)?,
        _ => options.limit_bytes_per_s = Some(value.parse().ok().filter(|&limit| limit > 0)?),
    }
    Some(())
}

fn yes(value: &str) -> Option<bool> {
    ["no", "yes"].iter().position(|word| *word == value).map(|position| position == 1)
}

fn directory(value: &str) -> Option<PathBuf> {
    let path = PathBuf::from(value);
    path.is_absolute().then_some(path)
}

fn positive(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

fn protection(value: &str) -> Option<Protection> {
    [Protection::Shard, Protection::Chip, Protection::Checked].into_iter().find(|known| known.label() == value)
}

fn priority(value: &str) -> Option<Priority> {
    match value {
        "staleness" => Some(Priority::Staleness),
        "endurance" => Some(Priority::Endurance),
        _ => None,
    }
}

fn policy(value: &str) -> Option<Policy> {
    let paper = |performance, size| {
        let rules = PaperRules { lifetime: true, performance, size };
        Policy::Paper(Paper { rules, ..Paper::default() })
    };
    Some(match value {
        "surefoot" => Policy::Surefoot(Surefoot::default()),
        "paper" => paper(true, true),
        "paper-performance" => paper(true, false),
        "paper-lifetime" => paper(false, true),
        "memory" => Policy::Fixed(Fixed::Memory),
        "durable" => Policy::Fixed(Fixed::Durable),
        "never" => Policy::Fixed(Fixed::Never),
        _ => {
            let (name, number) = value.split_once(':')?;
            // Not what `parse` takes besides: "+0" and "+5" are no numbers here.
            let number = number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)?;
            let number = number.parse().ok().filter(|&number| number > 0)?;
            match name {
                "every" => Policy::Fixed(Fixed::EveryNth(number)),
                "paper-every" => Policy::Fixed(Fixed::PaperNth(number)),
                _ => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_policy_has_one_word_everywhere() {
        use crate::controller::POLICIES;
        use crate::simulate::Kind;
        let meaning = SETTINGS.iter().find(|(name, _)| *name == "policy").unwrap().1;
        for (word, _) in POLICIES {
            let said = word.replace('N', "10");
            assert_eq!(policy(&said).map(|policy| policy.word()), Some(said), "{word}");
            assert!(meaning.contains(word), "{word}");
        }
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::SurefootWhenDue) {
            assert!(policy(kind.name()).is_some(), "{}", kind.name());
            assert_eq!(kind.name().parse::<Kind>().ok(), Some(kind));
        }
        assert_eq!("every-10th".parse::<Kind>().ok(), Some(Kind::EveryTenth), "the names of before");
    }

    #[test]
    fn every_setting_can_be_said_and_nonsense_is_refused_with_its_meaning() {
        let good = [
            ("memory", "/dev/shm"),
            ("memory.slots", "4"),
            ("memory.threads", "2"),
            ("memory.ahead_bytes", "4000000000"),
            ("memory.protection", "checked"),
            ("partner", "yes"),
            ("parity", "4+1"),
            ("durable", "/ssd"),
            ("durable.keep", "3"),
            ("durable.queue_depth", "8"),
            ("durable.protection", "shard"),
            ("durable.limit_bytes_per_s", "250000000"),
            ("durable.allow_memory", "yes"),
            ("shared", "/pfs"),
            ("shared.keep", "4"),
            ("shared.queue_depth", "2"),
            ("shared.protection", "shard"),
            ("shared.limit_bytes_per_s", "100000000"),
            ("shared.allow_memory", "no"),
            ("shared.staleness_max_s", "7200"),
            ("shared.every", "5"),
            ("endurance.rated_bytes", "600e12"),
            ("endurance.written_bytes", "0"),
            ("endurance.remaining_years", "3.5"),
            ("endurance.wa_factor", "2.5"),
            ("policy", "surefoot"),
            ("memory_mtbf_s", "3600"),
            ("durable_mtbf_s", "86400"),
            ("staleness_max_s", "600"),
            ("priority", "endurance"),
            ("after_completion", "continue"),
            ("sigterm", "checkpoint"),
            ("health_file", "/run/surefoot/health.json"),
            ("drive_file", "/run/surefoot/drives.json"),
        ];
        assert_eq!(good.len(), SETTINGS.len());
        let mut config = Config::new("job", "/tmp", None);
        for (name, value) in good {
            config.set(name, value).unwrap();
            let nonsense = config.clone().set(name, "\u{1}-nonsense").unwrap_err().to_string();
            let meaning = SETTINGS.iter().find(|(known, _)| *known == name).unwrap().1;
            assert!(nonsense.contains(meaning), "{nonsense}");
        }
        let durable = config.durable.as_ref().unwrap();
        let endurance = Endurance {
            rated_bytes: Some(600e12),
            written_bytes: Some(0.0),
            remaining_s: Some(3.5 * YEAR_S),
            amplification_factor: Some(2.5),
        };
        assert_eq!((durable.options.keep, durable.endurance), (3, endurance));
        assert_eq!(config.drive_file.as_deref(), Some(std::path::Path::new(DriveReport::FILE)));
        config.set("drive_file", "none").unwrap();
        assert_eq!(config.drive_file, None);
        assert_eq!(config.memory.as_ref().unwrap().slots, 4);
        let shared = config.shared.as_ref().unwrap();
        assert_eq!((shared.options.keep, shared.rule), (4, Shared { staleness_max_s: 7200.0, every: Some(5) }));
        config.set("shared.every", "none").unwrap();
        assert_eq!(config.shared.as_ref().unwrap().rule.every, None);
        config.set("shared", "none").unwrap();
        assert!(config.shared.is_none() && config.set("shared.keep", "3").is_err());
        let mut memory_only = Config::new("job", "/tmp", None);
        for (name, tier) in
            [("durable.keep", "durable"), ("endurance.rated_bytes", "durable"), ("shared.every", "shared")]
        {
            let why = memory_only.set(name, "3").unwrap_err().to_string();
            assert!(why.contains(&format!("no {tier} tier is set:")) && !why.contains("not possible"), "{why}");
        }
        config.set("policy", "surefoot").unwrap();
        let Policy::Surefoot(kept) = &config.policy else { panic!("{:?}", config.policy) };
        assert_eq!((kept.staleness_max_s, kept.priority), (600.0, Priority::Endurance), "the order does not matter");
        let both = config.set("policy", "memory").unwrap_err().to_string();
        assert!(both.contains("memory has none of") && both.contains("staleness_max_s"), "{both}");
        config.policy = Policy::Surefoot(Surefoot::default());
        for policy in ["paper", "paper-lifetime", "memory", "durable", "never", "paper-every:10", "every:10"] {
            config.set("policy", policy).unwrap();
            let why = config.set("staleness_max_s", "600").unwrap_err().to_string();
            assert!(why.contains(&format!("the policy {policy} has no such setting")), "{why}");
        }
        assert_eq!(config.policy, Policy::Fixed(Fixed::EveryNth(10)));
        assert!(config.set("staleness_max_s", "5").is_err(), "another policy has no such setting");
        config.set("memory", "none").unwrap();
        assert!(config.memory.is_none() && config.set("memory.slots", "3").is_err());
        assert!(config.set("colour", "red").unwrap_err().to_string().contains("checkpoint settings"));
    }
}
