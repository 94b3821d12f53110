//! Standard output that does not keep a process from ending: who reads it may have stopped, as a pager does or a terminal
//! after Ctrl-S, and then a write waits for ever.

use crate::signals;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A pipe that says it has room takes so much without waiting.
const ATONCE_BYTES: usize = libc::PIPE_BUF;

/// How often a writer that waits looks whether the process should end.
const LOOK_EVERY_MS: libc::c_int = 100;

/// A process that should end waits no longer than this for its reader.
const PATIENCE: Duration = Duration::from_millis(500);

/// Standard output of a process that [`signals::stop_flag`] ends. Not buffered.
#[derive(Debug)]
pub struct Stdout {
    out: io::Stdout,
    /// Until when a process that should end waits for its reader.
    until: Option<Instant>,
}

/// Standard output, for a process that is ended by a flag.
pub fn stdout() -> Stdout {
    Stdout { out: io::stdout(), until: None }
}

impl Stdout {
    /// Waits for room.
    ///
    /// # Errors
    /// [`ErrorKind::BrokenPipe`] when the process should end and nobody reads, as if the reader had gone.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if has_room(&self.out, LOOK_EVERY_MS)? {
                return Ok(());
            }
            if signals::is_stopped() {
                let until = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
                if Instant::now() >= until {
                    return Err(io::Error::new(ErrorKind::BrokenPipe, "stdout has no reader"));
                }
            }
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.wait()?;
        // Not through the standard library's buffer, which would write on at a time of its own.
        let bytes = &bytes[..bytes.len().min(ATONCE_BYTES)];
        // SAFETY: the descriptor is open for as long as the process, and the slice is valid for its length.
        let written = unsafe { libc::write(self.out.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a write would not wait; looks for so long.
fn has_room(out: &impl AsRawFd, wait_ms: libc::c_int) -> io::Result<bool> {
    // SAFETY: the descriptor stays open while `out` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(out.as_raw_fd()) };
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `asked` is one complete entry that the call writes to.
    match unsafe { libc::poll(&mut asked, 1, wait_ms) } {
        ..0 => match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        0 => Ok(false),
        // Errors are for the write to say.
        _ => Ok(true),
    }
}
