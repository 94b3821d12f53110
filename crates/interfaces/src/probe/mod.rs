//! Probes of a neighbour: does it answer, and how long does that take?
//!
//! Three kinds. Packets of Surefoot's own go through the interface, the way and a process at the other end and back; that process is
//! `surefoot nic health --answer`. Requests of ARP and echoes of ICMP are answered by the neighbour's kernel, and need nothing there.
//!
//! A round trip ends when this process has the answer, so it holds the time that the scheduler takes to wake it.

pub mod frame;

use crate::Error;
use frame::Frame;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{Digits, InterfaceProbe, ProbeKind, RoundTrips};
use surefoot_sys::packet::{Address, EchoSocket, PacketSocket};

/// Probes of one round.
pub const COUNT_MAX: u32 = 10_000;
/// A round whose first probes are all unanswered is not waited out one by one.
const SILENT_MAX: u64 = 3;
/// The longest packet that is looked at.
const BUFFER_BYTES: usize = 2048;

/// Whom to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// The process that answers at this hardware address.
    Packet(Address),
    /// The kernel of who has this address, on the same link.
    Arp(Ipv4Addr),
    /// The kernel of who has this address.
    Icmp(IpAddr),
}

impl Peer {
    /// Reads `02:00:00:00:00:01`, `192.0.2.7`, `arp:192.0.2.7` or `icmp:2001:db8::7`.
    ///
    /// # Errors
    /// [`Error::Option`] with what can be written.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind @ ("arp" | "icmp" | "packet"), rest)) => (kind, rest),
            _ => ("", text),
        };
        let hardware = || mac(rest).map(Peer::Packet);
        let peer = match kind {
            "packet" => hardware(),
            "arp" => rest.parse::<Ipv4Addr>().ok().map(Peer::Arp),
            "icmp" => rest.parse::<IpAddr>().ok().map(Peer::Icmp),
            _ => hardware().or_else(|| rest.parse::<IpAddr>().ok().map(Peer::Icmp)),
        };
        peer.ok_or_else(|| Error::Option {
            option: "--probe",
            why: format!(
                "'{}' is no neighbour; write a hardware address such as 02:00:00:00:00:01 (there answers `surefoot nic \
                 health --answer`), an IP address for an echo of ICMP, or arp: and an IPv4 address",
                surefoot_model::clipped(text, 80)
            ),
        })
    }

    /// How it is probed.
    pub fn kind(&self) -> ProbeKind {
        match self {
            Peer::Packet(_) => ProbeKind::Packet,
            Peer::Arp(_) => ProbeKind::Arp,
            Peer::Icmp(_) => ProbeKind::Icmp,
        }
    }

    /// Its address.
    pub fn name(&self) -> String {
        match self {
            Peer::Packet(address) => address_text(*address),
            Peer::Arp(ip) => ip.to_string(),
            Peer::Icmp(ip) => ip.to_string(),
        }
    }
}

/// A hardware address as it is written.
pub fn address_text(address: Address) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn mac(text: &str) -> Option<Address> {
    // A number may begin with a plus sign, a byte of an address may not.
    let is_byte = |byte: &str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |text: &str| is_byte(text).then(|| text.hex_digits::<u8>()).flatten();
    let bytes: Vec<u8> = text.split(':').map(byte).collect::<Option<_>>()?;
    // A group has no one who answers.
    let address: Address = bytes.try_into().ok()?;
    (address[0] & 1 == 0).then_some(address)
}

/// The hardware address of an interface of this host.
///
/// # Errors
/// [`Error::File`] where the kernel names none.
pub fn own_address(root: &Root, interface: &str) -> Result<Address, Error> {
    let path = root.sys("class/net").join(interface).join("address");
    let text = crate::read::text(root, &path);
    text.as_deref().and_then(mac).ok_or_else(|| Error::File { path, why: "no Ethernet address".into() })
}

/// How a round is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Probes.
    pub count: u32,
    /// Time between two of them.
    pub every: Duration,
    /// How long the answer of one is waited for.
    pub wait: Duration,
}

impl Default for Round {
    fn default() -> Self {
        Round { count: 20, every: Duration::from_millis(10), wait: Duration::from_secs(1) }
    }
}

/// The socket for each kind.
#[derive(Debug)]
enum ProbeSocket {
    Packet(PacketSocket, Address),
    Arp(PacketSocket, Address, Ipv4Addr),
    Icmp(EchoSocket, IpAddr),
}

/// Probes one neighbour through one interface.
#[derive(Debug)]
pub struct Prober {
    line: ProbeSocket,
    peer: Peer,
    token: u64,
    number: u32,
    has_answered: bool,
}

impl Prober {
    /// Opens the sockets.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without CAP_NET_RAW, [`Error::Host`] where there is no such interface.
    pub fn open(root: &Root, interface: &str, peer: Peer) -> Result<Self, Error> {
        let packets = |kind| PacketSocket::open(interface, kind).map_err(Error::of_host);
        let line = match &peer {
            Peer::Packet(to) => ProbeSocket::Packet(packets(frame::PACKET_KIND)?, *to),
            Peer::Arp(ip) => ProbeSocket::Arp(packets(frame::ARP_KIND)?, own_address(root, interface)?, *ip),
            Peer::Icmp(ip) => ProbeSocket::Icmp(EchoSocket::open(interface, *ip).map_err(Error::of_host)?, *ip),
        };
        // Seeded by the system, so that no two sessions on a link take each other's answers.
        let token = RandomState::new().hash_one(interface);
        Ok(Prober { line, peer, token, number: 0, has_answered: false })
    }

    /// Says that the neighbour is known to have answered, as a kept baseline shows.
    pub fn known(&mut self) {
        self.has_answered = true;
    }

    /// One round of probes.
    ///
    /// # Errors
    /// [`Error::Host`] where the interface no longer exists.
    pub fn round(&mut self, round: Round) -> Result<InterfaceProbe, Error> {
        // ARP has no numbers: only one request may be out, and what came too late is thrown away before the next.
        let is_one_by_one = matches!(self.line, ProbeSocket::Arp(..));
        let mut tally = Tally::default();
        let mut out: VecDeque<(u32, Instant)> = VecDeque::new();
        for _ in 0..round.count.min(COUNT_MAX) {
            let begun = Instant::now();
            if is_one_by_one {
                while matches!(self.receive(Duration::ZERO)?, Received::Answer(_)) {}
            }
            match self.send() {
                Ok(number) => {
                    tally.sent += 1;
                    out.push_back((number, begun));
                }
                Err(error) if is_gone(&error) => return Err(gone(&self.peer, error)),
                Err(_) => tally.refused += 1,
            }
            let until = if is_one_by_one { round.wait } else { round.every };
            self.take(&mut out, &mut tally, begun + until, is_one_by_one)?;
            let is_silent = tally.trips.is_empty() && tally.sent >= SILENT_MAX;
            if is_one_by_one && is_silent && out.len() as u64 == tally.sent {
                break;
            }
            std::thread::sleep((begun + round.every).saturating_duration_since(Instant::now()));
        }
        if !is_one_by_one && let Some((_, last)) = out.back().copied() {
            self.take(&mut out, &mut tally, last + round.wait, true)?;
        }
        let too_late = |trip: &u64| u128::from(*trip) > round.wait.as_nanos();
        tally.trips.retain(|trip| !too_late(trip));
        self.has_answered |= !tally.trips.is_empty();
        Ok(InterfaceProbe {
            peer: self.peer.name(),
            kind: self.peer.kind(),
            sent_count: tally.sent,
            refused_count: tally.refused,
            answered_count: tally.trips.len() as u64,
            wait_ns: u64::try_from(round.wait.as_nanos()).unwrap_or(u64::MAX),
            round_trips: round_trips(&mut tally.trips),
            baseline: None,
            has_answered: self.has_answered,
            other_version_count: tally.other_version,
        })
    }

    /// Takes answers until this time; or until all have come, where nothing else is to be waited for.
    fn take(
        &self,
        out: &mut VecDeque<(u32, Instant)>,
        tally: &mut Tally,
        until: Instant,
        ends_early: bool,
    ) -> Result<(), Error> {
        while !(out.is_empty() && ends_early) {
            let left = until.saturating_duration_since(Instant::now());
            let received = self.receive(left)?;
            tally.other_version += u64::from(received == Received::OtherVersion);
            if let Received::Answer(number) = received {
                // An answer of ARP is that of the newest request.
                let at = match number {
                    Some(number) => out.iter().position(|(sent, _)| *sent == number),
                    None => out.len().checked_sub(1),
                };
                if let Some((_, sent)) = at.and_then(|at| out.remove(at)) {
                    tally.trips.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<u32> {
        self.number = self.number.wrapping_add(1);
        let (token, number) = (self.token, self.number);
        match &self.line {
            ProbeSocket::Packet(socket, to) => {
                socket.send(*to, &frame::Probe { is_answer: false, token, number }.bytes())?;
            }
            ProbeSocket::Arp(socket, own, ip) => socket.send([0xff; 6], &frame::arp_request(*own, *ip))?,
            ProbeSocket::Icmp(socket, ip) => socket.send(&frame::echo_request(*ip, token, number))?,
        }
        Ok(number)
    }

    /// What comes next within this time.
    fn receive(&self, wait: Duration) -> Result<Received, Error> {
        let mut buffer = [0; BUFFER_BYTES];
        let answer = |number: Option<u32>| number.map_or(Received::Nothing, |number| Received::Answer(Some(number)));
        let received = match &self.line {
            ProbeSocket::Packet(socket, to) => socket.receive(&mut buffer, wait).map(|packet| {
                let packet = packet.filter(|packet| packet.from == *to);
                match packet.map(|packet| frame::Probe::parse(&buffer[..packet.bytes])) {
                    Some(Frame::Probe(probe)) => {
                        answer((probe.is_answer && probe.token == self.token).then_some(probe.number))
                    }
                    // It may answer somebody else, and still says of which version it is.
                    Some(Frame::OtherVersion { is_request: false }) => Received::OtherVersion,
                    _ => Received::Nothing,
                }
            }),
            ProbeSocket::Arp(socket, own, ip) => socket.receive(&mut buffer, wait).map(|packet| {
                let is_it = packet.is_some_and(|packet| frame::is_arp_answer(&buffer[..packet.bytes], *own, *ip));
                if is_it { Received::Answer(None) } else { Received::Nothing }
            }),
            ProbeSocket::Icmp(socket, ip) => socket
                .receive(&mut buffer, wait)
                .map(|bytes| answer(bytes.and_then(|bytes| frame::echo_answer(*ip, &buffer[..bytes], self.token)))),
        };
        match received {
            Ok(received) => Ok(received),
            Err(error) if is_gone(&error) => Err(gone(&self.peer, error)),
            // That the interface is down, say: the counts tell it.
            Err(_) => Ok(Received::Nothing),
        }
    }
}

/// What a socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    /// The time has passed, or something else came.
    Nothing,
    /// An answer, and its number where it has one.
    Answer(Option<u32>),
    /// A probe's answer of another version of Surefoot.
    OtherVersion,
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

fn gone(peer: &Peer, source: io::Error) -> Error {
    Error::Host(surefoot_hostfs::Error::System {
        action: format!("probe {}", peer.name()),
        source,
        remedy: "; the interface no longer exists",
    })
}

#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    refused: u64,
    other_version: u64,
    trips: Vec<u64>,
}

/// The percentiles of round trips; `None` without any.
pub fn round_trips(trips: &mut [u64]) -> Option<RoundTrips> {
    trips.sort_unstable();
    // The least that so many of a hundred do not exceed.
    let at = |hundredth: usize| trips[(trips.len() * hundredth).div_ceil(100).max(1) - 1];
    let max_ns = *trips.last()?;
    Some(RoundTrips { p50_ns: at(50), p99_ns: at(99), max_ns, count: trips.len() as u64 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn neighbours_are_read_and_nonsense_is_named() {
        assert_eq!(Peer::parse("02:00:00:00:00:0a").unwrap(), Peer::Packet([2, 0, 0, 0, 0, 10]));
        assert_eq!(Peer::parse("192.0.2.7").unwrap().kind(), ProbeKind::Icmp);
        assert_eq!(Peer::parse("2001:db8::7").unwrap().name(), "2001:db8::7");
        assert_eq!(Peer::parse("arp:192.0.2.7").unwrap(), Peer::Arp(Ipv4Addr::new(192, 0, 2, 7)));
        assert_eq!(Peer::parse("icmp:::1").unwrap().name(), "::1");
        for bad in [
            "",
            "eth0",
            "arp:2001:db8::7",
            "02:00:00:00:00",
            "+2:00:00:00:00:0a",
            "ff:ff:ff:ff:ff:ff",
            "packet:1.2.3.4",
        ] {
            let error = Peer::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--probe: '{bad}' is no neighbour; write")), "{error}");
        }
    }

    #[test]
    fn percentiles_are_the_least_that_so_many_do_not_exceed() {
        assert_eq!(round_trips(&mut []), None);
        let one = round_trips(&mut [7]).unwrap();
        assert_eq!((one.p50_ns, one.p99_ns, one.max_ns, one.count), (7, 7, 7, 1));
        let mut many: Vec<u64> = (1..=200).rev().collect();
        let many = round_trips(&mut many).unwrap();
        assert_eq!((many.p50_ns, many.p99_ns, many.max_ns, many.count), (100, 198, 200, 200));
    }
}
