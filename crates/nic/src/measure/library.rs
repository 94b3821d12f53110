//! What the library itself takes of the host's processor.
//!
//! The library is the real one and the calls are timed by the clock, but the interfaces are in virtual time and in the same
//! thread: nobody waits in a call, so that the time of a call is processor time. Each is some hundred nanoseconds long, and
//! few are interrupted; the median leaves those out.

use super::exact::{open_both, world};
use super::{Error, SIZE_CLASS, Stack, WARM_UP, median, send};
use crate::host::port::Event;
use std::time::Instant;

/// Medians for one message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryCost {
    /// The call that sends it, and the one that brings its token back.
    pub send_ns: f64,
    /// The call that brings it, and the one that provides its buffer again.
    pub receive_ns: f64,
}

/// Times the calls of some messages of one length, one after the other there and back.
///
/// # Errors
/// As [`exact`](super::exact).
pub fn library_cost(stack: Stack, bytes: u32, count: u32) -> Result<LibraryCost, Error> {
    let mut world = world(stack, None)?;
    let mut ports = open_both(&world, stack, false)?;
    let [mut sends, mut sents, mut receives, mut provides]: [Vec<u64>; 4] = Default::default();
    // What the clock itself takes is taken off.
    let mut clocks: Vec<u64> = (0..1_000).map(|_| timed(|| ()).1).collect();
    let clock_ns = median(&mut clocks);
    let mut token = 0;
    send(&mut ports[0], token, 1, bytes)?;
    let wanted = 2 * (count.max(1) + WARM_UP) as usize;
    let mut rounds: u64 = 0;
    while receives.len() < wanted || sents.len() < wanted {
        rounds += 1;
        // A round is half a microsecond or more, a message of the longest kind under a millisecond.
        if rounds > wanted as u64 * 20_000 {
            return Err(Error::Stuck("an exchange of messages in virtual time does not finish".to_owned()));
        }
        let now_ns = world.now_ns();
        for (place, port) in ports.iter_mut().enumerate() {
            while let (Some(event), ns) = timed(|| port.poll(now_ns)) {
                match event {
                    Event::Sent { .. } => sents.push(ns),
                    Event::Received { token: buffer, address, .. } => {
                        receives.push(ns);
                        let (provided, ns) = timed(|| port.provide(buffer, address, SIZE_CLASS, 0));
                        provided?;
                        provides.push(ns);
                        token += 1;
                        let (sent, ns) = timed(|| send(port, token, 1 - place as u8, bytes));
                        sent?;
                        sends.push(ns);
                    }
                    _ => {}
                }
            }
        }
        world.step(0);
    }
    let of = |mut values: Vec<u64>| (median(&mut values.split_off(2 * WARM_UP as usize)) - clock_ns).max(0.0);
    Ok(LibraryCost { send_ns: of(sends) + of(sents), receive_ns: of(receives) + of(provides) })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let begun = Instant::now();
    let made = work();
    (made, begun.elapsed().as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_checksum_of_a_long_message_takes_the_library_longer_than_none() {
        let plain = library_cost(Stack::Plain, 32_768, 40).unwrap();
        let verified = library_cost(Stack::Verified, 32_768, 40).unwrap();
        assert!(plain.send_ns > 0.0 && plain.receive_ns > 0.0, "{plain:?}");
        assert!(verified.send_ns > 1.5 * plain.send_ns, "{verified:?} {plain:?}");
        assert!(verified.receive_ns > 1.5 * plain.receive_ns, "{verified:?} {plain:?}");
    }
}
