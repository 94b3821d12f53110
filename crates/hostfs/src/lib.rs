//! What the kernel says in files, under one root that tests can change; and the processor's own counters.
//!
//! # Invariants
//! - Every path under /proc, /sys, /dev and /run goes through [`Root`]. Only [`Root::host`] may be combined with
//!   CPUID, system calls and performance events, because a recorded tree speaks of another machine.
//! - Nothing here changes the machine by itself; what [`netlink`], [`ethtool`] and [`packet`] carry is their caller's. A mount that [`tracefs`] makes is seen by nobody else. [`thread`] changes this thread and this process only,
//!   [`children`] the processes that its caller started, and what [`interrupting`] sends is its caller's, too.
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

pub mod answering;
pub mod apm;
pub mod channel;
pub mod children;
pub mod clock;
pub mod clock_discipline;
pub mod confine;
pub mod consoles;
pub mod cpus;
pub mod device;
pub mod drive;
mod error;
pub mod ethtool;
pub mod helper_process;
pub mod identity;
pub mod images;
pub mod interrupting;
pub mod interrupts;
pub mod isolation;
mod kept;
pub mod listening;
pub mod memory;
pub mod mounts;
pub mod namespaces;
pub mod netlink;
pub mod packet;
pub mod peer;
mod perf;
pub mod privilege;
pub mod program;
pub mod roles;
mod root;
pub mod run_lock;
pub mod settings;
pub mod shed;
pub mod signals;
pub mod smi;
pub mod stamp;
pub mod stat;
pub mod stdout;
pub mod symbols;
pub mod tasks;
pub mod terminal;
pub mod thread;
pub mod tracefs;

pub use error::{Error, Unsupported, exhausted};
pub use root::Root;
