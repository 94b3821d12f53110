//! The thread of the screen: it alone reads keys and writes to the terminal.

use crate::ansi;
use crate::kept::{Kept, RoomState};
use crate::keys::{Key, Keys};
use crate::past::Past;
use crate::session::{Look, Session, Then};
use ratatui_core::buffer::Buffer;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_model::{Event, Finding, Headline};
use surefoot_sys::signals;
use surefoot_sys::terminal::{self, Terminal, Way};

/// How long the thread sleeps when nothing happens. News, signals and keys wake it.
const SLEEP: Duration = Duration::from_secs(1);
/// How long it waits for the rest of a key that has begun.
const KEY_WAIT: Duration = Duration::from_millis(60);
/// How often it looks whether it is in the foreground again.
const BACKGROUND_WAIT: Duration = Duration::from_millis(250);
/// How long the caller waits for the thread at the end.
const END_WAIT: Duration = Duration::from_millis(700);
/// Bytes of standard error that are told after the end.
const HELD_MAX: usize = 16 << 10;
/// The name of the thread.
const NAME: &str = "surefoot-screen";

/// How a terminal of this kind and so many lines gets a screen of its own, and loses it.
pub fn way(term: &str, lines: u16) -> Way {
    // Without wrapping at the end of a line, nothing scrolls that is drawn as wider than it was thought to be.
    let enter = "\x1b[?1049h\x1b[?7l\x1b[?25l";
    let leave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
    let way = |enter: String, leave: String| Way { enter: enter.into_bytes(), leave: leave.into_bytes() };
    match term {
        // Consoles of older kernels have no other screen: what was there goes up into what can be scrolled back to.
        "linux" => {
            let up = "\r\n".repeat(usize::from(lines));
            way(format!("\x1b[{lines};1H{up}{enter}"), format!("{leave}\x1b[{lines};1H\r\n"))
        }
        _ => way(enter.to_owned(), leave.to_owned()),
    }
}

/// A screen that is there until it is ended or dropped.
pub struct Screen {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    kept: Mutex<Kept>,
    has_news: AtomicBool,
    is_ended: AtomicBool,
    /// The newest of what was written to standard error.
    held: Mutex<Vec<u8>>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen {
    /// Takes a terminal.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(terminal: Terminal, kept: Kept, look: Look, way: Way, past: Option<Past>) -> io::Result<Screen> {
        let shared = Arc::new(Shared { kept: Mutex::new(kept), ..Shared::default() });
        terminal::leave_at_panic(|| matches!(std::thread::current().name(), Some(NAME | "main") | None));
        let session = match terminal.has_keys() {
            true => Session::new(look),
            false => Session::new(look).without_keys(),
        };
        let of_thread = Arc::clone(&shared);
        let run = move || Loop::new(terminal, session, of_thread, way, past).run();
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(run)?;
        Ok(Screen { shared, thread: Some(thread) })
    }

    /// Takes an event in.
    pub fn add(&self, event: &Event) {
        self.shared.kept().add(event);
        // The others are shown with the next window: adding the last minute up for each of a hundred gaps would cost more than the watch.
        if matches!(event, Event::Host(_) | Event::Notice(_) | Event::Clock(_)) {
            self.news();
        }
    }

    /// Takes in what the judge says after a window.
    pub fn judge(&self, headline: Headline, findings: Vec<Finding>, rooms: Vec<RoomState>) {
        self.shared.kept().judge(headline, findings, rooms);
        self.news();
    }

    fn news(&self) {
        self.shared.has_news.store(true, Ordering::Release);
        terminal::wake();
    }

    /// Brings the terminal back to what it was.
    pub fn end(self) {
        // Dropping does it.
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Release);
        terminal::wake();
        let until = Instant::now() + END_WAIT;
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                // A panic of its was printed by its hook.
                let _ = thread.join();
            }
        }
        // Where the thread hangs, in a history on a dead disk for instance.
        terminal::leave();
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap_or_else(PoisonError::into_inner));
        terminal::tell_held(&held);
    }
}

struct Loop {
    terminal: Terminal,
    session: Session,
    shared: Arc<Shared>,
    way: Way,
    past: Option<Past>,
    keys: Keys,
    /// What the terminal shows once `waiting` is written; `None` where that is not known.
    screen: Option<Buffer>,
    /// Bytes that the terminal has not taken yet.
    waiting: Vec<u8>,
    is_there: bool,
    has_changed: bool,
    is_over: bool,
}

impl Loop {
    fn new(terminal: Terminal, session: Session, shared: Arc<Shared>, way: Way, past: Option<Past>) -> Self {
        Loop {
            terminal,
            session,
            shared,
            way,
            past,
            keys: Keys::default(),
            screen: None,
            waiting: Vec::new(),
            is_there: false,
            has_changed: true,
            is_over: false,
        }
    }

    fn run(mut self) {
        while !self.is_over && !self.shared.is_ended.load(Ordering::Acquire) && !signals::is_stopped() {
            if self.terminal.take_suspend() {
                self.away();
                self.terminal.suspend();
                // What was asked meanwhile has happened.
                self.terminal.take_suspend();
            }
            if self.terminal.take_continued() {
                self.away();
            }
            if !self.terminal.is_in_foreground() {
                // Nothing is shown over what the shell shows.
                self.away();
                self.terminal.wait(false, BACKGROUND_WAIT);
                continue;
            }
            self.there();
            if self.waiting.is_empty() {
                self.draw();
            }
            self.turn();
        }
        terminal::leave();
        self.hear();
    }

    fn away(&mut self) {
        terminal::leave();
        (self.is_there, self.screen) = (false, None);
        self.waiting.clear();
    }

    fn there(&mut self) {
        if !self.is_there {
            self.terminal.enter();
            self.waiting.extend_from_slice(&self.way.enter);
            (self.is_there, self.has_changed, self.screen) = (true, true, None);
        }
    }

    /// Puts the difference to what the terminal shows into `waiting`.
    fn draw(&mut self) {
        let now_ns = now_ns();
        if self.shared.has_news.swap(false, Ordering::AcqRel) {
            self.session.refresh(&self.shared.kept(), now_ns);
            self.has_changed = true;
        }
        let (width, height) = terminal::size().unwrap_or((80, 24));
        let is_same_size =
            self.screen.as_ref().is_some_and(|screen| (screen.area.width, screen.area.height) == (width, height));
        if !self.has_changed && is_same_size {
            return;
        }
        let next = self.session.draw(width, height);
        let bytes = match &self.screen {
            Some(before) if is_same_size && before.area == next.area => ansi::difference(before, &next),
            _ => ansi::whole(&next),
        };
        self.waiting.extend(bytes);
        self.screen = Some(next);
        self.has_changed = false;
    }

    /// Writes, reads, and waits for the next of either.
    fn turn(&mut self) {
        let timeout = if self.keys.has_begun() { KEY_WAIT } else { SLEEP };
        let ready = self.terminal.wait(!self.waiting.is_empty(), timeout);
        if ready.out && !self.waiting.is_empty() {
            match self.terminal.write(&self.waiting) {
                Ok(count) => _ = self.waiting.drain(..count),
                Err(_) => self.is_over = true,
            }
        }
        if ready.errors {
            self.hear();
        }
        let bytes = if ready.keys { self.terminal.read_keys() } else { Vec::new() };
        if !bytes.is_empty() {
            self.keys.take(&bytes).into_iter().for_each(|key| self.key(key));
        } else if self.keys.has_begun()
            && let Some(key) = self.keys.give_up()
        {
            self.key(key);
        }
        // Nobody sees a screen any more; what else the watch does goes on, unless SIGHUP ends it.
        self.is_over |= ready.is_gone && bytes.is_empty();
    }

    fn key(&mut self, key: Key) {
        let then = self.session.key(key, &self.shared.kept(), now_ns());
        match then {
            Then::Nothing => {}
            Then::Draw => self.has_changed = true,
            Then::DrawAll => (self.screen, self.has_changed) = (None, true),
            Then::Ask(want) => {
                // Without the lock: the history may be on a disk that does not answer.
                let answer = self.past.as_mut().map(|read| read(want));
                self.session.answer(want, answer, &self.shared.kept());
                self.has_changed = true;
            }
            Then::Quit => {
                self.is_over = true;
                signals::stop();
            }
        }
    }

    /// What was written to standard error is shown, and told again at the end.
    fn hear(&mut self) {
        let bytes = self.terminal.read_errors();
        if bytes.is_empty() {
            return;
        }
        {
            let mut kept = self.shared.kept();
            String::from_utf8_lossy(&bytes).lines().for_each(|line| kept.notice(line));
        }
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend_from_slice(&bytes);
        let excess = held.len().saturating_sub(HELD_MAX);
        held.drain(..excess);
        drop(held);
        self.shared.has_news.store(true, Ordering::Release);
    }
}

fn now_ns() -> i64 {
    i64::try_from(clock::realtime_ns()).unwrap_or(i64::MAX)
}
