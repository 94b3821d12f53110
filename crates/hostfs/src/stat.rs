//! /proc/stat: the time of each core by what it was spent on, in ticks.

use crate::{Error, Root};
use std::path::Path;
use surefoot_model::{CpuId, Digits};

/// Time of one core since boot, in ticks of [`Stat::ticks_per_s`].
///
/// Linux counts `guest` inside `user` and `guest_nice` inside `nice`, so those two must not be added again.
/// Counts of `idle` and `iowait` may go backwards; [`Ticks::since`] then answers zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticks {
    /// User mode, virtual machines of this host included.
    pub user: u64,
    /// User mode at lowered priority.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Nothing to run.
    pub idle: u64,
    /// Nothing to run while a task of this core waits for a disk. The kernel documents it as unreliable.
    pub iowait: u64,
    /// Hard interrupts; zero on kernels that do not account them apart.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// The hypervisor ran something else while this core had work; it took at least this much.
    pub steal: u64,
    /// Running a virtual machine; contained in `user`.
    pub guest: u64,
    /// Running a virtual machine at lowered priority; contained in `nice`.
    pub guest_nice: u64,
}

impl Ticks {
    /// All time, each tick counted once.
    pub fn total(&self) -> u64 {
        [self.user, self.nice, self.system, self.idle, self.iowait, self.irq, self.softirq, self.steal]
            .iter()
            .fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }

    /// What was added since `earlier`; never below zero.
    pub fn since(&self, earlier: &Ticks) -> Ticks {
        let now = self.fields();
        let then = earlier.fields();
        Ticks::from_fields(std::array::from_fn(|field| now[field].saturating_sub(then[field])))
    }

    fn fields(&self) -> [u64; 10] {
        [
            self.user,
            self.nice,
            self.system,
            self.idle,
            self.iowait,
            self.irq,
            self.softirq,
            self.steal,
            self.guest,
            self.guest_nice,
        ]
    }

    fn from_fields(fields: [u64; 10]) -> Ticks {
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] = fields;
        Ticks { user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice }
    }
}

/// The core lines of /proc/stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The cores that are online, ascending.
    pub cpus: Vec<(CpuId, Ticks)>,
    /// Ticks in a second, 100 on nearly every system.
    pub ticks_per_s: u64,
}

impl Stat {
    /// Reads /proc/stat.
    ///
    /// # Errors
    /// When the file cannot be read or is malformed.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let path = root.proc("stat");
        Self::parse(&root.read_again(&path)?, ticks_per_s()).map_err(|error| error.in_file(&path))
    }

    /// Reads the text of /proc/stat.
    ///
    /// # Errors
    /// [`Error::Malformed`] when a core's line has fewer than four numbers, the cores are not ascending, or there is
    /// no core. Kernels before 2.6.33 print fewer columns; those that are missing are zero.
    pub fn parse(text: &str, ticks_per_s: u64) -> Result<Self, Error> {
        let bad = |line: usize, reason: String| Error::malformed(Path::new("/proc/stat"), line, reason);
        let mut cpus: Vec<(CpuId, Ticks)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_ascii_whitespace();
            let Some(number) = words.next().and_then(|word| word.strip_prefix("cpu")).filter(|n| !n.is_empty()) else {
                continue;
            };
            let cpu = CpuId(number.digits().ok_or_else(|| bad(index + 1, format!("'cpu{number}' names no core")))?);
            if cpus.last().is_some_and(|(last, _)| *last >= cpu) {
                return Err(bad(index + 1, format!("core {cpu} comes after a higher one")));
            }
            let mut fields = [0; 10];
            let mut known = 0;
            for (field, word) in fields.iter_mut().zip(words) {
                *field = word.digits().ok_or_else(|| bad(index + 1, format!("'{word}' is not a number of ticks")))?;
                known += 1;
            }
            if known < 4 {
                return Err(bad(index + 1, format!("{known} numbers where at least 4 belong")));
            }
            cpus.push((cpu, Ticks::from_fields(fields)));
        }
        if cpus.is_empty() {
            return Err(bad(1, "no core is listed".to_owned()));
        }
        Ok(Stat { cpus, ticks_per_s: ticks_per_s.max(1) })
    }

    /// The ticks of one core, if it is online.
    pub fn cpu(&self, cpu: CpuId) -> Option<&Ticks> {
        self.cpus.binary_search_by_key(&cpu, |entry| entry.0).ok().map(|at| &self.cpus[at].1)
    }

    /// Ticks as nanoseconds.
    pub fn ns(&self, ticks: u64) -> u64 {
        u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_s)).unwrap_or(u64::MAX)
    }
}

/// Ticks in a second, of the running kernel.
pub fn ticks_per_s() -> u64 {
    // SAFETY: sysconf reads a constant and takes no pointer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}
