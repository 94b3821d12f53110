//! Fault campaigns: what one flipped or stuck bit of an interface does to the traffic of its host, who notices, and what
//! recovery makes of it. After the three experiments of Table 1 of TPDS'07.
//!
//! A campaign is an [`Experiment`], a seed, and the list of faults that both give. Everything is virtual time and one
//! thread: the same list gives the same [`Record`]s. Each fault begins at a [`golden::Mark`] of a run without a fault, ends
//! early where the two runs have become the same, and is judged by what the applications saw and by what the daemons did.
//!
//! ```
//! use surefoot_nic::campaign::{Experiment, Preset, golden::Golden, trial::Lab};
//!
//! let experiment = Experiment::preset(Preset::SendChunk);
//! let golden = Golden::run(&experiment, 7)?;
//! let faults = experiment.faults(golden.firmware(), golden.window(), Some(2), 7)?;
//! let mut lab = Lab::new(golden);
//! for fault in faults {
//!     let record = lab.record(&fault)?;
//!     println!("{} {}", record.id, record.outcome.name());
//! }
//! # Ok::<(), surefoot_nic::campaign::CampaignError>(())
//! ```

pub mod blocks;
pub mod classes;
pub mod experiment;
pub mod fault;
pub mod golden;
pub mod movie;
mod random;
pub mod sums;
pub mod table;
pub mod trial;
pub mod whole;

pub use classes::{Outcome, Standard};
pub use experiment::{Experiment, Preset, Target};
pub use fault::{Fault, FaultId, Space};
pub use trial::Record;

use crate::host::driver::OpenError;

/// Why a campaign cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The interfaces could not be set up.
    #[error("the two interfaces of the campaign cannot be set up: {0}")]
    Setup(#[from] OpenError),
    /// The run without a fault does not end well.
    #[error("the run without a fault does not end well: {0}; change the traffic of the experiment")]
    Golden(String),
    /// The experiment asks for what is not there.
    #[error("{0}")]
    Experiment(String),
    /// No id of a fault.
    #[error("'{id}' is no fault: {why}; ids are in the lines that `surefoot nic campaign` writes")]
    Id {
        /// What was given.
        id: String,
        /// What is wrong.
        why: String,
    },
}
