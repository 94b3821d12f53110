//! Follows what the kernel reports of memory errors, as it reports it: trace events, in an instance of our own.
//!
//! Nobody is woken and no core is asked: lines are taken from the buffers by whoever calls [`Follower::turn`]. Enabling an event
//! changes the kernel's text once, at the start. In a recorded tree the lines come from `sys/kernel/tracing/trace_pipe`, a file or
//! a pipe.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_memory::follow::Follower;
//! match Follower::open(&Root::at("/a/recorded/tree")) {
//!     Ok(mut follower) => {
//!         let is_more = follower.turn(1 << 20, &mut |report| println!("{}", report.label))?;
//!         println!("more waits: {is_more}");
//!     }
//!     Err(unsupported) => println!("{unsupported}"),
//! }
//! # Ok::<(), surefoot_memory::Error>(())
//! ```

mod decode;
mod events;
mod handling;
mod instance;
mod line;
mod once;

use crate::Error;
pub use handling::Handled;

use decode::{At, Said};
use events::Kind;
use handling::Handling;
use instance::Instance;
use line::Line;
use once::Once;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use surefoot_hostfs::namespaces::Namespaces;
use surefoot_hostfs::tracefs::Tracefs;
use surefoot_hostfs::{Root, Unsupported, clock};
use surefoot_model::{ErrorReport, LossKind, MemoryProblem, MemorySource};

/// The longest line that is read. The kernel's are 8 KiB at most.
const LINE_BYTES_MAX: usize = 8 << 10;
/// What one read takes.
const READ_BYTES: usize = 64 << 10;

/// Follows the reports of a host.
#[derive(Debug)]
pub struct Follower {
    /// Closed before the instance is removed, which the kernel refuses otherwise: fields are dropped in this order.
    pipe: File,
    instance: Option<Instance>,
    kinds: Vec<Kind>,
    /// `None` where that cannot be timed.
    handling: Option<Handling>,
    problems: Vec<MemoryProblem>,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    /// What reads go into, kept from turn to turn.
    buffer: Vec<u8>,
    /// Whether the rest of a line that is too long is still coming.
    is_skipping: bool,
    once: Once,
    /// Lines that could not be understood, by whose they are.
    garbled: BTreeMap<MemorySource, u64>,
    /// Events that the trace itself says are missing.
    missing: u64,
    /// What the instance's counters said last.
    overrun: u64,
    /// Whether lines have come since these were looked at.
    has_read: bool,
}

/// Reports that came and were not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Whose.
    pub source: MemorySource,
    /// What became of them.
    pub kind: LossKind,
    /// How many since the beginning.
    pub count: u64,
    /// Why.
    pub why: String,
}

/// What following does to the cores, told before it is done, as `surefoot_probes::disturbance` tells of attaching: to size the buffer
/// of each core the kernel runs a work item there (`update_pages_handler`; on 6.18 one for each core but that of this process, at
/// the start and not again).
pub fn forewarning(cores: usize) -> String {
    format!(
        "surefoot: a trace instance for memory errors is about to be made: the kernel wakes a worker once on each of {cores} cores but this \
         one, to size its buffer there"
    )
}

impl Follower {
    /// Begins to follow.
    ///
    /// # Errors
    /// [`Unsupported`] where there is no tracing, or none of these events, or it may not be used.
    pub fn open(root: &Root) -> Result<Self, Unsupported> {
        if root.is_host() { Self::of_host(root) } else { Self::of_tree(root) }
    }

    fn of_host(root: &Root) -> Result<Self, Unsupported> {
        // Events have the times of the machine's clock.
        Namespaces::of_this_process().offsets()?;
        let tracefs = Tracefs::open(root)?;
        let mut problems = Vec::new();
        let mut found = Vec::new();
        for kind in Kind::ALL {
            match kind.found(&tracefs) {
                Ok(Some(place)) => found.push((kind, place)),
                Ok(None) => {}
                Err(why) => problems.push(problem(kind, why)),
            }
        }
        if found.is_empty() {
            return Err(Unsupported::new(
                "this kernel has no trace event of memory errors",
                "use a kernel with CONFIG_RAS; counts are read all the same",
            ));
        }
        let refused = |error: Error| match &error {
            Error::Host(of_host) => Unsupported::of(of_host, "run as root of the host, with tracing allowed"),
            _ => Unsupported::new(error.to_string(), "run as root of the host, with tracing allowed"),
        };
        let instance = Instance::make(tracefs, root).map_err(refused)?;
        let mut kinds = Vec::new();
        for (kind, (group, name)) in found {
            match instance.enable(group, name) {
                Ok(()) => kinds.push(kind),
                Err(error) => problems.push(problem(kind, error.to_string())),
            }
        }
        let handling = Handling::enable(&instance, instance.tracefs(), root);
        let pipe = root.open_plain(instance.pipe()).map_err(|error| refused(error.into()))?;
        Ok(Follower { handling, ..Self::new(pipe, Some(instance), kinds, problems) })
    }

    fn of_tree(root: &Root) -> Result<Self, Unsupported> {
        let path = root.sys("kernel/tracing/trace_pipe");
        let pipe = root.open_plain(&path).map_err(|_| {
            Unsupported::new(
                format!("this tree has no recorded trace ({} is not there)", path.display()),
                "put lines of trace_pipe there; counts are read all the same",
            )
        })?;
        Ok(Self::new(pipe, None, Kind::ALL.to_vec(), Vec::new()))
    }

    fn new(pipe: File, instance: Option<Instance>, kinds: Vec<Kind>, problems: Vec<MemoryProblem>) -> Self {
        Follower {
            pipe,
            instance,
            kinds,
            handling: None,
            problems,
            rest: Vec::new(),
            buffer: Vec::new(),
            is_skipping: false,
            once: Once::default(),
            garbled: BTreeMap::new(),
            missing: 0,
            overrun: 0,
            has_read: false,
        }
    }

    /// Whose reports are followed.
    pub fn sources(&self) -> Vec<MemorySource> {
        let mut sources: Vec<MemorySource> = self.kinds.iter().map(|kind| kind.source()).collect();
        sources.dedup();
        sources
    }

    /// Events of this kernel that are not followed, and why.
    pub fn problems(&self) -> &[MemoryProblem] {
        &self.problems
    }

    /// Takes the lines that wait, up to about this many bytes, and gives `each` report. Whether more waits.
    ///
    /// # Errors
    /// [`Error::Read`] where the trace can be read no more.
    pub fn turn(&mut self, bytes_max: usize, each: &mut dyn FnMut(ErrorReport)) -> Result<bool, Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ_BYTES.min(bytes_max.max(1)), 0);
        let mut taken = 0;
        let is_more = loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => break false,
                Ok(count) => {
                    self.has_read = true;
                    self.take(&buffer[..count], each);
                    taken += count;
                    if taken >= bytes_max {
                        break true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { path: "trace_pipe".into(), source }),
            }
        };
        self.buffer = buffer;
        self.once.end_turn(each);
        Ok(is_more)
    }

    /// What was held back to see whether it is told twice; at the end.
    pub fn finish(&mut self, each: &mut dyn FnMut(ErrorReport)) {
        self.once.finish(each);
    }

    /// Reports that came and were not followed, since the beginning.
    pub fn lost(&mut self) -> Vec<Lost> {
        // The counters of all cores are many files: they are read where lines have come.
        if let Some(instance) = self.instance.as_ref().filter(|_| std::mem::take(&mut self.has_read)) {
            self.overrun = self.overrun.max(instance.overrun());
        }
        let unread = self.overrun.max(self.missing);
        let why = "the kernel's trace buffer was full before it was read".to_owned();
        let source = self.kinds.first().map_or(MemorySource::McEvent, |kind| kind.source());
        let mut lost = Vec::new();
        if unread > 0 {
            lost.push(Lost { source, kind: LossKind::NotRead, count: unread, why });
        }
        lost.extend(self.garbled.iter().map(|(&source, &count)| Lost {
            source,
            kind: LossKind::NotUnderstood,
            count,
            why: "their lines in the trace are not as this release knows them".to_owned(),
        }));
        lost
    }

    /// How long the kernel handled what it reported; `None` where that cannot be timed.
    pub fn handled(&self) -> Option<Handled> {
        self.handling.as_ref().map(Handling::handled)
    }

    /// The tracefs that is followed; `None` in a recorded tree.
    pub fn place(&self) -> Option<String> {
        self.instance.as_ref().map(|instance| instance.tracefs().place().to_string())
    }

    /// Reads a recorded trace again from its start.
    #[cfg(test)]
    pub(crate) fn rewind(&mut self) {
        use std::io::Seek;
        let begun = self.pipe.rewind();
        assert!(begun.is_ok(), "{begun:?}");
    }

    fn take(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(ErrorReport)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (line, after) = (&bytes[..end], &bytes[end + 1..]);
            bytes = after;
            if std::mem::take(&mut self.is_skipping) {
                self.garbled(MemorySource::McEvent);
            } else if self.rest.is_empty() {
                self.line(&String::from_utf8_lossy(line), each);
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&String::from_utf8_lossy(&whole), each);
            }
        }
        if self.is_skipping {
            return;
        }
        if self.rest.len() + bytes.len() > LINE_BYTES_MAX {
            self.rest = Vec::new();
            self.is_skipping = true;
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &str, each: &mut dyn FnMut(ErrorReport)) {
        match line::read(line) {
            Line::Lost(count) => self.missing = self.missing.saturating_add(count),
            Line::Event { at_ns, name, text } => {
                if self.handling.as_mut().is_some_and(|handling| handling.take(name, text, at_ns)) {
                    return;
                }
                let Some(kind) = Kind::named(name) else { return };
                match decode::decode(kind, text, self.at(at_ns)) {
                    Said::Report(report) => self.once.take(report, each),
                    Said::NotMemory => {}
                    Said::Garbled => self.garbled(kind.source()),
                }
            }
            Line::Other => {}
        }
    }

    /// A time of the trace on both clocks. What was recorded is of another clock, and is told as if it came now.
    fn at(&self, at_ns: u64) -> At {
        let (now_ns, now_realtime_ns) = (clock::monotonic_ns(), clock::realtime_ns());
        if self.instance.is_none() {
            return At { at_ns: now_ns, at_realtime_ns: now_realtime_ns };
        }
        // Printed in microseconds, so that it may be ahead by one.
        let at_ns = at_ns.min(now_ns);
        At { at_ns, at_realtime_ns: now_realtime_ns.saturating_sub(now_ns - at_ns) }
    }

    fn garbled(&mut self, source: MemorySource) {
        *self.garbled.entry(source).or_default() += 1;
    }
}

fn problem(kind: Kind, why: String) -> MemoryProblem {
    let (group, name) = kind.places()[0];
    MemoryProblem { source: kind.source(), path: format!("events/{group}/{name}"), why }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
