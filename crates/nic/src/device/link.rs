//! The link engines: one packet leaves at a time, and two buffers take turns at what arrives.

use super::registers::{isr, link, offset};
use super::{Bus, Device, HostEventKind};
use std::collections::VecDeque;

/// A packet on the link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// When its last byte left the sender.
    pub at_ns: u64,
    /// What the control program sent.
    pub bytes: Vec<u8>,
    /// The CRC-32 that the sending engine appended.
    pub crc: u32,
}

/// How many packets wait for a buffer; the link has no more room, and what comes beyond is lost.
pub(super) const WAITING_MAX: usize = 4;
/// How many packets are on the way to the device, or wait to be taken from it.
const ON_LINK_MAX: usize = 1024;

/// The link's side of the device's state.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// When the packet that is being sent has left.
    pub send_end_ns: Option<u64>,
    /// On their way here, by arrival.
    arriving: VecDeque<Packet>,
    /// Here, without a buffer.
    waiting: VecDeque<Packet>,
    /// Left, and not taken from the device yet.
    left: VecDeque<Packet>,
    /// The buffer whose turn it is: of those that are armed, the one that was armed first.
    turn: usize,
}

impl Link {
    /// What was inside of the device is lost; what is on the link is not.
    pub fn reset(&mut self) {
        self.send_end_ns = None;
        self.waiting.clear();
        self.turn = 0;
    }

    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.arriving.front().map(|packet| packet.at_ns)
    }
}

impl Device {
    /// Takes the next packet that left the device.
    pub fn outgoing(&mut self) -> Option<Packet> {
        self.state.link.left.pop_front()
    }

    /// Packets that were delivered and are in no buffer yet. A link that holds the next one back while there are some loses
    /// none.
    pub fn packets_waiting(&self) -> usize {
        self.state.link.arriving.len() + self.state.link.waiting.len()
    }

    /// A packet arrives at this time, or now if that is past. Its own time says when it left.
    pub fn deliver(&mut self, at_ns: u64, mut packet: Packet) {
        packet.at_ns = at_ns;
        let arriving = &mut self.state.link.arriving;
        if packet.bytes.len() > link::PACKET_BYTES_MAX as usize {
            self.counts.receive_too_long += 1;
            return;
        }
        if arriving.len() >= ON_LINK_MAX {
            self.counts.link_dropped += 1;
            return;
        }
        // Behind those of the same time.
        let at = arriving.partition_point(|other| other.at_ns <= at_ns);
        arriving.insert(at, packet);
    }

    pub(super) fn start_send(&mut self) {
        if self.state.link.send_end_ns.is_some() {
            self.counts.starts_while_busy += 1;
            return;
        }
        self.state.registers.set(offset::SEND_STATUS, link::BUSY);
        self.state.link.send_end_ns = Some(self.state.now_ns + self.config.timing.link_ns(self.send_bytes()));
    }

    fn send_bytes(&self) -> u32 {
        (self.state.registers.get(offset::SEND_BYTES) & !3).min(link::PACKET_BYTES_MAX)
    }

    pub(super) fn end_send(&mut self, bus: &mut impl Bus) {
        let Some(at_ns) = self.state.link.send_end_ns.take() else { return };
        if !self.is_fenced(bus, HostEventKind::Send) {
            let bytes = self.sram.slice(self.state.registers.get(offset::SEND_POINTER), self.send_bytes() as usize);
            match bytes {
                Some(bytes) if !bytes.is_empty() => {
                    self.counts.sent += 1;
                    let packet = Packet { at_ns, crc: crc32fast::hash(bytes), bytes: bytes.to_vec() };
                    if self.state.link.left.len() < ON_LINK_MAX {
                        self.state.link.left.push_back(packet);
                    } else {
                        self.counts.link_dropped += 1;
                    }
                }
                _ => self.counts.send_faults += 1,
            }
        }
        self.state.registers.set(offset::SEND_STATUS, 0);
        self.raise(bus, isr::SENT);
    }

    /// A receive buffer was provided.
    pub(super) fn arm(&mut self, bus: &mut impl Bus, buffer: usize) {
        let [_, bytes, status] = Device::receive_registers(buffer);
        // Buffers are filled in the order in which they were armed.
        if !self.is_armed(1 - buffer) {
            self.state.link.turn = buffer;
        }
        self.state.registers.set(bytes, 0);
        self.state.registers.set(status, link::ARMED);
        self.fill_buffers(bus);
    }

    /// What has arrived by now goes into a buffer, or waits for one, or is lost.
    pub(super) fn take_arrivals(&mut self, bus: &mut impl Bus) {
        while self.state.link.next_arrival_ns().is_some_and(|at_ns| at_ns <= self.state.now_ns) {
            let Some(packet) = self.state.link.arriving.pop_front() else { return };
            if self.state.link.waiting.len() >= WAITING_MAX {
                self.counts.receive_dropped += 1;
            } else {
                self.counts.receive_waited += u64::from(self.buffer_for_next().is_none());
                self.state.link.waiting.push_back(packet);
                self.fill_buffers(bus);
            }
        }
    }

    /// The buffer that was armed first, so that a program that looks at them in that order sees packets in order; one that
    /// a flip disarmed is passed over.
    fn buffer_for_next(&self) -> Option<usize> {
        let turn = self.state.link.turn;
        [turn, 1 - turn].into_iter().find(|buffer| self.is_armed(*buffer))
    }

    /// Fills armed buffers with what waits. One whose bit is stuck takes everything, the last on top.
    pub(super) fn fill_buffers(&mut self, bus: &mut impl Bus) {
        while let Some(buffer) = self.buffer_for_next() {
            let Some(packet) = self.state.link.waiting.pop_front() else { return };
            let [pointer, bytes, status] = Device::receive_registers(buffer);
            let address = self.state.registers.get(pointer);
            if self.sram.put(address, &packet.bytes).is_none() {
                // The buffer stays armed: the next packet fares no better until the program points it elsewhere.
                self.counts.receive_faults += 1;
                continue;
            }
            let is_damaged = crc32fast::hash(&packet.bytes) != packet.crc;
            self.counts.received += 1;
            self.counts.received_damaged += u64::from(is_damaged);
            self.state.registers.set(bytes, packet.bytes.len() as u32);
            self.state.registers.set(status, if is_damaged { link::DAMAGED } else { 0 });
            self.state.link.turn = 1 - buffer;
            self.raise(bus, Device::received_bit(buffer));
        }
    }
}
