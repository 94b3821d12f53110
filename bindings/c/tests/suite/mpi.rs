//! Programs of several ranks, with the MPI that is installed.

use super::build::{Linked, can_run, compile};
use super::run::{Running, Tiers, kill, line, mpirun, said, text_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many saves are to be met in the middle.
const KILLS_IN_SAVES: usize = 2;

/// How often a rank is killed before a test gives up on meeting a save.
const KILLS_MAX: usize = 12;

fn mpi(test: &str, source: &str, into: &Path) -> Option<PathBuf> {
    let remedy = "install Open MPI (libopenmpi-dev, openmpi-bin)";
    can_run(test, &["mpicc", "mpirun"], remedy)
        .then(|| compile("mpicc", &["-std=c99", "-D_GNU_SOURCE"], source, Linked::Static, into))
}

#[test]
fn its_groups_talk_in_pieces_and_return_their_errors() {
    let tiers = Tiers::new();
    let test = "its_groups_talk_in_pieces_and_return_their_errors";
    let Some(program) = mpi(test, "tests/programs/mpi_group.c", &tiers.path("tmp")) else { return };
    for ranks in [1, 2, 4] {
        assert_eq!(text_of(&mut mpirun(ranks, &tiers, &program)), "good\n", "{ranks} ranks");
    }
}

#[test]
fn ranks_in_different_calls_or_with_different_settings_are_all_told_and_lose_nothing() {
    let tiers = Tiers::new();
    let test = "ranks_in_different_calls_or_with_different_settings_are_all_told_and_lose_nothing";
    let Some(program) = mpi(test, "tests/programs/mpi_apart.c", &tiers.path("tmp")) else { return };
    for ranks in 2..=4 {
        let tiers = Tiers::new();
        fs::create_dir(tiers.path("tmp/ssd")).unwrap();
        let mut command = mpirun(ranks, &tiers, &program);
        // A wait is a fault, too: mpirun ends it.
        command.env("MPIEXEC_TIMEOUT", "600").args([tiers.path("memory"), tiers.path("tmp/ssd")]);
        assert_eq!(text_of(&mut command), "good\n", "{ranks} ranks");
    }
}

#[test]
fn what_all_ranks_misspell_is_said_once() {
    let tiers = Tiers::new();
    let test = "what_all_ranks_misspell_is_said_once";
    let Some(program) = mpi(test, "examples/checkpoint_mpi.c", &tiers.path("tmp")) else { return };
    for (setting, wrong) in
        [("durable.kep=3", "no setting \"durable.kep\""), ("durable.keep=3", "no durable tier is set")]
    {
        let mut command = mpirun(3, &tiers, &program);
        let output = command.arg("10").args(tiers.settings(&[setting])).output().unwrap();
        let text = said(&output);
        assert!(!output.status.success() && text.matches(wrong).count() == 1, "{text}");
    }
}

#[test]
fn its_header_is_good_cpp() {
    if can_run("its_header_is_good_cpp", &["mpicxx"], "install Open MPI (libopenmpi-dev, openmpi-bin)") {
        let home = tempfile::tempdir().unwrap();
        // Open MPI's own C++ classes, gone since, do not compile without a warning.
        let options = ["-DOMPI_SKIP_MPICXX", "-x", "c++", "-std=c++17"];
        compile("mpicxx", &options, "examples/checkpoint_mpi.c", Linked::Shared, home.path());
    }
}

#[test]
fn two_and_four_ranks_go_on_where_they_were() {
    let tiers = Tiers::new();
    let test = "two_and_four_ranks_go_on_where_they_were";
    let Some(program) = mpi(test, "examples/checkpoint_mpi.c", &tiers.path("tmp")) else { return };
    for ranks in [2, 4] {
        let tiers = Tiers::new();
        let settings = tiers.settings(&["policy=memory"]);
        text_of(mpirun(ranks, &tiers, &program).arg("30").args(&settings));
        let text = text_of(mpirun(ranks, &tiers, &program).arg("50").args(&settings));
        for rank in 0..ranks {
            assert!(
                line(&text, &format!("rank {rank}: generation 3 from memory")).ends_with("pages, intact"),
                "{text}"
            );
        }
        let whole = text_of(mpirun(ranks, &tiers, &program).arg("50").args(Tiers::new().settings(&[])));
        assert_eq!(line(&text, "after 50 steps"), line(&whole, "after 50 steps"));
    }
}

#[test]
fn a_rank_whose_memory_is_gone_comes_back_from_its_partner() {
    let tiers = Tiers::new();
    let test = "a_rank_whose_memory_is_gone_comes_back_from_its_partner";
    let Some(program) = mpi(test, "examples/checkpoint_mpi.c", &tiers.path("tmp")) else { return };
    let settings = tiers.settings(&["policy=memory", "partner=yes"]);
    text_of(mpirun(4, &tiers, &program).arg("30").args(&settings));
    for lost in ["rank-00002", "partner-00002"] {
        fs::remove_dir_all(tiers.path("memory/example-mpi").join(lost)).unwrap();
    }
    let text = text_of(mpirun(4, &tiers, &program).arg("50").args(&settings));
    assert!(line(&text, "rank 2: generation 3 ").contains("from its partner"), "{text}");
    assert!(line(&text, "rank 1: generation 3 ").contains("from memory"), "{text}");
    let whole = text_of(mpirun(4, &tiers, &program).arg("50").args(Tiers::new().settings(&[])));
    assert_eq!(line(&text, "after 50 steps"), line(&whole, "after 50 steps"));
}

#[test]
fn a_job_that_is_killed_goes_on_with_other_numbers_of_ranks() {
    let tiers = Tiers::new();
    let test = "a_job_that_is_killed_goes_on_with_other_numbers_of_ranks";
    let Some(program) = mpi(test, "examples/checkpoint_resized.c", &tiers.path("tmp")) else { return };
    let settings = tiers.settings(&["policy=memory"]);
    let mut before = None;
    for (number, ranks) in [4u32, 3, 2, 6].into_iter().enumerate() {
        let mut running = Running::start(mpirun(ranks, &tiers, &program).arg("1000000").args(&settings));
        // Two, so that the slots of the ranks before are written over as well.
        for _ in 0..2 {
            running.until(|line| line.ends_with(": saved")).unwrap();
        }
        let victim = number as u32 % ranks;
        let begins = format!("rank {victim} is process ");
        // What one rank says may come late, after what rank 0 says of the saves.
        if !running.seen.iter().any(|line| line.starts_with(&begins)) {
            running.until(|line| line.starts_with(&begins)).unwrap();
        }
        let process = running.seen.iter().find_map(|line| line.strip_prefix(&begins)).unwrap().parse().unwrap();
        kill(process, &program);
        assert!(!running.end(), "a job whose rank was killed ended well");
        let text = running.seen.join("\n");
        let restarts = text.lines().filter(|line| line.starts_with("at step ")).collect::<Vec<_>>();
        if let Some(before) = before {
            let of = format!(" of {before} ranks: ");
            assert!(restarts.len() == ranks as usize && restarts.iter().all(|line| line.contains(&of)), "{text}");
        } else {
            assert!(restarts.is_empty(), "{text}");
        }
        before = Some(ranks);
    }
    let text = text_of(mpirun(4, &tiers, &program).arg("160").args(&settings));
    assert!(text.contains(" of 6 ranks: "), "{text}");
    // On a busy machine the killed ones were further already.
    let after = line(&text, "after ");
    let steps = after.split(' ').nth(1).unwrap();
    let whole = text_of(mpirun(1, &tiers, &program).arg(steps).args(Tiers::new().settings(&["policy=never"])));
    assert_eq!(after, line(&whole, &format!("after {steps} steps")));
}

#[test]
fn a_killed_rank_whose_memory_is_gone_is_rebuilt_from_parity() {
    let tiers = Tiers::new();
    let test = "a_killed_rank_whose_memory_is_gone_is_rebuilt_from_parity";
    let Some(program) = mpi(test, "examples/checkpoint_resized.c", &tiers.path("tmp")) else { return };
    let whole = text_of(mpirun(4, &tiers, &program).arg("200").args(Tiers::new().settings(&["policy=never"])));
    let settings = tiers.settings(&["policy=memory", "parity=4+1"]);
    for lost in [2, 0] {
        let mut running = Running::start(mpirun(4, &tiers, &program).arg("1000000").args(&settings));
        for _ in 0..2 {
            running.until(|line| line.ends_with(": saved")).unwrap();
        }
        let begins = format!("rank {lost} is process ");
        if !running.seen.iter().any(|line| line.starts_with(&begins)) {
            running.until(|line| line.starts_with(&begins)).unwrap();
        }
        let process = running.seen.iter().find_map(|line| line.strip_prefix(&begins)).unwrap().parse().unwrap();
        kill(process, &program);
        assert!(!running.end(), "a job whose rank was killed ended well");
        for name in [format!("rank-{lost:05}"), format!("parity-{lost:05}")] {
            fs::remove_dir_all(tiers.path("memory/rod").join(name)).unwrap();
        }
    }
    let text = text_of(mpirun(4, &tiers, &program).arg("200").args(&settings));
    let said = text.lines().filter(|line| line.starts_with("at step ")).collect::<Vec<_>>();
    let of = |rank: u32| said.iter().find(|line| line.contains(&format!(": rank {rank}: "))).unwrap();
    assert!(of(0).contains("rebuilt from parity") && of(0).contains("pages, intact"), "{text}");
    assert!((1..4).all(|rank| of(rank).contains("from memory")), "{text}");
    assert_eq!(line(&text, "after 200 steps"), line(&whole, "after 200 steps"));
}

/// Kills one rank of a job soon after a save began; returns whether that save was still under way.
fn kill_in_a_save(running: &mut Running, program: &Path, rank: u32, delay: Duration) -> Option<bool> {
    let begins = format!("rank {rank} is process ");
    if !running.seen.iter().any(|line| line.starts_with(&begins)) {
        running.until(|line| line.starts_with(&begins))?;
    }
    let process = running.seen.iter().find_map(|line| line.strip_prefix(&begins))?.parse().unwrap();
    // The first after a restart fills both slots anew; the ones after it write over what is there.
    for _ in 0..2 {
        running.until(|line| line.ends_with(": saving"))?;
    }
    std::thread::sleep(delay);
    kill(process, program);
    assert!(!running.end(), "a job whose rank was killed ended well");
    let last = running.seen.iter().rfind(|line| line.contains(": sav"));
    Some(last.is_some_and(|last| last.ends_with(": saving")))
}

/// Kills a job in its saves until it was met in the middle of some, then lets it end; returns what it said at the end.
fn survive(ranks: u32, program: &Path, tiers: &Tiers, arguments: &[&str], settings: &[String]) -> String {
    let mut in_saves = 0;
    let mut kills = 0;
    while in_saves < KILLS_IN_SAVES && kills < KILLS_MAX {
        let mut running = Running::start(mpirun(ranks, tiers, program).args(arguments).args(settings));
        // Another rank each time, and again and again from the begin of a save on: a quick one is over in milliseconds.
        let delay = Duration::from_micros(700 * (kills as u64 % 4));
        match kill_in_a_save(&mut running, program, kills as u32 % ranks, delay) {
            Some(is_in_save) => in_saves += usize::from(is_in_save),
            None => break,
        }
        kills += 1;
    }
    assert!(in_saves > 0, "{kills} kills, and none met a save");
    println!("{ranks} ranks: {in_saves} of {kills} kills met a save");
    text_of(mpirun(ranks, tiers, program).args(arguments).args(settings))
}

#[test]
fn a_solver_that_is_killed_in_its_saves_computes_the_same_bits() {
    let tiers = Tiers::new();
    let test = "a_solver_that_is_killed_in_its_saves_computes_the_same_bits";
    let Some(program) = mpi(test, "examples/conjugate_gradient.c", &tiers.path("tmp")) else { return };
    for (ranks, arguments) in [(2, ["700", "160"]), (4, ["500", "130"])] {
        let whole =
            text_of(mpirun(ranks, &tiers, &program).args(arguments).args(Tiers::new().settings(&["policy=never"])));
        let tiers = Tiers::new();
        let text = survive(ranks, &program, &tiers, &arguments, &tiers.settings(&["policy=memory"]));
        line(&text, "rank 0: generation ");
        assert_eq!(line(&text, "digest "), line(&whole, "digest "), "{ranks} ranks");
    }
}

#[test]
fn a_gas_that_is_killed_and_loses_a_ranks_memory_computes_the_same_bits() {
    let tiers = Tiers::new();
    let test = "a_gas_that_is_killed_and_loses_a_ranks_memory_computes_the_same_bits";
    let Some(program) = mpi(test, "examples/stencil.c", &tiers.path("tmp")) else { return };
    let arguments = ["300", "400"];
    let whole = text_of(mpirun(2, &tiers, &program).args(arguments).args(Tiers::new().settings(&["policy=never"])));
    let settings = tiers.settings(&["durable=SSD", "staleness_max_s=0.001"]);
    let mut running = Running::start(mpirun(2, &tiers, &program).args(arguments).args(&settings));
    running.until(|line| line.starts_with("generation 2 is durable")).unwrap();
    kill_in_a_save(&mut running, &program, 1, Duration::from_millis(3)).unwrap();
    fs::remove_dir_all(tiers.path("memory/stencil/rank-00001")).unwrap();
    // And once more: one of the two restarts is at an odd number of steps, where the fields lie elsewhere.
    let mut running = Running::start(mpirun(2, &tiers, &program).args(arguments).args(&settings));
    kill_in_a_save(&mut running, &program, 0, Duration::from_millis(3)).unwrap();
    let text = running.seen.join("\n");
    assert!(line(&text, "rank 1: generation ").contains("from the SSD"), "{text}");
    let text = text_of(mpirun(2, &tiers, &program).args(arguments).args(&settings));
    line(&text, "rank 0: generation ");
    assert_eq!(line(&text, "digest "), line(&whole, "digest "));
}

#[test]
fn a_misspelt_setting_is_told_once_in_all() {
    let tiers = Tiers::new();
    let test = "a_misspelt_setting_is_told_once_in_all";
    for (example, arguments) in
        [("conjugate_gradient", &["50", "10"][..]), ("stencil", &["50", "10"]), ("checkpoint_resized", &["10"])]
    {
        let Some(program) = mpi(test, &format!("examples/{example}.c"), &tiers.path("tmp")) else { return };
        let output = mpirun(3, &tiers, &program).args(arguments).arg("memroy=nowhere").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{example}: {said}");
        assert_eq!(said.lines().filter(|line| line.contains("memroy")).count(), 1, "{example}: {said}");
    }
}
