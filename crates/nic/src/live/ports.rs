//! Ports of a run for this process, and whose ports are those of processes that have ended.

use super::Error;
use super::own_clock::OwnClock;
use super::process;
use crate::host::driver::OpenError;
use crate::host::layout::{APPLICATION_PORTS, PORT_PAGES, control, port_word as words};
use crate::host::memory::{HostMemory, port_word};
use crate::host::port::{Port, PortConfig, Unknown};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;

/// How long a port is waited for that somebody has just closed, or whose process has just ended.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);
/// Limit for the interface to take the commands that open a port, in running time of this process: it may have to be started or
/// reloaded first.
const TAKEN_NS_MAX: u64 = 10_000_000_000;
/// Poll interval for these commands.
const TAKEN_PAUSE: Duration = Duration::from_micros(100);
/// A message may have to wait for a processor, before the library sends it again.
const RESEND_NS: u64 = 200_000_000;
/// And so may its application: that it did not look for longer says nothing of the interface.
const PAUSE_NS_MAX: u64 = 50_000_000;

/// How a port is used beside a real clock.
pub fn by_the_clock(config: PortConfig) -> PortConfig {
    PortConfig { resend_ns: config.resend_ns.max(RESEND_NS), pause_ns_max: PAUSE_NS_MAX, ..config }
}

/// Opens a port for this process. When it returns, the interface receives for the port. Waits for a port that was closed a moment
/// ago, or whose process has ended: the daemon frees it within milliseconds.
///
/// # Errors
/// [`Error::Failed`] for a port that is not a program's, for no page, for a process that the daemon cannot watch, and when the
/// interface does not run; [`Error::Port`] as [`Port::open`].
pub fn open(memory: &Arc<HostMemory>, number: usize, config: PortConfig) -> Result<Port, Error> {
    open_within(memory, number, config, TAKEN_NS_MAX)
}

fn open_within(memory: &Arc<HostMemory>, number: usize, config: PortConfig, taken_ns_max: u64) -> Result<Port, Error> {
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
    let silent = || {
        let seconds = taken_ns_max as f64 / 1e9;
        let why =
            format!("the interface did not open it within {seconds} s; check that the daemon of node {node} runs");
        Error::Failed(format!("node {node}, port {number}: {why}"))
    };
    let mut epoch = memory.word(control::EPOCH).load(Ordering::Acquire);
    let is_running = wait(memory, taken_ns_max, || running(memory).inspect(|running| epoch = *running).is_some());
    if !is_running {
        return Err(silent());
    }
    let mut port = own(memory, node, number, by_the_clock(config))?;
    if !wait(memory, taken_ns_max, || is_taken(memory, &mut port, &mut epoch)) {
        port.close();
        return Err(silent());
    }
    Ok(port)
}

/// Takes the port from the driver.
fn own(memory: &Arc<HostMemory>, node: u32, number: usize, config: PortConfig) -> Result<Port, Error> {
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

/// Whether the interface has taken the commands that open the port. Until then it answers a message to the port as one to a
/// closed port, and the send fails for good.
fn is_taken(memory: &HostMemory, port: &mut Port, told: &mut u32) -> bool {
    let Some(epoch) = running(memory) else { return false };
    if epoch != *told {
        // Reloaded meanwhile. The daemon empties all mailboxes then, and it cannot tell that this port's commands were among them
        // when it counted the reload before the port was opened.
        port.unknown(Unknown::FaultDetected { epoch });
        *told = epoch;
    }
    port.is_heard() && running(memory) == Some(*told)
}

/// The epoch of the interface, if its control program runs.
fn running(memory: &HostMemory) -> Option<u32> {
    let epoch = memory.word(control::EPOCH).load(Ordering::Acquire);
    (memory.word(control::RELOADED).load(Ordering::Acquire) == epoch).then_some(epoch)
}

/// Waits for a condition; `false` when the time is over. Does not wait for an interface that was given up or a run that has
/// ended: the port reports both.
fn wait(memory: &HostMemory, time_ns: u64, mut is_met: impl FnMut() -> bool) -> bool {
    let mut clock = OwnClock::new(monotonic_ns());
    let until_ns = clock.ns() + time_ns;
    let is_over =
        || [control::GIVEN_UP, control::ENDING].iter().any(|&at| memory.word(at).load(Ordering::Acquire) != 0);
    while !is_met() && !is_over() {
        if clock.ns() >= until_ns {
            return false;
        }
        std::thread::sleep(TAKEN_PAUSE);
        clock.go_on(monotonic_ns(), 10 * TAKEN_PAUSE.as_nanos() as u64);
    }
    true
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
    use crate::firmware::{Build, Firmware};
    use crate::host::driver;
    use crate::host::layout::PAGE_BYTES;
    use crate::host::mailbox;
    use crate::host::port::{Event, Message, Service};
    use crate::host::streams::Peer;
    use crate::live::interface::{Interface, InterfaceConfig};
    use crate::live::wire::Wire;
    use std::os::unix::net::UnixDatagram;
    use std::thread::Scope;

    fn memory(node: u32) -> Arc<HostMemory> {
        Arc::new(HostMemory::private(node, 1 << 20).unwrap())
    }

    /// Interfaces that do not run yet, with a link between them.
    fn interfaces(build: Build) -> ([Arc<HostMemory>; 2], [Interface; 2]) {
        let memories = [memory(0), memory(1)];
        let firmware = Arc::new(Firmware::built(build));
        let [first, second] = Wire::memory([Box::new(|| ()), Box::new(|| ())]);
        let interface = |memory: &Arc<HostMemory>, wire| {
            let doorbell = UnixDatagram::unbound().unwrap();
            doorbell.set_nonblocking(true).unwrap();
            let (memory, firmware) = (Arc::clone(memory), Arc::clone(&firmware));
            Interface::new(InterfaceConfig { memory, firmware, wire, doorbell, spin_ns: 0, until: None })
        };
        let interfaces = [interface(&memories[0], first), interface(&memories[1], second)];
        (memories, interfaces)
    }

    /// Ends an interface with its scope, also where the test fails.
    struct Ending<'a>(&'a HostMemory);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.word(control::ENDING).store(1, Ordering::Release);
        }
    }

    fn run<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        interface: &'scope mut Interface,
        memory: &'a HostMemory,
    ) -> Ending<'a> {
        scope.spawn(|| interface.run());
        Ending(memory)
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(PAUSE);
        }
    }

    /// The daemon opened its port before the application did, so that the interface refuses messages to that. Its processor is
    /// taken away until the other one has sent such a message, or could have.
    #[test]
    fn a_message_to_a_port_that_was_just_opened_is_not_refused() {
        let ([ours, theirs], [mut our_interface, mut their_interface]) = interfaces(Build::Plain);
        let config = PortConfig::plain(2);
        let _daemons =
            [&ours, &theirs].map(|memory| Port::open(Arc::clone(memory), 0, 1, PortConfig::plain(0)).unwrap());
        std::thread::scope(|scope| {
            let _ending = run(scope, &mut our_interface, &ours);
            let mut here = open(&ours, 1, config).unwrap();
            std::thread::scope(|scope| {
                let _ending = run(scope, &mut their_interface, &theirs);
                until(|| mailbox::waiting(&theirs, 0) == 0);
            });
            theirs.word(control::ENDING).store(0, Ordering::Release);
            let (shared, interface) = (Arc::clone(&theirs), &mut their_interface);
            scope.spawn(move || {
                let put = shared.word(port_word(1, words::MAILBOX_PUT));
                until(|| put.load(Ordering::Acquire) >= 2);
                std::thread::sleep(Duration::from_millis(100));
                interface.run();
            });
            let _ending = Ending(&theirs);
            let mut there = open(&theirs, 1, config).unwrap();
            let waiting = mailbox::waiting(&theirs, 1);
            there.provide(1, PAGE_BYTES, 4, 0).unwrap();
            let to = Peer { node: 1, port: 1, priority: 0 };
            here.send(Message { token: 1, address: 0, length: 16, to, service: Service::Normal { size_class: 4 } })
                .unwrap();
            let mut outcome = None;
            until(|| {
                outcome = here.poll(monotonic_ns());
                outcome.is_some()
            });
            assert_eq!(outcome, Some(Event::Sent { token: 1, outcome: Ok(()) }));
            assert_eq!(waiting, 0, "commands that the interface has not taken");
            assert_eq!((here.counts().recovery_count, there.counts().recovery_count), (0, 0));
        });
    }

    /// The daemon counts the reload before the port is opened, and empties the mailboxes after that: it does not know that the
    /// port has to be restored.
    #[test]
    fn a_port_that_is_opened_while_its_interface_is_reloaded_is_opened_again() {
        let ([memory, _], [mut interface, _]) = interfaces(Build::Tolerant);
        memory.word(control::RELOADED).store(1, Ordering::Release);
        let (shared, interface) = (Arc::clone(&memory), &mut interface);
        std::thread::scope(|scope| {
            let _ending = Ending(&memory);
            scope.spawn(move || {
                let word = |word| shared.word(port_word(1, word));
                until(|| word(words::MAILBOX_PUT).load(Ordering::Acquire) >= 2);
                shared.word(control::EPOCH).store(2, Ordering::Release);
                word(words::RESTORED_EPOCH).store(2, Ordering::Release);
                mailbox::empty(&shared, 1);
                interface.run();
            });
            let mut port = open(&memory, 1, PortConfig::tolerant(1)).unwrap();
            assert_eq!(mailbox::waiting(&memory, 1), 0);
            // Only a port that the interface knows has an alarm.
            port.alarm(5, 1);
            until(|| port.poll(monotonic_ns()) == Some(Event::Alarm { token: 5 }));
        });
    }

    #[test]
    fn a_port_of_an_interface_that_does_not_run_is_not_open() {
        let memory = memory(0);
        let refusal = || open_within(&memory, 2, PortConfig::plain(1), 2_000_000).err().unwrap().to_string();
        let why = "node 0, port 2: the interface did not open it within 0.002 s; check that the daemon of node 0 runs";
        assert_eq!(refusal(), why);
        memory.word(control::RELOADED).store(1, Ordering::Release);
        assert_eq!(refusal(), why, "one that takes no commands");
        assert!(!driver::is_open(&memory, 2));
        driver::release(&memory, 2);
        memory.word(control::GIVEN_UP).store(1, Ordering::Release);
        assert!(open(&memory, 2, PortConfig::plain(1)).is_ok(), "its events say that it was given up");
    }

    fn refusal(memory: &Arc<HostMemory>, number: usize, pages: u32) -> String {
        open(memory, number, PortConfig::tolerant(pages)).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn what_is_no_programs_port_is_refused_at_once() {
        let ([memory, _], [mut interface, _]) = interfaces(Build::Tolerant);
        std::thread::scope(|scope| {
            let _ending = run(scope, &mut interface, &memory);
            refuses_other_ports(&memory);
        });
    }

    fn refuses_other_ports(memory: &Arc<HostMemory>) {
        for number in [0, 7, 8] {
            let why = format!("port {number}: programs have the ports 1 to 6; ports 0 and 7 are the daemon's");
            assert_eq!(refusal(memory, number, 1), why);
        }
        assert_eq!(refusal(memory, 1, 0), "port 1: it needs 1 to 1024 pages of memory, not 0");
        note_namespace(memory);
        assert_eq!(refusal(memory, 1, 1), "");
        memory.word(control::PROCESSES).fetch_xor(1, Ordering::Relaxed);
        assert!(refusal(memory, 2, 1).contains("another PID namespace"));
    }

    #[test]
    fn an_application_that_did_not_look_has_waited_for_nobody() {
        let memory = memory(0);
        let config = by_the_clock(PortConfig { waits_for_test: false, ..PortConfig::tolerant(1) });
        let mut port = Port::open(Arc::clone(&memory), 1, 1, config).unwrap();
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
        let ([memory, _], [mut interface, _]) = interfaces(Build::Tolerant);
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
        std::thread::scope(|scope| {
            let _ending = run(scope, &mut interface, &memory);
            assert_eq!(refusal(&memory, 1, 1), "");
            assert!(begun.elapsed() >= Duration::from_millis(100));
            assert!(refusal(&memory, 2, 1).contains("is open already"));
        });
        daemon.join().unwrap();
    }
}
