//! A counterexample in words: what each step does, one line each.

use super::state::{Event, State, Violation, Work};
use super::{Corruption, Step, System, TOKENS};
use stateright::Path;
use std::fmt::Write;

/// The steps of a path, numbered, and what is wrong at its end.
pub fn of(system: &System, property: &str, path: Path<State, Step>) -> String {
    let mut story = format!("violated: {property}\n");
    let end = *path.last_state();
    let steps = path.into_vec().into_iter().filter_map(|(before, step)| Some((before, step?)));
    for (number, (before, step)) in steps.enumerate() {
        let port = if system.size.ports > 1 { port_of(&before, step) } else { String::new() };
        writeln!(story, "{:3}. {port}{}", number + 1, words(&before, step)).expect("a String takes any text");
    }
    writeln!(story, "     {}", outcome(property, &end)).expect("a String takes any text");
    story
}

fn outcome(property: &str, state: &State) -> String {
    match state.violation {
        Some(Violation::Duplicate { message, .. }) => format!("The application gets message {message} a second time."),
        Some(Violation::Gap { message, .. }) => {
            format!("The application gets message {message} before an earlier one.")
        }
        Some(Violation::Corrupted { .. }) => "The application gets content that nobody sent.".into(),
        Some(Violation::EarlyCallback { message, .. }) => {
            format!("Library A drops its copy of message {message}, which the receiving host does not have.")
        }
        None if property == TOKENS => "A buffer is at two places at once, or a token at none.".into(),
        None => {
            let stream = &state.streams[0];
            let (sent, delivered) = (stream.sender.sent, stream.receiver.delivered);
            format!("Of {sent} messages sent {delivered} were delivered, and no fair way leads to the end from here.")
        }
    }
}

fn port_of(before: &State, step: Step) -> String {
    let port = match step {
        Step::HandOver { port }
        | Step::Send { port, .. }
        | Step::TakeAck { port, .. }
        | Step::TakeNack { port, .. }
        | Step::PollA { port, .. }
        | Step::RestoreA { port }
        | Step::Receive { port, .. }
        | Step::PollB { port, .. }
        | Step::RestoreB { port }
        | Step::Restate { port }
        | Step::TellA { port }
        | Step::TellB { port } => Some(port),
        Step::Work => super::receiver::work_port(before.work),
        _ => None,
    };
    port.map_or_else(String::new, |port| format!("port {port}: "))
}

fn words(before: &State, step: Step) -> String {
    let stream = |port: u8| &before.streams[port as usize];
    match step {
        Step::HandOver { port } => {
            let host = &stream(port).sender;
            let (verb, message) =
                if host.posted < host.sent { ("restores", host.posted) } else { ("sends", host.sent) };
            format!("Library A {verb} message {}.", message + 1)
        }
        Step::Send { packet, .. } => {
            format!("NIC A sends packet {} of message {} with number {}.", packet.part, packet.content, packet.sequence)
        }
        Step::Receive { port, packet } => {
            let closed = if stream(port).receiving.open { "" } else { ", which answers that the port is closed" };
            format!("Packet {} of number {} arrives at NIC B{closed}.", packet.part, packet.sequence)
        }
        Step::TakeAck { number, proven, .. } => {
            format!("ACK {number}{} arrives at NIC A, which posts SENT.", if proven { "" } else { " without proof" })
        }
        Step::TakeNack { number, .. } => format!("A NACK arrives at NIC A: it continues with number {number}."),
        Step::PollA { port, at } => {
            format!("Library A takes {}.", event(stream(port).sender.ring.events()[at as usize]))
        }
        Step::PollB { port, at } => {
            format!("Library B takes {}.", event(stream(port).receiver.ring.events()[at as usize]))
        }
        Step::RestoreA { .. } => "Library A opens its port at the new NIC A.".into(),
        Step::RestoreB { port } => {
            format!("Library B restores: message {} comes next, and all buffers.", stream(port).receiver.delivered + 1)
        }
        Step::Restate { port } => {
            format!("Library B says that it waits for message {}.", stream(port).receiver.delivered + 1)
        }
        Step::Work => format!("NIC B {}.", works(before.work)),
        Step::Ghost => format!("The old NIC B, which nobody fenced, {}.", works(before.ghost)),
        Step::CrashA => "NIC A stops, and is given up by the daemon.".into(),
        Step::CrashB => "NIC B stops, or is only suspected, and is given up by the daemon.".into(),
        Step::ReloadA => "The daemon reloads NIC A.".into(),
        Step::ReloadB => "The daemon reloads NIC B.".into(),
        Step::TellA { .. } => "The daemon posts FAULT_DETECTED to library A.".into(),
        Step::TellB { .. } => "The daemon posts FAULT_DETECTED to library B.".into(),
        Step::Corrupt(corruption) => format!("A bit flips: {}.", corrupted(corruption)),
    }
}

fn event(event: Event) -> String {
    match event {
        Event::None => "nothing".into(),
        Event::Sent { number, .. } => format!("SENT up to message {number}"),
        Event::Received { number, buffer } => format!("RECEIVED number {number} in buffer {buffer}"),
        Event::FaultDetected { epoch } => format!("FAULT_DETECTED of epoch {epoch}"),
    }
}

fn works(work: Work) -> String {
    match work {
        Work::Idle => "does nothing".into(),
        Work::InSram { number, buffer, part, .. } => {
            format!("writes packet {part} of number {number} to buffer {buffer} in the host")
        }
        Work::InHost { number, buffer, .. } => format!("posts RECEIVED number {number} in buffer {buffer}"),
        Work::Posted { .. } => "sends the ACK".into(),
    }
}

fn corrupted(corruption: Corruption) -> String {
    match corruption {
        Corruption::WrongPacket { packet, .. } => format!(
            "NIC A sends a packet {} with number {} and the content of message {} (0: garbage)",
            packet.part, packet.sequence, packet.content
        ),
        Corruption::FalseSent { number, .. } => format!("NIC A posts SENT up to message {number} without an ACK"),
        Corruption::WrongData { buffer } => {
            format!("NIC B writes garbage, or to buffer {buffer} what belongs elsewhere")
        }
        Corruption::WrongEvent { number, buffer } => {
            format!("NIC B posts its event as RECEIVED number {number} in buffer {buffer}")
        }
        Corruption::FalseAck { number, .. } => format!("NIC B sends ACK {number} for what it does not have"),
        Corruption::WrongExpected { number, .. } => format!("NIC B waits for number {number} from now on"),
    }
}
