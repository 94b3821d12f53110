//! `drain` and `return`: taking a host out of service and bringing it back, by the scheduler that its service has.

pub mod kubernetes;
pub mod slurm;

use super::{Order, Outcome, PriorAttempt};
use kubernetes::Kubernetes;
use slurm::Slurm;
use std::sync::atomic::AtomicBool;

/// Why a drain or return has nothing to do.
const NO_SCHEDULER: &str = "no scheduler configured for this service";

/// How a service's hosts are taken out of service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Drainer {
    /// No scheduler is named: there is nothing to do, and hooks do the rest.
    #[default]
    None,
    /// Slurm.
    Slurm(Slurm),
    /// Kubernetes.
    Kubernetes(Kubernetes),
}

impl Drainer {
    /// What draining would do.
    pub fn dry_run(&self, order: &Order) -> String {
        match self {
            Drainer::None => format!("nothing to do: {NO_SCHEDULER}; {} counts towards the limits", order.host),
            Drainer::Slurm(slurm) => slurm.dry_run(order),
            Drainer::Kubernetes(cluster) => cluster.dry_run(order),
        }
    }

    /// Takes the host out, or goes on with that until its work has ended.
    pub fn drain(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self {
            Drainer::None => not_needed(NO_SCHEDULER),
            Drainer::Slurm(slurm) => slurm.drain(order, stop),
            Drainer::Kubernetes(cluster) => cluster.drain(order, stop),
        }
    }

    /// Brings it back.
    pub fn restore(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self {
            Drainer::None => not_needed(NO_SCHEDULER),
            Drainer::Slurm(slurm) => slurm.restore(order, stop),
            Drainer::Kubernetes(cluster) => cluster.restore(order, stop),
        }
    }

    /// Whether the host is still out of service and empty: asked before a step that would stop what runs there.
    ///
    /// # Errors
    /// The outcome of that step.
    pub fn still_empty(&self, order: &Order, stop: &AtomicBool) -> Result<(), Outcome> {
        match self {
            Drainer::None => Ok(()),
            Drainer::Slurm(slurm) => slurm.still_empty(order, stop),
            Drainer::Kubernetes(cluster) => cluster.still_empty(order, stop),
        }
    }

    /// Both can be done again without harm: each looks first.
    pub fn find(&self) -> PriorAttempt {
        PriorAttempt::MayRepeat
    }
}

/// A failure that remembers what the step knew before it.
fn with_memo(outcome: Outcome, before: &str) -> Outcome {
    match outcome {
        Outcome::Failed { detail, is_passing, .. } => Outcome::Failed { detail, memo: before.to_owned(), is_passing },
        other => other,
    }
}

fn not_needed(detail: &str) -> Outcome {
    Outcome::NotNeeded { detail: detail.to_owned() }
}
