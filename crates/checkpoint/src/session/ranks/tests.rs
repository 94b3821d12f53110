//! Ranks that agree, fail, go away and get out of step.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::generation::GenerationId;
use crate::group::{ThreadGroup, thread_group};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);

/// Runs these ranks of a group, two on each node.
fn run<T: Send>(groups: Vec<ThreadGroup>, run: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let start = |group: ThreadGroup| {
        let mut ranks = Ranks::new(Box::new(group), "job");
        let of_ranks: Vec<u32> = (0..ranks.size()).map(|rank| rank / 2).collect();
        ranks.tree = Tree::new(&of_ranks, ranks.rank());
        run(ranks)
    };
    std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(move || start(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn numbers_of_all_ranks_come_together_and_rank_0_s_word_goes_to_all() {
    for size in [1, 2, 7, 16] {
        let told = run(thread_group(size, Some(PATIENCE)), |ranks| {
            let own = u64::from(ranks.rank() + 1);
            let most = ranks.most_of_each([own, 100 - own]).unwrap();
            (ranks.sum(own).unwrap(), most, ranks.of_root(own).unwrap())
        });
        let sum = (1..=u64::from(size)).sum();
        assert!(told.iter().all(|told| *told == (sum, [u64::from(size), 99], 1)), "{told:?}");
    }
}

#[test]
fn what_ranks_of_a_node_need_is_added_up_there() {
    let told = run(thread_group(5, Some(PATIENCE)), |ranks| {
        let bytes = 10 + u64::from(ranks.rank());
        let node = OfNode { size_bytes: bytes, durable_needed_bytes: bytes, ..OfNode::default() };
        let own = Message { gathered: Gathered { node, ..Gathered::default() }, ..Message::default() };
        let all = ranks.tell(own, |_| ()).unwrap().gathered;
        (all.node_size_bytes, all.durable_needed_bytes)
    });
    // 10 and 11, 12 and 13, 14.
    assert_eq!(told, [(25, 60); 5]);
}

#[test]
fn what_fails_on_one_fails_on_all_and_the_first_is_named() {
    let told = run(thread_group(6, Some(PATIENCE)), |ranks| {
        let own = match ranks.rank() {
            2 | 4 => Err(Error::Option { option: "durable", why: format!("{} has no room", ranks.rank()) }),
            rank => Ok(rank),
        };
        let failed = ranks.all_or_none(own).unwrap_err();
        // They go on from there.
        (failed, ranks.all_or_none(Ok(7)).unwrap())
    });
    for (rank, (error, after)) in told.into_iter().enumerate() {
        assert_eq!(after, 7);
        match (rank, error) {
            (2 | 4, Error::Option { why, .. }) => assert!(why.starts_with(&rank.to_string())),
            (_, Error::OtherRank { rank: 2, why }) => assert!(why.contains("2 has no room"), "{why}"),
            (_, error) => panic!("{rank}: {error:?}"),
        }
    }
}

#[test]
fn a_rank_that_is_gone_is_an_error_on_all_others_and_none_waits_for_it() {
    for gone in 0..9 {
        let mut groups = thread_group(9, Some(PATIENCE));
        drop(groups.remove(gone));
        let begun = Instant::now();
        let told = run(groups, |ranks| ranks.sum(1).unwrap_err());
        for error in told {
            let Error::Group { why } = error else { panic!("{error:?}") };
            assert!(why.contains("rank"), "{why}");
        }
        assert!(begun.elapsed() < PATIENCE / 2, "{gone}: {:?}", begun.elapsed());
    }
}

#[test]
fn ranks_that_are_out_of_step_are_all_told_who_is_where() {
    let newest = |number: u64| GenerationId { number, nonce: 1 };
    for size in 2..10 {
        for odd in 0..size {
            let told = run(thread_group(size, Some(PATIENCE)), |ranks| {
                let call = if ranks.rank() == odd { Call::Save(None) } else { Call::Need };
                ranks.begin(call, false, newest(4)).unwrap();
                let both = [ranks.sum(1).unwrap_err().to_string(), ranks.sum(1).unwrap_err().to_string()];
                (both, ranks.begin(Call::Need, false, newest(4)).is_ok())
            });
            let others: Vec<u32> = (0..size).filter(|rank| *rank != odd).collect();
            let verb = if others.len() == 1 { "calls" } else { "call" };
            let wanted = [format!("rank {odd} calls save"), format!("{} {verb} need", ranks_in_words(&others))];
            for (said, goes_on) in &told {
                assert!(said.iter().all(|said| wanted.iter().all(|one| said.contains(one))), "{said:?}");
                assert!(goes_on, "only a call's end ends the session");
            }
        }
    }
}

#[test]
fn ranks_that_count_other_ranks_or_another_generation_or_session_are_told_so() {
    let told = run(thread_group(4, Some(PATIENCE)), |ranks| {
        let generation = if ranks.rank() == 3 { 5 } else { 4 };
        ranks.begin(Call::Need, false, GenerationId { number: generation, nonce: 9 }).unwrap();
        ranks.sum(1).unwrap_err().to_string()
    });
    let wanted = "rank 3 calls need, after generation 5 (0000000000000009)";
    assert!(told.iter().all(|why| why.contains(wanted) && why.contains("ranks 0-2 call need")), "{told:?}");
    let told = run(thread_group(4, Some(PATIENCE)), |mut ranks| {
        ranks.job = if ranks.rank() == 1 { "other".into() } else { "job".into() };
        ranks.stamp.set(Stamp { session: u64::from(ranks.rank() == 1), ..ranks.stamp.get() });
        ranks.sum(1).unwrap_err().to_string()
    });
    assert!(told.iter().all(|why| why.contains("rank 1 calls open of job \"other\"")), "{told:?}");
    let told = run(thread_group(4, Some(PATIENCE)), |ranks| {
        let own = Message { rank: ranks.rank(), size: 4, stamp: ranks.stamp.get(), ..Message::default() };
        let wrong = Message { size: 5, ..own.clone() };
        [own, wrong].map(|message| ranks.check(message, ranks.stamp.get(), ranks.rank()).err())
    });
    for [own, wrong] in told {
        let wrong = wrong.unwrap().why;
        assert!(own.is_none() && wrong.contains("of 5") && wrong.contains("counts 4 ranks"), "{wrong}");
    }
}

#[test]
fn a_session_that_ended_says_so_and_sends_nothing() {
    let group = thread_group(2, Some(PATIENCE)).remove(0);
    let traffic = group.traffic();
    let ranks = Ranks::new(Box::new(group), "job");
    ranks.end("rank 1 is gone");
    ranks.end("something later");
    let why = ranks.begin(Call::Save(None), false, GenerationId { number: 1, nonce: 1 }).unwrap_err().to_string();
    assert!(why.contains("rank 1 is gone") && why.contains("takes none any more"), "{why}");
    assert_eq!(traffic.sent().0, 0);
}

/// A rank of another release: what it says is of that one, and what it hears is of another one to it.
struct OtherRelease(ThreadGroup);

impl OtherRelease {
    fn is_message(bytes: &[u8]) -> bool {
        bytes.len() == BYTES
    }

    fn of(bytes: &[u8], major: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[16..24].copy_from_slice(&(major << 32).to_le_bytes());
        bytes
    }
}

impl Group for OtherRelease {
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn size(&self) -> u32 {
        self.0.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        assert!(Self::is_message(bytes), "nothing else is said before the releases are known to be the same");
        let mut said = Self::of(bytes, 9);
        self.0.broadcast(&mut said, root)?;
        bytes.copy_from_slice(&Self::of(&said, if root == self.rank() { 9 } else { 3 }));
        Ok(())
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        panic!("{} bytes are told to a rank of another release", own.len());
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        assert!(send.is_empty() || Self::is_message(send));
        let said = if send.is_empty() { Vec::new() } else { Self::of(send, 9) };
        self.0.exchange(to, &said, from, receive)?;
        if !receive.is_empty() {
            receive.copy_from_slice(&Self::of(receive, 3));
        }
        Ok(())
    }
}

#[test]
fn a_rank_of_another_release_is_named_on_all_ranks_before_anything_else_is_said() {
    for size in 2..=5 {
        for odd in 0..size {
            let groups = thread_group(size, Some(PATIENCE)).into_iter();
            let told: Vec<Error> = std::thread::scope(|scope| {
                let open = |group: ThreadGroup| {
                    let group: Box<dyn Group> =
                        if group.rank() == odd { Box::new(OtherRelease(group)) } else { Box::new(group) };
                    Ranks::new(group, "job").agree_on_settings(Ok(vec![("job", "job".into())])).unwrap_err()
                };
                let threads: Vec<_> = groups.map(|group| scope.spawn(move || open(group))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for (rank, error) in told.into_iter().enumerate() {
                let Error::Group { why } = error else { panic!("{error:?}") };
                let is_named =
                    why.contains("Surefoot 9.0.0 (protocol 3)") || why.contains("Surefoot 3.0.0 (protocol 3)");
                assert!(is_named && why.contains("run one release on all ranks"), "{size}, {odd}, {rank}: {why}");
            }
        }
    }
}
