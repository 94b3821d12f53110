//! Which user is at the other end of a connection: over loopback as the kernel's own table of sockets says, over a socket
//! in the file system as the kernel notes when it is connected.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// `SOCK_DIAG_BY_FAMILY` of <linux/sock_diag.h>.
const BY_FAMILY: u16 = 20;
/// The header of a message and its request, <linux/inet_diag.h>: family, protocol, states, ports, addresses, cookie.
const REQUEST_BYTES: usize = 16 + 56;
/// Where the user and the inode stand in an answer, after the header of the message.
const UID_AT: usize = 16 + 64;
const INODE_AT: usize = 16 + 68;

/// The user whose socket is connected from `client` to `server`, both on this machine; `None` where the kernel does not
/// say so for certain. A socket that its process has closed is nobody's, though the kernel then calls it root's.
pub fn user_of(root: &Root, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let (SocketAddr::V4(client), SocketAddr::V4(server)) = (client, server) else { return None };
    if !client.ip().is_loopback() || !server.ip().is_loopback() {
        return None;
    }
    let (uid, inode) = match root.is_host().then(|| ask(client, server)) {
        Some(Ok(found)) => found,
        _ => in_table(&root.read_up_to(root.proc("net/tcp"), TABLE_BYTES_MAX).ok()?, client, server)?,
    };
    (inode != 0).then_some(uid)
}

/// The process at the other end of a socket in the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// The process that connected, or listens; 0 where it is of no namespace that this process sees.
    pub pid: u32,
    /// Its user at that time.
    pub uid: u32,
}

/// Who connected this socket, or listens at the other end of it; `None` where it is no such socket.
pub fn credentials(socket: BorrowedFd<'_>) -> Option<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as `peer` has, and the descriptor is open.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    // A socket that is not connected has nobody at its other end: the kernel then says -1.
    let is_known = failed == 0 && peer.uid != u32::MAX;
    is_known.then(|| Credentials { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid })
}

/// The user as whom all users appear that a namespace does not know: it may be anybody.
pub fn unknown_user(root: &Root) -> u32 {
    let text = root.read(root.proc("sys/kernel/overflowuid")).unwrap_or_default();
    text.trim().digits().unwrap_or(65_534)
}

/// Who can be a user: what is shared out by users is shared out by these, because one user who may be 65,536 others (newuidmap) is
/// still one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// Whoever the kernel does not know.
    Unknown,
    /// This user, and the subordinate users that /etc/subuid gives him.
    User(u32),
    /// The subordinate users that root gives to containers.
    OfRoot,
    /// Everybody from here on who is neither in /etc/passwd nor in /etc/subuid: nobody says whose they are.
    Unlisted,
    /// One of another machine whom a server knows by a name of its own, which this number stands for.
    Named(u64),
}

impl Holder {
    /// Subordinate users begin here where nothing else is set (`SUB_UID_MIN` of login.defs).
    const SUBORDINATE_MIN: u32 = 100_000;
    /// The longest files that are read for it.
    const BYTES_MAX: u64 = 4 << 20;

    /// Who can be this user, as /etc/subuid and /etc/passwd say.
    pub fn of(root: &Root, uid: Option<u32>) -> Holder {
        let Some(uid) = uid else { return Holder::Unknown };
        if uid == 0 {
            return Holder::User(0);
        }
        let read = |path: &str| root.read_up_to(root.path(path), Self::BYTES_MAX).unwrap_or_default();
        let (ranges, users) = (read("etc/subuid"), read("etc/passwd"));
        let known = |name: &str| users.lines().find_map(|line| user_in(line).filter(|found| found.0 == name));
        let owner = ranges.lines().find_map(|line| {
            let words: Vec<&str> = line.split(':').map(str::trim).collect();
            let &[name, first, count] = words.as_slice() else { return None };
            let (first, count) = (first.digits::<u32>()?, count.digits::<u32>()?);
            (uid >= first && uid - first < count).then_some(name)
        });
        match owner.map(|name| known(name).map(|(_, uid)| uid).or_else(|| name.digits())) {
            Some(Some(0)) => Holder::OfRoot,
            Some(Some(owner)) => Holder::User(owner),
            // Of a user who is not known here.
            Some(None) => Holder::Unlisted,
            None if uid < Self::SUBORDINATE_MIN => Holder::User(uid),
            None if users.lines().filter_map(user_in).any(|(_, known)| known == uid) => Holder::User(uid),
            None => Holder::Unlisted,
        }
    }
}

/// Name and number in a line of /etc/passwd.
fn user_in(line: &str) -> Option<(&str, u32)> {
    let mut words = line.split(':');
    let (name, uid) = (words.next()?, words.nth(1)?);
    Some((name, uid.digits()?))
}

/// Asks the kernel for this one socket.
fn ask(client: SocketAddrV4, server: SocketAddrV4) -> io::Result<(u32, u32)> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us, and to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let request = request(client, server);
    // SAFETY: the kernel reads as many bytes as the array has.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent != REQUEST_BYTES as isize {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0u8; 1024];
    // The kernel has answered before `send` returns, so nothing is waited for.
    // SAFETY: the kernel writes at most as many bytes as the array has.
    let count = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    answered(&answer[..count.min(answer.len())]).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn request(client: SocketAddrV4, server: SocketAddrV4) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0u8; REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes[16] = libc::AF_INET as u8;
    bytes[17] = libc::IPPROTO_TCP as u8;
    bytes[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes[24..26].copy_from_slice(&client.port().to_be_bytes());
    bytes[26..28].copy_from_slice(&server.port().to_be_bytes());
    bytes[28..32].copy_from_slice(&client.ip().octets());
    bytes[44..48].copy_from_slice(&server.ip().octets());
    // No cookie: the addresses alone name it.
    bytes[64..72].fill(0xff);
    bytes
}

/// User and inode of the socket in an answer.
fn answered(bytes: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    (kind == BY_FAMILY).then_some(())?;
    Some((word(UID_AT)?, word(INODE_AT)?))
}

/// User and inode of the socket in the text of /proc/net/tcp.
fn in_table(text: &str, client: SocketAddrV4, server: SocketAddrV4) -> Option<(u32, u32)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(10).collect();
        let &[_, local, remote, _, _, _, _, uid, _, inode] = words.as_slice() else { return None };
        let is_it = address(local) == Some(client) && address(remote) == Some(server);
        is_it.then_some((uid.digits()?, inode.digits()?))
    };
    text.lines().skip(1).find_map(row)
}

/// `0100007F:1F90`: the address as a number of this machine, and the port.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = Ipv4Addr::from(ip.hex_digits::<u32>()?.to_ne_bytes());
    Some(SocketAddrV4::new(ip, port.hex_digits::<u16>()?))
}

/// Whether /etc/group has a group of this name.
pub fn is_group(root: &Root, group: &str) -> bool {
    let groups = root.read(root.path("etc/group")).unwrap_or_default();
    groups.lines().any(|line| line.split(':').next() == Some(group))
}

/// The users in a group, as /etc/group and /etc/passwd say: its members, and those whose own group it is.
pub fn users_of_group(root: &Root, group: &str) -> Vec<u32> {
    let groups = root.read(root.path("etc/group")).unwrap_or_default();
    let users = root.read(root.path("etc/passwd")).unwrap_or_default();
    let Some(row) = groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|row| row[0] == group) else {
        return Vec::new();
    };
    let &[_, _, number, members] = row.as_slice() else { return Vec::new() };
    let members: Vec<&str> = members.split(',').collect();
    let uid = |line: &str| {
        let words: Vec<&str> = line.split(':').take(4).collect();
        let &[name, _, uid, own] = words.as_slice() else { return None };
        (members.contains(&name) || own == number).then(|| uid.digits()).flatten()
    };
    users.lines().filter_map(uid).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn one_who_can_be_many_is_one() {
        let home = tempfile::tempdir().unwrap();
        let root = Root::at(home.path());
        let of = |uid| Holder::of(&root, Some(uid));
        assert_eq!((of(0), of(1000), of(100_000)), (Holder::User(0), Holder::User(1000), Holder::Unlisted));
        assert_eq!(Holder::of(&root, None), Holder::Unknown);
        std::fs::create_dir(home.path().join("etc")).unwrap();
        let passwd = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nfar:x:700000:7::/:/bin/sh\n";
        std::fs::write(home.path().join("etc/passwd"), passwd).unwrap();
        let subuid =
            "ann:100000:65536\nroot:200000:10\n1001:300000:+5\n1001:300000:5\ngone:400000:5\nodd:4294967295:9\n";
        std::fs::write(home.path().join("etc/subuid"), subuid).unwrap();
        for (uid, holder) in [
            (0, Holder::User(0)),
            (1000, Holder::User(1000)),
            (99_999, Holder::User(99_999)),
            (100_000, Holder::User(1000)),
            (165_535, Holder::User(1000)),
            (165_536, Holder::Unlisted),
            (200_009, Holder::OfRoot),
            (300_004, Holder::User(1001)),
            (300_005, Holder::Unlisted),
            (400_000, Holder::Unlisted),
            (700_000, Holder::User(700_000)),
            (u32::MAX - 1, Holder::Unlisted),
        ] {
            assert_eq!(of(uid), holder, "{uid}");
        }
    }

    #[test]
    fn the_kernel_knows_whose_a_connection_is_in_both_of_its_tables() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_accepted, client) = listener.accept().unwrap();
        let server = listener.local_addr().unwrap();
        let own = surefoot_hostfs::privilege::effective_user();
        let root = Root::host();
        assert_eq!(user_of(&root, client, server), Some(own));
        let (SocketAddr::V4(client4), SocketAddr::V4(server4)) = (client, server) else { panic!() };
        let text = root.read_up_to(root.proc("net/tcp"), TABLE_BYTES_MAX).unwrap();
        assert_eq!(in_table(&text, client4, server4).unwrap().0, own);
        match ask(client4, server4) {
            Ok((uid, inode)) => assert!(uid == own && inode != 0),
            Err(error) => surefoot_testkit::not_run::not_run(
                "the_kernel_knows_whose_a_connection_is_in_both_of_its_tables",
                &format!("no table of sockets over netlink here: {error}"),
            ),
        }
        // Its process has closed it: the kernel calls what is left of it root's.
        drop(stream);
        // A child that another test starts has a copy of the socket until it runs its program.
        let begun = std::time::Instant::now();
        while user_of(&root, client, server).is_some() {
            assert!(begun.elapsed().as_secs() < 30, "the socket is closed and still has a user");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(user_of(&root, "10.0.0.1:1".parse().unwrap(), server), None);
    }

    #[test]
    fn both_ends_of_a_socket_in_the_file_system_know_each_other() {
        use std::os::fd::AsFd;
        use std::os::unix::net::{UnixListener, UnixStream};
        let home = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(home.path().join("socket")).unwrap();
        let client = UnixStream::connect(home.path().join("socket")).unwrap();
        let (server, _) = listener.accept().unwrap();
        let own = Credentials { pid: std::process::id(), uid: surefoot_hostfs::privilege::effective_user() };
        assert_eq!((credentials(server.as_fd()), credentials(client.as_fd())), (Some(own), Some(own)));
        drop(client);
        assert_eq!(credentials(server.as_fd()), Some(own), "also when it is gone");
        assert_eq!(credentials(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()), None);
    }

    #[test]
    fn rows_of_the_table_are_found_by_both_addresses() {
        let text = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0
   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0
";
        let [client, server] = ["127.0.0.1:54321", "127.0.0.1:8080"].map(|text| text.parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(in_table(text, client, server), Some((1000, 12)));
        }
        assert_eq!(in_table(text, server, client), None);
    }

    #[test]
    fn a_group_is_its_members_and_those_whose_own_it_is() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("etc")).unwrap();
        std::fs::write(home.path().join("etc/group"), "adm:x:4:\nops:x:50:bob,eve\n").unwrap();
        let users = "root:x:0:0::/:\nbob:x:10:10::/:\neve:x:11:11::/:\nann:x:12:50::/:\n";
        std::fs::write(home.path().join("etc/passwd"), users).unwrap();
        let root = Root::at(home.path());
        assert_eq!(users_of_group(&root, "ops"), [10, 11, 12]);
        assert!(is_group(&root, "ops") && !is_group(&root, "none") && !is_group(&root, ""));
        assert!(users_of_group(&root, "none").is_empty() && users_of_group(&root, "adm").is_empty());
    }
}
