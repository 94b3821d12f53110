//! What the kernel says in files, under one root that tests can change; and its clocks and the processor's own counters.
//!
//! # Invariants
//! - Every path under /proc, /sys, /dev and /run goes through [`Root`]. Only [`Root::host`] may be combined with
//!   CPUID, system calls and performance events, because a recorded tree speaks of another machine.
//! - It reads. What changes a process or a device, or asks another process or a device, is in `surefoot-sys`, which uses this crate; the
//!   other way round is not allowed. One exception: a mount that [`tracefs`] makes to read it, and nobody else sees.
//! - Text from the kernel is not trusted: every read has a limit, no parser panics, what does not fit is counted or is
//!   an [`Error`] that names the file and the line.
//! - What a host does not have is [`Unsupported`] with the reason and the remedy, never an error and never an empty
//!   success.
//!
//! ```
//! use surefoot_hostfs::{Root, cpus, interrupts::Interrupts};
//! let root = Root::host();
//! let before = Interrupts::read(&root)?;
//! let after = Interrupts::read(&root)?;
//! let delta = after.delta(&before);
//! assert!(delta.cpus.len() <= cpus::possible(&root)?.len());
//! for row in &delta.rows {
//!     println!("{} {}: {}", row.label, row.name, row.total());
//! }
//! # Ok::<(), surefoot_hostfs::Error>(())
//! ```

pub mod apm;
pub mod clock;
pub mod clock_discipline;
pub mod consoles;
pub mod cpus;
pub mod device;
mod error;
pub mod frame_users;
pub mod identity;
pub mod images;
pub mod interrupts;
pub mod isolation;
mod kept;
pub mod listening;
pub mod mounts;
pub mod namespaces;
pub mod pages;
pub mod perf;
pub mod privilege;
mod root;
pub mod settings;
pub mod smi;
pub mod stamp;
pub mod stat;
pub mod symbols;
pub mod tasks;
pub mod tracefs;
pub mod usage;

pub use error::{Error, Unsupported, exhausted, shorten};
pub use root::{Root, open};
