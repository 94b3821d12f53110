//! The other end of a probe: returns Surefoot's own packets to who sent them.
//!
//! It answers what was sent to this interface alone, at a bounded rate, and keeps a bounded number of answers: nobody can use it to
//! send more than he sends himself, or to somebody else than himself.

use crate::Error;
use crate::probe::frame::{Frame, PACKET_KIND, Probe};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use surefoot_sys::packet::{Address, PacketSocket};

/// Answers in a second.
const PER_SECOND_MAX: u64 = 20_000;
/// Answers that wait for their time.
const WAITING_MAX: usize = 4096;

/// What was answered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// Probes answered.
    pub answered_count: u64,
    /// Probes not answered, because too many came.
    pub dropped_count: u64,
    /// Packets of this type that are no probes.
    pub strange_count: u64,
    /// Probes of a version that is not known; their senders are told which version answers here.
    pub other_version_count: u64,
}

/// Answers probes on an interface.
#[derive(Debug)]
pub struct Answerer {
    socket: PacketSocket,
    delay: Duration,
    waiting: VecDeque<(Instant, Address, Probe)>,
    second: (Instant, u64),
    /// What was answered so far.
    pub answered: Answered,
}

impl Answerer {
    /// Opens the socket. With a delay it answers that much later, to see what slow looks like.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without CAP_NET_RAW, [`Error::Host`] where there is no such interface.
    pub fn open(interface: &str, delay: Duration) -> Result<Self, Error> {
        let socket = PacketSocket::open(interface, PACKET_KIND).map_err(Error::of_host)?;
        let (waiting, second) = (VecDeque::new(), (Instant::now(), 0));
        Ok(Answerer { socket, delay, waiting, second, answered: Answered::default() })
    }

    /// Answers what comes within about this time.
    ///
    /// # Errors
    /// [`Error::Host`] where the interface no longer exists.
    pub fn turn(&mut self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        loop {
            self.send_due();
            let now = Instant::now();
            if now >= until {
                return Ok(());
            }
            let next = self.waiting.front().map_or(until, |(due, ..)| (*due).min(until));
            let mut buffer = [0; 64];
            match self.socket.receive(&mut buffer, next.saturating_duration_since(now)) {
                Ok(None) => {}
                Ok(Some(packet)) => match Probe::parse(&buffer[..packet.bytes]) {
                    Frame::Probe(probe) if !probe.is_answer && packet.is_to_us => self.queue(packet.from, probe),
                    Frame::Probe(_) => {}
                    Frame::OtherVersion { is_request } => {
                        self.answered.other_version_count += 1;
                        // An answer is not answered: two answerers would never end.
                        if is_request && packet.is_to_us {
                            self.queue(packet.from, Probe::of_this_version());
                        }
                    }
                    Frame::Strange => self.answered.strange_count += 1,
                },
                Err(source) if source.raw_os_error() == Some(libc::ENETDOWN) => {
                    // It may come up again.
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(source) => {
                    let action = "answer probes".to_owned();
                    let remedy = "; the interface may have gone";
                    return Err(Error::Host(surefoot_hostfs::Error::System { action, source, remedy }));
                }
            }
        }
    }

    fn queue(&mut self, to: Address, probe: Probe) {
        if self.second.0.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), 0);
        }
        if self.waiting.len() >= WAITING_MAX || self.second.1 >= PER_SECOND_MAX {
            self.answered.dropped_count += 1;
            return;
        }
        self.second.1 += 1;
        self.waiting.push_back((Instant::now() + self.delay, to, Probe { is_answer: true, ..probe }));
    }

    fn send_due(&mut self) {
        while self.waiting.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            let Some((_, to, probe)) = self.waiting.pop_front() else { return };
            match self.socket.send(to, &probe.bytes()) {
                Ok(()) => self.answered.answered_count += 1,
                Err(_) => self.answered.dropped_count += 1,
            }
        }
    }
}
