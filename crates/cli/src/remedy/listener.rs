//! Who listens where a server on this machine is asked: a port of loopback is anybody's while the controller is not there, and whoever
//! took it would be shown a token, or obeyed.

use anyhow::{Context, ensure};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, peer};

/// The state of a socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";
/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// Refuses a server of another user who is not root. One that is on another machine is known by its certificate.
///
/// # Errors
/// Whose it is, in words.
pub fn check(base: &str, socket: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = socket {
        // That nobody is there is told by whoever asks.
        let Ok(stream) = UnixStream::connect(path) else { return Ok(()) };
        let of = peer::credentials(stream.as_fd()).context("the kernel does not say who listens there")?;
        return is_trusted(of.uid, &format!("unix:{}", path.display()));
    }
    let Some(port) = port(base) else { return Ok(()) };
    let root = Root::host();
    for table in ["net/tcp", "net/tcp6"] {
        let text = root.read_up_to(root.proc(table), TABLE_BYTES_MAX).unwrap_or_default();
        for uid in listeners(&text, port) {
            is_trusted(uid, base)?;
        }
    }
    Ok(())
}

fn is_trusted(uid: u32, place: &str) -> anyhow::Result<()> {
    ensure!(
        uid == 0 || uid == effective_user(),
        "user {uid} listens at {place}, who is neither you nor root: nothing is told to him, and nothing of his is believed"
    );
    Ok(())
}

/// The port of a server on this machine that is asked without TLS; `None` of others.
fn port(base: &str) -> Option<u16> {
    let (host, port) = base.strip_prefix("http://")?.rsplit_once(':')?;
    matches!(host, "127.0.0.1" | "localhost" | "[::1]").then(|| port.parse().ok())?
}

/// The users whose processes listen at this port, at whichever address: `localhost` may be any of them.
fn listeners(table: &str, port: u16) -> Vec<u32> {
    let port = format!(":{port:04X}");
    let row = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let is_it = words.len() == 8 && words[3] == LISTENS && words[1].ends_with(&port);
        is_it.then(|| words[7].parse().ok())?
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_is_found_at_each_address_of_the_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1BA6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1BA6 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: 00000000000000000000000001000000:1BA6 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65534 0 3
   3: 0100007F:1BA7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 4 1 0 100 0 0 10 0\n";
        assert_eq!(listeners(table, 7078), [1000, 65534]);
        assert_eq!((port("http://127.0.0.1:7078"), port("http://localhost:7")), (Some(7078), Some(7)));
        for other in ["https://127.0.0.1:7078", "http://example.org:7078", "http://127.0.0.1", "http://127.0.0.1:x"] {
            assert_eq!(port(other), None, "{other}");
        }
    }

    #[test]
    fn an_own_server_is_believed_and_that_of_a_stranger_is_not() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        check(&format!("http://{}", own.local_addr().unwrap()), None).unwrap();
        let why = is_trusted(effective_user().wrapping_add(1), "http://127.0.0.1:7078").unwrap_err().to_string();
        assert!(why.contains("who is neither you nor root"), "{why}");
    }
}
