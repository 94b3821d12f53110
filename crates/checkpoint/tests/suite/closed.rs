//! Ranks that close their session while others go on: the next call of every other rank is an error that says who closed and
//! what it called, never a wait. When all close, none waits for another one.

use super::apart::{CALLS, PATIENCE, Rank, call, config, expect_step_2, ranks, saved};
use super::session::Tiers;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Checkpointer, Config, Error, Group};

/// How a rank closes, by the number of the try.
fn close(rank: Rank, number: u32) {
    match number % 3 {
        0 => drop(rank),
        1 => {
            // Its program fails; nobody needs to see that here.
            let failed = catch_unwind(AssertUnwindSafe(move || {
                let _rank = rank;
                resume_unwind(Box::new(()));
            }));
            assert!(failed.is_err());
        }
        // In another thread.
        _ => std::thread::scope(|scope| drop(scope.spawn(move || drop(rank.job)).join())),
    }
}

#[test]
fn every_call_beside_a_rank_that_closed_is_an_error_on_all_others_that_names_both() {
    let tiers = Tiers::new();
    let mut number = 0;
    for size in 2..=4 {
        let config = Config { job: format!("job-{size}"), ..config(&tiers) };
        saved(size, &config);
        for (name, gone) in CALLS.iter().flat_map(|name| (0..size).map(move |gone| (*name, gone))) {
            number += 1;
            let begun = Instant::now();
            let said = ranks(size, u64::from(number), |group| {
                let mut rank = Rank::open(&config, group).unwrap();
                rank.job.restart().unwrap().unwrap();
                rank.compute(3);
                if rank.rank == gone {
                    close(rank, number);
                    return None;
                }
                let failed = call(&mut rank.job, name).unwrap_err();
                Some((failed, rank.job.checkpoint().unwrap_err().to_string()))
            });
            let what = format!("{size} ranks, {name} without rank {gone}");
            for (first, next) in said.into_iter().flatten() {
                let Error::Group { why } = first else { panic!("{what}: {first:?}") };
                let wanted = [format!("rank {gone} closed its session"), format!("calls {name}, ")];
                assert!(wanted.iter().all(|wanted| why.contains(wanted)), "{what}: {why}");
                assert!(next.contains("an earlier call failed"), "{what}: {next}");
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: a rank waited");
        }
        expect_step_2(size, &config, "after all of them");
    }
}

#[test]
fn when_several_close_every_rank_that_goes_on_is_told_of_one_of_them() {
    let tiers = Tiers::new();
    let config = config(&tiers);
    for (size, closing) in (3..=7).flat_map(|size| (1..(1 << size) - 1).map(move |closing: u32| (size, closing))) {
        let said = ranks(size, u64::from(closing), |group| {
            let mut rank = Rank::open(&config, group).unwrap();
            if closing >> rank.rank & 1 == 1 { None } else { Some(rank.job.need_checkpoint().unwrap_err().to_string()) }
        });
        for why in said.into_iter().flatten() {
            let is_named = (0..size)
                .any(|rank| closing >> rank & 1 == 1 && why.contains(&format!("rank {rank} closed its session")));
            assert!(is_named, "{closing:b} of {size}: {why}");
        }
    }
}

#[test]
fn ranks_that_close_wait_for_none_of_the_others_in_any_order() {
    let tiers = Tiers::new();
    let config = config(&tiers);
    let size = 4;
    for first in 0..size {
        for step in [1, 3] {
            // Each closes only after the one before it has closed.
            let (turn, changed) = (Mutex::new(0), Condvar::new());
            ranks(size, 3, |group| {
                let mut rank = Rank::open(&config, group).unwrap();
                rank.job.checkpoint().unwrap();
                let own = (0..size).find(|place| (first + place * step) % size == rank.rank).unwrap();
                let guard = turn.lock().unwrap();
                let (guard, waited) = changed.wait_timeout_while(guard, PATIENCE, |turn| *turn != own).unwrap();
                assert!(!waited.timed_out(), "the rank before {} is still closing", rank.rank);
                drop(guard);
                drop(rank);
                *turn.lock().unwrap() += 1;
                changed.notify_all();
            });
        }
    }
}

/// Messages on their way, by sender and receiver.
type Lying = BTreeMap<(u32, u32), VecDeque<Vec<u8>>>;

/// What lies between two ranks of a [`Lazy`] group, and which ranks are gone.
#[derive(Default)]
struct Mail {
    lying: Mutex<(Lying, BTreeSet<u32>)>,
    changed: Condvar,
}

/// A group as gloo's: what is posted is sent once the other rank waits for it, and is lost with a sender that ends before.
/// Every rank but 0 comes late.
struct Lazy {
    group: ThreadGroup,
    mail: Arc<Mail>,
}

impl Group for Lazy {
    fn rank(&self) -> u32 {
        self.group.rank()
    }

    fn size(&self) -> u32 {
        self.group.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        self.group.broadcast(bytes, root)
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.group.gather_all(own)
    }

    fn post(&self, to: u32, bytes: &[u8]) -> Result<bool, Error> {
        let mut lying = self.mail.lying.lock().unwrap();
        lying.0.entry((self.rank(), to)).or_default().push_back(bytes.to_vec());
        self.mail.changed.notify_all();
        Ok(true)
    }

    fn can_post(&self) -> bool {
        true
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        if !send.is_empty() {
            self.post(to, send)?;
        }
        if receive.is_empty() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(u64::from(self.rank() > 0) * 2));
        let way = (from, self.rank());
        let is_awaited = |lying: &mut (BTreeMap<_, VecDeque<Vec<u8>>>, BTreeSet<u32>)| {
            lying.0.get(&way).is_none_or(VecDeque::is_empty) && !lying.1.contains(&from)
        };
        let lying = self.mail.lying.lock().unwrap();
        let (mut lying, waited) = self.mail.changed.wait_timeout_while(lying, PATIENCE, is_awaited).unwrap();
        assert!(!waited.timed_out(), "rank {} waits for rank {from}", self.rank());
        let came = lying.0.get_mut(&way).and_then(VecDeque::pop_front);
        let came = came.ok_or_else(|| Error::Group { why: format!("rank {from} is gone") })?;
        receive.copy_from_slice(&came);
        Ok(())
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        let mut lying = self.mail.lying.lock().unwrap();
        lying.0.retain(|(from, _), _| *from != self.group.rank());
        lying.1.insert(self.group.rank());
        self.mail.changed.notify_all();
    }
}

/// Ranks that save once, and end after what `last` calls, each by itself.
fn ended_after(size: u32, config: &Config, last: impl Fn(&mut Checkpointer, u32) + Sync) {
    let mail = Arc::new(Mail::default());
    std::thread::scope(|scope| {
        for group in thread_group(size, Some(PATIENCE)) {
            let (config, last) = (config.clone(), &last);
            let (rank, group) = (group.rank(), Lazy { group, mail: Arc::clone(&mail) });
            scope.spawn(move || {
                let mut state = [7_u8; 100];
                let mut job = Checkpointer::open(config, Box::new(group)).unwrap();
                // SAFETY: the state lives as long as the job and is left alone during calls.
                unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
                assert!(job.checkpoint().unwrap().generation.is_some());
                last(&mut job, rank);
            });
        }
    });
}

#[test]
fn a_rank_whose_process_ends_after_the_last_call_takes_no_message_with_it() {
    for size in 2..=9 {
        for last in ["finish", "complete", "discard"] {
            let tiers = Tiers::new();
            ended_after(size, &config(&tiers), |job, _| call(job, last).unwrap());
        }
    }
}

#[test]
fn every_rank_hears_why_the_last_call_failed_before_another_rank_ends() {
    for size in 2..=9 {
        for last in ["finish", "complete", "discard"] {
            let tiers = Tiers::new();
            ended_after(size, &config(&tiers), |job, rank| match rank {
                0 => job.refuse(last, None, "no more room").unwrap(),
                _ => {
                    let told = call(job, last).unwrap_err().to_string();
                    assert!(told.contains("rank 0") && told.contains("no more room"), "{size} {last}: {told}");
                }
            });
            let tiers = Tiers::new();
            ended_after(size, &config(&tiers), |job, rank| {
                let told = job.prepare(last, (rank == 0).then_some("no more room")).unwrap_err().to_string();
                assert!(told.contains("rank 0") && told.contains("no more room"), "{size} {last}: {told}");
            });
        }
        let tiers = Tiers::new();
        let config = config(&tiers);
        ended_after(size, &config, |job, rank| {
            if rank == 0 {
                // The mark of completion cannot be put in its place.
                let durable = &config.durable.as_ref().unwrap().directory;
                std::fs::create_dir_all(durable.join(&config.job).join("completed/in the way")).unwrap();
            }
            let told = job.complete().unwrap_err().to_string();
            assert!(told.contains("completed"), "{size}: {told}");
        });
    }
}
