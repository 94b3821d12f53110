//! What a probe looks like on the wire: a packet of Surefoot's own, an ARP request, an ICMP echo.

use std::net::{IpAddr, Ipv4Addr};
use surefoot_sys::packet::Address;

/// The packet type of Surefoot's probes: the first that IEEE leaves to local experiments.
pub const PACKET_KIND: u16 = 0x88b5;
/// The packet type of ARP.
pub const ARP_KIND: u16 = 0x0806;
/// The least that Ethernet carries behind its header.
const LEAST_BYTES: usize = 46;
/// What a probe of Surefoot's begins with, and the version of the rest.
const MAGIC: &[u8; 4] = b"SFNP";
const VERSION: u8 = 1;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

/// A probe of Surefoot's own: magic, version, direction, two bytes of zeros, the session's token, its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Whether it is the answer.
    pub is_answer: bool,
    /// Tells the probes of one session from those of others.
    pub token: u64,
    /// Its number in the session.
    pub number: u32,
}

impl Probe {
    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, if self.is_answer { ANSWER } else { REQUEST }, 0, 0]);
        bytes.extend(self.token.to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.resize(LEAST_BYTES, 0);
        bytes
    }

    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Frame {
        let Some(head) = bytes.get(..8).filter(|head| head.starts_with(MAGIC)) else { return Frame::Strange };
        if head[4] != VERSION {
            // The direction stays where it is in every version.
            return Frame::OtherVersion { is_request: head[5] == REQUEST };
        }
        let numbers = || {
            let token = u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
            Some((token, u32::from_be_bytes(*bytes.get(16..)?.first_chunk()?)))
        };
        match (head[5], numbers()) {
            (direction @ (REQUEST | ANSWER), Some((token, number))) => {
                Frame::Probe(Probe { is_answer: direction == ANSWER, token, number })
            }
            _ => Frame::Strange,
        }
    }

    /// What is answered to a request of another version, whose token cannot be read: an answer of this version to no request.
    pub fn of_this_version() -> Self {
        Probe { is_answer: true, token: 0, number: 0 }
    }
}

/// What comes by the packet type of Surefoot's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A probe.
    Probe(Probe),
    /// A probe of a version that is not known.
    OtherVersion {
        /// Whether it is no answer.
        is_request: bool,
    },
    /// Anything else.
    Strange,
}

/// Who has this address? From nobody, so that no address of ours is needed and nobody notes one.
pub fn arp_request(own: Address, wanted: Ipv4Addr) -> Vec<u8> {
    // Ethernet, IPv4, lengths of their addresses, request.
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, 1];
    bytes.extend(own);
    bytes.extend(Ipv4Addr::UNSPECIFIED.octets());
    bytes.extend([0; 6]);
    bytes.extend(wanted.octets());
    bytes.resize(LEAST_BYTES, 0);
    bytes
}

/// Whether this is the answer of the one who has the address, to us.
pub fn is_arp_answer(bytes: &[u8], own: Address, wanted: Ipv4Addr) -> bool {
    let is_answer = bytes.get(..8) == Some(&[0, 1, 8, 0, 6, 4, 0, 2]);
    is_answer && bytes.get(14..18) == Some(&wanted.octets()) && bytes.get(18..24) == Some(&own)
}

/// An echo request: 8 bytes of header, the token behind.
pub fn echo_request(to: IpAddr, token: u64, number: u32) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(&token.to_be_bytes()[..2]);
    bytes.extend((number as u16).to_be_bytes());
    bytes.extend(token.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    if to.is_ipv4() {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    // The kernel sums up ICMPv6, because the addresses are part of it.
    bytes
}

/// The number of the echo that this message answers; that of IPv4 has its header before it.
pub fn echo_answer(from: IpAddr, bytes: &[u8], token: u64) -> Option<u32> {
    let (kind, message) = match from {
        IpAddr::V4(_) => (0, bytes.get(usize::from(bytes.first()? & 0xf) * 4..)?),
        IpAddr::V6(_) => (129, bytes),
    };
    let is_ours = message.first() == Some(&kind) && message.get(8..16)? == token.to_be_bytes();
    is_ours.then_some(u32::from_be_bytes(*message.get(16..)?.first_chunk()?))
}

/// The sum of ones of ICMP.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let request = echo_request(V4, 7, 9);
        assert_eq!(checksum(&request), 0, "a message with its sum sums up to zero");
    }

    #[test]
    fn an_echo_is_known_by_its_token() {
        let mut answer = echo_request(V4, 7, 9);
        answer[0] = 0;
        let with_header = [vec![0x45; 20], answer].concat();
        assert_eq!(echo_answer(V4, &with_header, 7), Some(9));
        assert_eq!(echo_answer(V4, &with_header, 8), None);
        let six = "::1".parse().unwrap();
        let mut answer = echo_request(six, 7, 9);
        assert_eq!((echo_answer(six, &answer, 7), answer[0]), (None, 128), "the request is no answer");
        answer[0] = 129;
        assert_eq!(echo_answer(six, &answer, 7), Some(9));
    }

    #[test]
    fn an_answer_of_arp_is_of_the_one_who_was_asked_for() {
        let (own, wanted) = ([2; 6], Ipv4Addr::new(192, 0, 2, 7));
        let mut answer = arp_request(own, wanted);
        assert!(!is_arp_answer(&answer, own, wanted), "a request");
        answer[7] = 2;
        answer[14..18].copy_from_slice(&wanted.octets());
        answer[18..24].copy_from_slice(&own);
        assert!(is_arp_answer(&answer, own, wanted));
        assert!(!is_arp_answer(&answer, own, Ipv4Addr::new(192, 0, 2, 8)) && !is_arp_answer(&answer, [3; 6], wanted));
    }

    proptest! {
        #[test]
        fn a_probe_reads_back_and_nothing_that_comes_panics(
            is_answer: bool, token: u64, number: u32, hostile in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let probe = Probe { is_answer, token, number };
            prop_assert_eq!(Probe::parse(&probe.bytes()), Frame::Probe(probe));
            for end in 0..20 {
                prop_assert_eq!(Probe::parse(&probe.bytes()[..end]), Frame::Strange);
            }
            let mut other = probe.bytes();
            other[4] = VERSION + 1;
            prop_assert_eq!(Probe::parse(&other), Frame::OtherVersion { is_request: !is_answer });
            let _ = (Probe::parse(&hostile), echo_answer(V4, &hostile, token), is_arp_answer(&hostile, [0; 6], Ipv4Addr::LOCALHOST));
        }
    }
}
