//! What this host can do, found out by trying.

use crate::collect::attach::silent_rows;
use crate::collect::ebpf::EbpfSource;
use crate::config::{Config, SourceChoice, allowed_cores, housekeeping_core};
use crate::gap::witness::Witness;
use crate::kernel_names::KernelNames;
use crate::status::{self, Facts, Tracing};
use crate::{Error, host, namespaces, tracepoints};
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::namespaces::Namespaces;
use surefoot_hostfs::{Root, consoles, cpus};
use surefoot_model::{Capability, Event};
use surefoot_probes::{Options, Probes, Workload};

/// The host and its capabilities, as they open a stream that has no collector: a watch for raisers alone.
///
/// # Errors
/// [`Error::Core`] for a core that is not online; [`Error::Host`] when /sys cannot be read.
pub fn opening_of(root: &Root, config: Config) -> Result<Vec<Event>, Error> {
    let host = host::describe(&Identity::read(root), &config.checked(root)?, EbpfSource::BTF, "");
    Ok(vec![Event::Host(host), Event::Capabilities { capabilities: host_capabilities(root) }])
}

/// What the host can do, found out by trying: the kernel checks the programs, and none is attached, so no core is
/// interrupted.
pub fn host_capabilities(root: &Root) -> Vec<Capability> {
    let identity = Identity::read(root);
    let checked = namespaces::options(None, &Workload::None).and_then(|options| Ok(Probes::check(&options)?));
    let kernel = checked.is_ok().then(|| KernelNames::load(root));
    let tracing = match checked {
        Ok((flavour, missing)) => Tracing::Attached { flavour, missing },
        Err(Error::Probes(error)) => refusal(&error),
        Err(error) => Tracing::Refused { why: error.to_string(), remedy: String::new() },
    };
    let witness = Witness::open(root, &identity, housekeeping_core(&[], root));
    status::capabilities(&facts(root, &identity, tracing, &witness, kernel.as_ref()))
}

/// What is known about the host; `kernel` are the names of its functions, where they are needed.
pub(super) fn facts(
    root: &Root,
    identity: &Identity,
    tracing: Tracing,
    witness: &Witness,
    kernel: Option<&KernelNames>,
) -> Facts {
    let online = cpus::online(root).unwrap_or_default();
    let allowed = allowed_cores();
    Facts {
        tracing,
        tracefs: tracepoints::place(),
        tsc_trusted: clock::trusted(root),
        tsc_missing: TscClock::calibrate_for(Duration::from_millis(1)).err(),
        hypervisor: identity.hypervisor.clone(),
        container: identity.container.as_ref().map(|container| container.name.clone()),
        smi_missing: witness.smi_missing().cloned(),
        symbols_missing: kernel.and_then(KernelNames::missing).cloned(),
        error_reports: witness.sees_error_reports(),
        all_cores_allowed: online.iter().all(|cpu| allowed.contains(cpu)),
        namespaces: if root.is_host() { *Namespaces::of_this_process() } else { Namespaces::read(root) },
    }
}

/// Attaches the programs, where they are wanted; or says why there are none, where less will do.
pub(super) fn attach(config: &Config, root: &Root) -> Result<Result<Probes, Tracing>, Error> {
    let followed = followed(&config.workload);
    let flavour = match config.source {
        SourceChoice::Counters => {
            if let Some(option) = followed {
                let why = "the kernel's counters count all tasks alike and cannot follow some; leave it out, or --source counters";
                return Err(Error::Option { option, why: why.into() });
            }
            let (why, remedy) = ("eBPF was switched off".to_owned(), "leave out --source counters".to_owned());
            return Ok(Err(Tracing::Refused { why, remedy }));
        }
        SourceChoice::Best => None,
        SourceChoice::Ebpf(flavour) => Some(flavour),
    };
    let attached = namespaces::options(flavour, &config.workload).and_then(|options| {
        let options = Options {
            late_threshold_ns: config.gap_threshold_ns,
            // Where nothing prints them, messages hold nobody.
            console: consoles::any_enabled(root),
            silent_rows: silent_rows(root),
            raisers_follow: config.who.is_some(),
            ..options
        };
        Ok(Probes::attach(&options)?)
    });
    // Without eBPF nobody follows a task: where the kernel's counters have to do, that is refused, and not left out unsaid.
    match attached {
        Ok(probes) => Ok(Ok(probes)),
        Err(Error::Probes(error)) if flavour.is_none() && followed.is_none() => Ok(Err(refusal(&error))),
        Err(error) => Err(error),
    }
}

/// The option by which the user named the tasks that others are counted against; `None` for all tasks of a core.
fn followed(workload: &Workload) -> Option<&'static str> {
    match workload {
        Workload::Processes(_) => Some("pid"),
        Workload::Comm(_) => Some("comm"),
        Workload::None | Workload::Cores => None,
    }
}

fn refusal(error: &surefoot_probes::Error) -> Tracing {
    match error {
        surefoot_probes::Error::Unsupported { why, remedy } => {
            Tracing::Refused { why: why.clone(), remedy: remedy.clone() }
        }
        other => Tracing::Refused { why: other.to_string(), remedy: "report this with the kernel's version".into() },
    }
}
