//! Experiments as metrics.

use crate::http::series::{Claim, Detail, Series};
use surefoot_http::metrics::seconds;
use surefoot_model::{ExperimentEffect, ExperimentOutcome, one_line};
use surefoot_rooms::disturb::state::{Experiment, State};

/// Adds the series; none where no experiment was reported and no journal was looked at.
pub(super) fn encode(state: &State, now_ns: u64, series: &mut Series) {
    let totals = &state.totals;
    if totals.began == 0 && state.look.is_none() {
        return;
    }
    let help = "Experiments that run now and disturb this host, or a workload on it.";
    series.gauge("disturb_running", help).add(&[], state.running().count() as u64);
    let mut counter = |name, help, value: u64| series.counter(name, help).add(&[], value);
    counter("disturb_experiments", "Experiments reported to the watch.", totals.began);
    counter("disturb_runs", "Runs of workloads that are complete.", totals.runs);
    counter("disturb_stalls", "Stalls, interrupts and packets that were injected.", totals.stalls);
    let help = "Experiments that had no room among those that are kept.";
    counter("disturb_experiments_dropped", help, state.dropped);
    let family = series.counter("disturb_experiments_ended", "Experiments that have ended, by how.");
    for outcome in ExperimentOutcome::ALL.map(ExperimentOutcome::as_str) {
        family.add(&[("outcome", outcome)], totals.ended.get(outcome).copied().unwrap_or(0));
    }
    let help = "Time for which experiments held cores, as far as each stall was reported.";
    let all_ns = totals.stalled_ns.values().fold(0u64, |sum, &ns| sum.saturating_add(ns));
    series.seconds_counter("disturb_stalled", help).add(&[], seconds(all_ns));
    if series.tells(Detail::Core) {
        let family = series.seconds_counter("disturb_core_stalled", "Time for which experiments held each core.");
        for (place, (core, &ns)) in totals.stalled_ns.iter().enumerate() {
            family.of(Claim(CORES + place), &[("cpu", &core.to_string())], seconds(ns));
        }
    }
    effects(state, series);
    let Some(look) = &state.look else { return };
    let help = "Journals of experiments that could not be read or understood.";
    let problems = look.problems_left_out.saturating_add(look.problems.len() as u64);
    series.gauge("disturb_problems", help).add(&[], problems);
    let help = "Age of the newest look at the journals of experiments.";
    series.seconds("disturb_look_age", help).add(&[], seconds(now_ns.saturating_sub(look.looked_realtime_ns)));
}

/// Claims of cores, after those of experiments.
const CORES: usize = 10_000;

/// The newest first.
fn effects(state: &State, series: &mut Series) {
    let effect = |one: &Experiment| {
        let effect: ExperimentEffect = one.ended.as_ref()?.effect.as_deref()?.clone();
        Some((one_line(&one.began.experiment), effect))
    };
    for (place, (experiment, effect)) in state.experiments().rev().filter_map(effect).enumerate() {
        let mut ratio = |name, help, value: f64| {
            series.ratio(name, help).of(Claim(place), &[("experiment", &experiment)], value);
        };
        ratio("disturb_effect", "Metric of the experiment's runs, disturbed over undisturbed.", effect.ratio);
        ratio("disturb_effect_low", "The lower end of the interval of that.", effect.interval_low);
        ratio("disturb_effect_high", "The upper end of the interval of that.", effect.interval_high);
        let help = "Share of its disturbed runs in which the cores were stalled.";
        ratio("disturb_injected", help, effect.injected_share);
    }
}
