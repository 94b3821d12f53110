//! What attaching and detaching the programs costs the watched cores: the kernel patches its text for each tracepoint, and
//! interrupts every core that is not idle for each patch.

use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::CpuId;
use surefoot_probes::disturbance;
pub use surefoot_probes::disturbance::Question;
use surefoot_probes::layout::VECTORS;

/// What attaching for a question is about to send to each busy core, in words. Said before it is done.
pub fn forewarning(question: Question) -> String {
    let (tracepoints, interrupts) = (disturbance::tracepoints(question), disturbance::interrupts(question));
    format!(
        "attaching to {tracepoints} tracepoints sends about {interrupts} interrupts to every busy core, detaching as many"
    )
}

/// Rows of vectors and NMIs in which nothing has come since the machine started, which most machines have six of: nothing
/// is attached for them before something does.
pub(crate) fn silent_rows(root: &Root) -> Vec<String> {
    // Where the table cannot be read, everything is attached to.
    let Ok(interrupts) = Interrupts::read(root) else { return Vec::new() };
    let mut labels: Vec<&str> = VECTORS.iter().map(|vector| vector.row).chain(["NMI"]).collect();
    labels.dedup();
    let is_silent = |label: &&str| interrupts.row(label).is_none_or(|row| row.total() == 0);
    labels.into_iter().filter(is_silent).map(str::to_owned).collect()
}

/// Counts from here on.
pub(crate) struct Patching {
    before: Option<Interrupts>,
}

impl Patching {
    /// To be called before the programs are attached, or detached.
    pub(crate) fn begin(root: &Root) -> Self {
        Patching { before: Interrupts::read(root).ok() }
    }

    /// What these cores have received since; `None` where the kernel's table cannot be read.
    pub(crate) fn end(self, root: &Root, watched: &[CpuId]) -> Option<u64> {
        let rise = Interrupts::read(root).ok()?.delta(&self.before?);
        let of = |row, cpu| rise.count(row, cpu).unwrap_or(0);
        // Patches come as called functions. The kernel counts shootdowns among these, and they are not of ours, who run on
        // other cores; nor are reschedules, which on a busy machine are many more.
        let patches = watched.iter().map(|&cpu| of("CAL", cpu).saturating_sub(of("TLB", cpu)) + of("IWI", cpu));
        Some(patches.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn rows_in_which_nothing_ever_came_are_silent() {
        let text = "           CPU0       CPU1\n NMI: 0 0 Non-maskable interrupts\n LOC: 900 1 Local timer interrupts\n RES: 0 \
                    3 Rescheduling interrupts\n CAL: 5 2 Function call interrupts\n IWI: 1 0 IRQ work interrupts\n THR: 0 \
                    0 Threshold APIC interrupts\n ERR: 0\n";
        let tree = HostTree::new().file("proc/interrupts", text);
        assert_eq!(silent_rows(&Root::at(tree.path())), ["PLT", "ERR", "SPU", "TRM", "THR", "DFR", "NMI"]);
        assert_eq!(silent_rows(&Root::at(HostTree::new().path())), [""; 0], "unknown is not silent");
    }

    #[test]
    fn called_functions_of_watched_cores_are_summed_without_shootdowns() {
        let table = |cal: u32| {
            format!(
                "           CPU0       CPU1\n LOC: 900 {cal} Local timer interrupts\n CAL: 5 {cal} Function call \
                 interrupts\n RES: 7 {cal} Rescheduling interrupts\n TLB: 1 4 TLB shootdowns\n"
            )
        };
        let tree = HostTree::new().file("proc/interrupts", table(10));
        let root = Root::at(tree.path());
        let patching = Patching::begin(&root);
        tree.write("proc/interrupts", table(110));
        assert_eq!(patching.end(&root, &[CpuId(1)]), Some(100));
        assert_eq!(Patching { before: None }.end(&root, &[CpuId(1)]), None);
    }
}
