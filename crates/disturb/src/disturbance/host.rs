//! Which injector this host allows for what was asked.

use super::bpf::Frozen;
use super::memory_error::MemoryErrors;
use super::rated::{Kind, Rated};
use super::smi::Raiser;
use super::spin::{self, Spinners};
use super::stop::Stopper;
use super::{GuestStop, Injector, Method, Spec, What};
use crate::Fault;
use surefoot_hostfs::{Root, cpus, privilege};
use surefoot_model::CpuId;

/// What is going to be done, and by whom.
pub struct Chosen {
    /// Does it.
    pub injector: Box<dyn Injector>,
    /// The word for how.
    pub method: &'static str,
    /// What that really does, and how it differs from an SMI.
    pub words: &'static str,
    /// The cores that are disturbed.
    pub cores: Vec<CpuId>,
    /// Whether it disturbs whatever runs on the cores, and not the workload alone.
    pub is_of_cores: bool,
    /// Better methods that this host does not allow, each with the reason.
    pub not_used: Vec<String>,
}

/// The cores that are meant, all of which must be online.
pub(crate) fn cores_of(spec: &Spec, root: &Root) -> Result<Vec<CpuId>, Fault> {
    let online = cpus::online(root)?;
    if let Some(absent) = spec.cores.iter().find(|cpu| !online.contains(cpu)) {
        let there = cpus::format_list(&online);
        return Err(Fault::Refused(format!("core {} is not online: these are: {there}", absent.0)));
    }
    Ok(if spec.cores.is_empty() { online } else { spec.cores.clone() })
}

/// Whether cores can be made to stand still by timers, and by threads. Programs are loaded and none of them is armed.
pub(crate) fn cores_can_stand_still() -> (Result<(), Fault>, Result<(), Fault>) {
    (Frozen::load().map(drop), spin::is_allowed())
}

/// Picks how it is done: the method that was asked for, or else the best that works here.
///
/// # Errors
/// The cores are not there, or no method works here.
pub fn choose(spec: &Spec, root: &Root) -> Result<Chosen, Fault> {
    crate::safety::check_machine(spec, root)?;
    let cores = cores_of(spec, root)?;
    let wanted = match spec.what {
        What::Freeze(wanted) => wanted,
        What::Guest(how) => return guest(spec, how, root, cores),
        _ => return rated(spec, cores, root),
    };
    if let Some(method) = wanted.filter(|method| !method.is_of_cores() && !spec.cores.is_empty()) {
        return Err(Fault::Refused(format!(
            "{} stops the workload wherever it runs: leave `cores` out",
            method.name()
        )));
    }
    let methods = wanted.map_or(Method::ALL.to_vec(), |method| vec![method]);
    let mut not_used = Vec::new();
    let mut refusal = None;
    for method in methods {
        match injector(method, spec, root) {
            Ok(injector) => {
                let (words, is_of_cores) = (method.words(), method.is_of_cores());
                return Ok(Chosen { injector, method: method.name(), words, cores, is_of_cores, not_used });
            }
            Err(fault) if fault.is_unsupported() => {
                not_used.push(format!("{}: {fault}", method.name()));
                refusal.get_or_insert(fault);
            }
            Err(fault) => return Err(fault),
        }
    }
    Err(refusal.unwrap_or_else(|| Fault::Refused("no method was asked for".into())))
}

fn guest(spec: &Spec, how: GuestStop, root: &Root, cores: Vec<CpuId>) -> Result<Chosen, Fault> {
    let name = how.name();
    if !spec.cores.is_empty() {
        return Err(Fault::Refused(format!("{name} stops the guest wherever it runs: leave `cores` out")));
    }
    let Some(guest) = &spec.guest else {
        return Err(Fault::Refused(format!(
            "{name} needs a guest: name its monitor (qmp=SOCKET) or its process (pid=NUMBER)"
        )));
    };
    let injector: Box<dyn Injector> = Box::new(Stopper::of_guest(guest, how, root, privilege::effective_user())?);
    Ok(Chosen { injector, method: name, words: how.words(), cores, is_of_cores: false, not_used: Vec::new() })
}

fn rated(spec: &Spec, mut cores: Vec<CpuId>, root: &Root) -> Result<Chosen, Fault> {
    if spec.what.is_of_one_core() {
        if spec.cores.len() > 1 {
            let name = spec.what.name();
            return Err(Fault::Refused(format!("{name} is asked for on one core: name one in `cores`, or none")));
        }
        cores.truncate(1);
    }
    if spec.what == What::TlbShootdown && !spec.cores.is_empty() {
        return Err(Fault::Refused("tlb-shootdown disturbs the workload wherever it runs: leave `cores` out".into()));
    }
    let injector: Box<dyn Injector> = match spec.what {
        What::Timer | What::Freeze(_) | What::Guest(_) => Box::new(Frozen::with_interrupts()?),
        What::Smi => Box::new(Raiser::open(root)?),
        What::MemoryError => Box::new(MemoryErrors::open(root)?),
        What::Ipi => Box::new(Rated::new(Kind::Ipi, &cores)?),
        What::Softirq => Box::new(Rated::new(Kind::Softirq, &cores)?),
        What::TlbShootdown => Box::new(Rated::new(Kind::TlbShootdown, &cores)?),
    };
    let is_of_cores = spec.what != What::TlbShootdown;
    let (method, words) = (spec.what.name(), spec.what.words());
    Ok(Chosen { injector, method, words, cores, is_of_cores, not_used: Vec::new() })
}

/// Whether the kernel leaves real-time threads their core for as long as these stalls are.
pub(crate) fn within_budget(spec: &Spec, root: &Root) -> Result<(), Fault> {
    let remedy = || "take shorter stalls".to_owned();
    crate::safety::throttled(spec, root).map_err(|why| Fault::Unsupported { why, remedy: remedy() })
}

fn injector(method: Method, spec: &Spec, root: &Root) -> Result<Box<dyn Injector>, Fault> {
    Ok(match method {
        Method::Bpf => Box::new(Frozen::load()?),
        Method::Spin => {
            within_budget(spec, root)?;
            spin::is_allowed()?;
            Box::new(Spinners::default())
        }
        Method::CgroupFreeze => Box::new(Stopper::by_freezer(root)?),
        Method::Stop => Box::new(Stopper::by_signals()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn real_time_threads_are_not_taken_where_the_kernel_would_throttle_them() {
        let injector = |runtime_us: &str| {
            let tree = HostTree::new()
                .file("proc/sys/kernel/sched_rt_runtime_us", runtime_us)
                .file("proc/sys/kernel/sched_rt_period_us", "1000000\n");
            let spec = Spec::freeze(100_000_000, 500_000_000);
            injector(Method::Spin, &spec, &Root::at(tree.path())).err()
        };
        let refused = injector("150000\n").unwrap();
        assert!(refused.is_unsupported() && refused.to_string().contains("sched_rt_runtime_us"), "{refused}");
        // Where it is allowed at all.
        assert!(!injector("950000\n").is_some_and(|why| why.to_string().contains("sched_rt_runtime_us")));
    }
}
