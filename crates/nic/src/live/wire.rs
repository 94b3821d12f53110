//! The link beside a real clock: within a process, over UDP on the loopback, or over a pair of veth devices.
//!
//! On the wire a packet is a *frame*: its length (4 bytes), its bytes, and the CRC-32 that the sending engine appended (4
//! bytes), all little endian. What follows is padding, as Ethernet adds it. A frame that cannot be is dropped and counted.

use super::Error;
use crate::device::Packet;
use crate::device::registers::link::PACKET_BYTES_MAX;
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surefoot_sys::packet::{Address, PacketSocket};

/// The packet type of frames on Ethernet: the second of those that IEEE 802 leaves to local experiments.
pub const PACKET_KIND: u16 = 0x88b6;

/// The longest frame.
pub const FRAME_BYTES_MAX: usize = PACKET_BYTES_MAX as usize + 8;

/// What an interface's device needs at least, bytes: a packet may not be cut into pieces.
pub const MTU_MIN: usize = FRAME_BYTES_MAX;

/// Frames that wait within a process; what comes beyond is lost.
const QUEUE_MAX: usize = 256;

/// Writes a packet as a frame.
pub fn encode(packet: &Packet, frame: &mut Vec<u8>) {
    frame.clear();
    frame.extend_from_slice(&(packet.bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(&packet.bytes);
    frame.extend_from_slice(&packet.crc.to_le_bytes());
}

/// Reads a frame; `None` for what is none.
pub fn decode(frame: &[u8]) -> Option<Packet> {
    let (length, rest) = frame.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > PACKET_BYTES_MAX as usize {
        return None;
    }
    let (bytes, rest) = rest.split_at_checked(length)?;
    let crc = u32::from_le_bytes(*rest.first_chunk::<4>()?);
    Some(Packet { at_ns: 0, bytes: bytes.to_vec(), crc })
}

/// What carries frames to the other interface.
pub enum Wire {
    /// Within this process.
    Memory(MemoryWire),
    /// A UDP socket that is connected to the other's.
    Udp(UdpSocket),
    /// Packets on a device of Ethernet, to this hardware address.
    Packet(PacketSocket, Address),
}

/// One end of a wire within a process.
pub struct MemoryWire {
    here: Arc<Mutex<VecDeque<Packet>>>,
    there: Arc<Mutex<VecDeque<Packet>>>,
    /// Wakes the other end.
    bell: Box<dyn Fn() + Send>,
}

/// What [`Wire::receive`] found.
pub enum Arrival {
    /// Nothing.
    Nothing,
    /// A packet.
    Packet(Packet),
    /// What is no frame.
    Strange,
}

impl Wire {
    /// Both ends of a wire within this process; each bell wakes the interface at that end.
    pub fn memory(bells: [Box<dyn Fn() + Send>; 2]) -> [Wire; 2] {
        let queues: [Arc<Mutex<VecDeque<Packet>>>; 2] = Default::default();
        let [first, second] = bells;
        let end = |here: usize, bell| {
            let (here, there) = (Arc::clone(&queues[here]), Arc::clone(&queues[1 - here]));
            Wire::Memory(MemoryWire { here, there, bell })
        };
        [end(0, second), end(1, first)]
    }

    /// Two UDP sockets on the loopback that are connected with each other, so that nobody else is heard.
    ///
    /// # Errors
    /// What the system says.
    pub fn udp_pair() -> Result<[UdpSocket; 2], Error> {
        let action = "make a pair of UDP sockets on 127.0.0.1";
        let make = || UdpSocket::bind("127.0.0.1:0").map_err(Error::system(action));
        let pair = [make()?, make()?];
        for (one, other) in [(0, 1), (1, 0)] {
            let address = pair[other].local_addr().map_err(Error::system(action))?;
            pair[one].connect(address).map_err(Error::system(action))?;
            pair[one].set_nonblocking(true).map_err(Error::system(action))?;
            let bytes: libc::c_int = 4 << 20;
            // The kernel gives what it may; less only means more packets that are sent again.
            // SAFETY: the kernel reads one number, whose size it is told.
            unsafe {
                let size = size_of::<libc::c_int>() as libc::socklen_t;
                let at = (&raw const bytes).cast();
                libc::setsockopt(pair[one].as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, at, size);
            }
        }
        // What came before the sockets were connected may be anybody's.
        let mut strange = [0; 1];
        pair.iter().for_each(|socket| while socket.recv(&mut strange).is_ok() {});
        Ok(pair)
    }

    /// The UDP socket that the parent process left open under this number.
    ///
    /// # Errors
    /// When there is none.
    pub fn inherited_udp(descriptor: RawFd) -> Result<Wire, Error> {
        // SAFETY: the call takes a number; it fails where no descriptor is open under it.
        let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(Error::last(format!("use the socket with number {descriptor}")));
        }
        // SAFETY: the kernel has just given it to us.
        Ok(Wire::Udp(unsafe { OwnedFd::from_raw_fd(copy) }.into()))
    }

    /// Packets on a device of this network namespace, to another one's hardware address.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without CAP_NET_RAW, and when there is no such device.
    pub fn packets(device: &str, to: Address) -> Result<Wire, Error> {
        Ok(Wire::Packet(PacketSocket::open(device, PACKET_KIND)?, to))
    }

    /// Sends a packet; one that cannot be sent now is lost, which the control programs make good.
    pub fn send(&mut self, packet: &Packet, frame: &mut Vec<u8>) {
        match self {
            Wire::Memory(wire) => {
                let mut queue = wire.there.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.len() < QUEUE_MAX {
                    queue.push_back(packet.clone());
                }
                drop(queue);
                (wire.bell)();
            }
            Wire::Udp(socket) => {
                encode(packet, frame);
                let _ = socket.send(frame);
            }
            Wire::Packet(socket, to) => {
                encode(packet, frame);
                let _ = socket.send(*to, frame);
            }
        }
    }

    /// The next packet, without waiting.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Arrival {
        let bytes = match self {
            Wire::Memory(wire) => {
                let packet = wire.here.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                return packet.map_or(Arrival::Nothing, Arrival::Packet);
            }
            Wire::Udp(socket) => socket.recv(buffer).ok(),
            Wire::Packet(socket, to) => match socket.receive(buffer, Duration::ZERO) {
                // Another station's, or to all: not from the other end.
                Ok(Some(received)) if received.from != *to || !received.is_to_us => return Arrival::Strange,
                Ok(received) => received.map(|received| received.bytes),
                Err(_) => None,
            },
        };
        match bytes.map(|bytes| decode(&buffer[..bytes.min(buffer.len())])) {
            None => Arrival::Nothing,
            Some(None) => Arrival::Strange,
            Some(Some(packet)) => Arrival::Packet(packet),
        }
    }

    /// What becomes readable when a packet is there; `None` for a wire that rings the doorbell.
    pub fn descriptor(&self) -> Option<RawFd> {
        match self {
            Wire::Memory(_) => None,
            Wire::Udp(socket) => Some(socket.as_raw_fd()),
            Wire::Packet(socket, _) => Some(socket.as_raw_fd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_nothing_else_is_one() {
        let packet = Packet { at_ns: 0, bytes: (0..=255).collect(), crc: 0x1234_5678 };
        let mut frame = Vec::new();
        encode(&packet, &mut frame);
        assert_eq!(decode(&frame), Some(packet.clone()));
        for length in 0..frame.len() {
            assert_eq!(decode(&frame[..length]), None, "{length} bytes");
        }
        frame.extend_from_slice(&[0; 30]);
        assert_eq!(decode(&frame), Some(packet), "with padding");
        assert_eq!(decode(&[0; 64]), None, "of no bytes");
        let mut long = vec![1; FRAME_BYTES_MAX + 1];
        long[..4].copy_from_slice(&(PACKET_BYTES_MAX + 1).to_le_bytes());
        assert_eq!(decode(&long), None);
    }

    #[test]
    fn udp_carries_the_longest_packet() {
        let [one, other] = Wire::udp_pair().unwrap().map(Wire::Udp);
        let (mut one, mut other) = (one, other);
        let packet = Packet { at_ns: 0, bytes: vec![7; PACKET_BYTES_MAX as usize], crc: 9 };
        one.send(&packet, &mut Vec::new());
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let found = (0..1000).find_map(|_| match other.receive(&mut buffer) {
            Arrival::Packet(packet) => Some(packet),
            _ => {
                std::thread::sleep(Duration::from_millis(1));
                None
            }
        });
        assert_eq!(found, Some(packet));
    }
}
