//! Counts what each rank sends and receives, and holds it to what is reckoned.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::{Policy, Surefoot};
use crate::group::{ThreadGroup, Traffic, thread_group};
use crate::image::Geometry;
use crate::session::Checkpointer;
use crate::{Config, Group, Place};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

const SIZES: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// Bytes of a rank's region.
const STATE_BYTES: usize = 50_000;

/// Bytes of a manifest of one region.
const MANIFEST_BYTES: u64 = 4096;

/// What one rank counted, by what it did.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    sent: u64,
    received: u64,
    bytes: u64,
}

impl Counted {
    fn now(traffic: &Traffic) -> Self {
        let ((sent, sent_bytes), (received, received_bytes)) = (traffic.sent(), traffic.received());
        Counted { sent, received, bytes: sent_bytes + received_bytes }
    }

    fn since(self, before: Counted) -> Self {
        Counted {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            bytes: self.bytes - before.bytes,
        }
    }

    fn most(all: impl IntoIterator<Item = Counted>) -> Self {
        all.into_iter().fold(Counted::default(), |most, one| Counted {
            sent: most.sent.max(one.sent),
            received: most.received.max(one.received),
            bytes: most.bytes.max(one.bytes),
        })
    }
}

/// One rank that asks once, saves once, and waits: what each counted.
fn rank(
    group: ThreadGroup,
    home: &Path,
    host: &str,
    option: Option<(&str, &str)>,
    policy: &Policy,
    together: &Barrier,
) -> [Counted; 3] {
    let traffic: Arc<Traffic> = group.traffic();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.join(host).join(name));
    [&memory, &ssd].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
    let has_ssd = matches!(policy, Policy::Surefoot(_));
    let mut config = Config { drive_file: None, ..Config::new("job", memory, has_ssd.then_some(ssd)) };
    config.health_file = home.join("none");
    config.policy = policy.clone();
    option.into_iter().for_each(|(name, value)| config.set(name, value).unwrap());
    let mut state = vec![group.rank() as u8; STATE_BYTES];
    let mut job = Checkpointer::open_on(host.to_owned(), config, Box::new(group)).unwrap();
    // SAFETY: `state` outlives the job, and is left alone during its calls.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    // What is done once comes first.
    job.checkpoint().unwrap();
    job.wait_for_copies().unwrap();
    let mut count = |work: &mut dyn FnMut(&mut Checkpointer)| {
        together.wait();
        let before = Counted::now(&traffic);
        work(&mut job);
        Counted::now(&traffic).since(before)
    };
    let asked = count(&mut |job| drop(job.need_checkpoint().unwrap()));
    let saved = count(&mut |job| {
        let place = job.checkpoint().unwrap().decision.place;
        assert_eq!(place, if has_ssd { Place::Both } else { Place::Memory });
    });
    [asked, saved, count(&mut |job| job.wait_for_copies().unwrap())]
}

/// What the busiest rank counts of each.
fn busiest(ranks: u32, on_each: u32, option: Option<(&str, &str)>, policy: &Policy) -> [Counted; 3] {
    let home = crate::testing::folder();
    let together = Barrier::new(ranks as usize);
    let counted: Vec<[Counted; 3]> = std::thread::scope(|scope| {
        let threads: Vec<_> = thread_group(ranks, Some(Duration::from_secs(300)))
            .into_iter()
            .map(|group| {
                let (home, together, host) = (home.path(), &together, format!("node {}", group.rank() / on_each));
                scope.spawn(move || rank(group, home, &host, option, policy, together))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    [0, 1, 2].map(|what| Counted::most(counted.iter().map(|of_rank| of_rank[what])))
}

fn memory() -> Policy {
    Policy::Fixed(crate::controller::Fixed::Memory)
}

/// Agreements with which a decision or a save begins.
fn of_beginning(ranks: u32, on_each: u32) -> u64 {
    if ranks > on_each { OF_A_CALL } else { 0 }
}

/// What this many agreements may cost the busiest rank, whatever the number of ranks.
fn expect_agreements(found: Counted, count: u64, ranks: u32, on_each: u32, what: &str) {
    let cost = of_agreement(ranks, on_each);
    assert!(found.sent <= count * cost.sent_max, "{what} of {ranks} ranks: {found:?}, {cost:?}");
    assert!(found.received <= count * cost.received_max, "{what} of {ranks} ranks: {found:?}, {cost:?}");
    assert!(found.bytes <= count * cost.bytes_max, "{what} of {ranks} ranks: {found:?}, {cost:?}");
    // It does not grow: five messages sent and five received are the most, here and at any number of ranks.
    assert!(cost.sent_max <= 5 && cost.received_max <= 5 && cost.bytes_max <= 10 * BYTES as u64, "{cost:?}");
}

#[test]
fn a_decision_and_a_save_in_memory_cost_a_rank_the_same_in_a_job_of_any_size() {
    for (ranks, on_each) in SIZES.into_iter().flat_map(|ranks| [(ranks, 1), (ranks, 4), (ranks, 64)]) {
        let [asked, saved, waited] = busiest(ranks, on_each, None, &memory());
        let first = of_beginning(ranks, on_each);
        expect_agreements(asked, first + OF_A_DECISION, ranks, on_each, "need");
        expect_agreements(saved, first + OF_A_SAVE_IN_MEMORY, ranks, on_each, "a save in memory");
        expect_agreements(waited, OF_A_CALL, ranks, on_each, "a wait for nothing");
    }
}

#[test]
fn a_durable_save_costs_a_rank_the_same_in_a_job_of_any_size() {
    let policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() });
    for ranks in SIZES {
        let [asked, saved, waited] = busiest(ranks, 4, None, &policy);
        let first = of_beginning(ranks, 4);
        expect_agreements(asked, first + OF_A_DECISION, ranks, 4, "need");
        // One more starts the write, and three say that it has ended and is marked as complete, at each directory.
        expect_agreements(saved, first + OF_A_SAVE_IN_MEMORY + 1, ranks, 4, "a save");
        expect_agreements(waited, OF_A_CALL + 3, ranks, 4, "the wait for it");
    }
}

#[test]
fn redundancy_stays_within_its_group() {
    let protection = Config::new("job", "/", None).memory.unwrap().protection;
    let image_bytes = Geometry::new(STATE_BYTES as u64, protection).unwrap().file_bytes() as u64;
    for ranks in SIZES {
        let [_, saved, _] = busiest(ranks, 1, Some(("partner", "yes")), &memory());
        // The image goes to one and comes from one, and so do its manifest and its length.
        let manifests = Counted { sent: 3, received: 3, bytes: 2 * (image_bytes + 8 + MANIFEST_BYTES) };
        expect_agreements(
            less(saved, manifests),
            OF_A_CALL + OF_A_SAVE_WITH_PARTNER,
            ranks,
            1,
            "a save with a partner",
        );
    }
    for ranks in SIZES.into_iter().filter(|ranks| *ranks > 2) {
        let [_, saved, _] = busiest(ranks, 1, Some(("parity", "3+1")), &memory());
        // Each of the three others of a group gets a length, a manifest, and a piece of the image.
        let others = Counted { sent: 3 * 3, received: 3 * 3, bytes: 2 * (image_bytes + 3 * (8 + MANIFEST_BYTES)) };
        expect_agreements(less(saved, others), OF_A_CALL + OF_A_SAVE_WITH_PARITY, ranks, 1, "a save with parity");
    }
}

fn less(found: Counted, payload: Counted) -> Counted {
    Counted {
        sent: found.sent.saturating_sub(payload.sent),
        received: found.received.saturating_sub(payload.received),
        bytes: found.bytes.saturating_sub(payload.bytes),
    }
}
