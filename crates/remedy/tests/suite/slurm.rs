use super::order::order;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_remedy::act::{Act, Drainer, Hands, HandsConfig, Order, Outcome, Slurm};
use surefoot_testkit::{not_run::not_run, slurm::Cluster};

/// Does a step until it is done.
fn finish(hands: &Hands, step: &str, host: &str) -> String {
    let begun = Instant::now();
    loop {
        match hands.run(&order(step, host), &AtomicBool::new(false)) {
            done @ Outcome::Done { .. } => return done.words(),
            Outcome::GoesOn { .. } if begun.elapsed() < Duration::from_secs(180) => {
                std::thread::sleep(Duration::from_millis(300));
            }
            other => panic!("{step} of {host}: {other:?}"),
        }
    }
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One cluster for all, because starting it takes seconds.
#[test]
fn a_node_of_a_real_slurm_is_drained_and_comes_back() {
    if let Some(why) = Cluster::unsupported() {
        return not_run("a_node_of_a_real_slurm_is_drained_and_comes_back", &why);
    }
    let cluster = Cluster::start().unwrap();
    let slurm =
        |requeues_jobs| Slurm { configuration: Some(cluster.configuration()), requeues_jobs, ..Slurm::default() };
    let with = |slurm| {
        let drainers = [("web".to_owned(), Drainer::Slurm(slurm))].into();
        Hands::new(HandsConfig { drainers, ..HandsConfig::default() })
    };
    let (waits, requeues) = (with(slurm(false)), with(slurm(true)));

    // An idle node goes out at once, and says why; a second time changes nothing.
    finish(&waits, "drain", "n1");
    assert_eq!(cluster.state("n1"), "drained");
    assert!(cluster.ask("sinfo", &["-R", "--noheader", "--format=%E"]).contains("surefoot case 17: memory/rate"));
    finish(&waits, "drain", "n1");
    finish(&waits, "return", "n1");
    wait_for("node n1", || cluster.state("n1") == "idle");

    // A node with work is waited for, or its work goes elsewhere.
    let job = cluster.ask("sbatch", &["--parsable", "--nodelist=n2", "--output=/dev/null", "--wrap=sleep 300"]);
    wait_for("the job", || cluster.ask("squeue", &["--noheader", "--format=%t"]).trim() == "R");
    match waits.run(&order("drain", "n2"), &AtomicBool::new(false)) {
        Outcome::GoesOn { detail, .. } => {
            assert!(detail.contains("not empty yet: 1 jobs") && detail.contains("CPUAlloc 1"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.state("n2"), "draining");
    finish(&requeues, "drain", "n2");
    assert_eq!(cluster.state("n2"), "drained");
    let state = cluster.ask("squeue", &["--noheader", "--format=%t", "--jobs", job.trim()]);
    assert_eq!(state.trim(), "PD", "the job of the drained node waits for another");
    finish(&requeues, "return", "n2");

    // A suspended job holds its node though Slurm calls that idle.
    let job = cluster.ask("sbatch", &["--parsable", "--nodelist=n1", "--output=/dev/null", "--wrap=sleep 300"]);
    let state = || cluster.ask("squeue", &["--noheader", "--format=%t", "--jobs", job.trim()]);
    wait_for("the second job", || state().trim() == "R");
    cluster.ask("scontrol", &["suspend", job.trim()]);
    wait_for("its suspension", || state().trim() == "S");
    wait_for("the idle node", || cluster.ask("scontrol", &["show", "node", "n1"]).contains("State=IDLE"));
    match waits.run(&order("drain", "n1"), &AtomicBool::new(false)) {
        Outcome::GoesOn { detail, .. } => assert!(detail.contains("1 jobs"), "{detail}"),
        other => panic!("{other:?}"),
    }
    cluster.ask("scancel", &[job.trim()]);
    finish(&waits, "drain", "n1");
    finish(&waits, "return", "n1");
    wait_for("node n1", || cluster.state("n1") == "idle");

    // Someone else's drain says nothing of the jobs: they are waited for, and nothing is done to the node before.
    let job = cluster.ask("sbatch", &["--parsable", "--nodelist=n1", "--output=/dev/null", "--wrap=sleep 300"]);
    let state = || cluster.ask("squeue", &["--noheader", "--format=%t", "--jobs", job.trim()]);
    wait_for("the third job", || state().trim() == "R");
    cluster.ask("scontrol", &["update", "nodename=n1", "state=drain", "reason=fans"]);
    for hands in [&waits, &requeues] {
        match hands.run(&order("drain", "n1"), &AtomicBool::new(false)) {
            Outcome::GoesOn { detail, memo, .. } => {
                assert!(
                    detail.starts_with("drained by root ('fans'), not by this case; not empty yet: 1 jobs"),
                    "{detail}"
                );
                assert_eq!(memo, "foreign");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(state().trim(), "R", "the job of a node that is not ours goes on");
    }
    let stress = Order { is_after_drain: true, ..order("stress:1s", "n1") };
    match waits.run(&stress, &AtomicBool::new(false)) {
        Outcome::Failed { detail, is_passing: true, .. } => {
            assert!(detail.starts_with("node n1 is not empty any more: 1 jobs"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    cluster.ask("scancel", &[job.trim()]);
    let said = finish(&waits, "drain", "n1");
    assert!(
        said.contains("0 jobs or pods left, CPUAlloc 0; taken out of service by root ('fans'), not by this case"),
        "{said}"
    );
    let said = finish(&waits, "return", "n1");
    assert!(said.contains("it stays out of service: taken out by root ('fans'), not by this case"), "{said}");
    assert_eq!(cluster.state("n1"), "drained");

    // Someone resumes a node that this case drained, while it waits and afterwards: it is not drained again, and nothing is begun there.
    cluster.ask("scontrol", &["update", "nodename=n1", "state=resume"]);
    wait_for("node n1", || cluster.state("n1") == "idle");
    let drained = Order { memo: "ours".into(), ..order("drain", "n1") };
    for order in [drained, stress] {
        match waits.run(&order, &AtomicBool::new(false)) {
            Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains("someone"), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cluster.state("n1"), "idle");

    for host in ["n[1-2]", "n1 state=down", "nowhere"] {
        match waits.run(&order("drain", host), &AtomicBool::new(false)) {
            Outcome::Failed { is_passing: false, .. } => {}
            other => panic!("{host}: {other:?}"),
        }
    }
}
