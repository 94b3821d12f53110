//! The names of the causes: from the programs' numbers and keys to words of the field.

use crate::kernel_names::KernelNames;
use std::collections::HashMap;
use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{Cause, CauseKind};
use surefoot_probes::layout::{
    self, CAUSE_FIRST_DYNAMIC, CAUSE_LOCAL_TIMER, CAUSE_SOFTIRQ, CauseTotals, KEY_DEVICE, KEY_FUNCTION, KEY_NMI,
    KEY_TASK, KEY_THREAD, SOFTIRQS, VECTORS,
};

/// The function that x86 calls on the cores whose translations must go.
const SHOOTDOWN: &str = "flush_tlb_func";

/// Gives causes their names. A line may be given to another device, and modules come and go: see [`Names::learn`].
pub struct Names {
    devices: HashMap<u32, String>,
    kernel: KernelNames,
    /// Counts the lines that were given to another device.
    renamed: u64,
}

impl Names {
    /// Reads the interrupt lines; functions have the names of the kernel's table.
    pub fn load(root: &Root, kernel: KernelNames) -> Self {
        let mut names = Names { devices: HashMap::new(), kernel, renamed: 0 };
        if let Ok(interrupts) = Interrupts::read(root) {
            names.learn(&interrupts);
        }
        names
    }

    /// The names of functions.
    pub fn kernel(&self) -> &KernelNames {
        &self.kernel
    }

    /// Takes over the names of interrupt lines as they are now, and of the functions of modules that came. A line that is
    /// gone keeps its last name: what it took is still to be named.
    pub fn learn(&mut self, interrupts: &Interrupts) {
        for row in interrupts.rows.iter().filter(|row| row.is_device() && !row.name.is_empty()) {
            if let Ok(number) = row.label.parse()
                && self.devices.get(&number) != Some(&row.name)
            {
                let before = self.devices.insert(number, row.name.clone());
                self.renamed += u64::from(before.is_some());
            }
        }
        self.kernel.refresh();
    }

    /// Changes when a name that was given may be another now.
    pub fn generation(&self) -> (u64, u64) {
        (self.renamed, self.kernel.generation())
    }

    fn function(&self, address: u64) -> String {
        self.kernel.name(address).unwrap_or_else(|| "function without a name".to_owned())
    }

    /// The cause behind a number of the programs; `totals` is its entry on the core where it happened.
    pub fn cause(&self, number: usize, totals: &CauseTotals) -> Cause {
        if (CAUSE_LOCAL_TIMER..CAUSE_LOCAL_TIMER + VECTORS.len()).contains(&number) {
            return vector_cause(number - CAUSE_LOCAL_TIMER);
        }
        if (CAUSE_SOFTIRQ..CAUSE_SOFTIRQ + SOFTIRQS.len()).contains(&number) {
            return Cause::new(CauseKind::Softirq, SOFTIRQS[number - CAUSE_SOFTIRQ]);
        }
        match number {
            layout::CAUSE_OTHER_NMI => return Cause::new(CauseKind::Nmi, "others"),
            layout::CAUSE_OTHER_DEVICE => return Cause::new(CauseKind::DeviceInterrupt, "others"),
            layout::CAUSE_OTHER_FUNCTION => return Cause::new(CauseKind::CallFunction, "others"),
            layout::CAUSE_OTHER_THREAD => return Cause::new(CauseKind::KernelThread, "others"),
            layout::CAUSE_CONSOLE => return Cause::new(CauseKind::Console, "messages"),
            layout::CAUSE_OTHER_TASK => return Cause::new(CauseKind::Preemption, "others"),
            _ if number < CAUSE_FIRST_DYNAMIC => {
                return Cause::new(CauseKind::OtherInterrupt, format!("number {number}"));
            }
            _ => {}
        }
        match totals.kind() {
            KEY_DEVICE => {
                let line = totals.value() as u32;
                let name = self.devices.get(&line).filter(|name| !name.is_empty());
                Cause::new(CauseKind::DeviceInterrupt, name.cloned().unwrap_or_else(|| format!("line {line}")))
            }
            KEY_FUNCTION => {
                let name = self.function(totals.address());
                let kind = if name == SHOOTDOWN { CauseKind::TlbShootdown } else { CauseKind::CallFunction };
                Cause::new(kind, name)
            }
            KEY_THREAD => Cause::new(CauseKind::KernelThread, printable(&totals.name)),
            KEY_TASK => Cause::new(CauseKind::Preemption, printable(&totals.name)),
            KEY_NMI => Cause::new(CauseKind::Nmi, self.function(totals.address())),
            other => Cause::new(CauseKind::OtherInterrupt, format!("key {other}")),
        }
    }

    /// The interrupt line of a cause, if it is one.
    pub fn line(totals: &CauseTotals) -> Option<u32> {
        (totals.kind() == KEY_DEVICE).then_some(totals.value() as u32)
    }
}

fn vector_cause(index: usize) -> Cause {
    let kind = match VECTORS[index].row {
        "LOC" => CauseKind::Timer,
        "RES" => CauseKind::Reschedule,
        "CAL" => return Cause::new(CauseKind::CallFunction, Cause::INTERRUPT_ITSELF),
        "IWI" => CauseKind::IrqWork,
        "THR" | "DFR" => CauseKind::MachineCheck,
        _ => CauseKind::OtherInterrupt,
    };
    Cause::new(kind, VECTORS[index].name)
}

/// A thread's name as text: thread names are bytes that any program may choose, control characters included.
pub fn printable(name: &[u8]) -> String {
    let bytes = name.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    fn totals(kind: u8, value: u64, name: &[u8]) -> CauseTotals {
        let mut totals = CauseTotals::of_key(kind, value);
        totals.name[..name.len()].copy_from_slice(name);
        totals
    }

    fn names() -> Names {
        let tree = HostTree::new()
            .file("proc/interrupts", "      CPU0\n 36:  5  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n")
            .file(
                "proc/kallsyms",
                "ffffffff81000000 T _text\nffffffff81001000 t flush_tlb_func\nffffffff81002000 t do_sync_core\n",
            );
        let root = Root::at(tree.path());
        Names::load(&root, KernelNames::load(&root))
    }

    #[test]
    fn keys_become_words_of_the_field() {
        let names = names();
        let named = |kind, value, name: &[u8]| names.cause(40, &totals(kind, value, name)).to_string();
        assert_eq!(named(KEY_DEVICE, 36, b""), "device interrupt virtio1-req.0");
        assert_eq!(named(KEY_DEVICE, 99, b""), "device interrupt line 99");
        assert_eq!(named(KEY_FUNCTION, 0xffff_ffff_8100_1000, b""), "TLB shootdown flush_tlb_func");
        assert_eq!(named(KEY_FUNCTION, 0xffff_ffff_8100_2000, b""), "call function do_sync_core");
        assert_eq!(named(KEY_THREAD, 1, b"ksoftirqd"), "kernel thread ksoftirqd");
        assert_eq!(named(KEY_TASK, 1, b"evil\x1b[2Jname"), "preemption evil?[2Jname");
    }

    #[test]
    fn a_line_that_is_given_to_another_device_has_that_device_s_name() {
        let mut names = names();
        let mut learn = |rows: &str| {
            let tree = HostTree::new().file("proc/interrupts", format!("      CPU0\n{rows}"));
            names.learn(&Interrupts::read(&Root::at(tree.path())).unwrap());
            (names.cause(40, &totals(KEY_DEVICE, 36, b"")).name, names.generation().0)
        };
        assert_eq!(learn(" 36:  5  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n"), ("virtio1-req.0".into(), 0));
        assert_eq!(learn(" 37:  5  PCI-MSIX-0000:00:02.0   1-edge      eth0-rx-0\n"), ("virtio1-req.0".into(), 0));
        assert_eq!(learn(" 36:  6  PCI-MSIX-0000:00:03.0   1-edge      nvme0q1\n"), ("nvme0q1".into(), 1));
    }

    #[test]
    fn every_number_has_a_name_of_its_own() {
        let names = names();
        let mut seen = std::collections::BTreeSet::new();
        for number in CAUSE_LOCAL_TIMER..CAUSE_FIRST_DYNAMIC {
            seen.insert(names.cause(number, &CauseTotals::default()));
        }
        // The two call-function vectors share one name.
        assert_eq!(seen.len(), CAUSE_FIRST_DYNAMIC - CAUSE_LOCAL_TIMER - 1);
        assert_eq!(names.cause(CAUSE_SOFTIRQ + 3, &CauseTotals::default()).name, "NET_RX");
    }
}
