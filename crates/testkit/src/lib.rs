//! Made-up hosts, disks and guests, and words for tests that cannot run here. Development only: no crate that ships depends on it.
//!
//! # Invariants
//! - Everything is written below a temporary folder that vanishes with the test.
//! - What a test needs and does not get ends the test with a panic that names the file.
//!
//! ```
//! use surefoot_testkit::HostTree;
//! let host = HostTree::new().file("sys/devices/system/cpu/online", "0-3\n");
//! assert!(host.path().join("sys/devices/system/cpu/online").is_file());
//! ```

#![forbid(unsafe_code)]

pub mod alertmanager;
mod archive;
pub mod certificates;
pub mod durable;
pub mod experiments;
pub mod guest;
pub mod hanging;
mod host_tree;
pub mod ipmi;
pub mod kubernetes;
pub mod not_run;
mod place;
pub mod postgres;
pub mod prometheus;
pub mod redfish;
pub mod slurm;
pub mod storage;

pub use archive::{Archive, Malformed};
pub use host_tree::HostTree;
