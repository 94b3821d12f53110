//! Ranks that agree, fail, go away and get out of step.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::group::{ThreadGroup, thread_group};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs these ranks of a group, two on each node.
fn run<T: Send>(groups: Vec<ThreadGroup>, run: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let start = |group: ThreadGroup| {
        let mut ranks = Ranks::new(Box::new(group));
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
fn ranks_that_are_out_of_step_are_told_so() {
    let told = run(thread_group(4, Some(PATIENCE)), |ranks| {
        ranks.count.set(if ranks.rank() == 3 { 5 } else { 4 });
        ranks.sum(1).unwrap_err().to_string()
    });
    assert!(told.iter().take(3).all(|why| why.contains("rank 3 is in its agreement 5")), "{told:?}");
    assert!(told[3].contains("agreement 4"), "{told:?}");
}
