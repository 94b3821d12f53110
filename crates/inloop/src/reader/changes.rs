//! When the directory of loops is to be looked through again.

use std::fs::symlink_metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first look after a change comes this much later at the earliest, the second after twice the time, and so on.
const SOON: Duration = Duration::from_millis(4);

/// Looks that nothing asks for come after this time at the latest.
const LATEST: Duration = Duration::from_secs(30);

/// A directory's change of names is stamped by the kernel's coarse clock. What was found this much later was found after
/// every change with that stamp.
const STAMP: Duration = Duration::from_millis(100);

/// What a directory was when it was last looked at: device, inode, time of the last name that came or went.
type State = Option<(u64, u64, i64, i64)>;

fn state_of(path: &Path) -> State {
    symlink_metadata(path).ok().map(|at| (at.dev(), at.ino(), at.mtime(), at.mtime_nsec()))
}

/// Tells whether names have come or gone.
///
/// The time of a change is as coarse as the kernel's tick, and a file becomes readable, or is finished, after its name has
/// come; neither changes the directory. So a change is followed by looks at growing distance.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    seen: Option<State>,
    /// When the next look is due though nothing has changed, and the distance to the one after it.
    next: Option<(Instant, Duration)>,
    /// What the directory above was when there was nothing at the path.
    absent_in: State,
    #[cfg(test)]
    pub(super) looks: u64,
    #[cfg(test)]
    lookups: u64,
}

impl Changes {
    /// Asks for a look at the next occasion.
    pub(crate) fn ask(&mut self) {
        self.seen = None;
    }

    /// Whether the directory is to be looked through now. Opens nothing.
    pub(crate) fn are_due(&mut self, path: &Path, now: Instant) -> bool {
        let due = self.due(path, now);
        #[cfg(test)]
        {
            self.looks += u64::from(due);
        }
        due
    }

    fn due(&mut self, path: &Path, now: Instant) -> bool {
        let state = self.state(path);
        if self.seen != Some(state) {
            self.seen = Some(state);
            self.next = Some((now + SOON, SOON));
            return true;
        }
        match self.next {
            Some((due, distance)) if now >= due => {
                let distance = (distance * 2).min(LATEST);
                self.next = Some((now + distance, distance));
                true
            }
            _ => false,
        }
    }

    /// Of a path that leads nowhere the directory above tells whether that has changed. To look for the name itself would
    /// make the kernel note that there is none and, on tmpfs, free that note through RCU: a grace period for each look,
    /// which ticks of all cores have to report.
    fn state(&mut self, path: &Path) -> State {
        let above = path.parent().and_then(state_of);
        if self.absent_in.is_some() && self.absent_in == above {
            return None;
        }
        #[cfg(test)]
        {
            self.lookups += 1;
        }
        let state = state_of(path);
        self.absent_in = above.filter(|above| state.is_none() && is_settled(*above));
        state
    }
}

/// Whether a directory's next change will have another stamp.
fn is_settled((_, _, s, ns): (u64, u64, i64, i64)) -> bool {
    let changed = u64::try_from(s).ok().zip(u32::try_from(ns).ok()).map(|(s, ns)| UNIX_EPOCH + Duration::new(s, ns));
    changed.is_some_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|ago| ago >= STAMP))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_is_looked_through_after_a_change_and_then_ever_more_rarely() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loops");
        let (mut changes, start) = (Changes::default(), Instant::now());
        let mut looks = |from_ms: u64, until_ms: u64| {
            let at = |ms: &u64| changes.are_due(&path, start + Duration::from_millis(*ms));
            (from_ms..until_ms).filter(at).count()
        };
        assert_eq!(looks(0, 1), 1, "even where there is none");
        looks(1, 60_000);
        assert!(looks(60_000, 120_000) <= 2, "nothing happens");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(looks(120_000, 120_001), 1);
        assert!((3..8).contains(&looks(120_001, 120_100)), "what is not finished is looked at again");
        assert!(looks(120_100, 180_000) < 12);
        std::fs::write(path.join("1-1-x.loop"), "").unwrap();
        assert_eq!(looks(180_000, 180_001), 1);
        looks(180_001, 240_000);
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(looks(240_000, 240_001), 1, "another one of this name");
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_looked_for_while_the_one_above_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loops");
        let (mut changes, start) = (Changes::default(), Instant::now());
        std::thread::sleep(STAMP * 2);
        for ms in 0..1_000 {
            changes.are_due(&path, start + Duration::from_millis(ms));
        }
        assert_eq!(changes.lookups, 1);
        std::fs::write(folder.path().join("other"), "").unwrap();
        for ms in 1_000..1_010 {
            changes.are_due(&path, start + Duration::from_millis(ms));
        }
        assert!(changes.lookups > 1, "something came, and may come again with the same stamp");
        std::thread::sleep(STAMP * 2);
        changes.are_due(&path, start + Duration::from_millis(2_000));
        let settled = changes.lookups;
        changes.are_due(&path, start + Duration::from_millis(2_001));
        assert_eq!(changes.lookups, settled);
        std::fs::create_dir(&path).unwrap();
        assert!(changes.are_due(&path, start + Duration::from_millis(2_002)));
    }
}
