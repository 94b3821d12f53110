//! Jobs on several machines, each of which has a memory of its own.
#![allow(clippy::unwrap_used)]

use crate::group::thread_group;
use crate::session::Checkpointer;
use crate::{Config, Group};
use std::path::Path;
use std::time::Duration;

/// Bytes of each old rank's region: more than one piece that goes between ranks at once.
const BYTES: usize = (crate::session::reach::PIECE_BYTES as usize) + 12_345;

fn byte(rank: usize, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 7) as u8 ^ rank as u8
}

/// Runs a job with a rank on each of these machines, whose memory is a directory of that name.
fn run<T: Send>(home: &Path, hosts: &[&str], run: impl Fn(Checkpointer, usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let ranks = thread_group(hosts.len() as u32, Some(Duration::from_secs(300)));
        let start = |(group, host): (crate::group::ThreadGroup, &&str)| {
            let memory = home.join(host);
            std::fs::create_dir_all(&memory).unwrap();
            let mut config = Config::new("job", memory, None);
            config.health_file = home.join("health.json");
            config.set("policy", "memory").unwrap();
            let (host, run) = ((*host).to_owned(), &run);
            scope.spawn(move || {
                let rank = group.rank() as usize;
                run(Checkpointer::open_on(host, config, Box::new(group)).unwrap(), rank)
            })
        };
        let threads: Vec<_> = ranks.into_iter().zip(hosts).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn what_only_another_node_has_is_fetched_from_there() {
    let home = crate::testing::folder();
    run(home.path(), &["a", "a", "b", "b"], |mut job, rank| {
        let mut own: Vec<u8> = (0..BYTES).map(|at| byte(rank, at)).collect();
        // SAFETY: the vector outlives the job's last call, and is left alone during its calls.
        unsafe { job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        job.checkpoint().unwrap();
    });
    // Three ranks, of which the first now runs where the third and fourth ran.
    let whole = run(home.path(), &["b", "a", "b"], |mut job, rank| {
        let length = [0, 3 * BYTES - 7, BYTES + 7][rank];
        let mut own = vec![0u8; length];
        // SAFETY: as above.
        unsafe { job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        let restored = job.restart_resized().unwrap().unwrap();
        (own, restored.report)
    });
    let wanted = |at: usize| byte(at / BYTES, at % BYTES);
    let got: Vec<u8> = whole.iter().flat_map(|(own, _)| own.iter().copied()).collect();
    assert_eq!(got.len(), 4 * BYTES);
    assert_eq!((0..got.len()).find(|&at| got[at] != wanted(at)), None);
    assert!(whole[1].1.contains("rank 0's part from memory") && whole[1].1.contains("rank 1's part"), "{}", whole[1].1);
    // Without that node there is no whole checkpoint, and nobody gets half of one.
    std::fs::remove_dir_all(home.path().join("b/job")).unwrap();
    let errors = run(home.path(), &["b", "a", "b"], |mut job, rank| {
        let mut own = vec![0u8; [0, 3 * BYTES - 7, BYTES + 7][rank]];
        // SAFETY: as above.
        unsafe { job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        (job.restart_resized().unwrap_err().to_string(), own.iter().all(|byte| *byte == 0))
    });
    assert!(errors.iter().all(|(error, is_left)| *is_left && error.contains("none of them")), "{errors:?}");
}

#[test]
fn every_node_s_drive_gets_the_mark_and_keeps_no_more_than_it_is_to() {
    let home = crate::testing::folder();
    let hosts = ["a", "a", "b"];
    run(home.path(), &hosts, |mut job, rank| {
        let mut config = Config::new("drives", home.path().join(hosts[rank]), None);
        let drive = home.path().join(format!("ssd-{}", hosts[rank]));
        std::fs::create_dir_all(&drive).unwrap();
        config.set("durable", drive.to_str().unwrap()).unwrap();
        config.set("policy", "durable").unwrap();
        let group = job.ranks.take_group();
        let mut job = Checkpointer::open_on(hosts[rank].to_owned(), config, group).unwrap();
        for _ in 0..5 {
            job.checkpoint().unwrap();
        }
    });
    for host in ["a", "b"] {
        let found = std::fs::read_dir(home.path().join(format!("ssd-{host}/drives"))).unwrap();
        let generations: Vec<_> = found.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
        let marks = generations.iter().filter(|path| path.join("commit").exists()).count();
        assert_eq!((generations.len(), marks), (2, 2), "{host}");
    }
}
