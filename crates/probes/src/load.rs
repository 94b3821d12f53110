//! Opens an object, tells it what it must know, leaves out what this kernel does not have, loads and attaches.

use crate::error::Error;
use crate::layout::{CAUSE_UNKNOWN, CoreNames, HistogramTable, LATE_RECORDS, Late, NAME_RECORDS, NameRecord};
use crate::layout::{ProgramConfig, Slot, TAPE_TURNS, Turn};
use crate::mapped::Mapped;
use crate::patient;
use crate::programs::{self, Program};
use crate::shared::{self, narrow};
use crate::tracepoints::{self, Tracefs};
use crate::{CallEvidence, Flavour, Missing, Options, Workload};
use libbpf_rs::btf::{Btf, types::Typedef};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;

static LEDGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o"));
static RAISERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/raisers.bpf.o"));
static FREEZE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/freeze.bpf.o"));
static TASK_NUMBERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/task_numbers.bpf.o"));
static LEDGER_PLAIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger_plain.bpf.o"));

/// What libbpf says while it loads; kept to explain a refusal instead of being printed.
static LIBRARY_WORDS: Mutex<String> = Mutex::new(String::new());
const LIBRARY_WORDS_BYTES: usize = 16 * 1024;

pub(crate) struct Maps {
    pub(crate) slots: Mapped<Slot>,
    pub(crate) histograms: Mapped<HistogramTable>,
    pub(crate) tape: Mapped<Turn>,
    pub(crate) late: Mapped<Late>,
    pub(crate) names: Mapped<CoreNames>,
    pub(crate) name_ring: Mapped<NameRecord>,
}

/// How a complaint of the verifier begins in [`reason`].
const VERIFIER: &str = "the verifier: ";

/// Keeps what libbpf says of itself, and of a verifier's log, which may have megabytes, its complaint: the line before the
/// count of instructions that ends it.
fn listen(_level: libbpf_rs::PrintLevel, words: String) {
    let Ok(mut kept) = LIBRARY_WORDS.lock() else { return };
    let mut before = "";
    for line in words.lines() {
        let complaint = line.starts_with("processed ").then_some(before);
        let own = line.starts_with("libbpf: ").then_some(line);
        for told in [complaint.map(|told| format!("{VERIFIER}{told}")), own.map(str::to_owned)].into_iter().flatten() {
            if kept.len() + told.len() < LIBRARY_WORDS_BYTES {
                kept.push_str(&told);
                kept.push('\n');
            }
        }
        before = line;
    }
}

/// Forgets what libbpf has said so far, because it was no refusal.
pub(crate) fn forget_words() {
    if let Ok(mut kept) = LIBRARY_WORDS.lock() {
        kept.clear();
    }
}

/// The last words of libbpf that look like a reason.
fn reason(error: &libbpf_rs::Error) -> String {
    let words = LIBRARY_WORDS.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
    let told: Vec<&str> = words.lines().filter(|line| !line.contains("PROG LOAD LOG")).take(3).collect();
    if told.is_empty() { error.to_string() } else { format!("{error} ({})", told.join("; ")) }
}

/// Whether this kernel tells its types.
pub(crate) fn has_btf() -> bool {
    Path::new("/sys/kernel/btf/vmlinux").exists()
}

/// Which of the two flavours this kernel allows.
pub(crate) fn choose(wanted: Option<Flavour>) -> Result<Flavour, Error> {
    match wanted {
        Some(Flavour::Btf) if !has_btf() => Err(Error::Unsupported {
            why: "this kernel has no BTF (/sys/kernel/btf/vmlinux)".into(),
            remedy: "use a kernel built with CONFIG_DEBUG_INFO_BTF, or plain tracepoints".into(),
        }),
        Some(flavour) => Ok(flavour),
        None if has_btf() => Ok(Flavour::Btf),
        None => Ok(Flavour::Plain),
    }
}

pub(crate) fn load(flavour: Flavour, options: &Options) -> Result<(Object, Vec<Missing>), Error> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, listen)));
    let image = match flavour {
        Flavour::Btf => LEDGER,
        Flavour::Plain => LEDGER_PLAIN,
    };
    let cpu_count = libbpf_rs::num_possible_cpus().map_err(|error| Error::Refused { why: error.to_string() })?;
    patient::load(|| {
        let mut object =
            ObjectBuilder::default().open_memory(image).map_err(|error| Error::Refused { why: reason(&error) })?;
        configure(&mut object, options, cpu_count)?;
        let missing = leave_out(&mut object, flavour, options)?;
        Ok((object, missing))
    })
}

/// What the programs are told, as they were told it.
pub(crate) fn told(options: &Options) -> Result<ProgramConfig, Error> {
    let cpu_count = libbpf_rs::num_possible_cpus().map_err(|error| Error::Refused { why: error.to_string() })?;
    program_config(options, cpu_count)
}

/// The bytes of what programs are told.
pub(crate) fn bytes_of<T>(config: &T) -> &[u8] {
    const { assert!(!std::mem::needs_drop::<T>()) };
    // SAFETY: the two structs that this is called with are repr(C) and made of integers without padding; the bytes are
    // borrowed from the reference.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(config).cast::<u8>(), size_of::<T>()) }
}

/// The verifier's refusals carry its complaint; without one, a lack of permission is a lack of privilege.
pub(crate) fn refusal(error: &libbpf_rs::Error) -> Error {
    let why = reason(error);
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !why.contains(VERIFIER) {
        return Error::Unsupported {
            why: "loading eBPF programs needs CAP_BPF and CAP_PERFMON in the initial user namespace".into(),
            remedy: "run as root of the host; give a container these capabilities (--cap-add BPF,PERFMON), or the binary (setcap)"
                .into(),
        };
    }
    Error::Refused { why }
}

fn program_config(options: &Options, cpu_count: usize) -> Result<ProgramConfig, Error> {
    let mut config = ProgramConfig {
        late_threshold_ns: options.late_threshold_ns,
        self_tgid: options.own_pid,
        cpu_count: cpu_count as u32,
        console: u32::from(options.console && options.flavour != Some(Flavour::Plain)),
        ..ProgramConfig::default()
    };
    match &options.workload {
        Workload::None => {}
        Workload::Processes(_) => config.workload_by = narrow(shared::WORKLOAD_PROCESS),
        Workload::Comm(comm) => {
            if comm.is_empty() || comm.len() > 15 {
                return Err(Error::Workload(format!("a thread name has 1 to 15 bytes, '{comm}' has {}", comm.len())));
            }
            config.workload_by = narrow(shared::WORKLOAD_COMM);
            config.workload_comm[..comm.len()].copy_from_slice(comm.as_bytes());
        }
        Workload::Cores => config.workload_by = narrow(shared::WORKLOAD_CORES),
    }
    Ok(config)
}

pub(crate) fn configure(object: &mut OpenObject, options: &Options, cpu_count: usize) -> Result<(), Error> {
    let config = program_config(options, cpu_count)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "slots" | "histograms" | "names" => cpu_count,
            "tape" => cpu_count * TAPE_TURNS,
            "late_ring" => cpu_count * LATE_RECORDS,
            "name_ring" => cpu_count * NAME_RECORDS,
            _ if name.ends_with(".config") => {
                let bytes = bytes_of(&config);
                map.set_initial_value(bytes).map_err(|_| Error::Layout {
                    map: name.clone(),
                    found_bytes: map.initial_value().map_or(0, <[u8]>::len),
                    wanted_bytes: bytes.len(),
                })?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries as u32).map_err(|error| Error::Refused { why: error.to_string() })?;
    }
    Ok(())
}

/// Switches off the programs whose tracepoints are absent, by presence and never by kernel version.
fn leave_out(object: &mut OpenObject, flavour: Flavour, options: &Options) -> Result<Vec<Missing>, Error> {
    let mut missing = Vec::new();
    let btf = match flavour {
        Flavour::Btf => Some(kernel_btf()?),
        Flavour::Plain => None,
    };
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let Some(known) = programs::named(&name) else { continue };
        let absence = match &btf {
            Some(btf) => btf
                .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))
                .is_none()
                .then(|| format!("the kernel has no tracepoint {}:{name}", known.group)),
            None => plain_absence(&known, &options.tracefs)?,
        };
        // Who waited and was moved away is told with the ledger of a watch, and by typed tracepoints only.
        let tells_waits = flavour == Flavour::Btf && options.late_threshold_ns > 0;
        let unneeded = (name == "sched_migrate_task" && options.workload == Workload::None && !tells_waits)
            || (name == "hrtimer_expire_entry" && options.late_threshold_ns == 0)
            || (name == "console" && !options.console);
        if let Some(why) = absence.filter(|_| !unneeded || known.without.is_empty()) {
            program.set_autoload(false);
            if known.without.is_empty() {
                return Err(Error::Unsupported { why, remedy: "the ledger cannot do without it".into() });
            }
            missing.push(Missing { program: known, why });
        } else if unneeded {
            program.set_autoload(false);
        }
    }
    if flavour == Flavour::Plain
        && let Some(known) = programs::named("hrtimer_expire_entry")
    {
        missing.push(Missing { program: known, why: "a plain tracepoint does not tell when the timer was due".into() });
    }
    Ok(missing)
}

/// Why a plain tracepoint cannot be used, if it cannot: absent, or laid out differently from what was compiled.
fn plain_absence(program: &Program, tracefs: &Tracefs) -> Result<Option<String>, Error> {
    let Some(format) = tracefs.format(program.group, program.name)? else {
        return Ok(Some(format!("the kernel has no tracepoint {}:{}", program.group, program.name)));
    };
    for (field, wanted) in program.fields {
        match offset_of(&format, field) {
            Some(found) if found == *wanted => {}
            Some(found) => {
                return Ok(Some(format!(
                    "{}:{} has '{field}' at offset {found}, not {wanted}",
                    program.group, program.name
                )));
            }
            None => return Ok(Some(format!("{}:{} has no field '{field}'", program.group, program.name))),
        }
    }
    Ok(None)
}

/// The offset of a field in a tracepoint's format file.
fn offset_of(format: &str, field: &str) -> Option<usize> {
    format.lines().find_map(|line| {
        let (declaration, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let name = declaration.split('[').next()?.split_whitespace().next_back()?;
        if name != field {
            return None;
        }
        rest.split(';').find_map(|part| part.trim().strip_prefix("offset:")?.parse().ok())
    })
}

/// A map's file descriptor.
pub(crate) fn map_fd<'obj>(object: &'obj Object, name: &str) -> Result<BorrowedFd<'obj>, Error> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| Error::Refused { why: format!("the object has no map '{name}'") })?;
    // SAFETY: the descriptor belongs to the object, which outlives the borrow.
    Ok(unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) })
}

/// Maps an array into this process.
pub(crate) fn mapped<T>(object: &Object, name: &str) -> Result<Mapped<T>, Error> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| Error::Refused { why: format!("the object has no map '{name}'") })?;
    Mapped::new(name, map.as_fd(), map.value_size() as usize, map.max_entries() as usize)
}

pub(crate) fn map_all(object: &Object) -> Result<Maps, Error> {
    Ok(Maps {
        slots: mapped(object, "slots")?,
        histograms: mapped(object, "histograms")?,
        tape: mapped(object, "tape")?,
        late: mapped(object, "late_ring")?,
        names: mapped(object, "names")?,
        name_ring: mapped(object, "name_ring")?,
    })
}

/// Attaches every program that was loaded and `is_wanted` by name. Exits first: an entry whose exit is not watched yet
/// would leave its context open.
///
/// `tracefs` is where programs on plain tracepoints find theirs; typed ones need none.
pub(crate) fn attach_all(
    object: &mut Object,
    tracefs: Option<&Tracefs>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Link>, Error> {
    let (exits, others): (Vec<_>, Vec<_>) = object
        .progs_mut()
        .filter(|program| program.autoload() && is_wanted(&program.name().to_string_lossy()))
        .partition(|program| program.name().to_string_lossy().ends_with("_exit"));
    exits
        .into_iter()
        .chain(others)
        .map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            if let (Some(tracefs), Some(known)) = (tracefs, programs::named(&name)) {
                return tracepoints::attach(&program, tracefs, known.group, known.name);
            }
            program.attach().map_err(|error| Error::Refused { why: format!("cannot attach to {name}: {error}") })
        })
        .collect()
}

/// Opens the programs that name raisers.
pub(crate) fn open_raisers() -> Result<OpenObject, Error> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, listen)));
    ObjectBuilder::default().open_memory(RAISERS).map_err(|error| Error::Refused { why: reason(&error) })
}

/// Opens the programs that hold cores.
pub(crate) fn open_freezer() -> Result<OpenObject, Error> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, listen)));
    ObjectBuilder::default().open_memory(FREEZE).map_err(|error| Error::Refused { why: reason(&error) })
}

/// Opens the program that lists tasks.
pub(crate) fn open_task_numbers() -> Result<OpenObject, Error> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, listen)));
    ObjectBuilder::default().open_memory(TASK_NUMBERS).map_err(|error| Error::Refused { why: reason(&error) })
}

/// The tracepoint that a section names.
pub(crate) fn tracepoint_of(section: &str) -> &str {
    section.rsplit('/').next().unwrap_or(section)
}

/// Switches off the programs whose tracepoints are absent or not needed; their sections name them. Tells how called
/// functions are joined, and what is missing, each as a sentence.
pub(crate) fn leave_out_absent(
    object: &mut OpenObject,
    hidden: &[String],
    console: bool,
) -> Result<(CallEvidence, Vec<String>), Error> {
    let btf = kernel_btf()?;
    let is_there = |tracepoint: &str| {
        !hidden.iter().any(|name| name == tracepoint)
            && btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
    };
    let calls = call_evidence(is_there);
    let mut missing = Vec::new();
    if let Some(word) = without_calls(calls) {
        missing.push(word.to_owned());
    }
    for mut program in object.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let tracepoint = tracepoint_of(&section);
        let is_needed = match tracepoint {
            "csd_queue_cpu" | "csd_function_entry" => calls == CallEvidence::Exact,
            "ipi_send_cpumask" => calls == CallEvidence::Sent,
            "tlb_flush" => matches!(calls, CallEvidence::Sent | CallEvidence::Flushes),
            "console" => console,
            _ => true,
        };
        if !is_needed {
            program.set_autoload(false);
        } else if !is_there(tracepoint) {
            missing.push(format!("this kernel has no tracepoint {tracepoint}"));
            program.set_autoload(false);
        }
    }
    Ok((calls, missing))
}

pub(crate) fn kernel_btf() -> Result<Btf<'static>, Error> {
    Btf::from_vmlinux().map_err(|error| Error::Refused { why: error.to_string() })
}

/// The tracepoints that the ledger leaves to the raisers' programs, where these follow: all that both would attach to.
pub(crate) fn left_to_raisers() -> Result<Vec<&'static str>, Error> {
    let btf = kernel_btf()?;
    let is_there = |tracepoint: &str| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some();
    let called = (call_evidence(is_there) == CallEvidence::Exact).then_some("csd_function_entry");
    let others = ["ipi_send_cpu", "hrtimer_expire_entry", "sched_migrate_task", "console"]
        .into_iter()
        .filter(|name| is_there(name));
    Ok(called.into_iter().chain(others).collect())
}

fn call_evidence(is_there: impl Fn(&str) -> bool) -> CallEvidence {
    if is_there("csd_queue_cpu") && is_there("csd_function_entry") {
        CallEvidence::Exact
    } else if is_there("ipi_send_cpu") || is_there("ipi_send_cpumask") {
        CallEvidence::Sent
    } else if is_there("tlb_flush") {
        CallEvidence::Flushes
    } else {
        CallEvidence::Unseen
    }
}

/// What worse evidence means for the answer.
fn without_calls(calls: CallEvidence) -> Option<&'static str> {
    match calls {
        CallEvidence::Exact => None,
        CallEvidence::Sent => Some(
            "this kernel does not tell which call is queued (csd_queue_cpu): called functions are joined to the \
             interrupts that were sent, by target and order, which is probable only",
        ),
        CallEvidence::Flushes => Some(
            "this kernel tells neither queued calls nor sent interrupts (csd_queue_cpu, ipi_send_cpu): TLB shootdowns \
             are joined by time, which is probable only, and other called functions have no raiser",
        ),
        CallEvidence::Unseen => Some(
            "this kernel tells neither queued calls, nor sent interrupts, nor TLB shootdowns: called functions have no \
             raiser",
        ),
    }
}

/// Gives every core its start, before the first program is attached.
pub(crate) fn start_slots(maps: &Maps, cpu_count: usize, now_ns: u64) {
    let mut slot = Box::new(Slot::zeroed());
    slot.start_ns = now_ns;
    slot.last_ns = now_ns;
    slot.frames[0].cause = CAUSE_UNKNOWN as u32;
    for cpu in 0..cpu_count {
        maps.slots.store(cpu, &slot);
    }
}

/// Replaces the members of a set of thread or process numbers.
pub(crate) fn put_ids(object: &Object, map: &str, ids: &[u32]) -> Result<(), Error> {
    let Some(map) = object.maps().find(|candidate| candidate.name() == map) else { return Ok(()) };
    let wanted: std::collections::HashSet<u32> = ids.iter().copied().collect();
    let stale: Vec<Vec<u8>> = map
        .keys()
        .filter(|key| <[u8; 4]>::try_from(key.as_slice()).is_ok_and(|key| !wanted.contains(&u32::from_ne_bytes(key))))
        .collect();
    for key in stale {
        let _ = map.delete(&key);
    }
    for id in wanted {
        map.update(&id.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|error| Error::Workload(format!("cannot tell the programs about number {id}: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{LEDGER, LEDGER_PLAIN, RAISERS, call_evidence, offset_of};
    use crate::CallEvidence;
    use libbpf_rs::ObjectBuilder;

    /// Numbers of the kernel's helpers, and of the instruction that calls one.
    const LOOKUP: i32 = 1;
    const CLOCK: i32 = 5;
    const CALL: u8 = 0x85;

    /// The helpers that a program calls, in the order of its text.
    fn helpers(image: &[u8], name: &str) -> Vec<i32> {
        let object = ObjectBuilder::default().open_memory(image).unwrap();
        let program = object.progs().find(|program| program.name() == name).unwrap();
        let calls = program.insns().iter().filter(|instruction| instruction.code == CALL && instruction.src_reg() == 0);
        calls.map(|call| call.imm).collect()
    }

    /// An interrupt is as long as its tracepoints allow: nothing comes before the clock of the entry, and no array is
    /// looked for after that of the exit. The clock after that is of the run in 64 that measures itself.
    #[test]
    fn an_entry_reads_the_clock_first_and_an_exit_when_all_else_is_found() {
        for image in [LEDGER, LEDGER_PLAIN] {
            for entry in ["local_timer_entry", "reschedule_entry", "softirq_entry", "irq_handler_entry"] {
                assert_eq!(helpers(image, entry)[0], CLOCK, "{entry}");
            }
            for exit in ["local_timer_exit", "reschedule_exit", "softirq_exit", "irq_handler_exit", "csd_function_exit"]
            {
                let helpers = helpers(image, exit);
                let last = helpers.iter().rposition(|helper| *helper == LOOKUP).unwrap();
                let clocks = helpers[last..].iter().filter(|helper| **helper == CLOCK).count();
                assert!(clocks >= 2 && helpers[0] != CLOCK, "{exit}: {helpers:?}");
            }
        }
        assert_eq!(helpers(RAISERS, "mark_function")[0], CLOCK);
    }

    /// What runs at each switch and wake-up of the machine reads its tasks directly, their names included.
    #[test]
    fn tasks_are_read_without_a_helper() {
        const PROBE_READS: [i32; 2] = [4, 113];
        let reads = |image: &[u8], name: &str| {
            helpers(image, name).iter().filter(|helper| PROBE_READS.contains(helper)).count()
        };
        assert_eq!(reads(LEDGER, "sched_migrate_task"), 0);
        assert_eq!(reads(LEDGER, "sched_switch"), 0);
    }

    #[test]
    fn the_best_evidence_that_is_there_is_used() {
        let with = |there: &[&str]| call_evidence(|name| there.contains(&name));
        let all = ["csd_queue_cpu", "csd_function_entry", "ipi_send_cpu", "ipi_send_cpumask", "tlb_flush"];
        assert_eq!(with(&all), CallEvidence::Exact);
        assert_eq!(with(&all[1..]), CallEvidence::Sent, "half of the calls is none");
        assert_eq!(with(&all[3..]), CallEvidence::Sent);
        assert_eq!(with(&all[4..]), CallEvidence::Flushes);
        assert_eq!(with(&[]), CallEvidence::Unseen);
    }

    #[test]
    fn offsets_are_read_from_a_format_file() {
        let format = "name: sched_switch\nformat:\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                      \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        assert_eq!(offset_of(format, "prev_comm"), Some(8));
        assert_eq!(offset_of(format, "prev_pid"), Some(24));
        assert_eq!(offset_of(format, "pid"), None);
        assert_eq!(offset_of("field:int x", "x"), None);
    }
}
