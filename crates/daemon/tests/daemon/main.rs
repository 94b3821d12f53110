//! The daemon through its public API, with a plain HTTP client on loopback.

#![allow(clippy::unwrap_used)]

mod campaigns;
mod checkpoints;
mod client;
mod corrections;
mod dashboards;
mod data;
mod far;
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
mod series;
mod viewers;
mod who;
