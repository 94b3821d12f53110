//! The fault-tolerant protocol between two nodes as a transition system, small enough to visit every state of it.
//!
//! Node A sends, node B receives. Each stream has ports, a sending and a receiving library and a link of its own; the
//! streams share the two interfaces, and so their crashes. Every step that a crash can come between is a step of its own.
//!
//! The link loses, duplicates and reorders without limit. It is the set of all packets ever sent: any of them can arrive
//! at any time and any number of times, and a loss is a packet that does not arrive any more. For what must never happen
//! this is everything that such a link can do. For what must happen in the end, the set is emptied first (`fair.rs`): all
//! that was under way is lost, which is the worst that the link can have done.
//!
//! The sending interface may send any packet of any message that it holds at any time. That is more than every order of
//! first sending, time-outs and NACKs, false ones included, so the model needs neither clocks nor NACKs.

pub mod fair;
pub mod faults;
pub mod receiver;
pub mod sender;
pub mod state;
pub mod story;

use fair::Completed;
use state::{Buffers, Event, Packet, State, Violation, Work};
use stateright::{Model, Property};

/// What the protocol does, each measure a switch; `PAPER` has them all.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The sender's library makes the numbers and the receiver's keeps them; else both interfaces do (GM).
    pub numbers_in_host: bool,
    /// The ACK comes after the event; else as soon as the packet is in the interface's memory (GM).
    pub late_ack: bool,
    /// FAULT_DETECTED is handled in its turn, after all events that were posted before it.
    pub drain: bool,
    /// An interface that the daemon gave up can do nothing any more.
    pub fence: bool,
    /// A restore is meant for one epoch, and no other takes it.
    pub restore_names_epoch: bool,
    /// A port that the library has not restored yet does not answer; else it says that it is closed, and the sender gives
    /// the message up.
    pub silent_until_restored: bool,
    /// What the libraries check beyond that, against corruption.
    pub end_to_end: Option<EndToEnd>,
}

/// The end-to-end mode: only what the receiving library has verified is acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct EndToEnd {
    /// The checksum is over the number of the message too, not over its content alone.
    pub checksum_covers_number: bool,
    /// The sending library believes only an ACK that carries what the receiving library made of the message.
    pub proof: bool,
    /// A restore repeats the last ACCEPT, so that the new interface can acknowledge what the old one did not.
    pub restore_repeats_accept: bool,
    /// The library tells the interface from time to time which number it waits for.
    pub restates_next: bool,
}

/// All measures of the paper and of the facts behind it, without the end-to-end mode.
pub const PAPER: Protocol = Protocol {
    numbers_in_host: true,
    late_ack: true,
    drain: true,
    fence: true,
    restore_names_epoch: true,
    silent_until_restored: true,
    end_to_end: None,
};

/// All checks of the end-to-end mode.
pub const CHECKS: EndToEnd =
    EndToEnd { checksum_covers_number: true, proof: true, restore_repeats_accept: true, restates_next: true };

/// The end-to-end mode on top.
pub const END_TO_END: Protocol = Protocol { end_to_end: Some(CHECKS), ..PAPER };

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub ports: u8,
    pub messages: u8,
    pub parts: u8,
    /// Send tokens of a port, and receive buffers.
    pub window: u8,
    pub buffers: u8,
    pub crashes_a: u8,
    pub crashes_b: u8,
    pub corruptions: u8,
}

/// One step of anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The application sends its next message, or the library hands one that it restores to the interface.
    HandOver {
        port: u8,
    },
    Send {
        port: u8,
        packet: Packet,
    },
    TakeAck {
        port: u8,
        number: u8,
        proven: bool,
    },
    TakeNack {
        port: u8,
        number: u8,
    },
    PollA {
        port: u8,
        at: u8,
    },
    RestoreA {
        port: u8,
    },
    Receive {
        port: u8,
        packet: Packet,
    },
    Work,
    PollB {
        port: u8,
        at: u8,
    },
    RestoreB {
        port: u8,
    },
    Restate {
        port: u8,
    },
    CrashA,
    CrashB,
    ReloadA,
    ReloadB,
    TellA {
        port: u8,
    },
    TellB {
        port: u8,
    },
    Ghost,
    Corrupt(Corruption),
}

/// What a flipped bit makes of a message or an event inside of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corruption {
    /// A sends a packet with another number or content.
    WrongPacket { port: u8, packet: Packet },
    /// A says that messages were acknowledged.
    FalseSent { port: u8, number: u8 },
    /// B writes garbage instead of what came, or nothing, or to another buffer.
    WrongData { buffer: u8 },
    /// B posts an event that names another message or buffer.
    WrongEvent { number: u8, buffer: u8 },
    /// B acknowledges what it did not get.
    FalseAck { port: u8, number: u8 },
    /// B's count of what comes next changes.
    WrongExpected { port: u8, number: u8 },
}

/// A protocol of a size: what `stateright` explores.
pub struct System {
    pub protocol: Protocol,
    pub size: Size,
    completed: Completed,
}

impl System {
    pub fn new(protocol: Protocol, size: Size) -> Self {
        Self { protocol, size, completed: Completed::default() }
    }

    /// What the state becomes; `None` where the step is impossible or changes nothing.
    pub fn after(&self, state: &State, step: Step) -> Option<State> {
        let mut next = *state;
        self.take(&mut next, step)?;
        (next != *state).then_some(next)
    }

    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::HandOver { port } => sender::hand_over(self, state, port),
            Step::Send { port, packet } => sender::send(self, state, port, packet),
            Step::TakeAck { port, number, proven } => sender::take_ack(state, port, number, proven),
            Step::TakeNack { port, number } => sender::take_nack(state, port, number),
            Step::PollA { port, at } => sender::poll(self, state, port, at),
            Step::RestoreA { port } => sender::restore(self, state, port),
            Step::Receive { port, packet } => receiver::receive(self, state, port, packet),
            Step::Work => receiver::work(self, state),
            Step::PollB { port, at } => receiver::poll(self, state, port, at),
            Step::RestoreB { port } => receiver::restore(self, state, port),
            Step::Restate { port } => receiver::restate(self, state, port),
            Step::CrashA => faults::crash_a(state),
            Step::CrashB => faults::crash_b(self, state),
            Step::ReloadA => faults::reload(self, &mut state.a),
            Step::ReloadB => faults::reload(self, &mut state.b),
            Step::TellA { port } => faults::tell(&mut state.a, &mut state.streams[port as usize].sender.ring, port),
            Step::TellB { port } => faults::tell(&mut state.b, &mut state.streams[port as usize].receiver.ring, port),
            Step::Ghost => receiver::ghost(self, state),
            Step::Corrupt(corruption) => faults::corrupt(self, state, corruption),
        }
    }

    /// The steps that bring the work forward: all but faults and deliveries that the link repeats.
    fn working_steps(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Work, Step::ReloadA, Step::ReloadB]);
        for port in 0..self.size.ports {
            let stream = &state.streams[port as usize];
            steps.extend([Step::TellA { port }, Step::TellB { port }]);
            steps.extend([Step::RestoreA { port }, Step::RestoreB { port }]);
            self.polls(stream.sender.ring.events(), |at| steps.push(Step::PollA { port, at }));
            self.polls(stream.receiver.ring.events(), |at| steps.push(Step::PollB { port, at }));
            steps.extend([Step::HandOver { port }, Step::Restate { port }]);
            for number in 1..=self.size.messages + 1 {
                for proven in [true, false] {
                    if stream.link.has_ack(number, proven) {
                        steps.push(Step::TakeAck { port, number, proven });
                    }
                }
                if stream.link.has_nack(number) {
                    steps.push(Step::TakeNack { port, number });
                }
            }
            steps.extend(stream.link.packets().map(|packet| Step::Receive { port, packet }));
            steps.extend(sender::packets(self, stream).map(|packet| Step::Send { port, packet }));
        }
    }

    /// The first event of a ring, and where FAULT_DETECTED does not wait for its turn, each of those.
    fn polls(&self, events: &[Event], mut poll: impl FnMut(u8)) {
        for (at, event) in events.iter().enumerate() {
            if at == 0 || (!self.protocol.drain && matches!(event, Event::FaultDetected { .. })) {
                poll(at as u8);
            }
        }
    }

    /// Everything delivered, every token back, nothing left to do.
    pub fn is_done(&self, state: &State) -> bool {
        let all = self.size.messages;
        let streams = &state.streams[..self.size.ports as usize];
        let free = |buffers: &Buffers| buffers.len() == self.size.buffers || state.buffer_lost;
        state.work == Work::Idle
            && streams.iter().all(|stream| {
                stream.sender.called == all
                    && stream.receiver.delivered == all
                    && stream.sending.open
                    && stream.receiving.open
                    && stream.sending.acknowledged == stream.sending.posted
                    && stream.sender.ring.is_empty()
                    && stream.receiver.ring.is_empty()
                    && free(&stream.receiving.buffers)
            })
    }

    /// No more tokens are out than there are, and each receive buffer is in exactly one place.
    fn tokens_add_up(&self, state: &State) -> bool {
        (0..self.size.ports).all(|port| {
            let stream = &state.streams[port as usize];
            let shadowed = stream.sender.sent.checked_sub(stream.sender.called);
            let sends = shadowed.is_some_and(|out| out <= self.size.window);
            sends && (state.buffer_lost || receiver::buffers_add_up(self, state, port))
        })
    }
}

impl Model for System {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for (interface, crashes) in [(&mut state.a, self.size.crashes_a), (&mut state.b, self.size.crashes_b)] {
            interface.alive = true;
            interface.crashes_left = crashes;
        }
        for stream in &mut state.streams[..self.size.ports as usize] {
            stream.sending.open = true;
            stream.receiving.open = true;
            stream.receiving.expected = 1;
            stream.receiving.buffers = Buffers::all(self.size.buffers);
        }
        state.corruptions_left = self.size.corruptions;
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.violation.is_some() {
            return;
        }
        self.working_steps(state, steps);
        steps.extend([Step::CrashA, Step::CrashB, Step::Ghost]);
        if state.corruptions_left > 0 {
            faults::corruptions(self, state, steps);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.after(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_ORDER, |_, state: &State| {
                !matches!(state.violation, Some(Violation::Duplicate { .. } | Violation::Gap { .. }))
            }),
            Property::always(INTACT, |_, state: &State| !matches!(state.violation, Some(Violation::Corrupted { .. }))),
            Property::always(COMMITTED, |_, state: &State| {
                !matches!(state.violation, Some(Violation::EarlyCallback { .. }))
            }),
            Property::always(TOKENS, |system: &Self, state: &State| {
                state.violation.is_some() || system.tokens_add_up(state)
            }),
            Property::always(COMPLETES, |system: &Self, state: &State| {
                state.violation.is_some() || system.completed.from(system, state)
            }),
            Property::sometimes(SURVIVED, |system: &Self, state: &State| {
                let used = |left: u8| left == 0;
                used(state.a.crashes_left)
                    && used(state.b.crashes_left)
                    && used(state.corruptions_left)
                    && system.is_done(state)
            }),
            Property::sometimes(BOTH_DOWN, |system: &Self, state: &State| {
                let possible = system.size.crashes_a > 0 && system.size.crashes_b > 0;
                !possible || (!state.a.alive && !state.b.alive)
            }),
        ]
    }
}

/// What is delivered is a prefix of what was sent: each message once, in order.
pub const IN_ORDER: &str = "delivered once and in order";
/// What is delivered is what was sent.
pub const INTACT: &str = "delivered intact";
/// The sender's callback runs only for what the receiving host has committed.
pub const COMMITTED: &str = "callback only after the receiving host's commit";
/// No send or receive token is lost or made.
pub const TOKENS: &str = "tokens add up";
/// When faults stop and the link is fair, all is delivered and every token returns.
pub const COMPLETES: &str = "a fair completion exists, even if all packets under way are lost";
/// Not a promise: that the exploration has been where it should.
pub const SURVIVED: &str = "reached: all crashes and corruptions used up, all delivered";
/// Not a promise either.
pub const BOTH_DOWN: &str = "reached: both interfaces down at once";
