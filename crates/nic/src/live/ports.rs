//! Ports of a run for this process, and whose ports are those of processes that have ended.

use super::Error;
use super::process;
use crate::host::driver::OpenError;
use crate::host::layout::{APPLICATION_PORTS, PORT_PAGES, control, port_word as words};
use crate::host::memory::{HostMemory, port_word};
use crate::host::port::{Port, PortConfig};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a port is waited for that somebody has just closed, or whose process has just ended.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);
/// A message may have to wait for a processor, before the library sends it again.
const RESEND_NS: u64 = 200_000_000;
/// And so may its application: that it did not look for longer says nothing of the interface.
const PAUSE_NS_MAX: u64 = 50_000_000;

/// How a port is used beside a real clock.
pub fn by_the_clock(config: PortConfig) -> PortConfig {
    PortConfig { resend_ns: config.resend_ns.max(RESEND_NS), pause_ns_max: PAUSE_NS_MAX, ..config }
}

/// Opens a port for this process. One that was closed a moment ago, and one whose process has ended, is waited for: the daemon
/// frees it within milliseconds.
///
/// # Errors
/// [`Error::Failed`] for a port that is not a program's, for no page, and for a process that the daemon cannot watch;
/// [`Error::Port`] as [`Port::open`].
pub fn open(memory: &Arc<HostMemory>, number: usize, config: PortConfig) -> Result<Port, Error> {
    let node = memory.word(control::NODE).load(Ordering::Relaxed);
    if !APPLICATION_PORTS.contains(&number) {
        let why = "programs have the ports 1 to 6; ports 0 and 7 are the daemon's";
        return Err(Error::Failed(format!("port {number}: {why}")));
    }
    if config.pages == 0 {
        return Err(Error::Failed(format!("port {number}: it needs 1 to {PORT_PAGES} pages of memory, not 0")));
    }
    let daemons = namespace_of(memory);
    if daemons.is_some() && own_namespace() != daemons {
        let why = "this program runs in another PID namespace than the run, as in a container, so that the daemon cannot see \
                   whether it lives; start both in the same one";
        return Err(Error::Failed(format!("node {node}: {why}")));
    }
    let config = by_the_clock(config);
    let own = std::process::id();
    let begun = Instant::now();
    loop {
        match Port::open(Arc::clone(memory), number, own, config) {
            Ok(port) => {
                port.owned_since(process::started(own).unwrap_or(0));
                return Ok(port);
            }
            Err(source) if begun.elapsed() >= PATIENCE || !is_passing(memory, &source) => {
                return Err(Error::Port { node, source });
            }
            Err(_) => {
                memory.wake_daemon();
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Whether it may be over in a moment.
fn is_passing(memory: &HostMemory, error: &OpenError) -> bool {
    let mut ports = APPLICATION_PORTS;
    match error {
        OpenError::Closing(_) => true,
        OpenError::Taken { port, .. } => is_orphan(memory, *port),
        OpenError::NoMemory { .. } => {
            memory.word(control::CLOSING).load(Ordering::Acquire) != 0 || ports.any(|port| is_orphan(memory, port))
        }
        OpenError::NoPort(_) => false,
    }
}

/// Whether a port is open and its process has ended.
pub fn is_orphan(memory: &HostMemory, port: usize) -> bool {
    let word = |word| memory.word(port_word(port, word)).load(Ordering::Acquire);
    let owner = word(words::OWNER);
    let since = u64::from(word(words::OWNER_STARTED)) | u64::from(word(words::OWNER_STARTED + 4)) << 32;
    if owner == 0 {
        return false;
    }
    let found = process::started(owner);
    // One that died before it said when it was started holds its port as well.
    let is_gone = if since == 0 { found.is_none() } else { found != Some(since) };
    is_gone && word(words::OWNER) == owner
}

/// Writes down in which namespace the daemon looks for processes.
pub fn note_namespace(memory: &HostMemory) {
    let inode = own_namespace().unwrap_or(0);
    for (at, half) in [(0, inode as u32), (4, (inode >> 32) as u32)] {
        memory.word(control::PROCESSES + at).store(half, Ordering::Release);
    }
}

fn namespace_of(memory: &HostMemory) -> Option<u64> {
    let word = |at| u64::from(memory.word(control::PROCESSES + at).load(Ordering::Acquire));
    Some(word(0) | word(4) << 32).filter(|inode| *inode != 0)
}

/// The namespace in which this process has its number; `None` where the kernel does not say.
fn own_namespace() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::driver;

    fn memory() -> Arc<HostMemory> {
        Arc::new(HostMemory::private(0, 1 << 20).unwrap())
    }

    fn refusal(memory: &Arc<HostMemory>, number: usize, pages: u32) -> String {
        open(memory, number, PortConfig::tolerant(pages)).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn what_is_no_programs_port_is_refused_at_once() {
        let memory = memory();
        for number in [0, 7, 8] {
            let why = format!("port {number}: programs have the ports 1 to 6; ports 0 and 7 are the daemon's");
            assert_eq!(refusal(&memory, number, 1), why);
        }
        assert_eq!(refusal(&memory, 1, 0), "port 1: it needs 1 to 1024 pages of memory, not 0");
        note_namespace(&memory);
        assert_eq!(refusal(&memory, 1, 1), "");
        memory.word(control::PROCESSES).fetch_xor(1, Ordering::Relaxed);
        assert!(refusal(&memory, 2, 1).contains("another PID namespace"));
    }

    #[test]
    fn an_application_that_did_not_look_has_waited_for_nobody() {
        use crate::host::port::{Message, Service};
        use crate::host::streams::Peer;
        let memory = memory();
        let mut port = open(&memory, 1, PortConfig { waits_for_test: false, ..PortConfig::tolerant(1) }).unwrap();
        let service = Service::Normal { size_class: 4 };
        let to = Peer { node: 1, port: 1, priority: 0 };
        let mut now_ns = 7_000_000_000;
        port.poll(now_ns);
        port.send(Message { token: 1, address: 0, length: 16, to, service }).unwrap();
        let mut suspicions = |pause_ns: u64| {
            now_ns += pause_ns;
            assert_eq!(port.poll(now_ns), None);
            memory.word(port_word(1, words::SUSPICIONS)).load(Ordering::Relaxed)
        };
        assert_eq!(suspicions(400_000_000), 0, "the whole host may have been frozen");
        assert_eq!([0; 14].map(|_| suspicions(10_000_000)), [0; 14]);
        assert_eq!(suspicions(10_000_000), 1, "it looked, and nobody answered");
    }

    #[test]
    fn the_port_of_a_process_that_has_ended_is_waited_for_and_that_of_one_that_lives_is_not() {
        let memory = memory();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        driver::open(&memory, 1, dead, 1).unwrap();
        driver::open(&memory, 2, std::process::id(), 1).unwrap();
        let (shared, begun) = (Arc::clone(&memory), Instant::now());
        // As the daemon does.
        let daemon = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            driver::close(&shared, 1);
            std::thread::sleep(Duration::from_millis(50));
            driver::release(&shared, 1);
        });
        assert_eq!(refusal(&memory, 1, 1), "");
        assert!(begun.elapsed() >= Duration::from_millis(100));
        daemon.join().unwrap();
        assert!(refusal(&memory, 2, 1).contains("is open already"));
    }
}
