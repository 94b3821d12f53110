//! What the wall clock is compared with.

use anyhow::Context;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use surefoot_disturb::Fault;
use surefoot_disturb::drift::ntp::Unusable;
use surefoot_disturb::drift::{Compared, ntp};
use surefoot_hostfs::{clock, exhausted};

const NTP_PORT: u16 = 123;
/// The clock chip of the machine; the kernel reads it, and it counts seconds.
const CHIP: &str = "/sys/class/rtc/rtc0/since_epoch";

/// As it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceChoice {
    /// A time server, by name or address, with its port.
    Ntp(String, u16),
    /// The machine's clock chip.
    Rtc,
}

impl FromStr for ReferenceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "rtc" {
            return Ok(ReferenceChoice::Rtc);
        }
        let server = text.strip_prefix("ntp:").filter(|server| !server.is_empty());
        let server = server.ok_or_else(|| format!("'{text}' is no reference: write ntp:SERVER[:PORT] or rtc"))?;
        // An address of IPv6 has colons of its own: it is written in brackets where a port follows.
        let is_bare_ipv6 = server.parse::<std::net::Ipv6Addr>().is_ok();
        match server.rsplit_once(':') {
            Some((name, port)) if !is_bare_ipv6 => {
                let port = port.parse().map_err(|_| format!("'{port}' is not a port"))?;
                Ok(ReferenceChoice::Ntp(name.trim_matches(['[', ']']).to_owned(), port))
            }
            _ => Ok(ReferenceChoice::Ntp(server.to_owned(), NTP_PORT)),
        }
    }
}

/// Open, and asked again and again.
pub struct Reference {
    kind: Kind,
    words: String,
}

enum Kind {
    Ntp { socket: UdpSocket, server: SocketAddr, patience: Duration },
    Rtc { chip: File, patience: Duration },
}

impl ReferenceChoice {
    /// Opens it. A comparison waits as long as `patience`.
    ///
    /// # Errors
    /// The server has no address, or the machine has no clock chip.
    pub fn open(&self, patience: Duration) -> anyhow::Result<Reference> {
        match self {
            ReferenceChoice::Ntp(name, port) => {
                let mut found = (name.as_str(), *port).to_socket_addrs().with_context(|| format!("{name}:{port}"))?;
                let server = found.next().with_context(|| format!("{name} has no address"))?;
                let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).context("a socket for the time server")?;
                Ok(Reference {
                    kind: Kind::Ntp { socket, server, patience },
                    words: format!("the time server {server}"),
                })
            }
            ReferenceChoice::Rtc => {
                let chip = File::open(CHIP).map_err(|source| match exhausted(&source) {
                    Some(_) => Fault::File { path: CHIP.into(), source },
                    None => Fault::Unsupported {
                        why: format!("this machine shows no clock chip: {CHIP}: {source}"),
                        remedy: "take ntp:SERVER".into(),
                    },
                })?;
                Ok(Reference { kind: Kind::Rtc { chip, patience }, words: "the machine's clock chip (RTC)".to_owned() })
            }
        }
    }
}

impl Reference {
    /// Its name for people.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The wall clock beside the reference, now.
    pub fn compare(&mut self) -> anyhow::Result<Compared> {
        match &mut self.kind {
            Kind::Ntp { socket, server, patience } => {
                let answer = ntp::ask(socket, *server, cookie()?, *patience).map_err(|error| {
                    let unusable = error.get_ref().and_then(|inner| inner.downcast_ref());
                    // Whoever is told to stay away asks no more.
                    if let Some(Unusable::Refused(_)) = unusable {
                        return Fault::Refused(format!("{server}: {error}")).into();
                    }
                    let nothing = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    let why = if nothing { "nothing answers at this port".into() } else { error.to_string() };
                    anyhow::anyhow!("no time from {server} within {patience:.0?}: {why}")
                })?;
                let (now_ns, monotonic_ns, apart_ns) = both_clocks();
                let error_ns = answer.delay_ns / 2 + apart_ns;
                Ok(Compared {
                    at_ns: now_ns.saturating_add(answer.ahead_ns),
                    monotonic_ns,
                    ahead_ns: answer.ahead_ns.saturating_neg(),
                    error_ns,
                })
            }
            Kind::Rtc { chip, patience } => edge(chip, *patience),
        }
    }
}

/// The moment at which the chip goes on to the next second.
fn edge(chip: &mut File, patience: Duration) -> anyhow::Result<Compared> {
    let begin = Instant::now();
    let first = seconds(chip)?;
    let mut before_ns = since_epoch(SystemTime::now());
    loop {
        let now = seconds(chip)?;
        let (now_ns, monotonic_ns, apart_ns) = both_clocks();
        if now != first {
            let at_ns = now.saturating_mul(1_000_000_000);
            // It happened between the two looks.
            let half_ns = (now_ns - before_ns) / 2;
            return Ok(Compared {
                at_ns,
                monotonic_ns: monotonic_ns - half_ns,
                ahead_ns: now_ns - half_ns - at_ns,
                error_ns: half_ns.unsigned_abs() + apart_ns,
            });
        }
        anyhow::ensure!(begin.elapsed() < patience, "the clock chip did not advance for {patience:.0?}");
        before_ns = now_ns;
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn seconds(chip: &mut File) -> anyhow::Result<i64> {
    let mut text = String::new();
    chip.seek(SeekFrom::Start(0))?;
    chip.take(32).read_to_string(&mut text)?;
    text.trim().parse().with_context(|| format!("{CHIP} says {:?}", text.trim()))
}

/// The wall clock and the monotonic one at the same moment, and how far apart they may have been read.
fn both_clocks() -> (i64, i64, u64) {
    let before_ns = clock::monotonic_ns();
    let now_ns = since_epoch(SystemTime::now());
    let apart_ns = clock::monotonic_ns().saturating_sub(before_ns);
    (now_ns, i64::try_from(before_ns + apart_ns / 2).unwrap_or(i64::MAX), apart_ns)
}

fn since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// A number that nobody can guess who has not seen the question.
fn cookie() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        let ntp = |name: &str, port| Ok(ReferenceChoice::Ntp(name.to_owned(), port));
        assert_eq!("rtc".parse(), Ok(ReferenceChoice::Rtc));
        assert_eq!("ntp:time.lan".parse(), ntp("time.lan", 123));
        assert_eq!("ntp:127.0.0.1:1123".parse(), ntp("127.0.0.1", 1123));
        assert_eq!("ntp:fe80::1".parse(), ntp("fe80::1", 123));
        assert_eq!("ntp:[::1]:1123".parse(), ntp("::1", 1123));
        for wrong in ["", "ntp:", "sundial", "ntp:a:b", "ntp:a:99999"] {
            assert!(wrong.parse::<ReferenceChoice>().is_err(), "{wrong}");
        }
    }
}
