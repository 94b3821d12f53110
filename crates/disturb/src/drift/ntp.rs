//! Asking a time server, by the simple form of the protocol (RFC 4330, in version 4's packet, RFC 5905): one question, one answer.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of a packet without extensions.
pub const PACKET: usize = 48;
/// From the protocol's epoch, 1900, to that of Unix.
const EPOCHS_S: u64 = 2_208_988_800;
/// Leap indicator 0, version 4, mode 3: a client.
const CLIENT: u8 = 0o43;
const SERVER_MODE: u8 = 4;
/// A server that says so is not synchronised itself.
const LEAP_UNKNOWN: u8 = 3;
const STRATUM_MOST: u8 = 15;

/// Why an answer is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Not a packet of this protocol.
    #[error("{0} bytes, a packet has 48 or more")]
    Short(usize),
    /// Not from a server.
    #[error("mode {0} is no server's answer")]
    Mode(u8),
    /// The answer to another question, or none that was asked.
    #[error("it answers another question")]
    OtherQuestion,
    /// The server refuses, and says by which word.
    #[error("the server refuses ({})", .0.escape_ascii())]
    Refused([u8; 4]),
    /// The server's own clock is not set.
    #[error("the server's own clock is not synchronised")]
    Unsynchronised,
    /// A time of zero, which says that there is none.
    #[error("the server sent no time")]
    NoTime,
    /// It was sent before it was asked, or left before it came.
    #[error("its times contradict each other")]
    Contradicts,
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// By how much the server's clock is ahead of the one that asked.
    pub ahead_ns: i64,
    /// The time on the way, both ways: `ahead_ns` is wrong by at most half of it.
    pub delay_ns: u64,
}

/// A question. `cookie` comes back with the answer: an arbitrary number, so that nobody who has not seen it can answer.
#[must_use]
pub fn question(cookie: u64) -> [u8; PACKET] {
    let mut packet = [0; PACKET];
    packet[0] = CLIENT;
    packet[40..].copy_from_slice(&cookie.to_be_bytes());
    packet
}

/// What the answer to the question with this cookie says, which left and came at these times of the asking clock.
///
/// # Errors
/// It is none that a time can be taken from.
pub fn answer(packet: &[u8], cookie: u64, left: SystemTime, came: SystemTime) -> Result<Answer, Unusable> {
    let packet: &[u8; PACKET] =
        packet.get(..PACKET).and_then(|head| head.try_into().ok()).ok_or(Unusable::Short(packet.len()))?;
    let mode = packet[0] & 7;
    if mode != SERVER_MODE {
        return Err(Unusable::Mode(mode));
    }
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| packet[at + byte]));
    if word(24) != cookie {
        return Err(Unusable::OtherQuestion);
    }
    match packet[1] {
        0 => return Err(Unusable::Refused([packet[12], packet[13], packet[14], packet[15]])),
        1..=STRATUM_MOST if packet[0] >> 6 != LEAP_UNKNOWN => {}
        _ => return Err(Unusable::Unsynchronised),
    }
    // The protocol's seconds begin anew every 136 years: differences are right as long as both clocks are within 68.
    let (left, came) = (stamp(left), stamp(came));
    let (received, sent) = (word(32), word(40));
    if received == 0 || sent == 0 {
        return Err(Unusable::NoTime);
    }
    let (there, back, here, waited) = (less(received, left), less(sent, came), less(came, left), less(sent, received));
    if here < 0 || waited < 0 || waited > here {
        return Err(Unusable::Contradicts);
    }
    Ok(Answer { ahead_ns: ns((there + back) / 2), delay_ns: ns(here - waited).unsigned_abs() })
}

/// Asks once.
///
/// # Errors
/// No answer in `patience`, or one that is of no use, told as [`io::ErrorKind::InvalidData`].
pub fn ask(socket: &UdpSocket, server: SocketAddr, cookie: u64, patience: Duration) -> io::Result<Answer> {
    let mut packet = [0; 512];
    let (left, begin) = (SystemTime::now(), Instant::now());
    socket.send_to(&question(cookie), server)?;
    loop {
        let rest = patience.saturating_sub(begin.elapsed()).max(Duration::from_micros(1));
        socket.set_read_timeout(Some(rest))?;
        let (length, from) = socket.recv_from(&mut packet)?;
        let came = SystemTime::now();
        match answer(&packet[..length], cookie, left, came) {
            _ if from != server && begin.elapsed() < patience => {}
            // A late answer to an earlier question.
            Err(Unusable::OtherQuestion) if begin.elapsed() < patience => {}
            found => return found.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)),
        }
    }
}

/// A time as the protocol writes it: seconds and 2^-32 of them.
#[must_use]
pub fn stamp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
    (since.as_secs().wrapping_add(EPOCHS_S) << 32) | fraction
}

/// The difference of two stamps.
fn less(a: u64, b: u64) -> i128 {
    i128::from(a.wrapping_sub(b) as i64)
}

fn ns(stamps: i128) -> i64 {
    ((stamps * 1_000_000_000) >> 32) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COOKIE: u64 = 0x1234_5678_9abc_def0;

    fn answered(received: SystemTime, sent: SystemTime) -> [u8; PACKET] {
        let mut packet = [0; PACKET];
        (packet[0], packet[1]) = (0o44, 2);
        packet[24..32].copy_from_slice(&COOKIE.to_be_bytes());
        packet[32..40].copy_from_slice(&stamp(received).to_be_bytes());
        packet[40..].copy_from_slice(&stamp(sent).to_be_bytes());
        packet
    }

    fn at(ns: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(ns)
    }

    #[test]
    fn each_way_in_which_an_answer_is_none_is_told() {
        let good = answered(at(5_000), at(6_000));
        let with = |byte: usize, value: u8| {
            let mut packet = good;
            packet[byte] = value;
            answer(&packet, COOKIE, at(1_000), at(10_000)).map(|_| ())
        };
        assert_eq!(with(2, 0), Ok(()));
        assert_eq!(with(0, 0o43), Err(Unusable::Mode(3)));
        assert_eq!(with(24, 0), Err(Unusable::OtherQuestion));
        assert_eq!(with(1, 0), Err(Unusable::Refused([0; 4])));
        assert_eq!(with(1, 16), Err(Unusable::Unsynchronised));
        assert_eq!(with(0, 0o344), Err(Unusable::Unsynchronised));
        for time in [32, 40] {
            let mut packet = good;
            packet[time..time + 8].fill(0);
            assert_eq!(answer(&packet, COOKIE, at(1_000), at(10_000)), Err(Unusable::NoTime));
        }
        assert_eq!(answer(&good[..47], COOKIE, at(0), at(1)), Err(Unusable::Short(47)));
        assert_eq!(answer(&answered(at(6_000), at(5_000)), COOKIE, at(1_000), at(10_000)), Err(Unusable::Contradicts));
        assert_eq!(answer(&answered(at(1_000), at(99_000)), COOKIE, at(1_000), at(10_000)), Err(Unusable::Contradicts));
    }

    /// A server in a thread that answers `count` questions, by a clock that is ahead, and sends what is none before.
    fn server(ahead: Duration, count: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let serve = move || {
            for _ in 0..count {
                let mut packet = [0; 512];
                let (_, from) = socket.recv_from(&mut packet).unwrap();
                let now = SystemTime::now() + ahead;
                let mut reply = answered(now, now);
                socket.send_to(&reply, from).unwrap();
                reply[24..32].copy_from_slice(&packet[40..48]);
                socket.send_to(&reply, from).unwrap();
            }
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn a_server_s_time_is_taken_and_an_answer_to_nobody_s_question_is_not() {
        let (address, thread) = server(Duration::from_secs(3), 2);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for cookie in [1, 2] {
            let found = ask(&socket, address, cookie, Duration::from_secs(60)).unwrap();
            let wrong = found.ahead_ns.abs_diff(3_000_000_000);
            assert!(wrong <= found.delay_ns / 2 + 1, "{found:?}");
        }
        thread.join().unwrap();
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let late = ask(&socket, nobody.local_addr().unwrap(), 3, Duration::from_millis(20)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::WouldBlock, "{late}");
    }

    proptest! {
        #[test]
        fn an_offset_is_found_to_half_the_delay(left in 0u64..4_000_000_000_000_000_000, ahead in -1_000_000_000_000i64..1_000_000_000_000, there in 0u64..1_000_000_000, waited in 0u64..1_000_000_000, back in 0u64..1_000_000_000) {
            let left = left.max(1_000_000_000_001);
            let received = left.saturating_add_signed(ahead) + there;
            let came = left + there + waited + back;
            let found = answer(&answered(at(received), at(received + waited)), COOKIE, at(left), at(came)).unwrap();
            prop_assert!(found.ahead_ns.abs_diff(ahead) <= found.delay_ns / 2 + 2, "{found:?} of {ahead}");
            prop_assert!(found.delay_ns.abs_diff(there + back) <= 2, "{found:?}");
        }

        #[test]
        fn no_packet_harms(packet in proptest::collection::vec(any::<u8>(), 0..100), left: u32, came: u32) {
            let _ = answer(&packet, COOKIE, at(left.into()), at(came.into()));
        }
    }
}
