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

use elf::{Fault, Image};
use gimli::UnwindContext;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_hostfs::images::{self, Mapping};
use surefoot_hostfs::{Root, thread};
use surefoot_probes::UserCopy;
use walk::Registers;

/// Frames of one stack.
const FRAMES_MAX: usize = 128;

/// Files whose tables are kept, and their bytes; beyond either all are forgotten and read anew.
const FILES_MAX: usize = 512;
const FILES_BYTES_MAX: usize = 256 << 20;

/// Processes whose mappings are kept; beyond it all are forgotten.
const PROCESSES_MAX: usize = 64;

/// How long mappings are believed: programs load libraries, and process numbers are used again.
const BELIEVED: Duration = Duration::from_secs(1);

/// What the stacks of one process may take of the unwinding thread's own time while its mappings are believed: half of
/// it. By the clock on the wall a busy machine would pass for a slow process.
const ALLOWED_NS: u64 = 500_000_000;

struct Process {
    mappings: Vec<Mapping>,
    read_at: Instant,
    /// Of [`ALLOWED_NS`].
    spent_ns: u64,
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
    files: HashMap<(String, u64), Result<Arc<Image>, Fault>>,
    files_bytes: usize,
    context: UnwindContext<usize>,
}

impl Unwinder {
    pub(crate) fn new(root: &Root) -> Self {
        Unwinder {
            root: root.clone(),
            processes: HashMap::new(),
            files: HashMap::new(),
            files_bytes: 0,
            context: UnwindContext::new(),
        }
    }

    /// Walks a copied stack.
    pub(crate) fn unwind(&mut self, pid: u32, copy: &UserCopy) -> Unwound {
        self.look_at(pid);
        let start_ns = thread::thread_cpu_ns();
        let spent_ns = self.processes.get(&pid).map_or(0, |process| process.spent_ns);
        let mut found = Unwound::default();
        let mut registers = Registers::of(copy);
        let mut is_exact = true;
        while let Some(address) = registers.address().filter(|address| *address != 0) {
            found.frames.push(address);
            if found.frames.len() == FRAMES_MAX || !self.processes.contains_key(&pid) {
                break;
            }
            found.was_cut = spent_ns + (thread::thread_cpu_ns() - start_ns) > ALLOWED_NS;
            if found.was_cut {
                break;
            }
            // A return address may lie behind its function's end, where a call that never returns is the last thing.
            let within = if is_exact { address } else { address - 1 };
            let caller = match self.image(pid, within) {
                Some((image, bias)) => {
                    let file_address = within.wrapping_sub(bias);
                    walk::by_description(&image, &mut self.context, copy, &registers, file_address)
                }
                None => walk::by_frame_pointer(copy, &registers),
            };
            let Some(caller) = caller else { break };
            (registers, is_exact) = (caller.registers, caller.interrupted);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.spent_ns = spent_ns + (thread::thread_cpu_ns() - start_ns);
        }
        found
    }

    /// Reads a process's mappings unless they are fresh. Those of one that has ended stay for what is still to be
    /// walked.
    fn look_at(&mut self, pid: u32) {
        if self.processes.get(&pid).is_some_and(|process| process.read_at.elapsed() < BELIEVED) {
            return;
        }
        let Ok(mut mappings) = images::mappings(&self.root, pid) else {
            if let Some(process) = self.processes.get_mut(&pid) {
                (process.read_at, process.spent_ns) = (Instant::now(), 0);
            }
            return;
        };
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        mappings.retain(Mapping::is_of_file);
        self.processes.insert(pid, Process { mappings, read_at: Instant::now(), spent_ns: 0 });
    }

    /// The file that an address lies in, and what to subtract from the address.
    fn image(&mut self, pid: u32, address: u64) -> Option<(Arc<Image>, u64)> {
        let mappings = &self.processes.get(&pid)?.mappings;
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?.clone();
        let key = (mapping.device.clone(), mapping.inode);
        if !self.files.contains_key(&key) {
            let image = self.read(pid, &mapping).map(Arc::new);
            let bytes = image.as_ref().map_or(0, |image| image.bytes());
            if self.files.len() >= FILES_MAX || self.files_bytes + bytes > FILES_BYTES_MAX {
                self.files.clear();
                self.files_bytes = 0;
            }
            self.files_bytes += bytes;
            self.files.insert(key.clone(), image);
        }
        let image = self.files.get(&key)?.as_ref().ok()?;
        Some((Arc::clone(image), image.bias(mapping.start, mapping.offset)?))
    }

    /// Reads the file behind a mapping.
    fn read(&self, pid: u32, mapping: &Mapping) -> Result<Image, Fault> {
        let found = images::find(&self.root, pid, mapping).map_err(|_| Fault::Unreadable)?;
        Image::read(&found.open().map_err(|_| Fault::Unreadable)?)
    }
}

#[cfg(test)]
mod tests;
