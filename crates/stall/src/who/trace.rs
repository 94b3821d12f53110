//! The timeline as a trace file: the JSON of the Trace Event Format, which <https://ui.perfetto.dev> opens.
//!
//! - One track per watched core, below the process "watched cores", with a slice for all that was not its work.
//! - One track per raising thread, below its process, with a short slice at each time that it raised something; and one
//!   for whatever was raised in interrupts, whose threads are bystanders.
//! - A flow from each raise to what it caused.
//!
//! The file has a limit ([`FILE_BYTES`]). What does not fit is left out whole, so that every flow has both its ends.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use surefoot_model::{CpuId, Raiser, Timeline, TimelineSlice, WhoReport};

/// The largest trace file, its closing lines of a few KiB aside.
pub const FILE_BYTES: u64 = 256 << 20;

/// Of these, what stacks may take; beyond it a raiser's stacks stand at its first raise only.
const STACK_BYTES: u64 = 64 << 20;

/// How long a raise is drawn, nanoseconds; it has no length of its own.
const RAISE_NS: u64 = 1_000;

/// Raisers that a slice names.
const NAMED_PER_SLICE: usize = 4;

/// Numbers of processes and threads that no Linux system gives (its largest is 4,194,304).
const CORES_PID: u32 = 1_000_000_000;
const INTERRUPTS_PID: u32 = 1_100_000_000;

/// What a trace file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Start of the watch, from which the file counts its times: `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// Slices of the watched cores.
    pub slices: u64,
    /// Raises.
    pub raises: u64,
    /// Flows from a raise to what it caused.
    pub flows: u64,
    /// Slices, raises and flows that were seen but left out: too many, or the file at its limit.
    pub left_out: u64,
    /// Changes of context that were overwritten before they could be read.
    pub turns_lost: u64,
}

#[derive(Serialize)]
struct TraceEvent<'a, A: Serialize> {
    ph: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'a str,
    pid: u32,
    tid: u32,
    /// Microseconds since the start of the watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct SliceArgs<'a> {
    kind: &'static str,
    cause: &'a str,
    cpu: CpuId,
    duration_ns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    raised_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certainty: Vec<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    more_raisers: u64,
}

#[derive(Serialize)]
struct RaiseArgs<'a> {
    certainty: &'static str,
    function: &'a str,
    syscall: &'a str,
    cpus: Vec<CpuId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    wakee: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    kernel_stack: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_stack: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Counts what goes into the file.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The events of the file, one per line.
struct Events<W> {
    out: Counted<W>,
    limit_bytes: u64,
    is_first: bool,
    start_ns: u64,
}

impl<W: Write> Events<W> {
    fn micros(&self, at_ns: u64) -> Option<f64> {
        Some(at_ns.saturating_sub(self.start_ns) as f64 / 1e3)
    }

    fn add<A: Serialize>(&mut self, event: &TraceEvent<'_, A>) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn has_room(&self) -> bool {
        self.out.bytes < self.limit_bytes
    }

    fn name(&mut self, what: &str, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        let args = Some(Name { name });
        self.add(&TraceEvent { ph: "M", name: what, pid, tid, args, ..blank() })
    }
}

fn blank<'a, A: Serialize>() -> TraceEvent<'a, A> {
    TraceEvent { ph: "", name: "", cat: "", pid: 0, tid: 0, ts: None, dur: None, id: None, bp: None, args: None }
}

/// Writes the trace of a report that carries a timeline.
pub fn write(out: impl Write, found: &WhoReport, timeline: &Timeline) -> io::Result<Written> {
    write_within(out, found, timeline, FILE_BYTES, STACK_BYTES)
}

fn write_within(
    out: impl Write,
    found: &WhoReport,
    timeline: &Timeline,
    limit_bytes: u64,
    stack_bytes: u64,
) -> io::Result<Written> {
    let start_ns = found.start_ns;
    let mut events = Events { out: Counted { out, bytes: 0 }, limit_bytes, is_first: true, start_ns };
    let mut written = Written {
        start_ns,
        left_out: timeline.slices_dropped.saturating_add(timeline.arrivals_dropped),
        turns_lost: timeline.turns_lost,
        ..Written::default()
    };
    events.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    names(&mut events, timeline)?;
    let is_drawn = slices(&mut events, timeline, &mut written)?;
    raises(&mut events, timeline, &is_drawn, stack_bytes, &mut written)?;
    events.out.write_all(b"\n],\"otherData\":")?;
    serde_json::to_writer(&mut events.out, &written)?;
    events.out.write_all(b"}\n")?;
    Ok(written)
}

/// Process and thread of a raiser's track.
fn track(raiser: &Raiser) -> (u32, u32) {
    if raiser.tid == 0 { (INTERRUPTS_PID, INTERRUPTS_PID) } else { (raiser.pid, raiser.tid) }
}

fn core_tid(cpu: CpuId) -> u32 {
    // The number of a process's first thread is its own.
    CORES_PID + 1 + cpu.0 % 90_000_000
}

/// The names of the tracks.
fn names(events: &mut Events<impl Write>, timeline: &Timeline) -> io::Result<()> {
    let mut cores: Vec<CpuId> = timeline.slices.iter().map(|slice| slice.cpu).collect();
    cores.sort_unstable();
    cores.dedup();
    events.name("process_name", CORES_PID, CORES_PID, "watched cores")?;
    for cpu in cores {
        events.name("thread_name", CORES_PID, core_tid(cpu), &format!("core {cpu}"))?;
    }
    let mut tracks: BTreeMap<(u32, u32), &str> = BTreeMap::new();
    let raised = timeline.arrivals.iter().filter(|arrival| arrival.raised_ns.is_some());
    for raiser in raised.filter_map(|arrival| timeline.raisers.get(arrival.raiser? as usize)) {
        tracks.entry(track(raiser)).or_insert(&raiser.comm);
    }
    for (&(pid, tid), &comm) in &tracks {
        if pid == INTERRUPTS_PID {
            events.name("process_name", pid, tid, "raised in interrupts")?;
            events.name("thread_name", pid, tid, "interrupts of other work")?;
            continue;
        }
        if tracks.range((pid, 0)..).next().is_some_and(|(first, _)| *first == (pid, tid)) {
            let name = tracks.get(&(pid, pid)).map_or_else(|| format!("process {pid}"), |&name| name.to_owned());
            events.name("process_name", pid, tid, &name)?;
        }
        events.name("thread_name", pid, tid, comm)?;
    }
    Ok(())
}

/// Writes what ran on the watched cores; returns which slices are in the file.
fn slices(events: &mut Events<impl Write>, timeline: &Timeline, written: &mut Written) -> io::Result<Vec<bool>> {
    let mut raisers: HashMap<u32, (Vec<u32>, u64)> = HashMap::new();
    for arrival in &timeline.arrivals {
        let (Some(slice), Some(raiser)) = (arrival.slice, arrival.raiser) else { continue };
        let (named, more) = raisers.entry(slice).or_default();
        if named.len() < NAMED_PER_SLICE { named.push(raiser) } else { *more += 1 }
    }
    let mut is_drawn = vec![false; timeline.slices.len()];
    // What contains others comes before them, also when both begin at once.
    let mut order: Vec<usize> = (0..timeline.slices.len()).collect();
    order.sort_by_key(|&place| {
        let slice = &timeline.slices[place];
        (slice.start_ns, slice.cpu, std::cmp::Reverse((slice.duration_ns, place)))
    });
    for place in order {
        let slice = &timeline.slices[place];
        let Some(cause) = timeline.causes.get(slice.cause as usize) else { continue };
        if !events.has_room() {
            written.left_out += 1;
            continue;
        }
        let (named, more_raisers) = raisers.remove(&(place as u32)).unwrap_or_default();
        let named: Vec<&Raiser> = named.iter().filter_map(|&row| timeline.raisers.get(row as usize)).collect();
        let args = SliceArgs {
            kind: cause.kind.as_str(),
            cause: &cause.name,
            cpu: slice.cpu,
            duration_ns: slice.duration_ns,
            raised_by: named.iter().map(|raiser| who(raiser)).collect(),
            functions: named.iter().map(|raiser| raiser.function.as_str()).collect(),
            certainty: named.iter().map(|raiser| raiser.certainty.label()).collect(),
            more_raisers,
        };
        events.add(&TraceEvent {
            ph: "X",
            name: &cause.to_string(),
            cat: cause.kind.as_str(),
            pid: CORES_PID,
            tid: core_tid(slice.cpu),
            ts: events.micros(slice.start_ns),
            dur: Some(slice.duration_ns as f64 / 1e3),
            args: Some(args),
            ..blank()
        })?;
        is_drawn[place] = true;
        written.slices += 1;
    }
    Ok(is_drawn)
}

/// A raiser in words.
fn who(raiser: &Raiser) -> String {
    let mut text = raiser.comm.clone();
    if raiser.tid > 0 {
        text += &format!(" (thread {} of process {})", raiser.tid, raiser.pid);
    }
    if !raiser.syscall.is_empty() {
        text += &format!(" in {}", raiser.syscall);
    }
    text
}

/// Writes the raises, each with the flows to what it caused.
fn raises(
    events: &mut Events<impl Write>,
    timeline: &Timeline,
    is_drawn: &[bool],
    stack_bytes: u64,
    written: &mut Written,
) -> io::Result<()> {
    // One thread raises one thing at a time, for several cores perhaps.
    let mut at: BTreeMap<((u32, u32), u64), Vec<usize>> = BTreeMap::new();
    for (place, arrival) in timeline.arrivals.iter().enumerate() {
        let raiser = arrival.raiser.and_then(|row| timeline.raisers.get(row as usize));
        if let (Some(raiser), Some(raised_ns)) = (raiser, arrival.raised_ns) {
            at.entry((track(raiser), raised_ns)).or_default().push(place);
        }
    }
    let mut with_stacks = vec![false; timeline.raisers.len()];
    let mut stacks_left = stack_bytes;
    let mut raises = at.into_iter().peekable();
    while let Some(((track, raised_ns), places)) = raises.next() {
        if !events.has_room() {
            written.left_out += 1 + places.len() as u64;
            continue;
        }
        let next_ns = raises.peek().filter(|((next, _), _)| *next == track).map(|((_, at_ns), _)| *at_ns);
        let duration_ns = next_ns.map_or(RAISE_NS, |next_ns| RAISE_NS.min(next_ns - raised_ns));
        let Some(row) = timeline.arrivals[places[0]].raiser else { continue };
        let before = events.out.bytes;
        let shows_stacks = stacks_left > 0 || !with_stacks[row as usize];
        with_stacks[row as usize] = true;
        raise(events, timeline, (track, raised_ns, duration_ns), &places, shows_stacks)?;
        if shows_stacks {
            stacks_left = stacks_left.saturating_sub(events.out.bytes - before);
        }
        written.raises += 1;
        for &place in &places {
            let arrival = &timeline.arrivals[place];
            if let Some(slice) = arrival.slice.filter(|&slice| is_drawn.get(slice as usize) == Some(&true)) {
                flow(events, place as u64 + 1, (track, raised_ns), arrival.at_ns, &timeline.slices[slice as usize])?;
                written.flows += 1;
            }
        }
    }
    Ok(())
}

fn raise(
    events: &mut Events<impl Write>,
    timeline: &Timeline,
    ((pid, tid), raised_ns, duration_ns): ((u32, u32), u64, u64),
    places: &[usize],
    shows_stacks: bool,
) -> io::Result<()> {
    let first = &timeline.arrivals[places[0]];
    let Some(raiser) = first.raiser.and_then(|row| timeline.raisers.get(row as usize)) else { return Ok(()) };
    let mut cpus: Vec<CpuId> = places.iter().map(|&place| timeline.arrivals[place].cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let cause = timeline.causes.get(first.cause as usize).map(ToString::to_string).unwrap_or_default();
    let name = if raiser.syscall.is_empty() { cause } else { format!("{}: {cause}", raiser.syscall) };
    let stack = |frames: &[String]| match (frames.is_empty(), shows_stacks) {
        (true, _) => String::new(),
        (false, true) => frames.join("\n"),
        (false, false) => "as at the first raise with the same function and system call".to_owned(),
    };
    let args = RaiseArgs {
        certainty: raiser.certainty.label(),
        function: &raiser.function,
        syscall: &raiser.syscall,
        cpus,
        wakee: &raiser.wakee,
        kernel_stack: stack(&raiser.kernel_stack),
        user_stack: stack(&raiser.user_stack),
    };
    events.add(&TraceEvent {
        ph: "X",
        name: &name,
        cat: "raise",
        pid,
        tid,
        ts: events.micros(raised_ns),
        dur: Some(duration_ns as f64 / 1e3),
        args: Some(args),
        ..blank()
    })
}

fn flow(
    events: &mut Events<impl Write>,
    id: u64,
    ((pid, tid), raised_ns): ((u32, u32), u64),
    at_ns: u64,
    slice: &TimelineSlice,
) -> io::Result<()> {
    // The mark and the slice come from two programs on the same tracepoint, so the mark may lie just before. What a
    // kernel thread raises for itself arrives at once, but a flow must not end before it began.
    let last_ns = slice.start_ns.saturating_add(slice.duration_ns.saturating_sub(1));
    let arrived_ns = at_ns.max(raised_ns.saturating_add(1)).clamp(slice.start_ns, last_ns);
    let end = |ph, pid, tid, at_ns, bp| TraceEvent::<()> {
        ph,
        name: "raised",
        cat: "raise",
        pid,
        tid,
        ts: events.micros(at_ns),
        id: Some(id),
        bp,
        ..blank()
    };
    let (from, to) =
        (end("s", pid, tid, raised_ns, None), end("f", CORES_PID, core_tid(slice.cpu), arrived_ns, Some("e")));
    events.add(&from)?;
    events.add(&to)
}

#[cfg(test)]
mod tests;
