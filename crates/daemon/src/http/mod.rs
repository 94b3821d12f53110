//! HTTP on 127.0.0.1: who may ask, how many at once, what is at which address.

pub(crate) mod access;
mod api_error;
pub(crate) mod connections;
mod events;
pub(crate) mod guard;
pub(crate) mod json;
pub(crate) mod metrics;
mod overview;
pub(crate) mod page;
mod past;
mod question;
pub(crate) mod reply;
mod routes;
pub(crate) mod serving;
pub(crate) mod shares;
pub(crate) mod socket;
pub(crate) mod strangers;

pub(crate) use api_error::ApiError;
pub(crate) use question::parameters;
pub(crate) use reply::json_text;
pub(crate) use routes::router;
#[cfg(test)]
pub(crate) use {
    api_error::ErrorAnswer,
    events::LiveMessage,
    overview::Overview,
    past::PastAnswer,
    routes::{Capabilities, Index},
};

/// The version of the shapes of the API and of JSON lines. It grows when a field goes, or means something else.
pub const SCHEMA: u32 = 2;
