//! What the user chose, checked against the host before anything starts.

use crate::Error;
use crate::who::WhoConfig;
use std::sync::OnceLock;
use std::time::Duration;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_probes::{Flavour, Workload};
use surefoot_sys::thread;

/// Where the ledger gets its numbers from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceChoice {
    /// eBPF where it is allowed, the kernel's counters elsewhere.
    #[default]
    Best,
    /// eBPF on this kind of tracepoint, or an error.
    Ebpf(Flavour),
    /// The kernel's counters, also where eBPF is allowed.
    Counters,
}

/// The loop that spins on a housekeeping core part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentinelConfig {
    /// The core.
    pub cpu: CpuId,
    /// The share of time that it spins, percent (1 to 100).
    pub duty_percent: u8,
}

/// What to watch and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// The cores; empty for all that are online.
    pub cpus: Vec<CpuId>,
    /// Length of a window.
    pub window: Duration,
    /// Timers later than this, and gaps of the sentinel longer than this, are reported; nanoseconds.
    pub gap_threshold_ns: u64,
    /// The work that preemption is counted against.
    pub workload: Workload,
    /// The spinning sentinel, if one is wanted.
    pub sentinel: Option<SentinelConfig>,
    /// Where the numbers come from.
    pub source: SourceChoice,
    /// The cores whose interrupts are traced back to their raisers, and how; its process is that of the workload, if one
    /// is named. `None` for nobody's.
    pub who: Option<WhoConfig>,
    /// Where all cores are watched: whether the threads of this process may be brought together on one core while little
    /// happens, the calling one, the first one and those whose names begin with `surefoot`.
    pub gather: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cpus: Vec::new(),
            window: Duration::from_secs(1),
            gap_threshold_ns: 100_000,
            workload: Workload::None,
            sentinel: None,
            source: SourceChoice::Best,
            who: None,
            gather: false,
        }
    }
}

/// The shortest and the longest window.
pub const WINDOW_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// The longest run of anything that has an end.
pub const LONGEST_RUN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The smallest and the largest threshold of a gap, nanoseconds.
pub const THRESHOLD_RANGE_NS: (u64, u64) = (100, 60_000_000_000);

impl Config {
    /// Checks the choices against the host and fills in the cores.
    ///
    /// # Errors
    /// [`Error::Core`] for a core that is not online, [`Error::Option`] for a value outside its range.
    pub fn checked(mut self, root: &Root) -> Result<Self, Error> {
        self.cpus = checked_cores(&self.cpus, root)?;
        if self.window < WINDOW_RANGE.0 || self.window > WINDOW_RANGE.1 {
            return Err(Error::Option { option: "window", why: format!("{:?} is outside 100 ms to 1 h", self.window) });
        }
        checked_threshold(self.gap_threshold_ns)?;
        if let Some(who) = &mut self.who {
            who.cpus = checked_cores(&who.cpus, root)?;
            if let Some(cpu) = who.cpus.iter().find(|cpu| !self.cpus.contains(cpu)) {
                let watched = cpus::format_list(&self.cpus);
                return Err(Error::Option {
                    option: "who",
                    why: format!("core {cpu} is not among those that are watched ({watched})"),
                });
            }
        }
        if let Some(sentinel) = self.sentinel {
            checked_cores(&[sentinel.cpu], root)?;
            if !(1..=100).contains(&sentinel.duty_percent) {
                return Err(Error::Option {
                    option: "sentinel duty",
                    why: format!("{} % is outside 1 to 100 %", sentinel.duty_percent),
                });
            }
        }
        Ok(self)
    }
}

/// The cores asked for, ascending and once each, all of them online; all online cores when none is asked for.
///
/// # Errors
/// [`Error::Core`] for one that does not exist or is offline.
pub fn checked_cores(wanted: &[CpuId], root: &Root) -> Result<Vec<CpuId>, Error> {
    let online = cpus::online(root)?;
    if wanted.is_empty() {
        return Ok(online);
    }
    let possible = cpus::possible(root).unwrap_or_default();
    let mut cores = wanted.to_vec();
    cores.sort_unstable();
    cores.dedup();
    for &cpu in &cores {
        if !online.contains(&cpu) {
            let why = if possible.contains(&cpu) { "is offline" } else { "does not exist" };
            return Err(Error::Core { cpu, why, online: cpus::format_list(&online) });
        }
    }
    Ok(cores)
}

/// Refuses a threshold outside [`THRESHOLD_RANGE_NS`].
///
/// # Errors
/// [`Error::Option`].
pub fn checked_threshold(threshold_ns: u64) -> Result<(), Error> {
    if threshold_ns < THRESHOLD_RANGE_NS.0 || threshold_ns > THRESHOLD_RANGE_NS.1 {
        return Err(Error::Option { option: "threshold", why: format!("{threshold_ns} ns is outside 100 ns to 60 s") });
    }
    Ok(())
}

static ALLOWED: OnceLock<Vec<CpuId>> = OnceLock::new();

/// The cores that this process was allowed to use when it was first asked, before it kept itself off some.
pub fn allowed_cores() -> &'static [CpuId] {
    ALLOWED.get_or_init(|| thread::affinity().unwrap_or_default())
}

/// Tells which cores this process was allowed to use before whoever started it kept it off some. The first word counts.
pub fn remember_allowed_cores(cores: Vec<CpuId>) {
    let _ = ALLOWED.set(cores);
}

/// The cores that reading threads may run on: online, allowed and not watched; those that are not isolated first.
fn unwatched_cores(watched: &[CpuId], root: &Root) -> Vec<CpuId> {
    let isolated = cpus::isolated(root).unwrap_or_default();
    let online = cpus::online(root).unwrap_or_default();
    let unwatched: Vec<CpuId> =
        online.into_iter().filter(|cpu| allowed_cores().contains(cpu) && !watched.contains(cpu)).collect();
    let ordinary: Vec<CpuId> = unwatched.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect();
    if ordinary.is_empty() { unwatched } else { ordinary }
}

/// The core that work of our own belongs on, or `None` when every core is watched.
pub fn housekeeping_core(watched: &[CpuId], root: &Root) -> Option<CpuId> {
    unwatched_cores(watched, root).first().copied()
}

/// Keeps the calling thread, and the threads that it starts from now on, off the watched cores. Does nothing when no
/// core would be left, or when `watched` is empty (all cores are watched).
pub fn keep_off(watched: &[CpuId], root: &Root) -> bool {
    let unwatched = unwatched_cores(watched, root);
    // A refusal leaves the threads where they were, which disturbs but does not falsify.
    !watched.is_empty() && !unwatched.is_empty() && thread::pin_to_any(&unwatched).is_ok()
}
