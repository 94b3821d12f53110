//! What attaching and detaching the programs costs the watched cores: the kernel patches its text for each tracepoint, and
//! interrupts every core that is not idle for each patch.

use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::CpuId;

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
