//! Who listens where a server on this machine is asked: a port of loopback is anybody's while the controller is not there, and whoever
//! took it would be shown a token, or obeyed.

use anyhow::{Context, bail, ensure};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, peer};

/// The state of a socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";
/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// Refuses a server of another user who is not root, and one that is not of this machine and shows no certificate.
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
    if !base.starts_with("http://") {
        return Ok(());
    }
    let Some((host, port)) = loopback(base) else {
        bail!("{base}: http:// can be intercepted on the way; use https:// or unix:")
    };
    let root = Root::host();
    for table in ["net/tcp", "net/tcp6"] {
        // Without IPv6 there is no such table; one that cannot be read hides who listens.
        let text = match root.read_up_to(root.proc(table), TABLE_BYTES_MAX) {
            Ok(text) => text,
            Err(_) if !root.proc(table).exists() && table == "net/tcp6" => continue,
            Err(error) => bail!("{base}: who listens there is unknown: {error}; ask by unix: or https://"),
        };
        for uid in listeners(&text, host, port) {
            is_trusted(uid, base)?;
        }
    }
    Ok(())
}

fn is_trusted(uid: u32, place: &str) -> anyhow::Result<()> {
    ensure!(uid == 0 || uid == effective_user(), "{place} belongs to user {uid}, who is neither you nor root: refused");
    Ok(())
}

/// An address of this machine that a server is asked at without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    V4,
    V6,
    /// `localhost`, which may be either.
    Any,
}

/// Where on this machine a server is that is asked without TLS; `None` of others, and of what is no such address.
pub fn loopback(url: &str) -> Option<(Loopback, u16)> {
    const HOSTS: [(&str, Loopback); 3] =
        [("127.0.0.1", Loopback::V4), ("[::1]", Loopback::V6), ("localhost", Loopback::Any)];
    let place = url.strip_prefix("http://")?.split(['/', '?', '#']).next()?;
    HOSTS.iter().find_map(|&(name, host)| match place.strip_prefix(name)? {
        "" => Some((host, 80)),
        port => {
            let digits = port.strip_prefix(':')?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| Some((host, digits.parse().ok()?)))?
        }
    })
}

/// The users whose processes listen where this address leads: at it, or at all addresses of the machine.
fn listeners(table: &str, host: Loopback, port: u16) -> Vec<u32> {
    let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let (none, own, last) = (word([0; 4]), word([127, 0, 0, 1]), word([0, 0, 0, 1]));
    let all = [none.clone(), none.repeat(4)];
    let v4 = [own.clone(), format!("{none}{none}{}{own}", word([0, 0, 0xFF, 0xFF]))];
    let v6 = [format!("{none}{none}{none}{last}")];
    let leads_to = |address: &str| {
        all.iter().any(|of| of == address)
            || (host != Loopback::V6 && v4.iter().any(|of| of == address))
            || (host != Loopback::V4 && v6.iter().any(|of| of == address))
    };
    let port = format!("{port:04X}");
    let row = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let is_it = words.len() == 8
            && words[3] == LISTENS
            && words[1].split_once(':').is_some_and(|(address, of)| of == port && leads_to(address));
        is_it.then(|| words[7].parse().ok())?
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn whoever_listens_where_an_address_leads_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1BA6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1BA6 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: 00000000000000000000000001000000:1BA6 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65534 0 3
   3: 0500007F:1BA6 00000000:0000 0A 00000000:00000000 00:00000000 00000000     6        0 4 1 0 100 0 0 10 0
   4: 0100007F:1BA7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 4 1 0 100 0 0 10 0
   5: 00000000:1BA8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     8        0 4 1 0 100 0 0 10 0
   6: 0000000000000000FFFF00000100007F:1BA8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 9 0 3
   7: 00000000000000000000000000000000:1BA8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 10 0 3\n";
        let found = |host, port| listeners(table, host, port);
        // Who listens at another address of the machine takes nothing from anybody.
        assert_eq!(found(Loopback::V4, 7078), [1000]);
        assert_eq!(found(Loopback::V6, 7078), [65534]);
        assert_eq!(found(Loopback::Any, 7078), [1000, 65534]);
        assert_eq!(found(Loopback::V4, 7080), [8, 9, 10]);
        assert_eq!(found(Loopback::V6, 7080), [8, 10]);
    }

    #[test]
    fn only_what_leads_to_this_machine_is_of_this_machine() {
        for (url, found) in [
            ("http://127.0.0.1:7078", (Loopback::V4, 7078)),
            ("http://localhost:7/prefix", (Loopback::Any, 7)),
            ("http://[::1]", (Loopback::V6, 80)),
        ] {
            assert_eq!(loopback(url), Some(found), "{url}");
        }
        for other in [
            "https://127.0.0.1:7078",
            "http://example.org:7078",
            "http://127.0.0.2:7078",
            "http://127.1:7078",
            "http://LOCALHOST:7078",
            "http://127.0.0.1.example.org:7078",
            "http://127.0.0.1:80@example.org/",
            "http://127.0.0.1:+80",
            "http://127.0.0.1:x",
            "http://127.0.0.1:65536",
            "http://[::1]x",
        ] {
            assert_eq!(loopback(other), None, "{other}");
            assert_eq!(check(other, None).is_ok(), other.starts_with("https://"), "{other}");
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
