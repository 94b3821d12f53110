//! The daemon as a library: it takes events in and shows them on 127.0.0.1 as a page, as JSON, as live
//! events and as OpenMetrics; it keeps the history and the host's health file.
//!
//! The caller runs the collectors and calls [`Server::publish`]; nothing here reads the machine, prints,
//! or ends the process, but for directories of checkpoints: a thread looks into those that are named.
//!
//! # Invariants
//! - Only 127.0.0.1 is listened on, and only requests that name this machine are answered. Nothing can be
//!   changed over HTTP.
//! - A slow client, a full disk or a dead run directory slows neither the caller nor the other clients.
//! - Every queue, ring, connection and name has a limit; what is dropped is counted and shown.
//! - [`Server::stop`] ends within two seconds.
//!
//! ```
//! use std::io::{Read, Write};
//! use surefoot_daemon::{Config, Server};
//!
//! let server = Server::start(Config::default())?;
//! let mut client = std::net::TcpStream::connect(server.address())?;
//! client.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK"));
//! server.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod api_error;
mod checkpoints;
mod config;
mod connections;
mod error;
mod filter;
mod guard;
mod health;
mod history;
mod metrics;
mod page;
mod phrase;
mod queue;
mod reply;
mod ring;
mod routes;
mod server;
mod shelf;
mod sse;
mod state;
mod totals;
pub mod verdict;
mod view;
mod weight;
mod who;

pub use config::{Config, KEEP_GAPS_DEFAULT, KEEP_WINDOWS_DEFAULT, Mode};
pub use error::Error;
pub use server::Server;
