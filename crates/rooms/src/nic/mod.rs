//! Network interfaces: the state of each with its evidence, health reporters and counters; and the lines of fault campaigns.

pub mod campaign;
pub mod findings;
pub(crate) mod rules;
pub mod state;
pub mod view;

pub use state::State;
pub use view::Answer;
