//! `drain` and `return`: taking a host out of service and bringing it back, by the scheduler that its service has.

pub mod kubernetes;
pub mod slurm;

use super::{Found, Order, Outcome};
use kubernetes::Kubernetes;
use slurm::Slurm;
use std::sync::atomic::AtomicBool;

/// What comes of a drain where nobody schedules work.
const NOBODY: &str = "no scheduler configured for this service";

/// How a service's hosts are taken out of service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Drainer {
    /// Nobody schedules work there: the step is done at once, and hooks do what else there is to do.
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
            Drainer::None => format!("no scheduler to tell: {} counts as out of service", order.host),
            Drainer::Slurm(slurm) => slurm.dry_run(order),
            Drainer::Kubernetes(cluster) => cluster.dry_run(order),
        }
    }

    /// Takes the host out, or goes on with that until its work has ended.
    pub fn drain(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self {
            Drainer::None => done(NOBODY),
            Drainer::Slurm(slurm) => slurm.drain(order, stop),
            Drainer::Kubernetes(cluster) => cluster.drain(order, stop),
        }
    }

    /// Brings it back.
    pub fn restore(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self {
            Drainer::None => done(NOBODY),
            Drainer::Slurm(slurm) => slurm.restore(order, stop),
            Drainer::Kubernetes(cluster) => cluster.restore(order, stop),
        }
    }

    /// Both can be done again without harm: each looks first.
    pub fn find(&self) -> Found {
        Found::MayRepeat
    }
}

fn done(detail: &str) -> Outcome {
    Outcome::Done { detail: detail.to_owned(), memo: String::new() }
}
