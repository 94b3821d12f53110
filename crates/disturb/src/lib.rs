//! What stalls of the cores do to a workload, and what the same does to a job on many nodes.
//!
//! It predicts ([`predict`]): a program of many ranks computes and communicates, its nodes stop now and then, and
//! the time it takes is compared with the time it takes undisturbed. Whether the nodes stop at the same time matters
//! more than how long they stop.
//!
//! And it disturbs: [`experiment`] runs a [`workload`] with and without a [`disturbance`] of this machine's cores, as far as
//! [`safety`] lets it, and [`effect`] tells what that does to it.
//!
//! # Invariants
//! - A prediction is a function of its arguments and its seed: neither the number of threads nor the shards change it.
//! - While a node stops, none of its ranks computes, sends or receives; what was sent goes on to arrive.
//! - Every stall that is told of was measured by who did it; what was not done, or not recorded, is counted.
//! - A disturbance and its workload end with this process, however that ends.
//!
//! ```
//! use surefoot_disturb::predict::{Freeze, Group, Job, Network, Noise, Pattern, Phase, Setting, predict};
//!
//! // 105 ms once a second on each of 8 nodes, as the SMI slides have it, under barriers a millisecond apart.
//! let freeze = |phase| Noise::Freeze(Freeze { length_ns: 105_000_000, period_ns: 1_000_000_000, phase });
//! let setting = |phase| Setting {
//!     job: Job { pattern: Pattern::Barrier, nodes: 8, ranks_per_node: 1, compute_ns: 1_000_000, bytes: 8, iterations: 20_000 },
//!     network: Network::default(),
//!     groups: vec![Group { noise: freeze(phase), nodes: None }],
//!     seed: 1,
//! };
//! let random = predict(&setting(Phase::Random), 0..4, 2)?;
//! let same = predict(&setting(Phase::Same), 0..4, 2)?;
//! assert!(random.summary()?.slowdown > 2.0 && same.summary()?.slowdown < 1.2);
//! # Ok::<(), surefoot_disturb::Error>(())
//! ```

#![forbid(unsafe_code)]

mod cgroup;
pub mod disturbance;
pub mod drift;
pub mod effect;
mod error;
pub mod experiment;
mod fault;
pub mod length;
pub mod plan;
pub mod predict;
pub mod presence;
pub mod preset;
pub mod safety;
mod student;
pub mod workload;

pub use error::Error;
pub use fault::Fault;
