//! Crashes, the daemon that recovers from them, and corruption inside of an interface.

use super::receiver::{self, work_port};
use super::state::{Event, Interface, PORTS, Packet, ReceivingPort, Ring, SendingPort, State, Work};
use super::{Corruption, Step, System};

/// The interface of node A stops, or is suspected and fenced: the two are the same from there on.
///
/// All that it knew is lost; what it put in the host's memory and on the link is not.
pub fn crash_a(state: &mut State) -> Option<()> {
    state.a.crashes_left = state.a.crashes_left.checked_sub(1)?;
    state.a.alive = false;
    state.a.fault_owed = [false; PORTS];
    state.streams.iter_mut().for_each(|stream| stream.sending = SendingPort::default());
    Some(())
}

/// As `crash_a`, for node B; without a fence the old interface may go on.
pub fn crash_b(system: &System, state: &mut State) -> Option<()> {
    state.b.crashes_left = state.b.crashes_left.checked_sub(1)?;
    state.b.alive = false;
    state.b.fault_owed = [false; PORTS];
    state.streams.iter_mut().for_each(|stream| stream.receiving = ReceivingPort::default());
    if !system.protocol.fence {
        state.ghost = state.work;
    }
    state.work = Work::Idle;
    Some(())
}

/// The daemon loads the control program again. A crash of the daemon is covered by one of the interface here: a daemon
/// that starts again begins with the fence.
pub fn reload(system: &System, interface: &mut Interface) -> Option<()> {
    if interface.alive {
        return None;
    }
    interface.alive = true;
    interface.epoch += 1;
    (0..system.size.ports).for_each(|port| interface.fault_owed[port as usize] = true);
    Some(())
}

/// The daemon posts FAULT_DETECTED to one port.
pub fn tell(interface: &mut Interface, ring: &mut Ring, port: u8) -> Option<()> {
    if !interface.fault_owed[port as usize] {
        return None;
    }
    interface.fault_owed[port as usize] = false;
    ring.push(Event::FaultDetected { epoch: interface.epoch });
    Some(())
}

/// The corruptions that are possible now.
pub fn corruptions(system: &System, state: &State, steps: &mut Vec<Step>) {
    let messages = system.size.messages;
    let mut add = |corruption| steps.push(Step::Corrupt(corruption));
    for port in 0..system.size.ports {
        for sequence in 1..=messages {
            for content in 0..=messages {
                for part in 0..system.size.parts {
                    add(Corruption::WrongPacket { port, packet: Packet { sequence, content, part } });
                }
            }
            add(Corruption::FalseSent { port, number: sequence });
            add(Corruption::FalseAck { port, number: sequence });
        }
        (1..=messages + 1).for_each(|number| add(Corruption::WrongExpected { port, number }));
    }
    for buffer in 0..system.size.buffers {
        match state.work {
            Work::InSram { .. } => add(Corruption::WrongData { buffer }),
            Work::InHost { .. } => {
                (1..=messages).for_each(|number| add(Corruption::WrongEvent { number, buffer }));
            }
            Work::Idle | Work::Posted { .. } => {}
        }
    }
}

/// One bit flips inside of an interface, and what it says or writes next is wrong.
pub fn corrupt(system: &System, state: &mut State, corruption: Corruption) -> Option<()> {
    state.corruptions_left = state.corruptions_left.checked_sub(1)?;
    match corruption {
        Corruption::WrongPacket { port, packet } => {
            let stream = &mut state.streams[port as usize];
            // Only messages that the interface holds can get into a packet, or garbage.
            let holds = (stream.sending.acknowledged + 1..=stream.sending.posted).contains(&packet.content);
            if !stream.sending.open || !(holds || packet.content == 0) {
                return None;
            }
            stream.link.put(packet);
        }
        Corruption::FalseSent { port, number } => {
            let stream = &mut state.streams[port as usize];
            if !stream.sending.open || stream.sender.ring.is_full() {
                return None;
            }
            stream.sender.ring.push(Event::Sent { number, proven: false });
        }
        Corruption::FalseAck { port, number } => {
            if !state.b.alive {
                return None;
            }
            state.streams[port as usize].link.put_ack(number, false);
        }
        Corruption::WrongData { buffer } => wrong_data(system, state, buffer)?,
        Corruption::WrongEvent { number, buffer } => wrong_event(system, state, number, buffer)?,
        Corruption::WrongExpected { port, number } => {
            if !state.streams[port as usize].receiving.open || work_port(state.work) == Some(port) {
                return None;
            }
            receiver::expect(state, port, number);
        }
    }
    Some(())
}

/// To the right buffer goes garbage; to a wrong one goes the packet, and the right one gets garbage too.
fn wrong_data(system: &System, state: &mut State, wrong: u8) -> Option<()> {
    let Work::InSram { port, number, buffer, part, content } = state.work else { return None };
    if wrong != buffer {
        receiver::write(state, port, wrong, part, content);
    }
    state.work = Work::InSram { port, number, buffer, part, content: 0 };
    receiver::work(system, state)
}

/// The event names another number or buffer; the interface itself goes on as if it had been right.
fn wrong_event(system: &System, state: &mut State, number: u8, buffer: u8) -> Option<()> {
    let Work::InHost { port, number: right, buffer: right_buffer } = state.work else { return None };
    if (number, buffer) == (right, right_buffer) || state.streams[port as usize].receiver.ring.is_full() {
        return None;
    }
    let before = state.streams[port as usize].receiver.ring;
    receiver::work(system, state)?;
    state.streams[port as usize].receiver.ring = before;
    receiver::post(state, port, number, buffer)?;
    state.buffer_lost |= buffer != right_buffer;
    Some(())
}
