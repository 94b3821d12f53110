//! Keeps the counts of a watch in their file, so that they survive its end.

use crate::counts::{Kept, KeptFile};
use surefoot_model::{MemoryProblem, MemorySource};

/// The file is written where a count has changed, at the end, and otherwise this often: readings give it its age.
const PERIOD_NS: u64 = 600_000_000_000;

/// The file, and what was written to it last.
#[derive(Debug)]
pub struct Keeper {
    file: Box<dyn KeptFile>,
    loaded: Option<Kept>,
    problem: Option<MemoryProblem>,
    saved: Option<(u64, u64)>,
    /// Whether it could not be read, so that writing would lose what is in it.
    is_unreadable: bool,
}

impl Keeper {
    /// Reads the file for this host, which need not be there yet.
    pub fn open(file: Box<dyn KeptFile>, machine: Option<&str>) -> Self {
        let mut keeper = Keeper { file, loaded: None, problem: None, saved: None, is_unreadable: false };
        match keeper.file.load(machine) {
            Ok(loaded) => {
                keeper.loaded = Some(loaded.kept);
                keeper.problem = loaded.refused.map(|why| keeper.says(why));
            }
            Err(error) => {
                keeper.is_unreadable = true;
                keeper.problem = Some(keeper.says(format!("{error}; counts restart and are not saved")));
            }
        }
        keeper
    }

    /// What was in it, once.
    pub fn take(&mut self) -> Option<Kept> {
        self.loaded.take()
    }

    /// What is wrong with it.
    pub fn problem(&self) -> Option<&MemoryProblem> {
        self.problem.as_ref()
    }

    /// Writes what is kept, where that is due.
    pub fn keep(&mut self, kept: &Kept, now_ns: u64, is_last: bool) {
        let errors = kept.modules.values().fold(kept.closings_mark(), |sum, module| {
            [module.corrected_count, module.uncorrected_count, module.block_count]
                .into_iter()
                .fold(sum, u64::wrapping_add)
        });
        let is_due = self.saved.is_none_or(|(at_ns, then)| then != errors || now_ns.saturating_sub(at_ns) >= PERIOD_NS);
        if self.is_unreadable || !(is_due || is_last) {
            return;
        }
        match self.file.save(kept) {
            // What was said of the file that was put aside stays to be read.
            Ok(()) => self.saved = Some((now_ns, errors)),
            Err(error) => {
                self.problem = Some(self.says(format!("{error}; the counts of this run will be lost with its end")));
            }
        }
    }

    fn says(&self, why: String) -> MemoryProblem {
        MemoryProblem { source: MemorySource::Edac, path: self.file.path().display().to_string(), why }
    }
}
