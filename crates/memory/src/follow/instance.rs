//! A trace instance of our own, so that nobody else's tracing is touched, and ours by nobody's.
//!
//! It lies in `instances/surefoot-memory-PID-START`: the process that made it and when that process began, so that the next one
//! removes what a killed one left. The kernel refuses to remove one that is in use.

use crate::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::tracefs::Tracefs;
use surefoot_model::Digits;

const PREFIX: &str = "surefoot-memory-";
/// Instances that are looked at for old ones.
const INSTANCES_MAX: usize = 4096;
/// The buffer of each core, KiB: several hundred reports, which are read every second.
const BUFFER_KIB: u32 = 64;

/// A trace instance; dropping it removes it.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    /// Keeps a mount of our own.
    tracefs: Tracefs,
}

impl Instance {
    /// Makes one, and removes those of processes that are no more.
    pub(super) fn make(tracefs: Tracefs, root: &Root) -> Result<Self, Error> {
        // A mount of our own has no path but this one.
        let base = PathBuf::from(format!("/proc/self/fd/{}", tracefs.as_fd().as_raw_fd())).join("instances");
        remove_old(&base, root);
        let pid = std::process::id();
        let began = began(root, pid).unwrap_or(0);
        let name = format!("{PREFIX}{pid}-{began}");
        let folder = base.join(&name);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            // Another watch within this process.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Option {
                    option: "trace instance",
                    why: "this process follows memory errors already".into(),
                });
            }
            Err(source) => return Err(Error::Write { path: for_people(&[&name]), source }),
        }
        let instance = Instance { folder, tracefs };
        instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        instance.write("trace_clock", "mono")?;
        // Since 6.1 whoever waits for a core's buffer is woken when it is half full otherwise; older kernels have no such file.
        match instance.write("buffer_percent", "0") {
            Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        Ok(instance)
    }

    /// Lets an event be traced in it.
    pub(super) fn enable(&self, group: &str, name: &str) -> Result<(), Error> {
        self.write(&format!("events/{group}/{name}/enable"), "1")
    }

    /// Lets only some of an event's occurrences be traced.
    pub(super) fn filter(&self, group: &str, name: &str, filter: &str) -> Result<(), Error> {
        self.write(&format!("events/{group}/{name}/filter"), filter)
    }

    /// The file whose reading takes lines away.
    pub(super) fn pipe(&self) -> PathBuf {
        self.folder.join("trace_pipe")
    }

    /// The tracefs that it lies in.
    pub(super) fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    /// Events that the buffers of all cores had no room for.
    pub(super) fn overrun(&self) -> u64 {
        overrun(&self.folder.join("per_cpu"))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        // Files of the kernel below a folder that we have just made: nothing is created, and no link is followed.
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(self.folder.join(file));
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        written.map_err(|source| Error::Write { path: for_people(&[&name, file]), source })
    }
}

/// A path below the instances as a message names it: a mount of our own has none.
fn for_people(parts: &[&str]) -> PathBuf {
    parts.iter().fold(PathBuf::from("tracefs/instances"), |path, part| path.join(part))
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever comes next tries again.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The sum over the cores of what had no room: `overrun` was written over, `dropped events` were not written.
pub(super) fn overrun(per_cpu: &Path) -> u64 {
    let cores = fs::read_dir(per_cpu).into_iter().flatten().flatten().take(INSTANCES_MAX);
    cores
        .map(|core| {
            let text = fs::read_to_string(core.path().join("stats")).unwrap_or_default();
            let counts = text.lines().filter_map(|line| {
                let (name, count) = line.split_once(':')?;
                matches!(name, "overrun" | "dropped events").then(|| count.trim().digits::<u64>())?
            });
            counts.fold(0, u64::saturating_add)
        })
        .fold(0, u64::saturating_add)
}

/// Removes the instances of processes that are no more.
fn remove_old(base: &Path, root: &Root) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten().take(INSTANCES_MAX) {
        let name = entry.file_name();
        let Some((pid, then)) = name.to_str().and_then(owner) else { continue };
        if began(root, pid) != Some(then) {
            // One in use, of another namespace of processes, is refused.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whose an instance is, by its name: the process, and when that began.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (pid, began) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.digits()?, began.digits()?))
}

/// When a process began, in ticks since the boot; `None` where there is none of that number.
fn began(root: &Root, pid: u32) -> Option<u64> {
    TaskStat::of_process(root, pid).map(|stat| stat.start_ticks)
}
