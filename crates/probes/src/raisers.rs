//! Who interrupts the watched cores: the programs of `bpf/raisers.bpf.c`, attached beside the ledger on demand.

mod options;
mod waiting;

pub use options::{CallEvidence, RaiserOptions, UserStacks};

use crate::error::Error;
use crate::load;
use crate::mapped::Mapped;
use crate::patient;
use crate::raised::{Mark, Raised, RawMark};
use crate::remembered::Remembered;
use crate::shared::{self, same_layout};
use crate::{Flavour, Probes};
use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};
use options::raiser_config;
use std::cell::RefCell;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use surefoot_model::CpuId;
use waiting::Waiting;

/// Marks that a core's ring holds.
pub const MARKS: usize = shared::MARKS;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    second: u64,
    stacks: u64,
    records: u64,
    without_stack: u64,
    dropped: u64,
    marks: u64,
    wakee: u64,
    wakee_jiffies: u64,
    wakee_pid: u32,
    flush_sent: u32,
    copies_dropped: u64,
    /// As `struct request`, which only the programs read.
    request: [u64; shared::request::BYTES / 8],
    recalled: u64,
    told_ns: u64,
    reserved: [u64; 4],
}

same_layout!(
    Sender,
    sender: second, stacks, records, without_stack, dropped, marks, wakee, wakee_jiffies, wakee_pid, flush_sent,
    copies_dropped, request, recalled, told_ns, reserved
);

/// The arrays of the ledger that the programs use as well.
const OF_THE_LEDGER: [&str; 8] =
    ["slots", "histograms", "tape", "late_ring", "names", "name_ring", "kernel_threads", "workload_ids"];

/// What the raising side counted since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RaiserCounts {
    /// Records left.
    pub records: u64,
    /// Records that carry no stack although stacks were asked for, because the rate was exceeded.
    pub without_stack: u64,
    /// Records that found the ring, or the list of waiting ones, full.
    pub dropped: u64,
    /// Copies of user stacks that found it full; their records have the frames that frame pointers gave.
    pub copies_dropped: u64,
    /// Records whose kernel stack was known; among them those that were walked all the same.
    pub stacks_recalled: u64,
    /// Kernel stacks that were walked although they were known.
    pub stacks_checked: u64,
    /// Of these, how many were not what was known; the record has what the walk found.
    pub stacks_differ: u64,
    /// Records that name a kernel stack which is not kept any more; they have none.
    pub stacks_forgotten: u64,
    /// Runs of the programs that the kernel skipped, because one of them was running on that core already.
    pub missed: u64,
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
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    waiting: Rc<RefCell<Waiting>>,
    senders: Mapped<Sender>,
    marks: Mapped<RawMark>,
    object: Object,
    cpu_count: usize,
    ring_bytes: u32,
    takes_stacks: bool,
    calls: CallEvidence,
    missing: Vec<String>,
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
        let (mut object, (calls, missing)) = patient::load(|| {
            let mut open = load::open_raisers()?;
            let (calls, missing) =
                load::leave_out_absent(&mut open, &options.hidden_tracepoints, probes.told.console != 0)?;
            let with_ledger = !probes.left_to_raisers.is_empty();
            let config = raiser_config(options, calls, with_ledger)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                let refused = |error: libbpf_rs::Error| Error::Refused { why: error.to_string() };
                match name.as_str() {
                    _ if OF_THE_LEDGER.contains(&name.as_str()) => {
                        map.reuse_fd(load::map_fd(probes.object(), &name)?).map_err(refused)?;
                    }
                    "senders" => map.set_max_entries(cpu_count as u32).map_err(refused)?,
                    "marks" => map.set_max_entries((cpu_count * MARKS) as u32).map_err(refused)?,
                    "raised_ring" => map.set_max_entries(options.ring_bytes).map_err(refused)?,
                    _ if name.ends_with(".raisers") => {
                        map.set_initial_value(load::bytes_of(&config)).map_err(refused)?;
                    }
                    _ if name.ends_with(".config") => {
                        map.set_initial_value(load::bytes_of(&probes.told)).map_err(refused)?;
                    }
                    _ => {}
                }
            }
            Ok((open, (calls, missing)))
        })?;
        let senders = load::mapped(&object, "senders")?;
        let marks = load::mapped(&object, "marks")?;
        let waiting = Rc::new(RefCell::new(Waiting::with(Remembered::of(&object)?)));
        let ring = ring(&object, &waiting)?;
        let links = load::attach_all(&mut object, None, |_| true)?;
        let ring_bytes = options.ring_bytes;
        let takes_stacks = options.kernel_stacks || options.user_stacks != UserStacks::None;
        Ok(Raisers {
            links,
            ring,
            waiting,
            senders,
            marks,
            object,
            cpu_count,
            ring_bytes,
            takes_stacks,
            calls,
            missing,
        })
    }

    /// Which of the programs this kernel does not allow, each as a sentence.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Tracepoints that its programs are attached to.
    pub fn attached(&self) -> usize {
        self.links.len()
    }

    /// How the raiser of a called function can be found here.
    pub fn calls(&self) -> CallEvidence {
        self.calls
    }

    /// Takes the records since the last call, in the order in which they were left.
    pub fn take(&self) -> Vec<Raised> {
        // The callback never fails, so neither does this.
        let _ = self.ring.consume();
        self.waiting.borrow_mut().take()
    }

    /// Bytes that the ring of records holds.
    pub fn ring_bytes(&self) -> u64 {
        u64::from(self.ring_bytes)
    }

    /// Bytes of the records that [`Raisers::take`] took out of the ring last.
    pub fn taken_bytes(&self) -> u64 {
        self.waiting.borrow().taken_bytes
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
        let mut lost = oldest.saturating_sub(from);
        for number in oldest..end {
            let mut raw = RawMark::default();
            self.marks.load(index * MARKS + (number as usize & (MARKS - 1)), &mut raw);
            match raw.number() {
                Some(found) if found == number => into.push(raw.parse()),
                Some(found) if found > number => lost += 1,
                // It is being written; what came in between is later than it and waits for it.
                _ => return (number, lost),
            }
        }
        (end, lost)
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
        let waiting = self.waiting.borrow();
        let mut counts = RaiserCounts {
            dropped: waiting.dropped,
            copies_dropped: waiting.copies_dropped,
            stacks_checked: waiting.tally().checked,
            stacks_differ: waiting.tally().differ,
            stacks_forgotten: waiting.tally().forgotten,
            missed: self.runs().iter().map(|runs| runs.missed).sum(),
            ..RaiserCounts::default()
        };
        for cpu in 0..self.cpu_count {
            let mut sender = Sender::default();
            self.senders.load(cpu, &mut sender);
            counts.records += sender.records;
            counts.without_stack += if self.takes_stacks { sender.without_stack } else { 0 };
            counts.dropped += sender.dropped;
            counts.copies_dropped += sender.copies_dropped;
            counts.stacks_recalled += sender.recalled;
        }
        counts
    }
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
            waiting.borrow_mut().add(bytes);
            0
        })
        .map_err(refused)?;
    builder.build().map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raised::RaisedKind;

    /// Memory of the kernel whose address and content are known: the start of a program as it was compiled here.
    fn known_memory(raisers: &Raisers, program: &str) -> (u64, u64) {
        let program = raisers.object.progs().find(|found| found.name() == program).unwrap();
        let (mut address, mut image) = (0u64, [0u8; 4096]);
        let mut info = libbpf_sys::bpf_prog_info {
            nr_jited_ksyms: 1,
            jited_ksyms: std::ptr::from_mut(&mut address) as u64,
            jited_prog_len: image.len() as u32,
            jited_prog_insns: image.as_mut_ptr() as u64,
            ..Default::default()
        };
        let mut bytes = size_of_val(&info) as u32;
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: the pointers in `info` and their lengths describe the two locals, which outlive the call.
        assert_eq!(unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut bytes) }, 0);
        (address, u64::from_ne_bytes(image[..8].try_into().unwrap()))
    }

    /// A machine of two cores never sends to several others, so the program is run on a mask of our choice.
    #[test]
    fn an_interrupt_to_many_cores_is_recorded_for_each_that_is_watched_and_no_other() {
        const TEST: &str = "an_interrupt_to_many_cores_is_recorded_for_each_that_is_watched_and_no_other";
        const CALLBACK: u64 = 0xCA11;
        let probes = match Probes::attach(&crate::Options::default()) {
            Ok(probes) => probes,
            Err(Error::Unsupported { why, .. }) => return surefoot_testkit::not_run::not_run(TEST, &why),
            Err(error) => panic!("{error}"),
        };
        let options = RaiserOptions {
            cpus: (0..64).filter(|cpu| cpu % 3 != 1).map(CpuId).collect(),
            hidden_tracepoints: vec!["csd_queue_cpu".into()],
            stacks_per_s: u64::MAX,
            ..RaiserOptions::default()
        };
        let raisers = Raisers::attach(&probes, &options).unwrap();
        assert_eq!(raisers.calls(), CallEvidence::Sent);
        let (address, bits) = known_memory(&raisers, "mark_tick");
        if address == 0 || bits == 0 {
            return surefoot_testkit::not_run::not_run(TEST, "the kernel does not tell where its programs lie");
        }
        let mut programs = raisers.object.progs_mut();
        let program = programs.find(|program| program.name() == "raise_sent_to_many").unwrap();
        let mut context: Vec<u8> = [address, 0, CALLBACK].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let input = libbpf_rs::ProgramInput { context_in: Some(&mut context), ..Default::default() };
        program.test_run(input).unwrap();
        drop(programs);
        let raised: Vec<Raised> = raisers.take().into_iter().filter(|raised| raised.function == CALLBACK).collect();
        let targets: Vec<u32> = raised.iter().map(|raised| raised.cpu.0).collect();
        let wanted: Vec<u32> = (0..64).filter(|cpu| cpu % 3 != 1 && bits >> cpu & 1 == 1).collect();
        assert!(wanted.len() > 1, "{bits:#x}");
        assert_eq!(targets, wanted, "{bits:#x}");
        assert!(!raised[0].kernel_stack.is_empty());
        assert!(raised.iter().all(|raised| !raised.in_interrupt));
        for other in &raised {
            assert_eq!((&other.kernel_stack, &other.user_stack), (&raised[0].kernel_stack, &raised[0].user_stack));
            assert_eq!((other.kind, other.tid), (RaisedKind::Call, raised[0].tid));
        }
    }
}
