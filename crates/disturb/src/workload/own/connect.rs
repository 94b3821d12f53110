//! TCP connections over the loopback device.

use super::{Pace, again, tie, words};
use crate::Fault;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use surefoot_model::CpuId;

/// Each connection keeps a port for a minute: there are no more than these.
const CONNECTIONS_MAX: usize = 20_000;

/// Connections that one thread opens, and another accepts and closes, each on its core.
///
/// # Errors
/// [`Fault::Start`] when the kernel refuses.
pub fn connect(length: Duration, [client, server]: [Option<CpuId>; 2]) -> Result<Pace, Fault> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| words("listen", error))?;
    let address = listener.local_addr().map_err(|error| words("listen", error))?;
    let accept = move || {
        let _ = tie(server);
        // The last connection says that it is the last, by a byte.
        while let Ok((mut stream, _)) = listener.accept() {
            let mut byte = [0];
            if std::io::Read::read(&mut stream, &mut byte).is_ok_and(|bytes| bytes == 1) {
                return;
            }
        }
    };
    std::thread::spawn(accept);
    tie(client)?;
    let open = || TcpStream::connect(address).map_err(|error| words("connect", error));
    let pace = again(length, CONNECTIONS_MAX, || open().map(drop));
    let mut last = open()?;
    std::io::Write::write_all(&mut last, &[1]).map_err(|error| words("send", error))?;
    pace
}
