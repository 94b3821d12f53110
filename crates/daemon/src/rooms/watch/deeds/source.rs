//! The source of deeds: the host's journal, followed while it grows and when it is rotated.

use crate::sources::{End, Source, Start};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_hostfs::{Root, clock};
use surefoot_journal::{GrowingFile, Position, deeds, read_on};
use surefoot_model::{Deed, Event};
use surefoot_settings::Live;

/// Deeds that are older when the watch begins are left out: the history need not learn anew what it forgets next.
const BEFORE_NS: u64 = 30 * 86_400_000_000_000;
/// Deeds that one turn tells. A journal that was written while no watch ran is told in several, so that no queue overflows.
const TURN_MAX: usize = 256;
/// The time between two turns while some are not told yet.
const SOON: Duration = Duration::from_millis(100);

/// The source of the deeds on a host.
pub fn source(root: &Root, settings: &Live) -> Start {
    let (root, settings) = (root.path("/"), settings.clone());
    Box::new(move || Ok(Box::new(Journal { settings, ..Journal::of(root) })))
}

struct Journal {
    settings: Live,
    root: PathBuf,
    begun: bool,
    open: Option<(GrowingFile, Position)>,
    /// The older journal that was read last, held so that no other file gets its number.
    older: Option<GrowingFile>,
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
        let read = self.read_first_or_on(&mut found);
        let skipped = self.skipped_count - skipped_before;
        let problem = match read {
            // Only its owner may read it; the answer of the room says so.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => Some(format!("{} cannot be read: {error}", path.display())),
            Ok(()) if skipped > 0 => {
                let all = self.skipped_count;
                Some(format!("{}: lines that are not deeds of this release: {skipped}, {all} in all", path.display()))
            }
            Ok(()) => None,
        };
        match problem {
            Some(problem) => {
                self.waiting = found;
                Err(problem)
            }
            None => {
                self.waiting = found.split_off(found.len().min(TURN_MAX));
                Ok(found.into_iter().map(|deed| Event::Deed(Box::new(deed))).collect())
            }
        }
    }

    fn unread_lines(&self) -> u64 {
        self.skipped_count
    }

    fn rest(&self, took: Duration) -> Duration {
        match self.waiting.is_empty() {
            true => self.settings.now().settings.watch.deeds_interval.max(took * 19),
            false => SOON.max(took * 9),
        }
    }
}

impl Journal {
    fn of(root: PathBuf) -> Journal {
        Journal {
            settings: Live::default(),
            root,
            begun: false,
            open: None,
            older: None,
            skipped_count: 0,
            waiting: Vec::new(),
        }
    }

    /// Reads what is new. The first look is over once it has read both journals: until then each begins at their beginning.
    fn read_first_or_on(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        if self.begun {
            return self.read(found);
        }
        let (mut first, skipped_count) = (Vec::new(), self.skipped_count);
        if let Err(error) = self.read(&mut first) {
            (self.open, self.older, self.skipped_count) = (None, None, skipped_count);
            return Err(error);
        }
        self.begun = true;
        let from_ns = clock::realtime_ns().saturating_sub(BEFORE_NS);
        found.extend(first.into_iter().filter(|deed| deed.at_realtime_ns >= from_ns));
        Ok(())
    }

    fn read(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        if !self.begun {
            // Opened before the older one is: if it becomes that one in between, it is read once, and by this.
            self.open()?;
            self.read_older(found)?;
        }
        loop {
            if self.open.is_some() && self.read_open(found)? {
                return Ok(());
            }
            if !self.open()? {
                return Ok(());
            }
        }
    }

    /// Reads on in the journal that is open. Whether that is all for now; otherwise another one has its name, and none is open.
    fn read_open(&mut self, found: &mut Vec<Deed>) -> io::Result<bool> {
        let path = deeds::below(&self.root, deeds::FILE);
        self.read_on(found)?;
        let Some((file, place)) = &self.open else { return Ok(false) };
        let own = file.file().metadata()?;
        match std::fs::symlink_metadata(&path) {
            // A file that became shorter was begun anew.
            Ok(about) if number(&about) == number(&own) => {
                let is_begun_anew = own.len() < place.bytes;
                if is_begun_anew {
                    self.open = None;
                }
                return Ok(!is_begun_anew);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
        self.left_behind(found)?;
        Ok(false)
    }

    /// Reads the rest of the journal that is open, which has been rotated or removed, and leaves it.
    fn left_behind(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        // Its last lines may have been written after they were looked for and before it was renamed.
        self.read_on(found)?;
        let Some((file, place)) = self.open.take() else { return Ok(()) };
        // Nobody writes the end of a last line any more.
        self.skipped_count += u64::from(file.bytes()? > place.bytes);
        let left = number(&file.file().metadata()?);
        if self.older_number()? == Some(left) {
            self.older = Some(file);
        } else {
            // It was rotated twice meanwhile, or removed.
            self.read_older(found)?;
        }
        Ok(())
    }

    fn read_on(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        let Some((file, place)) = &mut self.open else { return Ok(()) };
        take(file, place, &mut self.skipped_count, found)
    }

    /// Reads the older journal, unless it is the one that is open or was read before.
    fn read_older(&mut self, found: &mut Vec<Deed>) -> io::Result<()> {
        let path = deeds::below(&self.root, deeds::OLDER);
        if self.older_number()?.is_none() {
            return Ok(());
        }
        let file = match GrowingFile::open_no_link(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let about = file.file().metadata()?;
        deeds::expect_trusted(&about)?;
        let own = number(&about);
        for known in self.open.iter().map(|(file, _)| file).chain(&self.older) {
            if number(&known.file().metadata()?) == own {
                return Ok(());
            }
        }
        let mut place = Position::default();
        take(&file, &mut place, &mut self.skipped_count, found)?;
        self.skipped_count += u64::from(file.bytes()? > place.bytes);
        self.older = Some(file);
        Ok(())
    }

    fn older_number(&self) -> io::Result<Option<(u64, u64)>> {
        match std::fs::symlink_metadata(deeds::below(&self.root, deeds::OLDER)) {
            Ok(about) => Ok(Some(number(&about))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the journal at its beginning; whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        let path = deeds::below(&self.root, deeds::FILE);
        // Asked first: to open it, each directory on its way is looked at, which is too much to find out that there is none.
        if std::fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(false);
        }
        match GrowingFile::open_no_link(&path) {
            Ok(file) => {
                deeds::expect_trusted(&file.file().metadata()?)?;
                self.open = Some((file, Position::default()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

/// What tells a file from any other that is held.
fn number(about: &std::fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

fn take(file: &GrowingFile, place: &mut Position, skipped_count: &mut u64, found: &mut Vec<Deed>) -> io::Result<()> {
    read_on(file, place, deeds::LIMITS.file_bytes, |_, line| match line.ok().map(deeds::parse) {
        Some(Some(deed)) => found.push(deed),
        _ => *skipped_count += 1,
    })
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

    fn rotate(root: &Path) {
        std::fs::rename(deeds::below(root, deeds::FILE), deeds::below(root, deeds::OLDER)).unwrap();
    }

    #[test]
    fn two_rotations_between_two_looks_lose_nothing() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let mut journal = Journal::of(root.to_owned());
        write(root, 1);
        assert_eq!(turn(&mut journal), [1]);
        write(root, 2);
        for at in [3, 4] {
            rotate(root);
            write(root, at);
        }
        assert_eq!(turn(&mut journal), [2, 3, 4]);
        rotate(root);
        write(root, 5);
        assert_eq!(turn(&mut journal), [5]);
    }

    /// Another process writes and rotates at each point where a look could be interrupted.
    #[test]
    fn what_happens_within_a_look_is_told_once() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        write(root, 1);
        let mut journal = Journal::of(root.to_owned());
        // The first look: the journal is open when it becomes the older one.
        journal.open().unwrap();
        rotate(root);
        write(root, 2);
        let mut found = Vec::new();
        journal.read_older(&mut found).unwrap();
        journal.begun = true;
        let told = |found: Vec<Deed>| found.into_iter().map(|deed| deed.at_realtime_ns).collect::<Vec<_>>();
        journal.read(&mut found).unwrap();
        assert_eq!(told(found), [1, 2]);
        // Its last line is written after the end was read, and then it is rotated.
        let mut found = Vec::new();
        journal.read_on(&mut found).unwrap();
        write(root, 3);
        rotate(root);
        write(root, 4);
        journal.left_behind(&mut found).unwrap();
        journal.read(&mut found).unwrap();
        assert_eq!((told(found), journal.skipped_count), (vec![3, 4], 0));
    }

    #[test]
    fn a_torn_line_of_a_journal_that_was_rotated_is_counted() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        write(root, 1);
        let mut file = std::fs::OpenOptions::new().append(true).open(deeds::below(root, deeds::FILE)).unwrap();
        std::io::Write::write_all(&mut file, b"{\"at_realtime_ns\":2").unwrap();
        let mut journal = Journal::of(root.to_owned());
        assert_eq!((turn(&mut journal), journal.unread_lines()), (vec![1], 0));
        rotate(root);
        write(root, 3);
        assert_eq!((turn(&mut journal), journal.unread_lines()), (vec![3], 1));
        let mut later = Journal::of(root.to_owned());
        assert_eq!((turn(&mut later), later.unread_lines()), (vec![1, 3], 1));
    }

    /// Each deed of a time without a watch is told once, and no turn tells more than the queue of the sources takes.
    #[test]
    fn what_was_done_while_no_watch_ran_is_told_whole_and_bit_by_bit() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let now_ns = clock::realtime_ns();
        let count = 2 * TURN_MAX as u64 + 3;
        (0..count).for_each(|at| write(root, now_ns + at));
        let (mut journal, end) = (Journal::of(root.to_owned()), End::never(&NEVER));
        let mut turns = Vec::new();
        loop {
            turns.push(journal.turn(&end).unwrap().len());
            if journal.rest(Duration::ZERO) > SOON {
                break;
            }
        }
        assert_eq!(turns, [TURN_MAX, TURN_MAX, 3]);
        assert!(journal.turn(&end).unwrap().is_empty());
    }

    #[test]
    fn a_first_look_that_failed_is_made_again_from_the_beginning() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        write(root, clock::realtime_ns());
        rotate(root);
        let path = deeds::below(root, deeds::FILE);
        std::fs::create_dir(&path).unwrap();
        let (mut journal, end) = (Journal::of(root.to_owned()), End::never(&NEVER));
        assert!(journal.turn(&end).is_err());
        std::fs::remove_dir(&path).unwrap();
        write(root, clock::realtime_ns());
        assert_eq!(journal.turn(&end).unwrap().len(), 2);
        assert_eq!(journal.unread_lines(), 0);
    }

    #[test]
    fn a_journal_that_others_could_have_written_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        write(root, clock::realtime_ns());
        let path = deeds::below(root, deeds::FILE);
        let end = End::never(&NEVER);
        let told = || Journal::of(root.to_owned()).turn(&end).map(|found| found.len());
        assert_eq!(told(), Ok(1));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(told().unwrap_err().contains("other users may write it (mode 666)"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let link = root.join("link");
        std::fs::hard_link(&path, &link).unwrap();
        assert!(told().unwrap_err().contains("another name"));
        std::fs::remove_file(&link).unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(told().unwrap_err().contains("UID 65534"));
        }
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
        assert_eq!(journal.turn(&end).unwrap().len(), 1, "one is older than a month");
        let path = deeds::below(root, deeds::FILE);
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, b"{\"of\":\"another release\"}\n").unwrap();
        write(root, now_ns + 1);
        assert!(journal.turn(&end).unwrap_err().ends_with("not deeds of this release: 1, 1 in all"));
        assert_eq!(journal.unread_lines(), 1);
        assert_eq!(journal.turn(&end).unwrap().len(), 1, "what was read beside it is told");
    }
}
