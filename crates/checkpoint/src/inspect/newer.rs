//! Checkpoints that are newer than the one that was taken, and could not be: what was once complete and is not whole here.

use super::survey::{Copy, Survey, Tier};
use crate::generation::{Age, GenerationId};
use crate::tier::generation_of;
use std::collections::BTreeMap;
use std::path::Path;

/// A checkpoint that was complete, as far as its marks say, and is newer than the one that was taken, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newer {
    /// Its number; `None` in memory, where only a manifest says it and none can be read.
    pub generation: Option<u64>,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds; `None` where no manifest can be read.
    pub taken_realtime_ns: Option<u64>,
}

/// What of the copies of a job is newer than this one, and was complete. What was never finished is not: nobody was told that it is there.
pub(super) fn newer(survey: &Survey, is_wanted: &dyn Fn(&Copy) -> bool, taken: Age) -> Vec<Newer> {
    let epochs = survey.epochs();
    let mut found: BTreeMap<Option<GenerationId>, Newer> = BTreeMap::new();
    for copy in survey.copies.iter().filter(|copy| is_wanted(copy) && was_complete(copy)) {
        let age =
            copy.generation.map(|generation| Age { epoch: epochs.get(&generation).copied().unwrap_or(0), generation });
        if age.is_some_and(|age| age <= taken) {
            continue;
        }
        let new = || Newer { generation: copy.generation.map(|generation| generation.number), taken_realtime_ns: None };
        let of_it = found.entry(copy.generation).or_insert_with(new);
        of_it.taken_realtime_ns =
            of_it.taken_realtime_ns.or(copy.manifest.as_ref().ok().map(|of| of.taken_realtime_ns));
    }
    // A mark of which no part is left, a mark that cannot be read, and a directory that could not be looked at.
    for problem in &survey.problems {
        let path = if problem.path.ends_with("commit") { problem.path.parent() } else { Some(problem.path.as_path()) };
        let Some(path) = path else { continue };
        let Some(generation) = generation_of(Path::new(path.file_name().unwrap_or_default())) else { continue };
        let is_of_job =
            survey.copies.iter().any(|copy| is_wanted(copy) && Some(copy.job_directory.as_path()) == path.parent());
        if is_of_job && generation > taken.generation {
            let new = || Newer { generation: Some(generation.number), taken_realtime_ns: None };
            found.entry(Some(generation)).or_insert_with(new);
        }
    }
    found.into_values().rev().collect()
}

/// Whether it was complete on all ranks, or may have been: a slot whose manifest cannot be read counts.
fn was_complete(copy: &Copy) -> bool {
    let is_unknown = || copy.manifest.is_err() && copy.manifests.first().is_some_and(|path| is_there(path));
    copy.committed_ranks.is_some() || (copy.tier == Tier::Memory && (copy.is_marked() || is_unknown()))
}

fn is_there(path: &Path) -> bool {
    !std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
