//! What really happened on the cores while the audit looked: differences of the kernel's own counters.
//!
//! Everything is read from another core, from memory of the kernel; nothing is sent to the cores that are measured.

use super::read::{Known, all_tasks};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::isolation::{self, IdleState};
use surefoot_hostfs::settings;
use surefoot_hostfs::stat::{Stat, Ticks};
use surefoot_hostfs::tasks::{Task, Tasks};
use surefoot_hostfs::{Error, Root};
use surefoot_model::{CpuId, Digits};

/// How long the thread sleeps between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(50);

/// Names that a text lists before it says how many more there are.
pub const NAMES_SHOWN: usize = 6;

/// Differences over the time of the measurement. What could not be read says why.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How long it took.
    pub duration: Duration,
    /// /proc/interrupts.
    pub interrupts: Known<Interrupts>,
    /// /proc/softirqs.
    pub softirqs: Known<Interrupts>,
    /// Time of each core by kind, in ticks.
    pub stat: Known<BTreeMap<CpuId, Ticks>>,
    /// /proc/vmstat, by name.
    pub vmstat: Known<BTreeMap<String, u64>>,
    /// Complete scans of the page merger.
    pub ksm_scans: Known<u64>,
    /// Threads that ran and were last seen on one of the cores.
    pub ran: Known<Vec<Ran>>,
    /// Entries into each idle state, by core: (index, name, count).
    pub idle: BTreeMap<CpuId, Vec<(u32, String, u64)>>,
}

/// A thread that ran while it was measured, and was last seen on an audited core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The core.
    pub cpu: CpuId,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// How often it gave up a core or lost it meanwhile.
    pub switches: u64,
}

struct Snapshot {
    at: Instant,
    interrupts: Known<Interrupts>,
    softirqs: Known<Interrupts>,
    stat: Known<Stat>,
    vmstat: Known<BTreeMap<String, u64>>,
    ksm_scans: Known<u64>,
    tasks: Known<Tasks>,
    idle: BTreeMap<CpuId, Vec<IdleState>>,
}

/// Takes the counters, waits, and takes them again. Ends early when `stop` is set.
pub fn measure(root: &Root, cores: &[CpuId], duration: Duration, stop: &AtomicBool) -> Measured {
    let before = Snapshot::take(root, cores);
    while before.at.elapsed() < duration && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SLICE.min(duration.saturating_sub(before.at.elapsed())));
    }
    Snapshot::take(root, cores).since(&before, cores)
}

impl Snapshot {
    fn take(root: &Root, cores: &[CpuId]) -> Self {
        let reason = |error: Error| error.to_string();
        // The threads take longest to read, so they come first: the counts are those of the moment after.
        let tasks = all_tasks(root);
        let scans = settings::number_file(root, &root.sys("kernel/mm/ksm/full_scans")).map_err(reason);
        Snapshot {
            at: Instant::now(),
            tasks,
            interrupts: Interrupts::read(root).map_err(reason),
            softirqs: Interrupts::read_softirqs(root).map_err(reason),
            stat: Stat::read(root).map_err(reason),
            vmstat: root.read(root.proc("vmstat")).map(|text| parse_vmstat(&text)).map_err(reason),
            ksm_scans: scans.map(|count| u64::try_from(count).unwrap_or(0)),
            idle: cores.iter().filter_map(|&cpu| Some((cpu, isolation::idle_states(root, cpu).ok()?))).collect(),
        }
    }

    fn since(&self, before: &Snapshot, cores: &[CpuId]) -> Measured {
        Measured {
            duration: self.at.duration_since(before.at),
            interrupts: both(&self.interrupts, &before.interrupts, Interrupts::delta),
            softirqs: both(&self.softirqs, &before.softirqs, Interrupts::delta),
            stat: both(&self.stat, &before.stat, |now, then| {
                now.cpus.iter().filter_map(|(cpu, ticks)| Some((*cpu, ticks.since(then.cpu(*cpu)?)))).collect()
            }),
            vmstat: both(&self.vmstat, &before.vmstat, |now, then| {
                let rise = |(name, count): (&String, &u64)| {
                    (name.clone(), count.saturating_sub(then.get(name).copied().unwrap_or(0)))
                };
                now.iter().map(rise).collect()
            }),
            ksm_scans: both(&self.ksm_scans, &before.ksm_scans, |now, then| now.saturating_sub(*then)),
            ran: both(&self.tasks, &before.tasks, |now, then| ran(now, then, cores)),
            idle: self.idle.iter().map(|(&cpu, now)| (cpu, entries(now, before.idle.get(&cpu)))).collect(),
        }
    }
}

fn both<T, U>(now: &Known<T>, before: &Known<T>, difference: impl Fn(&T, &T) -> U) -> Known<U> {
    match (now, before) {
        (Ok(now), Ok(before)) => Ok(difference(now, before)),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    }
}

fn entries(now: &[IdleState], before: Option<&Vec<IdleState>>) -> Vec<(u32, String, u64)> {
    let earlier = |index| before.and_then(|states| states.iter().find(|state| state.index == index));
    let rise = |state: &IdleState| state.usage.saturating_sub(earlier(state.index).map_or(0, |then| then.usage));
    now.iter().map(|state| (state.index, state.name.clone(), rise(state))).collect()
}

fn ran(now: &Tasks, then: &Tasks, cores: &[CpuId]) -> Vec<Ran> {
    let earlier: HashMap<u32, u64> = then.tasks.iter().map(|task| (task.tid, task.switches)).collect();
    let own_pid = std::process::id();
    let difference = |task: &Task| {
        let switches = task.switches.saturating_sub(earlier.get(&task.tid).copied().unwrap_or(0));
        (switches > 0 && task.pid != own_pid && cores.contains(&task.processor)).then(|| Ran {
            cpu: task.processor,
            tid: task.tid,
            name: task.name.clone(),
            kernel: task.kernel,
            switches,
        })
    };
    let mut ran: Vec<Ran> = now.tasks.iter().filter_map(difference).collect();
    ran.sort_by(|a, b| b.switches.cmp(&a.switches).then(a.tid.cmp(&b.tid)));
    ran
}

fn parse_vmstat(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name.to_owned(), count.trim().digits()?)))
        .collect()
}

impl Measured {
    /// The length as text: `2.0 s`.
    pub fn length(&self) -> String {
        format!("{:.1} s", self.duration.as_secs_f64())
    }

    /// How often a row of /proc/interrupts rose on a core.
    ///
    /// # Errors
    /// Why it is not known: the file, the row or the core's column is missing.
    pub fn interrupt(&self, row: &str, cpu: CpuId) -> Known<u64> {
        let count = self.interrupts.as_ref().map_err(Clone::clone)?.count(row, cpu);
        count.ok_or_else(|| format!("/proc/interrupts has no row {row} for core {cpu}"))
    }

    /// How often a vector of /proc/softirqs rose on a core.
    ///
    /// # Errors
    /// As [`Measured::interrupt`].
    pub fn softirq(&self, vector: &str, cpu: CpuId) -> Known<u64> {
        let count = self.softirqs.as_ref().map_err(Clone::clone)?.count(vector, cpu);
        count.ok_or_else(|| format!("/proc/softirqs has no row {vector} for core {cpu}"))
    }

    /// The rows of a table that rose on a core, largest first, as (label, name, count).
    pub fn rose(table: &Interrupts, cpu: CpuId) -> Vec<(&str, &str, u64)> {
        let count = |label: &str| table.count(label, cpu).unwrap_or(0);
        let mut rows: Vec<(&str, &str, u64)> = table
            .rows
            .iter()
            .map(|row| (row.label.as_str(), row.name.as_str(), count(&row.label)))
            .filter(|row| row.2 > 0)
            .collect();
        rows.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
        rows
    }

    /// How often a counter of /proc/vmstat rose, over the whole machine.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn vmstat(&self, name: &str) -> Known<u64> {
        let counters = self.vmstat.as_ref().map_err(Clone::clone)?;
        counters.get(name).copied().ok_or_else(|| format!("/proc/vmstat has no counter {name}"))
    }

    /// The share of the time that a core was not idle, 0 to 1.
    ///
    /// # Errors
    /// Why it is not known. Less than five ticks say nothing.
    pub fn busy(&self, cpu: CpuId) -> Known<f64> {
        const FEWEST_TICKS: u64 = 5;
        let cores = self.stat.as_ref().map_err(Clone::clone)?;
        let ticks = cores.get(&cpu).ok_or_else(|| format!("/proc/stat has no line for core {cpu}"))?;
        let total = ticks.total();
        if total < FEWEST_TICKS {
            return Err(format!("{} is too short to tell how busy core {cpu} was", self.length()));
        }
        Ok(1.0 - (ticks.idle + ticks.iowait) as f64 / total as f64)
    }

    /// The threads that ran on a core and that `wanted` picks, as text: `2 threads ran on it in 2.0 s: a (5 times)`.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn threads_on(&self, cpu: CpuId, wanted: impl Fn(&Ran) -> bool) -> Known<String> {
        let ran = self.ran.as_ref().map_err(Clone::clone)?;
        let here: Vec<&Ran> = ran.iter().filter(|each| each.cpu == cpu && wanted(each)).collect();
        let names = listed(here.iter().map(|each| format!("{} ({} switches)", each.name, each.switches)));
        Ok(match here.len() {
            0 => format!("none was seen running on it in {}", self.length()),
            1 => format!("1 was seen running on it in {}: {names}", self.length()),
            count => format!("{count} were seen running on it in {}: {names}", self.length()),
        })
    }
}

/// The first few of many, with commas, and how many more there are.
pub fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let mut text = items.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > NAMES_SHOWN {
        text += &format!(" and {} more", items.len() - NAMES_SHOWN);
    }
    text
}
