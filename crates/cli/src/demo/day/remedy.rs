//! The case of the failing module, from the alert to the return of the host, and the host's periodic checks. The deeds are made as an
//! agent makes them, from orders and outcomes.

use super::HOST;
use super::clock::{CASE_OPENS, DRAINED, H, MIN, REPAIRED, RETURNED, S, STRESS_ENDS, at, real};
use super::memory::LABEL;
use surefoot_model::{
    Actor, AlertReading, AlertSource, CheckState, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Event,
    HostCheck, Observed, RepairLasts, Room, Subject,
};

const CASE: u64 = 17;

fn step(
    action: DeedAction,
    target: DeedTarget,
    begun_ns: u64,
    ended_ns: u64,
    outcome: DeedOutcome,
) -> [(u64, Deed); 2] {
    let begun = Deed {
        at_realtime_ns: real(begun_ns),
        begun_realtime_ns: real(begun_ns),
        room: Room::Remedy,
        subject: Subject::host(),
        actor: Actor::Agent { host: HOST.into() },
        action,
        target,
        reason: DeedReason::Case { case: CASE, fault: "memory/rate".into(), service: "weather".into() },
        outcome: DeedOutcome::Begun,
    };
    let ended = begun.with_outcome(outcome, real(ended_ns));
    [(begun_ns, begun), (ended_ns, ended)]
}

fn case() -> Vec<(u64, Deed)> {
    let done = |observed| DeedOutcome::Done { observed };
    let reading = AlertReading { source: AlertSource::Agent, holds: Some(true), age_s: Some(4), why: String::new() };
    let state = |state: &str| format!("Slurm: {state}");
    let part = || DeedTarget::Part { name: LABEL.into() };
    let steps = [
        step(
            DeedAction::Recheck,
            DeedTarget::Subject,
            CASE_OPENS,
            CASE_OPENS + 2 * S,
            done(Observed::Alert { readings: vec![reading] }),
        ),
        step(
            DeedAction::Drain,
            DeedTarget::Subject,
            CASE_OPENS + 10 * S,
            DRAINED,
            done(Observed::Empty {
                state: state("idle+drain"),
                work_count: 0,
                allocated_cpus: Some(0),
                staying_count: 0,
                taken_out_by: String::new(),
            }),
        ),
        step(
            DeedAction::CollectErrors,
            part(),
            DRAINED + MIN,
            DRAINED + 4 * MIN,
            done(Observed::RowsFound { row_count: 1, unplaced_count: 0 }),
        ),
        step(
            DeedAction::SoftRepair,
            part(),
            DRAINED + 5 * MIN,
            REPAIRED,
            done(Observed::RowsRepaired {
                lasts: RepairLasts::UntilReset,
                asked_count: 1,
                accepted_count: 1,
                spare_count: 3,
            }),
        ),
        step(
            DeedAction::Stress,
            DeedTarget::Subject,
            REPAIRED + MIN,
            STRESS_ENDS,
            done(Observed::Tested { tested_s: 31 * 60, copied_mebibytes: 4_464_000, error_count: 0 }),
        ),
        step(
            DeedAction::Recheck,
            DeedTarget::Subject,
            STRESS_ENDS + 30 * S,
            STRESS_ENDS + 32 * S,
            done(Observed::FaultGone { evidence: "agent: over (6 s ago), store: over (6 s ago)".into() }),
        ),
        step(
            DeedAction::Return,
            DeedTarget::Subject,
            STRESS_ENDS + MIN,
            RETURNED,
            done(Observed::InService { state: state("mixed"), work_count: 1 }),
        ),
    ];
    steps.into_iter().flatten().collect()
}

fn check(name: &str, day_ns: u64, period_ns: u64, (state, since_ns): (CheckState, u64), sentence: &str) -> HostCheck {
    HostCheck {
        at_ns: at(day_ns),
        at_realtime_ns: real(day_ns),
        name: name.into(),
        state,
        sentence: sentence.into(),
        evidence: Vec::new(),
        since_realtime_ns: real(since_ns),
        is_change: since_ns == day_ns,
        took_ns: 12_000_000,
        processor_ns: 9_000_000,
        period_ns,
    }
}

pub fn events() -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> =
        case().into_iter().map(|(day_ns, deed)| (at(day_ns), Event::Deed(Box::new(deed)))).collect();
    let every = 30 * MIN;
    for number in 0..48 {
        let first_ns = 40 * S;
        let day_ns = number * every + first_ns;
        // By noon the log of the job has filled the disk to four fifths.
        let filled_ns = 25 * every + first_ns + 2 * S;
        let disk = match day_ns + 2 * S < filled_ns {
            true => {
                check("disk-space", day_ns + 2 * S, every, (CheckState::Ok, first_ns + 2 * S), "/var has 41 % left.")
            }
            false => check("disk-space", day_ns + 2 * S, every, (CheckState::Warning, filled_ns), "/var has 9 % left."),
        };
        let clock = check("clock", day_ns, every, (CheckState::Ok, first_ns), "The wall clock is synchronised.");
        let services =
            check("services", day_ns + S, every, (CheckState::Ok, first_ns + S), "No systemd unit has failed.");
        events.extend([clock, services, disk].map(|check| (check.at_ns, Event::Check(Box::new(check)))));
    }
    events.retain(|(when, _)| *when < at(24 * H));
    events
}
