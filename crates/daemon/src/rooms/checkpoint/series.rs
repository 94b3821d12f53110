//! The checkpoints as metrics.

use crate::http::series::{Claim, Series};
use std::collections::BTreeMap;
use surefoot_http::metrics::seconds;
use surefoot_model::{Generation, GenerationState, one_line};
use surefoot_rooms::checkpoint::state::{Job, State};
use surefoot_rooms::checkpoint::view::stored_bytes;

/// Adds the series of the newest look; none before the first.
pub(super) fn encode(state: &State, now_ns: u64, series: &mut Series) {
    let Some(look) = state.look() else { return };
    series
        .gauge("checkpoint_jobs", "Jobs that keep checkpoints here, as far as the watch keeps them.")
        .add(&[], state.jobs.len() as u64);
    let mut by_tier: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (tier, bytes) in state.jobs.values().flat_map(stored_bytes) {
        let sum = by_tier.entry(tier).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let family = series.bytes("checkpoint_tier_stored", "What the checkpoints of all jobs take in each tier.");
    by_tier.into_iter().for_each(|(tier, bytes)| family.add(&[("tier", tier)], bytes));
    // The oldest durable checkpoint first: most work is at stake there.
    let mut jobs: Vec<&Job> = state.jobs.values().filter(|job| state.is_labelled(job)).collect();
    let age_s = |job: &Job| job.durable_age_s(now_ns).unwrap_or(f64::INFINITY);
    jobs.sort_by(|a, b| age_s(b).total_cmp(&age_s(a)).then_with(|| a.seen.name.cmp(&b.seen.name)));
    for (place, job) in jobs.into_iter().enumerate() {
        of_job(job, Claim(place), now_ns, series);
    }
    let help = "Jobs without their own series: over the limit of their user.";
    let without = state.jobs.values().filter(|job| !state.is_labelled(job)).count();
    series.gauge("checkpoint_jobs_without_series", help).add(&[], without as u64);
    let help = "Things that are not as they should be in the directories of checkpoints.";
    let unreadable = look.directories.iter().filter(|directory| directory.problem.is_some()).count();
    let problems = look.problems_left_out.saturating_add((look.problems.len() + unreadable) as u64);
    series.gauge("checkpoint_problems", help).add(&[], problems);
    let help = "Age of the newest look at the directories of checkpoints.";
    series.seconds("checkpoint_look_age", help).add(&[], seconds(now_ns.saturating_sub(look.looked_realtime_ns)));
}

fn of_job(job: &Job, claim: Claim, now_ns: u64, series: &mut Series) {
    let job_name = one_line(&job.seen.name);
    let name = ("job", job_name.as_str());
    if let Some(taken_ns) = job.memory_realtime_ns() {
        let help = "Age of the newest checkpoint in memory that is whole on this node, by job.";
        let age_ns = now_ns.saturating_sub(taken_ns);
        series.seconds("checkpoint_memory_age", help).of(claim, &[name], seconds(age_ns));
    }
    if let Some(age_s) = job.durable_age_s(now_ns) {
        let help = "Age of the newest complete checkpoint on an SSD or shared file system, by job; of the session where \
                    there is none.";
        series.seconds("checkpoint_durable_age", help).of(claim, &[name], age_s);
    }
    let stored = stored_bytes(job);
    for (&tier, &bytes) in &stored {
        let help = "What the checkpoints of a job take in each tier.";
        series.bytes("checkpoint_stored", help).of(claim, &[name, ("tier", tier)], bytes);
        for state in GenerationState::ALL {
            let is_of = |one: &&Generation| one.tier.as_str() == tier && one.state == state;
            let count = job.seen.generations.iter().filter(is_of).count();
            let help = "Checkpoints that are there, by job, tier and the state that their manifests tell; images are not read.";
            let labels = [name, ("tier", tier), ("state", state.as_str())];
            series.gauge("checkpoint_generations", help).of(claim, &labels, count as u64);
        }
    }
    let Some(standing) = job.standing() else { return };
    if let Some(bound_s) = standing.staleness_max_s {
        let help = "The bound on the age of the durable checkpoint, by job.";
        series.seconds("checkpoint_durable_age_limit", help).of(claim, &[name], bound_s);
    }
    let help = "Decisions where to put a checkpoint since the job's session began, by place.";
    for (place, &count) in &standing.decided.decided {
        series.counter("checkpoint_decisions", help).of(claim, &[name, ("place", place)], count);
    }
    let help = "What the durable tier took on one node since the job's session began.";
    series.bytes_counter("checkpoint_written", help).of(claim, &[name], standing.decided.durable_bytes);
    if standing.decided.checkpoint_s >= 0.0 {
        let help = "Time that the job waited for its checkpoints since its session began.";
        series.seconds_counter("checkpoint_visible", help).of(claim, &[name], standing.decided.checkpoint_s);
    }
}
