//! What ranks say to each other in a decision and in a checkpoint: counted with threads as ranks, and reckoned for jobs that
//! no test machine runs.
//!
//! `cargo bench -p surefoot-checkpoint --bench scale`: counts at 2 to 64 ranks on one node; reckons up to 65,536 on nodes of
//! 64. A directory on a memory file system is taken from SUREFOOT_BENCH_MEMORY, /dev/shm by default. Counts are those of the
//! busiest rank, beside a checkpoint's content.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, Traffic, thread_group};
use surefoot_checkpoint::session::scale;
use surefoot_checkpoint::{Checkpointer, Config, Policy};

fn main() {
    let base = std::env::var_os("SUREFOOT_BENCH_MEMORY").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    println!("counted, one node: messages sent, received, bytes both ways of the busiest rank");
    println!("{:>6} | {:>22} | {:>22} | reckoned: need", "ranks", "need", "save in memory");
    for ranks in [2, 4, 8, 16, 32, 64] {
        let home = tempfile::tempdir_in(&base).expect("a directory for the benchmark");
        let [asked, saved] = counted(ranks, home.path());
        let cost = scale::of_agreement(ranks, ranks);
        let shown = |[sent, received, bytes]: [u64; 3]| format!("{sent:4} {received:4} {bytes:9}");
        let reckoned = shown([cost.sent_max, cost.received_max, cost.bytes_max]);
        println!("{ranks:>6} | {:>22} | {:>22} | {reckoned}", shown(asked), shown(saved));
    }
    println!("\nreckoned, 64 ranks on a node; steps are messages that wait for one another");
    println!("{:>6} | sent rcvd    bytes steps | a save in memory:    bytes steps", "ranks");
    for ranks in (1..=16).map(|power| 1u32 << power) {
        let cost = scale::of_agreement(ranks, 64);
        let first = if ranks > 64 { scale::OF_A_CALL } else { 0 };
        let count = first + scale::OF_A_SAVE_IN_MEMORY;
        println!(
            "{ranks:>6} | {:>4} {:>4} {:>8} {:>5} |                 {:>10} {:>5}",
            cost.sent_max,
            cost.received_max,
            cost.bytes_max,
            cost.steps,
            count * cost.bytes_max,
            count * cost.steps
        );
    }
}

/// Messages sent, received, and bytes of the busiest rank: of a decision, and of a save in memory.
fn counted(ranks: u32, home: &Path) -> [[u64; 3]; 2] {
    let together = Barrier::new(ranks as usize);
    let of_ranks: Vec<[[u64; 3]; 2]> = std::thread::scope(|scope| {
        let run = |group: ThreadGroup| {
            let together = &together;
            scope.spawn(move || rank(group, home, together))
        };
        let threads: Vec<_> = thread_group(ranks, None).into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    });
    let most = |what: usize, number: usize| of_ranks.iter().map(|of_rank| of_rank[what][number]).max().unwrap_or(0);
    [0, 1].map(|what| [0, 1, 2].map(|number| most(what, number)))
}

fn rank(group: ThreadGroup, home: &Path, together: &Barrier) -> [[u64; 3]; 2] {
    let traffic = group.traffic();
    let mut config = Config::new("job", home, None);
    config.policy = Policy::Fixed(Fixed::Memory);
    let mut state = vec![7u8; 50_000];
    let mut job = Checkpointer::open(config, Box::new(group)).expect("the tier");
    // SAFETY: the vector outlives the job, and is left alone during its calls.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).expect("a region") };
    job.checkpoint().expect("a checkpoint");
    let mut count = |work: &mut dyn FnMut(&mut Checkpointer)| {
        together.wait();
        let before = now(&traffic);
        work(&mut job);
        let after = now(&traffic);
        [0, 1, 2].map(|number| after[number] - before[number])
    };
    let asked = count(&mut |job| drop(job.need_checkpoint().expect("a decision")));
    let saved = count(&mut |job| drop(job.checkpoint().expect("a checkpoint")));
    [asked, saved]
}

fn now(traffic: &Arc<Traffic>) -> [u64; 3] {
    let ((sent, sent_bytes), (received, received_bytes)) = (traffic.sent(), traffic.received());
    [sent, received, sent_bytes + received_bytes]
}
