//! Whether a session measures what its checkpoints cost the program, and no more.

#![allow(clippy::unwrap_used)]
use crate::controller::Surefoot;
use crate::session::Checkpointer;
use crate::testing::{Home, make_memory};
use crate::{Alone, Config, Place, Policy};
use std::path::Path;
use std::time::{Duration, Instant};

const BYTES: usize = 4_000_000;

/// Longer than it takes where two cores do the work of thirty.
const PATIENCE: Duration = Duration::from_secs(300);

/// A session whose first checkpoint is durable, and the others by its bound on age alone.
fn session(home: &Path, staleness_max_s: f64, settings: &[(&str, &str)], work: impl FnOnce(&mut Checkpointer)) {
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.join(name));
    make_memory(&memory);
    std::fs::create_dir(&ssd).unwrap();
    let mut config = Config::new("job", &memory, Some(ssd));
    config.drive_file = None;
    let hard_failures_per_s = 1e-12;
    config.policy = Policy::Surefoot(Surefoot { staleness_max_s, hard_failures_per_s, ..Surefoot::default() });
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    let mut state = vec![7u8; BYTES];
    // SAFETY: `state` outlives `job`, and is left alone during its calls.
    unsafe { job.protect("state", state.as_mut_ptr(), BYTES).unwrap() };
    work(&mut job);
}

#[test]
fn the_first_saves_which_take_the_slots_are_not_what_every_save_costs() {
    let home = Home::new();
    session(home.path(), 3_600.0, &[("memory.slots", "4"), ("memory.ahead_bytes", "0")], |job| {
        let mut usual_s: Option<f64> = None;
        let mut unusual = 0;
        for _ in 0..12 {
            job.checkpoint().unwrap();
            job.wait_for_copies().unwrap();
            match job.schedule.cost.preparing_s > 0.0 {
                true => unusual += 1,
                false => {
                    let copy_s = job.schedule.cost.all_s - job.schedule.cost.durable_s;
                    usual_s = Some(usual_s.map_or(copy_s, |usual_s| usual_s + 0.3 * (copy_s - usual_s)));
                }
            }
        }
        assert_eq!(unusual, 4, "each slot once");
        assert!(
            (job.schedule.course.memory_cost_s() - usual_s.unwrap()).abs() < 1e-12,
            "they alone count: {usual_s:?}"
        );
    });
}

#[test]
fn saves_into_slots_that_were_made_ahead_take_none_of_them() {
    let home = Home::new();
    session(home.path(), 3_600.0, &[("memory.slots", "4")], |job| {
        job.need_checkpoint().unwrap();
        let bytes = job.config.geometry(BYTES as u64).unwrap().file_bytes() as u64;
        let directory = job.tiers.memory.as_ref().unwrap().directory().to_owned();
        let length =
            |slot: u32| std::fs::metadata(directory.join(format!("slot-{slot}.image"))).map_or(0, |of| of.len());
        let begun = Instant::now();
        while (0..4).any(|slot| length(slot) < bytes) {
            assert!(begun.elapsed() < PATIENCE, "no four slots of {bytes} bytes in {}", directory.display());
            std::thread::sleep(Duration::from_millis(1));
        }
        // The last page is touched a moment after it is there.
        while job.tiers.memory.as_ref().unwrap().is_making_ahead() {
            assert!(begun.elapsed() < PATIENCE, "the slots in {} are still being made", directory.display());
            std::thread::sleep(Duration::from_millis(1));
        }
        for number in 0..6 {
            job.checkpoint().unwrap();
            job.wait_for_copies().unwrap();
            assert_eq!(job.schedule.cost.preparing_s, 0.0, "checkpoint {number}");
        }
    });
}

#[test]
fn a_program_that_is_slower_while_a_checkpoint_is_written_has_that_counted() {
    let home = Home::new();
    // A write takes a tenth of a second, and the bound asks for one again and again.
    session(home.path(), 1.0, &[("durable.limit_bytes_per_s", "40000000")], |job| {
        assert_eq!(job.schedule.course.drain_loss_s(), None);
        let begun = Instant::now();
        // A busy machine makes any gap longer: those beside a write are longer than all others were.
        let mut longest_s: f64 = 0.01;
        while job.schedule.course.drain_loss_s().is_none_or(|lost_s| lost_s == 0.0) && begun.elapsed() < PATIENCE {
            let is_writing = job.tiers.is_writing();
            let (_, returned_s) = job.schedule.course.last_call_s();
            std::thread::sleep(Duration::from_secs_f64(if is_writing { 4.0 * longest_s } else { 0.004 }));
            let is_due = job.need_checkpoint().unwrap().place != Place::Skip;
            if !is_writing && returned_s > 0.0 {
                longest_s = longest_s.max(job.schedule.course.last_call_s().0 - returned_s);
            }
            if is_due {
                job.checkpoint().unwrap();
            }
        }
        let lost_s = job.schedule.course.drain_loss_s().unwrap_or(0.0);
        let drain_s = job.tiers.durable.as_ref().unwrap().copies.drain_s();
        assert!(lost_s > 0.0 && drain_s > 0.0, "{lost_s} s of {drain_s} s");
        job.checkpoint().unwrap();
        let known = job.schedule.asked.last().unwrap();
        assert!(known.drain_loss_s.is_some_and(|lost_s| lost_s > 0.0), "the decision knows: {known:?}");
    });
}
