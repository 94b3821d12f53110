//! Interfaces that run beside a real clock: each in a process of its own, with a daemon that watches it, applications in
//! other processes, and packets that go through the kernel.
//!
//! | process | what it does | file |
//! |---|---|---|
//! | the interface | runs the device, moves packets between it and the link | [`interface`] |
//! | the daemon | starts the interface, watches it, reloads it, closes the ports of dead applications | [`host`] |
//! | an application | has a port, sends and receives, writes down what it saw | [`application`] |
//! | the run | starts the others, starts a daemon anew that died, judges the histories | [`run`] |
//!
//! They share the host's memory of an interface as a file, and wake one another by futex; the interface, which also waits for
//! packets, by a datagram to the socket that is its doorbell.
//!
//! # The interface's clock
//! A real interface has its processor to itself. This one shares it, so its clock stands still while the process does not
//! run: else its watchdog would call every preemption a failure. For the same reason the daemon counts for how long
//! the control program of a silent interface ran, and not the time that went by; and it has a clock of its own, which stands still while the daemon does
//! not run: after a host was frozen, nobody is late.

pub mod application;
mod board;
mod bus;
pub mod directory;
pub mod host;
pub mod interface;
pub mod local;
pub mod namespace;
mod own_clock;
pub mod part;
pub mod ports;
pub mod process;
pub mod run;
pub mod wire;

/// What goes wrong outside of the interface.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {action}: {source}")]
    System {
        /// What was to be done.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// This machine or this user cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// A port could not be opened.
    #[error("node {node}: {source}")]
    Port {
        /// Of which interface.
        node: u32,
        /// Why.
        source: crate::host::driver::OpenError,
    },
    /// A part of the run ended or did not begin.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn system(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let action = action.into();
        move |source| Error::System { action, source }
    }

    fn last(action: impl Into<String>) -> Error {
        Error::system(action)(std::io::Error::last_os_error())
    }
}

impl From<surefoot_hostfs::Error> for Error {
    fn from(error: surefoot_hostfs::Error) -> Error {
        if error.is_denied() { Error::Unsupported(error.to_string()) } else { Error::Failed(error.to_string()) }
    }
}
