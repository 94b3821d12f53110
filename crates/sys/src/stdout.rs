//! Standard output: whether all that was written arrived, and one that does not keep a process from ending. Who reads it may have
//! stopped, as a pager does or a terminal after Ctrl-S, and then a write waits for ever.

use crate::signals;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A pipe that says it has room takes so much without waiting.
const ATONCE_BYTES: usize = libc::PIPE_BUF;

/// How often a writer that waits looks whether the process should end.
const LOOK_EVERY_MS: libc::c_int = 100;

/// A process that should end waits no longer than this for its reader.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether standard output was closed when the process began: before `main` the standard library opens /dev/null in its place.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_whether_closed() {
    // SAFETY: the call takes numbers and changes nothing.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Called by the C library before the standard library begins.
// SAFETY: the section holds such functions; this one needs nothing of the standard library's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOKS_WHETHER_CLOSED: extern "C" fn() = look_whether_closed;

/// The first error of a write to standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Whether standard output can be written to at all. The standard library takes what is written to a closed one, and drops it.
///
/// # Errors
/// Why not.
pub fn expect_writable() -> io::Result<()> {
    // So that whoever links this function links the other one, too.
    std::hint::black_box(&LOOKS_WHETHER_CLOSED);
    // SAFETY: the call takes numbers and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    match flags & libc::O_ACCMODE {
        _ if WAS_CLOSED.load(Ordering::Relaxed) || flags == -1 => Err(io::Error::other("it is closed")),
        libc::O_RDONLY => Err(io::Error::other("it is open for reading only")),
        _ => Ok(()),
    }
}

/// Remembers why something could not be written, for the end of the command; a reader that went away is no failure.
pub fn remember<T>(written: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &written
        && ![ErrorKind::BrokenPipe, ErrorKind::Interrupted].contains(&error.kind())
    {
        let same =
            error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
        let _ = FAILED.set(same);
    }
    written
}

/// Whether all that was written to standard output arrived, so far.
///
/// # Errors
/// The first error of a write, also where the writer went on.
pub fn expect_written() -> io::Result<()> {
    // The reader of the last words may be gone.
    let _ = remember(io::stdout().flush());
    match FAILED.get() {
        Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
        None => Ok(()),
    }
}

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
        remember(expect_writable())?;
        self.wait()?;
        // Not through the standard library's buffer, which would write on at a time of its own.
        let bytes = &bytes[..bytes.len().min(ATONCE_BYTES)];
        // SAFETY: the descriptor is open for as long as the process, and the slice is valid for its length.
        let written = unsafe { libc::write(self.out.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        remember(usize::try_from(written).map_err(|_| io::Error::last_os_error()))
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
