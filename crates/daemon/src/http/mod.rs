//! HTTP: who may ask, how many at once, what is at which address.

pub(crate) mod access;
mod events;
pub(crate) mod far;
mod guard;
pub(crate) mod metrics;
mod overview;
mod page;
mod past;
mod routes;
#[cfg(test)]
mod seen_tests;
pub(crate) mod series;

pub(crate) use routes::router;
pub use routes::unconnected;
#[cfg(test)]
pub(crate) use {
    events::LiveMessage,
    overview::Overview,
    past::PastAnswer,
    routes::{Capabilities, Index},
};
