//! What the kernel's own ways do between two threads of this process, on the same machine: for scale.

use super::{Error, PATIENCE, WARM_UP, median};
use crate::live;
use crate::live::namespace::{DEVICE, Namespaces, enter};
use crate::live::wire::Wire;
use std::io;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use surefoot_sys::packet::{Address, PacketSocket};

/// The packet type that IEEE 802 leaves to local experiments; nobody else is on this wire.
const KIND: u16 = 0x88b6;
/// What a device with an MTU of 9000 carries at once.
const PACKET_BYTES_MAX: u32 = 9_000;
/// So many may be under way at once: few enough that no socket's queue overflows.
const WINDOW: u32 = 8;

/// A packet that only asks whether the way is there yet; no message is as short.
const HELLO: [u8; 1] = [0xee];

/// What they did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peers {
    /// The median of the round trips, halved.
    pub half_round_trip_ns: f64,
    /// One way, a word back for every eight.
    pub bytes_per_s: f64,
}

/// One end of such a way.
trait End: Send {
    fn send(&self, bytes: &[u8]) -> io::Result<()>;
    /// The length of the next packet; waits for it.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl End for UdpSocket {
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        UdpSocket::send(self, bytes).map(drop)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

struct Packets(PacketSocket, Address);

impl End for Packets {
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(self.1, bytes)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            // Neighbour discovery and the like is of another type, and not heard.
            if let Some(received) = self.0.receive(buffer, Duration::from_secs(1))? {
                return Ok(received.bytes);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// UDP on the loopback.
///
/// # Errors
/// What the system says.
pub fn udp(bytes: u32, trips: u32, count: u32) -> Result<Peers, Error> {
    let pair = Wire::udp_pair()?;
    for socket in &pair {
        let made = socket.set_nonblocking(false).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
        made.map_err(refused("make a UDP socket wait"))?;
    }
    let [one, other] = pair;
    std::thread::scope(|scope| {
        let far = scope.spawn(move || far(&other, trips + WARM_UP, count + WARM_UP));
        let found = near(&one, bytes, trips, count);
        both(found, far.join())
    })
}

/// AF_PACKET sockets on a pair of veth devices between two network namespaces. `None` for messages that are longer than what a
/// device carries at once.
///
/// # Errors
/// [`live::Error::Unsupported`] without the privilege or `ip`, and what the system says.
pub fn packets(bytes: u32, trips: u32, count: u32) -> Result<Option<Peers>, Error> {
    if bytes > PACKET_BYTES_MAX {
        return Ok(None);
    }
    let namespaces = Namespaces::make()?;
    // A namespace is of a thread.
    let open = |node: usize| -> Result<Packets, live::Error> {
        enter(namespaces.descriptor(node)).map_err(|source| live_refused("enter a network namespace", source))?;
        Ok(Packets(PacketSocket::open(DEVICE, KIND)?, namespaces.addresses[1 - node]))
    };
    std::thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let far = scope.spawn(move || -> Result<(), Error> {
            let end = open(1)?;
            let _ = ready.send(());
            far(&end, trips + WARM_UP, count + WARM_UP)
        });
        let near = scope.spawn(move || -> Result<Peers, Error> {
            let end = open(0)?;
            // Where it is not, the other thread says why.
            let _ = is_ready.recv_timeout(PATIENCE);
            greet(&end)?;
            near(&end, bytes, trips, count)
        });
        let found = near.join().map_err(|_| Error::Stuck("a thread panicked".to_owned()))?;
        both(found, far.join()).map(Some)
    })
}

fn live_refused(action: &str, source: io::Error) -> live::Error {
    live::Error::System { action: action.to_owned(), source }
}

fn refused(action: &str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Live(live_refused(action, source))
}

/// Where both ends failed, the far one says why.
fn both(found: Result<Peers, Error>, far: std::thread::Result<Result<(), Error>>) -> Result<Peers, Error> {
    far.map_err(|_| Error::Stuck("a thread panicked".to_owned()))??;
    found
}

/// Asks until the far end answers: a device loses what is sent before the kernel has seen that its peer is up.
fn greet(end: &Packets) -> Result<(), Error> {
    let begun = Instant::now();
    let mut buffer = [0; 64];
    let mut is_heard = false;
    while begun.elapsed() < PATIENCE {
        if !is_heard {
            end.send(&HELLO).map_err(refused("send a packet"))?;
        }
        let heard = end.0.receive(&mut buffer, Duration::from_millis(50)).map_err(refused("receive a packet"))?;
        match heard {
            Some(_) => is_heard = true,
            // All answers are in.
            None if is_heard => return Ok(()),
            None => {}
        }
    }
    Err(Error::Stuck(format!("the other end of the veth devices does not answer for {PATIENCE:?}")))
}

fn near(end: &impl End, bytes: u32, trips: u32, count: u32) -> Result<Peers, Error> {
    let content = vec![7; bytes as usize];
    let mut buffer = vec![0; bytes as usize];
    let (sends, receives) = (refused("send a packet"), refused("receive a packet"));
    let mut trip_ns = Vec::with_capacity((trips + WARM_UP) as usize);
    for _ in 0..trips + WARM_UP {
        let begun = Instant::now();
        end.send(&content).map_err(&sends)?;
        end.receive(&mut buffer).map_err(&receives)?;
        trip_ns.push(begun.elapsed().as_nanos() as u64);
    }
    let mut begun = Instant::now();
    for sent in 0..count + WARM_UP {
        if sent == WARM_UP {
            begun = Instant::now();
        }
        end.send(&content).map_err(&sends)?;
        if (sent + 1) % WINDOW == 0 || sent + 1 == count + WARM_UP {
            end.receive(&mut buffer).map_err(&receives)?;
        }
    }
    let bytes_per_s = f64::from(count) * f64::from(bytes) / begun.elapsed().as_secs_f64();
    Ok(Peers { half_round_trip_ns: median(&mut trip_ns[WARM_UP as usize..]) / 2.0, bytes_per_s })
}

fn far(end: &impl End, trips: u32, count: u32) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 16];
    let (sends, receives) = (refused("send a packet"), refused("receive a packet"));
    let mut echoed = 0;
    while echoed < trips {
        let length = end.receive(&mut buffer).map_err(&receives)?;
        end.send(&buffer[..length]).map_err(&sends)?;
        echoed += u32::from(length > HELLO.len());
    }
    for taken in 0..count {
        end.receive(&mut buffer).map_err(&receives)?;
        if (taken + 1) % WINDOW == 0 || taken + 1 == count {
            end.send(&[1]).map_err(&sends)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_kernel_carries_packets_both_ways() {
        let found = udp(4_000, 20, 41).unwrap();
        assert!(found.half_round_trip_ns > 0.0 && found.bytes_per_s > 0.0, "{found:?}");
        match packets(4_000, 20, 41) {
            Ok(found) => assert!(found.unwrap().bytes_per_s > 0.0),
            Err(Error::Live(live::Error::Unsupported(why))) => {
                surefoot_testkit::not_run::not_run("the_kernel_carries_packets_both_ways", &why);
            }
            Err(error) => panic!("{error}"),
        }
        assert!(packets(PACKET_BYTES_MAX + 1, 1, 1).unwrap().is_none(), "longer than what a device carries");
    }
}
