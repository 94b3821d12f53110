//! What lies in the directories of checkpoints, looked at every few seconds, and told as what changed.
//!
//! Directories, manifests and journals belong to whoever may write there, so that nothing in them is trusted and every
//! look has an end: so many copies, jobs, lines, bytes, seconds. Nothing here writes or takes a lock.

mod changes;
mod drives;
mod jobs;
mod locks;
mod look;
mod looks;
mod mounts;

use crate::sources::{End, Source, Start};
use changes::Changes;
pub(in crate::rooms) use look::Looker;
use looks::Looks;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::Event;
use surefoot_settings::Live;

/// A look that takes long is followed by a rest of so many times that, so that looking costs a tenth of a core at most.
const REST_FACTOR: u32 = 9;

/// The source of checkpoints: the jobs whose checkpoints lie in these directories, which are absolute. A directory that
/// cannot be looked at is part of what is seen, and no error.
pub fn source(root: &Root, directories: Vec<PathBuf>, settings: &Live) -> Start {
    let (looks, settings) = (Looks::new(root.clone(), directories), settings.clone());
    Box::new(move || Ok(Box::new(Checkpoints { looks, changes: Changes::default(), settings })))
}

struct Checkpoints {
    settings: Live,
    looks: Looks,
    changes: Changes,
}

impl Source for Checkpoints {
    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let Some((look, found)) = self.looks.look(end)? else { return Ok(Vec::new()) };
        Ok(self.changes.take(look, found).into_iter().map(Event::Checkpoint).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        self.settings.now().settings.checkpoint.interval.max(took * REST_FACTOR)
    }
}

/// A path as text; what is not UTF-8 or no letter is replaced.
fn text(path: &Path) -> String {
    surefoot_model::one_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::atomic::AtomicBool;
    use surefoot_checkpoint::session::journal::JOURNAL_NAME;
    use surefoot_checkpoint::{Alone, Checkpointer, Config};
    use surefoot_model::{Decided, JournalEntry, JournalEvent, Room};
    use surefoot_store::history::{History, Limits};

    static STOP: AtomicBool = AtomicBool::new(false);

    /// Lines of decisions, each of a checkpoint of its own.
    fn append(journal: &Path, generations: std::ops::Range<u64>, at_ns: impl Fn(u64) -> u64) {
        let line = |number: u64| {
            let decided = Decided { place: "memory".into(), generation: Some(number), ..Decided::default() };
            let event = JournalEvent::Decision(Box::new(decided));
            serde_json::to_string(&JournalEntry { realtime_ns: at_ns(number), lost_count: 0, event }).unwrap() + "\n"
        };
        let mut file = OpenOptions::new().append(true).open(journal).unwrap();
        file.write_all(generations.map(line).collect::<String>().as_bytes()).unwrap();
    }

    #[test]
    fn every_line_that_a_journal_keeps_comes_to_the_history_through_bursts_and_restarts() {
        let home = tempfile::tempdir().unwrap();
        let [tier, kept] = ["tier", "kept"].map(|name| home.path().join(name));
        [&tier, &kept].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let mut job = Checkpointer::open(Config::new("job", &tier, None), Box::new(Alone)).unwrap();
        job.checkpoint().unwrap();
        drop(job);
        let journal = tier.join("job").join(JOURNAL_NAME);
        let path = kept.join("history.db");
        let first = 1_000_000;
        let watch = || source(&Root::at("/"), vec![tier.clone()], &Live::default())().unwrap();
        let history = || History::open(&path, Limits::default()).unwrap();
        let look = |watch: &mut Box<dyn Source>, history: &mut History| {
            for event in watch.turn(&End::never(&STOP)).unwrap() {
                history.record(&event).unwrap();
            }
            history.commit().unwrap();
        };
        let (mut seen, mut written) = (watch(), history());
        let mut next = first;
        for (count, is_at_once) in [(5, false), (300, false), (10, true), (2_000, false)] {
            look(&mut seen, &mut written);
            let at_ns = |number| if is_at_once { first * 2 } else { first + number };
            append(&journal, next..next + count, at_ns);
            next += count;
        }
        look(&mut seen, &mut written);
        for _ in 0..12 {
            append(&journal, next..next + 3, |number| first + number);
            // The watch ends without a last look, and is started again.
            (seen, written) = {
                drop((seen, written));
                append(&journal, next + 3..next + 5, |number| first + number);
                (watch(), history())
            };
            next += 5;
            look(&mut seen, &mut written);
        }
        let records = written.open_view().unwrap().records(0..i64::MAX, Some(Room::Checkpoint)).unwrap();
        let decided = records.iter().filter_map(|record| record.body.get("generation")?.as_u64());
        let mut decided: Vec<u64> = decided.filter(|number| *number >= first).collect();
        decided.sort_unstable();
        assert_eq!(decided.len(), 2_315 + 12 * 5);
        assert_eq!(decided, (first..next).collect::<Vec<_>>());
    }
}
