//! The checkpoints as OpenMetrics.

use super::realtime_ns;
use super::shape::{Answer, GenerationState, JobView};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;

/// The states of a generation, so that a series is there before the first of its kind is.
const STATES: [GenerationState; 4] =
    [GenerationState::Complete, GenerationState::Partial, GenerationState::Unfinished, GenerationState::Damaged];

/// A label and its value.
type Label<'a> = (&'static str, &'a str);

/// Writes the series of the newest look; none before the first.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(crate) fn encode(answer: &Answer, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let Some(looked_ns) = answer.looked_realtime_ns else { return Ok(()) };
    let now_ns = realtime_ns();
    let age_s = |then_ns: u64| now_ns.saturating_sub(then_ns) as f64 / 1e9;
    let jobs = &answer.jobs;
    let seconds = Some(&Unit::Seconds);

    let help = "Age of the newest checkpoint in memory that is whole on this node, by job.";
    each(encoder, ("checkpoint_memory_age", help, seconds, Gauge), jobs, |family, job, name| {
        let Some(taken_ns) = job.memory_realtime_ns else { return Ok(()) };
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
        let Some(bound_s) = job.state.as_ref().and_then(|state| state.staleness_max_s) else { return Ok(()) };
        gauge(family, &[name], bound_s)
    })?;
    let help = "What the checkpoints of a job take in each tier.";
    each(encoder, ("checkpoint_stored", help, Some(&Unit::Bytes), Gauge), jobs, |family, job, name| {
        job.stored_bytes.iter().try_for_each(|(tier, &bytes)| gauge(family, &[name, ("tier", tier)], bytes as f64))
    })?;
    let help = "Checkpoints that are there, by job, tier and state.";
    each(encoder, ("checkpoint_generations", help, None, Gauge), jobs, |family, job, name| {
        for tier in job.stored_bytes.keys() {
            for state in STATES {
                let is_of = |one: &&super::shape::GenerationView| one.tier == *tier && one.state == state;
                let count = job.generations.iter().filter(is_of).count();
                gauge(family, &[name, ("tier", tier), ("state", state.label())], count as f64)?;
            }
        }
        Ok(())
    })?;
    let help = "Decisions where to put a checkpoint since the job's session began, by place.";
    each(encoder, ("checkpoint_decisions", help, None, Counter), jobs, |family, job, name| {
        let decided = job.state.iter().flat_map(|state| &state.decided);
        decided.into_iter().try_for_each(|(place, &count)| counter(family, &[name, ("place", place)], count as f64))
    })?;
    let help = "What the durable tier took on one node since the job's session began.";
    each(encoder, ("checkpoint_written", help, Some(&Unit::Bytes), Counter), jobs, |family, job, name| {
        let Some(state) = &job.state else { return Ok(()) };
        counter(family, &[name], state.durable_bytes as f64)
    })?;
    let help = "Time that the job waited for its checkpoints since its session began.";
    each(encoder, ("checkpoint_visible", help, seconds, Counter), jobs, |family, job, name| {
        let Some(state) = job.state.as_ref().filter(|state| state.checkpoint_s >= 0.0) else { return Ok(()) };
        counter(family, &[name], state.checkpoint_s)
    })?;
    let help = "Things that are not as they should be in the directories of checkpoints.";
    let mut family = encoder.encode_descriptor("checkpoint_problems", help, None, Gauge)?;
    let unreadable = answer.directories.iter().filter(|directory| directory.problem.is_some()).count();
    let problems = (answer.problems.len() + unreadable) as u64 + answer.problems_left_out;
    family.encode_gauge(&(problems as f64))?;
    let help = "Age of the newest look at the directories of checkpoints.";
    let mut family = encoder.encode_descriptor("checkpoint_look_age", help, seconds, Gauge)?;
    family.encode_gauge(&age_s(looked_ns))
}

/// Name, help, unit and kind of a family.
type Family<'a> = (&'a str, &'a str, Option<&'a Unit>, MetricType);

/// Writes a family with what `write` has for each job, whose label comes with it.
fn each(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit, kind): Family<'_>,
    jobs: &[JobView],
    mut write: impl FnMut(&mut MetricEncoder<'_>, &JobView, Label<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
    jobs.iter().try_for_each(|job| write(&mut family, job, ("job", &job.name)))
}

fn gauge(family: &mut MetricEncoder<'_>, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_gauge(&value)
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
}
