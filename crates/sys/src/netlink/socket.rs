//! The kernel's end of netlink.

use super::Transport;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use surefoot_hostfs::Error;

/// The longest datagram that is taken; the kernel sends lists in pieces of 32 KiB at most.
const DATAGRAM_BYTES: usize = 256 << 10;
/// How long an answer is waited for: a recovery resets a device within the call.
const WAIT_S: i64 = 30;
/// `SOL_NETLINK`, and its options for the kernel's own words and against getting the request back.
const SOL_NETLINK: i32 = 270;
const CAP_ACK: i32 = 10;
const EXT_ACK: i32 = 11;

/// A socket of netlink.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens one to the kernel's generic families.
    ///
    /// # Errors
    /// [`Error::System`] where the kernel gives none.
    pub fn open() -> Result<Self, Error> {
        Self::of(libc::NETLINK_GENERIC)
    }

    /// Opens one to the kernel's routing, of the network namespace of this thread.
    ///
    /// # Errors
    /// [`Error::System`] where the kernel gives none.
    pub fn to_routing() -> Result<Self, Error> {
        Self::of(libc::NETLINK_ROUTE)
    }

    fn of(protocol: i32) -> Result<Self, Error> {
        // SAFETY: the call takes three numbers and returns a descriptor of its own or -1.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if socket < 0 {
            return Err(Error::last_system("open a netlink socket", ""));
        }
        // SAFETY: the descriptor was made by the call above, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let wait = libc::timeval { tv_sec: WAIT_S, tv_usec: 0 };
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &wait)?;
        // Older kernels know neither, and then only their words are missing.
        let _ = set(&socket, SOL_NETLINK, CAP_ACK, &1i32);
        let _ = set(&socket, SOL_NETLINK, EXT_ACK, &1i32);
        Ok(Socket { socket, buffer: vec![0; DATAGRAM_BYTES] })
    }
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> Result<(), Error> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads as many bytes as `value` has, and the descriptor is open.
    let failed =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), bytes) };
    if failed != 0 { Err(Error::last_system("set an option of a netlink socket", "")) } else { Ok(()) }
}

impl Transport for Socket {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        // SAFETY: an address of netlink is numbers alone, and the kernel's own is all zeros but for the family.
        let mut kernel: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        kernel.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // SAFETY: both buffers are as long as the call is told, and the descriptor is open.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                datagram.as_ptr().cast(),
                datagram.len(),
                0,
                std::ptr::from_ref(&kernel).cast(),
                size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let (socket, bytes) = (self.socket.as_raw_fd(), self.buffer.len());
            // SAFETY: the kernel writes at most as many bytes as the buffer has, and the descriptor is open.
            let got = unsafe { libc::recv(socket, self.buffer.as_mut_ptr().cast(), bytes, libc::MSG_TRUNC) };
            match usize::try_from(got) {
                Ok(got) if got > bytes => return Err(io::ErrorKind::FileTooLarge.into()),
                Ok(got) => return Ok(self.buffer[..got].to_vec()),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    match error.kind() {
                        io::ErrorKind::Interrupted => {}
                        io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
                        _ => return Err(error),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::netlink::Family;

    #[test]
    fn the_kernel_knows_its_own_family_and_no_made_up_one() {
        let family = Family::find(Socket::open().unwrap(), "nlctrl", 2).unwrap();
        assert_eq!(family.name(), "nlctrl");
        let error = Family::find(Socket::open().unwrap(), "no-such-family", 1).unwrap_err();
        assert!(error.is_absent(), "{error}");
        assert!(error.to_string().starts_with("cannot find the netlink family no-such-family"), "{error}");
    }
}
