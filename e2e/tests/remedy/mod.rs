//! Remedies by the real command: checks, the page of cases, and the whole road from an error to a repaired host.

mod agent;
mod checks;
mod failing;
mod kills;
mod page;
mod road;
pub mod server;
mod store;
mod vanishing;
