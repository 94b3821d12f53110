//! A real process that saves, killed at each of its system calls, and told at each that it failed: what it had reported
//! comes back bit by bit.

use super::session::{Rank, Tiers, always_both, job, state};
use super::traced::{self, Ended, Fate, can_trace, trace};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use surefoot_checkpoint::config::Config;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::{Policy, Restored};
use surefoot_testkit::not_run::not_run;

/// The environment variables that tell the program its folder and where it saves.
const HOME: &str = "SUREFOOT_TEST_HOME";
const PLACE: &str = "SUREFOOT_TEST_PLACE";

/// How many steps the program makes: with two slots, and two durable generations that are kept, the third writes where
/// the first was.
const STEPS: u64 = 3;

/// Where the program saves, and the name of that in tables.
pub const PLACES: [(&str, &str); 4] =
    [("memory", "memory"), ("durable", "SSD"), ("straight", "SSD with parity, straight"), ("both", "memory and SSD")];

fn config(tiers: &Tiers, place: &str) -> Config {
    let policy = match place {
        "memory" => Policy::Fixed(Fixed::Memory),
        "durable" | "straight" => Policy::Fixed(Fixed::Durable),
        _ => always_both(),
    };
    let mut config = tiers.config(policy);
    match (&mut config.memory, place) {
        (Some(memory), "memory") => memory.slots = 2,
        (memory, "durable" | "straight") => *memory = None,
        _ => {}
    }
    if place == "straight" {
        config.set("durable.protection", "shard").unwrap();
    }
    config
}

#[test]
#[ignore = "runs in a child process, which its parent kills"]
fn saver() {
    let place = std::env::var(PLACE).unwrap();
    let tiers = Tiers::at(std::env::var_os(HOME).unwrap().into());
    traced::begin();
    match Rank::open(config(&tiers, &place), thread_group(1, None).remove(0)) {
        Ok(mut rank) => {
            // From here on slots are made ahead, beside the first save, too.
            if let Err(error) = rank.job.need_checkpoint() {
                println!("failed 0: {error}");
            }
            (1..=STEPS).for_each(|step| match save(&mut rank, step) {
                Ok(()) => println!("saved {step}"),
                Err(error) => println!("failed {step}: {error}"),
            })
        }
        Err(error) => println!("failed 0: {error}"),
    }
    traced::end();
}

#[test]
#[ignore = "runs in a child process, which its parent kills"]
fn restarter() {
    let place = std::env::var(PLACE).unwrap();
    let tiers = Tiers::at(std::env::var_os(HOME).unwrap().into());
    traced::begin();
    let said = Rank::open(config(&tiers, &place), thread_group(1, None).remove(0)).map(|mut rank| restart(&mut rank));
    traced::end();
    match said {
        Ok((found, Ok(Some(restored)))) => println!("at {found}: {}", restored.report),
        Ok((_, Ok(None))) => println!("nothing"),
        Ok((_, Err(error))) => println!("refused: {error}"),
        Err(error) => println!("refused: {error}"),
    }
}

/// Restarts, and returns the step whose bytes came back, 0 for none.
fn restart(rank: &mut Rank) -> (u64, Result<Option<Restored>, String>) {
    rank.state.fill(0xAA);
    let said = rank.job.restart().map_err(|error| error.to_string());
    // What the program looks at itself is not to fail.
    traced::end();
    if !said.as_ref().is_ok_and(Option::is_some) {
        return (0, said);
    }
    let found = (1..=STEPS).find(|&step| rank.is_at(step)).unwrap_or_else(|| panic!("wrong data: {said:?}"));
    let file = rank.job.route_file("output").unwrap();
    assert!(fs::read(file).unwrap() == state(7, found), "the file of step {found} is another's");
    (found, said)
}

fn save(rank: &mut Rank, step: u64) -> Result<(), String> {
    let file = rank.job.route_file("output").map_err(|error| error.to_string())?;
    fs::write(&file, state(7, step)).map_err(|error| error.to_string())?;
    rank.compute(step);
    let saved = rank.job.checkpoint().map_err(|error| error.to_string())?;
    if saved.generation.is_none() {
        return Err(format!("none was taken: {}", saved.decision.reasons.join("; ")));
    }
    rank.job.wait_for_copies().map_err(|error| error.to_string())
}

/// What came of one run.
pub struct Met {
    pub ended: Ended,
    /// The last step that was reported as saved, 0 for none.
    pub reported: u64,
    /// The step that came back, 0 when there was none.
    pub found: u64,
    /// What the restart said.
    pub said: Result<Option<Restored>, String>,
}

/// One of the two programs.
fn program(name: &str, tiers: &Tiers, place: &str) -> Command {
    // This very program, even when another build has put a new one in its place.
    let mut command = Command::new("/proc/self/exe");
    command.args([&*format!("suite::kill::{name}"), "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(HOME, tiers.home.path()).env(PLACE, place).env("RUST_BACKTRACE", "0");
    command
}

/// Saves undisturbed, and runs a restart with this fate; `reported` is the last step, `found` what a restart after that
/// one comes to.
pub fn run_restart(place: &str, at: Option<u64>, fate: Fate) -> Met {
    let tiers = Tiers::new();
    assert!(program("saver", &tiers, place).output().unwrap().status.success());
    let ended = trace(&mut program("restarter", &tiers, place), at, fate);
    let (found, said) = job(1, &config(&tiers, place), |mut rank| restart(&mut rank)).remove(0);
    Met { ended, reported: STEPS, found, said }
}

/// Runs the saving program with this fate, and then restarts what it left.
pub fn run(place: &str, at: Option<u64>, fate: Fate) -> Met {
    let tiers = Tiers::new();
    let ended = trace(&mut program("saver", &tiers, place), at, fate);
    let steps = ended.said.lines().filter_map(|line| line.split_once("saved ")?.1.parse().ok());
    let reported = steps.max().unwrap_or(0);
    let (found, said) = job(1, &config(&tiers, place), |mut rank| restart(&mut rank)).remove(0);
    Met { ended, reported, found, said }
}

/// A run of one of the two programs: place, point and fate.
pub type Running = fn(&str, Option<u64>, Fate) -> Met;

/// How many points a program passes that nothing befalls.
pub fn points(name: &'static str, running: Running, place: &'static str, fate: Fate) -> u64 {
    static POINTS: Mutex<BTreeMap<(&str, &str, Fate), u64>> = Mutex::new(BTreeMap::new());
    let key = (name, place, fate);
    let known = POINTS.lock().unwrap().get(&key).copied();
    known.unwrap_or_else(|| {
        let points = running(place, None, fate).ended.points;
        POINTS.lock().unwrap().insert(key, points);
        points
    })
}

/// How many fates befall the saving program: killed, EIO and ENOSPC.
const FATES: u64 = 3;

/// Of how many points something happens at one: in an ordinary test, which tries others by seed in `reliability`, few; at
/// full size all.
fn stride() -> u64 {
    if is_full() { 1 } else { 17 }
}

fn is_full() -> bool {
    std::env::var_os("SUREFOOT_SOAK").is_some()
}

/// The points at which a fate is tried. In an ordinary test the fates take turns, so that each point of the stride meets one of
/// them, and every place another one; at full size each point meets all.
fn tried(points: u64, place: usize, fate: u64) -> impl Iterator<Item = u64> {
    let turns = if is_full() { 1 } else { FATES };
    let first = (place as u64 + fate) % turns * stride();
    (first..points).step_by((stride() * turns) as usize)
}

#[test]
fn a_process_that_is_killed_at_any_system_call_loses_nothing_that_it_reported() {
    if let Err(why) = can_trace() {
        return not_run(
            "suite::kill::a_process_that_is_killed_at_any_system_call_loses_nothing_that_it_reported",
            &why,
        );
    }
    for (number, (place, _)) in PLACES.into_iter().enumerate() {
        let whole = run(place, None, Fate::Kill);
        assert_eq!((whole.ended.code, whole.reported, whole.found), (Some(0), STEPS, STEPS), "{}", whole.ended.said);
        assert!(whole.ended.points > 200, "{place}: {}", whole.ended.points);
        for at in tried(whole.ended.points, number, 0) {
            let met = run(place, Some(at), Fate::Kill);
            let what =
                format!("{place}, killed at {at}, {}: {:?}, {:?}", met.ended.call.unwrap_or("?"), met.ended, met.said);
            assert!(met.found >= met.reported && met.said.is_ok(), "{what}");
        }
        println!("{place}: killed at {} points", tried(whole.ended.points, number, 0).count());
    }
}

#[test]
fn a_process_whose_system_calls_fail_goes_on_and_loses_nothing_that_it_reported() {
    if let Err(why) = can_trace() {
        let test = "suite::kill::a_process_whose_system_calls_fail_goes_on_and_loses_nothing_that_it_reported";
        return not_run(test, &why);
    }
    for (number, (place, _)) in PLACES.into_iter().enumerate() {
        for (fate, error) in [(1, libc::EIO), (2, libc::ENOSPC)] {
            let whole = run(place, None, Fate::Error(error));
            for at in tried(whole.ended.points, number, fate) {
                let met = run(place, Some(at), Fate::Error(error));
                assert_eq!(met.ended.code, Some(0), "{place}, {error} at {at}: {:?}", met.ended);
                assert!(met.found >= met.reported, "{place}, {error} at {at}: {:?}, {:?}", met.ended, met.said);
            }
            println!("{place}: error {error} at {} calls", tried(whole.ended.points, number, fate).count());
        }
    }
}

/// The environment variable that tells how many ranks the program has.
const RANKS: &str = "SUREFOOT_TEST_RANKS";

#[test]
#[ignore = "runs in a child process, which its parent kills"]
fn savers() {
    let place = std::env::var(PLACE).unwrap();
    let ranks = std::env::var(RANKS).unwrap().parse().unwrap();
    let tiers = Tiers::at(std::env::var_os(HOME).unwrap().into());
    traced::begin();
    job(ranks, &config(&tiers, &place), |mut rank| {
        for step in 1..=STEPS {
            rank.compute(step);
            rank.job.checkpoint().unwrap();
            rank.job.wait_for_copies().unwrap();
            println!("saved {step}");
        }
    });
    traced::end();
}

/// Runs all ranks as threads of a process that is killed at a point, and returns the last step that any of them reported.
fn kill_ranks(tiers: &Tiers, place: &str, ranks: u32, at: Option<u64>) -> (Ended, u64) {
    let ended = trace(program("savers", tiers, place).env(RANKS, ranks.to_string()), at, Fate::Kill);
    let reported = ended.said.lines().filter_map(|line| line.split_once("saved ")?.1.parse().ok()).max();
    (ended, reported.unwrap_or(0))
}

/// Where a first save that was killed is all that there is, the job begins anew, and does not refuse for ever.
#[test]
fn a_job_of_several_ranks_that_is_killed_in_any_save_starts_again() {
    if let Err(why) = can_trace() {
        return not_run("suite::kill::a_job_of_several_ranks_that_is_killed_in_any_save_starts_again", &why);
    }
    let mut began_anew = 0;
    // In an ordinary test each place with two of the numbers of ranks, at full size with all.
    let ordinary = [("memory", 2), ("memory", 4), ("durable", 1), ("durable", 3), ("both", 2), ("both", 3)];
    let full = ["memory", "durable", "both"].into_iter().flat_map(|place| (1..=4).map(move |n| (place, n)));
    for (place, ranks) in full.filter(|some| is_full() || ordinary.contains(some)) {
        let (whole, reported) = kill_ranks(&Tiers::new(), place, ranks, None);
        assert_eq!((whole.code, reported), (Some(0), STEPS), "{place}, {ranks} ranks: {}", whole.said);
        let stride = (stride() * u64::from(ranks) * 5).min(whole.points / 4);
        let stride = if is_full() { 1 } else { stride };
        // What the ranks do between the points is theirs: a few beside each other are as good as one again and again.
        for at in (1..whole.points).step_by(stride as usize) {
            let tiers = Tiers::new();
            let (ended, reported) = kill_ranks(&tiers, place, ranks, Some(at));
            // Every other time a start comes between that looks at nothing, and is killed early.
            let is_again = at % 2 == 0;
            let again = if is_again { kill_ranks(&tiers, place, ranks, Some(at / 3)).1 } else { 0 };
            let what = format!("{place}, {ranks} ranks, killed at {at}: {:?}", ended.said);
            let back = job(ranks, &config(&tiers, place), |mut rank| {
                rank.state.fill(0xAA);
                let said = rank.job.restart().map_err(|error| error.to_string());
                let is_back = said.as_ref().is_ok_and(Option::is_some);
                let found = (0..=STEPS).find(|&step| is_back && rank.is_at(step));
                let goes_on = rank.job.checkpoint().map(|_| ()).and_then(|()| rank.job.wait_for_copies());
                (found, said, goes_on.map_err(|error| error.to_string()))
            });
            for (found, said, goes_on) in &back {
                assert!(said.is_ok() && goes_on.is_ok(), "{what}: {said:?}, {goes_on:?}");
                assert_eq!(found.is_some(), said.as_ref().is_ok_and(Option::is_some), "{what}: wrong data, {said:?}");
                assert_eq!(found, &back[0].0, "{what}");
                // A start that looks at nothing saves its own first step after it.
                assert!(is_again || found.unwrap_or(0) >= reported, "{what}: {reported} reported, {said:?}");
                assert!(reported + again == 0 || found.is_some(), "{what}: {again} reported by the second, {said:?}");
            }
            began_anew += u64::from(reported == 0 && back[0].0.is_none());
        }
    }
    assert!(began_anew > 0, "some were killed in their first save");
}
