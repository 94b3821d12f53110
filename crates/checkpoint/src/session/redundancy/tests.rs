//! Redundancy that does not protect from what it is there for says so, when the job opens and in every report.
#![allow(clippy::unwrap_used)]

use crate::Config;
use crate::group::thread_group;
use crate::session::Checkpointer;
use crate::testing::{Home, make_memory};
use std::time::Duration;

/// What each rank is told by a job on these nodes: at its opening, and by each report.
fn told(nodes: &[&str], settings: &[(&str, &str)]) -> Vec<(Vec<String>, Vec<String>)> {
    let home = Home::new();
    let on = |node: &str| {
        let tier = |kind: &str| {
            let path = home.path().join(node).join(kind);
            if kind == "memory" {
                make_memory(&path)
            } else {
                std::fs::create_dir_all(&path).unwrap()
            };
            path
        };
        let mut config = Config { drive_file: None, ..Config::new("job", tier("memory"), Some(tier("ssd"))) };
        config.health_file = home.path().join("health.json");
        settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
        config
    };
    std::thread::scope(|scope| {
        let on = &on;
        let groups = thread_group(nodes.len() as u32, Some(Duration::from_secs(300))).into_iter().zip(nodes);
        let threads: Vec<_> = groups
            .map(|(group, node)| {
                scope.spawn(move || {
                    let mut job = Checkpointer::open_on((*node).to_owned(), on(node), Box::new(group)).unwrap();
                    let opening = job.take_notices();
                    let mut state = vec![1u8; 10_000];
                    // SAFETY: the state lives as long as the job, never grows, and is left alone during calls.
                    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
                    job.checkpoint().unwrap();
                    let scrubbed = job.scrub().join("\n");
                    let reports = vec![
                        job.finish().unwrap().said,
                        job.restart().unwrap().unwrap().report,
                        job.open_resized().unwrap().unwrap().report,
                        scrubbed,
                        job.complete().unwrap().said,
                    ];
                    (opening, reports)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn what_does_not_protect_from_the_loss_of_a_node_is_told_at_the_opening_and_in_every_report() {
    let partner = &[("partner", "yes")][..];
    let only_durable = &[("partner", "yes"), ("memory", "none")][..];
    let parity = &[("parity", "3+1")][..];
    let weak = [
        (&["a"][..], partner, "partner=yes protects nothing: this job has one rank"),
        (&["a", "b"], only_durable, "partner=yes protects nothing: it copies checkpoints in memory"),
        (&["a", "a"], partner, "all 2 ranks and their copies are on a"),
        (&["a", "a", "b"], partner, "partner=yes does not protect rank 1 from the loss of a node"),
        (&["a", "b", "a", "b"], partner, "partner=yes does not protect ranks 0-3 from the loss of a node"),
        (&["a", "a", "a", "a"], parity, "all 4 ranks are on a, and 1 may be lost"),
        (&["a", "b", "b", "b"], parity, "3 of the ranks that share parity are on one node, and 1 may be lost"),
    ];
    for (nodes, settings, wanted) in weak {
        for (opening, reports) in told(nodes, settings) {
            let count = opening.iter().filter(|notice| notice.contains(wanted)).count();
            assert_eq!(count, 1, "{nodes:?} {settings:?}: {opening:?}");
            assert!(reports.iter().all(|report| report.contains(wanted)), "{nodes:?} {settings:?}: {reports:?}");
        }
    }
    let strong = [
        (&["a", "b"][..], partner),
        (&["a", "a", "b", "b"], partner),
        (&["a", "b", "c", "d"], parity),
        (&["a"], &[]),
        (&["a", "a"], &[("policy", "memory")]),
    ];
    for (nodes, settings) in strong {
        for (opening, reports) in told(nodes, settings) {
            let all: Vec<&String> = opening.iter().chain(&reports).collect();
            assert!(!all.iter().any(|said| said.contains("protect")), "{nodes:?} {settings:?}: {all:?}");
        }
    }
}
