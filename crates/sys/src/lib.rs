//! System calls that act: on the calling thread and this process, on its children, through sockets, on the terminal, and on devices that
//! answer only through an ioctl.
//!
//! | what | modules |
//! |---|---|
//! | this thread and this process | [`thread`], [`memory`], [`signals`], [`stdout`], [`terminal`] |
//! | confinement | [`confine`], [`shed`], [`roles`] |
//! | children, and programs of others | [`children`], [`helper_process`], [`program`], [`answering`], [`channel`] |
//! | sockets | [`netlink`], [`packet`], [`peer`] |
//! | devices and other cores | [`ethtool`], [`drive`], [`interrupting`] |
//! | pages of memory | [`offlining`] |
//! | one process at a time | [`run_lock`] |
//!
//! # Invariants
//! - What the kernel says in files is read by `surefoot-hostfs`, under its root; this crate uses that one, and never the other way round. The
//!   two have one error type, because most calls here read a file first.
//! - Nothing here decides. What [`netlink`], [`ethtool`] and [`packet`] carry, and what [`interrupting`] sends, is their caller's. [`thread`]
//!   and [`confine`] change this thread and this process only, [`children`] the processes that its caller started. [`drive`] only asks.
//! - A child, a device or a reader that never answers costs its time limit and no more; what it may say has a limit, too.
//!
//! ```
//! use std::process::Command;
//! use surefoot_sys::children::{self, Signal};
//! let mut child = Command::new("sleep").arg("60").spawn()?;
//! children::signal_process(child.id(), Signal::Kill)?;
//! assert!(!child.wait()?.success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod answering;
pub mod channel;
pub mod children;
pub mod confine;
pub mod drive;
pub mod ethtool;
pub mod helper_process;
pub mod interrupting;
pub mod memory;
pub mod netlink;
pub mod offlining;
pub mod packet;
pub mod peer;
pub mod program;
pub mod roles;
pub mod run_lock;
pub mod shed;
pub mod signals;
pub mod stdout;
pub mod terminal;
pub mod thread;
