//! Sockets that send and receive whole packets on one interface: those of a packet type of Ethernet, and those of ICMP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use surefoot_hostfs::Error;

/// A hardware address of Ethernet.
pub type Address = [u8; 6];

const REMEDY: &str = "; CAP_NET_RAW is needed";

/// A socket for packets of one type on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    index: i32,
    kind: u16,
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub from: Address,
    /// Whether it was sent to this interface alone, and not to all or to a group.
    pub is_to_us: bool,
    /// Its bytes behind the header of Ethernet; those over the buffer's length are cut.
    pub bytes: usize,
}

impl PacketSocket {
    /// Opens one for packets of this type (0x88b5, say) that arrive at this interface.
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::is_denied`] without CAP_NET_RAW.
    pub fn open(interface: &str, kind: u16) -> Result<Self, Error> {
        let action = || format!("open a packet socket on {}", surefoot_hostfs::shorten(interface));
        let index = index_of(interface)?;
        let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Without a type at first, so that nothing arrives from other interfaces before it is bound.
        // SAFETY: the call takes three numbers and returns a descriptor of its own or -1.
        let socket = owned(unsafe { libc::socket(libc::AF_PACKET, flags, 0) }, &action)?;
        let own = PacketSocket { socket, index, kind };
        let address = own.address([0; 6]);
        let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel reads the address, whose size it is told; the descriptor is open.
        let failed = unsafe { libc::bind(own.socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) };
        if failed != 0 { Err(last(&action())) } else { Ok(own) }
    }

    fn address(&self, to: Address) -> libc::sockaddr_ll {
        // SAFETY: the address is numbers alone, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = self.kind.to_be();
        address.sll_ifindex = self.index;
        address.sll_halen = 6;
        address.sll_addr[..6].copy_from_slice(&to);
        address
    }

    /// Sends a packet, without waiting.
    ///
    /// # Errors
    /// What the kernel says, such as that the interface is down or its queue full.
    pub fn send(&self, to: Address, payload: &[u8]) -> io::Result<()> {
        let address = self.address(to);
        // SAFETY: both buffers are as long as the call is told, and the descriptor is open.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                payload.as_ptr().cast(),
                payload.len(),
                0,
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next packet that arrived; waits for it this long at most. `None` where none came. What this machine sends itself is
    /// left out.
    ///
    /// # Errors
    /// What the kernel says, such as that the interface is down or gone.
    pub fn receive(&self, buffer: &mut [u8], wait: Duration) -> io::Result<Option<Received>> {
        let mut address = self.address([0; 6]);
        let Some(bytes) = receive(&self.socket, buffer, wait, &mut address)? else { return Ok(None) };
        let mut from = [0; 6];
        from.copy_from_slice(&address.sll_addr[..6]);
        match address.sll_pkttype {
            libc::PACKET_OUTGOING => Ok(None),
            kind => Ok(Some(Received { from, is_to_us: kind == libc::PACKET_HOST, bytes })),
        }
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A socket for ICMP through one interface to one neighbour.
#[derive(Debug)]
pub struct EchoSocket {
    socket: OwnedFd,
    peer: IpAddr,
}

impl EchoSocket {
    /// Opens one; what it receives of IPv4 has the header of IPv4 before it.
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::is_denied`] without CAP_NET_RAW.
    pub fn open(interface: &str, peer: IpAddr) -> Result<Self, Error> {
        let action = || format!("open an ICMP socket on {}", surefoot_hostfs::shorten(interface));
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        index_of(interface)?;
        let (family, protocol) = match peer {
            IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
            IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
        };
        // SAFETY: the call takes three numbers and returns a descriptor of its own or -1.
        let socket = owned(unsafe { libc::socket(family, flags, protocol) }, &action)?;
        let name = interface.as_bytes();
        // SAFETY: the kernel reads the name, whose length it is told; the descriptor is open.
        let failed = unsafe {
            let bytes = name.len() as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_ptr().cast(), bytes)
        };
        if failed != 0 { Err(last(&action())) } else { Ok(EchoSocket { socket, peer }) }
    }

    /// Sends a message of ICMP, without waiting.
    ///
    /// # Errors
    /// What the kernel says, such as that there is no route to the neighbour through this interface.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let (address, bytes) = internet_address(self.peer);
        // SAFETY: both buffers are as long as the call is told, and the descriptor is open.
        let sent = unsafe {
            let to = std::ptr::from_ref(&address).cast();
            libc::sendto(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0, to, bytes)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next message that the neighbour sent; waits for it this long at most.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive(&self, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        // SAFETY: the address is numbers alone, for which zeros are valid.
        let mut from: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        let Some(bytes) = receive(&self.socket, buffer, wait, &mut from)? else { return Ok(None) };
        Ok((ip_of(&from) == Some(self.peer)).then_some(bytes))
    }
}

/// The address as the kernel takes it, and its length; that of IPv4 is the shorter.
fn internet_address(peer: IpAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    // SAFETY: the address is numbers alone, for which zeros are valid.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match peer {
        IpAddr::V6(ip) => {
            address.sin6_family = libc::AF_INET6 as u16;
            address.sin6_addr.s6_addr = ip.octets();
            (address, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
        IpAddr::V4(ip) => {
            // The address of IPv4 stands where IPv6 has its flow label.
            address.sin6_family = libc::AF_INET as u16;
            address.sin6_flowinfo = u32::from_ne_bytes(ip.octets());
            (address, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
    }
}

fn ip_of(address: &libc::sockaddr_in6) -> Option<IpAddr> {
    match i32::from(address.sin6_family) {
        libc::AF_INET => Some(Ipv4Addr::from(address.sin6_flowinfo.to_ne_bytes()).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into()),
        _ => None,
    }
}

/// Waits for a packet and takes it; `from` is an address of the kernel's, of plain numbers.
fn receive<A>(socket: &OwnedFd, buffer: &mut [u8], wait: Duration, from: &mut A) -> io::Result<Option<usize>> {
    if !wait.is_zero() && !is_readable(socket, wait)? {
        return Ok(None);
    }
    take(socket, buffer, from)
}

/// Whether something arrives within this time.
fn is_readable(socket: &OwnedFd, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
    let time = libc::timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().into() };
    // SAFETY: one entry is passed, and the time outlives the call.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) };
    if ready == 0 || (ready < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted) {
        return Ok(false);
    }
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(true) }
}

fn take<A>(socket: &OwnedFd, buffer: &mut [u8], from: &mut A) -> io::Result<Option<usize>> {
    let mut address_bytes = size_of::<A>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as buffer and address have; the descriptor is open.
    let got = unsafe {
        let (to, from) = (buffer.as_mut_ptr().cast(), std::ptr::from_mut(from).cast());
        libc::recvfrom(socket.as_raw_fd(), to, buffer.len(), 0, from, &raw mut address_bytes)
    };
    match usize::try_from(got) {
        Ok(got) => Ok(Some(got.min(buffer.len()))),
        Err(_) => match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            error => Err(error),
        },
    }
}

/// The kernel's number of an interface.
///
/// # Errors
/// [`Error::System`]; [`Error::is_absent`] where there is none of this name.
fn index_of(interface: &str) -> Result<i32, Error> {
    let action = || format!("find the interface {}", surefoot_hostfs::shorten(interface));
    let name = std::ffi::CString::new(interface).map_err(|_| Error::System {
        action: action(),
        source: io::ErrorKind::NotFound.into(),
        remedy: "",
    })?;
    // SAFETY: the name ends in a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    match i32::try_from(index) {
        Ok(index) if index > 0 => Ok(index),
        _ => Err(Error::last_system(action(), "")),
    }
}

fn owned(descriptor: i32, action: &dyn Fn() -> String) -> Result<OwnedFd, Error> {
    if descriptor < 0 {
        return Err(last(&action()));
    }
    // SAFETY: the kernel has just given it to the caller, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn last(action: &str) -> Error {
    let source = io::Error::last_os_error();
    let remedy = if source.kind() == io::ErrorKind::PermissionDenied { REMEDY } else { "" };
    Error::System { action: action.to_owned(), source, remedy }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_both_kinds_read_back() {
        for ip in ["192.0.2.7", "2001:db8::7"] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(ip_of(&internet_address(ip).0), Some(ip));
        }
        assert_eq!(internet_address(Ipv4Addr::LOCALHOST.into()).1, 16);
    }

    #[test]
    fn an_interface_that_is_not_there_is_absent_and_named() {
        let error = PacketSocket::open("no-such-one", 0x88b5).unwrap_err();
        assert!(error.is_absent() && error.to_string().contains("no-such-one"), "{error}");
    }

    #[test]
    fn the_loopback_interface_answers_an_echo() {
        let socket = match EchoSocket::open("lo", Ipv4Addr::LOCALHOST.into()) {
            Err(error) if error.is_denied() => {
                return surefoot_testkit::not_run::not_run(
                    "packet::the_loopback_interface_answers_an_echo",
                    "it needs CAP_NET_RAW",
                );
            }
            opened => opened.unwrap(),
        };
        // Echo request, number 7 of 0x5f5f; its checksum is what is missing to the sum of ones.
        let message = [8, 0, 0x98, 0x99, 0x5f, 0x5f, 0, 7];
        socket.send(&message).unwrap();
        let (mut buffer, mut is_answered) = ([0; 128], false);
        for _ in 0..100 {
            if let Some(bytes) = socket.receive(&mut buffer, Duration::from_millis(100)).unwrap() {
                is_answered |= buffer[20..bytes][..8] == [0, 0, 0xa0, 0x99, 0x5f, 0x5f, 0, 7];
            }
            if is_answered {
                return;
            }
        }
        panic!("no echo in ten seconds");
    }
}
