//! The paper's microbenchmark: what is run. No process is started here.
//!
//! MEMSYS'16 (Abeyratne et al., section 4): 8 ranks on a node compute for 5 s on buffers of 100 to 1,000 MB each, then save
//! them, a hundred times; the SSD takes 250 MB/s and is rated for 14.6 PB in five years. All of it can be scaled down: bytes
//! and seconds by one factor, so that bytes per second, and shares of the time, stay what they are.

use std::path::Path;
use surefoot_checkpoint::config;
use surefoot_checkpoint::controller::{Drive, Paper, YEAR_S};
use surefoot_checkpoint::simulate::{self, Kind};

/// Ranks of a node in the paper. Its sizes are of one of them; here fewer ranks may share the same bytes.
pub const PAPER_RANKS: u32 = 8;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// Iterations of work and checkpoint.
    pub iterations: u64,
    /// Seconds of work in each, at full size.
    pub compute_s: f64,
    /// By what bytes and seconds are scaled, over 0 and up to 1.
    pub scale: f64,
    /// Ranks, all on this node.
    pub ranks: u32,
    /// The most bytes per second that the node writes to the SSD.
    pub ssd_bytes_per_s: f64,
    /// Bytes that the drive is rated for in five years.
    pub rated_bytes: f64,
    /// How old the durable copy may get, seconds at full size; for the policies named *surefoot*.
    pub staleness_max_s: f64,
    /// The largest checkpoint of a node of which memory holds two, bytes at full size; for the policy with the size rule.
    pub memory_limit_bytes: f64,
}

impl Default for Setup {
    fn default() -> Self {
        let model = simulate::Settings::default();
        Setup {
            iterations: 100,
            compute_s: model.compute_s,
            scale: 1.0,
            ranks: PAPER_RANKS,
            ssd_bytes_per_s: model.durable_bytes_per_s,
            rated_bytes: Paper::default().drive.rated_bytes,
            staleness_max_s: 300.0,
            memory_limit_bytes: model.memory_limit_bytes,
        }
    }
}

/// Who saves, and by which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saver {
    /// Nobody, or the library, as the controller decides.
    Library(Kind),
    /// A write of the same bytes to a fresh file in memory, without any code, as tools without a ring of slots do.
    Plain,
}

/// Where the tiers of a run are.
#[derive(Debug, Clone, Copy)]
pub struct Directories<'a> {
    /// Of the memory tier, and of plain files.
    pub memory: &'a Path,
    /// Of the durable tier.
    pub durable: &'a Path,
}

impl Saver {
    /// All, in the order of tables.
    pub fn all() -> Vec<Saver> {
        let mut all: Vec<Saver> = Kind::ALL.into_iter().map(Saver::Library).collect();
        all.push(Saver::Plain);
        all
    }

    /// Its name in options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Saver::Library(kind) => kind.name(),
            Saver::Plain => "plain",
        }
    }

    /// The word for it in the program's arguments.
    fn mode(self) -> &'static str {
        match self {
            Saver::Library(Kind::None) => "none",
            Saver::Library(Kind::SurefootWhenDue) => "ask",
            Saver::Library(_) => "save",
            Saver::Plain => "plain",
        }
    }

    /// The policy as a setting says it; `None` where the library does not save.
    fn policy(self) -> Option<&'static str> {
        let Saver::Library(kind) = self else { return None };
        match kind {
            Kind::None => None,
            Kind::Memory => Some("memory"),
            Kind::Durable => Some("durable"),
            Kind::EveryTenth => Some("paper-every:10"),
            Kind::Lifetime => Some("paper-lifetime"),
            Kind::LifetimePerformance => Some("paper-performance"),
            Kind::SizeLimited => Some("paper"),
            Kind::Surefoot | Kind::SurefootWhenDue => Some("surefoot"),
        }
    }

    /// Whether it is one of ours: protected by the code, the SSD in the background.
    pub fn is_ours(self) -> bool {
        matches!(self, Saver::Library(Kind::Surefoot | Kind::SurefootWhenDue))
    }

    /// How many checkpoints of a rank memory has room for.
    fn slots(self) -> u32 {
        if self.is_ours() { 3 } else { 2 }
    }
}

impl std::str::FromStr for Saver {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Saver::all().into_iter().map(Saver::name).collect();
        let found = Saver::all().into_iter().find(|saver| saver.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a policy; there are {}", names.join(", ")))
    }
}

impl Setup {
    /// Bytes of a checkpoint of the whole node, at full size, where each of the paper's ranks has so many.
    pub fn node_bytes(&self, bytes_per_paper_rank: f64) -> f64 {
        bytes_per_paper_rank * f64::from(PAPER_RANKS)
    }

    /// Bytes of one rank's buffer as it is run.
    pub fn rank_bytes(&self, node_bytes: f64) -> u64 {
        const WORD: u64 = 8;
        let bytes = node_bytes * self.scale / f64::from(self.ranks.max(1));
        ((bytes as u64) / WORD * WORD).max(WORD)
    }

    /// Seconds of work per iteration as they are run.
    pub fn run_compute_s(&self) -> f64 {
        self.compute_s * self.scale
    }

    /// Bytes that memory must have for a run: buffers and slots of all ranks, with parity and some room to spare.
    pub fn memory_needed_bytes(&self, node_bytes: f64, saver: Saver) -> f64 {
        const OF_PARITY_AND_TABLES: f64 = 1.2;
        node_bytes * self.scale * (1.0 + OF_PARITY_AND_TABLES * f64::from(saver.slots()))
    }

    /// Bytes that the durable directory must have for a run: those that are kept, and the next.
    pub fn durable_needed_bytes(&self, node_bytes: f64, saver: Saver) -> f64 {
        const KEPT_AND_NEXT: f64 = 3.1;
        let writes = !matches!(saver, Saver::Plain | Saver::Library(Kind::None | Kind::Memory));
        if writes { node_bytes * self.scale * KEPT_AND_NEXT } else { 0.0 }
    }

    /// The room of the memory file system in which the size rule is run: two checkpoints of the limit, and their tables.
    pub fn limited_memory_bytes(&self) -> u64 {
        const TABLES_AND_MANIFESTS: f64 = 1.01;
        (2.0 * self.memory_limit_bytes * self.scale * TABLES_AND_MANIFESTS) as u64 + (1 << 20)
    }

    /// The arguments of the program.
    pub fn arguments(&self, saver: Saver, node_bytes: f64, directories: Directories<'_>) -> Vec<String> {
        let mut arguments = vec![
            self.rank_bytes(node_bytes).to_string(),
            self.run_compute_s().to_string(),
            self.iterations.to_string(),
            saver.mode().to_owned(),
            directories.memory.display().to_string(),
        ];
        if let Some(policy) = saver.policy() {
            let settings = self.settings(saver, policy, directories);
            debug_assert!(settings.iter().all(|(name, _)| config::SETTINGS.iter().any(|(known, _)| known == name)));
            arguments.extend(settings.into_iter().map(|(name, value)| format!("{name}={value}")));
        }
        arguments
    }

    /// The paper's policies know no code, so theirs are copies with checksums; ours are protected by the code.
    fn settings(&self, saver: Saver, policy: &str, directories: Directories<'_>) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("memory", directories.memory.display().to_string()),
            ("health_file", directories.memory.join("health.json").display().to_string()),
            ("memory.protection", if saver.is_ours() { "shard" } else { "checked" }.to_owned()),
        ];
        if saver != Saver::Library(Kind::Memory) {
            let limit = (self.ssd_bytes_per_s / f64::from(self.ranks.max(1))).max(1.0);
            settings.push(("durable", directories.durable.display().to_string()));
            settings.push(("durable.limit_bytes_per_s", format!("{limit:.0}")));
            settings.push(("endurance.rated_bytes", self.rated_bytes.to_string()));
            // The paper's new drive, whatever this machine has.
            settings.push(("endurance.written_bytes", "0".to_owned()));
            settings.push(("endurance.remaining_years", "5".to_owned()));
            settings.push(("drive_file", "none".to_owned()));
        }
        settings.push(("memory.slots", saver.slots().to_string()));
        settings.push(("policy", policy.to_owned()));
        if saver.is_ours() {
            let ours = surefoot_checkpoint::controller::Surefoot::default();
            let seconds = |at_full_size: f64| (at_full_size * self.scale).to_string();
            settings.push(("memory_mtbf_s", seconds(1.0 / ours.soft_failures_per_s)));
            settings.push(("durable_mtbf_s", seconds(1.0 / ours.hard_failures_per_s)));
            settings.push(("staleness_max_s", seconds(self.staleness_max_s)));
        }
        settings
    }

    /// What the stepped controller gives for the same program, on memory of this speed; `None` for what is no policy.
    /// `protection_factor` is how many times as long as a plain copy a protected one takes.
    pub fn model(
        &self,
        saver: Saver,
        node_bytes: f64,
        memory_bytes_per_s: f64,
        protection_factor: f64,
    ) -> Option<simulate::Run> {
        let Saver::Library(kind) = saver else { return None };
        let five_years_s = 5.0 * YEAR_S;
        let settings = simulate::Settings {
            iterations: self.iterations,
            compute_s: self.compute_s,
            memory_bytes_per_s,
            durable_bytes_per_s: self.ssd_bytes_per_s,
            protection_factor,
            waiting_share: 0.0,
            memory_limit_bytes: self.memory_limit_bytes,
            drive: Drive {
                rated_bytes: self.rated_bytes,
                written_bytes: 0.0,
                remaining_s: five_years_s,
                rated_life_s: five_years_s,
            },
            staleness_max_s: self.staleness_max_s,
            ..simulate::Settings::default()
        };
        Some(simulate::run(kind, node_bytes, &settings))
    }

    /// Seconds that a run will take, by the model: plain files as fast as copies in memory.
    pub fn estimate_s(&self, saver: Saver, node_bytes: f64, memory_bytes_per_s: f64) -> f64 {
        const START_AND_END_S: f64 = 0.7;
        let as_kind = match saver {
            Saver::Plain => Saver::Library(Kind::Memory),
            library => library,
        };
        let slowdown = self.model(as_kind, node_bytes, memory_bytes_per_s, 1.2).map_or(1.0, |run| run.slowdown);
        slowdown * self.run_compute_s() * self.iterations as f64 + START_AND_END_S
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_checkpoint::{Config, Policy};

    #[test]
    fn every_saver_s_settings_are_understood_and_scaled() {
        let setup = Setup { scale: 0.02, ranks: 2, ..Setup::default() };
        let directories = Directories { memory: Path::new("/m"), durable: Path::new("/d") };
        assert_eq!(setup.rank_bytes(setup.node_bytes(100e6)), 8_000_000);
        for saver in Saver::all() {
            let arguments = setup.arguments(saver, 0.8e9, directories);
            assert_eq!(arguments[..3], ["8000000", "0.1", "100"]);
            let mut config = Config::new("paper", "/elsewhere", None);
            for (name, value) in arguments[5..].iter().map(|setting| setting.split_once('=').unwrap()) {
                config.set(name, value).unwrap();
            }
            assert_eq!(saver.name().parse::<Saver>().unwrap(), saver);
            if let (true, Policy::Surefoot(ours)) = (saver.is_ours(), config.policy) {
                assert!((ours.staleness_max_s - 6.0).abs() < 1e-9);
                let durable = config.durable.unwrap();
                assert_eq!(durable.options.limit_bytes_per_s, Some(125_000_000), "of two ranks on a node");
                assert_eq!(config.memory.unwrap().slots, 3);
            } else {
                assert!(!saver.is_ours(), "{saver:?}");
            }
        }
        assert!("moon".parse::<Saver>().unwrap_err().contains("surefoot-when-due"));
    }

    #[test]
    fn the_model_s_first_checkpoint_is_durable_as_a_session_s() {
        // Run for real (bench/results/checkpoints.md), 8 of 300 iterations wrote to the SSD, and one that only asks saved
        // every 156.6 s in the mean. That was when a durable copy counted with the copy in memory that it is written from, and was asked for
        // between those in memory; now it counts as a share of its time on the way at least. On memory about as fast as there.
        let (setup, memory_bytes_per_s) = (Setup::default(), 10e9);
        let model = |kind, node_bytes| setup.model(Saver::Library(kind), node_bytes, memory_bytes_per_s, 1.2).unwrap();
        let sizes = [0.8e9, 4.4e9, 8e9];
        let durable: f64 = sizes.iter().map(|&size| model(Kind::Surefoot, size).durable_share * 100.0).sum();
        assert_eq!(durable.round(), 8.0);
        let asks = sizes.map(|size| model(Kind::SurefootWhenDue, size));
        assert!(asks.iter().all(|run| run.staleness_s.unwrap() <= setup.staleness_max_s), "{asks:?}");
        let interval_s = asks.iter().filter_map(|run| run.interval_s).sum::<f64>() / 3.0;
        assert!((190.0..230.0).contains(&interval_s), "{interval_s}: {asks:?}");
    }

    #[test]
    fn the_estimate_is_the_model_s() {
        let setup = Setup { scale: 0.02, ranks: 2, ..Setup::default() };
        let none = setup.estimate_s(Saver::Library(Kind::None), 8e9, 2.7e9);
        let ssd = setup.estimate_s(Saver::Library(Kind::Durable), 8e9, 2.7e9);
        assert!((10.0..11.0).contains(&none) && (74.0..75.5).contains(&ssd), "{none} {ssd}");
    }
}
