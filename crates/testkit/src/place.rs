//! Where tests find their tools, and ports that nobody has.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// Where `xtask/setup.sh` puts tools that no distribution has.
pub(crate) fn tools() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(own, PathBuf::from).join("tools")
}

/// Ports of the loopback interface that nobody listens on, each another.
pub(crate) fn free_ports<const COUNT: usize>() -> io::Result<[u16; COUNT]> {
    // All at once, so that they differ.
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..COUNT).map(bind).collect::<Result<_, _>>()?;
    let mut ports = [0; COUNT];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
