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
    pub fn expect_one_shared(&self, ranks: &Ranks, nodes: &Nodes) -> Result<Option<String>, Error> {
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
mod tests;
