//! The host's side of an interface: its memory, the driver, the library of applications, the self-test and the daemon.

pub mod bus;
mod closing;
pub mod daemon;
pub mod driver;
pub mod layout;
pub mod mailbox;
pub mod memory;
mod neighbours;
pub mod port;
mod recover;
pub mod selftest;
pub mod streams;
pub mod suspects;
pub mod wake;
