//! The closings in a host's journal of deeds.

use super::{Closing, recorded_by};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_journal::deeds::{self, Record, Unusable};
use surefoot_model::{MemoryProblem, MemorySource};

/// What tells a file from the same file later.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Reads the closings of a host, again whenever a journal has changed.
#[derive(Debug)]
pub struct Journal {
    root: std::path::PathBuf,
    stamps: Option<[Stamp; 2]>,
    problem: Option<MemoryProblem>,
}

impl Journal {
    /// That of a host or recorded tree.
    pub fn of(root: &Root) -> Journal {
        Journal { root: root.path("/"), stamps: None, problem: None }
    }

    /// All closings in force, oldest first, if a journal has changed since the last call; else none. One that cannot be read is a
    /// problem, and is tried again when it changes.
    pub fn news(&mut self) -> Vec<Closing> {
        let stamps = [deeds::FILE, deeds::OLDER].map(|name| stamp(&deeds::below(&self.root, name)));
        if self.stamps == Some(stamps) {
            return Vec::new();
        }
        self.stamps = Some(stamps);
        match closings(&self.root) {
            Ok(closings) => {
                self.problem = None;
                closings
            }
            Err(unusable) => {
                let Unusable { path, why } = unusable;
                let why = format!("{why}; faults closed since the last look at it are shown as open");
                let path = path.display().to_string();
                self.problem = Some(MemoryProblem { source: MemorySource::Edac, path, why });
                Vec::new()
            }
        }
    }

    /// Why closings may be missing.
    pub fn problem(&self) -> Option<&MemoryProblem> {
        self.problem.as_ref()
    }
}

fn closings(root: &Path) -> Result<Vec<Closing>, Unusable> {
    let found = Record::OfHost(root.to_owned()).find(|deed| recorded_by(deed.action).is_some())?;
    let mut closings: Vec<Closing> = found.deeds.iter().filter_map(Closing::of).collect();
    closings.sort_by_key(|closing| closing.at_realtime_ns);
    Ok(closings)
}

fn stamp(path: &Path) -> Stamp {
    let about = std::fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
