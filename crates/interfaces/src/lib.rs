//! Network interfaces of a Linux host, watched in one way whatever their driver: what devlink's health reporters say, send queues
//! that got stuck, links that come and go, damaged packets, and probes of a neighbour that see what nothing else does: an
//! interface that is alive and slow, or takes packets and moves none.
//!
//! # Invariants
//! - Nothing here changes the machine but [`act`], which [`recover`] asks to do what [`decide`] says, and [`self_test`], which refuses to take an
//!   interface that is in use out of service unless it was asked twice.
//! - [`judge`] and [`decide`] are pure: what they say rests on what they are given, and they say on what.
//! - A state has its evidence and its certainty. Where a hung interface cannot be told from a neighbour that is gone, that is said.
//! - Every path goes through [`surefoot_hostfs::Root`], so that all but probes, self-tests and devlink works on a recorded tree.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_interfaces::look::Looker;
//! let look = Looker::new(Root::host()).look();
//! for interface in &look.interfaces {
//!     println!("{}: {} {:?}", interface.name, interface.state.as_str(), interface.evidence);
//! }
//! ```
#![forbid(unsafe_code)]

pub mod act;
pub mod answer;
pub mod baseline;
pub mod decide;
pub mod devlink;
mod error;
pub mod judge;
pub mod look;
pub mod presence;
pub mod probe;
pub mod read;
pub mod recover;
pub mod reporter;
pub mod self_test;

pub use error::Error;
