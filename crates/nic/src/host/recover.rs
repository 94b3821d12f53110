//! Bringing a port back after its interface failed: the library's part.
//!
//! The order matters. What the failed interface posted is taken in first: its events are commitments, and a message whose
//! event is in the host was delivered, whatever the interface knew of it. Only then is the new one told what it has to
//! go on with.

use super::driver;
use super::layout::*;
use super::memory::port_word;
use super::port::{Event, Port};
use std::sync::atomic::Ordering;

impl Port {
    /// Tells the interface of this epoch all that it has to know of this port.
    pub(super) fn restore(&mut self, epoch: u32) {
        // What was meant for the old interface.
        self.outbox.clear();
        self.drain();
        self.outbox.clear();
        // The restored streams say how far each has come.
        self.accepts.words.clear();
        self.streams.doubtful.clear();
        self.epoch = epoch;
        self.counts.recovery_count += 1;
        self.consumed_told = self.consumed;
        self.begin_streams_anew();
        self.say_open();
        self.say_streams();
        for one in self.provided.clone() {
            self.provide_again(one);
        }
        // Another interface, of which nothing is to be doubted yet.
        for stream in self.streams.outgoing.values_mut() {
            (stream.doubt_count, stream.not_before_ns) = (0, 0);
            (stream.closed_until_ns, stream.refused_until_ns) = (0, 0);
            (stream.is_silent, stream.carries_since_ns) = (false, None);
        }
        self.has_seen_worse = false;
        // A datagram that the old interface was told of may have left it, and none arrives twice.
        self.finish(|one| one.number == 0 && one.is_posted, Ok(()));
        // In the order in which the application asked, with the numbers that they had.
        for one in &mut self.outstanding {
            (one.is_posted, one.is_resent) = (false, false);
        }
        self.mend_messages();
        self.post();
        self.say_alarm();
        self.say_start();
        let may_have_written = self.memory.word(port_word(self.granted.number, port_word::FAULT_MAY_HAVE_WRITTEN));
        if may_have_written.swap(0, Ordering::AcqRel) != 0 {
            self.found.push_back(Event::MemorySuspect);
        }
        self.memory.word(port_word(self.granted.number, port_word::RESTORED_EPOCH)).store(epoch, Ordering::Release);
        self.memory.wake_daemon();
    }

    /// Takes in every event that is committed.
    fn drain(&mut self) {
        for _ in 0..PORT_EVENT_COUNT {
            let Some(words) = self.next_in_ring() else { break };
            self.happened(&words);
        }
    }

    /// An interface that numbers messages by itself has forgotten its numbers: its streams begin anew, and what had arrived
    /// without an acknowledgement arrives twice (Figure 7 of the paper).
    fn begin_streams_anew(&mut self) {
        if self.config.numbers {
            return;
        }
        let generation = driver::new_generation(&self.memory);
        self.granted.generation = generation;
        for stream in self.streams.outgoing.values_mut() {
            stream.generation = generation;
        }
        for one in &mut self.outstanding {
            one.generation = generation;
        }
    }

    pub(super) fn say_streams(&mut self) {
        if !self.config.numbers {
            return;
        }
        let here = u32::from(self.node) << 8 | self.granted.number as u32;
        for (from, stream) in self.streams.incoming.clone() {
            let addresses = u32::from(from.node) << 24 | u32::from(from.port) << 16 | here;
            let next = stream.delivered.wrapping_add(1);
            let proof = if self.config.verifies { stream.proof } else { 0 };
            self.say(command::STREAM, &[addresses, from.priority.into(), stream.generation, next, proof]);
        }
    }
}
