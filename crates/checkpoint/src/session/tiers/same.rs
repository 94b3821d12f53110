//! Whether the shared directory is one directory for all ranks. Where its file system is not mounted on a node, or a rank
//! has mounts of its own, the same path leads elsewhere: each rank then writes to a directory that the others never read,
//! and what is called complete there comes back on no other node.

use crate::Error;
use crate::session::clock;
use crate::session::nodes::Nodes;
use crate::session::ranks::{Message, Ranks, ranks_in_words};
use crate::session::tiers::Tiers;
use crate::tier::Durable;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use surefoot_model::CheckpointTier as Tier;

/// How long a rank waits for the file: file systems that agree on names late do so within seconds.
const WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// What a rank saw, as all ranks hear it where one does not see the file.
const SEES: u8 = 0;
const MISSES: u8 = 1;

impl Tiers {
    /// Has rank 0 write a small file to the shared directory, and every other rank read it. Returns a notice where that cannot
    /// be checked.
    ///
    /// # Errors
    /// On all ranks: [`Error::Option`] with the ranks that do not see the file; [`Error::Group`].
    pub(in crate::session) fn expect_one_shared(&self, ranks: &Ranks, nodes: &Nodes) -> Result<Option<String>, Error> {
        let Some(shared) = self.targets().find(|target| target.kind == Tier::Shared) else { return Ok(None) };
        if ranks.size() == 1 {
            return Ok(None);
        }
        // Without this tier on rank 0 no checkpoint is complete there, and a notice names it already.
        let tier = &shared.tier;
        let is_open = tier.fault().is_none();
        let nonce = clock::nonce();
        let mut message = Message::default();
        if ranks.is_root() && is_open {
            match tier.write_probe(nonce) {
                Ok(()) => message.sums[0] = 1,
                Err(error) => message.fail(0, &error.reason()),
            }
        }
        let looked = ranks.tell(message, |all| all.of_root.nonce = nonce).and_then(|told| {
            if told.sums[0] == 0 {
                return Ok(told.first_failure().map(|(rank, why)| unchecked(rank, why)));
            }
            let sees = if is_open { look(tier, told.of_root.nonce) } else { Ok(true) };
            compare(ranks, nodes, &sees, tier)
        });
        if ranks.is_root() && is_open {
            tier.remove_probe(nonce);
        }
        looked
    }
}

/// Looks for the file until it is there.
fn look(tier: &Durable, nonce: u64) -> Result<bool, Error> {
    let until = Instant::now() + WAIT;
    loop {
        match tier.sees_probe(nonce) {
            Ok(false) if Instant::now() < until => std::thread::sleep(PAUSE),
            seen => return seen,
        }
    }
}

/// Has all ranks hear who does not see the file, or cannot write beside it.
fn compare(ranks: &Ranks, nodes: &Nodes, sees: &Result<bool, Error>, tier: &Durable) -> Result<Option<String>, Error> {
    let misses = matches!(sees, Ok(false));
    let unwritable = tier.unwritable().filter(|_| matches!(sees, Ok(true)));
    let mut message = Message { sums: [u64::from(misses), u64::from(unwritable.is_some())], ..Message::default() };
    match (sees, unwritable) {
        (Err(error), _) => message.fail(ranks.rank(), &error.reason()),
        (Ok(_), Some(why)) => message.fail(ranks.rank(), &format!("cannot write there: {why}")),
        (Ok(_), None) => {}
    }
    let told = ranks.tell(message, |_| ())?;
    if told.sums[0] == 0 {
        let said = |(rank, why)| if told.sums[1] > 0 { unusable(rank, why) } else { unchecked(rank, why) };
        return Ok(told.first_failure().map(said));
    }
    let all = ranks.gather_all(&[if misses { MISSES } else { SEES }])?;
    let mut by_node: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, _) in (0..).zip(&all).filter(|(_, said)| said.first() == Some(&MISSES)) {
        by_node.entry(nodes.name_of(rank)).or_default().push(rank);
    }
    let who: Vec<String> =
        by_node.iter().map(|(node, of_node)| format!("{} on {node}", ranks_in_words(of_node))).collect();
    let directory = tier.directory().display();
    let why = format!(
        "{directory} is not the same directory on all ranks: a file that rank 0 on {} wrote there is missing after {} s for {}. Mount the \
         same file system at this path on each node and in each container (`findmnt -T {directory}` shows what is mounted), or \
         set `shared` to a directory that all ranks share",
        nodes.name_of(0),
        WAIT.as_secs(),
        who.join(" and "),
    );
    Err(Error::Option { option: "shared", why })
}

fn unusable(rank: u32, why: &str) -> String {
    format!(
        "not every rank can use the shared directory: rank {rank}: {why}. Until that is mended, checkpoints that go there fail"
    )
}

fn unchecked(rank: u32, why: &str) -> String {
    format!(
        "could not check whether all ranks see the same shared directory: rank {rank}: {why}. If they do not, checkpoints there cannot \
         be restored"
    )
}

#[cfg(test)]
mod tests {
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
        for (fails, rank, why) in [([NOTHING, NOTHING, PROBES], 2, "read"), ([CREATING, NOTHING, NOTHING], 0, "create")]
        {
            for said in opened(&fails) {
                let said = said.unwrap();
                let wanted = format!(
                    "could not check whether all ranks see the same shared directory: rank {rank}: cannot {why}"
                );
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
            let words = [
                "/pfs/job is not the same directory on all ranks",
                "rank 0 on here",
                "for ranks 1, 3 on here",
                "findmnt",
            ];
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
