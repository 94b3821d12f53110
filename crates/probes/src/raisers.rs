//! Who interrupts the watched cores: the programs of `bpf/raisers.bpf.c`, attached beside the ledger on demand.

use crate::error::Error;
use crate::load;
use crate::mapped::Mapped;
use crate::{Flavour, Probes};
use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use surefoot_model::CpuId;

/// Frames of a stack that are kept.
pub const STACK_FRAMES: usize = 48;

/// Marks that a core's ring holds.
pub const MARKS: usize = 8192;

/// The largest core number that can be watched, plus one.
const WATCHABLE: usize = 1024;

/// Records that wait between two calls of [`Raisers::take`]; more are dropped and counted.
const WAITING_RECORDS: usize = 1 << 16;

/// What was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaisedKind {
    /// A function was queued for the core; the key is its call-single data.
    Function,
    /// The core was told to reschedule; the key is the thread that was being woken.
    Reschedule,
    /// A timer was armed on the core; the key is the timer.
    Timer,
    /// Work was queued for a worker of the core; the key is the work item.
    Work,
    /// A kernel thread of the core was woken; the key is its number.
    Wake,
}

impl RaisedKind {
    fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => RaisedKind::Function,
            2 => RaisedKind::Reschedule,
            3 => RaisedKind::Timer,
            4 => RaisedKind::Work,
            5 => RaisedKind::Wake,
            _ => return None,
        })
    }
}

/// What a core met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// A called function began; key: call-single data (0 for a local call), value: the function.
    Function,
    /// A timer expired; key: the timer, value: its callback.
    Timer,
    /// A softirq was raised here; key: its vector, value: cause number of the context, thread in the upper half.
    Softirq,
    /// The tick was to be stopped; key: 1 if it was, value: what keeps it (bits of `TICK_DEP_MASK_*`).
    Tick,
}

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// What.
    pub kind: MarkKind,
    /// As the kind says.
    pub key: u64,
    /// As the kind says.
    pub value: u64,
}

/// A record of something raised on a watched core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// What.
    pub kind: RaisedKind,
    /// As the kind says.
    pub key: u64,
    /// Address of the function, callback or work function; 0 for the others.
    pub function: u64,
    /// The core that it was raised on.
    pub cpu: CpuId,
    /// The raising thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: [u8; 16],
    /// The thread that was being woken, for a reschedule.
    pub wakee: [u8; 16],
    /// Number of the system call it was in; `None` for kernel threads and interrupts.
    pub system_call: Option<u32>,
    /// Whether it was raised in an interrupt: the thread is then a bystander.
    pub in_interrupt: bool,
    /// Addresses, innermost first; empty where no stack was taken.
    pub kernel_stack: Vec<u64>,
    /// Addresses, innermost first; empty where no stack was taken.
    pub user_stack: Vec<u64>,
    /// The word on top of the user stack; 0 outside a system call. The C library's wrappers have no frame of their own,
    /// so it is where the wrapper returns to, and a walk along frame pointers misses just that function.
    pub user_top: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawRaised {
    at_ns: u64,
    key: u64,
    function: u64,
    comm: [u8; 16],
    wakee: [u8; 16],
    tid: u32,
    pid: u32,
    system_call: i32,
    cpu: u32,
    kind: u16,
    in_interrupt: u16,
    kernel_frames: u16,
    user_frames: u16,
    user_top: u64,
    kernel_stack: [u64; STACK_FRAMES],
    user_stack: [u64; STACK_FRAMES],
}

const BARE_BYTES: usize = offset_of!(RawRaised, kernel_stack);

impl RawRaised {
    fn parse(bytes: &[u8]) -> Option<Raised> {
        if bytes.len() < BARE_BYTES {
            return None;
        }
        let mut whole = [0u8; size_of::<RawRaised>()];
        let length = bytes.len().min(whole.len());
        whole[..length].copy_from_slice(&bytes[..length]);
        // SAFETY: the array has the size of RawRaised, which is repr(C), made of integers, and read unaligned.
        let raw: RawRaised = unsafe { std::ptr::read_unaligned(whole.as_ptr().cast()) };
        let frames = |stack: &[u64], count: u16| stack[..usize::from(count).min(STACK_FRAMES)].to_vec();
        Some(Raised {
            at_ns: raw.at_ns,
            kind: RaisedKind::from_number(raw.kind)?,
            key: raw.key,
            function: raw.function,
            cpu: CpuId(raw.cpu),
            tid: raw.tid,
            pid: raw.pid,
            comm: raw.comm,
            wakee: raw.wakee,
            system_call: u32::try_from(raw.system_call).ok(),
            in_interrupt: raw.in_interrupt != 0,
            kernel_stack: frames(&raw.kernel_stack, raw.kernel_frames),
            user_stack: frames(&raw.user_stack, raw.user_frames),
            user_top: raw.user_top,
        })
    }
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawMark {
    at_ns: u64,
    key: u64,
    value: u64,
    kind: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    second: u64,
    stacks: u64,
    records: u64,
    without_stack: u64,
    dropped: u64,
    marks: u64,
    wakee_pid: u32,
    wakee_is_kernel_thread: u32,
    wakee: [u8; 16],
}

#[repr(C)]
struct RaiserConfig {
    watched: [u64; WATCHABLE / 64],
    stacks_per_s: u64,
    kernel_stacks: u32,
    user_stacks: u32,
}

/// What to watch and how much to take.
#[derive(Debug, Clone)]
pub struct RaiserOptions {
    /// The cores whose interrupts are traced back.
    pub cpus: Vec<CpuId>,
    /// Whether to take the raisers' kernel stacks.
    pub kernel_stacks: bool,
    /// Whether to take the raisers' user stacks.
    pub user_stacks: bool,
    /// Stacks that each raising core takes per second; beyond it records carry none.
    pub stacks_per_s: u64,
}

/// What the raising side counted since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RaiserCounts {
    /// Records left.
    pub records: u64,
    /// Records that carry no stack although stacks were asked for, because the rate was exceeded.
    pub without_stack: u64,
    /// Records that found the ring, or the list of waiting ones, full.
    pub dropped: u64,
}

/// What one of the programs did since it was loaded, in the kernel's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaiserRuns {
    /// The program.
    pub program: String,
    /// The tracepoint that it sits on.
    pub tracepoint: String,
    /// Runs over all cores; the kernel counts only while `kernel.bpf_stats_enabled` is set.
    pub count: u64,
    /// Time over all cores, nanoseconds; likewise.
    pub total_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that core; always counted.
    pub missed: u64,
}

/// The attached programs. Dropping it detaches them.
pub struct Raisers {
    // Fields drop in this order: detach first, then unmap, then unload.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    waiting: Rc<RefCell<Waiting>>,
    senders: Mapped<Sender>,
    marks: Mapped<RawMark>,
    object: Object,
    cpu_count: usize,
    takes_stacks: bool,
    missing: Vec<String>,
}

#[derive(Default)]
struct Waiting {
    records: Vec<Raised>,
    dropped: u64,
}

impl Raisers {
    /// Loads and attaches the programs beside the ledger's.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without BTF, or for a core above 1,023; [`Error::Refused`] when the kernel refuses.
    pub fn attach(probes: &Probes, options: &RaiserOptions) -> Result<Self, Error> {
        if probes.flavour() != Flavour::Btf {
            return Err(Error::Unsupported {
                why: "naming raisers reads the kernel's own structures, which needs BTF".into(),
                remedy: "use a kernel built with CONFIG_DEBUG_INFO_BTF".into(),
            });
        }
        let cpu_count = probes.cpu_count();
        let config = raiser_config(options)?;
        let mut open = load::open_raisers()?;
        let missing = load::leave_out_absent(&mut open)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let refused = |error: libbpf_rs::Error| Error::Refused { why: error.to_string() };
            match name.as_str() {
                "slots" => map.reuse_fd(probes.slots_fd()?).map_err(refused)?,
                "senders" => map.set_max_entries(cpu_count as u32).map_err(refused)?,
                "marks" => map.set_max_entries((cpu_count * MARKS) as u32).map_err(refused)?,
                _ if name.ends_with(".config") => {
                    // SAFETY: RaiserConfig is repr(C) and made of integers without padding.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(std::ptr::from_ref(&config).cast::<u8>(), size_of::<RaiserConfig>())
                    };
                    map.set_initial_value(bytes).map_err(refused)?;
                }
                _ => {}
            }
        }
        let mut object = open.load().map_err(|error| load::refusal(&error))?;
        let senders = load::mapped(&object, "senders")?;
        let marks = load::mapped(&object, "marks")?;
        let waiting = Rc::new(RefCell::new(Waiting::default()));
        let ring = ring(&object, &waiting)?;
        let links = load::attach_all(&mut object)?;
        let takes_stacks = options.kernel_stacks || options.user_stacks;
        Ok(Raisers { _links: links, ring, waiting, senders, marks, object, cpu_count, takes_stacks, missing })
    }

    /// Which of the programs this kernel does not allow, each as a sentence.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Takes the records since the last call, in the order in which they were left.
    pub fn take(&self) -> Vec<Raised> {
        // The callback never fails, so neither does this.
        let _ = self.ring.consume();
        std::mem::take(&mut self.waiting.borrow_mut().records)
    }

    /// Appends the marks of a core from number `from` on; returns the number to continue with and how many were
    /// overwritten.
    pub fn read_marks(&self, cpu: CpuId, from: u64, into: &mut Vec<Mark>) -> (u64, u64) {
        let index = cpu.0 as usize;
        if index >= self.cpu_count {
            return (from, 0);
        }
        let end = self.senders.word(index, offset_of!(Sender, marks));
        let oldest = end.saturating_sub(MARKS as u64).max(from.min(end));
        let first_kept = into.len();
        for number in oldest..end {
            let mut raw = RawMark::default();
            self.marks.load(index * MARKS + (number as usize & (MARKS - 1)), &mut raw);
            let kind = match raw.kind {
                1 => MarkKind::Function,
                2 => MarkKind::Timer,
                3 => MarkKind::Softirq,
                _ => MarkKind::Tick,
            };
            into.push(Mark { at_ns: raw.at_ns, kind, key: raw.key, value: raw.value });
        }
        let lapped = (self.senders.word(index, offset_of!(Sender, marks)) + 1).saturating_sub(MARKS as u64);
        let spoilt = lapped.saturating_sub(oldest).min(end - oldest) as usize;
        into.drain(first_kept..first_kept + spoilt);
        (end, oldest.saturating_sub(from) + spoilt as u64)
    }

    /// The number of marks a core has left so far.
    pub fn marks_end(&self, cpu: CpuId) -> u64 {
        if cpu.0 as usize >= self.cpu_count {
            return 0;
        }
        self.senders.word(cpu.0 as usize, offset_of!(Sender, marks))
    }

    /// What each program did since it was loaded.
    pub fn runs(&self) -> Vec<RaiserRuns> {
        let attached = self.object.progs().filter(|program| program.autoload());
        attached
            .filter_map(|program| {
                let info = crate::program_info(program.as_fd().as_raw_fd())?;
                Some(RaiserRuns {
                    program: program.name().to_string_lossy().into_owned(),
                    tracepoint: load::tracepoint_of(&program.section().to_string_lossy()).to_owned(),
                    count: info.run_cnt,
                    total_ns: info.run_time_ns,
                    missed: info.recursion_misses,
                })
            })
            .collect()
    }

    /// What was counted since the programs were attached.
    pub fn counts(&self) -> RaiserCounts {
        let mut counts = RaiserCounts { dropped: self.waiting.borrow().dropped, ..RaiserCounts::default() };
        for cpu in 0..self.cpu_count {
            let mut sender = Sender::default();
            self.senders.load(cpu, &mut sender);
            counts.records += sender.records;
            counts.without_stack += if self.takes_stacks { sender.without_stack } else { 0 };
            counts.dropped += sender.dropped;
        }
        counts
    }
}

fn raiser_config(options: &RaiserOptions) -> Result<RaiserConfig, Error> {
    let mut watched = [0u64; WATCHABLE / 64];
    for cpu in &options.cpus {
        let Some(word) = watched.get_mut(cpu.0 as usize / 64) else {
            return Err(Error::Unsupported {
                why: format!("core {cpu} is above {}", WATCHABLE - 1),
                remedy: "raisers are named on cores below that only".into(),
            });
        };
        *word |= 1 << (cpu.0 % 64);
    }
    Ok(RaiserConfig {
        watched,
        stacks_per_s: options.stacks_per_s,
        kernel_stacks: u32::from(options.kernel_stacks),
        user_stacks: u32::from(options.user_stacks),
    })
}

fn ring(object: &Object, waiting: &Rc<RefCell<Waiting>>) -> Result<RingBuffer<'static>, Error> {
    let refused = |error: libbpf_rs::Error| Error::Refused { why: format!("the ring of raisers: {error}") };
    let map = object
        .maps()
        .find(|map| map.name() == "raised_ring")
        .ok_or_else(|| Error::Refused { why: "the object has no map 'raised_ring'".into() })?;
    let waiting = Rc::clone(waiting);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |bytes| {
            let mut waiting = waiting.borrow_mut();
            match RawRaised::parse(bytes) {
                Some(raised) if waiting.records.len() < WAITING_RECORDS => waiting.records.push(raised),
                _ => waiting.dropped += 1,
            }
            0
        })
        .map_err(refused)?;
    builder.build().map_err(refused)
}

impl Probes {
    fn slots_fd(&self) -> Result<std::os::fd::BorrowedFd<'_>, Error> {
        load::map_fd(self.object(), "slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parsed_with_and_without_stacks_and_nothing_else_is() {
        let mut bytes = vec![0u8; size_of::<RawRaised>()];
        bytes[0..8].copy_from_slice(&7u64.to_ne_bytes());
        bytes[56..60].copy_from_slice(&11u32.to_ne_bytes());
        bytes[60..64].copy_from_slice(&10u32.to_ne_bytes());
        bytes[64..68].copy_from_slice(&11i32.to_ne_bytes());
        bytes[72..74].copy_from_slice(&1u16.to_ne_bytes());
        bytes[76..78].copy_from_slice(&2u16.to_ne_bytes());
        bytes[78..80].copy_from_slice(&9999u16.to_ne_bytes());
        bytes[BARE_BYTES..BARE_BYTES + 8].copy_from_slice(&0xABCu64.to_ne_bytes());
        let raised = RawRaised::parse(&bytes).unwrap();
        assert_eq!((raised.at_ns, raised.tid, raised.pid, raised.system_call), (7, 11, 10, Some(11)));
        assert_eq!((raised.kind, raised.kernel_stack.as_slice()), (RaisedKind::Function, &[0xABC, 0][..]));
        assert_eq!(raised.user_stack.len(), STACK_FRAMES, "a count beyond the array is cut");
        bytes[76..80].fill(0);
        assert_eq!(RawRaised::parse(&bytes[..BARE_BYTES]).unwrap().kernel_stack, []);
        assert!(RawRaised::parse(&bytes[..BARE_BYTES - 1]).is_none());
        bytes[72..74].copy_from_slice(&77u16.to_ne_bytes());
        assert!(RawRaised::parse(&bytes).is_none());
    }
}
