//! Which disturbances and workloads this host allows: the rows of `surefoot status`.

use crate::Fault;
use crate::disturbance::{Spec, What, cores_can_stand_still};
use crate::safety;
use crate::workload::ready::{self, Setting};
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Capability, CapabilityState};

/// The rows, without disturbing anything.
pub fn capabilities(root: &Root) -> Vec<Capability> {
    vec![
        row("disturb.freeze", "stalls of chosen cores", freezes()),
        row("disturb.smi", "real SMIs, asked for at the APM port", smis(root)),
        row("disturb.workloads", "ready-made workloads for experiments", workloads(root)),
    ]
}

/// The state, why, and what helps.
type State = (CapabilityState, String, String);

fn row(id: &str, name: &str, (state, reason, remedy): State) -> Capability {
    Capability { id: id.into(), name: name.into(), state, reason, remedy }
}

fn freezes() -> State {
    let (by_timers, by_threads) = cores_can_stand_still();
    match (by_timers, by_threads) {
        (Ok(()), _) => (CapabilityState::Works, "interrupts off, by pinned timers of eBPF".into(), String::new()),
        (Err(fault), Ok(())) => {
            let (why, remedy) = words(fault);
            (CapabilityState::Reduced, format!("by real-time threads, which stop tasks alone: {why}"), remedy)
        }
        (Err(fault), Err(_)) => {
            let (why, remedy) = words(fault);
            (CapabilityState::Unsupported, format!("the workload alone can be stopped: {why}"), remedy)
        }
    }
}

fn smis(root: &Root) -> State {
    // Its times say nothing here: the firmware takes as long as it likes.
    let spec = Spec { what: What::Smi, ..Spec::freeze(1, 1) };
    match safety::check_machine(&spec, root) {
        Ok(()) => {
            (CapabilityState::Works, "this is a guest of QEMU, whose firmware may take them".into(), String::new())
        }
        Err(Fault::Unsupported { why, remedy }) => (CapabilityState::Unsupported, why, remedy),
        Err(fault) => (CapabilityState::Reduced, fault.to_string(), String::new()),
    }
}

fn workloads(root: &Root) -> State {
    let setting = Setting { cores: cpus::online(root).unwrap_or_default(), is_quick: true };
    let (mut count, mut missing) = (0, Vec::new());
    for ready in ready::names().filter_map(|name| ready::named(name, &setting)) {
        count += 1;
        missing.extend(ready.unsupported);
    }
    let works = count - missing.len();
    missing.sort_unstable();
    missing.dedup();
    let state = match works {
        0 => CapabilityState::Unsupported,
        _ if works == count => CapabilityState::Works,
        _ => CapabilityState::Reduced,
    };
    (state, format!("{works} of {count} can be run here"), missing.join("; "))
}

fn words(fault: Fault) -> (String, String) {
    match fault {
        Fault::Unsupported { why, remedy } => (why, remedy),
        other => (other.to_string(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_real_machine_is_asked_for_no_smi_unasked_and_a_foreign_guest_for_none_at_all() {
        let bare = HostTree::new().file("proc/cpuinfo", "processor : 0\nflags : fpu\n");
        let state = |tree: &HostTree| smis(&Root::at(tree.path()));
        let (on_bare_metal, why, _) = state(&bare);
        assert_eq!(on_bare_metal, CapabilityState::Reduced);
        assert!(why.contains("--even-on-bare-metal"), "{why}");
        let (elsewhere, ..) = state(
            &bare
                .file("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
                .file("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n"),
        );
        assert_eq!(elsewhere, CapabilityState::Unsupported);
    }

    #[test]
    fn workloads_that_lack_a_core_are_counted_and_say_so() {
        let tree = HostTree::new().file("sys/devices/system/cpu/online", "0\n");
        let (state, reason, remedy) = workloads(&Root::at(tree.path()));
        assert_ne!(state, CapabilityState::Works, "{reason}");
        assert!(remedy.contains("this host has 1 core"), "{remedy}");
        assert!(reason.contains(&format!("of {}", ready::names().count())), "{reason}");
    }
}
