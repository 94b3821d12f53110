//! SSH sessions of this host: connections of the processes of an SSH server, at whatever port they listen; and port 22 whoever listens.

use super::routes::{Dependents, table};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use surefoot_hostfs::{Root, tasks};
use surefoot_model::{Carried, CarriedKind, Digits};

/// `TCP_ESTABLISHED` and `TCP_LISTEN`.
const ESTABLISHED: &str = "01";
const LISTENS: &str = "0A";
const SSH_PORT: u16 = 22;
/// Names of the processes of SSH servers; OpenSSH serves a session in one of the second or third kind.
const SERVERS: [&str; 4] = ["sshd", "sshd-session", "sshd-auth", "dropbear"];
/// Descriptors of one process that are looked at.
const DESCRIPTORS_MAX: usize = 65_536;

/// A session, or what may be one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Session {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Whether the process that has it is an SSH server's; for port 22 that is taken for granted.
    pub is_known: bool,
}

impl Session {
    /// In words, as a reason.
    pub fn reason(&self) -> Carried {
        let (peer, port) = (self.remote.ip(), self.local.port());
        let what = match self.is_known {
            true => format!("an SSH session of {peer}"),
            false => format!("possibly an SSH session of {peer} (the process of its port {port} cannot be read)"),
        };
        Carried::new(CarriedKind::SshSession, what)
    }
}

/// A line of the tables of TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Connection {
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    uid: u32,
    inode: u64,
}

/// The sockets of the processes of SSH servers.
#[derive(Debug, Default)]
struct Servers {
    sockets: BTreeSet<u64>,
    /// The users whose SSH server's sockets could not be read; `None` among them where processes could not be seen at all.
    unread: BTreeSet<Option<u32>>,
}

/// The sessions whose other end is not this host's loopback.
pub(super) fn read(root: &Root, found: &mut Dependents) -> BTreeSet<Session> {
    let tables = ["net/tcp", "net/tcp6"].map(|name| table(root, name, found));
    let all: Vec<Connection> = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(connection).collect();
    let is_other = |one: &&Connection| !one.listens && one.local.port() != SSH_PORT && is_far(one);
    // Where nothing else is connected, nothing need be known of processes.
    let servers = if all.iter().any(|one| is_other(&one)) { servers(root) } else { Servers::default() };
    sessions(&all, &servers)
}

fn is_far(one: &Connection) -> bool {
    !one.remote.ip().is_loopback()
}

fn sessions(all: &[Connection], servers: &Servers) -> BTreeSet<Session> {
    let listening = || all.iter().filter(|one| one.listens);
    let ports: BTreeSet<u16> = listening().map(|one| one.local.port()).collect();
    let is_served = |one: &Connection| servers.sockets.contains(&one.inode);
    let served: BTreeSet<u16> = listening().filter(|one| is_served(one)).map(|one| one.local.port()).collect();
    let sessions = all.iter().filter(|one| !one.listens && is_far(one)).filter_map(|one| {
        let port = one.local.port();
        let is_known = port == SSH_PORT || served.contains(&port) || is_served(one);
        let may_be = ports.contains(&port) && [None, Some(one.uid)].iter().any(|user| servers.unread.contains(user));
        (is_known || may_be).then_some(Session { local: one.local, remote: one.remote, is_known })
    });
    sessions.collect()
}

/// What the processes of SSH servers have open.
fn servers(root: &Root) -> Servers {
    let mut servers = Servers::default();
    let (processes, may_be_more) = tasks::processes(root).unwrap_or_default();
    // This process sees itself wherever it sees any.
    if processes.is_empty() || may_be_more {
        servers.unread.insert(None);
    }
    for (pid, _) in processes.iter().filter(|(_, stat)| SERVERS.contains(&stat.name.as_str())) {
        let folder = root.proc(format!("{pid}/fd"));
        let user = fs::metadata(root.proc(pid.to_string())).map(|of| of.uid());
        let unread = match fs::read_dir(&folder) {
            Ok(entries) => {
                let mut count = 0;
                for entry in entries.flatten().take(DESCRIPTORS_MAX) {
                    count += 1;
                    let link = fs::read_link(entry.path());
                    let inode = link
                        .ok()
                        .and_then(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.digits::<u64>());
                    servers.sockets.extend(inode);
                }
                count >= DESCRIPTORS_MAX
            }
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        };
        if unread {
            servers.unread.insert(user.ok());
        }
    }
    servers
}

/// `0: 0100000A:0016 0900000A:D431 01 00000000:00000000 00:00000000 00000000 0 0 12345 …`: number, both ends, state, queues, timer,
/// retransmissions, user, timeout, number of the socket.
fn connection(line: &str) -> Option<Connection> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let &[_, local, remote, state, ..] = words.as_slice() else { return None };
    let listens = state == LISTENS;
    (listens || state == ESTABLISHED).then_some(())?;
    let uid = words.get(7).and_then(|word| word.digits()).unwrap_or(0);
    let inode = words.get(9).and_then(|word| word.digits()).unwrap_or(0);
    Some(Connection { local: end(local)?, remote: end(remote)?, listens, uid, inode })
}

fn end(text: &str) -> Option<SocketAddr> {
    let (address_text, port) = text.rsplit_once(':')?;
    Some(SocketAddr::new(address(address_text)?, port.hex_digits()?))
}

/// An address of the tables of TCP: one or four numbers of this machine.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| text.get(at..at + 8)?.hex_digits::<u32>().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (place, chunk) in bytes.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(place * 8)?);
            }
            // IPv4 over a socket of IPv6 goes by the routes of IPv4.
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(line: &str) -> Connection {
        connection(line).unwrap()
    }

    fn all() -> Vec<Connection> {
        let rest = "00000000:00000000 00:00000000 00000000";
        [
            format!("0: 00000000:08AE 00000000:0000 0A {rest} 0 0 70 1"),
            format!("1: 0100000A:08AE 0900000A:D431 01 {rest} 0 0 71 1"),
            format!("2: 00000000:0050 00000000:0000 0A {rest} 0 0 80 1"),
            format!("3: 0100000A:0050 0A00000A:D431 01 {rest} 33 0 81 1"),
            format!("4: 0100000A:0050 0B00000A:D431 01 {rest} 0 0 82 1"),
            format!("5: 0100000A:0457 0C00000A:D431 01 {rest} 0 0 90 1"),
        ]
        .iter()
        .map(|line| of(line))
        .collect()
    }

    fn seen(servers: &Servers) -> Vec<(String, bool)> {
        let mut found: Vec<_> =
            sessions(&all(), servers).into_iter().map(|one| (one.remote.ip().to_string(), one.is_known)).collect();
        found.sort();
        found
    }

    #[test]
    fn a_session_is_found_by_its_servers_listening_socket_and_by_its_own() {
        let by = |sockets: &[u64]| seen(&Servers { sockets: sockets.iter().copied().collect(), ..Servers::default() });
        let session = |peer: &str| (peer.to_owned(), true);
        assert_eq!(by(&[70]), [session("10.0.0.9")], "sshd listens at port 2222");
        assert_eq!(by(&[90]), [session("10.0.0.12")], "one that systemd accepted, or whose sshd listens no more");
        assert_eq!(by(&[]), []);
    }

    #[test]
    fn where_a_servers_sockets_cannot_be_read_connections_of_its_user_may_be_sessions() {
        let by = |user| seen(&Servers { unread: [user].into(), ..Servers::default() });
        let session = |peer: &str| (peer.to_owned(), false);
        assert_eq!(by(Some(0)), [session("10.0.0.11"), session("10.0.0.9")]);
        assert_eq!(by(None), [session("10.0.0.10"), session("10.0.0.11"), session("10.0.0.9")], "no process is seen");
        let words = sessions(&all(), &Servers { unread: [Some(33)].into(), ..Servers::default() });
        let words: Vec<Carried> = words.iter().map(Session::reason).collect();
        assert!(
            words[0].what.starts_with("possibly an SSH session of 10.0.0.10 ") && words[0].what.contains("port 80")
        );
    }

    #[test]
    fn ipv4_in_ipv6_is_ipv4() {
        assert_eq!(address("0000000000000000FFFF00000900000A"), Some("10.0.0.9".parse().unwrap()));
        assert_eq!(address("é000000"), None);
    }
}
