//! Jobs whose ranks come back on other nodes than they saved on. A node is a folder: its memory, its drive, its name.
#![allow(clippy::unwrap_used)]

use crate::controller::{Policy, Surefoot};
use crate::group::thread_group;
use crate::session::{Checkpointer, Restored};
use crate::testing::{Home, make_memory};
use crate::{Config, Group};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a rank's region: more than a page in each column, and of another length on each rank.
fn bytes(rank: u32) -> usize {
    90_000 + rank as usize * 7_001
}

fn byte(rank: u32, step: u64, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 9) as u8 ^ (rank as u8).wrapping_mul(31) ^ step as u8
}

fn state(rank: u32, step: u64) -> Vec<u8> {
    (0..bytes(rank)).map(|at| byte(rank, step, at)).collect()
}

/// What keeps checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Memory,
    Partner,
    Parity,
    Ssd,
    MemoryAndSsd,
    MemoryAndShared,
}

fn config(home: &Path, node: &str, kept: Kept) -> Config {
    let folder = |kind: &str| -> PathBuf {
        let path = home.join(node).join(kind);
        if kind == "memory" {
            make_memory(&path)
        } else {
            fs::create_dir_all(&path).unwrap()
        };
        path
    };
    let mut config = Config::new("train", folder("memory"), None);
    config.health_file = home.join("health.json");
    let mut set = |key: &str, value: &str| config.set(key, value).unwrap();
    match kept {
        Kept::Memory => set("policy", "memory"),
        Kept::Partner => {
            set("policy", "memory");
            set("partner", "yes");
        }
        Kept::Parity => {
            set("policy", "memory");
            set("parity", "3+1");
        }
        Kept::Ssd => {
            set("durable", folder("ssd").to_str().unwrap());
            set("policy", "durable");
        }
        Kept::MemoryAndSsd => {
            set("durable", folder("ssd").to_str().unwrap());
            config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() });
        }
        Kept::MemoryAndShared => {
            let shared = home.join("shared");
            fs::create_dir_all(&shared).unwrap();
            set("shared", shared.to_str().unwrap());
            set("shared.staleness_max_s", "100000");
            set("policy", "memory");
        }
    }
    config
}

/// One rank of a job, with its state.
struct Rank {
    job: Checkpointer,
    rank: u32,
    state: Vec<u8>,
}

impl Rank {
    fn save(&mut self, step: u64) {
        self.state.copy_from_slice(&state(self.rank, step));
        fs::write(self.job.route_file("log").unwrap(), format!("rank {} step {step}", self.rank)).unwrap();
        assert!(self.job.checkpoint().unwrap().generation.is_some());
        self.job.wait_for_copies().unwrap();
        let notices: Vec<String> =
            self.job.take_notices().into_iter().filter(|notice| !notice.contains("does not protect")).collect();
        // In a container the medium may be hidden, and says so.
        let is_there = |notice: &String| notice.contains("is durable") || notice.contains("unknown medium");
        assert!(notices.iter().all(is_there), "{notices:?}");
    }

    /// The step that it is at after a restart, with what the restart said; nothing else than a whole step is taken.
    fn restart(&mut self) -> Result<Option<(u64, Restored)>, String> {
        self.state.fill(0xAA);
        let Some(restored) = self.job.restart().map_err(|error| error.to_string())? else { return Ok(None) };
        let step = (0..100).find(|&step| self.state == state(self.rank, step)).expect("a state that was saved");
        let log = fs::read_to_string(self.job.route_file("log").unwrap()).unwrap();
        assert_eq!(log, format!("rank {} step {step}", self.rank));
        Ok(Some((step, restored)))
    }
}

/// Runs a job with a rank on each of these nodes.
fn run<T: Send>(home: &Path, nodes: &[&str], kept: Kept, run: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let groups = thread_group(nodes.len() as u32, Some(Duration::from_secs(300)));
        let threads: Vec<_> = groups
            .into_iter()
            .zip(nodes)
            .map(|(group, node)| {
                let run = &run;
                scope.spawn(move || {
                    let rank = group.rank();
                    let config = config(home, node, kept);
                    let mut job = Checkpointer::open_on((*node).to_owned(), config, Box::new(group)).unwrap();
                    let mut state = state(rank, 0);
                    // SAFETY: the state lives as long as the job, never grows, and is left alone during calls.
                    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
                    run(Rank { job, rank, state })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn save(home: &Path, nodes: &[&str], kept: Kept, steps: std::ops::RangeInclusive<u64>) {
    run(home, nodes, kept, |mut rank| steps.clone().for_each(|step| rank.save(step)));
}

/// Restarts on these nodes; all ranks must come back to this step. Returns what they said.
fn back_to(home: &Path, nodes: &[&str], kept: Kept, step: u64) -> Vec<String> {
    let back = run(home, nodes, kept, |mut rank| rank.restart());
    let said = format!("{nodes:?} {kept:?}: {back:?}");
    let report = |back: Result<Option<(u64, Restored)>, String>| {
        let (at, restored) = back.unwrap_or_else(|_| panic!("{said}")).unwrap_or_else(|| panic!("{said}"));
        assert_eq!(at, step, "{said}");
        restored.report
    };
    back.into_iter().map(report).collect()
}

/// Restarts on these nodes, which must be refused on all ranks. Returns what they said.
fn refused(home: &Path, nodes: &[&str], kept: Kept) -> Vec<String> {
    let back = run(home, nodes, kept, |mut rank| rank.restart());
    back.into_iter().map(|back| back.expect_err("a refusal")).collect()
}

/// All orders of these nodes.
fn orders(nodes: &[&'static str]) -> Vec<Vec<&'static str>> {
    if nodes.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in nodes.iter().enumerate() {
        let rest: Vec<&str> = nodes.iter().enumerate().filter(|(of, _)| *of != at).map(|(_, node)| *node).collect();
        all.extend(orders(&rest).into_iter().map(|rest| [vec![*first], rest].concat()));
    }
    all
}

#[test]
fn ranks_come_back_on_whatever_node_of_the_job_they_are() {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    for kept in [Kept::Memory, Kept::Partner, Kept::Parity, Kept::Ssd, Kept::MemoryAndShared] {
        for count in 2..=4 {
            let home = Home::new();
            save(home.path(), &NODES[..count], kept, 1..=2);
            // Of four nodes every third order, which has those that leave some nodes in their places and some that do not.
            let step = if count == 4 { 3 } else { 1 };
            for order in orders(&NODES[..count]).into_iter().step_by(step) {
                back_to(home.path(), &order, kept, 2);
            }
        }
    }
}

#[test]
fn a_job_goes_on_from_other_nodes_and_back_and_the_memory_of_before_is_given_back() {
    for kept in [Kept::Memory, Kept::Partner, Kept::Parity, Kept::Ssd] {
        let home = Home::new();
        let orders = [["a", "b", "c"], ["b", "c", "a"], ["c", "b", "a"], ["a", "b", "c"]];
        save(home.path(), &orders[0], kept, 1..=2);
        for (order, step) in orders[1..].iter().zip([2, 3, 4]) {
            run(home.path(), order, kept, |mut rank| {
                let (at, _) = rank.restart().unwrap().unwrap();
                assert_eq!(at, step);
                // Killed in this order: the next one finds the newest on these nodes.
                rank.save(step + 1);
            });
        }
        back_to(home.path(), &["b", "a", "c"], kept, 5);
        run(home.path(), &["b", "a", "c"], kept, |mut rank| {
            rank.restart().unwrap().unwrap();
            (6..=8).for_each(|step| rank.save(step));
        });
        if kept == Kept::Memory {
            for (node, rank) in [("b", 0), ("a", 1), ("c", 2)] {
                let job = home.path().join(node).join("memory/train");
                let left = |rank: u32| job.join(format!("rank-{rank:05}")).exists();
                assert_eq!([0, 1, 2].map(left), [0, 1, 2].map(|of| of == rank), "{node}");
            }
        }
        back_to(home.path(), &["a", "b", "c"], kept, 8);
    }
}

#[test]
fn a_spare_node_that_shifts_the_ranks_costs_nothing_that_partner_or_parity_keeps() {
    for kept in [Kept::Partner, Kept::Parity] {
        for lost in 0..3 {
            let home = Home::new();
            let nodes = ["a", "b", "c"];
            save(home.path(), &nodes, kept, 1..=2);
            fs::remove_dir_all(home.path().join(nodes[lost])).unwrap();
            let mut left: Vec<&str> = nodes.to_vec();
            left.remove(lost);
            // The spare one comes last, so that the ranks behind the lost node move up; then first, and all move.
            for order in [[left[0], left[1], "spare"], ["spare", left[1], left[0]]] {
                let said = back_to(home.path(), &order, kept, 2).join("\n");
                let word = if kept == Kept::Partner { "from its partner" } else { "rebuilt from parity" };
                assert!(said.contains(word), "{said}");
                let are_moved = order != [left[0], left[1], "spare"] || lost < 2;
                assert_eq!(said.contains("read on"), are_moved || kept == Kept::Partner, "{order:?}: {said}");
            }
            run(home.path(), &["spare", left[1], left[0]], kept, |mut rank| {
                rank.restart().unwrap().unwrap();
                rank.save(3);
            });
            back_to(home.path(), &[left[0], left[1], "spare"], kept, 3);
        }
    }
}

#[test]
fn a_drive_of_another_node_serves_where_its_memory_is_lost() {
    let home = Home::new();
    let kept = Kept::MemoryAndSsd;
    save(home.path(), &["a", "b", "c"], kept, 1..=2);
    fs::remove_dir_all(home.path().join("b/memory")).unwrap();
    let said = back_to(home.path(), &["b", "c", "a"], kept, 2);
    assert!(said[0].contains("from memory") && said[0].contains("read on a"), "{said:?}");
    assert!(said[1].contains("from the SSD") && said[1].contains("read on b"), "{said:?}");
    assert!(said[2].contains("from memory") && said[2].contains("read on c"), "{said:?}");
}

#[test]
fn a_bad_part_on_another_node_is_repaired_there_or_an_older_one_is_taken() {
    let home = Home::new();
    save(home.path(), &["a", "b"], Kept::Memory, 1..=2);
    let image = home.path().join("b/memory/train/rank-00001/slot-1.image");
    let content = fs::read(&image).unwrap();
    let rows = content.len() / 4096 / 19;
    let damage = |columns: &[usize]| {
        let mut content = content.clone();
        columns.iter().for_each(|column| content[column * rows * 4096 + 5] ^= 1);
        fs::write(&image, content).unwrap();
    };
    damage(&[0, 4, 9]);
    let said = back_to(home.path(), &["b", "a"], Kept::Memory, 2);
    assert!(said[1].contains("3 repaired") && said[1].contains("read on b"), "{said:?}");
    damage(&[0, 4, 9, 12]);
    let said = back_to(home.path(), &["b", "a"], Kept::Memory, 1);
    assert!(said[1].contains("refused before: generation 2"), "{said:?}");
}

#[test]
fn what_lies_on_a_node_that_is_gone_is_a_refusal_that_names_it() {
    for kept in [Kept::Memory, Kept::Ssd] {
        let home = Home::new();
        save(home.path(), &["a", "b", "c"], kept, 1..=2);
        for nodes in [["a", "new", "b"], ["new", "b", "a"]] {
            for said in refused(home.path(), &nodes, kept) {
                let wanted = "generation 2: missing: the part of rank 2, on c, which is no node of this run";
                assert!(said.contains(wanted) && said.contains("job \"train\""), "{kept:?}: {said}");
            }
        }
        // All but one: that one knows of the others.
        for said in refused(home.path(), &["new", "newer", "b"], kept) {
            let wanted = "the part of rank 0, on a, which is no node of this run; the part of rank 2, on c";
            assert!(said.contains(wanted), "{kept:?}: {said}");
        }
        // A node that is there and has lost its part is not one that is away.
        fs::remove_dir_all(home.path().join("c")).unwrap();
        for said in refused(home.path(), &["a", "b", "c"], kept) {
            assert!(said.contains("the part of rank 2, written on c and no longer there"), "{kept:?}: {said}");
        }
        // And with all of them it goes on.
        let home = Home::new();
        save(home.path(), &["a", "b", "c"], kept, 1..=2);
        refused(home.path(), &["a", "new", "b"], kept);
        back_to(home.path(), &["c", "a", "b"], kept, 2);
    }
}

#[test]
fn two_lost_nodes_are_too_many_for_one_row_of_parity_and_are_named() {
    let home = Home::new();
    save(home.path(), &["a", "b", "c", "d"], Kept::Parity, 1..=1);
    for said in refused(home.path(), &["d", "b", "new", "newer"], Kept::Parity) {
        assert!(said.contains("generation 1") && said.contains("job \"train\""), "{said}");
        assert!(said.contains("the part of rank 0, on a, which is no node of this run"), "{said}");
        assert!(said.contains("the part of rank 2, on c, which is no node of this run"), "{said}");
    }
    back_to(home.path(), &["d", "b", "new", "c"], Kept::Parity, 1);
}

#[test]
fn on_other_nodes_altogether_the_shared_directory_says_where_the_job_ran() {
    let home = Home::new();
    let kept = Kept::MemoryAndShared;
    let none = run(home.path(), &["x", "y"], kept, |mut rank| rank.restart());
    assert_eq!(none, [Ok(None), Ok(None)], "a new job begins");
    save(home.path(), &["a", "b"], kept, 1..=2);
    for said in refused(home.path(), &["x", "y"], kept) {
        assert!(said.contains("job \"train\" saved checkpoints on a, b, which are no nodes of this run"), "{said}");
        assert!(said.contains("shared/train/nodes"), "{said}");
    }
    // Memory that is gone everywhere, as after a power failure, is no reason to refuse.
    fs::remove_dir_all(home.path().join("a")).unwrap();
    fs::remove_dir_all(home.path().join("b")).unwrap();
    let none = run(home.path(), &["b", "a"], kept, |mut rank| rank.restart());
    assert_eq!(none, [Ok(None), Ok(None)]);
}

#[test]
fn an_older_run_s_higher_number_does_not_win_over_newer_work() {
    for kept in [Kept::Memory, Kept::Ssd, Kept::Partner] {
        let home = Home::new();
        save(home.path(), &["a", "a"], kept, 1..=9);
        // A run on another node that found nothing, and began from 1.
        save(home.path(), &["b", "b"], kept, 51..=53);
        for nodes in [["a", "b"], ["b", "a"]] {
            back_to(home.path(), &nodes, kept, 53);
        }
        // It goes on with numbers beyond both, and never falls back to the older run.
        run(home.path(), &["a", "b"], kept, |mut rank| {
            rank.restart().unwrap().unwrap();
            rank.save(60);
        });
        let said = back_to(home.path(), &["b", "a"], kept, 60);
        assert!(said[0].contains("generation 10 "), "{said:?}");
        run(home.path(), &["a", "b"], kept, |mut rank| {
            rank.restart().unwrap().unwrap();
            (61..=62).for_each(|step| rank.save(step));
        });
        back_to(home.path(), &["b", "a"], kept, 62);
    }
}

#[test]
fn newer_work_that_is_out_of_reach_is_said_when_an_older_checkpoint_is_taken() {
    let home = Home::new();
    save(home.path(), &["a", "b"], Kept::Ssd, 1..=2);
    // The next ones are in memory only, and with them a node is lost that had the drive of nobody else's part.
    run(home.path(), &["a", "b"], Kept::Ssd, |mut rank| {
        rank.restart().unwrap().unwrap();
    });
    let both = |node: &str| {
        let mut config = config(home.path(), node, Kept::Ssd);
        config.set("policy", "memory").unwrap();
        config
    };
    let nodes = ["a", "b"];
    std::thread::scope(|scope| {
        for (group, node) in thread_group(2, Some(Duration::from_secs(300))).into_iter().zip(nodes) {
            let both = &both;
            scope.spawn(move || {
                let rank = group.rank();
                let mut job = Checkpointer::open_on(node.to_owned(), both(node), Box::new(group)).unwrap();
                let mut state = state(rank, 7);
                // SAFETY: the state outlives the job's last call, and is left alone during its calls.
                unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
                job.restart().unwrap().unwrap();
                job.checkpoint().unwrap();
            });
        }
    });
    fs::remove_dir_all(home.path().join("b/memory/train")).unwrap();
    for said in back_to(home.path(), &["a", "b"], Kept::Ssd, 2) {
        let wanted =
            "newer and not within reach: generation 3: missing: the part of rank 1, written on b and no longer there";
        assert!(said.contains(wanted), "{said}");
    }
}

/// By the tree of the nodes, which a rank that is just opening does not know, they would wait for each other.
#[test]
fn a_rank_of_several_nodes_that_opens_again_beside_any_call_is_told_so_like_all_others() {
    type Made = fn(&mut Checkpointer) -> Result<(), crate::Error>;
    let calls: [(&str, Made); 7] = [
        ("need", |job| job.need_checkpoint().map(drop)),
        ("save", |job| job.checkpoint().map(drop)),
        ("save to memory", |job| job.checkpoint_to(crate::Place::Memory).map(drop)),
        ("restart", |job| job.restart().map(drop)),
        ("wait_for_copies", Checkpointer::wait_for_copies),
        ("finish", |job| job.finish().map(drop)),
        ("save (preparing it)", |job| job.prepare("save", None)),
    ];
    let home = Home::new();
    for nodes in [&["a", "a", "b", "b"][..], &["a", "b", "b"], &["a", "b", "a", "c", "b"]] {
        for (name, call) in &calls {
            for odd in 0..nodes.len() as u32 {
                let told = run(home.path(), nodes, Kept::Memory, |mut rank| {
                    if rank.rank != odd {
                        return call(&mut rank.job).unwrap_err().to_string();
                    }
                    // It has lost its handle, and never closed it.
                    let (node, group) = (nodes[odd as usize], rank.job.ranks.take_group());
                    let again = Checkpointer::open_on(node.to_owned(), config(home.path(), node, Kept::Memory), group);
                    again.err().unwrap().to_string()
                });
                for why in told {
                    let is_told = why.contains("out of step") && why.contains(&format!("rank {odd} calls open"));
                    assert!(is_told && why.contains(&format!(" {name}")), "{nodes:?}, {name} without {odd}: {why}");
                }
            }
        }
    }
}
