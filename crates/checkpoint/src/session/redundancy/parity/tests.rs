//! A job on several machines, each of which has a memory of its own, and one of which is lost.
#![allow(clippy::unwrap_used)]

use crate::group::{ThreadGroup, thread_group};
use crate::session::Checkpointer;
use crate::testing::{Home, make_memory};
use crate::{Config, Group};
use std::path::Path;
use std::time::Duration;

/// Bytes of a rank's region: more than one piece of a chunk.
fn bytes(rank: usize) -> usize {
    2 * super::PIECE_BYTES as usize + rank * 100_000
}

fn byte(rank: usize, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 9) as u8 ^ rank as u8
}

/// Runs a job with two ranks on each of these machines; returns what each rank got.
fn run<T: Send>(home: &Path, nodes: &[&str], parity: &str, run: impl Fn(Checkpointer, usize) -> T + Sync) -> Vec<T> {
    let ranks = thread_group(2 * nodes.len() as u32, Some(Duration::from_secs(300)));
    let start = |group: ThreadGroup| {
        let rank = group.rank() as usize;
        let host = nodes[rank / 2];
        let memory = home.join(host);
        make_memory(&memory);
        let mut config = Config::new("job", memory, None);
        config.health_file = home.join("health.json");
        config.set("policy", "memory").unwrap();
        config.set("parity", parity).unwrap();
        run(Checkpointer::open_on(host.to_owned(), config, Box::new(group)).unwrap(), rank)
    };
    std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = ranks.into_iter().map(|group| scope.spawn(move || start(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn save(mut job: Checkpointer, rank: usize) -> Vec<String> {
    let mut own: Vec<u8> = (0..bytes(rank)).map(|at| byte(rank, at)).collect();
    // SAFETY: the vector outlives the job's last call, and is left alone during its calls.
    unsafe { job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
    job.checkpoint().unwrap();
    job.take_notices()
}

fn restart(mut job: Checkpointer, rank: usize) -> Result<String, String> {
    let mut own = vec![0; bytes(rank)];
    // SAFETY: as above.
    unsafe { job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
    let restored = job.restart().map_err(|error| error.to_string())?.unwrap();
    assert_eq!((0..own.len()).find(|&at| own[at] != byte(rank, at)), None, "rank {rank}");
    Ok(restored.report)
}

#[test]
fn the_loss_of_a_whole_node_is_made_good_even_when_another_takes_its_place() {
    let home = Home::new();
    let notices = run(home.path(), &["a", "b", "c", "d"], "3+1", save);
    assert!(notices.iter().all(Vec::is_empty), "{notices:?}");
    std::fs::remove_dir_all(home.path().join("c")).unwrap();
    // The new node has another name, so that the groups would be others now: those that saved count.
    let reports = run(home.path(), &["a", "b", "a new one", "d"], "3+1", restart);
    for (rank, report) in reports.into_iter().enumerate() {
        let word = if rank / 2 == 2 { "rebuilt from parity" } else { "from memory" };
        let report = report.unwrap();
        assert!(report.contains(word), "{report}");
    }
    // Two nodes are one too many.
    std::fs::remove_dir_all(home.path().join("a")).unwrap();
    for report in run(home.path(), &["a", "b", "c", "d"], "3+1", restart) {
        assert!(report.unwrap_err().contains("no checkpoint can be restored"));
    }
}

#[test]
fn ranks_that_lie_too_close_together_are_told() {
    let home = Home::new();
    let notices = run(home.path(), &["a", "b"], "3+1", save);
    assert!(notices.iter().all(|notices| notices[0].contains("2 of the ranks that share parity are on one node")));
}
