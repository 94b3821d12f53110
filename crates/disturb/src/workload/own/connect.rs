//! TCP connections over the loopback device.

use super::{Pace, again, tie, words};
use crate::Fault;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_model::CpuId;

/// Each connection keeps a port for a minute: there are no more than these.
const CONNECTIONS_MAX: usize = 20_000;

/// Connections that one thread opens, each when the last was accepted and closed by another one; each has its core.
///
/// # Errors
/// [`Fault::Start`] when the kernel refuses.
pub fn connect(length: Duration, [client, server]: [Option<CpuId>; 2]) -> Result<Pace, Fault> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| words("listen", error))?;
    let address = listener.local_addr().map_err(|error| words("listen", error))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let accept = move || {
        let _ = tie(server);
        while !over.load(Ordering::Relaxed) {
            // Closed at once, which is what the other side waits for.
            drop(listener.accept());
        }
    };
    std::thread::spawn(accept);
    tie(client)?;
    let open = || TcpStream::connect(address).map_err(|error| words("connect", error));
    let pace = again(length, CONNECTIONS_MAX, || {
        let ended = open()?.read(&mut [0]);
        ended.map(drop).map_err(|error| words("read", error))
    });
    is_over.store(true, Ordering::Relaxed);
    // The listener looks whether it is over when somebody comes.
    let _ = open();
    pace
}
