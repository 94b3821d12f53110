//! Node A: the sending library with its shadow copies, and the sending half of its interface.

use super::System;
use super::state::{Event, NUMBER_OF_ITS_OWN, Packet, SendingPort, State, Stream, Violation};

/// The library hands the next message to the interface: one that it restores, or else a new one of the application.
///
/// A command to an interface that hangs, or whose port is not open yet, is lost with it; the shadow copy stays.
pub fn hand_over(system: &System, state: &mut State, port: u8) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    let host = &mut stream.sender;
    if host.restoring.is_some() {
        return None;
    }
    if host.posted == host.sent {
        let token_is_free = host.sent - host.called < system.size.window;
        if host.sent == system.size.messages || !token_is_free {
            return None;
        }
        host.sent += 1;
    }
    host.posted += 1;
    if stream.sending.open {
        stream.sending.posted = host.posted;
    }
    Some(())
}

/// The packets that the interface could send: all those of the messages that it holds.
pub fn packets(system: &System, stream: &Stream) -> impl Iterator<Item = Packet> {
    let SendingPort { open, acknowledged, posted, shift } = stream.sending;
    let messages = (acknowledged + 1..=posted).filter(move |_| open);
    let parts = system.size.parts;
    messages.flat_map(move |content| {
        let sequence = content.saturating_add_signed(shift);
        (0..parts).map(move |part| Packet { sequence, content, part })
    })
}

pub fn send(system: &System, state: &mut State, port: u8, packet: Packet) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    debug_assert!(packets(system, stream).any(|held| held == packet));
    stream.link.put(packet);
    Some(())
}

/// An ACK lets the interface give tokens back, by one event for all of them.
pub fn take_ack(state: &mut State, port: u8, number: u8, proven: bool) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    let sending = &mut stream.sending;
    if !sending.open || stream.sender.ring.is_full() {
        return None;
    }
    let number = number.saturating_add_signed(-sending.shift).min(sending.posted);
    if number <= sending.acknowledged {
        return None;
    }
    sending.acknowledged = number;
    stream.sender.ring.push(Event::Sent { number, proven });
    Some(())
}

/// An interface that makes the numbers itself takes up the one that the receiver asks for: so GM joins a stream again.
pub fn take_nack(state: &mut State, port: u8, number: u8) -> Option<()> {
    let sending = &mut state.streams[port as usize].sending;
    if !sending.open || sending.acknowledged == sending.posted {
        return None;
    }
    sending.shift = number as i8 - (sending.acknowledged as i8 + 1);
    Some(())
}

/// The library takes one event from its ring.
pub fn poll(system: &System, state: &mut State, port: u8, at: u8) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    if stream.sender.restoring.is_some() {
        return None;
    }
    match stream.sender.ring.take(at as usize) {
        Event::Sent { number, proven } => {
            let proof_wanted = system.protocol.end_to_end.is_some_and(|checks| checks.proof);
            if proof_wanted && !proven {
                // The interface gave tokens back that it should have kept: it gets them again.
                resubmit(stream);
            } else {
                run_callbacks(state, port, number);
            }
        }
        Event::FaultDetected { epoch } => stream.sender.restoring = Some(epoch),
        Event::Received { .. } | Event::None => unreachable!("node A only sends"),
    }
    Some(())
}

/// The port's tokens go to the same interface again, those of the first message without a callback first.
fn resubmit(stream: &mut Stream) {
    let called = stream.sender.called;
    stream.sender.posted = called;
    if stream.sending.open {
        stream.sending.acknowledged = called;
        stream.sending.posted = called;
    }
}

fn run_callbacks(state: &mut State, port: u8, number: u8) {
    let stream = &mut state.streams[port as usize];
    // An interface that is damaged can name numbers that the library never gave it.
    let number = number.min(stream.sender.sent);
    if number > stream.sender.called {
        if number > stream.committed {
            state.violation = Some(Violation::EarlyCallback { port, message: number });
        }
        stream.sender.called = number;
        stream.sender.posted = stream.sender.posted.max(number);
    }
}

/// The library opens its port at the reloaded interface; `hand_over` then restores the tokens one by one.
pub fn restore(system: &System, state: &mut State, port: u8) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    let epoch = stream.sender.restoring.take()?;
    let interface = &mut state.a;
    let taken = interface.alive && (epoch == interface.epoch || !system.protocol.restore_names_epoch);
    if taken {
        let called = stream.sender.called;
        let of_its_own = NUMBER_OF_ITS_OWN as i8 - (called as i8 + 1);
        let shift = if system.protocol.numbers_in_host { 0 } else { of_its_own };
        stream.sending = SendingPort { open: true, acknowledged: called, posted: called, shift };
        stream.sender.posted = called;
    }
    Some(())
}
