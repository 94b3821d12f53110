//! What decides who may run on a core: affinities of interrupt lines and tasks, idle states, masks of the kernel.
//!
//! Nothing here asks a core anything: every file read gives what the kernel keeps in memory. Files that the kernel
//! answers by interrupting the core (`cpuinfo_cur_freq`, `scaling_cur_freq`, `/dev/cpu/N/msr`) are left alone.

use crate::cpus::{LARGEST_CPU, parse_list};
use crate::error::shorten;
use crate::interrupts::Interrupts;
use crate::{Error, Root};
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surefoot_model::CpuId;

/// The most threads that [`Tasks::read`] takes; what is over is counted.
const MOST_TASKS: usize = 32_768;

/// The most entries that are read of a folder of interrupt lines or idle states.
const MOST_ENTRIES: usize = 65_536;

/// Flags of a task in field 9 of /proc/PID/stat, from the kernel's sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;
const NO_SETAFFINITY: u64 = 0x0400_0000;

/// Reads a mask as the kernel writes it: words of eight hexadecimal digits, the highest cores first.
///
/// # Errors
/// The reason, when it is no such mask or names a core above [`LARGEST_CPU`].
pub fn parse_mask(text: &str) -> Result<Vec<CpuId>, String> {
    let words: Vec<&str> = text.trim().split(',').collect();
    let mut cpus = Vec::new();
    for (place, word) in words.iter().rev().enumerate() {
        let digits = word.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let one_word = words.len() == 1;
        // A mask for irqbalance may be one long number without commas.
        if digits.is_empty() || (!one_word && digits.len() > 8) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(format!("'{}' is no mask of cores", shorten(text.trim())));
        }
        for (nibble, digit) in digits.bytes().rev().enumerate() {
            let value = char::from(digit).to_digit(16).unwrap_or(0);
            for bit in (0..4).filter(|bit| value >> bit & 1 == 1) {
                let cpu = place as u64 * 32 + nibble as u64 * 4 + bit;
                match u32::try_from(cpu) {
                    Ok(cpu) if cpu <= LARGEST_CPU => cpus.push(CpuId(cpu)),
                    _ => return Err(format!("{cpu} is above the largest core number, {LARGEST_CPU}")),
                }
            }
        }
    }
    Ok(cpus)
}

/// Writes cores as a mask that the kernel reads: `e` for cores 1 to 3, words of 32 cores with commas between.
pub fn format_mask(cpus: &[CpuId]) -> String {
    let words = cpus.iter().map(|cpu| cpu.0.min(LARGEST_CPU) as usize / 32).max().unwrap_or(0) + 1;
    let mut bits = vec![0u32; words];
    for cpu in cpus.iter().filter(|cpu| cpu.0 <= LARGEST_CPU) {
        bits[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32);
    }
    let mut text = String::new();
    for (place, word) in bits.iter().rev().enumerate() {
        // Writing to a String cannot fail.
        let _ = if place == 0 { write!(text, "{word:x}") } else { write!(text, ",{word:08x}") };
    }
    text
}

/// The cores of a file that holds a mask.
///
/// # Errors
/// When the file cannot be read or is no mask.
pub fn mask_file(root: &Root, path: &Path) -> Result<Vec<CpuId>, Error> {
    parse_mask(&root.read_up_to(path, TEXT_LIMIT_BYTES)?).map_err(|reason| Error::malformed(path, 1, reason))
}

/// The cores of a file that holds a list such as `0-3,8`; an empty file names none.
///
/// # Errors
/// When the file cannot be read or is no list.
pub fn list_file(root: &Root, path: &Path) -> Result<Vec<CpuId>, Error> {
    match root.read_up_to(path, TEXT_LIMIT_BYTES)?.trim() {
        "" | "(null)" => Ok(Vec::new()),
        list => parse_list(list).map_err(|error| Error::malformed(path, 1, error.to_string())),
    }
}

/// The whole number that a file of settings holds.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn number_file(root: &Root, path: &Path) -> Result<i64, Error> {
    let text = root.read_up_to(path, TEXT_LIMIT_BYTES)?;
    let text = text.trim();
    text.parse().map_err(|_| Error::malformed(path, 1, format!("'{}' is no whole number", shorten(text))))
}

/// The first line of a file of settings, without control characters.
///
/// # Errors
/// When the file cannot be read.
pub fn word_file(root: &Root, path: &Path) -> Result<String, Error> {
    Ok(shorten(root.read_up_to(path, TEXT_LIMIT_BYTES)?.lines().next().unwrap_or("").trim()))
}

/// No setting is longer; a list of 65,536 cores that alternate has 400 KiB.
const TEXT_LIMIT_BYTES: u64 = 1 << 20;

/// Where an interrupt line may arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptLine {
    /// The line's number.
    pub number: u32,
    /// Its handlers, as /proc/interrupts prints them; empty when nobody asked for the line.
    pub name: String,
    /// Whether root may move it. Kernels since about 6.10 show the affinity of lines that place themselves as read-only;
    /// older ones show every line as movable.
    pub movable: bool,
    /// The cores that it may be sent to, or why that is unknown.
    pub allowed: Result<Vec<CpuId>, String>,
    /// The cores that it is really sent to; an error on kernels and controllers that do not say.
    pub effective: Result<Vec<CpuId>, String>,
}

/// All lines below /proc/irq, ascending, with their names where /proc/interrupts can be read.
///
/// # Errors
/// When /proc/irq cannot be listed.
pub fn interrupt_lines(root: &Root) -> Result<Vec<InterruptLine>, Error> {
    let folder = root.proc("irq");
    let names: HashMap<String, String> = Interrupts::read(root)
        .map(|table| table.rows.into_iter().map(|row| (row.label, row.name)).collect())
        .unwrap_or_default();
    let mut numbers = numbered(&folder, "")?;
    numbers.sort_unstable();
    let cores = |path: PathBuf| list_file(root, &path).map_err(|error| error.to_string());
    Ok(numbers
        .into_iter()
        .map(|number| {
            let at = folder.join(number.to_string());
            InterruptLine {
                number,
                name: names.get(&number.to_string()).map(|name| shorten(name)).unwrap_or_default(),
                movable: is_writable(&at.join("smp_affinity_list")),
                allowed: cores(at.join("smp_affinity_list")),
                effective: cores(at.join("effective_affinity_list")),
            }
        })
        .collect())
}

/// Whether the owner may write a file; a file that is not there counts as writable.
fn is_writable(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.permissions().mode() & 0o200 != 0)
}

/// A state in which a core waits for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its number: higher is deeper.
    pub index: u32,
    /// Its name: `POLL`, `C1E`.
    pub name: String,
    /// How long the core takes to come back, microseconds.
    pub latency_us: u64,
    /// Whether it is switched off for this core.
    pub disabled: bool,
    /// How often this core was in it since boot.
    pub usage: u64,
}

/// The idle states of a core, the shallowest first.
///
/// # Errors
/// When the folder cannot be listed or a state is malformed.
pub fn idle_states(root: &Root, cpu: CpuId) -> Result<Vec<IdleState>, Error> {
    let folder = root.sys(format!("devices/system/cpu/cpu{cpu}/cpuidle"));
    let mut indices = numbered(&folder, "state")?;
    indices.sort_unstable();
    let number = |path: PathBuf| number_file(root, &path).map(|number| u64::try_from(number).unwrap_or(0));
    indices
        .into_iter()
        .map(|index| {
            let at = folder.join(format!("state{index}"));
            Ok(IdleState {
                index,
                name: word_file(root, &at.join("name"))?,
                latency_us: number(at.join("latency"))?,
                disabled: number(at.join("disable"))? != 0,
                // Only for evidence, so its absence costs the evidence alone.
                usage: number(at.join("usage")).unwrap_or(0),
            })
        })
        .collect()
}

/// The longest wake-up, in microseconds, that all holders of /dev/cpu_dma_latency together allow.
///
/// # Errors
/// When the device cannot be opened (it is root's) or gives less than four bytes.
pub fn cpu_dma_latency_us(root: &Root) -> Result<i32, Error> {
    let path = root.dev("cpu_dma_latency");
    let mut bytes = [0u8; 4];
    let read = crate::root::open(&path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| Error::Read { path, source })?;
    Ok(i32::from_ne_bytes(bytes))
}

/// The numbers of the entries `<prefix><number>` of a folder.
fn numbered(folder: &Path, prefix: &str) -> Result<Vec<u32>, Error> {
    let entries = std::fs::read_dir(folder).map_err(|source| Error::Read { path: folder.to_path_buf(), source })?;
    let numbers = entries
        .flatten()
        .take(MOST_ENTRIES)
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok());
    Ok(numbers.collect())
}

/// A thread: where it may run, where it ran last, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The process that it belongs to.
    pub pid: u32,
    /// Its name, without control characters.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// Whether the kernel refuses to move it.
    pub bound: bool,
    /// The core on which it runs or ran last.
    pub processor: CpuId,
    /// The cores that it may use, shared between the threads that have the same.
    pub allowed: Arc<[CpuId]>,
    /// How often it gave up a core or lost it, since it began.
    pub switches: u64,
}

/// All threads of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tasks {
    /// The threads, in the order of /proc.
    pub tasks: Vec<Task>,
    /// Threads beyond 32,768 that were left out.
    pub dropped: u64,
}

impl Tasks {
    /// Reads every thread that can be seen. Threads that end meanwhile are left out.
    ///
    /// # Errors
    /// When /proc cannot be listed.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let mut found = Tasks::default();
        let mut allowed: HashMap<String, Arc<[CpuId]>> = HashMap::new();
        let mut pids = numbered(&root.proc(""), "")?;
        pids.sort_unstable();
        for pid in pids {
            let threads = numbered(&root.proc(format!("{pid}/task")), "").unwrap_or_default();
            // A recorded tree may hold processes without their threads.
            let folders: Vec<(u32, String)> = if threads.is_empty() {
                vec![(pid, pid.to_string())]
            } else {
                threads.into_iter().map(|tid| (tid, format!("{pid}/task/{tid}"))).collect()
            };
            for (tid, folder) in folders {
                if found.tasks.len() >= MOST_TASKS {
                    found.dropped += 1;
                } else if let Some(task) = read_task(root, pid, tid, &folder, &mut allowed) {
                    found.tasks.push(task);
                }
            }
        }
        Ok(found)
    }
}

fn read_task(
    root: &Root,
    pid: u32,
    tid: u32,
    folder: &str,
    allowed: &mut HashMap<String, Arc<[CpuId]>>,
) -> Option<Task> {
    let read = |file: &str| root.read_up_to(root.proc(folder).join(file), TEXT_LIMIT_BYTES).ok();
    let (name, flags, processor) = parse_stat(&read("stat")?)?;
    let status = read("status")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let switches = |name| field(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let list = field("Cpus_allowed_list:")?;
    let cores = match allowed.get(list) {
        Some(cores) => Arc::clone(cores),
        None => {
            let cores: Arc<[CpuId]> = parse_list(list).ok()?.into();
            allowed.insert(list.to_owned(), Arc::clone(&cores));
            cores
        }
    };
    Some(Task {
        tid,
        pid,
        name,
        kernel: flags & KERNEL_THREAD != 0,
        bound: flags & NO_SETAFFINITY != 0,
        processor,
        allowed: cores,
        switches: switches("voluntary_ctxt_switches:").saturating_add(switches("nonvoluntary_ctxt_switches:")),
    })
}

/// Name, flags and processor. The name may hold spaces and parentheses, so the fields are counted from the last closing
/// one.
fn parse_stat(stat: &str) -> Option<(String, u64, CpuId)> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = shorten(before.split_once('(')?.1);
    let mut fields = after.split_ascii_whitespace();
    let flags = fields.nth(6)?.parse().ok()?;
    let processor = fields.nth(29)?.parse().ok()?;
    Some((name, flags, CpuId(processor)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    fn ids(cpus: &[u32]) -> Vec<CpuId> {
        cpus.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn masks_are_read_and_written() {
        for (text, cpus, written) in [
            ("f\n", ids(&[0, 1, 2, 3]), "f"),
            ("0", ids(&[]), "0"),
            ("00000001,80000000", ids(&[31, 32]), "1,80000000"),
            ("0x3e", ids(&[1, 2, 3, 4, 5]), "3e"),
            ("100000000", ids(&[32]), "1,00000000"),
        ] {
            assert_eq!(parse_mask(text).unwrap(), cpus, "{text}");
            assert_eq!(format_mask(&cpus), written);
        }
        for text in ["", "xyz", "1,,2", "123456789,00000000", "-1", "1,f\u{1b}"] {
            assert!(parse_mask(text).is_err(), "{text}");
        }
        assert!(parse_mask(&"f".repeat(20_000)).unwrap_err().contains("above the largest core"));
    }

    #[test]
    fn lines_carry_their_names_and_both_affinities() {
        let tree = HostTree::new()
            .file("proc/interrupts", "           CPU0       CPU1\n 24:  1  0  IO-APIC  5-edge  acpi\n")
            .file("proc/irq/24/smp_affinity_list", "0-1\n")
            .file("proc/irq/24/effective_affinity_list", "1\n")
            .file("proc/irq/7/smp_affinity_list", "0-1\n")
            .mode("proc/irq/7/smp_affinity_list", 0o444)
            .file("proc/irq/default_smp_affinity", "3\n");
        let lines = interrupt_lines(&Root::at(tree.path())).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].number, lines[0].name.as_str(), lines[0].movable), (7, "", false));
        assert!(lines[1].movable);
        assert!(lines[0].effective.as_ref().unwrap_err().contains("proc/irq/7/effective_affinity_list"));
        assert_eq!(lines[1].name, "acpi");
        assert_eq!((&lines[1].allowed, &lines[1].effective), (&Ok(ids(&[0, 1])), &Ok(ids(&[1]))));
    }

    #[test]
    fn idle_states_come_in_order_and_a_broken_one_is_named() {
        let at = "sys/devices/system/cpu/cpu3/cpuidle";
        let mut tree = HostTree::new();
        for (index, name, latency) in [(10, "C10", "890"), (2, "C1E", "10"), (0, "POLL", "0")] {
            tree = tree
                .file(format!("{at}/state{index}/name"), format!("{name}\n"))
                .file(format!("{at}/state{index}/latency"), latency)
                .file(format!("{at}/state{index}/disable"), if index == 10 { "1\n" } else { "0\n" })
                .file(format!("{at}/state{index}/usage"), "7\n");
        }
        let root = Root::at(tree.path());
        let states = idle_states(&root, CpuId(3)).unwrap();
        let short: Vec<_> = states.iter().map(|state| (state.index, state.latency_us, state.disabled)).collect();
        assert_eq!(short, [(0, 0, false), (2, 10, false), (10, 890, true)]);
        tree.write(format!("{at}/state2/latency"), "fast\n");
        let error = idle_states(&root, CpuId(3)).unwrap_err().to_string();
        assert!(error.contains("state2/latency") && error.contains("'fast' is no whole number"), "{error}");
        assert!(idle_states(&root, CpuId(4)).unwrap_err().is_absent());
    }

    #[test]
    fn the_latency_limit_is_four_bytes() {
        let tree = HostTree::new().file("dev/cpu_dma_latency", 20i32.to_ne_bytes());
        let root = Root::at(tree.path());
        assert_eq!(cpu_dma_latency_us(&root).unwrap(), 20);
        tree.write("dev/cpu_dma_latency", [1, 2]);
        assert!(cpu_dma_latency_us(&root).unwrap_err().to_string().contains("dev/cpu_dma_latency"));
    }

    #[test]
    fn tasks_tell_where_they_may_run() {
        let stat = |name: &str, flags: u64, cpu: u32| {
            format!("9 ({name}) S 2 0 0 0 -1 {flags} {}{cpu} 0 0 0", "0 ".repeat(29))
        };
        let status = "Name:\tx\nCpus_allowed_list:\t1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t3\n";
        let tree = HostTree::new()
            .file("proc/9/stat", stat("kworker/1:0-ev) (en", 0x0420_8060, 1))
            .file("proc/9/status", status)
            .file("proc/20/task/20/stat", stat("a\u{1b}b", 0x40_0000, 0))
            .file("proc/20/task/20/status", status)
            .file("proc/20/task/21/stat", "21 (torn")
            .file("proc/20/task/21/status", status);
        let tasks = Tasks::read(&Root::at(tree.path())).unwrap().tasks;
        assert_eq!(tasks.len(), 2, "{tasks:?}");
        assert_eq!((tasks[0].name.as_str(), tasks[0].kernel, tasks[0].bound), ("kworker/1:0-ev) (en", true, true));
        assert_eq!((tasks[0].processor, tasks[0].switches, &*tasks[0].allowed), (CpuId(1), 7, &*ids(&[1])));
        assert_eq!((tasks[1].name.as_str(), tasks[1].kernel, tasks[1].bound), ("a b", false, false));
        assert!(Arc::ptr_eq(&tasks[0].allowed, &tasks[1].allowed));
    }

    #[test]
    fn the_running_host_shows_this_thread() {
        let tasks = Tasks::read(&Root::host()).unwrap().tasks;
        let own = tasks.iter().find(|task| task.tid == crate::thread::current_tid()).unwrap();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(own.allowed.to_vec(), crate::thread::affinity().unwrap());
        assert!(!own.kernel);
    }
}
