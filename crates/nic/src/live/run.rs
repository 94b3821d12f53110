//! A run: two interfaces with their daemons and applications, as processes that this one starts, watches and ends.

use super::Error;
use super::application::{self, PORT};
use super::directory::{self, RunDirectory};
use super::host::{self, WrittenStep};
use super::namespace::{self, Namespaces};
use super::part::{Program, Words};
use super::process::{Process, State};
use super::wire::Wire;
use crate::check::Verdict;
use crate::firmware::Build;
use crate::host::layout::{PAGE_BYTES, PORT_PAGES, PORTS, control, port_word as words_of_port};
use crate::host::memory::{HostMemory, port_word};
use crate::host::selftest::DAEMON_BYTES;
use crate::world::traffic::{WINDOW_MAX, slot_bytes};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;

/// What the packets of a run go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// UDP on the loopback.
    Udp,
    /// A pair of veth devices between two network namespaces.
    Veth,
}

/// An interface that hangs when so many messages were delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HangAt {
    /// Messages delivered to node 1.
    pub count: u32,
    /// Whose interface.
    pub node: u32,
}

/// What is run.
pub struct RunConfig<'a> {
    /// Messages from node 0 to node 1. With 0 there are interfaces and daemons alone, for programs that open ports of their own,
    /// until `stop`.
    pub message_count: u32,
    /// Their length, bytes, at least 12.
    pub message_bytes: u32,
    /// How many are under way at once.
    pub window: u32,
    /// Interfaces that hang on purpose, in rising order.
    pub hang_at: Vec<HangAt>,
    /// Of the content.
    pub seed: u64,
    /// What packets go over.
    pub link: LinkKind,
    /// The control program.
    pub build: Build,
    /// How long each part looks for something to do before it sleeps.
    pub spin_ns: u64,
    /// The run directory, which is new and is removed at the end.
    pub directory: RunDirectory,
    /// What the parts run in.
    pub program: Program,
    /// The run ends when nothing was delivered for so long.
    pub patience: Duration,
    /// And when this is set.
    pub stop: &'a AtomicBool,
    /// Is told now and then how many messages were delivered, and how many interfaces were hung.
    pub progress: &'a dyn Fn(u32, u64),
}

impl RunConfig<'_> {
    /// Whether there are no applications.
    fn only_serves(&self) -> bool {
        self.message_count == 0
    }
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// The checker's word on the histories.
    pub verdict: Verdict,
    /// From each failure that was made to its detection.
    pub detection_ns: Vec<u64>,
    /// From each detection to the moment when all ports were back.
    pub recovery_ns: Vec<u64>,
    /// Failures that were made.
    pub failure_count: u64,
    /// Recoveries, those included that nobody asked for.
    pub recovery_count: u64,
    /// Who detected how many failures.
    pub detected_by: BTreeMap<String, u64>,
    /// From the first message to the last.
    pub elapsed_ns: u64,
    /// Frames that the interfaces dropped because they cannot be.
    pub dropped_count: u64,
    /// What the daemons did and could not write down: recoveries and detections may be missing.
    pub unwritten_count: u64,
    /// Daemons that died and were started anew.
    pub daemon_count: u64,
    /// Whether all was delivered and confirmed.
    pub is_done: bool,
}

/// How often the run looks.
const LOOK: Duration = Duration::from_millis(1);
/// How often it looks where nobody waits for its end. Failures that somebody makes faster than this count as one.
const LOOK_WHILE_SERVING: Duration = Duration::from_millis(5);
/// After the last message everybody may still find one more.
const AFTERWARDS: Duration = Duration::from_millis(50);
/// How long a part has to end by itself.
const END: Duration = Duration::from_secs(5);
/// Daemons that die more often than this end the run.
const DAEMONS_MAX: u64 = 10_000;

struct Part {
    words: Words,
    child: Child,
}

/// A run that goes on.
struct Run<'a> {
    config: &'a RunConfig<'a>,
    memories: [Arc<HostMemory>; 2],
    sockets: Option<[UdpSocket; 2]>,
    namespaces: Option<Namespaces>,
    daemons: Vec<Part>,
    applications: Vec<Part>,
    /// When interfaces were hung, and which.
    failures: Vec<(u64, usize)>,
    daemon_count: u64,
}

/// Runs it to its end and removes everything that it made.
///
/// # Errors
/// When the parts cannot be started, or one of the applications fails.
pub fn run(config: &RunConfig<'_>) -> Result<RunResult, Error> {
    let result = run_in(config);
    config.directory.remove();
    result
}

fn run_in(config: &RunConfig<'_>) -> Result<RunResult, Error> {
    let (sockets, namespaces) = match config.link {
        LinkKind::Udp => (Some(Wire::udp_pair()?), None),
        LinkKind::Veth => (None, Some(Namespaces::make()?)),
    };
    let mut run = Run::start(config, sockets, namespaces)?;
    let watched = run.watch();
    let ended = run.end();
    let (elapsed_ns, is_done) = watched?;
    ended?;
    run.result(elapsed_ns, is_done)
}

impl<'a> Run<'a> {
    fn start(
        config: &'a RunConfig<'a>,
        sockets: Option<[UdpSocket; 2]>,
        namespaces: Option<Namespaces>,
    ) -> Result<Self, Error> {
        let pages_bytes = match config.only_serves() {
            // As much as all ports together may register; what nobody touches takes no memory.
            true => PORTS as u32 * PORT_PAGES * PAGE_BYTES,
            // Both slots of each message.
            false => (2 * WINDOW_MAX * slot_bytes(config.message_bytes)).next_multiple_of(PAGE_BYTES),
        };
        let arena_bytes = pages_bytes + DAEMON_BYTES;
        let directory = &config.directory;
        directory.create_memory(0, arena_bytes)?;
        directory.create_memory(1, arena_bytes)?;
        let memories = [directory.open_memory(0)?, directory.open_memory(1)?];
        let (daemons, applications, failures) = (Vec::new(), Vec::new(), Vec::new());
        let mut run = Run { config, memories, sockets, namespaces, daemons, applications, failures, daemon_count: 0 };
        let begun = run.begin();
        if begun.is_err() {
            let _ = run.end();
        }
        begun.map(|()| run)
    }

    fn begin(&mut self) -> Result<(), Error> {
        for node in 0..2 {
            let words = self.daemon_words(node);
            let child = self.spawn(node, &words)?;
            self.daemons.push(Part { words: words.with("takes_over", 1), child });
        }
        // The receiver first: a message to a port that is not open is refused.
        let nodes: &[usize] = if self.config.only_serves() { &[] } else { &[1, 0] };
        for &node in nodes {
            let words = self.application_words(node);
            let child = self.spawn(node, &words)?;
            self.applications.push(Part { words, child });
            let until_ns = monotonic_ns() + END.as_nanos() as u64 * 4;
            while !application::is_ready(&self.memories[node]) {
                self.renew_killed_daemons()?;
                let ended = self.applications.last_mut().is_some_and(|part| !matches!(part.child.try_wait(), Ok(None)));
                if ended || monotonic_ns() > until_ns {
                    return Err(Error::Failed(format!("the application of node {node} did not open its port")));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    fn words(&self, kind: &str, node: usize) -> Words {
        Words::new(kind)
            .with("run", self.config.directory.descriptor())
            .with("node", node)
            .with("owner", std::process::id())
            .with("build", self.config.build.name())
            .with("spin", self.config.spin_ns)
    }

    fn daemon_words(&self, node: usize) -> Words {
        let link = match (&self.sockets, &self.namespaces) {
            (Some(sockets), _) => format!("udp:{}", sockets[node].as_raw_fd()),
            (_, Some(namespaces)) => {
                let address = namespaces.addresses[1 - node].map(|byte| format!("{byte:02x}")).concat();
                format!("packet:{}:{address}", namespace::DEVICE)
            }
            _ => String::new(),
        };
        self.words("daemon", node).with("link", link)
    }

    fn application_words(&self, node: usize) -> Words {
        let config = self.config;
        let hangs = config.hang_at.iter().filter(|_| node == 1).map(|hang| format!("{}:{}", hang.count, hang.node));
        self.words("application", node)
            .with("peer", 1 - node)
            .with("to_send", if node == 0 { config.message_count } else { 0 })
            .with("bytes", config.message_bytes)
            .with("window", config.window)
            .with("seed", config.seed)
            .with("hang_at", hangs.collect::<Vec<_>>().join(","))
    }

    fn spawn(&self, node: usize, words: &Words) -> Result<Child, Error> {
        let socket = self.sockets.as_ref().map(|sockets| sockets[node].as_raw_fd());
        let directory = self.config.directory.descriptor();
        let namespace = self.namespaces.as_ref().map(|namespaces| namespaces.descriptor(node));
        words.start(&self.config.program, |command: &mut Command| {
            let before = move || {
                if let Some(descriptor) = namespace {
                    namespace::enter(descriptor)?;
                }
                for descriptor in socket.into_iter().chain([directory]) {
                    // SAFETY: takes three numbers; the child keeps both open for its interface.
                    unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
                }
                // Ctrl-C is for the run, which ends the parts in order.
                // SAFETY: takes two numbers.
                unsafe { libc::setpgid(0, 0) };
                Ok(())
            };
            // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
            unsafe { command.pre_exec(before) };
        })
    }

    /// Waits until everything is delivered and confirmed; how long it took, and whether it is.
    fn watch(&mut self) -> Result<(u64, bool), Error> {
        if self.config.only_serves() {
            return self.serve();
        }
        let begun_ns = monotonic_ns();
        let (mut progress, mut progress_ns) = (0, begun_ns);
        loop {
            self.note_failures();
            self.renew_daemons()?;
            let of = |node: usize, word| self.memories[node].word(port_word(PORT, word)).load(Ordering::Acquire);
            let delivered = of(1, words_of_port::DELIVERED);
            let confirmed = of(0, words_of_port::CONFIRMED);
            let now_ns = monotonic_ns();
            if delivered.wrapping_add(confirmed) != progress {
                (progress, progress_ns) = (delivered.wrapping_add(confirmed), now_ns);
            }
            (self.config.progress)(delivered, self.failures.len() as u64);
            let count = self.config.message_count;
            if delivered >= count && confirmed >= count {
                self.settle();
                return Ok((now_ns - begun_ns, true));
            }
            for part in &mut self.applications {
                if let Ok(Some(status)) = part.child.try_wait() {
                    return Err(Error::Failed(format!("an application of the run ended early: {status}")));
                }
            }
            let is_stuck = u128::from(now_ns - progress_ns) > self.config.patience.as_nanos();
            if is_stuck || self.config.stop.load(Ordering::Relaxed) {
                return Ok((now_ns - begun_ns, false));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Until it is told to stop; how long that took.
    fn serve(&mut self) -> Result<(u64, bool), Error> {
        let begun_ns = monotonic_ns();
        while !self.config.stop.load(Ordering::Relaxed) {
            self.note_failures();
            self.renew_daemons()?;
            std::thread::sleep(LOOK_WHILE_SERVING);
        }
        self.note_failures();
        Ok((monotonic_ns() - begun_ns, true))
    }

    /// A while after the last message, in which duplicates would come, and until the last recovery is over.
    fn settle(&mut self) {
        let until_ns = monotonic_ns() + AFTERWARDS.as_nanos() as u64;
        let most_ns = until_ns + END.as_nanos() as u64;
        loop {
            self.note_failures();
            let now_ns = monotonic_ns();
            let is_over = self.failures.len() >= self.config.hang_at.len() && self.are_restored();
            if now_ns > most_ns || (now_ns > until_ns && is_over) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether every failure that was made has been recovered from.
    fn are_restored(&self) -> bool {
        (0..2).all(|node| {
            let Some(failed) = self.failures.iter().rev().find(|(_, of)| *of == node) else { return true };
            self.steps(node).iter().rev().any(|step| step.kind == "recovered" && step.at_ns > failed.0)
        })
    }

    fn note_failures(&mut self) {
        for node in 0..2 {
            let word = |at| u64::from(self.memories[node].word(control::INJECTED_NS + at).load(Ordering::Acquire));
            let at_ns = word(0) | word(4) << 32;
            let is_done = self.memories[node].word(control::INJECT).load(Ordering::Acquire) == 0;
            if at_ns != 0 && is_done && !self.failures.contains(&(at_ns, node)) {
                self.failures.push((at_ns, node));
            }
        }
    }

    /// As [`Run::renew_daemons`], before anything has begun: one that ended by itself has said why, and its run does not begin.
    fn renew_killed_daemons(&mut self) -> Result<(), Error> {
        let is_killed =
            |part: &mut Part| part.child.try_wait().is_ok_and(|end| end.and_then(|end| end.signal()).is_some());
        if self.daemons.iter_mut().any(is_killed) { self.renew_daemons() } else { Ok(()) }
    }

    /// Starts a daemon in the place of one that died.
    fn renew_daemons(&mut self) -> Result<(), Error> {
        for node in 0..self.daemons.len() {
            if let Ok(None) = self.daemons[node].child.try_wait() {
                continue;
            }
            self.daemon_count += 1;
            if self.daemon_count > DAEMONS_MAX {
                return Err(Error::Failed(format!("the daemon of node {node} does not stay alive")));
            }
            self.daemons[node].child = self.spawn(node, &self.daemons[node].words)?;
        }
        Ok(())
    }

    /// Tells everybody to end, and ends who does not.
    fn end(&mut self) -> Result<(), Error> {
        self.memories.iter().for_each(|memory| directory::end(memory));
        let until_ns = monotonic_ns() + END.as_nanos() as u64;
        let mut failed = Ok(());
        let applications = self.applications.iter_mut().map(|part| (part, true));
        for (part, is_application) in applications.chain(self.daemons.iter_mut().map(|part| (part, false))) {
            loop {
                match part.child.try_wait() {
                    // A daemon that is killed as late as this is renewed no more, and nobody needs it.
                    Ok(Some(status)) if !is_application && status.code().is_none() => break,
                    Ok(Some(status)) if !status.success() && failed.is_ok() => {
                        failed = Err(Error::Failed(format!("a part of the run failed: {status}")));
                        break;
                    }
                    Ok(None) if monotonic_ns() < until_ns => std::thread::sleep(LOOK),
                    Ok(None) => {
                        let _ = part.child.kill();
                        let _ = part.child.wait();
                        break;
                    }
                    _ => break,
                }
            }
        }
        self.memories.iter().for_each(|memory| end_interface(memory, until_ns));
        failed
    }

    fn steps(&self, node: usize) -> Vec<WrittenStep> {
        let Ok(file) = File::open(self.config.directory.file(&format!("steps.{node}"))) else { return Vec::new() };
        BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| host::read_step(&line)).collect()
    }

    fn result(&self, elapsed_ns: u64, is_done: bool) -> Result<RunResult, Error> {
        let history = |node: u32| {
            let name = format!("history.{node}");
            let opened = File::open(self.config.directory.file(&name)).map(BufReader::new);
            opened.map_err(Error::system(format!("read {}", self.config.directory.path().join(name).display())))
        };
        let verdict = match self.config.only_serves() {
            true => Verdict::default(),
            false => application::judge(0, history(0)?, history(1)?)
                .map_err(Error::system("read the histories of the applications"))?,
        };
        let (mut detection_ns, mut recovery_ns, mut recovery_count) = (Vec::new(), Vec::new(), 0);
        let mut detected_by: BTreeMap<String, u64> = BTreeMap::new();
        for node in 0..2 {
            let steps = self.steps(node);
            for failed_ns in self.failures.iter().filter(|(_, of)| *of == node).map(|(at_ns, _)| *at_ns) {
                let detected = steps.iter().find(|step| step.kind == "detected" && step.at_ns >= failed_ns);
                detection_ns.extend(detected.map(|step| step.at_ns - failed_ns));
            }
            let mut detected = None;
            for step in &steps {
                match step.kind.as_str() {
                    "detected" => {
                        detected = Some(step.at_ns);
                        *detected_by.entry(step.detail.clone()).or_default() += 1;
                    }
                    "recovered" => {
                        recovery_count += 1;
                        recovery_ns.extend(detected.take().map(|detected_ns| step.at_ns - detected_ns));
                    }
                    _ => {}
                }
            }
        }
        let sum_of = |word: u32| {
            self.memories.iter().map(|memory| u64::from(memory.word(word).load(Ordering::Relaxed))).sum::<u64>()
        };
        Ok(RunResult {
            verdict,
            detection_ns,
            recovery_ns,
            failure_count: self.failures.len() as u64,
            recovery_count,
            detected_by,
            elapsed_ns,
            dropped_count: sum_of(control::DROPPED),
            unwritten_count: sum_of(control::STEPS_DROPPED),
            daemon_count: self.daemon_count,
            is_done,
        })
    }
}

/// Ends an interface that its daemon left behind; one that is stopped does not hear that it is to end.
fn end_interface(memory: &HostMemory, until_ns: u64) {
    let word = |at: u32| u64::from(memory.word(control::INTERFACE + at).load(Ordering::Acquire));
    let Some(process) = Process::open_same(word(0) as u32, word(4) | word(8) << 32) else { return };
    let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
    if process.state() == State::Stopped || !process.wait(left) {
        let _ = process.kill();
    }
}
