//! The rows of `surefoot status` about lost time: what of it works on this host, with the reason and the remedy. Pure: facts
//! in, rows out. What records, stores or shows it has rows of its own elsewhere.

use crate::namespaces;
use surefoot_hostfs::Unsupported;
use surefoot_hostfs::namespaces::Namespaces;
use surefoot_hostfs::tracefs::TracefsMount;
use surefoot_model::{Capability, CapabilityState};
use surefoot_probes::{Flavour, Missing};

/// What loading the eBPF programs brought.
#[derive(Debug, Clone)]
pub enum Tracing {
    /// They run.
    Attached {
        /// On which kind of tracepoint.
        flavour: Flavour,
        /// What this kernel does not have.
        missing: Vec<Missing>,
    },
    /// They do not.
    Refused {
        /// Why.
        why: String,
        /// What helps.
        remedy: String,
    },
}

/// What is known about the host.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What loading the programs brought.
    pub tracing: Tracing,
    /// Where tracefs is found, or why it is not.
    pub tracefs: Result<TracefsMount, Unsupported>,
    /// Whether the kernel trusts the time-stamp counter.
    pub tsc_trusted: bool,
    /// Why there is no usable counter, if there is none.
    pub tsc_missing: Option<Unsupported>,
    /// The hypervisor's name.
    pub hypervisor: Option<String>,
    /// The container's name, if this runs in one.
    pub container: Option<String>,
    /// Why SMIs cannot be counted, if they cannot.
    pub smi_missing: Option<Unsupported>,
    /// Why functions cannot be named, if they cannot.
    pub symbols_missing: Option<Unsupported>,
    /// Whether memory controllers report errors (EDAC).
    pub error_reports: bool,
    /// Whether every core may be used for spinning and sleeping.
    pub all_cores_allowed: bool,
    /// Which part of the host this process sees.
    pub namespaces: Namespaces,
}

/// A row under construction.
fn row(
    id: &str,
    name: &str,
    state: CapabilityState,
    reason: impl Into<String>,
    remedy: impl Into<String>,
) -> Capability {
    Capability { id: id.into(), name: name.into(), state, reason: reason.into(), remedy: remedy.into() }
}

use CapabilityState::{Reduced, Unsupported as No, Works};

/// Every capability of lost time, in the order of the table; their identifiers begin with `stall.`; and the namespaces.
pub fn capabilities(facts: &Facts) -> Vec<Capability> {
    let mut rows = vec![ledger(facts)];
    rows.extend(parts_of_the_ledger(facts));
    rows.push(tracefs(facts));
    rows.push(lateness(facts));
    rows.push(probe(facts));
    rows.push(sentinel(facts));
    rows.push(smi(facts));
    rows.push(steal(facts));
    rows.push(error_reports(facts));
    rows.extend(namespaces::rows(&facts.namespaces));
    rows
}

fn ledger(facts: &Facts) -> Capability {
    let (id, name) = ("stall.ledger", "lost time per core and cause");
    match &facts.tracing {
        Tracing::Attached { flavour: Flavour::Btf, .. } => row(id, name, Works, "eBPF on BTF-typed tracepoints", ""),
        Tracing::Attached { flavour: Flavour::Plain, .. } => row(
            id,
            name,
            Reduced,
            "eBPF on plain tracepoints: kernel threads are known by a list that is a second old, and late timers are not seen",
            "use a kernel with BTF (CONFIG_DEBUG_INFO_BTF)",
        ),
        Tracing::Refused { why, remedy } => {
            row(id, name, Reduced, format!("only the kernel's counters: {why}"), with_container(remedy, facts))
        }
    }
}

fn with_container(remedy: &str, facts: &Facts) -> String {
    match &facts.container {
        Some(container) => format!(
            "{remedy}; in a {container} container also --cap-add BPF, PERFMON and SYS_RESOURCE, or run it outside the container"
        ),
        None => remedy.to_owned(),
    }
}

/// What of the ledger depends on single tracepoints.
fn parts_of_the_ledger(facts: &Facts) -> Vec<Capability> {
    // Which programs, what they give, under which identifier.
    const PARTS: [(&str, &str, &[&str]); 6] = [
        ("stall.device_interrupts", "device interrupts by name", &["irq_handler_entry", "irq_handler_exit"]),
        ("stall.softirqs", "softirqs by vector", &["softirq_entry", "softirq_exit"]),
        (
            "stall.functions",
            "functions called from other cores, TLB shootdowns",
            &["csd_function_entry", "csd_function_exit"],
        ),
        ("stall.nmi", "NMIs by handler", &["nmi_handler"]),
        (
            "stall.machine_check",
            "machine-check and corrected-error interrupts timed",
            &["threshold_apic_entry", "threshold_apic_exit", "deferred_error_apic_entry", "deferred_error_apic_exit"],
        ),
        ("stall.self_interrupts", "interrupts that Surefoot itself raises", &["ipi_send_cpu", "ipi_send_cpumask"]),
    ];
    let mut rows = Vec::new();
    for (id, name, programs) in PARTS {
        rows.push(match &facts.tracing {
            Tracing::Refused { why, remedy } => row(id, name, No, format!("needs eBPF: {why}"), remedy.clone()),
            Tracing::Attached { missing, .. } => {
                let gone: Vec<&Missing> = missing.iter().filter(|each| programs.contains(&each.program.name)).collect();
                match gone.first() {
                    None => row(id, name, Works, "its tracepoints are there", ""),
                    Some(first) => {
                        let state = if gone.len() == programs.len() { No } else { Reduced };
                        row(
                            id,
                            name,
                            state,
                            format!("{}; {}", first.why, first.program.without),
                            "use a kernel that has it",
                        )
                    }
                }
            }
        });
    }
    rows.push(match (&facts.tracing, &facts.symbols_missing) {
        (Tracing::Refused { why, remedy }, _) => {
            row("stall.symbols", "names of kernel functions", No, format!("needs eBPF: {why}"), remedy.clone())
        }
        (_, Some(missing)) => {
            row("stall.symbols", "names of kernel functions", No, missing.why.clone(), missing.remedy.clone())
        }
        _ => row("stall.symbols", "names of kernel functions", Works, "from /proc/kallsyms", ""),
    });
    rows
}

fn tracefs(facts: &Facts) -> Capability {
    let (id, name) = ("stall.tracefs", "tracefs, which describes plain tracepoints");
    match &facts.tracefs {
        Ok(place) => row(id, name, Works, place.to_string(), ""),
        Err(missing) => row(id, name, No, missing.why.clone(), missing.remedy.clone()),
    }
}

fn lateness(facts: &Facts) -> Capability {
    let (id, name) = ("stall.lateness", "hidden gaps by late timers on every core");
    let without = match &facts.tracing {
        Tracing::Refused { why, remedy } => Some((why.clone(), remedy.clone())),
        Tracing::Attached { missing, .. } => {
            let found = missing.iter().find(|each| each.program.name == "hrtimer_expire_entry");
            found.map(|each| (each.why.clone(), "use a kernel that has it".to_owned()))
        }
    };
    match without {
        None => row(id, name, Works, "each kernel timer's due time is compared with its firing", ""),
        Some((why, remedy)) if facts.all_cores_allowed => row(
            id,
            name,
            Reduced,
            format!("{why}; late wake-ups of Surefoot's own threads are used, 50 a second and core"),
            remedy,
        ),
        Some((why, remedy)) => row(
            id,
            name,
            Reduced,
            format!("{why}; late wake-ups are used, and not all cores may be used by this process"),
            format!("{remedy}; or let it use all cores"),
        ),
    }
}

fn probe(facts: &Facts) -> Capability {
    let (id, name) = ("stall.probe", "the spinning probe");
    if let Some(missing) = &facts.tsc_missing {
        return row(id, name, No, missing.why.clone(), missing.remedy.clone());
    }
    if !facts.tsc_trusted {
        return row(
            id,
            name,
            Reduced,
            "the kernel does not trust the time-stamp counter (its clocksource is another one), so lengths may be wrong",
            "see clocksource in the kernel's log",
        );
    }
    match &facts.tracing {
        Tracing::Attached { .. } => row(id, name, Works, "time-stamp counter trusted, gaps are joined with causes", ""),
        Tracing::Refused { why, remedy } => {
            row(id, name, Reduced, format!("finds gaps but cannot say what was inside: {why}"), remedy.clone())
        }
    }
}

fn sentinel(facts: &Facts) -> Capability {
    let (id, name) = ("stall.sentinel", "the sentinel on a housekeeping core");
    match &facts.tsc_missing {
        Some(missing) => row(id, name, No, missing.why.clone(), missing.remedy.clone()),
        None => row(id, name, Works, "off unless --sentinel names a core", ""),
    }
}

fn smi(facts: &Facts) -> Capability {
    let (id, name) = ("stall.smi", "SMIs counted");
    match &facts.smi_missing {
        None => row(id, name, Works, "the processor counts them", ""),
        Some(missing) => row(id, name, No, missing.why.clone(), missing.remedy.clone()),
    }
}

fn steal(facts: &Facts) -> Capability {
    let (id, name) = ("stall.steal", "time that the hypervisor takes");
    match &facts.hypervisor {
        None => row(id, name, Works, "bare metal: there is no hypervisor", ""),
        Some(hypervisor) => row(
            id,
            name,
            Reduced,
            format!(
                "{hypervisor} reports steal in ticks and only for time in which it scheduled others: at least this much was lost"
            ),
            "watch the machine of the hypervisor, too",
        ),
    }
}

fn error_reports(facts: &Facts) -> Capability {
    let (id, name) = ("stall.error_reports", "gaps tied to memory-error reports");
    if facts.error_reports {
        return row(id, name, Works, "memory controllers report through EDAC", "");
    }
    let remedy = if facts.hypervisor.is_some() {
        "watch the machine of the hypervisor instead"
    } else {
        "load the EDAC driver of this platform"
    };
    row(id, name, No, "no memory controller reports errors here (no EDAC)", remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_hostfs::Root;
    use surefoot_probes::programs;
    use surefoot_testkit::HostTree;

    /// The host's own.
    fn initial() -> Namespaces {
        let numbers = [("time", 834), ("pid", 836), ("user", 837), ("net", 833), ("mnt", 832), ("cgroup", 835)];
        let tree =
            numbers.iter().fold(HostTree::new().file("proc/self/status", "NSpid:\t7\n"), |tree, (name, number)| {
                tree.link(format!("proc/self/ns/{name}"), format!("{name}:[4026531{number}]"))
            });
        Namespaces::read(&Root::at(tree.path()))
    }

    fn facts(tracing: Tracing) -> Facts {
        Facts {
            tracing,
            tracefs: Ok(TracefsMount::Detached),
            tsc_trusted: true,
            tsc_missing: None,
            hypervisor: None,
            container: None,
            smi_missing: None,
            symbols_missing: None,
            error_reports: true,
            all_cores_allowed: true,
            namespaces: initial(),
        }
    }

    fn state(rows: &[Capability], id: &str) -> CapabilityState {
        rows.iter().find(|row| row.id == id).unwrap_or_else(|| panic!("no row {id}")).state
    }

    #[test]
    fn with_everything_there_everything_works() {
        let rows = capabilities(&facts(Tracing::Attached { flavour: Flavour::Btf, missing: Vec::new() }));
        let not: Vec<_> = rows.iter().filter(|row| row.state != Works).collect();
        assert!(not.is_empty(), "{not:?}");
        let mut ids: Vec<_> = rows.iter().map(|row| &row.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rows.len());
        let is_own = |id: &&String| id.starts_with("stall.") || id.starts_with("host.namespace.");
        assert!(ids.iter().all(is_own), "rows of others: {ids:?}");
    }

    #[test]
    fn a_missing_tracepoint_reduces_only_what_needs_it() {
        let gone = |name: &str| Missing {
            program: programs::named(name).unwrap_or_else(|| panic!("{name}")),
            why: "absent".into(),
        };
        let missing = vec![gone("csd_function_entry"), gone("csd_function_exit"), gone("threshold_apic_entry")];
        let rows = capabilities(&facts(Tracing::Attached { flavour: Flavour::Btf, missing }));
        assert_eq!(state(&rows, "stall.functions"), No);
        assert_eq!(state(&rows, "stall.machine_check"), Reduced);
        assert_eq!(state(&rows, "stall.softirqs"), Works);
    }

    #[test]
    fn without_tracing_nothing_that_needs_it_claims_to_work() {
        let refused = Tracing::Refused { why: "no CAP_BPF".into(), remedy: "grant CAP_BPF".into() };
        let rows = capabilities(&Facts { container: Some("docker".into()), ..facts(refused) });
        for id in ["stall.functions", "stall.nmi", "stall.softirqs", "stall.symbols", "stall.self_interrupts"] {
            assert_eq!(state(&rows, id), No, "{id}");
        }
        for id in ["stall.ledger", "stall.lateness", "stall.probe"] {
            assert_eq!(state(&rows, id), Reduced, "{id}");
        }
        assert!(rows[0].remedy.contains("docker"), "{}", rows[0].remedy);
        // What helps is what the refusal says, and not another guess.
        let lateness = rows.iter().find(|row| row.id == "stall.lateness").map(|row| row.remedy.as_str());
        assert_eq!(lateness, Some("grant CAP_BPF"));
        assert!(rows.iter().filter(|row| row.state != Works).all(|row| !row.reason.is_empty()));
    }
}
