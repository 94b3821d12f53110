//! `surefoot stall who`: what interrupted a core, what it cost, who raised it, and what to change.
//!
//! The ledger says what arrived and what it took; the raisers' programs say who asked for it. Both are read from a
//! core that is not watched. The raiser pays for its stacks, never the watched core.
//!
//! [`run`] watches for a while and reports. Whoever has attached the ledger's programs already, as the collector has,
//! uses [`Watch`] beside them, with their tapes ([`crate::Traced`]): look often, ask for the report so far at any time.

pub mod calls;
mod entry_exit;
pub(crate) mod host_facts;
mod image;
mod interned;
mod intruders;
pub mod joiner;
mod kept_waiting;
mod lines;
mod loops;
pub mod names;
mod naming;
mod pace;
mod presence;
mod raisers;
mod report;
mod stacks;
#[doc(hidden)]
pub mod strangers;
mod system_calls;
mod timeline;
pub mod trace;
mod turns;
mod unwind;
mod unwinding;
mod watch;

pub use timeline::{ARRIVALS_KEPT, SLICES_KEPT};
pub use watch::Watch;

use crate::Error;
use crate::collect::attach::{Patching, silent_rows};
use crate::config::{LONGEST_RUN, checked_cores, keep_off};
use crate::gap::tapes::Traced;
use crate::namespaces;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, Unsupported, consoles};
use surefoot_model::{CpuId, WhoReport};
use surefoot_probes::{Options, Probes, Workload};
use surefoot_sys::thread;

/// How often records and marks are to be read while much happens: a core leaves at most a few thousand marks meanwhile.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What to watch.
#[derive(Debug, Clone, Default)]
pub struct WhoConfig {
    /// The cores.
    pub cpus: Vec<CpuId>,
    /// The process whose preemption counts, too.
    pub pid: Option<u32>,
    /// Whether to take the raisers' kernel stacks.
    pub kernel_stacks: bool,
    /// Whether to take the raisers' user stacks.
    pub user_stacks: bool,
    /// Stacks that each raising core takes per second.
    pub stacks_per_s: u64,
    /// Whether to keep each arrival by itself ([`WhoReport::timeline`]): up to 30 MiB.
    pub timeline: bool,
}

/// Watches and joins; calls `on_start` when the programs are attached and watching begins.
///
/// # Errors
/// [`Error::Core`] and [`Error::Option`] for options that cannot be met; [`Error::Probes`] where eBPF or BTF is not
/// to be had, because nothing less can name a raiser.
pub fn run(
    root: &Root,
    config: &WhoConfig,
    duration: Duration,
    stop: &AtomicBool,
    on_start: impl FnOnce(),
) -> Result<WhoReport, Error> {
    if config.cpus.is_empty() {
        return Err(Error::Option { option: "cpu", why: "name the core to watch, such as 1".into() });
    }
    if duration > LONGEST_RUN {
        return Err(Error::Option { option: "duration", why: "it is longer than 7 days".into() });
    }
    let cpus = checked_cores(&config.cpus, root)?;
    keep_off(&cpus, root);
    let workload = config.pid.map_or(Workload::None, |pid| Workload::Processes(vec![pid]));
    refuse_in_a_namespace()?;
    let patching = Patching::begin(root);
    let silent = silent_rows(root);
    let options = Options {
        late_threshold_ns: 0,
        console: consoles::any_enabled(root),
        silent_rows: silent.clone(),
        raisers_follow: true,
        ..namespaces::options(None, &workload)?
    };
    let probes = Probes::attach(&options)?;
    let mut traced = Traced::new(root, probes, &cpus);
    let mut watch = Watch::attach(root, &mut traced, &WhoConfig { cpus: cpus.clone(), ..config.clone() })?;
    let attaching = patching.end(root, &cpus);
    watch.measure_entry_exit(&traced);
    // Saying something may wake a reader on a watched core: that is over before counting begins.
    on_start();
    watch.start(&mut traced);
    let start = Instant::now();
    while start.elapsed() < duration && !stop.load(Ordering::Relaxed) {
        thread::rest(watch.rest().min(duration.saturating_sub(start.elapsed())));
        watch.look(&mut traced);
    }
    let mut report = watch.finish(&mut traced);
    report.missing.extend(no_longer_silent(&silent, &silent_rows(root)));
    let patching = Patching::begin(root);
    drop(traced);
    let parts = [attaching, report.cost.attach_interrupts, patching.end(root, &cpus)];
    report.cost.attach_interrupts = parts.into_iter().try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)));
    Ok(report)
}

/// Refuses where what the programs tell of tasks cannot be looked up.
///
/// # Errors
/// [`Error::Probes`] in another PID namespace than the host's.
pub fn refuse_in_a_namespace() -> Result<(), Error> {
    let Some(Unsupported { why, remedy, .. }) = namespaces::unsupported() else { return Ok(()) };
    Err(Error::NotNamed { why, remedy })
}

/// Rows in which the first interrupts ever came while it was watched, each as a sentence.
fn no_longer_silent(before: &[String], after: &[String]) -> Vec<String> {
    let came = before.iter().filter(|row| !after.contains(row));
    let sentence = |row: &String| {
        format!("the first {row} interrupts since boot came before they could be timed; the next run times them")
    };
    came.map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::no_longer_silent;

    #[test]
    fn the_first_interrupts_of_a_row_are_told_of() {
        let rows = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let told = no_longer_silent(&rows(&["THR", "NMI", "SPU"]), &rows(&["SPU"]));
        assert!(told.len() == 2 && told[0].contains("the first THR interrupts"), "{told:?}");
        assert_eq!(no_longer_silent(&rows(&["THR"]), &rows(&["THR"])), [""; 0]);
    }
}
