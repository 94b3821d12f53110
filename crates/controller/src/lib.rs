//! The controller of remedies, `surefoot remedy serve`: takes alerts and findings in, runs the engine, and answers people. The agents' side
//! is here, too: what an [`Agent`] sends about its host, and how it does each order once.
//!
//! # Invariants
//! - Who told something hears that it was taken only when the store has it; while the store is away, it is to be told again.
//! - Over the network nothing is said without TLS, and nothing is done for whoever is not named; each role does its own.
//! - Names and texts that come in are data, with limits: no path, no word of a shell and no label of a metric is made of them.
//! - A policy that cannot be read changes nothing: the one before goes on.
//!
//! ```
//! // A body of Alertmanager's webhook, as far as it concerns hosts.
//! let body = br#"{"version": "4", "alerts": [{"status": "firing", "startsAt": "2026-11-28T20:00:00Z",
//!     "labels": {"alertname": "SurefootMemoryRate", "instance": "node17:9100", "severity": "critical"}}]}"#;
//! let alerts = surefoot_controller::read_alerts(body)?;
//! assert_eq!(alerts[0].host, "node17");
//! assert!(surefoot_controller::read_alerts(b"no JSON").is_err());
//! # Ok::<(), String>(())
//! ```

#![forbid(unsafe_code)]

mod agent;
mod alertmanager;
mod book;
mod desk;
mod error;
mod findings;
mod hosts;
mod intake;
mod lines;
mod metrics;
mod notifier;
mod orders;
mod page;
mod place;
mod recheck;
mod recorded;
mod refused;
mod role;
pub mod rounds;
mod routes;
mod server;
mod silences;
mod strangers;
pub mod words;

pub use agent::{Agent, Exchange};
pub use alertmanager::read_alerts;
pub use book::Book;
pub use desk::{Problem, meet, pause, release};
pub use error::Error;
pub use findings::{HostFindings, read_findings};
pub use hosts::{Cell, HostLine, HostList, HostOrder, HostQuery, PartsOfModel, Population, PopulationKind, host_page};
pub use lines::{
    Accepted, CaseLine, CaseList, CaseStory, HandedOrder, OrderAnswer, Protocol, Reason, Trail, UnreadLine,
};
pub use notifier::Notifier;
pub use place::{CaseAccess, Unmet, word};
pub use recorded::Recorded;
pub use role::Role;
pub use server::{Config, Fleet};
pub use strangers::host as host_name;
pub use surefoot_http::listen::Listen;
pub use surefoot_http::own_files::secret;
pub use surefoot_http::tls::TlsFiles;

use role::Caller;
use server::Served;
