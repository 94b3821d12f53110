//! What the host's files say of its memory at one moment: plain data, judged by nobody yet.
//!
//! # Where it comes from
//! - `/sys/devices/system/edac/mc/mcN`: counts of the kernel's EDAC drivers, per module (`dimmX`), per rank (`rankX`) or, on kernels
//!   before 3.9 and where nothing else is there, per channel of a row of chip selects (`csrowX/chY_ce_count`).
//! - `/sys/devices/system/machinecheck/machinecheckN/umc_K/dram_ecc`: threshold blocks of AMD's memory controllers.
//! - `/sys/firmware/dmi/tables`: what firmware says of the modules in the slots ([`crate::identity::firmware`]).
//!
//! `reset_counters` is never opened: a reset would take the counts from every other reader, too.

mod block;
pub mod driver;
mod edac;
mod facts;
mod file;
mod problem;

pub use block::Block;
pub use driver::Driver;
pub use facts::machine;
pub use problem::Problems;
pub(crate) use problem::reason;

use crate::identity::firmware;
use edac::Plan;
use surefoot_hostfs::{Root, clock};
use surefoot_model::Digits;

/// What a reading can differ in from the one before of the same reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum News {
    /// In anything.
    #[default]
    Anything,
    /// In counts and times; controllers, places and what firmware says are the same, in the same order.
    Counts,
    /// In times alone.
    Times,
}

/// What one look at the files found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// What of it can be new.
    pub news: News,
    /// Which boot of the host this is; `None` where it does not tell.
    pub boot_id: Option<String>,
    /// Seconds since that boot by the clock of the host that was read; `None` where it does not tell.
    pub clock_s: Option<f64>,
    /// The controllers, by number.
    pub controllers: Vec<Controller>,
    /// Threshold blocks, by processor and name.
    pub blocks: Vec<Block>,
    /// The modules that firmware names.
    pub installed: Vec<firmware::Installed>,
    /// Whether the kernel's corrected-errors collector takes errors before EDAC counts them; `None` where that cannot be seen.
    pub is_collected: Option<bool>,
    /// What could not be read.
    pub problems: Problems,
}

/// A memory controller as EDAC shows it. A count that is not there, or cannot be read, is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controller {
    /// Its number.
    pub index: u32,
    /// Its folder's name, such as `mc0`.
    pub id: String,
    /// The driver's name of it.
    pub name: String,
    /// Which driver that is.
    pub driver: Driver,
    /// All corrected errors.
    pub corrected: Option<u64>,
    /// All uncorrected errors.
    pub uncorrected: Option<u64>,
    /// Corrected errors of no known module.
    pub corrected_no_information: Option<u64>,
    /// Uncorrected errors of no known module.
    pub uncorrected_no_information: Option<u64>,
    /// Seconds since its counters were reset, or the driver was loaded.
    pub reset_s: Option<u64>,
    /// The places of modules.
    pub places: Vec<Place>,
    /// Uncorrected errors of rows of chip selects whose channel is not told, by row.
    pub rows: Vec<(u32, Option<u64>)>,
    /// It has more places than are read: what they count is not known, and no total is held against those that are.
    pub is_cut: bool,
}

/// What a place stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaceKind {
    /// A module.
    #[default]
    Dimm,
    /// A rank of a module.
    Rank,
    /// A channel of a row of chip selects.
    RowChannel,
}

/// A place below a controller that has counts of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Its name below the controller, such as `dimm0`, `rank3`, `csrow0/ch1`.
    pub name: String,
    /// What it stands for.
    pub kind: PlaceKind,
    /// Its label; empty where it has none.
    pub label: String,
    /// The layers of its location with their numbers, such as `channel 0 slot 1`.
    pub location: Vec<(String, u32)>,
    /// Its size; 0 where it is not known.
    pub size_bytes: u64,
    /// How its errors are put right, in the kernel's words, such as `S4ECD4ED`; empty where that is not told.
    pub edac_mode: String,
    /// Corrected errors.
    pub corrected: Option<u64>,
    /// Uncorrected errors.
    pub uncorrected: Option<u64>,
}

impl Place {
    /// The number of one of its layers.
    pub fn layer(&self, name: &str) -> Option<u32> {
        self.location.iter().find(|(layer, _)| layer == name).map(|(_, number)| *number)
    }
}

/// What stays the same is read anew after this time: labels are registered, and modules plugged, while the host runs.
const FACTS_NS: u64 = 60_000_000_000;

/// Reads a host again and again. On the running host counters stay open between the readings, and what does not change is
/// read once a minute.
#[derive(Debug)]
pub struct Reader {
    root: Root,
    /// Files of a recorded tree may be replaced by others of the same name.
    keeps_open: bool,
    kept: Option<KeptOpen>,
    /// The newest one.
    reading: Reading,
}

/// What one reading leaves open for the next ones.
#[derive(Debug)]
struct KeptOpen {
    made_ns: u64,
    plan: Plan,
    blocks: block::Plan,
}

impl Reader {
    /// A reader of this host or tree.
    pub fn new(root: Root) -> Self {
        Reader { keeps_open: root.is_host(), root, kept: None, reading: Reading::default() }
    }

    /// The host or tree that it reads.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Reads all counts.
    pub fn read(&mut self) -> &Reading {
        let now_ns = clock::monotonic_ns();
        let young = self.kept.take().filter(|kept| now_ns.saturating_sub(kept.made_ns) < FACTS_NS);
        match young.and_then(|kept| self.read_kept(kept)) {
            Some(kept) => self.kept = Some(kept),
            None => self.read_anew(now_ns),
        }
        &self.reading
    }

    /// The newest reading.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Whether a controller's totals are others than in the newest reading. What cannot be read is no news.
    pub fn has_counted(&self) -> bool {
        let total = |controller: &Controller, name: &str| {
            let path = self.root.sys("devices/system/edac/mc").join(&controller.id).join(name);
            self.root.read(path).ok()?.trim().digits::<u64>()
        };
        let is_news = |now: Option<u64>, before: Option<u64>| now.is_some() && now != before;
        self.reading.controllers.iter().any(|controller| {
            is_news(total(controller, "ce_count"), controller.corrected)
                || is_news(total(controller, "ue_count"), controller.uncorrected)
        })
    }

    /// Brings the counts up to date; `None` where anything of it cannot be read, or there is more: all must be read anew then.
    fn read_kept(&mut self, mut kept: KeptOpen) -> Option<KeptOpen> {
        if !kept.plan.is_current() {
            return None;
        }
        let is_changed = kept.plan.read(&mut self.reading.controllers).ok()?;
        let mut problems = Problems::default();
        let blocks = kept.blocks.read(&mut problems);
        let is_same = !is_changed && blocks == self.reading.blocks;
        self.reading.blocks = blocks;
        self.reading.news = if is_same { News::Times } else { News::Counts };
        // Which boot it is stays the same while this process runs: only the running host is kept open.
        self.reading.clock_s = facts::clock_s(&self.root);
        problems.is_empty().then_some(kept)
    }

    /// Finds out what there is, and reads it.
    fn read_anew(&mut self, now_ns: u64) {
        let mut problems = Problems::default();
        let installed = firmware::read(&self.root, &mut problems);
        let (mut plan, mut controllers) = Plan::of(&self.root, &mut problems);
        let blocks = block::Plan::of(&self.root, &mut problems);
        let is_collected = facts::is_collected(&self.root);
        plan.read_with(&mut controllers, &mut problems);
        self.reading = Reading {
            news: News::Anything,
            boot_id: facts::boot_id(&self.root),
            clock_s: facts::clock_s(&self.root),
            controllers,
            blocks: blocks.read(&mut problems),
            installed,
            is_collected,
            problems,
        };
        // Only what has no problem is kept open: a problem must be said each time.
        let kept = KeptOpen { made_ns: now_ns, plan, blocks };
        self.kept = (self.keeps_open && self.reading.problems.is_empty()).then_some(kept);
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
