//! HTTP on 127.0.0.1: who may ask, how many at once, what is at which address.

pub(crate) mod access;
mod events;
mod guard;
pub(crate) mod metrics;
mod overview;
mod page;
mod past;
mod routes;
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
