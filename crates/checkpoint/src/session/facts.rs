//! What each rank knows, and what all of them make of it.

use super::clock;
use super::drive::{self, DriveFacts};
use crate::controller::{SharedSituation, Situation};
use crate::{Error, Group};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use surefoot_model::{Health, Room, Severity};

/// Characters of a finding's sentence that become part of a decision's reasons.
const SENTENCE_CHARACTERS_MAX: usize = 200;

/// What one rank knows before a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The machine that it runs on.
    pub host: String,
    /// Seconds since the job began.
    pub now_s: f64,
    /// Seconds in checkpoints so far.
    pub checkpoint_s: f64,
    /// Bytes of the next one in the durable tier.
    pub size_bytes: u64,
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
    pub durable_cost_s: f64,
    /// As the situation's.
    pub drain_s: f64,
    /// As the situation's.
    pub is_draining: bool,
    /// As the situation's.
    pub memory_suspect: String,
    /// What it knows of the drive beneath its durable directory.
    pub drive: DriveFacts,
}

/// What one rank knows of the shared directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SharedFacts {
    /// Bytes of this rank's next part there.
    pub size_bytes: u64,
    /// Bytes that all ranks' parts together may have.
    pub available_bytes: u64,
    /// As the situation's.
    pub drain_s: f64,
    /// As the situation's.
    pub is_draining: bool,
}

/// What only the session knows, the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub taken_count: u64,
    pub since_any_s: f64,
    pub since_durable_s: f64,
    pub since_written_s: f64,
    pub step_s: f64,
    pub since_shared_s: f64,
    pub unshared_count: u64,
    /// The policy's share of the drive's rating.
    pub granted_share: f64,
}

/// Tells all ranks what each knows, and returns what they know together: the same on all.
pub(super) fn together(
    group: &dyn Group,
    own: &Facts,
    known: Known,
) -> Result<(Situation, Option<SharedSituation>), Error> {
    let text = serde_json::to_vec(own).map_err(|error| Error::Group { why: error.to_string() })?;
    let all = group.gather_all(&text)?;
    let all: Vec<Facts> = all
        .iter()
        .enumerate()
        .map(|(rank, text)| {
            serde_json::from_slice(text)
                .map_err(|error| Error::Group { why: format!("rank {rank} said what cannot be read: {error}") })
        })
        .collect::<Result<_, _>>()?;
    Ok((situation(&all, known), shared_situation(&all, known)))
}

/// What is known of the shared directory; `None` where a rank has none.
fn shared_situation(all: &[Facts], known: Known) -> Option<SharedSituation> {
    let shared: Vec<&SharedFacts> = all.iter().map(|facts| facts.shared.as_ref()).collect::<Option<_>>()?;
    let needed = sum(shared.iter().map(|facts| facts.size_bytes));
    Some(SharedSituation {
        since_shared_s: known.since_shared_s,
        step_s: known.step_s,
        drain_s: shared.iter().map(|facts| facts.drain_s).fold(0.0, f64::max),
        is_draining: shared.iter().any(|facts| facts.is_draining),
        fits: shared.iter().all(|facts| needed <= facts.available_bytes),
        durable_count: known.unshared_count,
    })
}

/// The sum; what cannot be met is said as the highest number, and stays it.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn situation(all: &[Facts], known: Known) -> Situation {
    let mut hosts: BTreeMap<&str, Vec<&Facts>> = BTreeMap::new();
    for facts in all {
        hosts.entry(&facts.host).or_default().push(facts);
    }
    let most = |of: fn(&Facts) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let most_of_hosts = |of: fn(&Facts) -> u64| {
        hosts.values().map(|facts| sum(facts.iter().map(|facts| of(facts)))).max().unwrap_or(0) as f64
    };
    let fits_memory = hosts.values().all(|facts| {
        let needed = sum(facts.iter().map(|facts| facts.memory_needed_bytes));
        facts.iter().all(|facts| facts.has_memory && needed <= facts.memory_available_bytes)
    });
    let fit = |facts: &[&Facts]| {
        let needed = sum(facts.iter().map(|facts| facts.size_bytes));
        facts.iter().all(|facts| facts.durable_available_bytes.is_some_and(|available| needed <= available))
    };
    let fits_durable = match all.iter().any(|facts| facts.is_durable_shared) {
        true => fit(&all.iter().collect::<Vec<_>>()),
        false => hosts.values().all(|facts| fit(facts)),
    };
    // The drive is the node's: its first rank speaks for it.
    let of_nodes: Vec<&DriveFacts> = hosts.values().filter_map(|facts| Some(&facts.first()?.drive)).collect();
    let (drive, drive_said) = drive::of_nodes(&of_nodes, known.granted_share);
    let suspect = all.iter().find(|facts| !facts.memory_suspect.is_empty());
    Situation {
        now_s: most(|facts| facts.now_s),
        checkpoint_s: most(|facts| facts.checkpoint_s),
        size_bytes: most_of_hosts(|facts| facts.size_bytes),
        durable_bytes: most_of_hosts(|facts| facts.durable_bytes),
        taken_count: known.taken_count,
        since_any_s: known.since_any_s,
        since_durable_s: known.since_durable_s,
        since_written_s: known.since_written_s,
        step_s: known.step_s,
        memory_cost_s: most(|facts| facts.memory_cost_s),
        durable_cost_s: most(|facts| facts.durable_cost_s),
        drain_s: most(|facts| facts.drain_s),
        is_draining: all.iter().any(|facts| facts.is_draining),
        fits_memory,
        fits_durable,
        memory_suspect: suspect.map_or_else(String::new, |facts| format!("{}: {}", facts.host, facts.memory_suspect)),
        drive,
        drive_said,
    }
}

/// Bytes that all ranks have written together, and those of the node whose ranks have written the most: each node has a
/// drive of its own.
pub(super) fn written_together(group: &dyn Group, host: &str, own_bytes: u64) -> Result<(u64, u64), Error> {
    let all = group.gather_all(&[&own_bytes.to_le_bytes()[..], host.as_bytes()].concat())?;
    let mut hosts: BTreeMap<&[u8], u64> = BTreeMap::new();
    for message in &all {
        let (bytes, host) =
            message.split_first_chunk().ok_or_else(|| Error::Group { why: "a rank sent no number".into() })?;
        let of_host = hosts.entry(host).or_default();
        *of_host = of_host.saturating_add(u64::from_le_bytes(*bytes));
    }
    Ok((sum(hosts.values().copied()), hosts.into_values().max().unwrap_or(own_bytes)))
}

/// Why memory must not be trusted, as the host's health file says; empty where nothing says so.
///
/// Only a critical finding keeps checkpoints off memory: uncorrected errors. Corrected ones do no harm to a copy that
/// heals itself.
pub(super) fn memory_suspect(path: &Path) -> String {
    let Some(text) = read_small(path) else { return String::new() };
    let Ok(health) = serde_json::from_slice::<Health>(&text) else { return String::new() };
    let found =
        health.is_current(clock::realtime_ns()).then(|| health.worst(Room::Memory, Severity::Critical)).flatten();
    found.map(|finding| finding.sentence.chars().take(SENTENCE_CHARACTERS_MAX).collect()).unwrap_or_default()
}

/// A regular file that is no longer than a health file; a pipe in its place is not waited for.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY).open(path).ok()?;
    file.metadata().ok().filter(Metadata::is_file)?;
    let mut text = Vec::new();
    file.take(Health::FILE_BYTES_MAX + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= Health::FILE_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::controller::{Policy, Priority, Surefoot, YEAR_S};
    use crate::group::{ThreadGroup, thread_group};
    use crate::image::{Geometry, Protection};
    use crate::{Checkpointer, Config};
    use std::time::Duration;
    use surefoot_model::{Finding, Headline, RoomHealth, Subject, SubjectKind};

    fn facts(host: &str) -> Facts {
        Facts {
            host: host.into(),
            now_s: 1.0,
            checkpoint_s: 0.5,
            size_bytes: 100,
            durable_bytes: 10,
            memory_needed_bytes: 60,
            memory_available_bytes: 100,
            has_memory: true,
            durable_available_bytes: Some(250),
            is_durable_shared: false,
            shared: None,
            memory_cost_s: 0.1,
            durable_cost_s: 0.2,
            drain_s: 3.0,
            is_draining: false,
            memory_suspect: String::new(),
            drive: DriveFacts::default(),
        }
    }

    #[test]
    fn ranks_of_one_node_share_its_room() {
        let known = Known {
            taken_count: 1,
            since_any_s: 1.0,
            since_durable_s: 1.0,
            since_written_s: 1.0,
            step_s: 1.0,
            since_shared_s: 9.0,
            unshared_count: 4,
            granted_share: 1.0,
        };
        let apart = situation(&[facts("a"), facts("b")], known);
        assert!(apart.fits_memory && apart.fits_durable);
        assert_eq!(apart.size_bytes, 100.0);
        let together = situation(&[facts("a"), facts("a")], known);
        assert!(!together.fits_memory && together.fits_durable);
        assert_eq!((together.size_bytes, together.durable_bytes), (200.0, 20.0));
        let without = Facts { durable_available_bytes: None, ..facts("b") };
        assert!(!situation(&[facts("a"), without], known).fits_durable);
        // One shared directory takes the parts of all nodes.
        let shares = |host: &str, available_bytes: u64| Facts {
            durable_available_bytes: Some(available_bytes),
            is_durable_shared: true,
            ..facts(host)
        };
        assert!(situation(&[shares("a", 200), shares("b", 200)], known).fits_durable);
        assert!(!situation(&[shares("a", 199), shares("b", 199)], known).fits_durable);
        let beside = |host: &str, available_bytes: u64, is_draining: bool| Facts {
            shared: Some(SharedFacts { size_bytes: 100, available_bytes, drain_s: 2.0, is_draining }),
            ..facts(host)
        };
        let both = shared_situation(&[beside("a", 200, false), beside("b", 300, true)], known).unwrap();
        assert!(both.fits && both.is_draining);
        assert_eq!((both.since_shared_s, both.durable_count, both.drain_s), (9.0, 4, 2.0));
        assert!(!shared_situation(&[beside("a", 199, false), beside("b", 300, false)], known).unwrap().fits);
        assert_eq!(shared_situation(&[beside("a", 200, false), facts("b")], known), None);
        let suspect = Facts { memory_suspect: "errors".into(), ..facts("b") };
        assert_eq!(situation(&[facts("a"), suspect], known).memory_suspect, "b: errors");
    }

    #[test]
    fn a_drive_bears_what_its_own_node_writes() {
        let home = tempfile::tempdir().unwrap();
        // Room for two and a half checkpoints of a node; a byte per second comes to it.
        let node_bytes = 2.0 * Geometry::new(100_000, Protection::Checked).unwrap().file_bytes() as f64;
        let policy = Surefoot {
            hard_failures_per_s: 1e9,
            priority: Priority::Endurance,
            burst_s: 2.5 * node_bytes,
            ..Surefoot::default()
        };
        let durable_count = |group: ThreadGroup| {
            let host = format!("node {}", group.rank() / 2);
            let directories = ["memory", "ssd"].map(|name| home.path().join(&host).join(name));
            directories.iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
            let [memory, ssd] = directories;
            let mut config = Config { drive_file: None, ..Config::new("job", memory, Some(ssd)) };
            config.policy = Policy::Surefoot(policy);
            config.set("endurance.rated_bytes", &YEAR_S.to_string()).unwrap();
            config.set("endurance.remaining_years", "1").unwrap();
            let mut state = vec![1u8; 100_000];
            let mut job = Checkpointer::open_on(host, config, Box::new(group)).unwrap();
            // SAFETY: `state` outlives `job`, and is left alone during its calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
            let mut save = || {
                std::thread::sleep(Duration::from_millis(5));
                let place = job.checkpoint().unwrap().decision.place;
                job.finish().unwrap();
                u32::from(place.is_durable())
            };
            // As long as a busy machine takes to the second, and some more in which there is no third.
            let (mut count, mut calls_left) = (0, 1_000);
            while count < 2 && calls_left > 0 {
                count += save();
                calls_left -= 1;
            }
            (0..20).for_each(|_| count += save());
            count
        };
        let counts: Vec<u32> = std::thread::scope(|scope| {
            let durable_count = &durable_count;
            let ranks = thread_group(4, Some(Duration::from_secs(60))).into_iter();
            let threads: Vec<_> = ranks.map(|group| scope.spawn(move || durable_count(group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(counts, [2; 4]);
    }

    #[test]
    fn only_fresh_health_that_speaks_of_memory_counts() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("health.json");
        let now = clock::realtime_ns();
        let says = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            memory_suspect(&path)
        };
        let health = |version: u32, updated_realtime_ns: u64, room: Room, severity: Severity| {
            let dimm = Subject::new(SubjectKind::Dimm, "A1");
            let finding = Finding::new(room, "uncorrected", dimm, severity, "DIMM A1 has uncorrected errors.");
            let headline = Headline::of(std::slice::from_ref(&finding));
            let rooms = BTreeMap::from([(room, RoomHealth::of(vec![finding]))]);
            let (host, data_age_ns) = (String::new(), None);
            let health = Health { version, updated_realtime_ns, host, headline, data_age_ns, rooms };
            says(&serde_json::to_vec(&health).unwrap())
        };
        let version = Health::VERSION;
        let errors = "DIMM A1 has uncorrected errors.";
        assert_eq!(health(version, now, Room::Memory, Severity::Critical), errors);
        assert_eq!(health(version, 1, Room::Memory, Severity::Critical), "", "too old");
        assert_eq!(health(version + 1, now, Room::Memory, Severity::Critical), "", "of another version");
        assert_eq!(health(version, now, Room::Memory, Severity::Warning), "", "corrected errors");
        assert_eq!(health(version, now, Room::Stall, Severity::Critical), "", "of another room");
        assert_eq!(says(b"no JSON"), "");
        assert_eq!(memory_suspect(&home.path().join("none")), "");
    }
}
