//! Remedies, as a host sees them: its periodic checks. What was done here is among the host's deeds.

pub mod findings;
pub(crate) mod rules;
pub mod state;
pub mod view;

pub use state::State;
pub use view::Answer;
