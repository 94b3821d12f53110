//! The fault-tolerance daemon: it hears the watchdog and the self-test, confirms, fences, reloads, and tells the ports.
//!
//! It has no clock and no I/O of its own: [`Daemon::step`] is told the time and does one step. Beside a real clock it is told
//! for how long it ran, so that a host that was frozen is not taken for an interface that keeps silent. What resets and loads the
//! interface is a [`Board`]. A step may be repeated after the daemon died: everything that it needs to go on is in the host's
//! memory (the epoch, who has which port, who was restored).

use super::closing::Closing;
use super::layout::*;
use super::mailbox;
use super::memory::{HostMemory, block, port_word};
use super::neighbours::Words;
use super::selftest::{Finding, SelfTest, SelfTestConfig, TEST_PORTS};
use super::suspects::{Allowance, Suspects};
use super::{
    driver,
    port::{Port, PortConfig},
};
use crate::device::registers::interrupt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a daemon whose self-test is due looks whether anybody uses the interface again.
const LOOK_NS: u64 = 10_000_000;

/// What the daemon does to the interface itself.
pub trait Board {
    /// Stops what runs there, puts the control program into its memory and starts it, as the interface of this epoch.
    ///
    /// # Errors
    /// When that cannot be done now; it is tried again.
    fn reload(&mut self, epoch: u32) -> Result<(), String>;

    /// The control program was just asked whether it runs; the time is the daemon's.
    fn asked(&mut self, _now_ns: u64) {}

    /// Whether the interface did not get to run since it was asked, though nothing is wrong with it, so that its silence
    /// says nothing: it shares its processor with others.
    fn is_held_up(&mut self, _now_ns: u64) -> bool {
        false
    }
}

/// Who found that something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detector {
    /// The interface's watchdog: L_timer has not run.
    Watchdog,
    /// The interface said so: its processor trapped or it found itself damaged.
    Interface,
    /// The self-test.
    SelfTest(Finding),
    /// A library, and the self-tests that followed did not find it.
    Library,
    /// A library of another node, whose own interface passes its self-tests; those of this one do not find it either.
    Neighbour,
    /// The control program does not answer.
    Silence,
}

impl Detector {
    /// Whether an interface that failed in this way may have written into the memory of applications what it should not.
    /// One that stopped wrote nothing after it stopped; one that was caught at something else may have done more of it.
    pub fn may_have_written(self) -> bool {
        match self {
            Detector::Watchdog
            | Detector::Silence
            | Detector::SelfTest(Finding::Missing | Finding::Refused | Finding::Slow) => false,
            Detector::Interface
            | Detector::Library
            | Detector::Neighbour
            | Detector::SelfTest(Finding::Content | Finding::Count) => true,
        }
    }
}

/// What the daemon did, for whoever keeps a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It looks into a suspicion.
    Suspected(Detector),
    /// The control program answered: nothing was done.
    Dismissed,
    /// The interface has failed.
    Detected(Detector),
    /// The old one can do nothing any more, and a new one runs.
    Reloaded {
        /// Its epoch.
        epoch: u32,
    },
    /// A self-test passed.
    Passed {
        /// A bit per kind of service.
        services: u32,
    },
    /// The interface passed the self-test that a library's suspicion began, so the daemons of these nodes were told of it.
    Told {
        /// A bit per node.
        nodes: u32,
    },
    /// All ports are back.
    Recovered,
    /// The interface could not be reloaded; it is tried again.
    ReloadFailed,
    /// Reloading did not help so often that it is not tried any more: the ports are told, and the interface stays as it is.
    GivenUp,
}

/// How the daemon watches.
#[derive(Debug, Clone, Copy)]
pub struct DaemonConfig {
    /// The self-test; `None` for none (an ablation).
    pub self_test: Option<SelfTestConfig>,
    /// Whether the watchdog's interrupt is heard (an ablation when not).
    pub hears_watchdog: bool,
    /// How long a control program has to answer.
    pub answer_ns: u64,
    /// How often it is asked by itself whether it runs, as long as nothing is wrong; `u64::MAX` for never.
    pub ask_ns: u64,
    /// Suspicions of one port's library in a row without a failed self-test, after which the interface is reloaded all the same.
    pub suspicions_max: u32,
    /// How often one port's suspicions alone may have the interface reloaded: so often at once, and once more after each such
    /// time. A program that writes over what it sends suspects for ever, and each reload stops all others.
    pub suspicion_reloads: Allowance,
    /// Whether daemons tell one another of suspicions, which may be about either end (an ablation when not).
    pub tells_neighbours: bool,
    /// Whether applications' messages are verified, and so the daemon's own.
    pub verifies: bool,
    /// Whether numbers of messages are made by libraries.
    pub numbers: bool,
    /// So many reloads without a message sent or delivered between them, and no more: what still fails then, reloading does
    /// not mend. 0 for a daemon that detects and does nothing else.
    pub reloads_max: u32,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        DaemonConfig {
            self_test: Some(SelfTestConfig::default()),
            hears_watchdog: true,
            answer_ns: 250_000,
            ask_ns: 100_000_000,
            suspicions_max: 3,
            suspicion_reloads: Allowance::UNLIMITED,
            tells_neighbours: true,
            verifies: true,
            numbers: true,
            reloads_max: 8,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Watching,
    /// Until the control program has answered, or its time is over.
    Asking {
        until_ns: u64,
        of: Option<Detector>,
    },
    /// The interface is to be reloaded.
    Failed,
    /// Nothing is tried any more.
    GivenUp,
}

/// The daemon of one interface.
#[derive(Debug)]
pub struct Daemon {
    memory: Arc<HostMemory>,
    config: DaemonConfig,
    state: State,
    /// The epoch to which open ports were told to restore themselves and not all have. A program that stands still keeps its own port from
    /// it, and nothing else: the interface is watched and tested meanwhile, and serves the others.
    restoring: Option<u32>,
    test: Option<SelfTest>,
    /// Its port, where no self-test has it.
    port: Option<Port>,
    next_ask_ns: u64,
    /// A test is due, but nobody uses what it would test: when to look again.
    looks_again_ns: u64,
    ping: u32,
    suspects: Suspects,
    activity_seen: u32,
    /// The interface was reloaded and not tested since.
    is_unproved: bool,
    words: Words,
    closing: Closing,
    /// Reloads, or tries of them, since the applications' activity was this.
    reloads_in_vain: (u32, u32),
    /// Recoveries that it has done.
    pub recovery_count: u64,
}

impl Daemon {
    /// A daemon for the interface whose memory this is; it takes port 0, and with a self-test the last one.
    ///
    /// # Errors
    /// As [`Port::open`]: another daemon has it.
    pub fn new(memory: Arc<HostMemory>, owner: u32, config: DaemonConfig) -> Result<Self, driver::OpenError> {
        Daemon::begin(memory, owner, config, Port::open)
    }

    fn begin(
        memory: Arc<HostMemory>,
        owner: u32,
        config: DaemonConfig,
        open: fn(Arc<HostMemory>, usize, u32, PortConfig) -> Result<Port, driver::OpenError>,
    ) -> Result<Self, driver::OpenError> {
        let port_config = SelfTest::port_config(config.verifies, config.numbers);
        let port = open(Arc::clone(&memory), 0, owner, port_config)?;
        memory.word(control::GIVEN_UP).store(0, Ordering::Release);
        let (test, port) = match config.self_test {
            Some(of_test) => {
                let second = open(Arc::clone(&memory), TEST_PORTS[1], owner, port_config)?;
                (Some(SelfTest::new([port, second], of_test)), None)
            }
            None => (None, Some(port)),
        };
        Ok(Daemon {
            memory,
            config,
            state: State::Watching,
            restoring: None,
            test,
            port,
            next_ask_ns: config.ask_ns,
            looks_again_ns: 0,
            ping: 0,
            suspects: Suspects::default(),
            activity_seen: 0,
            is_unproved: false,
            words: Words::default(),
            closing: Closing::default(),
            reloads_in_vain: (0, 0),
            recovery_count: 0,
        })
    }

    /// A daemon in the place of one that died, perhaps in the middle of a recovery. It takes the daemon's port over and
    /// begins by asking the control program whether it runs.
    ///
    /// # Errors
    /// As [`Daemon::new`].
    pub fn take_over(
        memory: Arc<HostMemory>,
        owner: u32,
        config: DaemonConfig,
        now_ns: u64,
    ) -> Result<Self, driver::OpenError> {
        let mut daemon = Daemon::begin(memory, owner, config, Port::inherit)?;
        // Another word than the one before may have asked.
        daemon.ping = daemon.memory.word(control::PING).load(Ordering::Acquire);
        // The one before may have reloaded the interface and told nobody.
        let epoch = daemon.memory.word(control::EPOCH).load(Ordering::Acquire);
        daemon.tell_ports(epoch);
        daemon.ask(now_ns, None);
        Ok(daemon)
    }

    /// Does what is to be done now; `None` when nothing is.
    pub fn step(&mut self, now_ns: u64, board: &mut impl Board) -> Option<Step> {
        let interrupts = self.memory.word(control::INTERRUPT);
        // At most steps there is none, and a look is cheaper than an exchange.
        let interrupts = if interrupts.load(Ordering::Relaxed) == 0 { 0 } else { interrupts.swap(0, Ordering::AcqRel) };
        let was = self.state;
        let is_asked = self.config.ask_ns != u64::MAX;
        if self.closing.look(&self.memory, now_ns, is_asked) && was == State::Watching {
            self.next_ask_ns = self.next_ask_ns.min(now_ns);
        }
        let step = self.step_in(now_ns, interrupts, board);
        let asks = |state| matches!(state, State::Asking { .. });
        if asks(self.state) && !asks(was) {
            board.asked(now_ns);
        }
        step
    }

    fn step_in(&mut self, now_ns: u64, interrupts: u32, board: &mut impl Board) -> Option<Step> {
        match self.state {
            State::GivenUp => None,
            State::Failed => Some(match self.is_beyond_help() {
                true => self.give_up(),
                false => self.reload(now_ns, board),
            }),
            State::Asking { until_ns, of } => self.heard_answer(now_ns, until_ns, of, board),
            State::Watching => self
                .heard(now_ns, interrupts)
                .or_else(|| self.restored(now_ns))
                .or_else(|| self.asked(now_ns))
                .or_else(|| self.tested(now_ns)),
        }
    }

    /// When [`Daemon::step`] has something to do at the latest, if nothing happens before.
    pub fn next_ns(&self) -> u64 {
        let test = self.test.as_ref().map_or(u64::MAX, SelfTest::next_ns);
        match self.state {
            State::Asking { until_ns, .. } => until_ns,
            State::Failed => 0,
            State::GivenUp => u64::MAX,
            State::Watching => self.next_ask_ns.min(test.max(self.looks_again_ns)).min(self.closing.next_ns()),
        }
    }

    /// Whether the daemon is in the middle of something.
    pub fn is_busy(&self) -> bool {
        let is_at_rest = matches!(self.state, State::Watching | State::GivenUp);
        !is_at_rest || self.test.as_ref().is_some_and(SelfTest::is_running)
    }

    /// Whether ports are still to restore themselves.
    pub fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// Whether an event or an answer for it is there that came after its last step.
    pub fn is_wanted(&self) -> bool {
        let is_answered = self.memory.word(control::PONG).load(Ordering::Acquire) == !self.ping;
        (self.is_asking() && is_answered)
            || self.test.as_ref().is_some_and(SelfTest::is_ready)
            || self.port.as_ref().is_some_and(Port::is_ready)
            || self.restoring.is_some_and(|epoch| self.are_ports_back(epoch))
    }

    fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking { .. })
    }

    /// The self-test, if there is one.
    pub fn test(&self) -> Option<&SelfTest> {
        self.test.as_ref()
    }

    fn heard(&mut self, now_ns: u64, interrupts: u32) -> Option<Step> {
        const WATCHDOG: u32 = 1 << interrupt::WATCHDOG;
        const FATAL: u32 = 1 << interrupt::FATAL;
        const TRAP: u32 = 1 << interrupt::TRAP;
        if interrupts & (FATAL | TRAP) != 0 {
            return Some(self.fail(Detector::Interface));
        }
        (interrupts & WATCHDOG != 0 && self.config.hears_watchdog).then(|| self.ask(now_ns, Some(Detector::Watchdog)))
    }

    fn ask(&mut self, now_ns: u64, of: Option<Detector>) -> Step {
        self.ping = self.ping.wrapping_add(0x0101_0101).max(1);
        self.memory.word(control::PING).store(self.ping, Ordering::Release);
        self.memory.ring();
        self.state = State::Asking { until_ns: now_ns + self.config.answer_ns, of };
        Step::Suspected(of.unwrap_or(Detector::Silence))
    }

    fn asked(&mut self, now_ns: u64) -> Option<Step> {
        if now_ns < self.next_ask_ns {
            return None;
        }
        self.next_ask_ns = now_ns.saturating_add(self.config.ask_ns);
        Some(self.ask(now_ns, None))
    }

    fn heard_answer(
        &mut self,
        now_ns: u64,
        until_ns: u64,
        of: Option<Detector>,
        board: &mut impl Board,
    ) -> Option<Step> {
        // Before the answer is looked for: it may come in between.
        let is_over = now_ns >= until_ns;
        let is_held_up = is_over && board.is_held_up(now_ns);
        if self.memory.word(control::PONG).load(Ordering::Acquire) == !self.ping {
            self.state = State::Watching;
            self.closing.answered(&self.memory);
            return Some(Step::Dismissed);
        }
        if !is_over || is_held_up {
            let until_ns = if is_over { now_ns + self.config.answer_ns } else { until_ns };
            self.state = State::Asking { until_ns, of };
            return None;
        }
        Some(self.fail(of.unwrap_or(Detector::Silence)))
    }

    fn fail(&mut self, by: Detector) -> Step {
        for port in 0..PORTS {
            let word = self.memory.word(port_word(port, port_word::FAULT_MAY_HAVE_WRITTEN));
            word.fetch_or(u32::from(by.may_have_written()), Ordering::AcqRel);
        }
        self.state = State::Failed;
        Step::Detected(by)
    }

    /// Whether reloading was tried as often as it may be.
    fn is_beyond_help(&mut self) -> bool {
        let activity = self.activity();
        if self.reloads_in_vain.1 != activity {
            self.reloads_in_vain = (0, activity);
        }
        self.reloads_in_vain.0 += 1;
        self.reloads_in_vain.0 > self.config.reloads_max
    }

    /// Counts messages of the applications.
    fn activity(&self) -> u32 {
        let of = |port| self.memory.word(port_word(port, port_word::ACTIVITY)).load(Ordering::Acquire);
        APPLICATION_PORTS.fold(0, |sum, port| sum.wrapping_add(of(port)))
    }

    /// Lets the ports know that nothing more will come.
    fn give_up(&mut self) -> Step {
        // One that only detects leaves the ports alone.
        let tells = u32::from(self.config.reloads_max != 0);
        self.memory.word(control::GIVEN_UP).store(tells, Ordering::Release);
        (0..PORTS).for_each(|port| self.memory.wake_port(port));
        self.state = State::GivenUp;
        Step::GivenUp
    }

    /// Whether it has given up.
    pub fn has_given_up(&self) -> bool {
        self.state == State::GivenUp
    }

    /// The same once more, for a snapshot of a world; of the two only one may be used at a time.
    pub(crate) fn duplicate(&self) -> Daemon {
        Daemon {
            memory: Arc::clone(&self.memory),
            test: self.test.as_ref().map(SelfTest::duplicate),
            port: self.port.as_ref().map(Port::duplicate),
            ..*self
        }
    }

    /// Whether it will do from now on what the other one would.
    pub(crate) fn same_state(&self, other: &Daemon) -> bool {
        let tests_are_same = match (&self.test, &other.test) {
            (Some(ours), Some(theirs)) => ours.same_state(theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        tests_are_same
            && match (&self.port, &other.port) {
                (Some(ours), Some(theirs)) => ours.same_state(theirs),
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            }
            && (self.state, self.restoring) == (other.state, other.restoring)
            && (self.next_ask_ns, self.looks_again_ns, self.ping)
                == (other.next_ask_ns, other.looks_again_ns, other.ping)
            && (&self.suspects, self.activity_seen) == (&other.suspects, other.activity_seen)
            && self.is_unproved == other.is_unproved
            && self.words == other.words
            && self.closing == other.closing
            && self.reloads_in_vain == other.reloads_in_vain
    }

    /// From here on the old interface can do nothing: its engines see another epoch than theirs.
    fn reload(&mut self, now_ns: u64, board: &mut impl Board) -> Step {
        let epoch = self.memory.word(control::EPOCH).fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        for port in 0..PORTS {
            mailbox::empty(&self.memory, port);
        }
        if board.reload(epoch).is_err() {
            return Step::ReloadFailed;
        }
        self.memory.word(control::INTERRUPT).store(0, Ordering::Release);
        self.recovery_count += 1;
        self.suspects.forget();
        self.closing.reloaded(&self.memory);
        // What reloading does not mend shows at once.
        self.is_unproved = true;
        self.words.forget();
        if let Some(test) = &mut self.test {
            test.abandon(now_ns);
        }
        self.tell_ports(epoch);
        (self.state, self.restoring) = (State::Watching, Some(epoch));
        Step::Reloaded { epoch }
    }

    /// Posts `FAULT_DETECTED` to every open port that was not restored in this epoch.
    fn tell_ports(&self, epoch: u32) {
        let word = |port, word| self.memory.word(port_word(port, word));
        for port in (0..PORTS).filter(|&port| driver::is_open(&self.memory, port)) {
            if word(port, port_word::RESTORED_EPOCH).load(Ordering::Acquire) != epoch {
                word(port, port_word::FAULT_EPOCH).store(epoch, Ordering::Release);
                self.memory.wake_port(port);
            }
        }
    }

    /// Whether the ports that were told to restore themselves have all done so.
    fn restored(&mut self, now_ns: u64) -> Option<Step> {
        let epoch = self.restoring?;
        // The daemon's own port is restored by its poll; those of a self-test by its step.
        if let Some(port) = &mut self.port {
            while port.poll(now_ns).is_some() {}
        }
        if !self.are_ports_back(epoch) {
            return None;
        }
        self.restoring = None;
        Some(Step::Recovered)
    }

    fn are_ports_back(&self, epoch: u32) -> bool {
        (0..PORTS).all(|port| {
            !driver::is_open(&self.memory, port)
                || self.memory.word(port_word(port, port_word::RESTORED_EPOCH)).load(Ordering::Acquire) == epoch
        })
    }

    /// The self-test: at once for a kind of service that was not tested yet and for suspicions, else in its time.
    fn tested(&mut self, now_ns: u64) -> Option<Step> {
        let test = self.test.as_mut()?;
        let outcome = test.step(now_ns);
        if outcome.is_none() && test.is_running() {
            return None;
        }
        let open = APPLICATION_PORTS
            .filter(|&port| driver::is_open(&self.memory, port))
            .fold(0, |bits, port| bits | 1 << port);
        if let Some(outcome) = outcome {
            return Some(self.judged(outcome, open));
        }
        let word = |port: usize, word: u32| self.memory.word(port_word(port, word)).load(Ordering::Acquire);
        let sum = |of: u32| ports_of(open).fold(0u32, |sum, port| sum.wrapping_add(word(port, of)));
        let activity = sum(port_word::ACTIVITY);
        let (used, untested) = ports_of(open).fold((0, 0), |(used, untested), port| {
            let of_port = word(port, port_word::SERVICES_USED);
            (used | of_port, untested | of_port & !word(port, port_word::SERVICES_TESTED))
        });
        let mut nodes = 0;
        for (node, word) in self.words.take() {
            nodes |= 1 << node;
            test.tell(node, word);
        }
        if nodes != 0 {
            return Some(Step::Told { nodes });
        }
        let mut is_named = false;
        for (node, word) in test.take_words().into_iter().enumerate() {
            self.suspects.excuse(node, word.behind);
            is_named |= self.words.hear(node, word, open, now_ns);
        }
        let suspicious = self.suspects.look(&self.memory, ports_of(open));
        let is_idle = activity == self.activity_seen;
        if untested != 0 {
            test.begin(untested, now_ns);
        } else if used != 0 && (suspicious != 0 || is_named || self.is_unproved || (test.is_due(now_ns) && !is_idle)) {
            self.is_unproved = false;
            test.begin(used, now_ns);
        } else {
            if test.is_due(now_ns) {
                // Nobody does anything that is to be tested.
                self.looks_again_ns = now_ns + LOOK_NS;
            }
            return None;
        }
        self.looks_again_ns = 0;
        self.activity_seen = activity;
        self.suspects.count(&self.memory, ports_of(suspicious));
        if self.config.tells_neighbours {
            ports_of(open).for_each(|port| self.suspects.name(port, self.words.suspect(&self.memory, port)));
        }
        let (most, allowance) = (self.config.suspicions_max, self.config.suspicion_reloads);
        if self.suspects.take_reload(most, allowance, now_ns) {
            return Some(self.fail(Detector::Library));
        }
        if self.words.in_a_row > most {
            self.words.obey(now_ns);
            if self.suspects.take_neighbours_reload(allowance, now_ns) {
                return Some(self.fail(Detector::Neighbour));
            }
            self.words.forget();
        }
        None
    }

    fn judged(&mut self, outcome: Result<u32, Finding>, open: u8) -> Step {
        match outcome {
            Ok(services) => {
                for port in ports_of(open) {
                    let tested = self.memory.word(port_word(port, port_word::SERVICES_TESTED));
                    tested.fetch_or(services, Ordering::AcqRel);
                    self.memory.wake_port(port);
                }
                self.words.passed(|port| open >> port & 1 == 1 && is_behind(&self.memory, port));
                Step::Passed { services }
            }
            Err(finding) => self.fail(Detector::SelfTest(finding)),
        }
    }
}

/// Whether a port's program has not looked at what has come, has not restored it, or has taken in all that it has buffers for. What does not
/// arrive there is no failure of an interface.
fn is_behind(memory: &HostMemory, port: usize) -> bool {
    let word = |word| memory.word(port_word(port, word)).load(Ordering::Acquire);
    let taken = word(port_word::TAKEN);
    let next_at = block(port) + PORT_EVENTS + taken % PORT_EVENT_COUNT * 64 + event::NUMBER as u32 * 4;
    let has_event = memory.word(next_at).load(Ordering::Acquire) == taken.wrapping_add(1);
    let is_restored = word(port_word::RESTORED_EPOCH) == memory.word(control::EPOCH).load(Ordering::Acquire);
    has_event || !is_restored || word(port_word::BUFFERS) == 1
}

/// The ports whose bits these are.
fn ports_of(bits: u8) -> impl Iterator<Item = usize> + Clone {
    (0..PORTS).filter(move |port| bits >> port & 1 == 1)
}
