//! The case of the failing module, from the alert to the return of the host, and the host's periodic checks. The deeds are made as an
//! agent makes them, from orders and outcomes.

use super::HOST;
use super::clock::{CASE_OPENS, DRAINED, H, MIN, REPAIRED, RETURNED, S, STRESS_ENDS, at, real};
use super::memory::LABEL;
use surefoot_model::{Actor, CheckState, Deed, DeedOutcome, DeedReason, Event, HostCheck, Observed, Room, Subject};
use surefoot_model::{DeedAction, DeedTarget};

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
    let note = |text: &str| DeedOutcome::Done { observed: Observed::Note { text: text.into() } };
    let gone = |evidence: &str| DeedOutcome::Done { observed: Observed::FaultGone { evidence: evidence.into() } };
    let part = || DeedTarget::Part { name: LABEL.into() };
    let steps = [
        step(DeedAction::Recheck, DeedTarget::Subject, CASE_OPENS, CASE_OPENS + 2 * S, note("memory/rate still holds")),
        step(DeedAction::Drain, DeedTarget::Subject, CASE_OPENS + 10 * S, DRAINED, note("no job runs on the host")),
        step(
            DeedAction::CollectErrors,
            part(),
            DRAINED + MIN,
            DRAINED + 4 * MIN,
            note("1 row: rank 0, bank group 1, bank 2, row 0x2f4a"),
        ),
        step(
            DeedAction::SoftRepair,
            part(),
            DRAINED + 5 * MIN,
            REPAIRED,
            note("row 0x2f4a is replaced by a spare row until the next loss of power"),
        ),
        step(DeedAction::Stress, DeedTarget::Subject, REPAIRED + MIN, STRESS_ENDS, note("31 min under load, 0 errors")),
        step(
            DeedAction::Recheck,
            DeedTarget::Subject,
            STRESS_ENDS + 30 * S,
            STRESS_ENDS + 32 * S,
            gone("memory/rate is over; no corrected error since the repair"),
        ),
        step(
            DeedAction::Return,
            DeedTarget::Subject,
            STRESS_ENDS + MIN,
            RETURNED,
            note("the host takes work again, and a job runs"),
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
