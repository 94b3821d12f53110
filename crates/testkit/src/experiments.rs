//! What a journal of an experiment tells.

use serde_json::json;
use surefoot_model::{
    CpuId, DisturbEvent, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentOutcome, ExperimentRun,
    InjectedStall,
};

/// An experiment of core 1 that ended so, or runs.
pub fn told(name: &str, outcome: Option<ExperimentOutcome>) -> Vec<DisturbEvent> {
    let began = ExperimentBegan {
        experiment: name.into(),
        at_ns: 1_000,
        at_realtime_ns: 5_000,
        pid: 7,
        uid: Some(1000),
        disturbance: "freeze".into(),
        method: "bpf".into(),
        is_of_cores: true,
        cores: vec![CpuId(1)],
        length_ns: 2_000_000,
        period_ns: 1_000_000_000,
        workload: "./secret --key 1".into(),
        metric: "wall".into(),
        run_count: 3,
        ..ExperimentBegan::default()
    };
    let run: ExperimentRun = serde_json::from_value(json!({
        "run": 2, "repetition": 0, "condition": "disturbed", "value": 1e9, "start_ns": 1_500, "wall_ns": 1_000_000_000u64,
        "stall_count": 2, "injected_share": 0.004, "missed_stalls": 0, "dropped_stalls": 0, "cut_stalls": 0,
        "left_behind": 0, "dropped_bytes": 0, "load": 0.1,
    }))
    .expect("it is written above as the model has it");
    let stall = |start_ns| InjectedStall {
        run: 2,
        core: Some(CpuId(1)),
        start_ns,
        length_ns: 2_000_100,
        target_ns: start_ns - 50,
    };
    let experiment = name.to_owned();
    let stalls = vec![stall(2_000), stall(1_000_002_000)];
    let mut events = vec![
        DisturbEvent::Began(began.into()),
        DisturbEvent::Stalls { experiment: experiment.clone(), stalls, left_out_count: 1 },
        DisturbEvent::Run { experiment: experiment.clone(), run: run.into() },
    ];
    let effect = (outcome == Some(ExperimentOutcome::Finished)).then(|| effect().into());
    events.extend(outcome.map(|outcome| {
        let why = if effect.is_some() { String::new() } else { "the workload ended with code 1".into() };
        DisturbEvent::Ended(ExperimentEnded { effect, ..ExperimentEnded::new(experiment, (9, 9_000), outcome, why) })
    }));
    events
}

fn effect() -> ExperimentEffect {
    serde_json::from_value(json!({
        "ratio": 1.2, "interval_low": 1.1, "interval_high": 1.3, "confidence": 0.96, "effect_shown": true,
        "minimum_detectable_ratio": 1.1, "injected_share": 0.004, "stall_count": 2, "missed_stalls": 0,
        "dropped_stalls": 0, "cut_stalls": 0, "start_late_median_ns": 50, "end_late_median_ns": 150,
        "end_late_p90_ns": 150, "start_skew_median_ns": null, "end_skew_median_ns": null, "outlier_runs": [],
        "method": "bpf", "method_words": "interrupts off", "cores": [1], "length_ns": 2_000_000,
        "period_ns": 1_000_000_000, "workload": "./secret --key 1", "metric": "wall", "repetitions": 1, "seed": 1,
        "undisturbed_median": 1e9, "disturbed_median": 1.2e9, "notes": [], "warnings": ["one pair"],
    }))
    .expect("it is written above as the model has it")
}
