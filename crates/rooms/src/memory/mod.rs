//! Memory errors: every module, the fault that its errors point to, whether the accounting works, and what it costs.

mod closed;
pub mod findings;
pub mod interval;
pub(crate) mod rules;
pub mod state;
pub mod view;

pub use interval::{IntervalAnswer, IntervalPoint};
pub use state::State;
pub use view::{Answer, LostReports};
