//! Services of others, and Surefoot's own servers: one HTTP client with one policy.
//!
//! # Invariants
//! - Every request has a limit on time, and every answer one on bytes.
//! - No proxy is used, and no environment variable chooses one. Redirects are followed for a GET alone, to the same scheme, host and port.
//! - No secret reaches another process or a message.
//!
//! ```no_run
//! use std::{sync::atomic::AtomicBool, time::Duration};
//! use surefoot_outside::http::{Request, ask};
//! let request = Request { method: "GET", url: "https://bmc17.example/redfish/v1/".into(), ..Request::default() };
//! let answer = ask(&request, Duration::from_secs(10), &AtomicBool::new(false))?;
//! println!("{}: {} bytes", answer.status, answer.body.len());
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

pub mod address;
pub mod host_name;
pub mod http;
pub mod own;
