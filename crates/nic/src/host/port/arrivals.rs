//! What the interface says happened, and what of it is believed.

use super::super::driver;
use super::super::layout::*;
use super::super::mailbox::Words;
use super::super::memory::port_word;
use super::super::streams::{Arrival, Outgoing, Peer, chained};
use super::{BELIEVED_NS, CARRIES_NS, DOUBT_NS, DOUBTS_MAX, Event, Outstanding, Port, SendFailure, TRIES_NS};
use std::sync::atomic::Ordering;

impl Port {
    pub(in crate::host) fn happened(&mut self, words: &Words) {
        match words[0] {
            event::RECEIVED | event::DIRECTED => self.arrived(words),
            event::SENT => self.sent(words),
            event::ALARM
                if self.alarm.is_some_and(|(token, at_ns)| token == words[1] && at_ns > self.now_ns + 1_000_000) =>
            {
                // A part of a long one.
                self.say_alarm();
            }
            event::ALARM if self.alarm.is_some_and(|(token, _)| token == words[1]) => {
                self.alarm = None;
                self.found.push_back(Event::Alarm { token: words[1] });
            }
            event::REFUSED => self.refused(words),
            _ => self.strange(),
        }
    }

    /// Counts what should not be, and lets the daemon know.
    pub(in crate::host) fn strange(&mut self) {
        self.counts.strange_event_count += 1;
        self.has_seen_worse = true;
        self.suspect(None);
    }

    /// The same of what another interface may have made up as well.
    fn strange_from(&mut self, peer: Peer) {
        self.counts.strange_event_count += 1;
        self.has_seen_worse = true;
        self.suspect(Some((peer, port_word::SUSPECTED)));
    }

    /// Lets the daemon know that an interface may have failed: this one, or that of a peer whose messages or answers are not
    /// what they should be, among the [`port_word::SUSPECTED`] or the [`port_word::REFUSING`].
    pub(in crate::host) fn suspect(&self, peer: Option<(Peer, u32)>) {
        if let Some((to, among)) = peer.filter(|(to, _)| to.node != self.node && usize::from(to.node) < NODES) {
            let word = port_word(self.granted.number, among + u32::from(to.node / 4) * 4);
            self.memory.word(word).fetch_or(1 << (to.node % 4 * 8 + to.port % PORTS as u8), Ordering::AcqRel);
        }
        let suspicions = self.memory.word(port_word(self.granted.number, port_word::SUSPICIONS));
        suspicions.fetch_add(1, Ordering::Release);
        self.memory.wake_daemon();
    }

    pub(super) fn refused(&mut self, words: &Words) {
        let [_, token, status, refused, ..] = *words;
        if refused == command::SEND {
            // It is sent again with the others that have not arrived; what was checked here is not refused for a reason.
            let of = self.outstanding.iter().find(|one| one.message.token == token && one.number != 0);
            if let Some(to) = of.map(|one| one.message.to).filter(|_| self.config.verifies) {
                self.doubts(to);
            }
            return;
        }
        if let Some(one) = self
            .provided
            .iter()
            .find(|one| one.token == token)
            .copied()
            .filter(|_| self.config.verifies && self.granted.number != 0)
        {
            // Its memory is the port's, as was checked here: it is the interface that cannot use it. Where that ended a
            // stream, the sender is to be heard again.
            self.strange();
            self.say(command::FORGET_PAGES, &[]);
            self.say_streams();
            self.provide_again(one);
            return;
        }
        if let Some(place) = self.provided.iter().position(|one| one.token == token) {
            self.provided.swap_remove(place);
            self.note_buffers();
            self.found.push_back(Event::BufferRefused { token });
        } else if status != 0 {
            self.strange();
        }
    }

    /// A message that the interface says is there.
    pub(super) fn arrived(&mut self, words: &Words) {
        let [kind, token, length, stream, service_word, number, checksum, generation, remote, ..] = *words;
        let from =
            Peer { node: (stream >> 24) as u8, port: (stream >> 16) as u8, priority: (service_word >> 8 & 1) as u8 };
        let buffer = self.provided.iter().position(|one| one.token == token);
        let (address, most) = match (kind, buffer) {
            (event::DIRECTED, _) => (remote, MESSAGE_BYTES_MAX),
            (_, Some(place)) => (self.provided[place].address, 1 << self.provided[place].size_class),
            _ => return self.strange(),
        };
        if length > most || self.inside(address, length).is_err() {
            self.strange();
            return self.return_buffer(kind, buffer);
        }
        let is_datagram = service_word & 0xff == service::DATAGRAM;
        let arrival = match self.config.numbers && !is_datagram {
            true => self.streams.arrives(from, generation, number),
            false => Arrival::Next,
        };
        let addresses = [stream, service_word, length, if kind == event::DIRECTED { remote } else { 0 }];
        let is_right = !self.config.verifies
            || self.sum_of(address, length, &self.numbered(addresses, generation, number)) == checksum;
        match arrival {
            Arrival::Next if is_right => {}
            Arrival::Next if is_datagram => {
                self.counts.corrupted_count += 1;
                return self.return_buffer(kind, buffer);
            }
            Arrival::Next => {
                self.counts.corrupted_count += 1;
                self.has_seen_worse = true;
                self.suspect(Some((from, port_word::SUSPECTED)));
                self.say(command::REJECT, &[stream, from.priority.into(), generation, number]);
                if self.streams.incoming.get(&from).is_none_or(|known| known.generation != generation) {
                    self.streams.doubts(from, generation);
                }
                return self.return_buffer(kind, buffer);
            }
            Arrival::Again | Arrival::Old => {
                self.counts.repeated_count += 1;
                if let (Arrival::Again, true, Some(known)) =
                    (arrival, self.config.verifies, self.streams.incoming.get(&from).copied())
                {
                    self.accept(stream, from, known.generation, known.delivered, known.proof);
                    if !is_right {
                        // Its number may be what was garbled, and the interface may think that it has given the next one.
                        self.ask_for_next(stream, from);
                    }
                }
                return self.return_buffer(kind, buffer);
            }
            Arrival::Gap => {
                self.counts.gap_count += 1;
                if self.config.verifies {
                    if !self.streams.incoming.contains_key(&from) {
                        // Its first message is missing, or its generation is not what was sent.
                        self.streams.doubts(from, generation);
                        self.say(command::REJECT, &[stream, from.priority.into(), generation, 1]);
                    }
                    self.ask_for_next(stream, from);
                    return self.return_buffer(kind, buffer);
                }
            }
        }
        if let Some(place) = buffer.filter(|_| kind == event::RECEIVED) {
            self.provided.swap_remove(place);
            self.note_buffers();
        }
        if self.config.numbers && !is_datagram {
            let known = self.streams.delivered(from, generation, number, checksum);
            if self.config.verifies {
                self.accept(stream, from, known.generation, known.delivered, known.proof);
            }
        }
        self.counts.delivered_count += 1;
        self.is_active();
        self.use_services(1 << (((service_word & 0xff).clamp(1, 3) - 1) * 2 + u32::from(from.priority)));
        self.found.push_back(match kind {
            event::DIRECTED => Event::Directed { address, length, from, number },
            _ => Event::Received { token, address, length, from, number },
        });
    }

    /// Tells the interface which message of a stream comes next; one that expects it does nothing.
    pub(super) fn ask_for_next(&mut self, stream: u32, from: Peer) {
        if let Some(known) = self.streams.incoming.get(&from).copied() {
            let next = known.delivered.wrapping_add(1);
            self.say(command::REJECT, &[stream, from.priority.into(), known.generation, next]);
        }
    }

    /// Says so of all streams now and then: what an interface has garbled of its own numbers heals by it.
    pub(super) fn restate(&mut self) {
        if !self.config.verifies || self.now_ns < self.next_restate_ns {
            return;
        }
        self.next_restate_ns = self.now_ns.saturating_add(self.config.resend_ns);
        let here = u32::from(self.node) << 8 | self.granted.number as u32;
        let stream = |from: Peer| u32::from(from.node) << 24 | u32::from(from.port) << 16 | here;
        // Of those whose claim no right message has borne out, the interface gives up what it has, and hears again the generation
        // that there was before.
        for (from, claimed) in std::mem::take(&mut self.streams.doubtful) {
            let (addresses, priority) = (stream(from), from.priority.into());
            let known = self.streams.incoming.get(&from);
            let (generation, delivered, proof) =
                known.map_or((0, u32::MAX, 0), |known| (known.generation, known.delivered, known.proof));
            self.say(command::REJECT, &[addresses, priority, claimed, 0]);
            self.ask_for_next(addresses, from);
            self.say(command::STREAM, &[addresses, priority, generation, delivered.wrapping_add(1), proof]);
        }
        for from in self.streams.incoming.keys().copied().collect::<Vec<_>>() {
            self.ask_for_next(stream(from), from);
        }
    }

    /// Has the interface acknowledge everything up to a message: with the application's next call, which gives
    /// back the buffer as a rule, so that one command does for both; or where messages come one upon the other, for two at a time or with a later poll.
    pub(super) fn accept(&mut self, stream: u32, from: Peer, generation: u32, number: u32, proof: u32) {
        let words = [stream, from.priority.into(), generation, number, proof];
        let accepts = &mut self.accepts;
        match accepts.words.iter_mut().find(|known| known[..2] == words[..2]) {
            Some(known) => *known = words,
            None => accepts.words.push(words),
        }
        accepts.count += 1;
        accepts.came_ns = self.now_ns;
    }

    /// Says what it was time to say before this call.
    pub(super) fn say_due_accepts(&mut self) {
        if self.accepts.are_due(self.now_ns) {
            self.say_accepts();
        }
    }

    /// What may go with a command for a buffer: the only stream that there is something to say of, when it is time.
    pub(super) fn take_due_accept(&mut self) -> Option<[u32; 5]> {
        if !self.accepts.are_due(self.now_ns) || self.accepts.words.len() != 1 {
            return None;
        }
        self.accepts.count = 0;
        self.accepts.said_ns = self.now_ns;
        self.accepts.words.pop()
    }

    pub(super) fn say_accepts(&mut self) {
        self.accepts.count = 0;
        self.accepts.said_ns = self.now_ns;
        for words in std::mem::take(&mut self.accepts.words) {
            self.say(command::ACCEPT, &words);
        }
    }

    /// Gives a buffer back to the interface whose message the application does not get.
    pub(super) fn return_buffer(&mut self, kind: u32, buffer: Option<usize>) {
        if let Some(one) = buffer.filter(|_| kind == event::RECEIVED).map(|place| self.provided[place]) {
            self.provide_again(one);
        }
    }

    /// Messages have arrived there, or never will.
    pub(super) fn sent(&mut self, words: &Words) {
        let [_, token, status, stream, priority, number, proof, generation, ..] = *words;
        let to = Peer { node: (stream >> 8) as u8, port: stream as u8, priority: priority as u8 };
        if number == 0 {
            // A datagram; or, from an interface that numbers by itself, nothing.
            return self.finish(|one| one.number == 0 && one.message.token == token, Ok(()));
        }
        let outcome = match status {
            0 => Ok(()),
            2 | 4 => Err(SendFailure::BadAddress),
            6 => Err(SendFailure::Refused),
            7 => Err(SendFailure::TimedOut),
            _ => Err(SendFailure::Closed),
        };
        let Some(known) = self.streams.outgoing.get(&to).cloned() else { return self.strange() };
        if known.generation != generation {
            return;
        }
        if outcome.is_ok() && !self.config.numbers {
            // The number is the interface's own; what it says of the last token is all there is.
            let of_stream: Vec<u32> =
                self.outstanding.iter().filter(|one| one.message.to == to).map(|one| one.message.token).collect();
            let count = of_stream.iter().position(|&one| one == token).map_or(0, |place| place + 1);
            return self.finish(|one| of_stream[..count].contains(&one.message.token), outcome);
        }
        // One that tried for too short a time did not try.
        let since_ns = self.outstanding.iter().find(|one| one.message.to == to).map_or(0, |one| one.sent_ns);
        let has_tried = self.now_ns.saturating_sub(since_ns) >= TRIES_NS;
        let is_last_word = outcome == Err(SendFailure::TimedOut) && has_tried;
        if outcome == Err(SendFailure::Refused) && self.is_refused_for_a_reason(to) {
            return self.end_stream(to, SendFailure::Refused);
        }
        if outcome.is_err() && self.config.verifies && !is_last_word && self.doubts(to) {
            return;
        }
        if let Err(why) = outcome {
            return self.end_stream(to, why);
        }
        let is_ahead = number.wrapping_sub(known.arrived).cast_signed() > 0;
        let is_sent = number.wrapping_sub(known.next_number).cast_signed() < 0;
        if !is_ahead {
            return;
        }
        if !is_sent {
            return self.strange_from(to);
        }
        let of_these = |one: &Outstanding| {
            one.message.to == to && one.number != 0 && number.wrapping_sub(one.number).cast_signed() >= 0
        };
        let reckoned = self
            .outstanding
            .iter()
            .filter(|one| of_these(one))
            .fold(known.proof, |sum, one| chained(sum, one.checksum));
        if self.config.verifies && reckoned != proof {
            return self.strange_from(to);
        }
        if let Some(stream) = self.streams.outgoing.get_mut(&to) {
            stream.arrived = number;
            stream.proof = reckoned;
            stream.doubt_count = 0;
            (stream.closed_until_ns, stream.is_refused) = (0, false);
            let ends = self.outstanding.iter().filter(|one| of_these(one)).map(|one| one.message.remote_range().end);
            stream.directed_end = ends.fold(stream.directed_end, u32::max);
        }
        if self.outstanding.iter().any(|one| of_these(one) && !one.is_resent) {
            self.carries(to);
        }
        self.finish(of_these, outcome);
    }

    /// Whether a refusal of a directed message is to be believed: it goes beyond all that has ever arrived there, and the answer
    /// came again after a self-test. Notes that there was one.
    fn is_refused_for_a_reason(&mut self, to: Peer) -> bool {
        let of_stream = self.outstanding.iter().filter(|one| one.message.to == to && one.number != 0);
        let end = of_stream.map(|one| one.message.remote_range().end).max().unwrap_or(0);
        let Some(stream) = self.streams.outgoing.get_mut(&to).filter(|_| self.config.verifies) else { return false };
        let is_again =
            stream.is_refused && stream.not_before_ns <= self.now_ns || self.now_ns < stream.refused_until_ns;
        stream.is_refused = end > stream.directed_end;
        is_again && stream.is_refused
    }

    /// The stream is over; the next message begins another one.
    pub(super) fn end_stream(&mut self, to: Peer, why: SendFailure) {
        let renewed = driver::new_generation(&self.memory);
        let mut fresh = Outgoing::new(renewed);
        if matches!(why, SendFailure::Closed | SendFailure::Refused) && self.config.verifies {
            // What was suspected was right to refuse.
            self.withdraw();
        }
        let until_ns = self.now_ns.saturating_add(BELIEVED_NS);
        match (why, self.streams.outgoing.get(&to)) {
            (SendFailure::Closed, _) => fresh.closed_until_ns = until_ns,
            (SendFailure::Refused, Some(stream)) => {
                fresh.directed_end = stream.directed_end;
                fresh.refused_until_ns = if stream.is_refused { until_ns } else { 0 };
            }
            _ => {}
        }
        self.streams.outgoing.insert(to, fresh);
        self.finish(|one| one.message.to == to && one.number != 0, Err(why));
    }

    /// A message of this stream arrived that was sent once. When the stream has carried messages for long enough, what its silence let
    /// suspect is taken back; and so, where nothing else is suspected, is all of it.
    fn carries(&mut self, to: Peer) {
        let Some(stream) = self.streams.outgoing.get_mut(&to).filter(|stream| stream.is_silent) else { return };
        let since_ns = *stream.carries_since_ns.get_or_insert(self.waited_ns);
        if self.waited_ns.saturating_sub(since_ns) < CARRIES_NS {
            return;
        }
        (stream.is_silent, stream.carries_since_ns) = (false, None);
        let is_silent = self.streams.outgoing.values().any(|stream| stream.is_silent);
        if !is_silent && !self.has_seen_worse {
            self.withdraw();
        }
    }

    /// Takes back what was suspected: the daemon begins to count anew.
    fn withdraw(&mut self) {
        self.has_seen_worse = false;
        self.memory.word(port_word(self.granted.number, port_word::WITHDRAWN)).fetch_add(1, Ordering::Release);
    }

    /// The interface says that a stream cannot go on. That may be so, or a fault of the interface: the daemon looks into
    /// it, and the stream's messages are handed over again a little later. Whether that is done; who says it often enough
    /// is believed.
    pub(super) fn doubts(&mut self, to: Peer) -> bool {
        // The daemon asks in order to hear it.
        let is_of_daemon = self.granted.number == 0;
        let Some(stream) = self.streams.outgoing.get_mut(&to).filter(|_| !is_of_daemon) else { return false };
        if stream.not_before_ns > self.now_ns {
            // Said once more of what was handed over before.
            return true;
        }
        if stream.doubt_count >= DOUBTS_MAX || self.now_ns < stream.closed_until_ns {
            return false;
        }
        stream.doubt_count += 1;
        stream.not_before_ns = self.now_ns + DOUBT_NS;
        for one in self.outstanding.iter_mut().filter(|one| one.message.to == to && one.number != 0) {
            one.is_posted = false;
        }
        self.mend_messages();
        // A page that it could not have may be one that it garbled.
        self.say(command::FORGET_PAGES, &[]);
        self.has_seen_worse = true;
        self.suspect(Some((to, port_word::REFUSING)));
        true
    }

    pub(in crate::host) fn finish(&mut self, is_it: impl Fn(&Outstanding) -> bool, outcome: Result<(), SendFailure>) {
        let found = &mut self.found;
        self.outstanding.retain(|one| {
            let ends = is_it(one);
            if ends {
                found.push_back(Event::Sent { token: one.message.token, outcome });
            }
            !ends
        });
    }

    /// Tells the interface once more of verified messages that should have arrived long ago: it may have lost them.
    pub(super) fn resend(&mut self) {
        let Some(first) = self.outstanding.iter().find(|one| one.is_posted) else { return };
        if self.waited_ns.saturating_sub(first.posted_ns) < self.config.resend_ns {
            return;
        }
        let to = first.message.to;
        if self.streams.outgoing.get(&to).is_some_and(|stream| stream.is_refused) {
            // It was refused, and after a self-test nobody takes it either.
            return self.end_stream(to, SendFailure::Refused);
        }
        self.suspect(Some((to, port_word::SUSPECTED)));
        for one in self.outstanding.iter_mut().filter(|one| one.message.to == to) {
            (one.is_posted, one.is_resent) = (false, true);
            self.counts.resent_count += 1;
        }
        if let Some(stream) = self.streams.outgoing.get_mut(&to) {
            (stream.is_silent, stream.carries_since_ns) = (true, None);
        }
        self.mend_messages();
        self.post();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, PortConfig, Service};
    use super::*;
    use crate::host::memory::HostMemory;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    /// A port by a clock that the test has, and the answers that the test gives to it.
    struct Tried {
        memory: Arc<HostMemory>,
        port: Port,
        now_ns: u64,
    }

    impl Tried {
        fn new() -> Tried {
            let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
            let config = PortConfig { waits_for_test: false, ..PortConfig::tolerant(1) };
            let mut port = Port::open(Arc::clone(&memory), 1, std::process::id(), config).unwrap();
            port.poll(SECOND);
            Tried { memory, port, now_ns: SECOND }
        }

        fn send(&mut self, node: u8) -> Peer {
            let to = Peer { node, port: 1, priority: 0 };
            let service = Service::Normal { size_class: 4 };
            let address = u32::from(node) * 64;
            self.port.send(Message { token: node.into(), address, length: 16, to, service }).unwrap();
            to
        }

        fn wait(&mut self, time_ns: u64) {
            self.now_ns += time_ns;
            while self.port.poll(self.now_ns).is_some() {}
            // Nobody takes the commands out of the mailbox here.
            self.port.outbox.clear();
        }

        /// What was sent to this peer has arrived.
        fn arrive(&mut self, to: Peer) {
            let stream = self.port.streams.outgoing[&to].clone();
            let one = self.port.outstanding.iter().find(|one| one.message.to == to).cloned().unwrap();
            let mut words = [0; 16];
            let stream_word = u32::from(to.node) << 8 | u32::from(to.port);
            let proof = chained(stream.proof, one.checksum);
            words[..8].copy_from_slice(&[
                event::SENT,
                one.message.token,
                0,
                stream_word,
                0,
                one.number,
                proof,
                one.generation,
            ]);
            self.port.sent(&words);
            assert_eq!(self.port.streams.outgoing[&to].arrived, one.number);
            while self.port.poll(self.now_ns).is_some() {}
        }

        /// Sends, and hears nothing until the library sends once more; then it arrives.
        fn lose(&mut self, node: u8) {
            let to = self.send(node);
            let before = self.counts()[0];
            self.wait(60_000_000);
            assert_eq!(self.counts()[0], before + 1, "it suspects");
            self.arrive(to);
        }

        /// How often it has suspected, and how often it took all of that back.
        fn counts(&self) -> [u32; 2] {
            [port_word::SUSPICIONS, port_word::WITHDRAWN]
                .map(|word| self.memory.word(port_word(1, word)).load(Ordering::Relaxed))
        }

        /// Messages that arrive at once, for so long.
        fn carry(&mut self, node: u8, time_ns: u64) {
            let until_ns = self.now_ns + time_ns;
            while self.now_ns < until_ns {
                let to = self.send(node);
                self.wait(10_000_000);
                self.arrive(to);
            }
        }
    }

    #[test]
    fn a_stream_that_was_held_up_and_carries_messages_since_is_suspected_no_more() {
        let mut tried = Tried::new();
        tried.lose(1);
        tried.carry(1, CARRIES_NS / 2);
        tried.lose(2);
        tried.carry(1, CARRIES_NS);
        assert_eq!(tried.counts(), [2, 0], "the other one has carried nothing");
        tried.carry(2, CARRIES_NS + 20_000_000);
        assert_eq!(tried.counts(), [2, 1]);
        tried.carry(1, 2 * CARRIES_NS);
        assert_eq!(tried.counts(), [2, 1], "once");
    }

    #[test]
    fn a_stream_that_goes_on_losing_messages_stays_suspect() {
        let mut tried = Tried::new();
        // Each arrives when it is sent again, and none before; further apart than it takes to prove itself.
        for count in 1..=6 {
            tried.lose(1);
            tried.wait(2 * CARRIES_NS);
            assert_eq!(tried.counts(), [count, 0]);
        }
        // One of a few, sooner than that.
        for count in 7..=12 {
            tried.carry(1, CARRIES_NS / 4);
            tried.lose(1);
            assert_eq!(tried.counts()[0], count);
        }
        assert_eq!(tried.counts()[1], 0);
    }

    #[test]
    fn what_is_worse_than_silence_is_not_taken_back() {
        let mut tried = Tried::new();
        tried.port.strange();
        tried.lose(1);
        tried.carry(1, 3 * CARRIES_NS);
        assert_eq!(tried.counts(), [2, 0]);
        tried.port.unknown(super::super::Unknown::FaultDetected { epoch: 7 });
        tried.lose(1);
        tried.carry(1, 3 * CARRIES_NS);
        assert_eq!(tried.counts(), [3, 1], "it is another interface");
    }
}
