//! Addresses to names: the kernel's from /proc/kallsyms, a process's from its files while it lives.

use super::image::{self, Of};
use super::names::{Asker, Deaths, Kind, Name, Opener};
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
    opener: Opener,
    processes: HashMap<u32, Known>,
}

/// What was mapped in a process.
struct Known {
    read_at: Instant,
    /// The program that ran; 0 where that is not known.
    image: u64,
    mappings: Vec<Mapping>,
}

/// The functions at an address, or what to say in their place.
type Named = Result<Vec<Name>, String>;

impl UserStacks {
    /// `deaths` counts how often the process that reads the files ended over one.
    pub(crate) fn new(root: &Root, deaths: Deaths) -> Self {
        UserStacks {
            root: root.clone(),
            asker: Asker::new(deaths),
            opener: Opener::new(root),
            processes: HashMap::new(),
        }
    }

    /// Whether a process runs that reads files; it is ended when it idles.
    pub(crate) fn is_reading(&mut self) -> bool {
        self.asker.is_running()
    }

    /// The frames of a process's stack, innermost first, inlined ones included. What has no name is shown by its place in
    /// its file, or its address, and the reason: a stripped or deleted file, code made at run time, a process gone, or one
    /// that runs another program by now.
    pub(crate) fn frames(&mut self, of: Of, addresses: &[u64], top: u64) -> Vec<String> {
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
        let Some(mut named) = self.names(of, &calls) else {
            let why = image::why_not(&self.root, of);
            return addresses.iter().map(|address| format!("{address:#x} ({why})")).collect();
        };
        let caller = if has_caller { named.pop().and_then(Result::ok) } else { None };
        let mut frames: Vec<Vec<String>> = named.into_iter().map(texts).collect();
        if let Some(caller) = caller.and_then(|names| names.into_iter().next_back()) {
            frames.insert(1, vec![caller.text]);
        }
        frames.into_iter().flatten().collect()
    }

    /// What is at these addresses of a process; `None` when it is gone, or runs another program, and was not known.
    fn names(&mut self, of: Of, addresses: &[u64]) -> Option<Vec<Named>> {
        self.look_at(of, addresses);
        let (pid, image) = of;
        let Known { mappings, .. } = self.processes.get(&pid).filter(|known| image::is_of(image, known.image))?;
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
            let found =
                of_mapping_names(&self.root, (&mut self.asker, &mut self.opener), (pid, user), &mappings[at], &asked);
            for (number, found) in numbers.into_iter().zip(found) {
                named[number] = found;
            }
        }
        // While files were looked for another program may have come, with a file of its own in the same place.
        let is_as_it_was = named.iter().all(Result::is_err) || image::runs(&self.root, of);
        is_as_it_was.then_some(named)
    }

    /// Reads a process's mappings unless they are fresh and have these addresses: it may have become another program. Those
    /// of one that has ended stay for what is still to be named.
    fn look_at(&mut self, of: Of, addresses: &[u64]) {
        let (pid, image) = of;
        let has = |mappings: &[Mapping], address: u64| {
            mappings.iter().any(|mapping| (mapping.start..mapping.end).contains(&address))
        };
        if let Some(Known { read_at, image: read_of, mappings }) = self.processes.get(&pid)
            && image::is_of(image, *read_of)
            && read_at.elapsed() < BELIEVED
            && addresses.iter().all(|address| has(mappings, *address))
        {
            return;
        }
        let Some(mut mappings) = image::mappings(&self.root, of) else { return };
        mappings.sort_by_key(|mapping| mapping.start);
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        self.processes.insert(pid, Known { read_at: Instant::now(), image, mappings });
    }
}

/// What is at these addresses, which lie in one mapping.
fn of_mapping_names(
    root: &Root,
    (asker, opener): (&mut Asker, &mut Opener),
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
        let found = match opener.find(user, pid, mapping) {
            Ok(found) => found,
            Err(_) if !root.proc(pid.to_string()).exists() => return refused("the process is gone"),
            Err(error) => return refused(&format!("its file cannot be read: {error}")),
        };
        let offsets: Vec<u64> = addresses.iter().map(offset).collect();
        match asker.ask(user, Kind::Elf, found.key, &offsets, || opener.open(user, &found)) {
            Ok(names) => return answered(names),
            // Some compilers at run time write their code into a file without a name.
            Err(_) if mapping.name.starts_with("/memfd:") || mapping.name.starts_with("/dev/zero") => {}
            Err(why) => return refused(&why),
        }
    } else if mapping.name.starts_with("[v") {
        return refused("the kernel's own code");
    }
    match opener.perf_map(user, pid) {
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
    use crate::who::image::tests::stat;
    use crate::who::names;
    use std::path::Path;
    use surefoot_hostfs::tasks::TaskStat;
    use surefoot_testkit::HostTree;
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

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
        let frames = stacks.frames((std::process::id(), 0), &[own, 0x10], 0);
        assert!(frames[0].contains("frames_of_the_probe_test_marker"), "{frames:?}");
        assert_eq!(frames[1], "0xf (no code is mapped there)");
        let with_caller = stacks.frames((std::process::id(), 0), &[0x10, 0x20], own);
        assert!(with_caller[1].contains("frames_of_the_probe_test_marker"), "{with_caller:?}");
        assert_eq!(stacks.frames((std::process::id(), 0), &[0x10], 0x30).len(), 1, "what is no code is not believed");
        assert_eq!(stacks.frames((u32::MAX - 7, 0), &[0x10], 0), ["0x10 (the process is gone)"]);
        assert!(stacks.frames((1, 0), &[], 0x10).is_empty());
    }

    #[test]
    fn a_process_that_became_another_program_is_looked_at_again() {
        let line = |start: u64| format!("{start:x}-{:x} r-xp 00000000 00:00 0 [vdso]\n", start + 0x1000);
        let tree = HostTree::new().file("proc/7/maps", line(0x1000));
        let mut stacks = UserStacks::new(&Root::at(tree.path()), Deaths::default());
        assert_eq!(stacks.frames((7, 0), &[0x1008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        tree.write("proc/7/maps", line(0x5000));
        assert_eq!(stacks.frames((7, 0), &[0x5008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        // Gone, it is remembered as it was.
        std::fs::remove_file(tree.path().join("proc/7/maps")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stacks.frames((7, 0), &[0x5008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
    }

    #[test]
    fn stacks_of_the_program_before_are_not_told_by_the_one_that_runs() {
        let another = "(the process runs another program since)";
        let line = "1000-2000 r-xp 00000000 00:00 0 [vdso]\n";
        let tree = HostTree::new().file("proc/7/maps", line).file("proc/7/stat", stat(7, 5));
        let mut stacks = UserStacks::new(&Root::at(tree.path()), Deaths::default());
        assert_eq!(stacks.frames((7, 6), &[0x1008], 0x1010), [format!("0x1008 {another}")]);
        tree.write("proc/7/stat", stat(7, 6));
        // What is kept of a program is not for the one before it either.
        assert_eq!(stacks.frames((7, 6), &[0x1008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        assert_eq!(stacks.frames((7, 5), &[0x1008], 0), [format!("0x1008 {another}")]);
        tree.write("proc/7/stat", stat(7, 7));
        assert_eq!(stacks.frames((7, 7), &[0x1008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        // It ends; what was known of its last program stays.
        tree.write("proc/7/stat", stat(7, 0));
        tree.write("proc/7/maps", "");
        assert_eq!(stacks.frames((7, 7), &[0x1008], 0), ["[vdso]+0x8 (the kernel's own code)"]);
        assert_eq!(stacks.frames((7, 6), &[0x1008], 0), ["0x1008 (the process is gone)"]);
    }

    /// A name is not believed when the program changed while its file was read.
    #[test]
    fn names_of_this_process_are_believed_of_this_program_alone() {
        names::tests::use_this_program();
        let root = Root::host();
        let (pid, own) = (std::process::id(), frames_of_the_probe_test_marker as *const () as u64);
        let image = TaskStat::of_process(&root, pid).unwrap().start_stack;
        let mut stacks = UserStacks::new(&root, Deaths::default());
        assert!(stacks.frames((pid, image), &[own], 0)[0].contains("frames_of_the_probe_test_marker"));
        // As if execve came right after the mappings were read.
        let known = stacks.processes.get_mut(&pid).unwrap();
        known.image = image + 16;
        assert_eq!(
            stacks.frames((pid, image + 16), &[own], own),
            [format!("{own:#x} (the process runs another program since)")]
        );
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
        let frames = stacks.frames((7, 0), &[0x7f12_3456_0040, 0x7f12_3457_0041], 0);
        assert_eq!(frames, [format!("[jit]+0x40 {why}"), format!("[anon:v8]+0x40 {why}")]);
    }

    #[inline(never)]
    fn frames_of_the_probe_test_marker() {}

    /// The program of another process lies on a file system that stops answering, as a user's FUSE or a dead NFS server does.
    #[test]
    fn a_file_system_that_does_not_answer_silences_no_other_names() {
        names::tests::use_this_program();
        let test = "stacks::a_file_system_that_does_not_answer_silences_no_other_names";
        let mounted = match HangingFileSystem::mount(Path::new("/bin/sleep")) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(test, &why),
        };
        let mut sleeps = mounted.start_sleeping().unwrap();
        let pid = sleeps.id();
        let root = Root::host();
        let mappings = images::mappings(&root, pid).unwrap();
        let address = mappings.iter().find(|mapping| mapping.name.ends_with("/program")).unwrap().start + 0x10;
        let mut stacks = UserStacks::new(&root, Deaths::default());
        mounted.hang();
        let frames = stacks.frames((pid, 0), &[address], 0);
        assert!(frames[0].contains("does not answer"), "{frames:?}");
        assert!(mounted.unanswered() > 0, "it was never asked");
        // Again at once, because nobody is sent there any more; and others have their names.
        let asked = mounted.unanswered();
        assert!(stacks.frames((pid, 0), &[address], 0)[0].contains("does not answer"));
        assert_eq!(mounted.unanswered(), asked);
        let own = kernel_stacks_begin_below_the_probe as *const () as u64;
        let frames = stacks.frames((std::process::id(), 0), &[own], 0);
        assert!(frames[0].contains("kernel_stacks_begin_below_the_probe"), "{frames:?}");
        // Stacks are unwound as well.
        let copy = surefoot_probes::UserCopy { ip: address, ..Default::default() };
        let unwound = crate::who::unwind::Unwinder::new(&root).unwind((pid, 0), &copy);
        assert_eq!(unwound.frames, [address]);
        drop(mounted);
        let _ = (sleeps.kill(), sleeps.wait());
    }
}
