#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::{Policy, Priority, Surefoot, YEAR_S};
use crate::group::{ThreadGroup, thread_group};
use crate::image::{Geometry, Protection};
use crate::testing::{Home, make_memory};
use crate::{Checkpointer, Config, Group};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use surefoot_model::{Finding, Headline, RoomHealth, Subject, SubjectKind};

fn facts(host: &str) -> Facts {
    Facts {
        host: host.into(),
        now_s: 1.0,
        checkpoint_s: 0.5,
        size_bytes: 100,
        durable_needed_bytes: 100,
        durable_bytes: 10,
        memory_needed_bytes: 60,
        memory_available_bytes: 100,
        has_memory: true,
        durable_available_bytes: Some(250),
        is_durable_shared: false,
        shared: None,
        memory_cost_s: 0.1,
        durable_extra_s: 0.2,
        drain_loss_s: None,
        durable_alone_s: 0.0,
        drain_s: 3.0,
        is_draining: false,
        durable_rest: String::new(),
        memory_suspect: String::new(),
        drive: DriveFacts::default(),
    }
}

const KNOWN: Known = Known { taken_count: 1, unshared_count: 4, has_durable: true, memory_wear_factor: 0.0 };
const OF_ROOT: OfRoot = OfRoot {
    since_any_s: 1.0,
    since_durable_s: 1.0,
    since_written_s: 1.0,
    since_shared_s: 9.0,
    step_s: 1.0,
    place: 0,
    is_shared: 0,
    nonce: 0,
    realtime_ns: 0,
};

/// What ranks on these nodes know together, when the word of some comes before that of others.
fn gathered(all: &[Facts], is_backwards: bool) -> Gathered {
    let mut nodes: Vec<(&str, Vec<Gathered>)> = Vec::new();
    for (rank, facts) in (0..).zip(all) {
        let number = nodes.iter().position(|(host, _)| *host == facts.host).unwrap_or(nodes.len());
        if number == nodes.len() {
            nodes.push((&facts.host, Vec::new()));
        }
        let told = facts.told(rank, number as u32, nodes[number].1.is_empty(), 1.0);
        nodes[number].1.push(told);
    }
    let joined = |mut all: Vec<Gathered>| {
        if is_backwards {
            all.reverse();
        }
        let mut joined = Gathered::default();
        all.into_iter().for_each(|told| joined.join(told));
        joined
    };
    joined(
        nodes
            .into_iter()
            .map(|(_, of_node)| {
                let mut node = joined(of_node);
                node.close_node();
                node
            })
            .collect(),
    )
}

fn situation(all: &[Facts]) -> Situation {
    together(&gathered(all, false), &OF_ROOT, KNOWN).0
}

fn shared_situation(all: &[Facts]) -> Option<SharedSituation> {
    together(&gathered(all, false), &OF_ROOT, KNOWN).1
}

#[test]
fn ranks_of_one_node_share_its_room() {
    let apart = situation(&[facts("a"), facts("b")]);
    assert!(apart.fits_memory && apart.fits_durable);
    assert_eq!(apart.size_bytes, 100.0);
    let together = situation(&[facts("a"), facts("a")]);
    assert!(!together.fits_memory && together.fits_durable);
    assert_eq!((together.size_bytes, together.durable_bytes), (200.0, 20.0));
    let without = Facts { durable_available_bytes: None, ..facts("b") };
    assert!(!situation(&[facts("a"), without]).fits_durable);
    // One shared directory takes the parts of all nodes.
    let shares = |host: &str, available_bytes: u64| Facts {
        durable_available_bytes: Some(available_bytes),
        is_durable_shared: true,
        ..facts(host)
    };
    assert!(situation(&[shares("a", 200), shares("b", 200)]).fits_durable);
    assert!(!situation(&[shares("a", 199), shares("b", 199)]).fits_durable);
    let beside = |host: &str, available_bytes: u64, is_draining: bool| Facts {
        shared: Some(SharedFacts { needed_bytes: 100, available_bytes, drain_s: 2.0, is_draining }),
        ..facts(host)
    };
    let both = shared_situation(&[beside("a", 200, false), beside("b", 300, true)]).unwrap();
    assert!(both.fits && both.is_draining);
    assert_eq!((both.since_shared_s, both.durable_count, both.drain_s), (9.0, 4, 2.0));
    assert!(!shared_situation(&[beside("a", 199, false), beside("b", 300, false)]).unwrap().fits);
    assert_eq!(shared_situation(&[beside("a", 200, false), facts("b")]), None);
    let suspect = Facts { memory_suspect: "errors".into(), ..facts("b") };
    assert_eq!(situation(&[facts("a"), suspect]).memory_suspect, "b: errors");
}

#[test]
fn a_drive_bears_what_its_own_node_writes() {
    let home = Home::new();
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
        let [memory, ssd] = directories;
        make_memory(&memory);
        std::fs::create_dir_all(&ssd).unwrap();
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
            job.wait_for_copies().unwrap();
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
        let ranks = thread_group(4, Some(Duration::from_secs(300))).into_iter();
        let threads: Vec<_> = ranks.map(|group| scope.spawn(move || durable_count(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(counts, [2; 4]);
}

#[test]
fn only_fresh_health_that_speaks_of_memory_counts() {
    let home = crate::testing::folder();
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
        let parts = Vec::new();
        let health = Health {
            version,
            updated_realtime_ns,
            host,
            headline,
            data_age_ns,
            lost: None,
            rooms,
            parts,
            parts_left_out: 0,
        };
        says(&serde_json::to_vec(&health).unwrap())
    };
    let version = Health::VERSION;
    let errors = "DIMM A1 has uncorrected errors.";
    assert_eq!(health(version, now, Room::Memory, Severity::Critical), errors);
    assert_eq!(health_doubt(&path), None);
    assert_eq!(health(version, 1, Room::Memory, Severity::Critical), "", "too old");
    assert_eq!(health(version + 1, now, Room::Memory, Severity::Critical), "", "of another version");
    assert_eq!(health(version, now, Room::Memory, Severity::Warning), "", "corrected errors");
    assert_eq!(health(version, now, Room::Stall, Severity::Critical), "", "of another room");
    health(version + 1, now, Room::Memory, Severity::Critical);
    let doubt = health_doubt(&path).unwrap();
    let wanted = format!("it has version {}, and this release knows {version}", version + 1);
    assert!(doubt.contains("can be trusted is unknown") && doubt.contains(&wanted), "{doubt}");
    for (text, wanted) in
        [(&b"no JSON"[..], "no health file"), (b"{}", "no version"), (b"{\"version\":2}", "missing field")]
    {
        assert_eq!(says(text), "");
        assert!(health_doubt(&path).unwrap().contains(wanted), "{:?}", health_doubt(&path));
    }
    assert_eq!(memory_suspect(&home.path().join("none")), "");
    assert_eq!(health_doubt(&home.path().join("none")), None);
    assert!(health_doubt(home.path()).unwrap().contains("it cannot be read"), "a directory");
}

/// The same by going over what each rank knows, as it would be with all of it at hand: rank by rank, and node by node.
mod by_hand {
    use super::*;
    use std::collections::BTreeMap;

    fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
        numbers.fold(0, u64::saturating_add)
    }

    pub fn shared_situation(all: &[Facts]) -> Option<(f64, bool, bool)> {
        let shared: Vec<&SharedFacts> = all.iter().map(|facts| facts.shared.as_ref()).collect::<Option<_>>()?;
        let needed = sum(shared.iter().map(|facts| facts.needed_bytes));
        let drain_s = shared.iter().map(|facts| facts.drain_s).fold(0.0, f64::max);
        let fits = shared.iter().all(|facts| needed <= facts.available_bytes);
        Some((drain_s, shared.iter().any(|facts| facts.is_draining), fits))
    }

    pub fn situation(all: &[Facts]) -> Situation {
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
            let needed = sum(facts.iter().map(|facts| facts.durable_needed_bytes));
            facts.iter().all(|facts| facts.durable_available_bytes.is_some_and(|available| needed <= available))
        };
        let fits_durable = match all.iter().any(|facts| facts.is_durable_shared) {
            true => fit(&all.iter().collect::<Vec<_>>()),
            false => hosts.values().all(|facts| fit(facts)),
        };
        let suspect = all.iter().find(|facts| !facts.memory_suspect.is_empty());
        let rests = all.iter().map(|facts| &facts.durable_rest).find(|rest| !rest.is_empty());
        Situation {
            now_s: most(|facts| facts.now_s),
            checkpoint_s: most(|facts| facts.checkpoint_s),
            size_bytes: most_of_hosts(|facts| facts.size_bytes),
            durable_bytes: most_of_hosts(|facts| facts.durable_bytes),
            taken_count: KNOWN.taken_count,
            since_any_s: 1.0,
            since_durable_s: 1.0,
            since_written_s: 1.0,
            step_s: 1.0,
            memory_cost_s: most(|facts| facts.memory_cost_s),
            durable_extra_s: most(|facts| facts.durable_extra_s),
            drain_loss_s: all.iter().filter_map(|facts| facts.drain_loss_s).reduce(f64::max),
            durable_alone_s: most(|facts| facts.durable_alone_s),
            drain_s: most(|facts| facts.drain_s),
            is_draining: all.iter().any(|facts| facts.is_draining),
            memory_wear_bytes: 0.0,
            fits_memory,
            has_durable: true,
            fits_durable,
            durable_rest: rests.cloned().unwrap_or_default(),
            memory_suspect: suspect
                .map_or_else(String::new, |facts| format!("{}: {}", facts.host, facts.memory_suspect)),
            drive: None,
            drive_said: String::new(),
        }
    }
}

prop_compose! {
    fn any_facts()(
        host in "[abc]",
        seconds in proptest::array::uniform8(0.0..9.0f64),
        bytes in proptest::array::uniform5(0u64..100),
        available in proptest::option::of(0u64..300),
        is_huge in proptest::bool::weighted(0.05),
        flags in proptest::array::uniform4(proptest::bool::weighted(0.9)),
        drain_loss_s in proptest::option::of(0.0..9.0f64),
        shared in proptest::option::weighted(0.9, (0u64..100, 0u64..600)),
        is_suspect in proptest::bool::weighted(0.1),
        rests in proptest::bool::weighted(0.1),
    ) -> Facts {
        Facts {
            host,
            now_s: seconds[0],
            checkpoint_s: seconds[1],
            size_bytes: if is_huge { u64::MAX } else { bytes[0] },
            durable_needed_bytes: if is_huge { u64::MAX } else { bytes[0] + bytes[4] },
            durable_bytes: bytes[1],
            memory_needed_bytes: if is_huge { u64::MAX } else { bytes[2] },
            memory_available_bytes: 3 * bytes[3],
            has_memory: flags[0],
            durable_available_bytes: available,
            is_durable_shared: !flags[1],
            shared: shared.map(|(needed_bytes, available_bytes)| SharedFacts {
                needed_bytes,
                available_bytes,
                drain_s: seconds[2],
                is_draining: !flags[3],
            }),
            memory_cost_s: seconds[3],
            durable_extra_s: seconds[4],
            drain_loss_s,
            durable_alone_s: seconds[5],
            drain_s: seconds[6],
            is_draining: !flags[2],
            durable_rest: if rests { format!("tried again in {} s", bytes[3]) } else { String::new() },
            memory_suspect: if is_suspect { format!("errors {}", bytes[4]) } else { String::new() },
            drive: DriveFacts::default(),
        }
    }
}

proptest! {
    #[test]
    fn what_comes_together_on_the_way_is_what_all_know_in_any_order(all in proptest::collection::vec(any_facts(), 1..12)) {
        for is_backwards in [false, true] {
            let (found, shared) = together(&gathered(&all, is_backwards), &OF_ROOT, KNOWN);
            prop_assert_eq!(&found, &by_hand::situation(&all));
            let shared = shared.map(|shared| (shared.drain_s, shared.is_draining, shared.fits));
            prop_assert_eq!(shared, by_hand::shared_situation(&all));
        }
    }
}
