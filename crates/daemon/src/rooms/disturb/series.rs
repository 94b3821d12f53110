//! Experiments as OpenMetrics.

use super::state::{Experiment, State};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_model::{ExperimentEffect, ExperimentOutcome, one_line};

/// Experiments whose effects have series of their own: the newest.
const EFFECTS_MAX: usize = 32;

/// The value of a series.
type Value = fn(&ExperimentEffect) -> f64;

/// Writes the series; none where nobody has said anything of any experiment.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(state: &State, now_ns: u64, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let totals = &state.totals;
    if totals.began == 0 {
        return Ok(());
    }
    let help = "Experiments that run now and disturb this host, or a workload on it.";
    encoder.encode_descriptor("disturb_running", help, None, Gauge)?.encode_gauge(&(state.running().count() as f64))?;
    let mut counter = |name: &str, help: &str, value: u64| {
        let mut family = encoder.encode_descriptor(name, help, None, Counter)?;
        family.encode_counter::<NoLabelSet, _, f64>(&(value as f64), None)
    };
    counter("disturb_experiments", "Experiments reported to the watch.", totals.began)?;
    counter("disturb_runs", "Runs of workloads that are complete.", totals.runs)?;
    counter("disturb_stalls", "Stalls, interrupts and packets that were injected.", totals.stalls)?;
    let help = "Experiments that had no room among those that are kept.";
    counter("disturb_experiments_dropped", help, state.dropped)?;
    let help = "Experiments that have ended, by how.";
    let mut family = encoder.encode_descriptor("disturb_experiments_ended", help, None, Counter)?;
    for outcome in ExperimentOutcome::ALL.map(ExperimentOutcome::as_str) {
        let count = totals.ended.get(outcome).copied().unwrap_or(0);
        let labels = [("outcome", outcome)];
        let mut one = family.encode_family(&labels)?;
        one.encode_counter::<NoLabelSet, _, f64>(&(count as f64), None)?;
    }
    let help = "Time for which experiments held the core, as far as each stall was reported.";
    let mut family = encoder.encode_descriptor("disturb_stalled", help, Some(&Unit::Seconds), Counter)?;
    for (core, ns) in &totals.stalled_ns {
        let core = core.to_string();
        let labels = [("core", &*core)];
        let mut one = family.encode_family(&labels)?;
        one.encode_counter::<NoLabelSet, _, f64>(&(*ns as f64 / 1e9), None)?;
    }
    effects(state, encoder)?;
    let Some(look) = &state.look else { return Ok(()) };
    let help = "Journals of experiments that could not be read or understood.";
    let problems = look.problems_left_out.saturating_add(look.problems.len() as u64);
    encoder.encode_descriptor("disturb_problems", help, None, Gauge)?.encode_gauge(&(problems as f64))?;
    let help = "Age of the newest look at the journals of experiments.";
    let mut family = encoder.encode_descriptor("disturb_look_age", help, Some(&Unit::Seconds), Gauge)?;
    family.encode_gauge(&(now_ns.saturating_sub(look.looked_realtime_ns) as f64 / 1e9))
}

fn effects(state: &State, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let effect = |one: &Experiment| {
        let effect = one.ended.as_ref()?.effect.as_deref()?.clone();
        Some((one_line(&one.began.experiment), effect))
    };
    let newest: Vec<(String, ExperimentEffect)> =
        state.experiments().rev().filter_map(effect).take(EFFECTS_MAX).collect();
    let families: [(&str, &str, Value); 4] = [
        ("disturb_ratio", "How many times as large the experiment made its number.", |effect| effect.ratio),
        ("disturb_ratio_low", "The lower end of the interval of that.", |effect| effect.interval_low),
        ("disturb_ratio_high", "The upper end of the interval of that.", |effect| effect.interval_high),
        ("disturb_injected_share", "Share of its disturbed runs in which the cores were stalled.", |effect| {
            effect.injected_share
        }),
    ];
    for (name, help, value) in families {
        let mut family = encoder.encode_descriptor(name, help, None, Gauge)?;
        newest.iter().try_for_each(|(experiment, effect)| gauge(&mut family, experiment, value(effect)))?;
    }
    Ok(())
}

fn gauge(family: &mut MetricEncoder<'_>, experiment: &str, value: f64) -> Result<(), Error> {
    family.encode_family(&[("experiment", experiment)])?.encode_gauge(&value)
}
