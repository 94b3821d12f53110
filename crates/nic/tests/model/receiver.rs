//! Node B: the receiving half of its interface, and the receiving library with the last number that it delivered.

use super::System;
use super::state::{Buffers, Event, PARTS, Packet, ReceivingPort, State, Violation, Work};

/// A packet arrives. Only the next one of the stream is taken; an earlier one is acknowledged again.
pub fn receive(system: &System, state: &mut State, port: u8, packet: Packet) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    let receiving = &mut stream.receiving;
    if !receiving.open {
        return closed(system, state, port, packet);
    }
    if state.work != Work::Idle {
        return None;
    }
    if packet.sequence < receiving.expected {
        if packet.sequence <= receiving.accepted {
            stream.link.put_ack(receiving.accepted, true);
        }
        return Some(());
    }
    if (packet.sequence, packet.part) != (receiving.expected, receiving.part) {
        if !system.protocol.numbers_in_host {
            stream.link.put_nack(receiving.expected);
        }
        return Some(());
    }
    let buffer = receiving.buffers.first()?;
    let Packet { sequence: number, part, content } = packet;
    if !system.protocol.late_ack && part + 1 == system.size.parts {
        stream.link.put_ack(number, true);
    }
    state.work = Work::InSram { port, number, buffer, part, content };
    Some(())
}

/// What a reloaded interface says of a port that its library has not opened again.
fn closed(system: &System, state: &mut State, port: u8, packet: Packet) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    if !state.b.alive || system.protocol.silent_until_restored {
        return None;
    }
    // The sender gives the message up and its callback runs with an error, which is as if it had been lost.
    let holds =
        stream.sending.open && (stream.sending.acknowledged + 1..=stream.sending.posted).contains(&packet.sequence);
    if holds && !stream.sender.ring.is_full() {
        stream.sending.acknowledged = packet.sequence;
        stream.sender.ring.push(Event::Sent { number: packet.sequence, proven: true });
        return Some(());
    }
    None
}

/// The interface goes on with the packet that it has: data to the host, then the event, then the ACK.
pub fn work(system: &System, state: &mut State) -> Option<()> {
    match state.work {
        Work::Idle => return None,
        Work::InSram { port, buffer, part, content, .. } => {
            write(state, port, buffer, part, content);
            state.work = in_host(system, state.work);
            if state.work == Work::Idle {
                state.streams[port as usize].receiving.part = part + 1;
            }
        }
        Work::InHost { port, number, buffer } => {
            post(state, port, number, buffer)?;
            let stream = &mut state.streams[port as usize];
            stream.receiving.buffers.take_first();
            stream.receiving.expected = number + 1;
            stream.receiving.part = 0;
            let end_to_end = system.protocol.end_to_end.is_some();
            if !end_to_end {
                stream.receiving.accepted = number;
                commit(system, state, port, number, buffer);
            }
            let acknowledges = system.protocol.late_ack && !end_to_end;
            state.work = if acknowledges { Work::Posted { port } } else { Work::Idle };
        }
        Work::Posted { port } => {
            let stream = &mut state.streams[port as usize];
            stream.link.put_ack(stream.receiving.accepted, true);
            state.work = Work::Idle;
        }
    }
    Some(())
}

/// What an old interface that nobody fenced still does: its data and its event reach the host.
pub fn ghost(system: &System, state: &mut State) -> Option<()> {
    match state.ghost {
        Work::Idle | Work::Posted { .. } => return None,
        Work::InSram { port, buffer, part, content, .. } => {
            write(state, port, buffer, part, content);
            state.ghost = in_host(system, state.ghost);
        }
        Work::InHost { port, number, buffer } => {
            post(state, port, number, buffer)?;
            state.ghost = Work::Idle;
        }
    }
    Some(())
}

/// What comes after the data of a packet: the event of the message, or the next packet.
fn in_host(system: &System, work: Work) -> Work {
    match work {
        Work::InSram { port, number, buffer, part, .. } if part + 1 == system.size.parts => {
            Work::InHost { port, number, buffer }
        }
        _ => Work::Idle,
    }
}

pub fn write(state: &mut State, port: u8, buffer: u8, part: u8, content: u8) {
    state.streams[port as usize].receiver.memory[buffer as usize][part as usize] = content;
}

pub fn post(state: &mut State, port: u8, number: u8, buffer: u8) -> Option<()> {
    let ring = &mut state.streams[port as usize].receiver.ring;
    if ring.is_full() {
        return None;
    }
    ring.push(Event::Received { number, buffer });
    Some(())
}

/// Notes, for the proof, that the host has the next message.
fn commit(system: &System, state: &mut State, port: u8, number: u8, buffer: u8) {
    let complete = content(system, state, port, buffer) == number;
    let stream = &mut state.streams[port as usize];
    if complete && number == stream.committed + 1 {
        stream.committed = number;
    }
}

/// The library takes one event from its ring.
pub fn poll(system: &System, state: &mut State, port: u8, at: u8) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    if stream.receiver.restoring.is_some() {
        return None;
    }
    match stream.receiver.ring.take(at as usize) {
        Event::Received { number, buffer } => match system.protocol.end_to_end {
            None => {
                let content = content(system, state, port, buffer);
                deliver(state, port, content);
                provide(state, port, buffer);
            }
            Some(checks) => {
                let content = content(system, state, port, buffer);
                let good = content != 0 && (content == number || !checks.checksum_covers_number);
                verify(state, port, number, good.then_some(content));
                provide(state, port, buffer);
            }
        },
        Event::FaultDetected { epoch } => stream.receiver.restoring = Some(epoch),
        Event::Sent { .. } | Event::None => unreachable!("node B only receives"),
    }
    Some(())
}

/// The message that a buffer holds, 0 where its packets are not all of one message.
fn content(system: &System, state: &State, port: u8, buffer: u8) -> u8 {
    let parts = &state.streams[port as usize].receiver.memory[buffer as usize][..system.size.parts as usize];
    if parts.iter().all(|part| *part == parts[0]) { parts[0] } else { 0 }
}

/// The library hands a message to the application, which knows what it should get next.
fn deliver(state: &mut State, port: u8, message: u8) {
    let receiver = &mut state.streams[port as usize].receiver;
    let next = receiver.delivered + 1;
    if message == next {
        receiver.delivered = next;
        return;
    }
    state.violation = Some(match message {
        0 => Violation::Corrupted { port },
        message if message < next => Violation::Duplicate { port, message },
        message => Violation::Gap { port, message },
    });
}

/// The end-to-end mode: the library delivers what is next and intact, and says so to the interface.
fn verify(state: &mut State, port: u8, number: u8, intact: Option<u8>) {
    let next = state.streams[port as usize].receiver.delivered + 1;
    if number < next {
        // An old number can be a new message under a damaged name, so the interface hears what is still wanted.
        accept(state, port, next - 1);
        reject(state, port, next);
        return;
    }
    match intact {
        Some(message) if number == next => {
            let stream = &mut state.streams[port as usize];
            stream.committed = stream.committed.max(number);
            deliver(state, port, message);
            accept(state, port, number);
        }
        _ => reject(state, port, next),
    }
}

/// The interface acknowledges up to this number, with the proof.
fn accept(state: &mut State, port: u8, number: u8) {
    let stream = &mut state.streams[port as usize];
    if !stream.receiving.open {
        return;
    }
    stream.receiving.accepted = stream.receiving.accepted.max(number);
    stream.link.put_ack(stream.receiving.accepted, true);
    if stream.receiving.expected <= number {
        expect(state, port, number + 1);
    }
}

/// The interface asks for this message again, unless it waits for it anyway.
fn reject(state: &mut State, port: u8, number: u8) {
    let receiving = &state.streams[port as usize].receiving;
    if receiving.open && receiving.expected != number {
        expect(state, port, number);
    }
}

/// The library tells the interface which number it waits for: if a flipped bit has changed the interface's own count,
/// nothing else would ever put it right.
pub fn restate(system: &System, state: &mut State, port: u8) -> Option<()> {
    let checks = system.protocol.end_to_end?;
    if !checks.restates_next || state.streams[port as usize].receiver.restoring.is_some() {
        return None;
    }
    let next = state.streams[port as usize].receiver.delivered + 1;
    reject(state, port, next);
    Some(())
}

/// The next message is this one, from its first packet; what was being received of another is dropped.
pub fn expect(state: &mut State, port: u8, number: u8) {
    let receiving = &mut state.streams[port as usize].receiving;
    receiving.expected = number;
    receiving.part = 0;
    if work_port(state.work) == Some(port) {
        state.work = Work::Idle;
    }
}

pub fn work_port(work: Work) -> Option<u8> {
    match work {
        Work::Idle => None,
        Work::InSram { port, .. } | Work::InHost { port, .. } | Work::Posted { port } => Some(port),
    }
}

/// The application returns a buffer at once, and the library provides it again.
fn provide(state: &mut State, port: u8, buffer: u8) {
    let stream = &mut state.streams[port as usize];
    // What an application leaves in a buffer is never taken for a message: stale content would hide a missing DMA.
    stream.receiver.memory[buffer as usize] = [0; PARTS];
    if stream.receiving.open {
        stream.receiving.buffers.provide(buffer);
    }
}

/// The library opens its port at the reloaded interface: the number that comes next, then the buffers, all in one.
///
/// Nothing can happen between the two, because without a buffer the interface takes no message.
pub fn restore(system: &System, state: &mut State, port: u8) -> Option<()> {
    let stream = &mut state.streams[port as usize];
    let epoch = stream.receiver.restoring.take()?;
    let interface = &mut state.b;
    let taken = interface.alive && (epoch == interface.epoch || !system.protocol.restore_names_epoch);
    if !taken {
        return Some(());
    }
    let delivered = if system.protocol.numbers_in_host { stream.receiver.delivered } else { 0 };
    let accepts = system.protocol.end_to_end.is_none_or(|checks| checks.restore_repeats_accept);
    stream.receiving = ReceivingPort {
        open: true,
        expected: delivered + 1,
        part: 0,
        accepted: if accepts { delivered } else { 0 },
        buffers: Buffers::all(system.size.buffers),
    };
    let undrained = stream.receiver.ring;
    for buffer in 0..system.size.buffers {
        let waits = |event: &Event| matches!(event, Event::Received { buffer: held, .. } if *held == buffer);
        if !undrained.events().iter().any(waits) {
            stream.receiver.memory[buffer as usize] = [0; PARTS];
        }
    }
    if work_port(state.work) == Some(port) {
        state.work = Work::Idle;
    }
    Some(())
}

/// Whether each receive buffer is with the interface or in an event, and in one of them only.
pub fn buffers_add_up(system: &System, state: &State, port: u8) -> bool {
    let stream = &state.streams[port as usize];
    if !stream.receiving.open {
        return true;
    }
    let in_events = |buffer: u8| {
        let names = |event: &&Event| matches!(event, Event::Received { buffer: held, .. } if *held == buffer);
        stream.receiver.ring.events().iter().filter(names).count()
    };
    (0..system.size.buffers).all(|buffer| in_events(buffer) + usize::from(stream.receiving.buffers.holds(buffer)) == 1)
}
