//! Which checkpoint is the newest, under wall clocks that are ahead, behind or stopped.

#![allow(clippy::unwrap_used)]

use crate::controller::{Fixed, Policy};
use crate::session::{Checkpointer, clock};
use crate::{Alone, Config};
use std::fs;
use std::path::{Path, PathBuf};

const YEAR_NS: u64 = 31_557_600_000_000_000;
const IN_2026: u64 = 56 * YEAR_NS;
const IN_2200: u64 = 230 * YEAR_NS;
const IN_2300: u64 = 330 * YEAR_NS;

/// A job's tiers, and programs that run one after the other.
struct Job {
    home: tempfile::TempDir,
    policy: Policy,
}

impl Job {
    fn new(policy: Fixed) -> Self {
        let home = crate::testing::folder();
        ["memory", "ssd"].iter().for_each(|name| fs::create_dir(home.path().join(name)).unwrap());
        Job { home, policy: Policy::Fixed(policy) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A run under a clock that stands at this time: it restarts, saves these steps and ends. Where it went on from, and
    /// what the restart reported.
    fn run(&self, realtime_ns: u64, steps: &[u8]) -> (Option<u8>, String) {
        self.run_and(realtime_ns, steps, |_| ())
    }

    fn run_and(&self, realtime_ns: u64, steps: &[u8], end: impl Fn(&mut Checkpointer)) -> (Option<u8>, String) {
        clock::set_realtime_ns(Some(realtime_ns));
        let mut config = Config::new("job", self.path("memory"), Some(self.path("ssd")));
        (config.policy, config.drive_file) = (self.policy.clone(), None);
        let mut state = vec![0u8; 50_000];
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives `job`, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        let restored = job.restart().unwrap();
        let came_from = restored.as_ref().map(|_| state[49_999]);
        for step in steps {
            state.fill(*step);
            job.checkpoint().unwrap();
        }
        job.wait_for_copies().unwrap();
        end(&mut job);
        drop(job);
        clock::set_realtime_ns(None);
        (came_from, restored.map(|restored| restored.report).unwrap_or_default())
    }
}

/// All below a directory but the marks of a completed job.
fn remove_checkpoints(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            fs::remove_dir_all(entry).unwrap();
        }
    }
}

#[test]
fn every_run_goes_on_from_the_one_before_wherever_the_clock_was() {
    for policy in [Fixed::Memory, Fixed::Durable, Fixed::EveryNth(1)] {
        for clocks in [
            [IN_2300, IN_2026, IN_2026, IN_2026],
            [u64::MAX, IN_2026, u64::MAX, 0],
            [IN_2026, IN_2200, IN_2026, IN_2300],
            [0, 0, 0, 0],
            [IN_2026, 0, IN_2026, 0],
            [u64::MAX / 2, u64::MAX / 2 + 2, u64::MAX / 2 + 1, IN_2026],
        ] {
            let job = Job::new(policy);
            let mut before = None;
            for (run, realtime_ns) in clocks.into_iter().enumerate() {
                let steps = [10 * run as u8 + 1, 10 * run as u8 + 2];
                let (came_from, report) = job.run(realtime_ns, &steps);
                assert_eq!(came_from, before, "{policy:?}, run {run} of {clocks:?}: {report}");
                before = Some(steps[1]);
            }
        }
    }
}

#[test]
fn the_mark_of_a_run_whose_clock_was_ahead_ends_no_later_run() {
    let job = Job::new(Fixed::EveryNth(1));
    job.run_and(IN_2200, &[1], |job| drop(job.complete().unwrap()));
    ["memory/job", "ssd/job"].iter().for_each(|directory| remove_checkpoints(&job.path(directory)));
    assert_eq!(job.run(IN_2026, &[2, 3]).0, None);
    assert_eq!(job.run(IN_2026, &[]).0, Some(3));
}

#[test]
fn what_is_older_only_by_a_clock_that_was_ahead_is_reported() {
    let job = Job::new(Fixed::PaperNth(2));
    job.run(IN_2200, &[1, 2]);
    fs::rename(job.path("ssd"), job.path("away")).unwrap();
    fs::remove_dir_all(job.path("memory/job")).unwrap();
    fs::create_dir(job.path("ssd")).unwrap();
    job.run(IN_2026, &[3, 4, 5]);
    fs::remove_dir_all(job.path("ssd")).unwrap();
    fs::rename(job.path("away"), job.path("ssd")).unwrap();
    let (came_from, report) = job.run(IN_2026, &[]);
    assert!(
        came_from == Some(2) && report.contains("in the future by this machine's clock"),
        "{came_from:?}: {report}"
    );
    assert!(report.contains("generation 3 with its higher number"), "{report}");
}
