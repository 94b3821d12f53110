//! What disturbs a core or lets it sleep: the affinities of interrupt lines, idle states, the limit on wake-ups.
//!
//! Nothing here asks a core anything: every file read gives what the kernel keeps in memory. Files that the kernel
//! answers by interrupting the core (`cpuinfo_cur_freq`, `scaling_cur_freq`, `/dev/cpu/N/msr`) are left alone.

use crate::error::shorten;
use crate::interrupts::Interrupts;
use crate::settings::{list_file, number_file, numbered, word_file};
use crate::{Error, Root};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surefoot_model::CpuId;

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    fn ids(cpus: &[u32]) -> Vec<CpuId> {
        cpus.iter().copied().map(CpuId).collect()
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
        assert!(error.contains("state2/latency") && error.contains("'fast' is not a whole number"), "{error}");
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
}
