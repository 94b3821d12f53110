//! Shared directories that not all ranks see.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::config::Config;
use crate::group::thread_group;
use crate::session::{Checkpointer, clock};
use crate::testing::failing::{CREATING, Failing, LATE, NOTHING, PROBES, READ_ONLY};
use crate::testing::{Home, make_memory};
use crate::{Disk, Storage};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The notices of all ranks that open with a shared directory which fails in these ways, or why they do not.
fn opened(fails: &[u32]) -> Vec<Result<String, String>> {
    let home = Home::new();
    let [memory, shared] = ["memory", "pfs"].map(|name| home.path().join(name));
    make_memory(&memory);
    std::fs::create_dir(&shared).unwrap();
    let mut config = Config { drive_file: None, ..Config::new("job", &memory, None) };
    config.set("shared", shared.to_str().unwrap()).unwrap();
    config.set("shared.allow_memory", "yes").unwrap();
    config.health_file = home.path().join("health.json");
    // Left by a run that crashed.
    Disk.create_directory(&shared.join("job")).unwrap();
    std::fs::write(shared.join("job/probe-00c0ffee00c0ffee"), "").unwrap();
    let open = |(group, fails): (_, &u32)| {
        let failing = Failing::default();
        failing.0.store(*fails, Ordering::Relaxed);
        let storage: Arc<dyn Storage> = Arc::new(failing);
        let job = Checkpointer::open_with(&storage, clock::host(), "here", config.clone(), Box::new(group));
        job.map(|mut job| job.take_notices().join("\n")).map_err(|error| error.to_string())
    };
    let open = &open;
    let told = std::thread::scope(|scope| {
        let groups = thread_group(fails.len() as u32, Some(Duration::from_secs(60)));
        let threads: Vec<_> = groups.into_iter().zip(fails).map(|of| scope.spawn(move || open(of))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // A session that saved nothing leaves no directory.
    let left = Disk.list_directory(&shared.join("job")).unwrap_or_default();
    let left: Vec<_> = left.into_iter().filter(|name| name.to_str().unwrap().starts_with("probe")).collect();
    assert_eq!(left.len(), usize::from(fails.len() == 1), "one rank alone checks nothing: {left:?}");
    told
}

#[test]
fn ranks_of_one_directory_see_that_it_is_one_also_late() {
    for fails in [vec![NOTHING; 4], vec![NOTHING, LATE + 3, NOTHING], vec![NOTHING], vec![LATE + 1]] {
        let told = opened(&fails);
        assert!(told.iter().all(|said| said.as_ref().is_ok_and(|said| !said.contains("shared"))), "{told:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_looked_at_is_unknown_and_not_another_one() {
    for (fails, rank, why) in [([NOTHING, NOTHING, PROBES], 2, "read"), ([CREATING, NOTHING, NOTHING], 0, "create")] {
        for said in opened(&fails) {
            let said = said.unwrap();
            let wanted =
                format!("could not check whether all ranks see the same shared directory: rank {rank}: cannot {why}");
            assert!(said.contains(&wanted), "{said}");
        }
    }
}

#[test]
fn a_rank_that_sees_the_directory_and_cannot_write_there_is_told_to_all_at_once() {
    for said in opened(&[NOTHING, NOTHING, READ_ONLY]) {
        let said = said.unwrap();
        assert!(said.contains("rank 2: cannot write there: Read-only file system"), "{said}");
    }
}

#[test]
fn ranks_that_never_see_the_file_are_told_to_all_by_node() {
    let told = opened(&[NOTHING, LATE + 1_000_000, NOTHING, LATE + 1_000_000]);
    for said in told {
        let said = said.unwrap_err();
        let words =
            ["/pfs/job is not the same directory on all ranks", "rank 0 on here", "for ranks 1, 3 on here", "findmnt"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}
