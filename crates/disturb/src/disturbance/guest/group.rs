//! The virtual processors of a guest in a control group of their own, whose freezer holds them.
//!
//! Of version 1 it is a group of the freezer's hierarchy, below that of QEMU. Of version 2 it is a threaded one, also below that of
//! QEMU, so that the rest of QEMU stays where it is and is accounted for as before.

use super::shown;
use crate::Fault;
use crate::cgroup::{Cgroup, Version, of_process, write};
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;

/// Threads of one guest.
const THREADS_MAX: usize = 1024;

/// The group and who is to be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::disturbance) struct Group {
    version: Version,
    path: PathBuf,
    threads: Vec<u32>,
}

impl Group {
    /// Where the group of a guest can be made; tried, because what runs beside it decides it as well.
    ///
    /// # Errors
    /// [`Fault::Unsupported`].
    pub(super) fn find(root: &Root, pid: u32, threads: Vec<u32>) -> Result<Group, Fault> {
        if threads.len() > THREADS_MAX {
            let found = threads.len();
            return Err(Fault::Refused(format!("process {pid} has {found} virtual processors: at most {THREADS_MAX}")));
        }
        if let Some(stranger) = threads.iter().find(|tid| !root.proc(format!("{pid}/task/{tid}")).is_dir()) {
            return Err(Fault::Refused(format!(
                "the monitor names thread {stranger} as a virtual processor, which is none of process {pid}'s"
            )));
        }
        let mut why = "no control group with a freezer is mounted".to_owned();
        for version in Version::BOTH {
            let Some(above) = of_process(root, version, &pid.to_string()) else { continue };
            let path = above.join(format!("surefoot-guest-{}", std::process::id()));
            let group = Group { version, path, threads: threads.clone() };
            let tried = group.gather();
            group.dissolve();
            match tried {
                Ok(()) => return Ok(group),
                Err(fault) => why = format!("the vCPUs cannot be put into a separate cgroup: {fault}"),
            }
        }
        Err(Fault::Unsupported {
            why,
            remedy: "run as root where control groups can be written, or take guest-stop".into(),
        })
    }

    fn threads_file(&self) -> &'static str {
        match self.version {
            Version::One => "tasks",
            Version::Two => "cgroup.threads",
        }
    }

    fn put(&self, into: &Path) -> Result<(), Fault> {
        let file = into.join(self.threads_file());
        for thread in &self.threads {
            write(&file, &thread.to_string())?;
        }
        Ok(())
    }

    /// Makes it and puts the threads into it.
    pub(super) fn gather(&self) -> Result<(), Fault> {
        match std::fs::create_dir(&self.path) {
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Fault::File { path: self.path.clone(), source });
            }
            _ => {}
        }
        if self.version == Version::Two {
            write(&self.path.join("cgroup.type"), "threaded")?;
        }
        self.put(&self.path)
    }

    pub(super) fn freeze(&self, stands: bool) -> Result<(), Fault> {
        Ok(Cgroup::at(self.version, self.path.clone()).freeze(stands)?)
    }

    /// Lets the threads go on, puts them back and removes the group, as far as it is there.
    pub(super) fn dissolve(&self) {
        let _ = self.freeze(false);
        if let Some(above) = self.path.parent() {
            let _ = self.put(above);
        }
        let _ = std::fs::remove_dir(&self.path);
    }

    pub(super) fn told(&self) -> serde_json::Value {
        serde_json::json!({ "version": self.version.number(), "path": shown(&self.path), "threads": self.threads })
    }

    pub(super) fn heard(told: &serde_json::Value) -> Option<Group> {
        let version = Version::BOTH.into_iter().find(|version| told["version"] == version.number())?;
        let threads = told["threads"].as_array()?.iter().map(|thread| thread.as_u64()?.try_into().ok());
        Some(Group { version, path: told["path"].as_str()?.into(), threads: threads.collect::<Option<Vec<u32>>>()? })
    }

    #[cfg(test)]
    pub(super) fn example() -> Group {
        Group { version: Version::Two, path: "/sys/fs/cgroup/x/surefoot-guest-7".into(), threads: vec![71, 72] }
    }
}
