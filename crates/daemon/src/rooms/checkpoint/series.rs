//! The checkpoints as OpenMetrics.

use super::state::{Job, State};
use super::view::stored_bytes;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_model::{Generation, GenerationState, one_line};

/// A label and its value.
type Label<'a> = (&'static str, &'a str);

/// Writes the series of the newest look; none before the first.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(state: &State, now_ns: u64, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let Some(look) = state.look() else { return Ok(()) };
    let age_s = |then_ns: u64| now_ns.saturating_sub(then_ns) as f64 / 1e9;
    let jobs = state;
    let seconds = Some(&Unit::Seconds);

    let help = "Age of the newest checkpoint in memory that is whole on this node, by job.";
    each(encoder, ("checkpoint_memory_age", help, seconds, Gauge), jobs, |family, job, name| {
        let Some(taken_ns) = job.memory_realtime_ns() else { return Ok(()) };
        gauge(family, &[name], age_s(taken_ns))
    })?;
    let help = "Age of the newest complete checkpoint on an SSD or shared file system, by job; of the session where \
                there is none.";
    each(encoder, ("checkpoint_durable_age", help, seconds, Gauge), jobs, |family, job, name| {
        let Some(age_s) = job.durable_age_s(now_ns) else { return Ok(()) };
        gauge(family, &[name], age_s)
    })?;
    let help = "The bound on the age of the durable checkpoint, by job.";
    each(encoder, ("checkpoint_durable_age_limit", help, seconds, Gauge), jobs, |family, job, name| {
        let Some(bound_s) = job.standing().and_then(|standing| standing.staleness_max_s) else { return Ok(()) };
        gauge(family, &[name], bound_s)
    })?;
    let help = "What the checkpoints of a job take in each tier.";
    each(encoder, ("checkpoint_stored", help, Some(&Unit::Bytes), Gauge), jobs, |family, job, name| {
        let stored = stored_bytes(job);
        stored.iter().try_for_each(|(tier, &bytes)| gauge(family, &[name, ("tier", tier)], bytes as f64))
    })?;
    let help = "Checkpoints that are there, by job, tier and state.";
    each(encoder, ("checkpoint_generations", help, None, Gauge), jobs, |family, job, name| {
        for tier in stored_bytes(job).into_keys() {
            for state in GenerationState::ALL {
                let is_of = |one: &&Generation| one.tier.as_str() == tier && one.state == state;
                let count = job.seen.generations.iter().filter(is_of).count();
                gauge(family, &[name, ("tier", tier), ("state", state.as_str())], count as f64)?;
            }
        }
        Ok(())
    })?;
    let help = "Decisions where to put a checkpoint since the job's session began, by place.";
    each(encoder, ("checkpoint_decisions", help, None, Counter), jobs, |family, job, name| {
        let decided = job.standing().map(|standing| standing.decided.decided).unwrap_or_default();
        decided.iter().try_for_each(|(place, &count)| counter(family, &[name, ("place", place)], count as f64))
    })?;
    let help = "What the durable tier took on one node since the job's session began.";
    each(encoder, ("checkpoint_written", help, Some(&Unit::Bytes), Counter), jobs, |family, job, name| {
        let Some(standing) = job.standing() else { return Ok(()) };
        counter(family, &[name], standing.decided.durable_bytes as f64)
    })?;
    let help = "Time that the job waited for its checkpoints since its session began.";
    each(encoder, ("checkpoint_visible", help, seconds, Counter), jobs, |family, job, name| {
        let visible_s =
            job.standing().map(|standing| standing.decided.checkpoint_s).filter(|&visible_s| visible_s >= 0.0);
        let Some(visible_s) = visible_s else { return Ok(()) };
        counter(family, &[name], visible_s)
    })?;
    let help = "Jobs without their own series: over the limit of their user.";
    let mut family = encoder.encode_descriptor("checkpoint_jobs_without_series", help, None, Gauge)?;
    family.encode_gauge(&(state.jobs.values().filter(|job| !state.is_labelled(job)).count() as u64))?;
    let help = "Things that are not as they should be in the directories of checkpoints.";
    let mut family = encoder.encode_descriptor("checkpoint_problems", help, None, Gauge)?;
    let unreadable = look.directories.iter().filter(|directory| directory.problem.is_some()).count();
    let problems = look.problems_left_out.saturating_add((look.problems.len() + unreadable) as u64);
    family.encode_gauge(&(problems as f64))?;
    let help = "Age of the newest look at the directories of checkpoints.";
    let mut family = encoder.encode_descriptor("checkpoint_look_age", help, seconds, Gauge)?;
    family.encode_gauge(&age_s(look.looked_realtime_ns))
}

/// Name, help, unit and kind of a family.
type Family<'a> = (&'a str, &'a str, Option<&'a Unit>, MetricType);

/// Writes a family with what `write` has for each job, whose label comes with it.
fn each(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit, kind): Family<'_>,
    state: &State,
    mut write: impl FnMut(&mut MetricEncoder<'_>, &Job, Label<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
    let mut labelled = state.jobs.values().filter(|job| state.is_labelled(job));
    labelled.try_for_each(|job| write(&mut family, job, ("job", &one_line(&job.seen.name))))
}

fn gauge(family: &mut MetricEncoder<'_>, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_gauge(&value)
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
}
