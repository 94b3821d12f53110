//! Surefoot's own watch: what it costs, what was lost on the way, which sources fail, how old the data are.

pub mod deeds;
pub mod findings;
pub(crate) mod rules;
pub mod settings;
pub mod state;

pub use findings::is_of_the_start;
pub use state::State;
