//! The users whose processes listen at an address of this machine: a port of loopback is free for any user while its server is not running.

use crate::{Error, Root};
use std::net::SocketAddrV4;
use surefoot_model::Digits;

/// The state of a socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";
/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// An address of this machine that a server is asked at without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// `127.0.0.1`.
    V4,
    /// `[::1]`.
    V6,
    /// `localhost`, which may be either.
    Any,
}

/// The address of this machine, and its port, that an `http://` URL leads to; `None` for every other URL.
pub fn loopback(url: &str) -> Option<(Loopback, u16)> {
    const HOSTS: [(&str, Loopback); 3] =
        [("127.0.0.1", Loopback::V4), ("[::1]", Loopback::V6), ("localhost", Loopback::Any)];
    let place = url.strip_prefix("http://")?.split(['/', '?', '#']).next()?;
    HOSTS.iter().find_map(|&(name, host)| match place.strip_prefix(name)? {
        "" => Some((host, 80)),
        port => {
            let digits = port.strip_prefix(':')?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| Some((host, digits.digits()?)))?
        }
    })
}

/// The users whose processes listen where this address leads, by IPv4 and IPv6.
///
/// # Errors
/// A table that cannot be read hides who listens. Without IPv6 there is no second one.
pub fn owners(root: &Root, host: Loopback, port: u16) -> Result<Vec<u32>, Error> {
    let mut owners = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        match root.read_up_to(root.proc(table), TABLE_BYTES_MAX) {
            Ok(text) => owners.extend(listeners(&text, host, port)),
            Err(_) if !root.proc(table).exists() && table == "net/tcp6" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(owners)
}

/// The user whose process listens at exactly this address; `None` where none does.
///
/// # Errors
/// When the kernel's table cannot be read.
pub fn owner(root: &Root, address: SocketAddrV4) -> Result<Option<u32>, Error> {
    Ok(owner_in(&root.read_up_to(root.proc("net/tcp"), TABLE_BYTES_MAX)?, address))
}

fn owner_in(table: &str, address: SocketAddrV4) -> Option<u32> {
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    rows(table).find(|(place, _)| *place == local).map(|(_, uid)| uid)
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
    let leads_here = |place: &str| place.split_once(':').is_some_and(|(address, of)| of == port && leads_to(address));
    rows(table).filter(|(place, _)| leads_here(place)).map(|(_, uid)| uid).collect()
}

/// The address and the user of each socket that listens.
fn rows(table: &str) -> impl Iterator<Item = (&str, u32)> {
    table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        (words.get(3) == Some(&LISTENS)).then(|| Some((words[1], words.get(7)?.digits()?)))?
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::Ipv4Addr;

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
        }
    }

    #[test]
    fn the_user_who_listens_at_an_address_is_not_the_one_who_is_connected_there() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: \
                     0100007F:1BA5 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1001        0 1 1\n   1: \
                     0100007F:1BA5 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1\n";
        let at = |port| owner_in(table, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        assert_eq!((at(7077), at(80)), (Some(1000), None));
    }
}
