use std::io;
use std::path::PathBuf;
use surefoot_foreign::said;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody listens on the port already.
    #[error(
        "port {port} on 127.0.0.1 is taken, perhaps by another running surefoot: \
         open http://127.0.0.1:{port}/ to see it, or start this one with `--port 0` (any free port) or another `--port`"
    )]
    PortTaken {
        /// The port that was asked for.
        port: u16,
    },
    /// The port belongs to the privileged ones.
    #[error("port {port} on 127.0.0.1 needs a privilege that this process lacks: use `--port` with 1024 or above")]
    PortPrivileged {
        /// The port that was asked for.
        port: u16,
    },
    /// The port could not be opened for another reason.
    #[error("cannot listen on 127.0.0.1 port {port}: {}", said(source))]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// A thread of the server could not be started.
    #[error(transparent)]
    Http(#[from] surefoot_http::Error),
    /// The directory of `health.json` cannot be used.
    #[error(
        "cannot use the run directory {}: {source}; name a directory that exists and can be written, or none",
        path.display()
    )]
    RunDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Sorts the failure of `bind` by what the user can do about it.
    pub(crate) fn listen(port: u16, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Error::PortTaken { port },
            io::ErrorKind::PermissionDenied => Error::PortPrivileged { port },
            _ => Error::Listen { port, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_cannot_be_had_says_what_to_do() {
        let text = |kind| Error::listen(80, io::Error::from(kind)).to_string();
        assert!(text(io::ErrorKind::AddrInUse).contains("--port 0"));
        assert!(text(io::ErrorKind::PermissionDenied).contains("1024 or above"));
        assert!(text(io::ErrorKind::AddrNotAvailable).contains("127.0.0.1 port 80"));
    }
}
