//! Experiments that disturb this host and measure what that does to a workload; and predictions for many nodes.

pub mod discreet;
pub mod findings;
pub mod predictions;
pub(crate) mod rules;
pub mod stalls;
pub mod state;
pub mod view;

pub use discreet::{Discreet, LEFT_OUT};
pub use predictions::PredictionView;
pub use stalls::CoreStalls;
pub use state::{Experiment, State};
pub use view::{Answer, DetailView, ExperimentView};
