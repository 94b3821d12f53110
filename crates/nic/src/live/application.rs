//! An application of a run: it sends and receives, and writes down what it did, line by line:
//!
//! - `s ID BYTES CHECKSUM`: it gave a message to the library;
//! - `a ID` or `f ID`: it was told that the message arrived, or that it did not;
//! - `d ID BYTES CHECKSUM NS`: it was given a message.

use super::Error;
use super::ports;
use super::process::Process;
use crate::check::{self, Delivered, Outcome, Sent, Verdict};
use crate::host::layout::{control, inject};
use crate::host::memory::{HostMemory, port_word};
use crate::host::port::{Event, Message, Port, PortConfig, Service};
use crate::host::streams::Peer;
use crate::host::{driver, layout, mailbox};
use crate::world::traffic::{WINDOW_MAX, class_of, content, receive_slot, slot_bytes};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;

/// The port that applications of a run have.
pub const PORT: usize = 1;

/// The longest sleep: what the library sends again by itself is looked for that often.
const SLEEP_NS_MAX: u64 = 5_000_000;

/// How often it looks whether the owner of the run is still there.
const OWNER_NS: u64 = 100_000_000;

/// What an application does.
pub struct ApplicationConfig {
    /// The memory of its node's interface.
    pub memory: Arc<HostMemory>,
    /// How it uses its port; the pages are reckoned here.
    pub port: PortConfig,
    /// To which node it sends.
    pub peer: u8,
    /// How many messages it sends.
    pub to_send: u32,
    /// Their length, at least 12 bytes.
    pub message_bytes: u32,
    /// How many are under way at once.
    pub window: u32,
    /// Of the content.
    pub seed: u64,
    /// Interfaces that hang when so many messages were delivered here, in rising order.
    pub hang_at: Vec<(u32, Arc<HostMemory>)>,
    /// How long it looks for an event before it sleeps.
    pub spin_ns: u64,
    /// The owner of the run; when it is gone, so is the application.
    pub owner: Option<Process>,
}

struct Application<'a, W: Write> {
    config: ApplicationConfig,
    port: Port,
    out: &'a mut W,
    free_slots: Vec<u32>,
    /// Which message each slot holds.
    ids: [u32; WINDOW_MAX as usize],
    sent: u32,
    confirmed: u32,
    delivered: u32,
    failure: Option<std::io::Error>,
}

/// Runs an application until the memory says that everybody is to end.
///
/// # Errors
/// When the port cannot be opened, or the history cannot be written.
pub fn run(config: ApplicationConfig, out: &mut impl Write) -> Result<(), Error> {
    let slot_bytes = slot_bytes(config.message_bytes);
    let pages = (2 * WINDOW_MAX * slot_bytes).div_ceil(layout::PAGE_BYTES);
    let mut port = ports::open(&config.memory, PORT, PortConfig { pages, ..config.port })?;
    for slot in 0..WINDOW_MAX {
        // A fresh port has the tokens.
        let _ = port.provide(slot, receive_slot(slot, slot_bytes), class_of(slot_bytes), 0);
    }
    let free_slots = (0..config.window.clamp(1, WINDOW_MAX)).rev().collect();
    let ids = [0; WINDOW_MAX as usize];
    let ending = Arc::clone(&config.memory);
    let mut application =
        Application { config, port, out, free_slots, ids, sent: 0, confirmed: 0, delivered: 0, failure: None };
    let mut busy_ns = monotonic_ns();
    let mut owner_ns = busy_ns;
    while ending.word(control::ENDING).load(Ordering::Relaxed) == 0 && application.failure.is_none() {
        let now_ns = monotonic_ns();
        if now_ns >= owner_ns {
            owner_ns = now_ns + OWNER_NS;
            if application.config.owner.as_ref().is_some_and(|owner| owner.wait(Duration::ZERO)) {
                break;
            }
        }
        if application.step(now_ns) {
            busy_ns = now_ns;
        } else if now_ns.saturating_sub(busy_ns) >= application.config.spin_ns {
            application.port.wait(SLEEP_NS_MAX);
        } else {
            std::hint::spin_loop();
        }
    }
    let Application { port, failure, out, .. } = application;
    port.close();
    let flushed = out.flush();
    failure.map_or(flushed, Err).map_err(Error::system("write the history of an application"))
}

impl<W: Write> Application<'_, W> {
    fn step(&mut self, now_ns: u64) -> bool {
        let mut did = false;
        while let Some(event) = self.port.poll(now_ns) {
            did = true;
            self.happened(event, now_ns);
        }
        did | self.send()
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        if let Err(error) = self.out.write_fmt(line) {
            self.failure.get_or_insert(error);
        }
    }

    fn send(&mut self) -> bool {
        let length = self.config.message_bytes;
        let slot_bytes = slot_bytes(length);
        let mut did = false;
        while self.sent < self.config.to_send {
            let Some(slot) = self.free_slots.pop() else { break };
            let id = self.sent;
            let content = content(self.config.seed ^ u64::from(self.port.node()), id, length);
            self.port.write(slot * slot_bytes, &content);
            let service = Service::Normal { size_class: class_of(slot_bytes) };
            let to = Peer { node: self.config.peer, port: PORT as u8, priority: 0 };
            let message = Message { token: slot, address: slot * slot_bytes, length, to, service };
            // Written down first: what is not sent then was refused, and pending is no fault.
            self.note(format_args!("s {id} {length} {}\n", crc32fast::hash(&content)));
            self.ids[slot as usize] = id;
            if self.port.send(message).is_err() {
                self.note(format_args!("f {id}\n"));
                self.free_slots.push(slot);
            }
            self.sent += 1;
            did = true;
        }
        did
    }

    fn happened(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Received { token, address, length, .. } => {
                let mut bytes = vec![0; length as usize];
                self.port.read(address, &mut bytes);
                let id = bytes.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
                let checksum = crc32fast::hash(&bytes);
                self.note(format_args!("d {id} {length} {checksum} {now_ns}\n"));
                let class = class_of(slot_bytes(self.config.message_bytes));
                // It was provided before, so that it can be.
                let _ = self.port.provide(token, address, class, 0);
                self.delivered += 1;
                self.publish(layout::port_word::DELIVERED, self.delivered);
                self.hang();
            }
            Event::Sent { token, outcome } => {
                let id = self.ids[token as usize % self.ids.len()];
                self.note(format_args!("{} {id}\n", if outcome.is_ok() { 'a' } else { 'f' }));
                self.free_slots.push(token);
                self.confirmed += 1;
                self.publish(layout::port_word::CONFIRMED, self.confirmed);
            }
            _ => {}
        }
    }

    fn publish(&self, word: u32, count: u32) {
        self.config.memory.word(port_word(PORT, word)).store(count, Ordering::Release);
    }

    fn hang(&mut self) {
        if self.config.hang_at.first().is_some_and(|(count, _)| *count <= self.delivered) {
            let (_, memory) = self.config.hang_at.remove(0);
            memory.word(control::INJECT).store(inject::HANG, Ordering::Release);
            memory.ring();
        }
    }
}

/// Whether the interface has been told of the port that an application of a run uses, and of all its buffers: what is sent to
/// it before is refused.
pub fn is_ready(memory: &HostMemory) -> bool {
    // OPEN, START and a PROVIDE for each buffer.
    let put = memory.word(port_word(PORT, layout::port_word::MAILBOX_PUT)).load(Ordering::Acquire);
    driver::is_open(memory, PORT) && put >= 2 + WINDOW_MAX && mailbox::waiting(memory, PORT) == 0
}

/// What the applications at both ends of a stream wrote down, judged.
///
/// # Errors
/// When a history cannot be read.
pub fn judge(stream: u64, sender: impl BufRead, receiver: impl BufRead) -> std::io::Result<Verdict> {
    let mut sent: Vec<Sent> = Vec::new();
    let mut told: HashMap<u64, Outcome> = HashMap::new();
    for line in sender.lines() {
        let line = line?;
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
        match kind {
            "s" => {
                let (id, bytes, checksum) = (number(), number(), number());
                sent.push(Sent { stream, id, bytes, checksum, outcome: Outcome::Pending });
            }
            "a" => drop(told.insert(number(), Outcome::Arrived)),
            "f" => drop(told.insert(number(), Outcome::Refused { may_have_arrived: true })),
            _ => {}
        }
    }
    for one in &mut sent {
        one.outcome = told.get(&one.id).copied().unwrap_or(Outcome::Pending);
    }
    let mut delivered = Vec::new();
    for line in receiver.lines() {
        let line = line?;
        let Some(rest) = line.strip_prefix("d ") else { continue };
        let mut words = rest.split(' ').map(|word| word.parse::<u64>().unwrap_or(u64::MAX));
        let mut number = || words.next().unwrap_or(u64::MAX);
        delivered.push(Delivered { stream, id: number(), bytes: number(), checksum: number() });
    }
    Ok(check::check(&sent, &delivered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_judged_by_what_they_say() {
        let sender = "s 0 12 7\ns 1 12 8\na 0\ns 2 12 9\na 1\n";
        let verdict = |receiver: &str| judge(1, sender.as_bytes(), receiver.as_bytes()).unwrap();
        let good = verdict("d 0 12 7 1\nd 1 12 8 2\n");
        assert!(good.is_perfect());
        assert_eq!((good.sent_count, good.delivered_count, good.pending_count), (3, 2, 1));
        assert_eq!(verdict("d 0 12 7 1\n").lost_count, 1);
        assert_eq!(verdict("d 0 12 7 1\nd 1 12 8 2\nd 1 12 8 3\n").duplicated_count, 1);
        assert_eq!(verdict("d 1 12 8 1\nd 0 12 7 2\n").reordered_count, 1);
        assert_eq!(verdict("d 0 12 7 1\nd 1 12 5 2\n").corrupted_count, 1);
        assert_eq!(verdict("d 0 12 7 1\nd 1 12 8 2\nd 77 1 1 1\n").unexpected_count, 1);
    }
}
