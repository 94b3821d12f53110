//! Messages with a descriptor beside them, between this process and one that it started.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// One end of a connection whose messages keep their bounds. Its end is closed with it.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What came.
#[derive(Debug)]
pub struct Message {
    /// How many bytes of the buffer are filled.
    pub bytes: usize,
    /// The file that came with it.
    pub file: Option<File>,
}

/// Room for one descriptor, aligned as the kernel writes it.
#[repr(C, align(8))]
struct Control([u8; 32]);

impl Channel {
    /// Two connected ends: one to keep, and one to become the standard input of a program.
    ///
    /// # Errors
    /// What `socketpair` says.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors that the call writes.
        if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) }
            != 0
        {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave two open descriptors that nobody else has.
        let (kept, given) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        Ok((Channel(kept), given))
    }

    /// The end that is this process's standard input.
    ///
    /// # Errors
    /// What the kernel says when there is no standard input, and when it is something else.
    pub fn of_standard_input() -> io::Result<Self> {
        Channel::of(io::stdin().as_fd().try_clone_to_owned()?)
    }

    /// An end that somebody else made.
    fn of(end: OwnedFd) -> io::Result<Self> {
        let option = |name: libc::c_int| {
            let (mut value, mut length): (libc::c_int, libc::socklen_t) = (0, size_of::<libc::c_int>() as _);
            let place = (&raw mut value).cast();
            // SAFETY: the kernel writes at most `length` bytes, which is as long as the value is.
            let done = unsafe { libc::getsockopt(end.as_raw_fd(), libc::SOL_SOCKET, name, place, &raw mut length) };
            (done == 0).then_some(value)
        };
        match (option(libc::SO_DOMAIN), option(libc::SO_TYPE)) {
            (Some(libc::AF_UNIX), Some(libc::SOCK_SEQPACKET)) => Ok(Channel(end)),
            _ => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "its standard input is not the socket of one who asks"))
            }
        }
    }

    /// Sends a message, with a file if there is one. Does not wait for room.
    ///
    /// # Errors
    /// What `sendmsg` says: the other end is gone, or reads nothing.
    pub fn send(&self, bytes: &[u8], file: Option<&File>) -> io::Result<()> {
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control([0; 32]);
        let mut header = header(&mut part);
        if let Some(file) = file {
            header.msg_control = (&raw mut control).cast();
            // SAFETY: takes no pointer.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as _;
            // SAFETY: the control buffer is aligned and longer than one descriptor's message, so the first header and
            // its data lie in it.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
                libc::CMSG_DATA(first).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
            }
        }
        // SAFETY: the header describes `part` and `control`, which outlive the call; sending only reads.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a message, and a file if one came along and `with_file` takes one; what else comes along is closed. `None`
    /// when the other end is closed. Waits no longer than `patience`, or for good.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]; [`io::ErrorKind::InvalidData`] for a message that is longer than the buffer; what the
    /// kernel says.
    pub fn receive(
        &self,
        buffer: &mut [u8],
        with_file: bool,
        patience: Option<Duration>,
    ) -> io::Result<Option<Message>> {
        self.wait(patience)?;
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = Control([0; 32]);
        let mut header = header(&mut part);
        if with_file {
            header.msg_control = (&raw mut control).cast();
            // SAFETY: takes no pointer.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as _;
        }
        // SAFETY: the header describes `buffer` and `control`, which outlive the call and have the lengths that it says.
        let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has filled the control buffer and its length.
        let file = unsafe { file_of(&header) };
        if header.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is longer than any should be"));
        }
        // Nobody sends an empty message.
        Ok((received > 0).then_some(Message { bytes: received as usize, file }))
    }

    fn wait(&self, patience: Option<Duration>) -> io::Result<()> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // A part of a millisecond is waited for, not asked for again and again.
            let milliseconds =
                left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX).saturating_add(1));
            let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which outlives the call.
            match unsafe { libc::poll(&mut asked, 1, milliseconds) } {
                0 => return Err(io::ErrorKind::TimedOut.into()),
                ready if ready > 0 => return Ok(()),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: msghdr is made of integers and pointers for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

/// The descriptor in a message's control data.
///
/// # Safety
/// The header must be as `recvmsg` left it, with its control buffer alive.
unsafe fn file_of(header: &libc::msghdr) -> Option<File> {
    // SAFETY: the caller's.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let is_one = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len as usize == libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
        is_one.then(|| File::from_raw_fd(libc::CMSG_DATA(first).cast::<libc::c_int>().read_unaligned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Seek, Write};

    fn pair() -> (Channel, Channel) {
        let (kept, given) = Channel::pair().unwrap();
        (kept, Channel(given))
    }

    #[test]
    fn only_a_socket_that_keeps_messages_apart_is_taken() {
        use std::os::unix::net::UnixStream;
        let (stream, _other) = UnixStream::pair().unwrap();
        assert!(Channel::of(stream.into()).is_err());
        assert!(Channel::of(File::open("/dev/null").unwrap().into()).is_err());
        let (_kept, given) = Channel::pair().unwrap();
        assert!(Channel::of(given).is_ok());
    }

    #[test]
    fn a_message_keeps_its_bounds_and_brings_a_file() {
        let (one, other) = pair();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        file.rewind().unwrap();
        one.send(b"first", Some(&file)).unwrap();
        one.send(b"second", None).unwrap();
        let mut buffer = [0; 16];
        let Message { bytes, file } = other.receive(&mut buffer, true, None).unwrap().unwrap();
        assert_eq!(&buffer[..bytes], b"first");
        let mut text = String::new();
        file.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let second = other.receive(&mut buffer, true, None).unwrap().unwrap();
        assert!(second.file.is_none() && &buffer[..second.bytes] == b"second");
        drop(one);
        assert!(other.receive(&mut buffer, true, None).unwrap().is_none(), "the other end is gone");
        assert!(other.send(b"x", None).is_err());
    }

    #[test]
    fn what_is_too_long_comes_too_late_or_was_not_asked_for_is_refused() {
        let (one, other) = pair();
        let mut buffer = [0; 4];
        let late = other.receive(&mut buffer, true, Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        one.send(b"longer", None).unwrap();
        assert_eq!(other.receive(&mut buffer, true, None).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let file = tempfile::tempfile().unwrap();
        one.send(b"x", Some(&file)).unwrap();
        assert!(other.receive(&mut buffer, false, None).unwrap().unwrap().file.is_none());
    }
}
