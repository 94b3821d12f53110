//! Stacks of programs without frame pointers, from the bytes that the raiser's programs copied.
//!
//! The kernel walks along frame pointers only. Where those give too little, the top of the user stack and the registers
//! come with the record, and the walk is done here, on a core that is not watched, with the tables that compilers
//! leave for exceptions (`.eh_frame`) in the files that the process has mapped. A walk ends where the copied bytes end:
//! [`surefoot_probes::COPY_BYTES`] deep.
//!
//! The files are the process's own and may hold anything: sizes, counts, steps and time have limits, and a file or
//! process that exceeds one is not unwound.

mod elf;
mod walk;

use super::image::{self, Of};
use super::names::Opener;
use elf::{Fault, Image};
use gimli::UnwindContext;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_hostfs::images::{self, Mapping};
use surefoot_hostfs::{Root, usage};
use surefoot_probes::UserCopy;
use walk::Registers;

/// Frames of one stack.
const FRAMES_MAX: usize = 128;

/// Files whose tables are kept, and their bytes; beyond either the one that was used longest ago makes room. The tables of a
/// program and its libraries have one or two MiB.
const FILES_MAX: usize = 256;
const FILES_BYTES_MAX: usize = 8 << 20;

/// Processes whose mappings are kept; beyond it all are forgotten.
const PROCESSES_MAX: usize = 64;

/// How long mappings are believed: programs load libraries, and process numbers are used again.
const BELIEVED: Duration = Duration::from_secs(1);

/// What the stacks of one process may take of the unwinding thread's own time while its mappings are believed: half of
/// it. By the clock on the wall a busy machine would pass for a slow process.
const ALLOWED_NS: u64 = 500_000_000;

struct Process {
    mappings: Vec<Mapping>,
    /// The program that they are of; 0 where that is not known.
    image: u64,
    read_at: Instant,
    /// Of [`ALLOWED_NS`], since then.
    spent_ns: u64,
    since: Instant,
}

/// The numbers of a file system and of a file in it, as a list of mappings has them.
type FileNumber = (String, u64);

/// A file's tables, and when they were used last.
struct Kept {
    image: Result<Arc<Image>, Fault>,
    used: u64,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.image.as_ref().map_or(0, |image| image.bytes())
    }
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unwound {
    /// Innermost first: where it entered the kernel, then return addresses.
    pub(crate) frames: Vec<u64>,
    /// Whether it ended because the process had taken its share of the time.
    pub(crate) was_cut: bool,
}

/// Unwinds copied stacks. Keeps what it has read of processes and their files, within limits.
pub(crate) struct Unwinder {
    root: Root,
    processes: HashMap<u32, Process>,
    files: HashMap<FileNumber, Kept>,
    files_bytes: usize,
    /// How often a file was asked for.
    uses: u64,
    context: UnwindContext<usize>,
    opener: Opener,
}

impl Unwinder {
    pub(crate) fn new(root: &Root) -> Self {
        Unwinder {
            root: root.clone(),
            processes: HashMap::new(),
            files: HashMap::new(),
            files_bytes: 0,
            uses: 0,
            context: UnwindContext::new(),
            opener: Opener::new(root),
        }
    }

    /// Walks a copied stack of a process while it ran the program `image` (0: not known). Of a program whose place another
    /// one has taken since nothing is known but where it was.
    pub(crate) fn unwind(&mut self, of: Of, copy: &UserCopy) -> Unwound {
        self.look_at(of, copy.ip);
        let (pid, _) = of;
        let is_known = self.process(of).is_some();
        let start_ns = usage::thread_cpu_ns();
        if let Some(process) = self.processes.get_mut(&pid)
            && process.since.elapsed() >= BELIEVED
        {
            (process.since, process.spent_ns) = (Instant::now(), 0);
        }
        let spent_ns = self.processes.get(&pid).map_or(0, |process| process.spent_ns);
        let mut found = Unwound::default();
        let mut registers = Registers::of(copy);
        let mut is_exact = true;
        while let Some(address) = registers.address().filter(|address| *address != 0) {
            found.frames.push(address);
            if found.frames.len() == FRAMES_MAX || !is_known {
                break;
            }
            found.was_cut = spent_ns + (usage::thread_cpu_ns() - start_ns) > ALLOWED_NS;
            if found.was_cut {
                break;
            }
            // A return address may lie behind its function's end, where a call that never returns is the last thing.
            let within = if is_exact { address } else { address - 1 };
            let caller = match self.image(of, within) {
                Some((tables, bias)) => {
                    let file_address = within.wrapping_sub(bias);
                    walk::by_description(&tables, &mut self.context, copy, &registers, file_address)
                }
                None => walk::by_frame_pointer(copy, &registers),
            };
            let Some(caller) = caller else { break };
            (registers, is_exact) = (caller.registers, caller.interrupted);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.spent_ns = spent_ns + (usage::thread_cpu_ns() - start_ns);
        }
        found
    }

    /// Reads a process's mappings unless they are fresh, or not quite fresh and without this address: it may have become
    /// another program. Those of one that has ended stay for what is still to be walked.
    fn look_at(&mut self, of: Of, address: u64) {
        let (pid, image) = of;
        let is_good = |process: &Process| {
            let has_it = process.mappings.iter().any(|mapping| (mapping.start..mapping.end).contains(&address));
            process.read_at.elapsed() < if has_it { BELIEVED } else { BELIEVED / 20 }
        };
        if self.process(of).is_some_and(is_good) {
            return;
        }
        let Some(mut mappings) = image::mappings(&self.root, of) else {
            if let Some(process) = self.processes.get_mut(&pid).filter(|process| image::is_of(image, process.image)) {
                process.read_at = Instant::now();
            }
            return;
        };
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        mappings.retain(Mapping::is_of_file);
        let now = Instant::now();
        let process = self.processes.entry(pid).or_insert(Process {
            mappings: Vec::new(),
            image,
            read_at: now,
            spent_ns: 0,
            since: now,
        });
        (process.mappings, process.image, process.read_at) = (mappings, image, now);
    }

    /// What is known of the process while it ran this program.
    fn process(&self, (pid, image): Of) -> Option<&Process> {
        self.processes.get(&pid).filter(|process| image::is_of(image, process.image))
    }

    /// The file that an address lies in, and what to subtract from the address.
    fn image(&mut self, of: Of, address: u64) -> Option<(Arc<Image>, u64)> {
        let mappings = &self.process(of)?.mappings;
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?.clone();
        let number = (mapping.device.clone(), mapping.inode);
        self.uses += 1;
        if !self.files.contains_key(&number) {
            let image = self.read(of.0, &mapping).map(Arc::new);
            // Another program may have another file mapped in the same place.
            if !image::runs(&self.root, of) {
                return None;
            }
            // What cannot be opened now may be opened later: too many files may have been open.
            if image.as_ref().is_err_and(|fault| *fault == Fault::Unreadable) {
                return None;
            }
            self.keep(number.clone(), image);
        }
        let kept = self.files.get_mut(&number)?;
        kept.used = self.uses;
        let image = kept.image.as_ref().ok()?;
        Some((Arc::clone(image), image.bias(mapping.start, mapping.offset)?))
    }

    /// Keeps a file's tables, and forgets others for it.
    fn keep(&mut self, number: FileNumber, image: Result<Arc<Image>, Fault>) {
        let kept = Kept { image, used: self.uses };
        self.files_bytes += kept.bytes();
        self.files.insert(number, kept);
        while self.files.len() > FILES_MAX || (self.files_bytes > FILES_BYTES_MAX && self.files.len() > 1) {
            let oldest = self.files.iter().min_by_key(|(_, kept)| kept.used).map(|(number, _)| number.clone());
            let Some(kept) = oldest.and_then(|oldest| self.files.remove(&oldest)) else { return };
            self.files_bytes -= kept.bytes();
        }
    }

    /// Reads the file behind a mapping.
    fn read(&mut self, pid: u32, mapping: &Mapping) -> Result<Image, Fault> {
        let user = images::user_of(&self.root, pid).unwrap_or(u32::MAX);
        let found = self.opener.find(user, pid, mapping).map_err(|_| Fault::Unreadable)?;
        let file = self.opener.open(user, &found).map_err(|_| Fault::Unreadable)?;
        Image::read(&mut self.opener.bytes(user, found.key, &file))
    }
}

/// Walks one stack from each of these addresses of a file, as far as its tables lead, without any process.
pub(super) fn walk_file(file: &File, addresses: &[u64], copy: &UserCopy) {
    let Ok(image) = Image::read(&mut &*file) else { return };
    let mut context = UnwindContext::new();
    for &ip in addresses {
        let mut registers = Registers::of(&UserCopy { ip, ..copy.clone() });
        for _ in 0..FRAMES_MAX {
            let Some(address) = registers.address() else { break };
            let Some(caller) = walk::by_description(&image, &mut context, copy, &registers, address) else { break };
            registers = caller.registers;
        }
    }
    let _ = image.bias(copy.ip, copy.ip);
}

#[cfg(test)]
mod tests;
