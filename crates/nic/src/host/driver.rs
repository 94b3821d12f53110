//! The driver's part: who has which port, and which pages of the host's memory the interface may use for it.

use super::layout::*;
use super::mailbox;
use super::memory::{HostMemory, block, port_word};
use std::sync::atomic::{AtomicU32, Ordering};

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    /// There is no such port.
    #[error("there is no port {0}: an interface has ports 0 to 7, of which 0 and 7 are the daemon's")]
    NoPort(usize),
    /// Somebody has it.
    #[error("port {port} is open already, by process {owner}; close it there, or take another port")]
    Taken {
        /// The port.
        port: usize,
        /// Who has it.
        owner: u32,
    },
    /// It was closed just now.
    #[error(
        "port {0} was closed just now, and the interface may still write to its memory; it is free within milliseconds"
    )]
    Closing(usize),
    /// The memory of the interface is used up.
    #[error("port {port} asks for {asked} pages of 4 KiB, and {free} of the interface's memory are free")]
    NoMemory {
        /// The port.
        port: usize,
        /// What it asked for.
        asked: u32,
        /// What there is.
        free: u32,
    },
}

/// A port as the driver has given it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Its number.
    pub number: usize,
    /// Tells its streams from those of whoever had it before.
    pub generation: u32,
    /// Page numbers on the bus, in the order of port addresses.
    pub pages: Vec<u32>,
    /// The number of the last event before its own. An interface that was not yet told of the new owner goes on posting events to the
    /// one before; their numbers are none of this port's.
    pub events_before: u32,
}

/// Gives a port to a process, with so many pages of memory.
///
/// # Errors
/// [`OpenError`]; nothing changes then.
pub fn open(memory: &HostMemory, port: usize, owner: u32, pages: u32) -> Result<Granted, OpenError> {
    if port >= PORTS {
        return Err(OpenError::NoPort(port));
    }
    if is_closing(memory, port) {
        return Err(OpenError::Closing(port));
    }
    let free = (0..memory.arena_pages()).filter(|&page| !is_taken(memory, page)).count() as u32;
    if pages > free.min(PORT_PAGES) {
        return Err(OpenError::NoMemory { port, asked: pages, free: free.min(PORT_PAGES) });
    }
    let owner_word = own(memory, port, owner)?;
    // It may have been closed since.
    if is_closing(memory, port) {
        owner_word.store(0, Ordering::Release);
        return Err(OpenError::Closing(port));
    }
    // From the end backwards, so that neighbours on the bus are none in the port: translation is never left out by luck.
    let mut granted = Vec::new();
    for page in (0..memory.arena_pages()).rev() {
        if granted.len() as u32 == pages {
            break;
        }
        if !take(memory, page, true) {
            granted.push(HOST_ARENAS / PAGE_BYTES + page);
        }
    }
    if (granted.len() as u32) < pages {
        // Another process has opened a port since they were counted.
        let free = granted.len() as u32;
        for page in granted {
            take(memory, page - HOST_ARENAS / PAGE_BYTES, false);
        }
        owner_word.store(0, Ordering::Release);
        return Err(OpenError::NoMemory { port, asked: pages, free });
    }
    Ok(begin(memory, port, granted))
}

/// Gives a port of the daemon's to the daemon in the place of one that died, with the same pages, whatever the interface still
/// writes there: it is the daemon's own.
///
/// # Errors
/// [`OpenError`]; nothing changes then.
pub fn inherit(memory: &HostMemory, port: usize, owner: u32, pages: u32) -> Result<Granted, OpenError> {
    close(memory, port);
    let list = (0..PORT_PAGES).map(|entry| memory.word(closed_page(port, entry)).load(Ordering::Relaxed));
    let granted: Vec<u32> = list.filter(|&page| page != 0).collect();
    if granted.len() as u32 != pages {
        release(memory, port);
        return open(memory, port, owner, pages);
    }
    own(memory, port, owner)?;
    let granted = begin(memory, port, granted);
    for entry in 0..PORT_PAGES {
        memory.word(closed_page(port, entry)).store(0, Ordering::Relaxed);
    }
    memory.word(control::CLOSING).fetch_and(!(1 << port), Ordering::AcqRel);
    Ok(granted)
}

fn own(memory: &HostMemory, port: usize, owner: u32) -> Result<&AtomicU32, OpenError> {
    let word = memory.word(port_word(port, port_word::OWNER));
    let owned = word.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Acquire);
    owned.map(|_| word).map_err(|owner| OpenError::Taken { port, owner })
}

fn begin(memory: &HostMemory, port: usize, granted: Vec<u32>) -> Granted {
    let table = block(port) + PORT_PAGE_TABLE;
    for entry in 0..PORT_PAGES {
        let page = granted.get(entry as usize).copied().unwrap_or(0);
        memory.word(table + entry * 4).store(page, Ordering::Relaxed);
    }
    let events_before = events_before(memory, port);
    for event in 0..PORT_EVENT_COUNT {
        let number = memory.word(block(port) + PORT_EVENTS + event * 64 + event::NUMBER as u32 * 4);
        number.store(events_before, Ordering::Relaxed);
    }
    let generation = new_generation(memory);
    for (word, value) in [
        (port_word::GENERATION, generation),
        (port_word::FAULT_EPOCH, 0),
        (port_word::SERVICES_USED, 0),
        (port_word::SERVICES_TESTED, 0),
        (port_word::SUSPICIONS, 0),
        (port_word::SUSPECTED, 0),
        (port_word::SUSPECTED + 4, 0),
        (port_word::REFUSING, 0),
        (port_word::REFUSING + 4, 0),
        (port_word::WITHDRAWN, 0),
        (port_word::TAKEN, events_before),
        (port_word::BUFFERS, 0),
        (port_word::RESTORED_EPOCH, memory.word(control::EPOCH).load(Ordering::Acquire)),
    ] {
        memory.word(port_word(port, word)).store(value, Ordering::Release);
    }
    Granted { number: port, generation, pages: granted, events_before }
}

/// The interface posts at most a ring full beyond what its library has taken, so no event of an earlier owner has a greater number.
fn events_before(memory: &HostMemory, port: usize) -> u32 {
    let word = |word| memory.word(port_word(port, word)).load(Ordering::Acquire);
    if word(port_word::GENERATION) == 0 { 0 } else { word(port_word::TAKEN).wrapping_add(PORT_EVENT_COUNT) }
}

/// Takes a port back, also from a process that died: the interface is told. The port and its pages are free for others when the
/// daemon has seen that the interface has let go of them ([`release`]).
pub fn close(memory: &HostMemory, port: usize) {
    let mut command = [0; 16];
    command[0] = command::CLOSE;
    if !mailbox::put(memory, port, &command) {
        // Whoever filled it has no use for what is in it.
        mailbox::empty(memory, port);
        mailbox::put(memory, port, &command);
    }
    let word = |word| memory.word(port_word(port, word));
    word(port_word::CLOSE_PUT).store(word(port_word::MAILBOX_PUT).load(Ordering::Acquire), Ordering::Relaxed);
    word(port_word::CLOSE_EPOCH).store(memory.word(control::EPOCH).load(Ordering::Acquire), Ordering::Relaxed);
    for entry in 0..PORT_PAGES {
        // Who dies in the middle of this is followed by one who does it again.
        let at = memory.word(block(port) + PORT_PAGE_TABLE + entry * 4);
        let page = at.load(Ordering::Relaxed);
        if page != 0 {
            memory.word(closed_page(port, entry)).store(page, Ordering::Relaxed);
            at.store(0, Ordering::Relaxed);
        }
    }
    word(port_word::SERVICES_USED).store(0, Ordering::Relaxed);
    word(port_word::OWNER_STARTED).store(0, Ordering::Relaxed);
    memory.word(port_word(port, port_word::OWNER_STARTED) + 4).store(0, Ordering::Relaxed);
    memory.word(control::CLOSING).fetch_or(1 << port, Ordering::AcqRel);
    word(port_word::OWNER).store(0, Ordering::Release);
    memory.wake_daemon();
}

/// Frees a closed port and its pages: the interface writes there no more. For the daemon, which knows that.
pub fn release(memory: &HostMemory, port: usize) {
    for entry in 0..PORT_PAGES {
        let page = memory.word(closed_page(port, entry)).swap(0, Ordering::Relaxed);
        if let Some(page) = page.checked_sub(HOST_ARENAS / PAGE_BYTES).filter(|&page| page < memory.arena_pages()) {
            take(memory, page, false);
        }
    }
    memory.word(control::CLOSING).fetch_and(!(1 << port), Ordering::AcqRel);
}

/// Whether a port was closed and the interface may still write to its memory.
pub fn is_closing(memory: &HostMemory, port: usize) -> bool {
    memory.word(control::CLOSING).load(Ordering::Acquire) >> port & 1 == 1
}

fn closed_page(port: usize, entry: u32) -> u32 {
    block(port) + PORT_CLOSED_PAGES + entry * 4
}

/// A generation that no port of this interface had before.
pub fn new_generation(memory: &HostMemory) -> u32 {
    memory.word(control::OPENINGS).fetch_add(1, Ordering::AcqRel).wrapping_add(1)
}

/// Whether a port is open.
pub fn is_open(memory: &HostMemory, port: usize) -> bool {
    memory.word(port_word(port, port_word::OWNER)).load(Ordering::Acquire) != 0
}

fn bit_of(memory: &HostMemory, page: u32) -> (&AtomicU32, u32) {
    (memory.word(control::PAGES_TAKEN + page / 32 * 4), 1 << (page % 32))
}

fn is_taken(memory: &HostMemory, page: u32) -> bool {
    let (word, bit) = bit_of(memory, page);
    word.load(Ordering::Relaxed) & bit != 0
}

/// Marks a page; whether it was marked before.
fn take(memory: &HostMemory, page: u32, is_taken: bool) -> bool {
    let (word, bit) = bit_of(memory, page);
    let before = if is_taken { word.fetch_or(bit, Ordering::AcqRel) } else { word.fetch_and(!bit, Ordering::AcqRel) };
    before & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_owner_and_its_own_pages() {
        let memory = HostMemory::private(0, 8 * PAGE_BYTES).unwrap();
        let one = open(&memory, 1, 77, 3).unwrap();
        assert_eq!(open(&memory, 1, 78, 1), Err(OpenError::Taken { port: 1, owner: 77 }));
        assert_eq!(open(&memory, 8, 78, 1), Err(OpenError::NoPort(8)));
        assert_eq!(open(&memory, 2, 78, 6), Err(OpenError::NoMemory { port: 2, asked: 6, free: 5 }));
        let two = open(&memory, 2, 78, 5).unwrap();
        assert!(one.pages.iter().all(|page| !two.pages.contains(page)));
        assert_ne!(one.generation, two.generation);
        close(&memory, 1);
        assert_eq!(open(&memory, 1, 79, 3), Err(OpenError::Closing(1)), "the interface may write there yet");
        assert_eq!(open(&memory, 3, 79, 1), Err(OpenError::NoMemory { port: 3, asked: 1, free: 0 }));
        release(&memory, 1);
        let again = open(&memory, 1, 79, 3).unwrap();
        assert_eq!(again.pages, one.pages);
        assert_ne!(again.generation, one.generation);
    }

    #[test]
    fn a_daemon_inherits_the_pages_of_the_one_that_died_wherever_it_did() {
        let memory = HostMemory::private(0, 8 * PAGE_BYTES).unwrap();
        let first = open(&memory, 0, 77, 5).unwrap();
        open(&memory, 1, 78, 3).unwrap();
        let second = inherit(&memory, 0, 79, 5).unwrap();
        assert_eq!((&second.pages, is_closing(&memory, 0)), (&first.pages, false));
        assert_ne!(second.generation, first.generation);
        // One that died while it closed, and so did the next.
        close(&memory, 0);
        close(&memory, 0);
        assert_eq!(inherit(&memory, 0, 80, 5).unwrap().pages, first.pages);
        close(&memory, 1);
        assert_eq!(inherit(&memory, 0, 81, 4).unwrap().pages.len(), 4, "also where it takes another number");
    }

    #[test]
    fn of_two_processes_that_open_ports_at_once_none_gets_fewer_pages_than_it_asked_for() {
        let memory = HostMemory::private(0, 1000 * PAGE_BYTES).unwrap();
        let arrived = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for port in 1..=2 {
                let (memory, arrived) = (&memory, &arrived);
                scope.spawn(move || {
                    let mut short = 0;
                    for round in 1..=3000 {
                        // Both at the same moment, for which a lock wakes too late.
                        arrived.fetch_add(1, Ordering::SeqCst);
                        while arrived.load(Ordering::SeqCst) < 2 * round {
                            std::thread::yield_now();
                        }
                        match open(memory, port, 7, 600) {
                            Ok(granted) => {
                                short += usize::from(granted.pages.len() != 600);
                                close(memory, port);
                                release(memory, port);
                            }
                            Err(error) => assert!(matches!(error, OpenError::NoMemory { asked: 600, .. }), "{error}"),
                        }
                    }
                    assert_eq!(short, 0);
                });
            }
        });
        assert!(open(&memory, 1, 7, 1000).is_ok(), "all pages are back");
    }
}
