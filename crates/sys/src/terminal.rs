//! The terminal, where there is one: a screen of its own on it, and what brings it back to how it was.
//!
//! Nothing here waits for the terminal. Bytes go out through a description of our own that does not block, so that neither the shell nor
//! another program on the same terminal sees a changed flag.

use crate::signals;
use std::io::{self, ErrorKind, PipeReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// How long the way back may take where the terminal takes nothing.
const PATIENCE: Duration = Duration::from_millis(300);

/// Columns and lines of the terminal that standard output is, or `None` when it is none or does not say.
pub fn size() -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills the winsize that the pointer leads to.
    let told = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (told == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// What to send to a terminal for a screen of our own, and to leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Into the screen.
    pub enter: Vec<u8>,
    /// Back to what was there before.
    pub leave: Vec<u8>,
}

/// What the way back needs, also in a signal's handler. Never freed.
struct Back {
    out: RawFd,
    keys: Option<RawFd>,
    before: libc::termios,
    leave: Vec<u8>,
    /// What standard error was, where it is held back.
    errors: Option<RawFd>,
}

/// What the screen that is there now needs to go.
static BACK: AtomicPtr<Back> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the screen is there.
static IS_THERE: AtomicBool = AtomicBool::new(false);
/// Where a signal writes a byte to wake the screen; -1 without one.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// Whether Ctrl-Z was pressed, or SIGTSTP came.
static SUSPEND: AtomicBool = AtomicBool::new(false);
/// Whether the process was continued: what the terminal shows, and how it takes keys, may have changed meanwhile.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// The terminal of a process that shows a screen on it. One at a time.
#[derive(Debug)]
pub struct Terminal {
    out: OwnedFd,
    /// Whether keys can be read: standard input is a terminal.
    has_keys: bool,
    wake: PipeReader,
    /// What is written to standard error while the screen is there.
    errors: Option<PipeReader>,
}

/// What [`Terminal::wait`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// Keys were pressed.
    pub keys: bool,
    /// The terminal takes bytes.
    pub out: bool,
    /// Something was written to standard error.
    pub errors: bool,
    /// The terminal has hung up.
    pub is_gone: bool,
}

impl Terminal {
    /// The terminal that standard output is.
    ///
    /// # Errors
    /// It cannot be opened once more, or there is no pipe.
    pub fn open(way: &Way) -> io::Result<Terminal> {
        let out = own_description()?;
        // SAFETY: takes a descriptor that may be closed, too.
        let has_keys = unsafe { libc::isatty(libc::STDIN_FILENO) } == 1;
        let (wake, waker) = io::pipe()?;
        not_blocking(wake.as_fd())?;
        not_blocking(waker.as_fd())?;
        // SAFETY: as above.
        let (errors, held) = match unsafe { libc::isatty(libc::STDERR_FILENO) } == 1 {
            true => {
                let (errors, writer) = io::pipe()?;
                not_blocking(errors.as_fd())?;
                let before = io::stderr().as_fd().try_clone_to_owned()?;
                (Some(errors), Some((before, writer)))
            }
            false => (None, None),
        };
        // SAFETY: termios is made of integers for which zero is a value.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the call fills the termios that the pointer leads to.
        let is_known = has_keys && unsafe { libc::tcgetattr(libc::STDIN_FILENO, &mut before) } == 0;
        let held = held.map(|(before, writer)| {
            let writer = std::mem::ManuallyDrop::new(writer);
            let before = std::mem::ManuallyDrop::new(before);
            HELD.store(writer.as_raw_fd(), Ordering::Relaxed);
            before.as_raw_fd()
        });
        let waker = std::mem::ManuallyDrop::new(waker);
        let back = Back {
            out: out.as_raw_fd(),
            keys: is_known.then_some(libc::STDIN_FILENO),
            before,
            leave: way.leave.clone(),
            errors: held,
        };
        BACK.store(Box::into_raw(Box::new(back)), Ordering::Release);
        WAKE.store(waker.as_raw_fd(), Ordering::Release);
        signals::on_terminal_news(news).map_err(io::Error::other)?;
        Ok(Terminal { out, has_keys: is_known, wake, errors })
    }

    /// Whether keys can be read.
    pub fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Whether this process may show something: it is in the foreground, or the terminal is not its controlling one.
    pub fn is_in_foreground(&self) -> bool {
        // SAFETY: both calls take numbers.
        let (group, own) = unsafe { (libc::tcgetpgrp(self.out.as_raw_fd()), libc::getpgrp()) };
        group < 0 || group == own
    }

    /// Takes the terminal: keys arrive one by one and are not echoed, and standard error is held back. What is to be written is for the
    /// caller to write. Ctrl-C, Ctrl-Z and Ctrl-S stay what the user has them do.
    pub fn enter(&self) {
        let _held = hold_stops();
        let Some(back) = back() else { return };
        if let Some(keys) = back.keys {
            let mut raw = back.before;
            raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ECHONL | libc::IEXTEN);
            // A core of the process, with the terminal left as it is, is nobody's wish.
            raw.c_cc[libc::VQUIT] = libc::_POSIX_VDISABLE;
            raw.c_cc[libc::VMIN] = 0;
            raw.c_cc[libc::VTIME] = 0;
            // SAFETY: the call reads a complete termios.
            unsafe { libc::tcsetattr(keys, libc::TCSANOW, &raw const raw) };
        }
        if back.errors.is_some() {
            // SAFETY: both descriptors are open for as long as the process.
            unsafe { libc::dup2(HELD.load(Ordering::Relaxed), libc::STDERR_FILENO) };
        }
        IS_THERE.store(true, Ordering::Release);
    }

    /// Waits until there is something to do.
    pub fn wait(&self, for_out: bool, timeout: Duration) -> Ready {
        let entry = |fd: RawFd, events| libc::pollfd { fd, events, revents: 0 };
        let keys = if self.has_keys { libc::STDIN_FILENO } else { -1 };
        let mut asked = [
            entry(self.wake.as_raw_fd(), libc::POLLIN),
            entry(keys, libc::POLLIN),
            entry(self.out.as_raw_fd(), if for_out { libc::POLLOUT } else { 0 }),
            entry(self.errors.as_ref().map_or(-1, |errors| errors.as_raw_fd()), libc::POLLIN),
        ];
        let timeout_ms = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the entries are complete, and the call writes to them alone. An error leaves them as they are.
        unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) };
        if asked[0].revents != 0 {
            drain(self.wake.as_raw_fd());
        }
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        Ready {
            keys: asked[1].revents & libc::POLLIN != 0,
            out: asked[2].revents & libc::POLLOUT != 0,
            errors: asked[3].revents & libc::POLLIN != 0,
            is_gone: asked[2].revents & gone != 0 || (keys >= 0 && asked[1].revents & gone != 0),
        }
    }

    /// The bytes of keys that were pressed; none where another process has read them first.
    pub fn read_keys(&self) -> Vec<u8> {
        read(libc::STDIN_FILENO)
    }

    /// What was written to standard error since the last call.
    pub fn read_errors(&self) -> Vec<u8> {
        self.errors.as_ref().map(|errors| read(errors.as_raw_fd())).unwrap_or_default()
    }

    /// Writes what the terminal takes now.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match write(self.out.as_raw_fd(), bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    /// Whether the user asked to suspend the process since the last call.
    pub fn take_suspend(&self) -> bool {
        SUSPEND.swap(false, Ordering::Relaxed)
    }

    /// Whether the process was stopped and continued since the last call.
    pub fn take_continued(&self) -> bool {
        CONTINUED.swap(false, Ordering::Relaxed)
    }

    /// Suspends the process, as Ctrl-Z does without a handler. Returns when it goes on.
    pub fn suspend(&self) {
        leave();
        signals::stop_until_continued();
    }
}

/// Wakes the screen, from any thread.
pub fn wake() {
    let fd = WAKE.load(Ordering::Acquire);
    if fd >= 0 {
        // SAFETY: the pipe is open for as long as the process, and does not block. A full one wakes anyway. In a signal's handler the
        // error of the call that was interrupted must stay.
        unsafe {
            let error = *libc::__errno_location();
            libc::write(fd, [1u8].as_ptr().cast(), 1);
            *libc::__errno_location() = error;
        }
    }
}

/// Where standard error goes while the screen is there.
static HELD: AtomicI32 = AtomicI32::new(-1);

/// Brings the terminal back to what it was, if a screen is there; at most once for each [`Terminal::enter`]. Fit for a signal's handler and
/// for a panic.
pub fn leave() {
    if !IS_THERE.swap(false, Ordering::AcqRel) {
        return;
    }
    let Some(back) = back() else { return };
    let _held = hold_stops();
    if let Some(errors) = back.errors {
        // SAFETY: both descriptors are open for as long as the process.
        unsafe { libc::dup2(errors, libc::STDERR_FILENO) };
    }
    let begun = Instant::now();
    let mut rest = back.leave.as_slice();
    while !rest.is_empty() && begun.elapsed() < PATIENCE {
        match write(back.out, rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                let mut asked = libc::pollfd { fd: back.out, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one complete entry that the call writes to.
                unsafe { libc::poll(&mut asked, 1, 20) };
            }
            Err(_) => break,
        }
    }
    if let Some(keys) = back.keys {
        // SAFETY: the call reads a complete termios. It does not wait for what is on its way to the terminal.
        unsafe { libc::tcsetattr(keys, libc::TCSANOW, &raw const back.before) };
    }
}

/// Leaves the screen before a panic is printed, in whatever thread.
pub fn leave_at_panic(of_screen: impl Fn() -> bool + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |about| {
        // Another thread's panic is a line that the screen shows: the watch may go on.
        if of_screen() {
            leave();
        }
        before(about);
    }));
}

fn back() -> Option<&'static Back> {
    // SAFETY: null, or a box that is never freed or changed.
    unsafe { BACK.load(Ordering::Acquire).as_ref() }
}

/// What a signal does that is news of the terminal.
extern "C" fn news(signal: libc::c_int) {
    match signal {
        libc::SIGTSTP => SUSPEND.store(true, Ordering::Relaxed),
        libc::SIGCONT => CONTINUED.store(true, Ordering::Relaxed),
        libc::SIGQUIT => {
            leave();
            // SAFETY: takes numbers; the handler is the kernel's own again.
            unsafe {
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                libc::raise(libc::SIGQUIT);
            }
        }
        _ => {}
    }
    wake();
}

/// While it lives, the calling thread is not stopped for using a terminal from the background.
struct StopsHeld(libc::sigset_t);

fn hold_stops() -> StopsHeld {
    // SAFETY: sets of signals are integers for which zero is a value; the calls write to locals, and numbers are of signals that exist.
    unsafe {
        let (mut signals, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGTTOU);
        libc::sigaddset(&mut signals, libc::SIGTTIN);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &mut before);
        StopsHeld(before)
    }
}

impl Drop for StopsHeld {
    fn drop(&mut self) {
        // SAFETY: the set is what the kernel said that it was before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Standard output's terminal once more, so that "does not block" is ours alone; by its own name, or where that is another user's, as the
/// controlling terminal.
fn own_description() -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut failed = io::Error::from(ErrorKind::NotFound);
    for name in [c"/proc/self/fd/1", c"/dev/tty"] {
        // SAFETY: the name ends with a zero.
        let fd = unsafe { libc::open(name.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the descriptor was just opened and belongs to nobody else.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        failed = io::Error::last_os_error();
    }
    Err(failed)
}

fn not_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: changes flags of a descriptor that is open.
    let set = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What there is to read now; nothing where reading fails.
fn read(fd: RawFd) -> Vec<u8> {
    let mut bytes = vec![0u8; 4096];
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(usize::try_from(count).unwrap_or(0));
    bytes
}

fn drain(fd: RawFd) {
    while !read(fd).is_empty() {}
}

fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the slice is valid for its length.
    let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes to standard error what was held back of it.
pub fn tell_held(text: &[u8]) {
    // A closed standard error is no error.
    let _ = io::stderr().write_all(text);
}
