//! Addresses to names: the kernel's from /proc/kallsyms, a process's from its files while it lives.

use super::names::{Asker, Deaths, Kind, Name};
use crate::kernel_names::KernelNames;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_hostfs::images::{self, Mapping};

/// Processes whose mappings are kept; beyond it all are forgotten.
const PROCESSES_MAX: usize = 32;

/// How long mappings are believed: programs load libraries, and process numbers are used again.
const BELIEVED: Duration = Duration::from_secs(1);

/// Names the addresses of kernel stacks.
pub(crate) struct KernelStacks(pub(crate) KernelNames);

impl KernelStacks {
    /// A kernel function's name, or its address.
    pub(crate) fn name(&self, address: u64) -> String {
        self.0.name(address).unwrap_or_else(|| format!("{address:#x}"))
    }

    /// The frames of a stack, innermost first.
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<String> {
        let names = addresses.iter().map(|&address| self.name(address));
        names.skip_while(|name| is_of_the_probe(name)).collect()
    }
}

/// Names the addresses of processes' stacks.
pub(crate) struct UserStacks {
    root: Root,
    asker: Asker,
    processes: HashMap<u32, (Instant, Vec<Mapping>)>,
}

/// The functions at an address, or what to say in their place.
type Named = Result<Vec<Name>, String>;

impl UserStacks {
    /// `deaths` counts how often the process that reads the files ended over one.
    pub(crate) fn new(root: &Root, deaths: Deaths) -> Self {
        UserStacks { root: root.clone(), asker: Asker::new(deaths), processes: HashMap::new() }
    }

    /// Whether a process runs that reads files; it is ended when it idles.
    pub(crate) fn is_reading(&mut self) -> bool {
        self.asker.is_running()
    }

    /// The frames of a process's stack, innermost first, inlined ones included. What has no name is shown by its place in
    /// its file, or its address, and the reason: a stripped or deleted file, code made at run time, a process gone.
    pub(crate) fn frames(&mut self, pid: u32, addresses: &[u64], top: u64) -> Vec<String> {
        if addresses.is_empty() {
            return Vec::new();
        }
        // All but the first are return addresses, which may lie behind their function's end: the byte before is of the
        // call.
        let calls = addresses.iter().enumerate().map(|(depth, address)| address.saturating_sub(u64::from(depth > 0)));
        let mut calls: Vec<u64> = calls.collect();
        // A frameless system-call wrapper's caller is missed by a walk along frame pointers. What is on top of the stack is
        // believed when it is code with a name and the walk does not have it already.
        let has_caller = top != 0 && !addresses.contains(&top);
        calls.extend(has_caller.then_some(top));
        let Some(mut named) = self.names(pid, &calls) else {
            return addresses.iter().map(|address| format!("{address:#x} (the process is gone)")).collect();
        };
        let caller = if has_caller { named.pop().and_then(Result::ok) } else { None };
        let mut frames: Vec<Vec<String>> = named.into_iter().map(texts).collect();
        if let Some(caller) = caller.and_then(|names| names.into_iter().next_back()) {
            frames.insert(1, vec![caller.text]);
        }
        frames.into_iter().flatten().collect()
    }

    /// What is at these addresses of a process; `None` when it is gone and was not known.
    fn names(&mut self, pid: u32, addresses: &[u64]) -> Option<Vec<Named>> {
        self.look_at(pid, addresses);
        let (_, mappings) = self.processes.get(&pid)?;
        let user = images::user_of(&self.root, pid).unwrap_or(u32::MAX);
        let mut named: Vec<Named> = Vec::new();
        let mut of_mapping: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, address) in addresses.iter().enumerate() {
            let at = mappings.partition_point(|mapping| mapping.end <= *address);
            let is_in = mappings.get(at).is_some_and(|mapping| mapping.start <= *address);
            if is_in {
                of_mapping.entry(at).or_default().push(number);
            }
            named.push(Err(format!("{address:#x} (no code is mapped there)")));
        }
        for (at, numbers) in of_mapping {
            let asked: Vec<u64> = numbers.iter().map(|&number| addresses[number]).collect();
            let found = of_mapping_names(&self.root, &mut self.asker, (pid, user), &mappings[at], &asked);
            for (number, found) in numbers.into_iter().zip(found) {
                named[number] = found;
            }
        }
        Some(named)
    }

    /// Reads a process's mappings unless they are fresh and have these addresses: it may have become another program. Those
    /// of one that has ended stay for what is still to be named.
    fn look_at(&mut self, pid: u32, addresses: &[u64]) {
        let has = |mappings: &[Mapping], address: u64| {
            mappings.iter().any(|mapping| (mapping.start..mapping.end).contains(&address))
        };
        if let Some((read_at, mappings)) = self.processes.get(&pid)
            && read_at.elapsed() < BELIEVED
            && addresses.iter().all(|address| has(mappings, *address))
        {
            return;
        }
        let Ok(mut mappings) = images::mappings(&self.root, pid) else { return };
        mappings.sort_by_key(|mapping| mapping.start);
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        self.processes.insert(pid, (Instant::now(), mappings));
    }
}

/// What is at these addresses, which lie in one mapping.
fn of_mapping_names(
    root: &Root,
    asker: &mut Asker,
    (pid, user): (u32, u32),
    mapping: &Mapping,
    addresses: &[u64],
) -> Vec<Named> {
    let offset = |address: &u64| (address - mapping.start).wrapping_add(mapping.offset);
    let place = |address: &u64| match mapping.is_of_file() {
        true => format!("{}+{:#x}", mapping.file_name(), offset(address)),
        // An address would tell where everything else of the process lies.
        false => format!("{}+{:#x}", memory_name(mapping), address - mapping.start),
    };
    let refused = |why: &str| addresses.iter().map(|address| Err(format!("{} ({why})", place(address)))).collect();
    let answered = |names: Vec<Vec<Name>>| {
        let one = |(names, address): (Vec<Name>, &u64)| match names.is_empty() {
            true => Err(format!("{} (no symbol)", place(address))),
            false => Ok(names),
        };
        names.into_iter().zip(addresses).map(one).collect()
    };
    if mapping.is_of_file() {
        let found = match images::find(root, pid, mapping) {
            Ok(found) => found,
            Err(_) if !root.proc(pid.to_string()).exists() => return refused("the process is gone"),
            Err(error) => return refused(&format!("its file cannot be read: {error}")),
        };
        let offsets: Vec<u64> = addresses.iter().map(offset).collect();
        match asker.ask(user, Kind::Elf, found.key, &offsets, || found.open()) {
            Ok(names) => return answered(names),
            // Some compilers at run time write their code into a file without a name.
            Err(_) if mapping.name.starts_with("/memfd:") || mapping.name.starts_with("/dev/zero") => {}
            Err(why) => return refused(&why),
        }
    } else if mapping.name.starts_with("[v") {
        return refused("the kernel's own code");
    }
    match images::perf_map(root, pid) {
        Ok(None) => refused("code made at run time, without a list of its symbols"),
        Ok(Some((file, key))) => match asker.ask(user, Kind::PerfMap, key, addresses, || file.try_clone()) {
            Ok(names) => answered(names),
            Err(why) => refused(&why),
        },
        Err(error) => refused(&format!("code made at run time; the list of its symbols was not read: {error}")),
    }
}

/// What to call memory without a file: the kernel's word for it, or that a compiler at run time wrote it.
fn memory_name(mapping: &Mapping) -> String {
    if mapping.name.starts_with('[') { mapping.file_name() } else { "[jit]".to_owned() }
}

/// The names of a frame: what was inlined into it first.
fn texts(named: Named) -> Vec<String> {
    match named {
        Ok(names) => {
            let text = |name: Name| if name.is_inlined { format!("{} (inlined)", name.text) } else { name.text };
            names.into_iter().map(text).collect()
        }
        Err(why) => vec![why],
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
    use crate::who::names;
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
        names::tests::use_this_program();
        let mut stacks = UserStacks::new(&Root::host(), Deaths::default());
        let own = frames_of_the_probe_test_marker as *const () as u64;
        let frames = stacks.frames(std::process::id(), &[own, 0x10], 0);
        assert!(frames[0].contains("frames_of_the_probe_test_marker"), "{frames:?}");
        assert_eq!(frames[1], "0xf (no code is mapped there)");
        let with_caller = stacks.frames(std::process::id(), &[0x10, 0x20], own);
        assert!(with_caller[1].contains("frames_of_the_probe_test_marker"), "{with_caller:?}");
        assert_eq!(stacks.frames(std::process::id(), &[0x10], 0x30).len(), 1, "what is no code is not believed");
        assert_eq!(stacks.frames(u32::MAX - 7, &[0x10], 0), ["0x10 (the process is gone)"]);
        assert!(stacks.frames(1, &[], 0x10).is_empty());
    }

    #[test]
    fn a_process_that_became_another_program_is_looked_at_again() {
        let line = |start: u64| format!("{start:x}-{:x} r-xp 00000000 00:00 0 [vdso]\n", start + 0x1000);
        let tree = HostTree::new().file("proc/7/maps", line(0x1000));
        let mut stacks = UserStacks::new(&Root::at(tree.path()), Deaths::default());
        assert_eq!(stacks.frames(7, &[0x1008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        tree.write("proc/7/maps", line(0x5000));
        assert_eq!(stacks.frames(7, &[0x5008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        // Gone, it is remembered as it was.
        std::fs::remove_file(tree.path().join("proc/7/maps")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stacks.frames(7, &[0x5008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
    }

    /// Where code lies tells where everything else does: a place in memory without a name is shown from its beginning.
    #[test]
    fn code_made_at_run_time_is_shown_by_its_offset() {
        let line = "7f1234560000-7f1234570000 rwxp 00000000 00:00 0 \n7f1234570000-7f1234580000 rwxp 00000000 00:00 0 [anon:v8]\n";
        let tree =
            HostTree::new().file("proc/7/maps", line).file("proc/7/status", "Uid:\t5\t5\nGid:\t5\t5\nNSpid:\t7\n");
        let tree = tree.file("proc/7/root/tmp/none", "");
        let mut stacks = UserStacks::new(&Root::at(tree.path()), Deaths::default());
        let why = "(code made at run time, without a list of its symbols)";
        let frames = stacks.frames(7, &[0x7f12_3456_0040, 0x7f12_3457_0041], 0);
        assert_eq!(frames, [format!("[jit]+0x40 {why}"), format!("[anon:v8]+0x40 {why}")]);
    }

    #[inline(never)]
    fn frames_of_the_probe_test_marker() {}
}
