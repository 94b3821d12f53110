//! Ranks of a job of which one is killed while they agree: between the phases of a checkpoint, wherever that is.

use super::super::session::{Back, Rank, Tiers, always_both, restarted};
use super::{Outcome, Row, Seed};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Config, Error, Group, Policy};

const RANKS: u32 = 3;
const STEPS: u64 = 3;

/// A rank that is gone from one of its calls on. Nothing of its own runs after that but what a killed process's memory
/// and files come to: its locks are given back, a write that was handed to the kernel ends.
struct Dying {
    inner: ThreadGroup,
    calls: Arc<AtomicU64>,
    dies_at: u64,
}

impl Dying {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.dies_at {
            resume_unwind(Box::new("killed"));
        }
    }
}

impl Group for Dying {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        self.call();
        self.inner.broadcast(bytes, root)
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.call();
        self.inner.gather_all(own)
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.call();
        self.inner.exchange(to, send, from, receive)
    }
}

/// Saves until the rank dies or all is saved; returns the last step that any rank was told was saved, and how many
/// calls the rank made.
fn saved(config: &Config, dying: u32, dies_at: u64) -> (u64, u64) {
    let (reported, calls) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    std::thread::scope(|scope| {
        for inner in thread_group(RANKS, Some(Duration::from_secs(300))) {
            let is_it = inner.rank() == dying;
            let calls = if is_it { Arc::clone(&calls) } else { Arc::default() };
            let group = Dying { inner, calls, dies_at: if is_it { dies_at } else { u64::MAX } };
            let (config, reported) = (config.clone(), &reported);
            scope.spawn(move || {
                let run = || {
                    let mut rank = Rank::open(config, group)?;
                    for step in 1..=STEPS {
                        rank.compute(step);
                        rank.job.checkpoint()?;
                        reported.fetch_max(step, Ordering::Relaxed);
                        rank.job.wait_for_copies()?;
                    }
                    Ok::<(), Error>(())
                };
                match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => assert!(error.to_string().contains("rank"), "not clear: {error}"),
                    Err(panic) if panic.is::<&str>() => {}
                    Err(panic) => resume_unwind(panic),
                }
            });
        }
    });
    (reported.into_inner(), calls.load(Ordering::Relaxed))
}

/// How many calls a rank makes that does not die.
fn calls(tier: &'static str, config: &dyn Fn(&Tiers) -> Config) -> u64 {
    static CALLS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());
    let known = CALLS.lock().unwrap().get(tier).copied();
    known.unwrap_or_else(|| {
        let tiers = Tiers::new();
        let (reported, calls) = saved(&config(&tiers), 0, u64::MAX);
        assert_eq!(reported, STEPS);
        CALLS.lock().unwrap().insert(tier, calls);
        calls
    })
}

fn run(tier: &'static str, config: &dyn Fn(&Tiers) -> Config, seed: &mut Seed) -> Outcome {
    let (dying, dies_at) = (seed.below(u64::from(RANKS)) as u32, seed.below(calls(tier, config)));
    let tiers = Tiers::new();
    let config = config(&tiers);
    let (reported, _) = saved(&config, dying, dies_at);
    let back: Vec<Back> = restarted(RANKS, &config, STEPS);
    let said = format!("rank {dying} died at call {dies_at}, {reported} reported: {back:?}");
    if back.iter().any(|(_, restored)| restored.is_err()) {
        // The first save left parts only, and nobody was told that it was complete.
        assert!(reported == 0 && back.iter().all(|(_, restored)| restored.is_err()), "{said}");
        return Outcome::Refused;
    }
    let found = back[0].0.unwrap_or(0);
    for (step, restored) in &back {
        assert!(step.unwrap_or(0) == found && (found > 0) == matches!(restored, Ok(Some(_))), "wrong data: {said}");
    }
    assert!(found >= reported, "lost: {said}");
    Outcome::Whole
}

/// One of the ranks is not there when the others restart; when it is, all come back.
fn absent() -> Outcome {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    assert_eq!(saved(&config, 0, u64::MAX).0, STEPS);
    let mut groups = thread_group(RANKS, Some(Duration::from_millis(200)));
    drop(groups.remove(1));
    std::thread::scope(|scope| {
        for group in groups {
            scope.spawn(|| {
                let error = Rank::open(config.clone(), group).err().expect("a rank is missing").to_string();
                assert!(error.contains("rank"), "not clear: {error}");
            });
        }
    });
    let back = restarted(RANKS, &config, STEPS);
    assert!(back.iter().all(|(step, _)| *step == Some(STEPS)), "{back:?}");
    Outcome::Refused
}

/// What a tier is called, whether there are partners, and the policy.
type Kept = (&'static str, bool, fn() -> Policy);

pub fn rows() -> Vec<Row> {
    let tiers: [Kept; 4] = [
        ("memory", false, || Policy::Fixed(Fixed::Memory)),
        ("SSD", false, || Policy::Fixed(Fixed::Durable)),
        ("memory and SSD", false, always_both),
        ("memory and partner", true, || Policy::Fixed(Fixed::Memory)),
    ];
    let row = |(tier, partner, policy): Kept| {
        let config = move |tiers: &Tiers| Config { partner, ..tiers.config(policy()) };
        let allowed = &[Outcome::Whole, Outcome::Refused];
        Row::new("a rank killed while they agree", tier, allowed, move |seed| run(tier, &config, seed))
    };
    let absent =
        Row::new("a rank that does not start", "memory and SSD", &[Outcome::Refused], |_| absent()).at_most(10);
    tiers.map(row).into_iter().chain([absent]).collect()
}
