//! The daemon through its public API, with a plain HTTP client on loopback.

#![allow(clippy::unwrap_used)]

mod campaigns;
mod checkpoints;
mod client;
mod corrections;
mod data;
mod findings;
mod full_disk;
mod headlines;
mod health;
mod history;
mod lifecycle;
mod live;
mod metrics;
mod routes;
mod schema;
mod viewers;
mod who;
