//! An experiment: twelve pairs of runs, every other one with core 1 held for 2 ms of every 50; the effect is computed as a real one's is.

use super::clock::{EXPERIMENT, EXPERIMENT_ENDS, H, MIN, S, at, real};
use super::random::Random;
use surefoot_disturb::effect::{self, Effect};
use surefoot_model::{
    CpuId, DisturbEvent, Event, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentLook, ExperimentOutcome,
    ExperimentRun, InjectedStall,
};

pub const NAME: &str = "demo-freeze-2ms";
const PAIRS: u64 = 12;
const LENGTH: u64 = 2_000_000;
const PERIOD: u64 = 50_000_000;
const WORKLOAD: &str = "./halo-exchange --steps 4000";
const METHOD: &str = "ebpf-timer";
/// What runs take undisturbed, and how many times as long disturbed ones take.
const RUN: u64 = 24 * S;
const RATIO: f64 = 1.043;
/// Stalls of a run that are listed.
const STALLS: u64 = 40;

struct Run {
    run: ExperimentRun,
    stalls: Vec<InjectedStall>,
    day_ns: u64,
}

fn runs() -> Vec<Run> {
    let mut random = Random::new(23);
    let mut day_ns = EXPERIMENT + 5 * S;
    let mut all = Vec::new();
    for number in 0..=2 * PAIRS {
        let is_warm_up = number == 0;
        // The order within a pair changes.
        let pair = (number.max(1) - 1) / 2;
        let is_disturbed = !is_warm_up && (number % 2 == 0) != (pair % 3 == 0);
        let factor = if is_disturbed { RATIO } else { 1.0 };
        let wall_ns = (random.near(RUN, 6) as f64 * factor) as u64 / 1_000 * 1_000;
        let stall_count = if is_disturbed { wall_ns / PERIOD } else { 0 };
        let start_ns = at(day_ns);
        let stall = |of_run: u64, late_ns: u64| InjectedStall {
            run: number,
            core: Some(CpuId(1)),
            start_ns: start_ns + of_run * PERIOD + late_ns,
            length_ns: LENGTH + late_ns / 4,
            target_ns: start_ns + of_run * PERIOD,
        };
        let stalls = (0..stall_count.min(STALLS)).map(|of_run| stall(of_run, 1_000 + random.below(4_000))).collect();
        let condition = match (is_warm_up, is_disturbed) {
            (true, _) => "warm_up",
            (_, true) => "disturbed",
            (_, false) => "undisturbed",
        };
        let run = ExperimentRun {
            run: number,
            repetition: (!is_warm_up).then_some(pair),
            condition: condition.into(),
            value: wall_ns as f64,
            start_ns,
            wall_ns,
            stall_count,
            injected_share: (stall_count * LENGTH) as f64 / wall_ns as f64,
            missed_stalls: 0,
            dropped_stalls: 0,
            cut_stalls: 0,
            left_behind: 0,
            dropped_bytes: 0,
            load: Some(1.1),
            case: String::new(),
            treatment: String::new(),
        };
        all.push(Run { run, stalls, day_ns: day_ns + wall_ns });
        day_ns += wall_ns + 3 * S;
    }
    all
}

fn measured(runs: &[Run]) -> Option<ExperimentEffect> {
    let of = |condition: &str| -> Vec<&ExperimentRun> {
        let mut of: Vec<&ExperimentRun> =
            runs.iter().map(|one| &one.run).filter(|run| run.condition == condition).collect();
        of.sort_by_key(|run| run.repetition);
        of
    };
    let (undisturbed, disturbed) = (of("undisturbed"), of("disturbed"));
    let pairs: Vec<(f64, f64)> = undisturbed.iter().zip(&disturbed).map(|(one, two)| (one.value, two.value)).collect();
    let effect = Effect::of(&pairs)?;
    let values = |runs: &[&ExperimentRun]| runs.iter().map(|run| run.value).collect::<Vec<f64>>();
    let wall: u64 = disturbed.iter().map(|run| run.wall_ns).sum();
    let stall_count: u64 = disturbed.iter().map(|run| run.stall_count).sum();
    Some(ExperimentEffect {
        ratio: effect.ratio,
        interval_low: effect.low,
        interval_high: effect.high,
        confidence: effect.confidence,
        effect_shown: effect.is_shown,
        minimum_detectable_ratio: effect.detectable,
        injected_share: (stall_count * LENGTH) as f64 / wall as f64,
        stall_count,
        start_late_median_ns: Some(3_000),
        end_late_median_ns: Some(3_600),
        end_late_p90_ns: Some(5_900),
        method: METHOD.into(),
        method_words: "an eBPF timer program that spins in interrupt context on the core".into(),
        cores: vec![CpuId(1)],
        length_ns: LENGTH,
        period_ns: PERIOD,
        workload: WORKLOAD.into(),
        metric: "wall".into(),
        repetitions: PAIRS,
        seed: 23,
        undisturbed_median: effect::median(values(&undisturbed)),
        disturbed_median: effect::median(values(&disturbed)),
        ..ExperimentEffect::default()
    })
}

pub fn events() -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> = Vec::new();
    let mut tell = |day_ns: u64, seen: DisturbEvent| events.push((at(day_ns), Event::Disturb(seen)));
    let began = ExperimentBegan {
        experiment: NAME.into(),
        at_ns: at(EXPERIMENT),
        at_realtime_ns: real(EXPERIMENT),
        pid: 30_517,
        uid: Some(0),
        disturbance: "freeze".into(),
        method: METHOD.into(),
        is_of_cores: true,
        cores: vec![CpuId(1)],
        length_ns: LENGTH,
        period_ns: PERIOD,
        phase: "same".into(),
        workload: WORKLOAD.into(),
        metric: "wall".into(),
        run_count: 2 * PAIRS + 1,
        ..ExperimentBegan::default()
    };
    tell(EXPERIMENT, DisturbEvent::Began(Box::new(began)));
    let runs = runs();
    let last = runs.last().map_or(0, |run| run.day_ns);
    assert!(last < EXPERIMENT_ENDS, "the runs take until {} s of the day", last / S);
    for Run { run, stalls, day_ns } in &runs {
        if !stalls.is_empty() {
            let left_out_count = run.stall_count - stalls.len() as u64;
            tell(*day_ns, DisturbEvent::Stalls { experiment: NAME.into(), stalls: stalls.clone(), left_out_count });
        }
        tell(*day_ns, DisturbEvent::Run { experiment: NAME.into(), run: Box::new(run.clone()) });
    }
    let moment = (at(EXPERIMENT_ENDS), real(EXPERIMENT_ENDS));
    let ended = ExperimentEnded::new(NAME.into(), moment, ExperimentOutcome::Finished, String::new());
    let effect = measured(&runs).map(Box::new);
    tell(EXPERIMENT_ENDS, DisturbEvent::Ended(ExperimentEnded { effect, ..ended }));
    for day_ns in [EXPERIMENT_ENDS + MIN, 24 * H - 10 * MIN] {
        let look = ExperimentLook {
            directories_unread: 0,
            at_ns: at(day_ns),
            looked_realtime_ns: real(day_ns),
            look_ns: 1_000_000,
            directories: vec![ExperimentBegan::DIRECTORY.into()],
            ..ExperimentLook::default()
        };
        tell(day_ns, DisturbEvent::Look(look));
    }
    events
}
