//! Addresses to names: the kernel's from /proc/kallsyms, a process's from its files while it lives.

use crate::kernel_names::KernelNames;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use surefoot_hostfs::Root;

/// Names the addresses of kernel stacks.
pub(crate) struct KernelStacks(pub(crate) KernelNames);

impl KernelStacks {
    /// A kernel function's name, or its address.
    pub(crate) fn name(&self, address: u64) -> String {
        self.0.name(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    /// The frames of a stack, innermost first.
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<String> {
        let names = addresses.iter().map(|&address| self.name(address));
        names.skip_while(|name| is_of_the_probe(name)).collect()
    }
}

/// Names the addresses of processes' stacks. Files are read once and kept by the symbolizer.
pub(crate) struct UserStacks {
    root: Root,
    symbolizer: Symbolizer,
}

impl UserStacks {
    pub(crate) fn new(root: &Root) -> Self {
        UserStacks { root: root.clone(), symbolizer: Symbolizer::new() }
    }

    /// The frames of a process's stack, innermost first, inlined ones included. What has no name is shown by its
    /// address and the reason: a stripped or deleted file, code made at run time, a process gone.
    pub(crate) fn frames(&self, pid: u32, addresses: &[u64], top: u64) -> Vec<String> {
        if addresses.is_empty() {
            return Vec::new();
        }
        let mut names = self.walked(pid, addresses);
        if let Some(caller) = self.caller_of_wrapper(pid, addresses, top) {
            names.insert(1, caller);
        }
        names
    }

    /// The function that a frameless system-call wrapper returns to, which a walk along frame pointers misses. It is
    /// believed when it is code with a name and the walk does not have it already.
    fn caller_of_wrapper(&self, pid: u32, addresses: &[u64], top: u64) -> Option<String> {
        if top == 0 || addresses.contains(&top) {
            return None;
        }
        let source = Source::Process(Process::new(pid.into()));
        match self.symbolizer.symbolize_single(&source, Input::AbsAddr(top)).ok()? {
            Symbolized::Sym(symbol) => Some(symbol.name.to_string()),
            Symbolized::Unknown(_) => None,
        }
    }

    /// All but the first are return addresses, which may lie behind their function's end: the byte before is of the
    /// call.
    fn walked(&self, pid: u32, addresses: &[u64]) -> Vec<String> {
        let source = Source::Process(Process::new(pid.into()));
        let calls: Vec<u64> =
            addresses.iter().enumerate().map(|(depth, address)| address.saturating_sub(u64::from(depth > 0))).collect();
        if let Ok(symbols) = self.symbolizer.symbolize(&source, Input::AbsAddr(&calls)) {
            return symbols.iter().zip(addresses).flat_map(|(symbol, &address)| frames(symbol, address)).collect();
        }
        // One file that cannot be read must not cost the other frames their names.
        let one_by_one =
            |(&call, &address): (&u64, &u64)| match self.symbolizer.symbolize_single(&source, Input::AbsAddr(call)) {
                Ok(symbol) => frames(&symbol, address),
                Err(_) if self.root.proc(pid.to_string()).exists() => {
                    vec![format!("{address:#x} (its file cannot be read)")]
                }
                Err(_) => vec![format!("{address:#x} (the process is gone)")],
            };
        calls.iter().zip(addresses).flat_map(one_by_one).collect()
    }
}

/// The names of a frame: what was inlined into it first.
fn frames(symbol: &Symbolized<'_>, address: u64) -> Vec<String> {
    match symbol {
        Symbolized::Sym(symbol) => {
            let inlined = symbol.inlined.iter().rev().map(|inlined| format!("{} (inlined)", inlined.name));
            inlined.chain([symbol.name.to_string()]).collect()
        }
        Symbolized::Unknown(reason) => vec![format!("{address:#x} ({reason})")],
    }
}

/// Whether a frame belongs to the tracing and not to what is traced.
fn is_of_the_probe(name: &str) -> bool {
    ["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_trampoline_", "bpf_get_stack"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn kernel_stacks_begin_below_the_probe() {
        let text = "ffffffff81000000 T bpf_trace_run3\nffffffff81001000 T __traceiter_csd_queue_cpu\n\
                    ffffffff81002000 T flush_tlb_mm_range\nffffffff81003000 T bpf_trace_run1\n";
        let tree = HostTree::new().file("proc/kallsyms", text);
        let stacks = KernelStacks(KernelNames::load(&Root::at(tree.path())));
        let base = 0xffff_ffff_8100_0010;
        assert_eq!(
            stacks.frames(&[base, base + 0x1000, base + 0x2000, base + 0x3000]),
            ["flush_tlb_mm_range", "bpf_trace_run1"]
        );
        assert_eq!(stacks.name(0x10), "0x10");
    }

    #[test]
    fn frames_of_this_process_have_names_and_those_of_a_dead_one_say_why_not() {
        let tree = HostTree::new();
        let stacks = UserStacks::new(&Root::at(tree.path()));
        let own = frames_of_the_probe_test_marker as *const () as u64;
        let frames = stacks.frames(std::process::id(), &[own, 0x10], 0);
        assert!(frames[0].contains("frames_of_the_probe_test_marker"), "{frames:?}");
        assert!(frames[1].starts_with("0x10 ("), "{frames:?}");
        let with_caller = stacks.frames(std::process::id(), &[0x10, 0x20], own);
        assert!(with_caller[1].contains("frames_of_the_probe_test_marker"), "{with_caller:?}");
        assert_eq!(stacks.frames(std::process::id(), &[0x10], 0x30).len(), 1, "what is no code is not believed");
        assert_eq!(stacks.frames(u32::MAX - 7, &[0x10], 0), ["0x10 (the process is gone)"]);
        assert!(stacks.frames(1, &[], 0x10).is_empty());
    }

    #[inline(never)]
    fn frames_of_the_probe_test_marker() {}
}
