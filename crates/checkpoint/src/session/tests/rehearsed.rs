//! Whether the simulation decides as a session does: one trace of calls, costs and ended writes, of a real session, is fed to
//! the other, and each decision compared with its reasons.

#![allow(clippy::unwrap_used)]
use crate::controller::{Paper, Surefoot, Visible, YEAR_S};
use crate::session::Checkpointer;
use crate::session::journal::{self, JournalEvent};
use crate::simulate::{Kind, Settings, Stepping};
use crate::testing::{Home, make_memory};
use crate::{Alone, Config, Decision, Place, Policy, Situation};
use std::collections::BTreeMap;
use std::time::Duration;

const BYTES: usize = 1_000_000;
const CALLS: usize = 150;

/// One call, and all that the clock and the disk had to do with it.
struct Call {
    /// Whether it only asked.
    asks: bool,
    /// What the session knew.
    situation: Situation,
    decision: Decision,
    /// When what was on its way before and after it was taken.
    on_its_way_s: [Option<f64>; 2],
    /// Whether the call found before its decision, or waited for after it, that what was on its way is written.
    is_written: [bool; 2],
    /// Seconds in calls before this one, before its decision, and after it.
    checkpoint_s: [f64; 3],
    /// When it began and ended.
    began_s: f64,
    returned_s: f64,
    visible: Visible,
    ended_s: f64,
    durable_last_s: f64,
}

/// A session of some calls, every third of which only asks; and how long each write in the background took.
fn session(policy: &Policy) -> (Vec<Call>, BTreeMap<u64, f64>) {
    let home = Home::new();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    make_memory(&memory);
    std::fs::create_dir(&ssd).unwrap();
    let mut config = Config::new("job", &memory, Some(ssd));
    config.drive_file = None;
    config.policy = policy.clone();
    // A write takes a tenth of a second, and the drive bears five in a second.
    config.set("durable.limit_bytes_per_s", "10000000").unwrap();
    config.set("endurance.rated_bytes", &format!("{}", 5.0 * BYTES as f64 * YEAR_S)).unwrap();
    config.set("endurance.remaining_years", "1").unwrap();
    let mut state = vec![7u8; BYTES];
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    // SAFETY: `state` outlives `job`, and is left alone during its calls.
    unsafe { job.protect("state", state.as_mut_ptr(), BYTES).unwrap() };
    let calls = (0..CALLS).map(|number| call(&mut job, number % 3 == 2)).collect();
    job.wait_for_copies().unwrap();
    let written = journal::read(&memory.join("job"), usize::MAX).unwrap().unwrap();
    let took = written.entries.iter().filter_map(|entry| match entry.event {
        JournalEvent::Durable { generation, took_s, .. } => Some((generation, took_s)),
        _ => None,
    });
    (calls, took.collect())
}

fn call(job: &mut Checkpointer, asks: bool) -> Call {
    // Long enough for all calls together that the drive bears a second write.
    std::thread::sleep(Duration::from_millis(3));
    let on_its_way_s = |job: &Checkpointer| {
        let drain = job.tiers.durable.as_ref().and_then(|durable| durable.drain.as_ref());
        drain.map(|drain| drain.began_s(job.schedule.began))
    };
    let (before_s, way_before) = (job.schedule.course.checkpoint_s, on_its_way_s(job));
    let decision = match asks {
        true => job.need_checkpoint().unwrap(),
        false => job.checkpoint().unwrap().decision,
    };
    let (began_s, returned_s) = job.schedule.course.last_call_s();
    let situation = job.schedule.asked.pop().unwrap();
    let way_after = on_its_way_s(job);
    Call {
        asks,
        on_its_way_s: [way_before, way_after],
        is_written: [way_before.is_some() && !situation.is_draining, situation.is_draining && way_after != way_before],
        checkpoint_s: [before_s, situation.checkpoint_s, job.schedule.course.checkpoint_s],
        began_s,
        returned_s,
        visible: job.schedule.cost,
        ended_s: job.schedule.course.last_any_s,
        durable_last_s: job.tiers.durable.as_ref().unwrap().copies.last_s,
        situation,
        decision,
    }
}

/// Feeds the trace to the simulation, and returns the places that both chose.
fn rehearse(policy: &Policy) -> Vec<(Place, bool)> {
    let (calls, took) = session(policy);
    let mut took = took.into_values();
    let settings = Settings::default();
    let size_bytes = calls[0].situation.size_bytes;
    let mut stepping = Stepping::by(policy.clone(), Kind::Surefoot, size_bytes, &settings);
    let mut places = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        let now_s = call.situation.now_s;
        let [before_s, then_s, after_s] = call.checkpoint_s;
        stepping.enter(call.began_s, !call.asks);
        stepping.took(Place::Skip, [now_s; 3], Visible::default(), then_s - before_s);
        if call.is_written[0] {
            stepping.arrived(took.next().unwrap());
        }
        let made_up = stepping.situation(now_s);
        // What the drive has taken before is for its own counts to say, and not made up.
        let (drive, drive_said) = (call.situation.drive, call.situation.drive_said.clone());
        let made_up = Situation { drive, drive_said, ..made_up };
        near(&made_up, &call.situation, number);
        let decision = if call.asks { stepping.is_due(&made_up) } else { stepping.decide(&made_up) };
        assert_eq!(decision, call.decision, "call {number}: {made_up:?}");
        places.push((decision.place, made_up.is_draining));
        if call.is_written[1] {
            stepping.arrived(took.next().unwrap());
        }
        let taken_s = match decision.place {
            Place::Durable => call.durable_last_s,
            _ => call.on_its_way_s[1].unwrap_or(now_s),
        };
        let place = if call.asks { Place::Skip } else { decision.place };
        stepping.spend(place);
        stepping.took(place, [taken_s, call.ended_s, f64::INFINITY], call.visible, after_s - then_s);
        stepping.leave(call.returned_s, !call.asks);
    }
    places
}

/// Numbers are the same but for what their text in the journal may round off.
fn near(made_up: &Situation, real: &Situation, number: usize) {
    let numbers = |of: &Situation| {
        [of.now_s, of.checkpoint_s, of.size_bytes, of.durable_bytes, of.taken_count as f64, of.since_any_s]
            .into_iter()
            .chain([of.since_durable_s, of.since_written_s, of.step_s, of.memory_cost_s, of.drain_s])
            .chain([of.durable_extra_s, of.durable_alone_s, of.drain_loss_s.unwrap_or(-1.0)])
            .collect::<Vec<_>>()
    };
    let is_near = numbers(made_up).iter().zip(numbers(real)).all(|(one, other)| (one - other).abs() < 1e-9);
    assert!(is_near && made_up.is_draining == real.is_draining, "call {number}: {made_up:#?} instead of {real:#?}");
    assert_eq!((made_up.fits_memory, made_up.fits_durable), (real.fits_memory, real.fits_durable));
}

#[test]
fn ours_is_rehearsed_as_it_runs() {
    let policy = Surefoot {
        soft_failures_per_s: 2.0,
        hard_failures_per_s: 0.5,
        staleness_max_s: 5.0,
        burst_s: 0.1,
        ..Surefoot::default()
    };
    let places = rehearse(&Policy::Surefoot(policy));
    assert_eq!(places[0].0, Place::Both, "what was never measured costs nothing: {places:?}");
    let is_there = |wanted| places.iter().any(|(place, _)| *place == wanted);
    assert!(is_there(Place::Memory) && is_there(Place::Skip), "{places:?}");
    assert!(places.iter().filter(|(place, _)| *place == Place::Both).count() > 1, "{places:?}");
    assert!(places.iter().any(|(_, is_draining)| *is_draining), "{places:?}");
}

#[test]
fn a_copy_that_gets_too_old_keeps_no_program_waiting_for_the_former_in_both() {
    let policy = Surefoot { staleness_max_s: 0.05, ..Surefoot::default() };
    let places = rehearse(&Policy::Surefoot(policy));
    assert!(!places.contains(&(Place::Both, true)), "{places:?}");
    assert!(places.iter().filter(|place| **place == (Place::Both, false)).count() > 1, "{places:?}");
}

#[test]
fn the_paper_s_rules_are_rehearsed_as_they_run() {
    let places = rehearse(&Policy::Paper(Paper::default()));
    let count = |wanted| places.iter().filter(|(place, _)| *place == wanted).count();
    assert!(count(Place::Durable) > 0 && count(Place::Memory) > 0, "{places:?}");
}
