//! The eBPF programs that keep the ledger of each core, and their loader.
//!
//! The programs partition the wall time of every core inside the kernel (`bpf/ledger.h` explains how); this crate
//! loads them and reads their arrays through shared memory.
//!
//! # Invariants
//! - Reading never makes a system call and never interrupts a core: the arrays are mapped, nothing is sent.
//! - A [`Snapshot`] adds up: the sum of all causes' time equals the time since the start, to the nanosecond.
//!   A copy that does not was torn by a concurrent update and is read again, a limited number of times.
//! - Programs are chosen by what the kernel has, never by its version; what is left out is listed in
//!   [`Probes::missing`].
//!
//! ```no_run
//! use surefoot_model::CpuId;
//! use surefoot_probes::{Options, Probes};
//! let probes = Probes::attach(&Options::default())?;
//! if let Some(snapshot) = probes.snapshot(CpuId(0)) {
//!     println!("cpu 0 was idle for {} ns", snapshot.slot.causes[surefoot_probes::layout::CAUSE_IDLE].total_ns);
//! }
//! # Ok::<(), surefoot_probes::Error>(())
//! ```

pub mod disturbance;
mod error;
mod freeze;
pub mod layout;
mod load;
mod mapped;
mod patient;
#[cfg(test)]
mod planted;
pub mod programs;
mod raised;
mod raisers;
mod remembered;
mod ring;
mod shared;
mod task_numbers;
mod tracepoints;

pub use error::Error;
pub use freeze::{FREEZE_LEAD_NS, FREEZE_LENGTH_MAX_NS, FREEZE_RECORDS, FreezePlan, FreezeRecord, Freezer};
pub use raised::{ANY_CORE, COPY_BYTES, Mark, MarkKind, Raised, RaisedKind, STACK_FRAMES, UserCopy, moved_from};
pub use raisers::{CallEvidence, MARKS, RaiserCounts, RaiserOptions, RaiserRuns, Raisers, UserStacks};
pub use task_numbers::{TaskNumbers, TaskNumbersReader};
pub use tracepoints::Tracefs;

use layout::{CAUSES, CoreNames, LATE_RECORDS, Late, NAME_RECORDS, NameRecord, ProgramConfig, Slot, TAPE_TURNS, Turn};
use libbpf_rs::{Link, Object};
use load::Maps;
use programs::Program;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use surefoot_model::CpuId;

/// How often a torn snapshot is read again before it is given up.
const SNAPSHOT_ATTEMPTS: usize = 64;

/// How far the programs' reading of the clock may be ahead of ours: the kernel has a way of its own to read it.
const CLOCKS_DIFFER_NS_MAX: u64 = 100_000;

/// Which kind of tracepoint the programs sit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// BTF-typed tracepoints: cheapest, and the tasks themselves can be read.
    Btf,
    /// Plain tracepoints, for kernels without BTF: no late timers, kernel threads by a list from user space.
    Plain,
}

/// The work that preemption is counted against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Workload {
    /// None is named: only kernel threads count as lost time.
    #[default]
    None,
    /// These processes, by the kernel's own process numbers; with plain tracepoints these threads.
    Processes(Vec<u32>),
    /// Threads of this name, 15 bytes at most.
    Comm(String),
    /// Whoever is preempted on a watched core.
    Cores,
}

/// What the programs are told when they are loaded.
#[derive(Debug, Clone)]
pub struct Options {
    /// Timers that fire later than this are recorded, nanoseconds; 0 records none and attaches to no timer.
    pub late_threshold_ns: u64,
    /// The work that preemption is counted against.
    pub workload: Workload,
    /// The kind of tracepoint, or `None` for the best that this kernel has.
    pub flavour: Option<Flavour>,
    /// Whether to note when kernel messages are logged, which a console may hold the core for.
    pub console: bool,
    /// Where plain tracepoints are looked up; not needed for BTF-typed ones.
    pub tracefs: Tracefs,
    /// Rows of /proc/interrupts, by label, in which nothing has come yet: nothing is attached for them until
    /// [`Probes::attach_rows`].
    pub silent_rows: Vec<String>,
    /// Whether [`Raisers::attach`] follows: what both would attach to is left to its programs, which do both parts.
    pub raisers_follow: bool,
    /// How far this process's `CLOCK_MONOTONIC` is ahead of the kernel's, as in a time namespace, nanoseconds.
    pub clock_ahead_ns: i64,
    /// This process's number, as the kernel has it; in a PID namespace it is another one than the process itself knows.
    pub own_pid: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            late_threshold_ns: 100_000,
            workload: Workload::None,
            flavour: None,
            console: false,
            tracefs: Tracefs::default(),
            silent_rows: Vec::new(),
            raisers_follow: false,
            clock_ahead_ns: 0,
            own_pid: std::process::id(),
        }
    }
}

/// A program that this kernel does not allow.
#[derive(Debug, Clone)]
pub struct Missing {
    /// The program; its `without` says what is lost.
    pub program: Program,
    /// Why it is left out.
    pub why: String,
}

/// A consistent copy of one core's slot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When it was taken, `CLOCK_MONOTONIC` nanoseconds; not before `slot.last_ns`, unless the programs read another clock.
    pub at_ns: u64,
    /// The copy.
    pub slot: Box<Slot>,
}

impl Snapshot {
    /// The innermost open context.
    pub fn open_cause(&self) -> usize {
        let top = (self.slot.depth as usize).min(layout::FRAMES - 1);
        (self.slot.frames[top].cause as usize).min(CAUSES - 1)
    }

    /// Whether the open context may turn out to be the printing of a message, since the newest event.
    pub fn may_be_printing(&self) -> bool {
        let top = (self.slot.depth as usize).min(layout::FRAMES - 1);
        self.slot.frames[top].level & layout::LOGGED != 0
    }

    /// Time of the open context that no event has charged yet, nanoseconds.
    pub fn open_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.slot.last_ns).saturating_sub(self.slot.deferred_ns)
    }
}

/// What one program did since it was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// The program.
    pub program: Program,
    /// Runs over all cores; 0 for programs that do not count theirs.
    pub count: u64,
    /// Time over all cores, extrapolated from one run in [`layout::SAMPLE_EVERY`]; nanoseconds.
    pub total_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that core.
    pub missed: u64,
}

/// What was copied out of the arrays since the programs were attached: each copy takes its cache lines from the core that
/// writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Slots, by [`Probes::snapshot`].
    pub slots: u64,
    /// Turns, by [`Probes::read_tape`].
    pub turns: u64,
    /// Turns that the cores have written meanwhile.
    pub turns_written: u64,
}

/// The attached programs. Dropping it detaches them.
pub struct Probes {
    // Fields drop in this order: detach first, then unmap, then unload.
    links: Vec<Link>,
    maps: Maps,
    object: Object,
    flavour: Flavour,
    tracefs: Tracefs,
    missing: Vec<Missing>,
    told: ProgramConfig,
    left_to_raisers: Vec<&'static str>,
    /// Rows whose programs are loaded and not attached.
    silent_rows: Vec<String>,
    cpu_count: usize,
    start_ns: u64,
    clock_ahead_ns: i64,
    slots_read: AtomicU64,
    turns_read: AtomicU64,
}

impl Probes {
    /// Loads and attaches the programs.
    ///
    /// Attaching patches the kernel's text, which interrupts every core ([`disturbance`]); after that nothing does.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when this kernel or this privilege does not allow it, with what helps;
    /// [`Error::Refused`] when the kernel refused the programs for another reason.
    pub fn attach(options: &Options) -> Result<Self, Error> {
        let flavour = load::choose(options.flavour)?;
        let (object, missing) = load::load(flavour, options)?;
        let maps = load::map_all(&object)?;
        let cpu_count = libbpf_rs::num_possible_cpus().map_err(|error| Error::Refused { why: error.to_string() })?;
        if let Workload::Processes(ids) = &options.workload {
            load::put_ids(&object, "workload_ids", ids)?;
        }
        let start_ns = monotonic_ns(options.clock_ahead_ns);
        load::start_slots(&maps, cpu_count, start_ns);
        let is_left = options.raisers_follow && flavour == Flavour::Btf;
        let left_to_raisers = if is_left { load::left_to_raisers()? } else { Vec::new() };
        let mut probes = Probes {
            links: Vec::new(),
            maps,
            object,
            flavour,
            tracefs: options.tracefs.clone(),
            missing,
            told: load::told(options)?,
            left_to_raisers,
            silent_rows: options.silent_rows.clone(),
            cpu_count,
            start_ns,
            clock_ahead_ns: options.clock_ahead_ns,
            slots_read: AtomicU64::new(0),
            turns_read: AtomicU64::new(0),
        };
        let (left, silent) = (probes.left_to_raisers.clone(), probes.silent_rows.clone());
        let waits = |name: &str| programs::row_of(name).is_some_and(|row| silent.iter().any(|label| label == row));
        probes.attach_those(|name| !left.contains(&name) && !waits(name))?;
        Ok(probes)
    }

    /// What [`Probes::attach`] would find: loads the programs, which the kernel checks, and attaches none. It interrupts
    /// no core.
    ///
    /// # Errors
    /// As [`Probes::attach`].
    pub fn check(options: &Options) -> Result<(Flavour, Vec<Missing>), Error> {
        let flavour = load::choose(options.flavour)?;
        let (_, missing) = load::load(flavour, options)?;
        Ok((flavour, missing))
    }

    /// Attaches the programs of these rows of /proc/interrupts, if they waited for something to come; returns to how many
    /// tracepoints.
    ///
    /// # Errors
    /// [`Error::Refused`] when the kernel refuses.
    pub fn attach_rows(&mut self, rows: &[&str]) -> Result<usize, Error> {
        let wanted: Vec<String> = self.silent_rows.iter().filter(|row| rows.contains(&row.as_str())).cloned().collect();
        if wanted.is_empty() {
            return Ok(0);
        }
        self.silent_rows.retain(|row| !wanted.contains(row));
        let before = self.links.len();
        self.attach_those(|name| programs::row_of(name).is_some_and(|row| wanted.iter().any(|label| label == row)))?;
        Ok(self.links.len() - before)
    }

    fn attach_those(&mut self, is_wanted: impl Fn(&str) -> bool) -> Result<(), Error> {
        let tracefs = (self.flavour == Flavour::Plain).then_some(&self.tracefs);
        self.links.extend(load::attach_all(&mut self.object, tracefs, is_wanted)?);
        Ok(())
    }

    /// Whether a program waits for something to come in its row of /proc/interrupts.
    pub fn is_silent(&self, row: &str) -> bool {
        self.silent_rows.iter().any(|label| label == row)
    }

    /// Tracepoints that its programs are attached to.
    pub fn attached(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The kind of tracepoint in use.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The programs that this kernel does not allow.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// When the ledgers began, `CLOCK_MONOTONIC` nanoseconds.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Cores that the arrays have room for: every core that the kernel may ever bring online.
    pub fn cpu_count(&self) -> usize {
        self.cpu_count
    }

    /// Bytes of all arrays.
    pub fn map_bytes(&self) -> u64 {
        let maps = &self.maps;
        let names = maps.names.bytes() + maps.name_ring.bytes();
        (maps.slots.bytes() + maps.histograms.bytes() + maps.tape.bytes() + maps.late.bytes() + names) as u64
    }

    /// What was copied so far.
    pub fn reads(&self) -> Reads {
        Reads {
            slots: self.slots_read.load(Ordering::Relaxed),
            turns: self.turns_read.load(Ordering::Relaxed),
            turns_written: (0..self.cpu_count as u32).map(|cpu| self.tape_end(CpuId(cpu))).sum(),
        }
    }

    /// Tells the programs which threads are kernel threads; needed with [`Flavour::Plain`] only.
    ///
    /// # Errors
    /// [`Error::Workload`] when there are more than the set holds (16,384).
    pub fn set_kernel_threads(&self, ids: &[u32]) -> Result<(), Error> {
        load::put_ids(&self.object, "kernel_threads", ids)
    }

    /// Replaces the processes of the workload.
    ///
    /// # Errors
    /// [`Error::Workload`] when there are more than the set holds (4,096).
    pub fn set_workload(&self, ids: &[u32]) -> Result<(), Error> {
        load::put_ids(&self.object, "workload_ids", ids)
    }

    /// A consistent copy of a core's slot, or `None` if the core kept changing it or does not exist.
    pub fn snapshot(&self, cpu: CpuId) -> Option<Snapshot> {
        let index = cpu.0 as usize;
        if index >= self.cpu_count {
            return None;
        }
        self.slots_read.fetch_add(1, Ordering::Relaxed);
        let mut slot = Box::new(Slot::zeroed());
        for _ in 0..SNAPSHOT_ATTEMPTS {
            self.maps.slots.load(index, &mut slot);
            let at_ns = monotonic_ns(self.clock_ahead_ns);
            let seq = self.maps.slots.word(index, offset_of!(Slot, seq));
            if seq == slot.seq && seq.is_multiple_of(2) && adds_up(&slot) {
                // The two ways to read one clock agree to within this; a clock that is further behind is another one.
                let is_ahead = slot.last_ns.saturating_sub(at_ns) <= CLOCKS_DIFFER_NS_MAX;
                let at_ns = if is_ahead { at_ns.max(slot.last_ns) } else { at_ns };
                return Some(Snapshot { at_ns, slot });
            }
            std::hint::spin_loop();
        }
        None
    }

    /// How many turns a core has ever written to its tape.
    pub fn tape_end(&self, cpu: CpuId) -> u64 {
        if cpu.0 as usize >= self.cpu_count {
            return 0;
        }
        self.maps.slots.word(cpu.0 as usize, offset_of!(Slot, tape_turns))
    }

    /// Appends the turns of a core from number `from` on; returns the number to continue with and how many turns
    /// were overwritten before they could be read.
    pub fn read_tape(&self, cpu: CpuId, from: u64, into: &mut Vec<Turn>) -> (u64, u64) {
        if cpu.0 as usize >= self.cpu_count {
            return (from, 0);
        }
        let end = self.tape_end(cpu);
        let oldest = end.saturating_sub(TAPE_TURNS as u64);
        let mut next = from.max(oldest);
        let first_kept = into.len();
        while next < end {
            let mut turn = Turn::default();
            self.maps.tape.load(cpu.0 as usize * TAPE_TURNS + (next as usize & (TAPE_TURNS - 1)), &mut turn);
            into.push(turn);
            next += 1;
        }
        self.turns_read.fetch_add(end.saturating_sub(from.max(oldest)), Ordering::Relaxed);
        // The writer may have lapped us while we copied. One more turn than it has finished may be half written.
        let lapped = (self.tape_end(cpu) + 1).saturating_sub(TAPE_TURNS as u64);
        let spoilt = lapped.saturating_sub(from.max(oldest)).min(end - from.max(oldest).min(end)) as usize;
        into.drain(first_kept..first_kept + spoilt);
        (end, oldest.saturating_sub(from) + spoilt as u64)
    }

    /// The late timers of a core from number `from` on; returns the number to continue with and how many were
    /// overwritten.
    pub fn read_late(&self, cpu: CpuId, from: u64, into: &mut Vec<Late>) -> (u64, u64) {
        let index = cpu.0 as usize;
        if index >= self.cpu_count {
            return (from, 0);
        }
        let end = || self.maps.slots.word(index, offset_of!(Slot, late_records));
        let load = |number: u64| {
            let mut late = Late::zeroed();
            self.maps.late.load(index * LATE_RECORDS + (number as usize % LATE_RECORDS), &mut late);
            late
        };
        ring::read(LATE_RECORDS, from, end, load, into)
    }

    /// The names of a core's tasks from number `from` on; returns the number to continue with and how many were
    /// overwritten. Who reads a tape first finds the names of all that is on it.
    pub fn read_names(&self, cpu: CpuId, from: u64, into: &mut Vec<NameRecord>) -> (u64, u64) {
        let index = cpu.0 as usize;
        if index >= self.cpu_count {
            return (from, 0);
        }
        let end = || self.maps.names.word(index, offset_of!(CoreNames, written));
        let load = |number: u64| {
            let mut record = NameRecord::default();
            self.maps.name_ring.load(index * NAME_RECORDS + (number as usize % NAME_RECORDS), &mut record);
            record
        };
        ring::read(NAME_RECORDS, from, end, load, into)
    }

    /// Copies the durations of one cause on one core, also those that the core holds and has not counted yet.
    pub fn histogram(&self, cpu: CpuId, cause: usize) -> [u32; layout::BUCKETS] {
        let index = cpu.0 as usize;
        let mut buckets = [0u32; layout::BUCKETS];
        if index >= self.cpu_count || cause >= CAUSES {
            return buckets;
        }
        // One that changes all the time is read as it is: a duration may be missing or be there twice.
        for _ in 0..SNAPSHOT_ATTEMPTS {
            let seq = self.maps.slots.word(index, offset_of!(Slot, seq));
            self.read_booked(index, cause, &mut buckets);
            self.add_held(index, cause, &mut buckets);
            if seq.is_multiple_of(2) && self.maps.slots.word(index, offset_of!(Slot, seq)) == seq {
                break;
            }
            std::hint::spin_loop();
        }
        buckets
    }

    fn read_booked(&self, index: usize, cause: usize, buckets: &mut [u32; layout::BUCKETS]) {
        for (pair, two) in buckets.chunks_exact_mut(2).enumerate() {
            let offset_bytes = (cause * layout::BUCKETS + pair * 2) * 4;
            let word = self.maps.histograms.word(index, offset_bytes).to_ne_bytes();
            two[0] = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            two[1] = u32::from_ne_bytes([word[4], word[5], word[6], word[7]]);
        }
    }

    fn add_held(&self, index: usize, cause: usize, buckets: &mut [u32; layout::BUCKETS]) {
        const WORDS: usize = (layout::HELD_DURATIONS * 2 + 4) / 8;
        let mut line = [0u8; WORDS * 8];
        for (word, bytes) in line.chunks_exact_mut(8).enumerate() {
            let at = offset_of!(Slot, held_durations) + word * 8;
            bytes.copy_from_slice(&self.maps.slots.word(index, at).to_ne_bytes());
        }
        let (held, count) = line.split_at(offset_of!(Slot, held) - offset_of!(Slot, held_durations));
        let count = u32::from_ne_bytes([count[0], count[1], count[2], count[3]]) as usize;
        for number in held.chunks_exact(2).take(count).map(|pair| usize::from(u16::from_ne_bytes([pair[0], pair[1]]))) {
            if number / layout::BUCKETS == cause {
                buckets[number % layout::BUCKETS] += 1;
            }
        }
    }

    /// What each program cost since it was attached, over the given snapshots of all cores.
    pub fn runs<'a>(&self, slots: impl Iterator<Item = &'a Slot> + Clone) -> Vec<Runs> {
        self.object
            .progs()
            .filter(|program| program.autoload())
            .filter_map(|program| {
                let known = programs::named(&program.name().to_string_lossy())?;
                let (count, sampled_ns) = known.number.map_or((0, 0), |number| {
                    slots.clone().fold((0, 0), |(count, sampled), slot| {
                        (count + slot.programs[number].count, sampled + slot.programs[number].sampled_ns)
                    })
                });
                Some(Runs {
                    program: known,
                    count,
                    total_ns: sampled_ns * layout::SAMPLE_EVERY,
                    missed: missed_runs(program.as_fd().as_raw_fd()),
                })
            })
            .collect()
    }
}

/// Whether the causes' times add up to the time that has been charged.
fn adds_up(slot: &Slot) -> bool {
    let total = slot.causes.iter().fold(0u64, |sum, cause| sum.wrapping_add(cause.total_ns));
    total == slot.last_ns.wrapping_sub(slot.start_ns).wrapping_add(slot.deferred_ns)
}

/// What the kernel tells of a program.
fn program_info(fd: i32) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the pointer and the length describe `info`, which outlives the call.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut bytes) };
    (result == 0).then_some(info)
}

/// How often the kernel skipped a program because it was already running on that core.
fn missed_runs(fd: i32) -> u64 {
    program_info(fd).map_or(0, |info| info.recursion_misses)
}

/// The clock that the programs read, too; this process's is so far ahead of it.
fn monotonic_ns(ahead_ns: i64) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).saturating_add_signed(-ahead_ns)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::time::{Duration, Instant};
    use surefoot_testkit::not_run::not_run;

    /// Runs on this core only, from now on.
    fn pin_to(cpu: CpuId) {
        // SAFETY: a set of cores is made of integers, and is read for as long as it is.
        let failed = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu.0 as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set)
        };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }

    /// What the ledger believes to run is made wrong, as it is after a switch that nobody reported.
    #[test]
    fn the_tick_finds_who_runs_after_a_switch_that_was_not_reported() {
        let probes = match Probes::attach(&Options::default()) {
            Ok(probes) => probes,
            Err(error) => {
                return not_run("the_tick_finds_who_runs_after_a_switch_that_was_not_reported", &error.to_string());
            }
        };
        const LOCAL_TIMER: u16 = layout::CAUSE_LOCAL_TIMER as u16;
        let (cpu, nobody) = (CpuId(0), i32::MAX as u32);
        // SAFETY: takes no argument.
        let own = unsafe { libc::gettid() } as u32;
        pin_to(cpu);
        let mut from = probes.tape_end(cpu);
        let mut turns = Vec::new();
        let give_up = Instant::now() + Duration::from_secs(60);
        // The base again at the very time of the tick. A real switch may come before, and mends it in its own way.
        let is_mended = |pair: &[Turn]| {
            let tick = (pair[1].cause, pair[1].depth) == (LOCAL_TIMER, 1);
            tick && pair[0].at_ns == pair[1].at_ns && (pair[0].depth, pair[0].pid) == (0, own)
        };
        while !turns.windows(2).any(is_mended) {
            assert!(Instant::now() < give_up, "nothing was mended on a tape of {} turns", turns.len());
            probes.maps.slots.disturb(0, offset_of!(Slot, base_pid), nobody);
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            from = probes.read_tape(cpu, from, &mut turns).0;
        }
        assert!(probes.snapshot(cpu).unwrap().slot.heals > 0);
    }
}
