//! When the directory of loops is to be looked through again.

use std::fs::symlink_metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The first look after a change comes this much later at the earliest, the second after twice the time, and so on.
const SOON: Duration = Duration::from_millis(4);

/// Looks that nothing asks for come after this time at the latest.
const LATEST: Duration = Duration::from_secs(30);

/// What a directory was when it was last looked at: device, inode, time of the last name that came or went.
type State = Option<(u64, u64, i64, i64)>;

/// Tells whether names have come or gone.
///
/// The time of a change is as coarse as the kernel's tick, and a file becomes readable, or is finished, after its name has
/// come; neither changes the directory. So a change is followed by looks at growing distance.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    seen: Option<State>,
    /// When the next look is due though nothing has changed, and the distance to the one after it.
    next: Option<(Instant, Duration)>,
    #[cfg(test)]
    pub(super) looks: u64,
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
        let state = symlink_metadata(path).ok().map(|at| (at.dev(), at.ino(), at.mtime(), at.mtime_nsec()));
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
}
