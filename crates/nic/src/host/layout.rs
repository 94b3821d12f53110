//! How the host's memory of one interface is laid out, and the words of commands and events.
//!
//! The numbers are those of `firmware/ncp/include/host.h` and `wire.h`; a test compares them. What lies in the control page, a
//! port's mailbox and its host words is between the host's parts alone: the control program sees it through registers.

/// Bus address of the first byte.
pub const HOST_BASE: u32 = 0x1000_0000;
/// Bus address of port 0's block.
pub const HOST_PORTS: u32 = 0x1000_1000;
/// Bytes of a port's block.
pub const HOST_PORT_BYTES: u32 = 0x8000;
/// Bus address of the registered memory of all ports.
pub const HOST_ARENAS: u32 = 0x1004_1000;
/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
/// Entries of a port's page table.
pub const PORT_PAGES: u32 = 1024;

/// The ring of events in a port's block.
pub const PORT_EVENTS: u32 = 0;
/// Its length, events of 64 bytes.
pub const PORT_EVENT_COUNT: u32 = 256;
/// The page table in a port's block.
pub const PORT_PAGE_TABLE: u32 = 0x4000;
/// What the library and the daemon tell each other about a port.
pub const PORT_WORDS: u32 = 0x5000;
/// The commands of the mailbox, [`MAILBOX_COMMANDS`] of 64 bytes.
pub const PORT_MAILBOX: u32 = 0x6000;
/// The pages of a port that was closed, until the interface has let go of them: as the page table.
pub const PORT_CLOSED_PAGES: u32 = 0x7000;
/// How many commands a mailbox holds.
pub const MAILBOX_COMMANDS: u32 = 64;

/// How many ports an interface has.
pub const PORTS: usize = 8;
/// Those that applications may open: the first and the last one are the daemon's.
pub const APPLICATION_PORTS: std::ops::Range<usize> = 1..PORTS - 1;
/// How many interfaces may speak with one another.
pub const NODES: usize = 8;

/// Words of the control page, as offsets from the start of the memory.
pub mod control {
    /// Says what this memory is.
    pub const MAGIC: u32 = 0x00;
    /// Counts resets; an engine of an older one is fenced.
    pub const EPOCH: u32 = 0x04;
    /// What the daemon asked the control program.
    pub const PING: u32 = 0x08;
    /// What it answered.
    pub const PONG: u32 = 0x0c;
    /// The interrupt that the interface raised last, 0 when the daemon took it.
    pub const INTERRUPT: u32 = 0x10;
    /// The number of this interface.
    pub const NODE: u32 = 0x14;
    /// Counts the openings of ports, for their generations.
    pub const OPENINGS: u32 = 0x18;
    /// Not 0 when the daemon has given the interface up.
    pub const GIVEN_UP: u32 = 0x1c;
    /// 1 while the daemon sleeps; who sets it to 0 wakes it.
    pub const DAEMON_SLEEPS: u32 = 0x54;
    /// 1 while the interface sleeps; who sets it to 0 rings its bell.
    pub const INTERFACE_SLEEPS: u32 = 0x20;
    /// The epoch for which the daemon asked a running interface to load its control program anew.
    pub const RELOAD: u32 = 0x24;
    /// The epoch whose control program the interface runs.
    pub const RELOADED: u32 = 0x28;
    /// Something is to be done to the interface: one of [`inject`](super::inject), 0 when it was done.
    pub const INJECT: u32 = 0x2c;
    /// When it was done, CLOCK_MONOTONIC: the low half and the high one.
    pub const INJECTED_NS: u32 = 0x30;
    /// Not 0: everybody is to end.
    pub const ENDING: u32 = 0x38;
    /// The process of the interface and when it started, three words.
    pub const INTERFACE: u32 = 0x3c;
    /// Packets that the interface's link dropped, because they cannot be packets.
    pub const DROPPED: u32 = 0x48;
    /// The PING that an interface beside a real clock knows of.
    pub const ASKED: u32 = 0x4c;
    /// For how long, microseconds of its own clock, its control program has run since.
    pub const ASKED_US: u32 = 0x50;
    /// A bit per port that was closed and whose memory the interface may still write to.
    pub const CLOSING: u32 = 0x58;
    /// The namespace in which processes have their numbers here, two words; 0 where nobody said.
    pub const PROCESSES: u32 = 0x5c;
    /// Counts what the daemon did and could not write down.
    pub const STEPS_DROPPED: u32 = 0x64;
    /// A bit per page of the arenas that is taken begins here.
    pub const PAGES_TAKEN: u32 = 0x100;
    /// Bytes of these bits, for 128 MiB.
    pub const PAGES_TAKEN_BYTES: u32 = 0x800;
}

/// Words of a port's block at [`PORT_WORDS`].
pub mod port_word {
    /// The process that has the port open, 0 for none.
    pub const OWNER: u32 = 0x00;
    /// Of whoever has the port.
    pub const GENERATION: u32 = 0x04;
    /// The epoch in which the daemon found the interface failed and posted `FAULT_DETECTED`.
    pub const FAULT_EPOCH: u32 = 0x08;
    /// A bit per service that the application uses.
    pub const SERVICES_USED: u32 = 0x0c;
    /// A bit per service that passed a self-test since the port used it first.
    pub const SERVICES_TESTED: u32 = 0x10;
    /// Counts what the library found that should not be: the daemon looks into it.
    pub const SUSPICIONS: u32 = 0x14;
    /// Commands put into the mailbox.
    pub const MAILBOX_PUT: u32 = 0x18;
    /// Commands taken out.
    pub const MAILBOX_TAKEN: u32 = 0x1c;
    /// Set while the application sleeps until an event comes.
    pub const SLEEPS: u32 = 0x20;
    /// The epoch that the library restored the port in.
    pub const RESTORED_EPOCH: u32 = 0x24;
    /// 1 when the failure was one in which the interface may have written what and where it should not.
    pub const FAULT_MAY_HAVE_WRITTEN: u32 = 0x2c;
    /// Counts messages sent and delivered.
    pub const ACTIVITY: u32 = 0x28;
    /// When the owner started, in ticks since the machine did: a low half and a high one; 0 where nobody said.
    pub const OWNER_STARTED: u32 = 0x30;
    /// How many messages the application was told have arrived, where it says so.
    pub const CONFIRMED: u32 = 0x38;
    /// How many messages it was given, where it says so.
    pub const DELIVERED: u32 = 0x3c;
    /// Ports of other nodes whose interfaces may as well be what the library's suspicions are about: a byte per node, a bit per
    /// port, two words.
    pub const SUSPECTED: u32 = 0x40;
    /// The same of those whose interface said no, which is not believed yet.
    pub const REFUSING: u32 = 0x48;
    /// Counts refusals that the library believes after all: what it suspected because of them is no fault of an interface.
    pub const WITHDRAWN: u32 = 0x50;
    /// How many commands were put into the mailbox when it was closed, and in which epoch.
    pub const CLOSE_PUT: u32 = 0x54;
    /// The epoch of the interface that was told so.
    pub const CLOSE_EPOCH: u32 = 0x58;
    /// How many events the library has taken out of the ring.
    pub const TAKEN: u32 = 0x5c;
    /// One more than the buffers that the interface has from the library; 0 where it never had one.
    pub const BUFFERS: u32 = 0x60;
}

/// What is done to an interface on purpose.
pub mod inject {
    /// Its processor goes into an endless loop.
    pub const HANG: u32 = 1;
}

/// Words of a command.
pub mod command {
    /// Begins a port.
    pub const OPEN: u32 = 1;
    /// The library verifies each message.
    pub const OPEN_VERIFIES: u32 = 1;
    /// Ends it.
    pub const CLOSE: u32 = 2;
    /// Sends a message.
    pub const SEND: u32 = 3;
    /// Gives a receive buffer.
    pub const PROVIDE: u32 = 4;
    /// Makes room in the event ring.
    pub const CONSUMED: u32 = 5;
    /// Sets the alarm.
    pub const ALARM: u32 = 6;
    /// Restores a stream.
    pub const STREAM: u32 = 7;
    /// Acknowledges.
    pub const ACCEPT: u32 = 8;
    /// Asks again.
    pub const REJECT: u32 = 9;
    /// Forgets translated pages.
    pub const FORGET_PAGES: u32 = 10;
    /// Sets a route.
    pub const ROUTE: u32 = 11;
    /// Begins to receive.
    pub const START: u32 = 12;
}

/// Kinds of events.
pub mod event {
    /// Where an event's number is.
    pub const NUMBER: usize = 15;
    /// Messages have arrived.
    pub const SENT: u32 = 1;
    /// A message is there.
    pub const RECEIVED: u32 = 2;
    /// A directed message was written.
    pub const DIRECTED: u32 = 3;
    /// The alarm.
    pub const ALARM: u32 = 4;
    /// The interface failed and is back.
    pub const FAULT_DETECTED: u32 = 5;
    /// A command that cannot be.
    pub const REFUSED: u32 = 6;
}

/// Kinds of service.
pub mod service {
    /// Into a buffer that the receiver provided.
    pub const NORMAL: u32 = 1;
    /// Into memory that the sender names.
    pub const DIRECTED: u32 = 2;
    /// Once at most, without an answer.
    pub const DATAGRAM: u32 = 3;
}

/// Flags of a send.
pub mod route {
    /// Self-test: the receiver drops the first copy.
    pub const DROP_ONCE: u32 = 1;
}

/// Outstanding sends of a port.
pub const SEND_TOKENS: usize = 16;
/// Provided buffers of a port.
pub const RECEIVE_TOKENS: usize = 32;
/// The longest message.
pub const MESSAGE_BYTES_MAX: u32 = 65536;
/// The largest size class; a buffer of class c holds 2^c bytes.
pub const SIZE_CLASS_MAX: u32 = 16;
/// The longest datagram.
pub const PACKET_DATA_BYTES: u32 = 4096;

// The blocks do not overlap.
const _: () = assert!(HOST_PORTS + PORTS as u32 * HOST_PORT_BYTES == HOST_ARENAS);
const _: () = assert!(PORT_EVENTS + PORT_EVENT_COUNT * 64 <= PORT_PAGE_TABLE);
const _: () = assert!(PORT_PAGE_TABLE + PORT_PAGES * 4 <= PORT_WORDS && PORT_WORDS < PORT_MAILBOX);
const _: () = assert!(PORT_MAILBOX + MAILBOX_COMMANDS * 64 <= PORT_CLOSED_PAGES);
const _: () = assert!(PORT_CLOSED_PAGES + PORT_PAGES * 4 <= HOST_PORT_BYTES);
const _: () = assert!(control::PAGES_TAKEN + control::PAGES_TAKEN_BYTES <= HOST_PORTS - HOST_BASE);

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: [&str; 3] = [
        include_str!("../../../../firmware/ncp/include/device.h"),
        include_str!("../../../../firmware/ncp/include/host.h"),
        include_str!("../../../../firmware/ncp/include/wire.h"),
    ];

    fn defined(name: &str) -> u32 {
        let line = HEADERS.iter().flat_map(|text| text.lines()).find_map(|line| {
            line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' ')?.split_whitespace().next()
        });
        let text = line.unwrap_or_else(|| panic!("{name} is not defined"));
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_control_program() {
        let ours = [
            ("HOST_BASE", HOST_BASE),
            ("HOST_PORTS", HOST_PORTS),
            ("HOST_PORT_BYTES", HOST_PORT_BYTES),
            ("HOST_ARENAS", HOST_ARENAS),
            ("PAGE_BYTES", PAGE_BYTES),
            ("PORT_PAGES", PORT_PAGES),
            ("PORT_EVENTS", PORT_EVENTS),
            ("PORT_EVENT_COUNT", PORT_EVENT_COUNT),
            ("PORT_PAGE_TABLE", PORT_PAGE_TABLE),
            ("MAILBOX_COMMANDS", MAILBOX_COMMANDS),
            ("PORTS", PORTS as u32),
            ("NODES", NODES as u32),
            ("COMMAND_OPEN", command::OPEN),
            ("OPEN_VERIFIES", command::OPEN_VERIFIES),
            ("COMMAND_CLOSE", command::CLOSE),
            ("COMMAND_SEND", command::SEND),
            ("COMMAND_PROVIDE", command::PROVIDE),
            ("COMMAND_CONSUMED", command::CONSUMED),
            ("COMMAND_ALARM", command::ALARM),
            ("COMMAND_STREAM", command::STREAM),
            ("COMMAND_ACCEPT", command::ACCEPT),
            ("COMMAND_REJECT", command::REJECT),
            ("COMMAND_FORGET_PAGES", command::FORGET_PAGES),
            ("COMMAND_ROUTE", command::ROUTE),
            ("COMMAND_START", command::START),
            ("EVENT_NUMBER", event::NUMBER as u32),
            ("EVENT_SENT", event::SENT),
            ("EVENT_RECEIVED", event::RECEIVED),
            ("EVENT_DIRECTED", event::DIRECTED),
            ("EVENT_ALARM", event::ALARM),
            ("EVENT_FAULT_DETECTED", event::FAULT_DETECTED),
            ("EVENT_REFUSED", event::REFUSED),
            ("SERVICE_NORMAL", service::NORMAL),
            ("SERVICE_DIRECTED", service::DIRECTED),
            ("SERVICE_DATAGRAM", service::DATAGRAM),
            ("ROUTE_DROP_ONCE", route::DROP_ONCE),
            ("SEND_TOKENS", SEND_TOKENS as u32),
            ("RECEIVE_TOKENS", RECEIVE_TOKENS as u32),
            ("MESSAGE_BYTES_MAX", MESSAGE_BYTES_MAX),
            ("SIZE_CLASS_MAX", SIZE_CLASS_MAX),
            ("PACKET_DATA_BYTES", PACKET_DATA_BYTES),
        ];
        for (name, number) in ours {
            assert_eq!(number, defined(name), "{name}");
        }
    }
}
