//! What each rank knows, and what all of them make of it.

use crate::controller::{SharedSituation, Situation};
use crate::session::clock;
use crate::session::ranks::{Gathered, OfDrives, OfNode, OfRoot, flag};
use crate::session::schedule::drive::{self, DriveFacts};
use std::path::Path;
use surefoot_model::{Health, Room, Severity};

/// Characters of a finding's sentence that become part of a decision's reasons.
const SENTENCE_CHARACTERS_MAX: usize = 200;

/// What one rank knows before a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The machine that it runs on.
    pub host: String,
    /// Seconds since the job began.
    pub now_s: f64,
    /// Seconds in checkpoints so far.
    pub checkpoint_s: f64,
    /// Bytes of the next one in the durable tier.
    pub size_bytes: u64,
    /// Bytes of room that it takes there, with the small files beside it.
    pub durable_needed_bytes: u64,
    /// Bytes that the durable tier took so far.
    pub durable_bytes: u64,
    /// Bytes of memory that the next one needs beyond its slots.
    pub memory_needed_bytes: u64,
    /// Bytes of memory that there are.
    pub memory_available_bytes: u64,
    /// Whether there is a memory tier.
    pub has_memory: bool,
    /// Bytes that the durable tier can take; `None` without one.
    pub durable_available_bytes: Option<u64>,
    /// Whether all ranks of all nodes share those.
    pub is_durable_shared: bool,
    /// What it knows of the shared directory beside an SSD; `None` without one.
    pub shared: Option<SharedFacts>,
    /// Measured costs.
    pub memory_cost_s: f64,
    /// As the situation's.
    pub durable_extra_s: f64,
    /// As the situation's.
    pub drain_loss_s: Option<f64>,
    /// As the situation's.
    pub durable_alone_s: f64,
    /// As the situation's.
    pub drain_s: f64,
    /// As the situation's.
    pub is_draining: bool,
    /// As the situation's.
    pub durable_rest: String,
    /// As the situation's.
    pub memory_suspect: String,
    /// What it knows of the drive beneath its durable directory.
    pub drive: DriveFacts,
}

/// What one rank knows of the shared directory.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedFacts {
    /// Bytes of room that this rank's next part takes there, with the small files beside it.
    pub needed_bytes: u64,
    /// Bytes that all ranks' parts together may have.
    pub available_bytes: u64,
    /// As the situation's.
    pub drain_s: f64,
    /// As the situation's.
    pub is_draining: bool,
}

/// What only the session knows, the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub taken_count: u64,
    pub unshared_count: u64,
    pub has_durable: bool,
    /// How often a checkpoint in the memory tier is written to a drive: 0 where that tier is in memory.
    pub memory_wear_factor: f64,
}

impl Facts {
    /// What this rank tells the others; `node` is the number of its node, for which its first rank speaks.
    pub fn told(&self, rank: u32, node: u32, is_first_here: bool, granted_share: f64) -> Gathered {
        let shared = self.shared.as_ref();
        let flags = [
            (flag::IS_DRAINING, self.is_draining),
            (flag::LACKS_MEMORY, !self.has_memory),
            (flag::LACKS_DURABLE, self.durable_available_bytes.is_none()),
            (flag::IS_DURABLE_SHARED, self.is_durable_shared),
            (flag::LACKS_SHARED, shared.is_none()),
            (flag::IS_SHARING, shared.is_some_and(|shared| shared.is_draining)),
        ];
        let suspect = match self.memory_suspect.is_empty() {
            true => String::new(),
            false => format!("{}: {}", self.host, self.memory_suspect),
        };
        Gathered {
            flags: flags.into_iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag),
            node: OfNode {
                size_bytes: self.size_bytes,
                durable_needed_bytes: self.durable_needed_bytes,
                durable_bytes: self.durable_bytes,
                memory_needed_bytes: self.memory_needed_bytes,
                memory_available_bytes: self.memory_available_bytes,
                durable_available_bytes: self.durable_available_bytes.unwrap_or(0),
            },
            now_s: self.now_s,
            checkpoint_s: self.checkpoint_s,
            memory_cost_s: self.memory_cost_s,
            durable_extra_s: self.durable_extra_s,
            drain_loss_s: self.drain_loss_s.unwrap_or(-1.0),
            durable_alone_s: self.durable_alone_s,
            drain_s: self.drain_s,
            shared_drain_s: shared.map_or(0.0, |shared| shared.drain_s),
            shared_needed_bytes: shared.map_or(0, |shared| shared.needed_bytes),
            shared_available_bytes: shared.map_or(0, |shared| shared.available_bytes),
            rest_rank: u64::from(rank),
            rest: self.durable_rest.clone(),
            suspect_rank: u64::from(rank),
            suspect,
            drives: if is_first_here { self.drive.told(node, granted_share) } else { OfDrives::default() },
            ..Gathered::default()
        }
    }
}

/// What all ranks know together: the same on all of them.
pub fn together(all: &Gathered, of_root: &OfRoot, known: Known) -> (Situation, Option<SharedSituation>) {
    (situation(all, of_root, known), shared_situation(all, of_root, known))
}

/// What is known of the shared directory; `None` where a rank has none.
fn shared_situation(all: &Gathered, of_root: &OfRoot, known: Known) -> Option<SharedSituation> {
    (!all.has(flag::LACKS_SHARED)).then(|| SharedSituation {
        since_shared_s: of_root.since_shared_s,
        step_s: of_root.step_s,
        drain_s: all.shared_drain_s,
        is_draining: all.has(flag::IS_SHARING),
        fits: all.shared_needed_bytes <= all.shared_available_bytes,
        durable_count: known.unshared_count,
    })
}

fn situation(all: &Gathered, of_root: &OfRoot, known: Known) -> Situation {
    let fits_durable = !all.has(flag::LACKS_DURABLE)
        && match all.has(flag::IS_DURABLE_SHARED) {
            true => all.durable_needed_bytes <= all.durable_available_bytes,
            false => !all.has(flag::UNFIT_DURABLE),
        };
    // The drive is the node's: its first rank speaks for it.
    let (drive, drive_said) = drive::of_all(&all.drives);
    Situation {
        now_s: all.now_s,
        checkpoint_s: all.checkpoint_s,
        size_bytes: all.node_size_bytes as f64,
        durable_bytes: all.node_durable_bytes as f64,
        taken_count: known.taken_count,
        since_any_s: of_root.since_any_s,
        since_durable_s: of_root.since_durable_s,
        since_written_s: of_root.since_written_s,
        step_s: of_root.step_s,
        memory_cost_s: all.memory_cost_s,
        durable_extra_s: all.durable_extra_s,
        // Those that could measure it speak for all.
        drain_loss_s: (all.drain_loss_s >= 0.0).then_some(all.drain_loss_s),
        durable_alone_s: all.durable_alone_s,
        drain_s: all.drain_s,
        is_draining: all.has(flag::IS_DRAINING),
        memory_wear_bytes: known.memory_wear_factor * all.node_size_bytes as f64,
        fits_memory: !all.has(flag::LACKS_MEMORY | flag::UNFIT_MEMORY),
        has_durable: known.has_durable,
        fits_durable,
        durable_rest: all.rest.clone(),
        memory_suspect: all.suspect.clone(),
        drive,
        drive_said,
    }
}

/// Why memory must not be trusted, as the host's health file says; empty where nothing says so.
///
/// Only a critical finding keeps checkpoints off memory: uncorrected errors. Corrected ones do no harm to a copy that
/// heals itself.
pub fn memory_suspect(path: &Path) -> String {
    let Some(text) = read_small(path) else { return String::new() };
    let Ok(health) = serde_json::from_slice::<Health>(&text) else { return String::new() };
    let found =
        health.is_current(clock::realtime_ns()).then(|| health.worst(Room::Memory, Severity::Critical)).flatten();
    found.map(|finding| finding.sentence.chars().take(SENTENCE_CHARACTERS_MAX).collect()).unwrap_or_default()
}

/// Why the host's health says nothing of memory although there is such a file: it cannot be read, or is of a version that this
/// release does not know.
pub fn health_doubt(path: &Path) -> Option<String> {
    let is_absent = path.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let why = match read_small(path).map(|text| serde_json::from_slice::<serde_json::Value>(&text)) {
        None if is_absent => return None,
        None => "it cannot be read".to_owned(),
        Some(Err(error)) => format!("it is no health file: {error}"),
        Some(Ok(health)) => match health.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(Health::VERSION) => match serde_json::from_value::<Health>(health) {
                Err(error) => format!("it is no health file: {error}"),
                Ok(health) => untimely(&health, clock::realtime_ns())?,
            },
            Some(version) => format!("it has version {version}, and this release knows {}", Health::VERSION),
            None => "it has no version".to_owned(),
        },
    };
    Some(format!(
        "whether this host's memory can be trusted is unknown: {}: {why}. Check that surefoot watch runs and is of the \
         release of this library, or set health_file",
        path.display()
    ))
}

/// Why the time of a file of this version says that it tells nothing of now.
fn untimely(health: &Health, now_ns: u64) -> Option<String> {
    let apart_s = now_ns.abs_diff(health.updated_realtime_ns) / 1_000_000_000;
    match () {
        () if health.is_current(now_ns) => None,
        () if health.updated_realtime_ns > now_ns => Some(format!("it is from {apart_s} s in the future")),
        () => Some(format!("it was last written {apart_s} s ago")),
    }
}

/// A regular file that is no longer than a health file; a pipe in its place is not waited for.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    surefoot_foreign::hold(path).and_then(|held| held.regular()?.read(Health::FILE_BYTES_MAX)).ok()
}

#[cfg(test)]
mod tests;
