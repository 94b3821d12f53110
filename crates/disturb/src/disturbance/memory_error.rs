//! Corrected memory errors that were not, as the kernel handles them: by its module mce-inject.

use super::rated::fire;
use super::threads::Threads;
use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;

pub(super) const WORDS: &str = "records of corrected memory errors that were not, handed to the kernel by its module mce-inject as the poll of a bank \
     hands them (flag sw): a worker decodes, traces and logs each; unlike real ones with firmware-first reporting they raise \
     no SMI, and no memory is read again or scrubbed";

/// A corrected error of a memory controller, channel 1 (Intel SDM, volume 3B, "Incremental Decoding Information"): valid, enabled,
/// one of its kind. No address is valid in it, so that the kernel gives no page of memory up.
const STATUS: &str = "0x9000004000000091";
/// A bank that processors of Intel and of AMD have.
const BANK: &str = "4";

/// Hands the kernel errors at a rate.
#[derive(Debug)]
pub(super) struct MemoryErrors {
    folder: PathBuf,
    threads: Threads,
}

impl MemoryErrors {
    /// # Errors
    /// [`Fault::Unsupported`] where the module is not loaded or may not be used.
    pub(super) fn open(root: &Root) -> Result<MemoryErrors, Fault> {
        let folder = root.sys("kernel/debug/mce-inject");
        let unsupported = |why: String, remedy: &str| Err(Fault::Unsupported { why, remedy: remedy.into() });
        match OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(folder.join("bank")) {
            Ok(_) => Ok(MemoryErrors { folder, threads: Threads::default() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => unsupported(
                format!("{} is not there", folder.display()),
                "mount debugfs and load the kernel's module: modprobe mce-inject (kernels for clouds and containers lack it)",
            ),
            Err(error) => unsupported(
                format!("{}: {error}", folder.display()),
                &surefoot_hostfs::privilege::remedy(&["CAP_SYS_ADMIN"]),
            ),
        }
    }
}

/// One error on a core; the bank comes last, because it sets it off.
fn hand(folder: &Path, cpu: CpuId) -> io::Result<()> {
    let cpu = cpu.0.to_string();
    for (name, word) in [("flags", "sw"), ("cpu", &cpu), ("status", STATUS), ("misc", "0"), ("bank", BANK)] {
        let mut file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(folder.join(name))?;
        // The kernel takes the last character of the flags away unseen.
        file.write_all(format!("{word}\n").as_bytes())?;
    }
    Ok(())
}

impl Injector for MemoryErrors {
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        let &Schedule { period_ns, count, .. } = schedule;
        let Some(&(cpu, first_ns)) = schedule.firsts.first() else { return Ok(()) };
        let folder = self.folder.clone();
        let work = move |told: &_| {
            fire(first_ns, period_ns, count, Some(cpu), told, || hand(&folder, cpu).is_ok());
        };
        let started = self.threads.add(work);
        started.map_err(|error| Fault::Start(format!("a thread that hands errors over: {error}")))
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        self.threads.collect(into);
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        Ok(self.threads.end(into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn an_error_is_written_word_by_word_and_its_absence_names_the_module() {
        let mut tree = HostTree::new();
        let error = MemoryErrors::open(&Root::at(tree.path())).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("modprobe mce-inject"), "{error}");
        for name in ["flags", "cpu", "status", "misc", "bank"] {
            tree = tree.file(format!("sys/kernel/debug/mce-inject/{name}"), "");
        }
        let errors = MemoryErrors::open(&Root::at(tree.path())).unwrap();
        hand(&errors.folder, CpuId(3)).unwrap();
        let read = |name: &str| std::fs::read_to_string(errors.folder.join(name)).unwrap();
        assert_eq!(
            ["flags", "cpu", "status", "bank"].map(read),
            ["sw", "3", STATUS, BANK].map(|word| format!("{word}\n"))
        );
        // Corrected, and of no address: bits 61 (uncorrected) and 58 (address valid).
        let status = u64::from_str_radix(STATUS.trim_start_matches("0x"), 16).unwrap();
        assert_eq!(status >> 63 & 1, 1);
        assert_eq!(status & (1 << 61 | 1 << 58), 0);
    }
}
