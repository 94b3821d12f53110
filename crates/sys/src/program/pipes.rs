//! What goes into a program and comes out of it, without a thread: whoever the program left behind may hold its pipes open for ever, and
//! must hold nothing of ours with them.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

/// Bytes that go through a pipe at once: as many as the kernel keeps in one.
const PIECE_BYTES: usize = 64 << 10;

/// The pipes of a program that runs.
pub(super) struct Pipes<'a> {
    stdin: Option<ChildStdin>,
    input: &'a [u8],
    output: Heard<ChildStdout>,
    complaint: Heard<ChildStderr>,
}

/// What was read of one pipe.
struct Heard<P> {
    /// `None` after its end.
    pipe: Option<P>,
    text: Vec<u8>,
    bytes_max: usize,
    dropped_bytes: u64,
}

impl<'a> Pipes<'a> {
    /// Takes the pipes of a child that is to be told `input`; so many bytes are kept of each that it says something on.
    pub(super) fn of(child: &mut Child, input: &'a [u8], bytes_max: u64) -> Pipes<'a> {
        let stdin = child.stdin.take().filter(is_unblocked);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let (output, complaint) = (child.stdout.take(), child.stderr.take());
        Pipes { stdin, input, output: Heard::of(output, bytes_max), complaint: Heard::of(complaint, bytes_max) }
    }

    /// Moves what can be moved now; waits so long for something, and so long where all pipes have ended.
    pub(super) fn turn(&mut self, patience: Duration) {
        let fds = [fd(&self.stdin), fd(&self.output.pipe), fd(&self.complaint.pipe)];
        if fds == [-1; 3] {
            return std::thread::sleep(patience);
        }
        let [stdin, output, complaint] = ready(fds, patience);
        if stdin {
            self.tell();
        }
        if output {
            self.output.hear();
        }
        if complaint {
            self.complaint.hear();
        }
    }

    /// What the program said, after its end: both texts, and the bytes that had no room in them. Somebody whom it left behind may hold its pipes
    /// open: what is in them after so long is all.
    pub(super) fn rest(mut self, patience: Duration) -> (Vec<u8>, Vec<u8>, u64) {
        self.stdin = None;
        let begun = Instant::now();
        while self.output.pipe.is_some() || self.complaint.pipe.is_some() {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            self.turn(left);
        }
        let dropped_bytes = self.output.dropped_bytes + self.complaint.dropped_bytes;
        (self.output.text, self.complaint.text, dropped_bytes)
    }

    fn tell(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(&self.input[..self.input.len().min(PIECE_BYTES)]) {
            Ok(count) => self.input = &self.input[count..],
            Err(error) if is_for_later(&error) => return,
            // It reads no more, and is told no more.
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }
}

impl<P: Read + AsRawFd> Heard<P> {
    fn of(pipe: Option<P>, bytes_max: usize) -> Heard<P> {
        Heard { pipe: pipe.filter(is_unblocked), text: Vec::new(), bytes_max, dropped_bytes: 0 }
    }

    fn hear(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut piece = [0; PIECE_BYTES];
        match pipe.read(&mut piece) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                let room = self.bytes_max.saturating_sub(self.text.len()).min(count);
                self.text.extend_from_slice(&piece[..room]);
                self.dropped_bytes += (count - room) as u64;
            }
            Err(error) if is_for_later(&error) => {}
            Err(_) => self.pipe = None,
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn fd(pipe: &Option<impl AsRawFd>) -> i32 {
    pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

/// Our own end alone does not wait: the two ends of a pipe have their flags each.
fn is_unblocked(pipe: &impl AsRawFd) -> bool {
    // SAFETY: the descriptor stays open while `pipe` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(pipe.as_raw_fd()) };
    // SAFETY: takes no pointer.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: as above.
    flags >= 0 && unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } == 0
}

/// Which of these can be written to (the first) or read from (the others) without waiting, after waiting so long for one. Those that are
/// negative are passed over.
fn ready([stdin, output, complaint]: [i32; 3], patience: Duration) -> [bool; 3] {
    let one = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut asked = [one(stdin, libc::POLLOUT), one(output, libc::POLLIN), one(complaint, libc::POLLIN)];
    // A part of a millisecond is waited for, not asked for again and again.
    let milliseconds = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
    // SAFETY: three complete entries that the call writes to and that outlive it.
    let count = unsafe { libc::poll(asked.as_mut_ptr(), 3, milliseconds) };
    // Ends and errors are for the read or write to say.
    asked.map(|asked| count > 0 && asked.revents != 0)
}
