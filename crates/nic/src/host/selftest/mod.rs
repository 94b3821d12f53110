//! The adaptive self-test: messages between two ports of the daemon, through the host DMA and the link and back.
//!
//! Only the kinds of service that applications use are tested: each is a part of the control program of its own. A cycle
//! sends rounds of messages (`rounds`), at least one of them lost on purpose and one that needs a page whose translation was
//! forgotten, and compares what comes back: content, count, order and how long it took.
//!
//! How long a round may take is learned: it is judged by the shortest time that it took before. That says something only
//! where no application used the interface meanwhile, so a round beside traffic is judged loosely, and done once more at the end
//! of the cycle; and a round that was slow is repeated, because a fault makes it slow each time.

mod rounds;

pub use rounds::{DAEMON_BYTES, TEST_PORTS};

use super::layout::*;
use super::memory::port_word;
use super::neighbours::Word;
use super::port::{Event, Message, Port, PortConfig, Service};
use super::streams::Peer;
use rounds::{CLASSES, Plan, ROUNDS_MAX, WORD_AT, WORD_BUFFER_AT};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// How many kinds of service there are: three at two priorities.
pub const SERVICES: u32 = 6;

/// When and how the self-test runs.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestConfig {
    /// From the start of a cycle to the next.
    pub interval_ns: u64,
    /// A message of a cycle that is not back after this long has failed.
    pub limit_ns: u64,
    /// A message that was not lost on purpose and is back later than this is slow; `u64::MAX` where time is that of a busy
    /// host, and says nothing.
    pub slow_ns: u64,
    /// Every so many cycles messages are lost on purpose, which costs a retransmission; 0 for never.
    pub loss_every: u32,
}

impl Default for SelfTestConfig {
    fn default() -> Self {
        SelfTestConfig { interval_ns: 1_000_000_000, limit_ns: 10_000_000, slow_ns: u64::MAX, loss_every: 4 }
    }
}

/// A round that no application disturbed takes at most a quarter longer than the quickest of its kind, and this.
const JITTER_NS: u64 = 8_000;
/// A round in which messages are lost on purpose depends on where L_timer is.
const LOSS_JITTER_NS: u64 = 600_000;
/// So many undisturbed times in a row a round is slow before the interface is.
const SLOW_TIMES: u32 = 3;
/// A datagram may be lost: so often it is sent before it is missing.
const DATAGRAM_TIMES: u32 = 3;
/// How a daemon's word to another one begins. It is a datagram, so that none waits for an interface that does not answer; the
/// next suspicion brings the next one.
const WORD: [u8; 6] = *b"SFword";
/// Its length, and from one node's to the next.
const WORD_BYTES: usize = WORD.len() + 3;
/// The class of the buffer that it comes into, and the priority.
const WORD_CLASS: u8 = CLASSES[0];
const WORD_PRIORITY: u8 = 0;
/// Its tokens, one for each node; those of test messages count up from 1.
const WORD_TOKEN: u32 = 0xffff_ff00;
/// The number of its buffer among those of its class.
const WORD_BUFFER: u32 = 0xff;

/// What a self-test found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A message did not come back in time.
    Missing,
    /// A message came back otherwise than it was sent.
    Content,
    /// More came back than was sent, or what nobody sent.
    Count,
    /// The interface refused or failed a request.
    Refused,
    /// A message came back, much later than it should.
    Slow,
}

/// One message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probe {
    token: u32,
    plan: Plan,
    seed: u32,
    sent_ns: u64,
    is_sent: bool,
    is_back: bool,
}

/// A round of a cycle: of which kind of service, and which of its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Round {
    service: u32,
    number: usize,
    /// It was done beside traffic before.
    is_again: bool,
}

impl Round {
    fn is_datagram(self) -> bool {
        self.service / 2 == 2
    }

    fn is_directed(self) -> bool {
        self.service / 2 == 1
    }

    fn plans(self) -> &'static [Plan] {
        rounds::round(self.is_datagram(), self.number)
    }

    fn loses(self) -> bool {
        self.plans().iter().any(|plan| plan.is_lost)
    }
}

/// The round that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    round: Round,
    begun_ns: u64,
    /// What the applications had done by then.
    activity: u32,
    probes: Vec<Probe>,
    /// How often in a row it was slow, undisturbed.
    slow_count: u32,
    /// How often its datagrams were sent.
    try_count: u32,
}

/// The self-test and the daemon's ports.
#[derive(Debug)]
pub struct SelfTest {
    /// Its ports; they are restored like any other after a failure. The first one is the daemon's.
    ports: [Port; 2],
    config: SelfTestConfig,
    running: Option<Running>,
    waiting: VecDeque<Round>,
    /// The shortest time of each round so far; 0 for none.
    quickest_ns: [[u64; ROUNDS_MAX]; SERVICES as usize],
    next_token: u32,
    cycle: u32,
    next_cycle_ns: u64,
    of_services: u32,
    strange_before: u64,
    /// Since when messages of an abandoned cycle are waited for, which the library sends again.
    clearing_ns: Option<u64>,
    /// Cycles that passed.
    pub passed_count: u64,
    /// What the daemon of each node said since it was last asked for.
    heard: [Word; NODES],
    /// Messages that are neither of a self-test nor a daemon's word; they are dropped.
    pub foreign_count: u64,
}

impl SelfTest {
    /// The daemon's ports as a self-test needs them.
    pub fn port_config(verifies: bool, numbers: bool) -> PortConfig {
        PortConfig { pages: rounds::PAGES, numbers, verifies, waits_for_test: false, ..PortConfig::plain(0) }
    }

    /// A self-test on the daemon's ports, [`TEST_PORTS`].
    pub fn new(mut ports: [Port; 2], config: SelfTestConfig) -> Self {
        for port in &mut ports {
            for (token, address, class, priority) in rounds::buffers() {
                // The port is fresh and has the room.
                let _ = port.provide(token, address, class, priority);
            }
        }
        // One more, so that a word does not take that of a test message.
        let token = rounds::token_of(WORD_BUFFER, WORD_PRIORITY, WORD_CLASS);
        let _ = ports[0].provide(token, WORD_BUFFER_AT, WORD_CLASS, WORD_PRIORITY);
        SelfTest {
            ports,
            config,
            running: None,
            waiting: VecDeque::new(),
            quickest_ns: [[0; ROUNDS_MAX]; SERVICES as usize],
            next_token: 1,
            cycle: 0,
            next_cycle_ns: 0,
            of_services: 0,
            strange_before: 0,
            clearing_ns: None,
            passed_count: 0,
            heard: Default::default(),
            foreign_count: 0,
        }
    }

    /// The same once more, for a snapshot of a world; of the two only one may be used at a time.
    pub(crate) fn duplicate(&self) -> SelfTest {
        SelfTest {
            ports: [self.ports[0].duplicate(), self.ports[1].duplicate()],
            running: self.running.clone(),
            waiting: self.waiting.clone(),
            ..*self
        }
    }

    /// Whether it will do from now on what the other one would.
    pub(crate) fn same_state(&self, other: &SelfTest) -> bool {
        self.ports.iter().zip(&other.ports).all(|(ours, theirs)| ours.same_state(theirs))
            && self.running == other.running
            && self.waiting == other.waiting
            && self.quickest_ns == other.quickest_ns
            && (self.next_token, self.cycle, self.next_cycle_ns) == (other.next_token, other.cycle, other.next_cycle_ns)
            && (self.of_services, self.clearing_ns) == (other.of_services, other.clearing_ns)
            && self.heard == other.heard
            && self.strange() - self.strange_before.min(self.strange())
                == other.strange() - other.strange_before.min(other.strange())
    }

    /// The daemon's port.
    pub fn port(&self) -> &Port {
        &self.ports[0]
    }

    /// Whether an event waits on one of its ports, or room for a command.
    pub fn is_ready(&self) -> bool {
        self.ports.iter().any(Port::is_ready)
    }

    /// Whether a cycle is on its way.
    pub fn is_running(&self) -> bool {
        self.of_services != 0
    }

    /// Whether it is time for another cycle.
    pub fn is_due(&self, now_ns: u64) -> bool {
        !self.is_running() && now_ns >= self.next_cycle_ns
    }

    /// When something is to be done next, if nothing comes before: what is awaited is late, or the next cycle begins.
    pub fn next_ns(&self) -> u64 {
        let probes = self.running.iter().flat_map(|running| &running.probes);
        let late = probes.filter(|probe| !probe.is_over()).map(|probe| probe.sent_ns.saturating_add(self.limit_ns()));
        let cleared = self.clearing_ns.map(|since_ns| since_ns.saturating_add(self.config.limit_ns));
        match late.chain(cleared).min() {
            _ if !self.is_running() => self.next_cycle_ns,
            Some(late_ns) => late_ns.saturating_add(1),
            None => 0,
        }
    }

    /// How long a message may be away: a datagram is sent again before it is missing.
    fn limit_ns(&self) -> u64 {
        let is_datagram = self.running.as_ref().is_some_and(|running| running.round.is_datagram());
        if is_datagram { self.config.limit_ns / u64::from(DATAGRAM_TIMES) } else { self.config.limit_ns }
    }

    /// Begins a cycle over these kinds of service.
    pub fn begin(&mut self, services: u32, now_ns: u64) {
        self.cycle = self.cycle.wrapping_add(1);
        self.next_cycle_ns = now_ns + self.config.interval_ns;
        self.of_services = services;
        self.running = None;
        self.waiting.clear();
        self.strange_before = self.strange();
        self.clearing_ns = self.has_outstanding().then_some(now_ns);
        // One message of the cycle finds no page translated.
        for port in &mut self.ports {
            port.say(command::FORGET_PAGES, &[]);
        }
        let loses = self.config.loss_every != 0 && self.cycle.is_multiple_of(self.config.loss_every);
        for service in (0..SERVICES).filter(|service| services >> service & 1 == 1) {
            let count = rounds::round_count(service / 2 == 2, loses);
            self.waiting.extend((0..count).map(|number| Round { service, number, is_again: false }));
        }
    }

    fn has_outstanding(&self) -> bool {
        self.ports.iter().any(|port| port.outstanding_count() > 0)
    }

    /// Abandons the cycle that is on its way: the interface under it is gone.
    pub fn abandon(&mut self, now_ns: u64) {
        self.of_services = 0;
        self.running = None;
        self.waiting.clear();
        self.next_cycle_ns = now_ns;
        // What is slow as soon as it is loaded may be so because of what another interface sends: that no reload ends.
        self.quickest_ns = [[0; ROUNDS_MAX]; SERVICES as usize];
    }

    /// Goes on with the cycle; what it came to when it is over.
    pub fn step(&mut self, now_ns: u64) -> Option<Result<u32, Finding>> {
        for place in 0..self.ports.len() {
            while let Some(event) = self.ports[place].poll(now_ns) {
                if let Err(finding) = self.take(place, event, now_ns) {
                    return self.end(Err(finding));
                }
            }
        }
        if !self.is_running() {
            return None;
        }
        if let Some(since_ns) = self.clearing_ns {
            self.strange_before = self.strange();
            if !self.has_outstanding() {
                self.clearing_ns = None;
            }
            let is_late = now_ns.saturating_sub(since_ns) > self.config.limit_ns;
            return if is_late { self.end(Err(Finding::Missing)) } else { None };
        }
        if self.strange() != self.strange_before {
            return self.end(Err(Finding::Count));
        }
        match self.go_on(now_ns) {
            Ok(()) => None,
            Err(outcome) => self.end(outcome),
        }
    }

    /// Goes on with the round, or to the next one.
    ///
    /// # Errors
    /// What the cycle came to, when it is over.
    fn go_on(&mut self, now_ns: u64) -> Result<(), Result<u32, Finding>> {
        let limit_ns = self.limit_ns();
        let Some(running) = &mut self.running else {
            let Some(round) = self.waiting.pop_front() else { return Err(Ok(self.of_services)) };
            return self.send_round(round, 0, 0, now_ns).map_err(Err);
        };
        let is_late = |probe: &Probe| !probe.is_over() && now_ns.saturating_sub(probe.sent_ns) > limit_ns;
        if running.probes.iter().any(is_late) {
            if !running.round.is_datagram() || running.try_count >= DATAGRAM_TIMES {
                return Err(Err(Finding::Missing));
            }
            let (round, slow_count, try_count) = (running.round, running.slow_count, running.try_count);
            return self.send_round(round, slow_count, try_count, now_ns).map_err(Err);
        }
        if running.probes.iter().all(Probe::is_over) {
            return self.judge(now_ns).map_err(Err);
        }
        Ok(())
    }

    /// All messages of the round are back: how long did they take?
    fn judge(&mut self, now_ns: u64) -> Result<(), Finding> {
        let Some(running) = self.running.take() else { return Ok(()) };
        if self.config.slow_ns == u64::MAX {
            return Ok(());
        }
        let Round { service, number, is_again } = running.round;
        let is_undisturbed = running.activity == self.activity();
        let took_ns = now_ns - running.begun_ns;
        let Some(quickest_ns) = self.quickest_ns.get_mut(service as usize).and_then(|of| of.get_mut(number)) else {
            return Ok(());
        };
        let jitter_ns = if running.round.loses() { LOSS_JITTER_NS } else { *quickest_ns / 4 + JITTER_NS };
        let is_slow = *quickest_ns != 0 && took_ns > *quickest_ns + jitter_ns;
        if *quickest_ns == 0 || took_ns < *quickest_ns {
            *quickest_ns = took_ns;
        }
        match (is_slow, is_undisturbed) {
            (false, _) => Ok(()),
            (true, true) if running.slow_count + 1 >= SLOW_TIMES => Err(Finding::Slow),
            (true, true) => self.send_round(running.round, running.slow_count + 1, 0, now_ns),
            (true, false) => {
                if !is_again {
                    self.waiting.push_back(Round { is_again: true, ..running.round });
                }
                Ok(())
            }
        }
    }

    /// What the applications have sent and received, and how often they restored their ports, which the interface has to hear of.
    fn activity(&self) -> u32 {
        let of = |port, word| self.ports[0].memory.word(port_word(port, word)).load(Ordering::Acquire);
        let of_port = |port| of(port, port_word::ACTIVITY).wrapping_add(of(port, port_word::RESTORED_EPOCH));
        APPLICATION_PORTS.fold(0, |sum, port| sum.wrapping_add(of_port(port)))
    }

    /// Tells the daemon of another node that its interface is suspected.
    pub(super) fn tell(&mut self, node: u8, word: Word) {
        let token = WORD_TOKEN | u32::from(node);
        if self.ports[0].outstanding.iter().any(|one| one.message.token == token) {
            // The last one has not left yet.
            return;
        }
        let address = WORD_AT + u32::from(node) * WORD_BYTES as u32;
        let mut bytes = [0; WORD_BYTES];
        bytes[..WORD.len()].copy_from_slice(&WORD);
        bytes[WORD.len()..].copy_from_slice(&[word.suspected, word.refusing, word.behind]);
        self.ports[0].write(address, &bytes);
        let to = Peer { node, port: 0, priority: WORD_PRIORITY };
        let service = Service::Datagram { size_class: WORD_CLASS };
        // Where there is no room for it, the next suspicion brings the next one.
        let _ = self.ports[0].send(Message { token, address, length: WORD_BYTES as u32, to, service });
    }

    /// What the daemon of each node said since the last time.
    pub(super) fn take_words(&mut self) -> [Word; NODES] {
        std::mem::take(&mut self.heard)
    }

    /// Takes what no self-test sent; what is left is for the self-test.
    fn take_foreign(&mut self, place: usize, event: Event) -> Option<Event> {
        let is_own = |from: Peer| from.node == self.ports[0].node() && TEST_PORTS.contains(&usize::from(from.port));
        match event {
            Event::Received { token, address, length, from, .. } if !is_own(from) => {
                let mut found = [0; WORD_BYTES];
                let is_word = length as usize == WORD_BYTES && self.ports[place].read(address, &mut found);
                match found {
                    // Only a daemon has port 0.
                    [known @ .., suspected, refusing, behind]
                        if is_word && known == WORD && (from.port, place) == (0, 0) =>
                    {
                        match self.heard.get_mut(usize::from(from.node)) {
                            Some(heard) => heard.add(Word { suspected, refusing, behind }),
                            None => self.foreign_count += 1,
                        }
                    }
                    _ => self.foreign_count += 1,
                }
                self.give_back(place, token, address);
                None
            }
            Event::Directed { from, .. } if !is_own(from) => {
                self.foreign_count += 1;
                None
            }
            Event::Sent { token, .. } if token & WORD_TOKEN == WORD_TOKEN => None,
            event => Some(event),
        }
    }

    fn end(&mut self, outcome: Result<u32, Finding>) -> Option<Result<u32, Finding>> {
        self.of_services = 0;
        self.running = None;
        self.passed_count += u64::from(outcome.is_ok());
        Some(outcome)
    }

    /// What the ports' library found wrong by itself.
    fn strange(&self) -> u64 {
        let of = |port: &Port| {
            let counts = port.counts();
            counts.strange_event_count + counts.corrupted_count + counts.gap_count + counts.repeated_count
        };
        self.ports.iter().map(of).sum()
    }

    /// Sends all messages of a round at once.
    fn send_round(&mut self, round: Round, slow_count: u32, try_count: u32, now_ns: u64) -> Result<(), Finding> {
        let running = Running {
            round,
            begun_ns: now_ns,
            activity: self.activity(),
            probes: Vec::with_capacity(round.plans().len()),
            slow_count,
            try_count: try_count + 1,
        };
        self.running = Some(running);
        for plan in round.plans() {
            self.send(round, *plan, now_ns)?;
        }
        Ok(())
    }

    fn send(&mut self, round: Round, plan: Plan, now_ns: u64) -> Result<(), Finding> {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        let seed = self.cycle.wrapping_mul(0x9e37_79b9) ^ token;
        let [from, to] = [plan.from, plan.to];
        self.ports[from].write(plan.address, &content(seed, plan.length));
        let service = if round.is_directed() {
            self.ports[to].write(plan.remote(), &vec![0; plan.length as usize]);
            Service::Directed { remote: plan.remote() }
        } else if round.is_datagram() {
            Service::Datagram { size_class: plan.size_class() }
        } else {
            Service::Normal { size_class: plan.size_class() }
        };
        let peer = Peer { node: self.ports[0].node(), port: TEST_PORTS[to] as u8, priority: (round.service % 2) as u8 };
        if let Some(running) = &mut self.running {
            running.probes.push(Probe { token, plan, seed, sent_ns: now_ns, is_sent: false, is_back: false });
        }
        let flags = if plan.is_lost { route::DROP_ONCE } else { 0 };
        let message = Message { token, address: plan.address, length: plan.length, to: peer, service };
        // It is told that it was not sent where the interface holds more tokens than there are.
        self.ports[from].send_flagged(message, flags).map_err(|_| Finding::Refused)
    }

    /// Compares an event with the messages that are on their way.
    fn take(&mut self, place: usize, event: Event, now_ns: u64) -> Result<(), Finding> {
        let Some(event) = self.take_foreign(place, event) else { return Ok(()) };
        if self.running.is_none() || self.clearing_ns.is_some() {
            // Of a cycle that was abandoned.
            if let Event::Received { token, address, .. } = event {
                self.give_back(place, token, address);
            }
            return Ok(());
        }
        let probe = match event {
            Event::Sent { token, outcome } => self.sent(place, token, outcome.is_ok())?,
            Event::Received { token, address, length, from, .. } => {
                let outcome = self.compare(place, from, address, length, false);
                self.give_back(place, token, address);
                outcome?
            }
            Event::Directed { address, length, from, .. } => self.compare(place, from, address, length, true)?,
            Event::BufferRefused { .. } => return Err(Finding::Refused),
            // Its memory is written anew for each message.
            Event::MemorySuspect => return Ok(()),
            _ => return Err(Finding::Count),
        };
        match !probe.plan.is_lost && now_ns - probe.sent_ns > self.config.slow_ns {
            true => Err(Finding::Slow),
            false => Ok(()),
        }
    }

    /// A message is said to have been sent.
    fn sent(&mut self, place: usize, token: u32, is_sent: bool) -> Result<Probe, Finding> {
        let Some(running) = &mut self.running else { return Err(Finding::Count) };
        // Of a round of datagrams that was repeated.
        let is_repeated = running.round.is_datagram() && running.try_count > 1;
        let is_it = |probe: &&mut Probe| probe.token == token && probe.plan.from == place && !probe.is_sent;
        let Some(probe) = running.probes.iter_mut().find(is_it) else {
            let any = running.probes.first().copied().filter(|_| is_repeated);
            return any.ok_or(Finding::Count);
        };
        probe.is_sent = true;
        if is_sent { Ok(*probe) } else { Err(Finding::Refused) }
    }

    /// A message is said to have come: it must be the next one of its stream, as it was sent and where it was to go.
    fn compare(
        &mut self,
        place: usize,
        from: Peer,
        address: u32,
        length: u32,
        is_directed: bool,
    ) -> Result<Probe, Finding> {
        let Some(running) = &mut self.running else { return Err(Finding::Count) };
        let Round { service, .. } = running.round;
        if is_directed != running.round.is_directed() || u32::from(from.priority) != service % 2 {
            return Err(Finding::Count);
        }
        let is_repeated = running.round.is_datagram() && running.try_count > 1;
        let is_it = |probe: &&mut Probe| {
            !probe.is_back && probe.plan.to == place && TEST_PORTS[probe.plan.from] == usize::from(from.port)
        };
        let Some(probe) = running.probes.iter_mut().find(is_it) else {
            return running.probes.first().copied().filter(|_| is_repeated).ok_or(Finding::Count);
        };
        if length != probe.plan.length || (is_directed && address != probe.plan.remote()) {
            return if is_repeated { Ok(*probe) } else { Err(Finding::Count) };
        }
        let mut found = vec![0; length as usize];
        self.ports[place].read(address, &mut found);
        match found == content(probe.seed, length) {
            true => {
                probe.is_back = true;
                Ok(*probe)
            }
            // One of the round before, which was late and not lost.
            false if is_repeated => Ok(*probe),
            false => Err(Finding::Content),
        }
    }

    /// Provides a buffer again.
    fn give_back(&mut self, place: usize, token: u32, address: u32) {
        let (class, priority) = rounds::class_and_priority(token);
        if CLASSES.contains(&class) {
            // It was provided before, so that it can be.
            let _ = self.ports[place].provide(token, address, class, priority);
        }
    }
}

impl Probe {
    fn is_over(&self) -> bool {
        self.is_sent && self.is_back
    }
}

/// The content of a test message: no two cycles have the same. Not of `surefoot_random`: part of the daemon that drives an interface, whose recorded
/// campaigns are replayed with these bytes.
fn content(seed: u32, length: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length as usize + 4);
    while bytes.len() < length as usize {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}
