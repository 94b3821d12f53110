//! A day of a job for every combination of tiers, policies and settings that a person may choose: the intervals, the budget
//! and the bound hold, or a reason says which cannot and why.

use super::tests::calm;
use super::{
    Controller, Copies, Course, Drive, Fixed, Place, Policy, Priority, Situation, Surefoot, Visible, YEAR_S, interval,
};

const DAY_S: f64 = 86_400.0;

/// The most calls that are stepped through.
const CALLS_MAX: f64 = 4_000.0;

/// What a person chooses, and the machine.
#[derive(Debug, Clone, Copy)]
struct Choice {
    has_memory: bool,
    has_durable: bool,
    policy: Surefoot,
    /// Seconds between two calls.
    step_s: f64,
    /// Bytes of a checkpoint, and how long memory and the drive take for it.
    size_bytes: f64,
    memory_s: f64,
    drain_s: f64,
    /// The share of a background write's time that the program loses.
    lost_share: f64,
    drive: Option<Drive>,
    /// After how long the program crashes and starts anew, each time; infinite where it does not.
    crashes_s: f64,
    /// Whether the program asks before it saves.
    asks: bool,
}

impl Choice {
    /// A day, or less where that has very many calls.
    fn ends_s(&self) -> f64 {
        DAY_S.min(CALLS_MAX * self.step_s)
    }
}

/// What a day came to.
#[derive(Debug, Default)]
struct Day {
    calls: u64,
    asked_for: u64,
    taken: u64,
    written_bytes: f64,
    /// Seconds that the program waited for a former copy.
    waited_s: f64,
    /// What a background write was measured to cost.
    lost_s: Option<f64>,
    /// How old the durable copy got, once there was one.
    oldest_durable_s: f64,
    /// How old the newest checkpoint of any tier got.
    oldest_s: f64,
    /// Whether a reason said that the bound cannot be kept, or that the drive cannot bear more.
    said_bound: bool,
    said_budget: bool,
}

/// Steps through a day as a session does; through as many sessions as it takes.
fn day(choice: &Choice) -> Day {
    let mut day = Day::default();
    let (mut began_s, mut left_bytes) = (0.0, None);
    while began_s < choice.ends_s() {
        let mut controller = Controller::new(Policy::Surefoot(choice.policy));
        if let Some(left_bytes) = left_bytes {
            // Starting again takes a while.
            controller.resume_budget(left_bytes, choice.step_s);
            began_s += choice.step_s;
        }
        let ends_s = choice.crashes_s.min(choice.ends_s() - began_s);
        session(choice, &mut controller, ends_s, &mut day);
        left_bytes = controller.budget_bytes();
        began_s += ends_s;
    }
    day
}

/// One session.
fn session(choice: &Choice, controller: &mut Controller, ends_s: f64, day: &mut Day) {
    let (mut course, mut copies) = (Course::default(), Copies::default());
    let mut on_its_way: Option<f64> = None;
    let mut now_s = 0.0;
    while now_s < ends_s {
        now_s += work_s(choice, on_its_way.map_or(0.0, |began_s| (began_s + choice.drain_s - now_s).max(0.0)));
        course.entered(now_s, !choice.asks, on_its_way.is_some());
        if let Some(began_s) = on_its_way.filter(|began_s| began_s + choice.drain_s <= now_s) {
            copies.arrived(began_s, choice.drain_s, choice.size_bytes as u64);
            course.arrived(choice.drain_s);
            on_its_way = None;
        }
        let mut situation = Situation {
            now_s,
            size_bytes: choice.size_bytes,
            durable_bytes: copies.bytes as f64,
            taken_count: course.taken_count,
            since_any_s: now_s - course.last_any_s,
            since_durable_s: now_s - copies.last_s,
            since_written_s: now_s - copies.last_written_s(on_its_way),
            step_s: course.called(now_s),
            memory_cost_s: course.memory_cost_s(),
            durable_extra_s: course.durable_extra_s(),
            drain_loss_s: course.drain_loss_s(),
            durable_alone_s: course.durable_alone_s(),
            drain_s: copies.drain_s(),
            is_draining: on_its_way.is_some(),
            fits_memory: choice.has_memory,
            has_durable: choice.has_durable,
            fits_durable: choice.has_durable,
            drive: choice.drive.map(|drive| Drive { written_bytes: drive.written_bytes + day.written_bytes, ..drive }),
            ..calm()
        };
        day.calls += 1;
        if copies.bytes > 0 {
            day.oldest_durable_s = day.oldest_durable_s.max(situation.since_durable_s);
        }
        if course.taken_count > 0 {
            day.oldest_s = day.oldest_s.max(situation.since_any_s);
        }
        if choice.asks {
            let place = controller.is_due(&situation).place;
            course.returned(now_s, false);
            if place == Place::Skip {
                continue;
            }
            course.entered(now_s, true, on_its_way.is_some());
        }
        day.asked_for += 1;
        situation.step_s = course.called(now_s);
        let decision = controller.decide(&situation);
        let said = decision.reasons.join("; ");
        day.said_bound |= said.contains("cannot be kept");
        day.said_budget |= said.contains("the drive bears");
        assert!(!decision.is_refused && !said.is_empty(), "{choice:?}: {decision:?}");
        if decision.place.is_durable() {
            // One at a time: the program would wait for the former.
            day.waited_s += on_its_way.map_or(0.0, |began_s| began_s + choice.drain_s - now_s);
            day.written_bytes += choice.size_bytes;
            controller.spend(choice.size_bytes);
        }
        // Slots are taken with the first saves into them, at ten times the cost of a save.
        let is_first_use = course.taken_count < 3 && decision.place != Place::Durable;
        let preparing_s = if is_first_use { 9.0 * choice.memory_s } else { 0.0 };
        let all_s = match decision.place {
            Place::Skip => {
                course.returned(now_s, true);
                continue;
            }
            Place::Memory => preparing_s + choice.memory_s,
            Place::Both => {
                on_its_way = Some(now_s);
                preparing_s + choice.memory_s
            }
            Place::Durable => {
                copies.written(now_s, choice.size_bytes as u64);
                choice.drain_s
            }
        };
        day.taken += 1;
        now_s += all_s;
        let visible = Visible { all_s, preparing_s, is_beside_write: situation.is_draining, ..Visible::default() };
        course.took(decision.place, visible, now_s);
        course.returned(now_s, true);
    }
    day.lost_s = course.drain_loss_s();
}

/// How long the work of a step takes beside a write that goes on for so long.
fn work_s(choice: &Choice, slow_s: f64) -> f64 {
    let done_s = slow_s * (1.0 - choice.lost_share);
    if done_s >= choice.step_s { choice.step_s / (1.0 - choice.lost_share) } else { slow_s + choice.step_s - done_s }
}

fn holds(choice: &Choice) {
    let day = day(choice);
    let what = format!("{choice:?}\n{day:?}");
    let Surefoot { soft_failures_per_s, hard_failures_per_s, staleness_max_s, priority, .. } = choice.policy;
    // The program is never held up for the drive beyond what it asked for.
    assert!(day.waited_s == 0.0, "it waits: {what}");
    assert!(day.taken > 0, "at least the first is taken: {what}");
    let (cost_s, rate) = match choice.has_memory {
        true => (choice.memory_s, soft_failures_per_s),
        false => (choice.drain_s, soft_failures_per_s + hard_failures_per_s),
    };
    let wished_s = interval::optimal_s(cost_s, rate);
    let lost_s = choice.lost_share * choice.drain_s;
    // What the drive bears in a day, the burst at the start, and one that was begun before it was counted.
    let borne_bytes = choice.drive.map_or(f64::INFINITY, |drive| {
        let rate = drive.bearable_bytes_per_s(choice.policy.granted_share);
        rate * choice.ends_s() + (rate * choice.policy.burst_s).max(choice.size_bytes) + 2.0 * choice.size_bytes
    });
    let is_borne = day.written_bytes <= borne_bytes;
    // A copy can be as young as two ways to the drive and the calls around them.
    // A step beside a write is longer, by what is lost.
    let least_s = 2.0 * choice.drain_s + 4.0 * (choice.step_s + lost_s) + 2.0 * choice.memory_s;
    let may_be_kept = choice.has_durable && staleness_max_s >= least_s + choice.step_s + choice.memory_s;
    let is_kept = day.oldest_durable_s <= staleness_max_s;
    match priority {
        Priority::Staleness => {
            assert!(is_kept || !may_be_kept, "the bound: {what}");
            assert!(is_borne || day.said_budget, "the budget goes, and a reason says so: {what}");
        }
        Priority::Endurance => {
            assert!(is_borne, "the budget: {what}");
            assert!(is_kept || !may_be_kept || day.said_bound || day.said_budget, "a reason says so: {what}");
        }
    }
    writes_no_more_than_pays(choice, &day, &what);
    if !choice.asks {
        return;
    }
    // As often as it pays or the bound asks for, and no more: not at each call.
    let bound_s = match choice.has_durable {
        true => (staleness_max_s - 2.0 * choice.step_s - choice.drain_s).max(choice.drain_s),
        false => f64::INFINITY,
    };
    let tiers = interval::Tiers {
        memory_cost_s: choice.memory_s,
        durable_extra_s: 0.5 * lost_s,
        durable_least_s: choice.drain_s,
        drain_s: choice.drain_s,
        soft_failures_per_s,
        hard_failures_per_s,
    };
    let both_s = if choice.has_memory && choice.has_durable { tiers.intervals().memory_s } else { wished_s };
    let shortest_s = wished_s.min(bound_s).min(both_s);
    let most = choice.ends_s() / shortest_s.max(choice.step_s) * 2.0 + 10.0;
    assert!((day.taken as f64) <= most, "{} taken, {most:.0} expected at most: {what}", day.taken);
    assert!(day.asked_for as f64 <= most.max(10.0), "asked for at each call: {what}");
    // And no seldomer than it pays, where the drive lets it.
    let limit_s = wished_s + 2.0 * (choice.step_s + lost_s) + choice.memory_s + choice.drain_s;
    assert!(day.oldest_s <= limit_s || day.said_budget || !choice.has_memory, "seldom: {what}");
}

/// However little a copy to the drive was measured to cost, it has a price, also where the drive's wear is not known.
fn writes_no_more_than_pays(choice: &Choice, day: &Day, what: &str) {
    if !choice.has_memory || !choice.has_durable {
        return;
    }
    let Surefoot { soft_failures_per_s, hard_failures_per_s, staleness_max_s, .. } = choice.policy;
    let priced_s = 0.05 * choice.drain_s;
    let pays_s = interval::optimal_s(priced_s, hard_failures_per_s);
    let both_s = interval::optimal_s(choice.memory_s + priced_s, soft_failures_per_s + hard_failures_per_s);
    let bound_s = staleness_max_s - 2.0 * choice.step_s - choice.drain_s;
    // One that pays more often than those in memory goes with each of them.
    let memory_s = interval::optimal_s(choice.memory_s, soft_failures_per_s);
    let wished_s = if pays_s >= memory_s { pays_s } else { both_s };
    let shortest_s = wished_s.min(bound_s).max(choice.drain_s).max(choice.step_s);
    let (count, most) = (day.written_bytes / choice.size_bytes, 1.5 * choice.ends_s() / shortest_s + 3.0);
    assert!(count <= most, "{count} to the drive, {most:.0} expected at most: {what}");
}

#[test]
fn every_choice_keeps_its_intervals_its_budget_and_its_bound() {
    let new = Drive { rated_bytes: 600e12, written_bytes: 0.0, remaining_s: 5.0 * YEAR_S, rated_life_s: 5.0 * YEAR_S };
    let worn = Drive { written_bytes: 599.9e12, remaining_s: YEAR_S, ..new };
    let over = Drive { written_bytes: 700e12, remaining_s: YEAR_S, ..new };
    let mut count = 0;
    for (has_memory, has_durable) in [(true, true), (true, false), (false, true)] {
        for drive in [None, Some(new), Some(worn), Some(over)] {
            for (size_bytes, memory_s, drain_s) in [(1e6, 0.001, 0.01), (1e9, 0.2, 4.0), (64e9, 20.0, 256.0)] {
                for (step_s, staleness_max_s) in [5.0, 60.0, 900.0]
                    .into_iter()
                    .flat_map(|step_s| [6.0, 60.0, 3_600.0, 1e12].map(|max| (step_s, max)))
                {
                    for (priority, mtbf_s) in [Priority::Staleness, Priority::Endurance]
                        .into_iter()
                        .flat_map(|p| [3_600.0, DAY_S].map(|m| (p, m)))
                    {
                        // With one tier alone nothing is written in the background.
                        let lost_shares = if has_memory && has_durable { vec![0.0, 0.5] } else { vec![0.0] };
                        for (asks, lost_share) in
                            [true, false].into_iter().flat_map(|asks| lost_shares.iter().map(move |&lost| (asks, lost)))
                        {
                            let policy = Surefoot {
                                soft_failures_per_s: 1.0 / mtbf_s,
                                hard_failures_per_s: 1.0 / (7.0 * mtbf_s),
                                staleness_max_s,
                                priority,
                                ..Surefoot::default()
                            };
                            holds(&Choice {
                                has_memory,
                                has_durable,
                                policy,
                                step_s,
                                size_bytes,
                                memory_s,
                                drain_s,
                                lost_share,
                                drive,
                                crashes_s: f64::INFINITY,
                                asks,
                            });
                            count += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(count, 4 * 3 * 12 * 4 * (4 + 2 + 2));
}

/// A job that crashes in a loop writes no burst at each start.
#[test]
fn the_budget_holds_over_all_sessions_of_a_job_that_crashes_in_a_loop() {
    let drive =
        Drive { rated_bytes: 600e12, written_bytes: 0.0, remaining_s: 5.0 * YEAR_S, rated_life_s: 5.0 * YEAR_S };
    for (has_memory, crashes_s) in [(true, 30.0), (true, 600.0), (false, 30.0), (false, 600.0)] {
        for priority in [Priority::Staleness, Priority::Endurance] {
            for size_bytes in [1e9, 64e9] {
                let choice = Choice {
                    has_memory,
                    has_durable: true,
                    policy: Surefoot { priority, ..Surefoot::default() },
                    step_s: 10.0,
                    size_bytes,
                    memory_s: 0.2,
                    drain_s: 4.0,
                    lost_share: 0.0,
                    drive: Some(drive),
                    crashes_s,
                    asks: true,
                };
                let day = day(&choice);
                let rate = drive.bearable_bytes_per_s(1.0);
                let borne_bytes = rate * 1.1 * choice.ends_s() + (rate * 3_600.0).max(size_bytes) + size_bytes;
                assert!(day.written_bytes <= borne_bytes, "{choice:?}\n{day:?}");
                assert!(day.written_bytes >= size_bytes, "the first is durable: {choice:?}\n{day:?}");
            }
        }
    }
}

/// The share of its time that a write costs the program is found out, and copies that cost more become rarer.
#[test]
fn what_a_background_write_costs_the_program_enters_the_interval() {
    let choice = |lost_share, asks| Choice {
        has_memory: true,
        has_durable: true,
        policy: Surefoot { staleness_max_s: 1e12, ..Surefoot::default() },
        step_s: 5.0,
        size_bytes: 1e9,
        memory_s: 0.2,
        drain_s: 40.0,
        lost_share,
        drive: None,
        crashes_s: f64::INFINITY,
        asks,
    };
    for asks in [true, false] {
        let days = [0.0, 0.25, 0.5].map(|share| day(&choice(share, asks)));
        for (day, share) in days.iter().zip([0.0, 0.25, 0.5]) {
            let lost_s = day.lost_s.unwrap_or(f64::NAN);
            assert!((lost_s - 40.0 * share).abs() < 1.0, "{asks} {share}: {day:?}");
        }
        // What costs nothing counts as 2 s, its price, and the other two as 10 and 20 s.
        assert!(days[0].written_bytes > 1.5 * days[1].written_bytes, "{asks}: {days:?}");
        assert!(days[1].written_bytes > days[2].written_bytes, "{asks}: {days:?}");
    }
}

/// What the other policies do is their own, but none waits for what is not there.
#[test]
fn a_policy_that_never_looks_is_not_asked_for_in_vain() {
    for policy in [Fixed::Never, Fixed::Memory, Fixed::Durable, Fixed::EveryNth(3), Fixed::PaperNth(3)] {
        for (fits_memory, fits_durable) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut controller = Controller::new(Policy::Fixed(policy));
            let situation = Situation { fits_memory, fits_durable, ..calm() };
            let (asked, decided) = (controller.is_due(&situation), controller.decide(&situation));
            assert_eq!(asked, decided);
            let is_possible = policy != Fixed::Never && (fits_memory || fits_durable);
            assert_eq!(decided.place != Place::Skip, is_possible, "{policy:?}: {decided:?}");
            assert_eq!(decided.is_refused, policy != Fixed::Never && !is_possible, "{policy:?}: {decided:?}");
        }
    }
}
