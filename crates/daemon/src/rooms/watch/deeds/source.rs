//! The source of deeds: the host's journal, followed while it grows and when it is rotated.

use crate::sources::{End, Source, Start};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_hostfs::{Root, clock};
use surefoot_journal::{GrowingFile, Place, deeds, read_on};
use surefoot_model::{Deed, Event};

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// Deeds that are older when the watch begins are left out.
const BEFORE_NS: u64 = 86_400_000_000_000;
/// Deeds from before the start that are told: the newest.
const BEFORE_MAX: usize = 256;

/// The source of the deeds on a host.
pub fn source(root: &Root) -> Start {
    let root = root.path("/");
    Box::new(move || Ok(Box::new(Journal::of(root))))
}

struct Journal {
    root: PathBuf,
    begun: bool,
    open: Option<(GrowingFile, Place)>,
    /// Lines that were no deeds.
    skipped_count: u64,
    /// Deeds that were read and not told yet.
    waiting: Vec<Deed>,
}

impl Source for Journal {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        let path = deeds::below(&self.root, deeds::FILE);
        let skipped_before = self.skipped_count;
        let mut found = std::mem::take(&mut self.waiting);
        let read = self.read(&mut found);
        if !std::mem::replace(&mut self.begun, true) {
            let from_ns = clock::realtime_ns().saturating_sub(BEFORE_NS);
            found.retain(|deed| deed.at_realtime_ns >= from_ns);
            found.drain(..found.len().saturating_sub(BEFORE_MAX));
        }
        let skipped = self.skipped_count - skipped_before;
        let problem = match read {
            // Only its owner may read it; the answer of the room says so.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => Some(format!("{} cannot be read: {error}", path.display())),
            Ok(()) if skipped > 0 => {
                Some(format!("{}: lines that are not deeds of this release: {skipped}", path.display()))
            }
            Ok(()) => None,
        };
        match problem {
            Some(problem) => {
                self.waiting = found;
                Err(problem)
            }
            None => Ok(found.into_iter().map(|deed| Event::Deed(Box::new(deed))).collect()),
        }
    }

    fn rest(&self, took: Duration) -> Duration {
        PERIOD.max(took * 19)
    }
}

impl Journal {
    fn of(root: PathBuf) -> Journal {
        Journal { root, begun: false, open: None, skipped_count: 0, waiting: Vec::new() }
    }

    fn read(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        let path = deeds::below(&self.root, deeds::FILE);
        if !self.begun {
            let older = deeds::below(&self.root, deeds::OLDER);
            if let Ok(read) = deeds::look(&older) {
                found.extend(read.deeds);
                self.skipped_count += read.skipped_count;
            }
        }
        loop {
            if let Some((file, place)) = &mut self.open {
                let skipped = &mut self.skipped_count;
                read_on(file, place, deeds::LIMITS.file_bytes, |_, line| match line.ok().map(deeds::parse) {
                    Some(Some(deed)) => found.push(deed),
                    _ => *skipped += 1,
                })?;
                let own = file.file().metadata()?;
                let is_same = |about: &std::fs::Metadata| (about.dev(), about.ino()) == (own.dev(), own.ino());
                match std::fs::symlink_metadata(&path) {
                    // A file that became shorter was begun anew.
                    Ok(about) if is_same(&about) && own.len() >= place.bytes => return Ok(()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            // Asked first: to open it, each directory on its way is looked at, which is too much to find out that there is none.
            if std::fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return Ok(());
            }
            match GrowingFile::open_no_link(&path) {
                Ok(file) => self.open = Some((file, Place::default())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use surefoot_model::{Actor, DeedAction, DeedOutcome, DeedReason, DeedTarget, Room, Subject};

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn write(root: &Path, at_realtime_ns: u64) {
        let deed = Deed {
            at_realtime_ns,
            begun_realtime_ns: at_realtime_ns,
            room: Room::Memory,
            subject: Subject::host(),
            actor: Actor::Command { uid: 0 },
            action: DeedAction::ChangeSetting,
            target: DeedTarget::Subject,
            reason: DeedReason::Asked,
            outcome: DeedOutcome::Begun,
        };
        deeds::Record::OfHost(root.to_owned()).append(&deed).unwrap();
    }

    fn turn(journal: &mut Journal) -> Vec<u64> {
        let mut found = Vec::new();
        journal.read(&mut found).unwrap();
        journal.begun = true;
        found.into_iter().map(|deed| deed.at_realtime_ns).collect()
    }

    #[test]
    fn what_is_appended_is_told_once_also_over_a_rotation_and_a_removal() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let mut journal = Journal::of(root.to_owned());
        assert!(turn(&mut journal).is_empty(), "there is none yet");
        write(root, 1);
        write(root, 2);
        assert_eq!(turn(&mut journal), [1, 2]);
        assert!(turn(&mut journal).is_empty());
        write(root, 3);
        std::fs::rename(deeds::below(root, deeds::FILE), deeds::below(root, deeds::OLDER)).unwrap();
        write(root, 4);
        assert_eq!(turn(&mut journal), [3, 4], "the rest of the old one, and the new one");
        std::fs::remove_file(deeds::below(root, deeds::FILE)).unwrap();
        assert!(turn(&mut journal).is_empty());
        write(root, 5);
        assert_eq!(turn(&mut journal), [5]);
        // Another watch that begins now sees both files.
        let mut other = Journal::of(root.to_owned());
        assert_eq!(turn(&mut other), [1, 2, 3, 5]);
        assert_eq!((journal.skipped_count, other.skipped_count), (0, 0));
    }

    #[test]
    fn lines_that_are_no_deeds_are_told_and_old_ones_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let now_ns = clock::realtime_ns();
        write(root, now_ns - 2 * BEFORE_NS);
        write(root, now_ns);
        let mut journal = Journal::of(root.to_owned());
        let end = End::never(&NEVER);
        assert_eq!(journal.turn(&end).unwrap().len(), 1, "one is older than a day");
        let path = deeds::below(root, deeds::FILE);
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, b"{\"of\":\"another release\"}\n").unwrap();
        write(root, now_ns + 1);
        assert!(journal.turn(&end).unwrap_err().ends_with("not deeds of this release: 1"));
        assert_eq!(journal.turn(&end).unwrap().len(), 1, "what was read beside it is told");
    }
}
