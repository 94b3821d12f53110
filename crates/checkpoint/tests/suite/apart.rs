//! Ranks that do not do the same: every two different calls, and every setting that differs. It is an error on all of them that
//! says what differs where, never a wait for each other, and what was saved before stays.

use super::payload::payload;
use super::session::Tiers;
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_checkpoint::config::SETTINGS;
use surefoot_checkpoint::controller::{Fixed, Surefoot};
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Checkpointer, Config, Error, Group, Place, Policy};
use surefoot_random::Random;

/// A rank that waits this long for another one waits for ever.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

const BYTES: usize = 20_000;

/// A group whose ranks come late to whatever they do, by a seed.
pub(super) struct Late {
    group: ThreadGroup,
    random: std::cell::RefCell<Random>,
}

impl Late {
    fn new(group: ThreadGroup, seed: u64) -> Self {
        let random = Random::numbered(seed, group.rank().into());
        Late { group, random: random.into() }
    }

    fn wait(&self) {
        let word = self.random.borrow_mut().word();
        match word >> 8 & 7 {
            0 => std::thread::sleep(Duration::from_micros(word >> 16 & 0x3ff)),
            1..=3 => std::thread::yield_now(),
            _ => {}
        }
    }
}

impl Group for Late {
    fn rank(&self) -> u32 {
        self.group.rank()
    }

    fn size(&self) -> u32 {
        self.group.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        self.wait();
        self.group.broadcast(bytes, root)
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.wait();
        self.group.gather_all(own)
    }

    fn post(&self, to: u32, bytes: &[u8]) -> Result<bool, Error> {
        self.wait();
        self.group.post(to, bytes)
    }

    fn can_post(&self) -> bool {
        self.group.can_post()
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.wait();
        self.group.exchange(to, send, from, receive)
    }
}

/// Runs the ranks of a group, each in a thread.
pub(super) fn ranks<T: Send>(size: u32, seed: u64, run: impl Fn(Late) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let run = &run;
        let groups = thread_group(size, Some(PATIENCE)).into_iter();
        let threads: Vec<_> = groups.map(|group| scope.spawn(move || run(Late::new(group, seed)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A rank with what it computes.
pub(super) struct Rank {
    pub(super) job: Checkpointer,
    pub(super) state: Vec<u8>,
    pub(super) rank: u32,
}

pub(super) fn computed(rank: u32, step: u64) -> Vec<u8> {
    payload(BYTES + rank as usize * 100, step * 100 + u64::from(rank))
}

impl Rank {
    pub(super) fn open(config: &Config, group: Late) -> Result<Self, Error> {
        let rank = group.rank();
        let mut state = computed(rank, 0);
        let mut job = Checkpointer::open(config.clone(), Box::new(group))?;
        // SAFETY: the state lives as long as the job, never grows, and is left alone during calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
        Ok(Rank { job, state, rank })
    }

    pub(super) fn compute(&mut self, step: u64) {
        self.state.copy_from_slice(&computed(self.rank, step));
    }
}

/// A job whose ranks have saved steps 1 and 2.
pub(super) fn saved(size: u32, config: &Config) {
    ranks(size, 1, |group| {
        let mut rank = Rank::open(config, group).unwrap();
        for step in 1..=2 {
            rank.compute(step);
            assert!(rank.job.checkpoint().unwrap().generation.is_some());
            rank.job.wait_for_copies().unwrap();
        }
        rank.job.finish().unwrap();
    });
}

pub(super) fn expect_step_2(size: u32, config: &Config, what: &str) {
    ranks(size, 2, |group| {
        let mut rank = Rank::open(config, group).unwrap();
        let restored = rank.job.restart().unwrap().unwrap();
        assert!(rank.state == computed(rank.rank, 2), "{what}: {restored:?}");
    });
}

/// Every call that all ranks make together, by the word that errors have for it.
pub(super) const CALLS: [&str; 13] = [
    "need",
    "save",
    "save to memory",
    "save to both",
    "save to durable",
    "wait_for_copies",
    "finish",
    "complete",
    "discard",
    "restart",
    "restart_resized",
    "open_resized",
    "save (preparing it)",
];

pub(super) fn call(job: &mut Checkpointer, name: &str) -> Result<(), Error> {
    match name {
        "need" => job.need_checkpoint().map(drop),
        "save" => job.checkpoint().map(drop),
        "save to memory" => job.checkpoint_to(Place::Memory).map(drop),
        "save to both" => job.checkpoint_to(Place::Both).map(drop),
        "save to durable" => job.checkpoint_to(Place::Durable).map(drop),
        "wait_for_copies" => job.wait_for_copies(),
        "finish" => job.finish().map(drop),
        "complete" => job.complete().map(drop),
        "discard" => job.discard().map(drop),
        "restart" => job.restart().map(drop),
        "restart_resized" => job.restart_resized().map(drop),
        "open_resized" => job.open_resized().map(drop),
        _ => job.prepare("save", None),
    }
}

pub(super) fn config(tiers: &Tiers) -> Config {
    let mut config = tiers.config(Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() }));
    config.drive_file = None;
    config
}

#[test]
fn any_two_different_calls_are_an_error_on_all_ranks_that_names_both_and_nothing_is_lost() {
    let tiers = Tiers::new();
    let mut seed = 0;
    for size in 2..=4 {
        let config = Config { job: format!("job-{size}"), ..config(&tiers) };
        saved(size, &config);
        let pairs = CALLS.iter().flat_map(|one| CALLS.iter().map(move |other| (*one, *other)));
        for (one, other) in pairs.filter(|(one, other)| one != other) {
            seed += 1;
            // Every rank in its turn is the odd one.
            let odd = seed as u32 % size;
            let begun = Instant::now();
            let said = ranks(size, seed, |group| {
                let mut rank = Rank::open(&config, group).unwrap();
                rank.job.restart().unwrap().unwrap();
                rank.compute(3);
                let name = if rank.rank == odd { one } else { other };
                let failed = call(&mut rank.job, name);
                // And it stays so, though the calls are equal now.
                (failed.unwrap_err().to_string(), rank.job.checkpoint().unwrap_err().to_string())
            });
            let what = format!("{size} ranks, {one} at rank {odd}, else {other}");
            for (first, next) in said {
                assert!(
                    first.contains("out of step") && first.contains(&format!("rank {odd} calls {one}")),
                    "{what}: {first}"
                );
                assert!(first.contains(&format!(" {other}")), "{what}: {first}");
                assert!(
                    next.contains("an earlier call failed") && next.contains(&format!("calls {one}")),
                    "{what}: {next}"
                );
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: a rank waited");
        }
        expect_step_2(size, &config, "after all of them");
    }
}

#[test]
fn ranks_that_ask_and_save_in_another_order_overwrite_nothing() {
    for size in 2..=4 {
        let tiers = Tiers::new();
        let config = config(&tiers);
        saved(size, &config);
        for seed in 0..u64::from(size) * 4 {
            let said = ranks(size, seed, |group| {
                let mut rank = Rank::open(&config, group).unwrap();
                rank.job.restart().unwrap().unwrap();
                rank.compute(3);
                let order =
                    if u64::from(rank.rank) == seed % u64::from(size) { ["save", "need"] } else { ["need", "save"] };
                let twice = [order, order].concat();
                twice.iter().map(|name| call(&mut rank.job, name)).filter(Result::is_ok).count()
            });
            assert!(said.iter().all(|good| *good == 0), "{said:?}");
            expect_step_2(size, &config, "two rounds in another order");
        }
    }
}

/// Another value of each setting than [`with_all`] has, and whether ranks may differ in it.
const OTHERS: [(&str, &str, bool); 34] = [
    ("memory", "none", false),
    ("memory.slots", "5", false),
    ("memory.protection", "checked", false),
    ("memory.threads", "2", true),
    ("memory.ahead_bytes", "0", true),
    ("partner", "yes", false),
    ("parity", "1+1", false),
    ("durable", "none", false),
    ("durable.keep", "7", false),
    ("durable.queue_depth", "3", true),
    ("durable.protection", "shard", false),
    ("durable.limit_bytes_per_s", "900000000", true),
    ("durable.allow_memory", "no", false),
    ("shared", "none", false),
    ("shared.keep", "7", false),
    ("shared.queue_depth", "3", true),
    ("shared.protection", "shard", false),
    ("shared.limit_bytes_per_s", "900000000", true),
    ("shared.allow_memory", "yes", false),
    ("shared.staleness_max_s", "77", false),
    ("shared.every", "4", false),
    ("endurance.rated_bytes", "600e12", true),
    ("endurance.written_bytes", "1e12", true),
    ("endurance.remaining_years", "3", true),
    ("endurance.wa_factor", "2", true),
    ("policy", "every:3", false),
    ("memory_mtbf_s", "1234", false),
    ("durable_mtbf_s", "12345", false),
    ("staleness_max_s", "600", false),
    ("priority", "endurance", false),
    ("after_completion", "continue", false),
    ("sigterm", "checkpoint", false),
    ("health_file", "/nowhere/health.json", true),
    ("drive_file", "/nowhere/drives.json", true),
];

fn with_all(tiers: &Tiers) -> Config {
    let mut config = config(tiers);
    let shared = tiers.home.path().join("shared");
    std::fs::create_dir_all(&shared).unwrap();
    config.set("shared", shared.to_str().unwrap()).unwrap();
    config
}

#[test]
fn any_setting_that_differs_on_one_rank_is_named_on_all_of_them_or_hurts_nobody() {
    for (name, _) in SETTINGS {
        assert!(
            OTHERS.iter().any(|(known, ..)| known == name),
            "{name}: say in this test whether ranks may differ in it"
        );
    }
    let tiers = Tiers::new();
    let mut seed = 0;
    for size in 2..=4 {
        let config = Config { job: format!("job-{size}"), ..with_all(&tiers) };
        saved(size, &config);
        for (name, value, may_differ) in OTHERS {
            seed += 1;
            let odd = seed as u32 % size;
            let mut other = config.clone();
            if name == "policy" {
                // It takes none of the former one's numbers.
                other.policy = Policy::Surefoot(Surefoot::default());
            }
            other.set(name, value).unwrap();
            let opened = ranks(size, seed, |group| {
                let rank = group.rank();
                let mut rank = Rank::open(if rank == odd { &other } else { &config }, group)?;
                // Whoever may open can go on to its end.
                rank.job.restart()?;
                rank.job.need_checkpoint()?;
                rank.job.checkpoint_to(Place::Memory)?;
                rank.compute(2);
                rank.job.checkpoint()?;
                rank.job.finish()
            });
            let what = format!("{name}={value} on rank {odd} of {size}");
            for opened in opened {
                match opened {
                    Ok(_) => assert!(may_differ, "{what} was not noticed"),
                    Err(Error::Option { option: "settings", why }) => {
                        let is_told = [format!("{name} is "), format!("on rank {odd}")];
                        assert!(!may_differ && is_told.iter().all(|text| why.contains(text)), "{what}: {why}");
                        let shown = if value == "none" { "not set" } else { value };
                        assert!(why.contains(shown), "{what}: {why}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        expect_step_2(size, &config, "after all of them");
    }
}

#[test]
fn another_job_or_another_number_of_a_policy_or_another_shared_directory_is_named() {
    let tiers = Tiers::new();
    let config = with_all(&tiers);
    let elsewhere = tiers.home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let shared_at = |path: &Path| {
        let mut other = config.clone();
        other.set("shared", path.to_str().unwrap()).unwrap();
        other
    };
    let surefoot = Surefoot { granted_share: 0.5, staleness_max_s: 0.0, ..Surefoot::default() };
    let others = [
        (
            Config { job: "other".into(), ..config.clone() },
            "job is job on ranks 0, 2 and is other on rank 1".to_owned(),
        ),
        (Config { policy: Policy::Surefoot(surefoot), ..config.clone() }, "granted_share: 0.5".to_owned()),
        (shared_at(&elsewhere), format!("and is {} on rank 1", elsewhere.display())),
        (Config { policy: Policy::Fixed(Fixed::Never), ..config.clone() }, "and is never on rank 1".to_owned()),
    ];
    for (other, wanted) in others {
        let said = ranks(3, 5, |group| {
            let config = if group.rank() == 1 { &other } else { &config };
            Rank::open(config, group).err().unwrap().to_string()
        });
        assert!(said.iter().all(|said| said.contains(&wanted)), "{wanted}: {said:?}");
    }
    assert!(!tiers.home.path().join("memory/job").exists(), "nothing is made before the ranks agree");
}

#[test]
fn a_rank_that_cannot_open_keeps_no_other_waiting() {
    let tiers = Tiers::new();
    let config = config(&tiers);
    let said = ranks(3, 6, |group| match group.rank() {
        1 => {
            let why = "there is no setting \"durable.kep\"".to_owned();
            Checkpointer::decline(Error::Option { option: "setting", why }, Box::new(group)).to_string()
        }
        _ => Rank::open(&config, group).err().unwrap().to_string(),
    });
    assert!(said.iter().all(|said| said.contains("durable.kep")), "{said:?}");
    assert!(said[0].contains("rank 1 failed") && !said[1].contains("rank 1"), "{said:?}");
}

#[test]
fn ranks_of_one_machine_whose_directories_are_their_own_lose_nothing() {
    let tiers = Tiers::new();
    let of_rank = |rank: u32| {
        let directory = |tier: &str| {
            let path = tiers.home.path().join(format!("{tier}-{rank}"));
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let mut config = config(&tiers);
        config.set("memory", directory("memory").to_str().unwrap()).unwrap();
        config.set("durable", directory("ssd").to_str().unwrap()).unwrap();
        config
    };
    let run = |work: &(dyn Fn(Rank) + Sync)| {
        ranks(3, 7, |group| {
            let config = of_rank(group.rank());
            work(Rank::open(&config, group).unwrap());
        })
    };
    run(&|mut rank| {
        for step in 1..=4 {
            rank.compute(step);
            rank.job.checkpoint().unwrap();
            assert_ne!(rank.job.finish().unwrap().is_durable, Some(false));
        }
    });
    for rank in 0..3 {
        let kept = std::fs::read_dir(tiers.home.path().join(format!("ssd-{rank}/job"))).unwrap();
        let kept = kept.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count();
        assert_eq!(kept, 2, "rank {rank}: what is older than is to be kept goes from every directory");
        std::fs::remove_dir_all(tiers.home.path().join(format!("memory-{rank}"))).unwrap();
    }
    run(&|mut rank| {
        let restored = rank.job.restart().unwrap().unwrap();
        assert!(rank.state == computed(rank.rank, 4), "{restored:?}");
        rank.job.complete().unwrap();
    });
    run(&|mut rank| {
        assert!(rank.job.restart().unwrap().is_none(), "it was completed");
        rank.job.checkpoint().unwrap();
        rank.job.discard().unwrap();
    });
    for rank in 0..3 {
        for tier in ["memory", "ssd"] {
            let left = tiers.home.path().join(format!("{tier}-{rank}/job"));
            assert!(!left.exists(), "{} is left", left.display());
        }
    }
}

#[test]
fn ranks_that_read_pieces_of_different_checkpoints_are_told_so() {
    let tiers = Tiers::new();
    let config = config(&tiers);
    saved(3, &config);
    let said = ranks(3, 8, |group| {
        let mut rank = Rank::open(&config, group).unwrap();
        let former = rank.job.open_resized().unwrap().unwrap();
        rank.job.checkpoint().unwrap();
        let newer = rank.job.open_resized().unwrap().unwrap();
        rank.job.read_resized(&newer, &mut []).unwrap();
        let opened = if rank.rank == 2 { &former } else { &newer };
        rank.job.read_resized(opened, &mut []).unwrap_err().to_string()
    });
    let wanted = "rank 2 calls read_resized, after generation 2 ";
    assert!(said.iter().all(|said| said.contains(wanted) && said.contains("after generation 3 ")), "{said:?}");
}

#[test]
fn a_call_of_no_such_name_that_is_prepared_is_an_error_on_all_ranks() {
    let tiers = Tiers::new();
    let config = config(&tiers);
    for odd in [None, Some(0), Some(1), Some(2)] {
        let said = ranks(3, 9, |group| {
            let mut rank = Rank::open(&config, group).unwrap();
            let is_wrong = odd.is_none_or(|odd| odd == rank.rank);
            let first = rank.job.prepare(if is_wrong { "saev" } else { "save" }, None).unwrap_err();
            (is_wrong, first, rank.job.prepare("save", None))
        });
        for (is_wrong, first, next) in said {
            match first {
                Error::Option { option: "call", why } => assert!(is_wrong && why.contains("no call \"saev\""), "{why}"),
                Error::Group { why } => {
                    assert!(!is_wrong && why.contains("a call that this release does not know"), "{why}")
                }
                error => panic!("{error:?}"),
            }
            // Where all make the same mistake they go on from there.
            assert_eq!(next.is_ok(), odd.is_none(), "{next:?}");
        }
    }
}
