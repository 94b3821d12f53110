//! The daemon beside a real clock: it starts the interface, watches it, and closes the ports of applications that died.

use super::Error;
use super::board::{LiveBoard, Start};
use super::own_clock::OwnClock;
use super::{directory, ports, process};
use crate::campaign::trial::detector_name;
use crate::host::daemon::{Daemon, DaemonConfig, Step};
use crate::host::layout::{APPLICATION_PORTS, control};
use crate::host::memory::HostMemory;
use crate::host::{driver, wake};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_sys::thread::set_timer_slack;

/// How often it looks whether the owners of ports are still there.
const OWNERS_NS: u64 = 20_000_000;
/// The longest sleep.
const SLEEP_NS_MAX: u64 = 20_000_000;
/// While it is in the middle of something it sleeps so long at most.
const BUSY_SLEEP_NS: u64 = 50_000;
/// Its own clock goes on by this at most beyond what it meant to sleep: what is over it did not run.
const STEP_NS_MAX: u64 = 100_000;
/// After a reload that failed it waits so long.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// So many steps are written down; what comes beyond is only counted.
const STEPS_MAX: u64 = 1_000_000;

/// The daemon of an interface, and what it starts.
pub struct HostConfig {
    /// Its memory.
    pub memory: Arc<HostMemory>,
    /// How it watches.
    pub daemon: DaemonConfig,
    /// Starts the interface's process; `None` where it is a thread of this one.
    pub start: Option<Start>,
    /// Another daemon died here before.
    pub takes_over: bool,
    /// The owner of the run; when it is gone, so is the daemon. `None` for a thread of it.
    pub owner: Option<u32>,
}

/// What a daemon was, in words that [`read_step`] reads: `<ns> <kind>`.
fn write_step(out: &mut impl Write, at_ns: u64, step: Step) -> std::io::Result<()> {
    let kind = match step {
        Step::Suspected(_) | Step::Dismissed | Step::Passed { .. } | Step::Told { .. } => return Ok(()),
        Step::Detected(by) => format!("detected {}", detector_name(by)),
        Step::Reloaded { epoch } => format!("reloaded {epoch}"),
        Step::Recovered => "recovered".to_owned(),
        Step::ReloadFailed => "failed".to_owned(),
        Step::GivenUp => "given-up".to_owned(),
    };
    // At once: a daemon may be killed at any time. One call, so that a line is whole or not there.
    out.write_all(format!("{at_ns} {kind}\n").as_bytes())
}

/// What a daemon wrote down of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenStep {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// `detected`, `reloaded`, `recovered` or `failed`.
    pub kind: String,
    /// By what, or to which epoch.
    pub detail: String,
}

/// Reads a line; `None` for what is none.
pub fn read_step(line: &str) -> Option<WrittenStep> {
    let mut words = line.splitn(3, ' ');
    let at_ns = words.next()?.parse().ok()?;
    let kind = words.next()?.to_owned();
    Some(WrittenStep { at_ns, kind, detail: words.next().unwrap_or_default().to_owned() })
}

/// Runs a daemon until the memory says that everybody is to end, or the owner of the run is gone. Writes down what it does.
///
/// # Errors
/// When its port is taken, or no interface can be started.
pub fn run(config: HostConfig, out: &mut impl Write) -> Result<(), Error> {
    let HostConfig { memory, daemon, start, takes_over, owner } = config;
    set_timer_slack(Duration::from_nanos(1));
    let node = memory.word(control::NODE).load(Ordering::Relaxed);
    let owner = owner.map(process::Process::open).transpose()?;
    let own = std::process::id();
    ports::note_namespace(&memory);
    let mut board = LiveBoard::new(Arc::clone(&memory), start);
    board.attach()?;
    let mut clock = OwnClock::new(monotonic_ns());
    let opened = if takes_over {
        Daemon::take_over(Arc::clone(&memory), own, daemon, clock.ns())
    } else {
        Daemon::new(Arc::clone(&memory), own, daemon)
    };
    let mut daemon = opened.map_err(|source| Error::Port { node, source })?;
    let (mut written, mut owners_ns, mut meant_ns) = (0, 0, 0);
    let ending = memory.word(control::ENDING);
    while ending.load(Ordering::Relaxed) == 0 {
        if clock.go_on(monotonic_ns(), meant_ns + STEP_NS_MAX) {
            board.was_stopped(clock.ns());
        }
        let now_ns = clock.ns();
        meant_ns = 0;
        if now_ns >= owners_ns {
            // Whatever else there is to do: without its owner no interface starts, and failures would go on for ever.
            owners_ns = now_ns + OWNERS_NS;
            if owner.as_ref().is_some_and(|owner| owner.wait(Duration::ZERO)) {
                directory::end(&memory);
                break;
            }
            close_orphans(&memory);
        }
        let step = daemon.step(now_ns, &mut board);
        if let Some(step) = step {
            // A full disk takes the record, not the messages.
            let is_written = written < STEPS_MAX && write_step(out, monotonic_ns(), step).is_ok();
            note_step(&memory, &mut written, is_written);
            if step == Step::ReloadFailed {
                std::thread::sleep(AFTER_FAILURE);
            }
            continue;
        }
        meant_ns = sleep(&memory, &daemon, now_ns, owners_ns);
    }
    Ok(())
}

/// Counts a step, and one that is not in the record for whoever reads that.
fn note_step(memory: &HostMemory, written: &mut u64, is_written: bool) {
    match is_written {
        true => *written += 1,
        false => drop(memory.word(control::STEPS_DROPPED).fetch_add(1, Ordering::Relaxed)),
    }
}

/// Sleeps until there is something to do; how long it meant to.
fn sleep(memory: &HostMemory, daemon: &Daemon, now_ns: u64, owners_ns: u64) -> u64 {
    let next_ns = daemon.next_ns().min(owners_ns).saturating_sub(now_ns);
    let longest = if daemon.is_busy() { BUSY_SLEEP_NS } else { SLEEP_NS_MAX };
    let time_ns = next_ns.min(longest);
    let sleeps = memory.word(control::DAEMON_SLEEPS);
    sleeps.store(1, Ordering::SeqCst);
    let is_wanted = memory.word(control::INTERRUPT).load(Ordering::Acquire) != 0 || daemon.is_wanted();
    if !is_wanted && time_ns > 0 {
        wake::sleep(sleeps, time_ns);
    }
    sleeps.store(0, Ordering::Relaxed);
    time_ns
}

/// Closes the ports of applications that died holding them.
fn close_orphans(memory: &HostMemory) {
    APPLICATION_PORTS.filter(|&port| ports::is_orphan(memory, port)).for_each(|port| driver::close(memory, port));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::port::{Port, PortConfig};

    #[test]
    fn the_port_of_a_process_that_died_while_it_opened_it_is_closed() {
        let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let own = std::process::id();
        // Neither has said when it was started: the one died before it could.
        for (port, owner) in [(1, dead), (2, own)] {
            Port::open(Arc::clone(&memory), port, owner, PortConfig::tolerant(1)).unwrap();
        }
        close_orphans(&memory);
        assert_eq!((driver::is_open(&memory, 1), driver::is_open(&memory, 2)), (false, true));
    }

    #[test]
    fn steps_that_cannot_be_written_down_are_counted() {
        let memory = HostMemory::private(0, 0).unwrap();
        let (mut written, mut full) = (0, &mut [0_u8; 4][..]);
        let mut whole = Vec::new();
        note_step(&memory, &mut written, write_step(&mut whole, 5, Step::Recovered).is_ok());
        note_step(&memory, &mut written, write_step(&mut full, 5, Step::Recovered).is_ok());
        assert_eq!((written, memory.word(control::STEPS_DROPPED).load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn a_daemon_without_its_owner_ends_and_tells_everybody_to_even_where_no_interface_starts() {
        let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
        let mut owner = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut started = 0;
        let shared = Arc::clone(&memory);
        let start: Start = Box::new(move || {
            started += 1;
            if started > 1 {
                return Err(Error::Failed("the owner is gone".to_owned()));
            }
            // An interface that loads its control program, and dies.
            shared
                .word(control::RELOADED)
                .store(shared.word(control::EPOCH).load(Ordering::Acquire), Ordering::Release);
            std::process::Command::new("sleep").arg("0.2").spawn().map_err(Error::system("start"))
        });
        let (daemon, id) = (super::super::part::daemon_config(crate::firmware::Build::Tolerant), owner.id());
        let config =
            HostConfig { memory: Arc::clone(&memory), daemon, start: Some(start), takes_over: false, owner: Some(id) };
        let (ended, is_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(run(config, &mut Vec::new()).is_ok()));
        while memory.word(control::RELOADED).load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(600));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(is_ended.recv_timeout(Duration::from_secs(30)), Ok(true));
        assert_eq!(memory.word(control::ENDING).load(Ordering::Relaxed), 1);
    }
}
