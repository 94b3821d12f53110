//! The daemon as a library: [`sources`] read the machine and yield events; [`rooms`] fold them and say what they come to;
//! the [`Server`] shows that on 127.0.0.1 as a page, as JSON, as live events and as OpenMetrics, and keeps the history and
//! the host's health file.
//!
//! The caller runs the sources and calls [`Server::publish`]; nothing here prints or ends the process.
//!
//! # Invariants
//! - Only 127.0.0.1 is listened on, and only requests that name this machine are answered, unless [`Listening`] names other places:
//!   those of the network speak TLS alone, and answer whom a token or a certificate gives a role. Nothing can be changed over HTTP.
//! - A slow client, a full disk or a dead run directory slows neither the caller nor the other clients.
//! - Every queue, ring, connection and name has a limit; what is dropped is counted and shown.
//! - [`Server::stop`] ends within two seconds.
//!
//! ```
//! use std::io::{Read, Write};
//! use surefoot_daemon::{Config, Server};
//!
//! let server = Server::start(Config::default())?;
//! let mut client = std::net::TcpStream::connect(server.address().ok_or("it listens nowhere")?)?;
//! client.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK"));
//! server.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod alerts;
mod capabilities;
mod config;
mod error;
mod http;
mod keep;
pub mod rooms;
pub mod running;
#[cfg(test)]
mod schema;
mod server;
#[cfg(test)]
mod settings_tests;
pub mod sources;
pub mod why;

pub use capabilities::capabilities;
pub use config::{Config, KEEP_GAPS_DEFAULT, KEEP_WINDOWS_DEFAULT, Listening, Mode, Stop};
pub use error::Error;
pub use http::series::{Detail, Extent, SERIES_MAX, SERIES_MIN};
#[doc(hidden)]
pub use http::unconnected;
pub use server::{HistoryReader, Server};
pub use surefoot_http::listen::Listen;
pub use surefoot_http::socket::SOCKET_NAME;
pub use surefoot_http::tls::TlsFiles;
pub use surefoot_model::SCHEMA;
