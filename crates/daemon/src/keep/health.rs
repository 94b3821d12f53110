use crate::http::json;
use crate::keep::board::Findings;
use crate::keep::stream::Moment;
use crate::rooms::Room;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surefoot_model::{Finding, Headline, Health, RoomHealth};

/// The host's health as the findings of a moment say it. Other programs act on it, so that it takes the word of the host
/// and of users whose word is `trusted`, and nobody else's.
pub(crate) fn of(
    findings: &Findings,
    trusted: &BTreeSet<u32>,
    rooms: &[Arc<dyn Room>],
    moment: &Moment,
    updated_realtime_ns: u64,
) -> Health {
    let is_trusted = |finding: &&Finding| finding.uid.is_none_or(|uid| trusted.contains(&uid));
    // Everybody may read the file.
    let told: Vec<Finding> = findings.all.iter().filter(is_trusted).cloned().map(Finding::for_everybody).collect();
    let of_room = |room: surefoot_model::Room| {
        let own: Vec<Finding> = told.iter().filter(|finding| finding.room == room).cloned().collect();
        (room, RoomHealth::of(own))
    };
    // A room that looks at nothing here says nothing of the host.
    let watching = rooms.iter().filter(|room| room.why_not_watched(moment).is_none());
    Health {
        version: Health::VERSION,
        updated_realtime_ns,
        host: moment.host.as_ref().map(|host| host.hostname.clone()).unwrap_or_default(),
        headline: Headline::of(&told),
        data_age_ns: moment.age_ns,
        rooms: watching.map(|room| of_room(room.room())).collect::<BTreeMap<_, _>>(),
    }
}

/// The same health is written again after this time, long before readers take its writer for dead: a file that is
/// replaced costs every reader of its directory something, and a disk's journal a write.
const RENEW_NS: u64 = 20_000_000_000;

/// The file and the name under which it is prepared, which no other process uses.
///
/// One process at a time publishes in a directory: the one that holds the lock, a file beside it that only its owner can
/// open. Another one waits for its end, and neither replaces nor removes what is not its own.
#[derive(Debug)]
pub(crate) struct HealthFile {
    path: PathBuf,
    prepared: PathBuf,
    /// The lock's file, as long as the lock is held; the kernel lets go of it however the process ends.
    lock: Option<fs::File>,
    written: Option<Health>,
}

/// What became of health that was to be published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// The file was replaced.
    Written,
    /// The file says it already.
    Unchanged,
    /// Another process publishes here.
    ByAnother,
}

impl HealthFile {
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn in_directory(directory: &Path) -> io::Result<Self> {
        let prepared = directory.join(format!(".{}.{}", Health::FILE_NAME, std::process::id()));
        let mut file = HealthFile { path: directory.join(Health::FILE_NAME), prepared, lock: None, written: None };
        // Found out now, while somebody looks at the terminal.
        file.prepare()?;
        fs::remove_file(&file.prepared)?;
        file.is_ours()?;
        Ok(file)
    }

    /// Whether this process publishes here; tries to become it.
    ///
    /// # Errors
    /// When the lock's file cannot be opened. A file system without locks leaves it to whoever comes.
    pub(crate) fn is_ours(&mut self) -> io::Result<bool> {
        if self.lock.is_none() {
            // Not the directory itself: whoever may open it could hold its lock.
            let lock = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(self.lock_path())?;
            match lock.try_lock() {
                Err(fs::TryLockError::WouldBlock) => return Ok(false),
                // Whoever held it before may just have taken the file away.
                Ok(()) if !is_at(&lock, &self.lock_path()) => return Ok(false),
                Ok(()) | Err(fs::TryLockError::Error(_)) => self.lock = Some(lock),
            }
        }
        Ok(true)
    }

    /// Publishes this health, if it is another than the file says or the file would soon be too old.
    pub(crate) fn write(&mut self, health: &Health) -> io::Result<Published> {
        if !self.is_ours()? {
            return Ok(Published::ByAnother);
        }
        if self.written.as_ref().is_some_and(|written| is_said_by(written, health)) {
            return Ok(Published::Unchanged);
        }
        match self.replace(health) {
            Ok(()) => {
                self.written = Some(health.clone());
                Ok(Published::Written)
            }
            Err(error) => {
                // The directory may be gone, and the lock with it.
                (self.written, self.lock) = (None, None);
                Err(error)
            }
        }
    }

    /// Replaces the file as a whole. Not forced to the disk: after a crash its content is void anyway.
    fn replace(&self, health: &Health) -> io::Result<()> {
        let text = text(health)?;
        let written = self
            .prepare()
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&self.prepared, &self.path));
        if written.is_err() {
            // Half a file would be in the way of nobody, but it would stay for ever.
            let _ = fs::remove_file(&self.prepared);
        }
        written
    }

    /// Creates the file under its own name. What lies there already is not written to: it may be a link or a pipe that
    /// somebody else has put there.
    fn prepare(&self) -> io::Result<fs::File> {
        match fs::remove_file(&self.prepared) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::OpenOptions::new().write(true).create_new(true).open(&self.prepared)
    }

    /// Takes the file away, so that nobody believes in it after the end, and leaves the directory to others.
    pub(crate) fn remove(self) {
        if self.lock.is_some() {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(self.lock_path());
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether this is the file that lies there now.
fn is_at(file: &fs::File, path: &Path) -> bool {
    let same = |own: &fs::Metadata, there: &fs::Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
    file.metadata().ok().zip(fs::symlink_metadata(path).ok()).is_some_and(|(own, there)| same(&own, &there))
}

/// Whether a file that says the one says the other as well, and is young enough for its readers.
///
/// The age of the data moves all the time and says nothing while there are some: once they are old, a finding says so.
fn is_said_by(written: &Health, now: &Health) -> bool {
    let is_young = now.updated_realtime_ns.abs_diff(written.updated_realtime_ns) < RENEW_NS;
    let (updated_realtime_ns, data_age_ns) = (now.updated_realtime_ns, now.data_age_ns);
    let same = Health { updated_realtime_ns, data_age_ns, ..written.clone() };
    is_young && written.data_age_ns.is_some() == now.data_age_ns.is_some() && same == *now
}

/// The file's text; evidence goes, and then findings, until it is as short as readers take it.
fn text(health: &Health) -> io::Result<Vec<u8>> {
    let mut health = health.clone();
    loop {
        let mut text = json::to_vec(&health)?;
        text.push(b'\n');
        if text.len() as u64 <= Health::FILE_BYTES_MAX {
            return Ok(text);
        }
        let Some(room) = health.rooms.values_mut().max_by_key(|room| weight(room)) else { return Err(too_long()) };
        if room.findings.iter().any(|finding| !finding.evidence.is_empty()) {
            room.findings.iter_mut().for_each(|finding| finding.evidence.clear());
        } else if room.findings.pop().is_some() {
            room.findings_left_out += 1;
        } else {
            return Err(too_long());
        }
    }
}

fn too_long() -> io::Error {
    io::Error::other("the health file is too long even without findings")
}

fn weight(room: &RoomHealth) -> usize {
    let texts = |finding: &Finding| {
        finding.key.len() + finding.sentence.len() + finding.evidence.iter().map(String::len).sum::<usize>() + 200
    };
    room.findings.iter().map(texts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Severity, Subject, SubjectKind};

    #[test]
    fn a_link_in_the_place_of_the_prepared_file_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let prepared = home.path().join(format!(".health.json.{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &prepared).unwrap();
        HealthFile::in_directory(home.path()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn who_may_only_open_the_directory_cannot_keep_health_from_being_written() {
        let home = tempfile::tempdir().unwrap();
        let held = fs::File::open(home.path()).unwrap();
        held.try_lock().unwrap();
        let mut file = HealthFile::in_directory(home.path()).unwrap();
        assert_eq!(file.write(&health(1, "a", None)).unwrap(), Published::Written);
        let lock = fs::metadata(home.path().join("health.lock")).unwrap();
        assert_eq!(lock.mode() & 0o777, 0o600, "nobody else can open it");
    }

    fn health(updated_s: u64, sentence: &str, data_age_ns: Option<u64>) -> Health {
        let headline = Headline { severity: Severity::Notice, sentence: sentence.into() };
        let (version, updated_realtime_ns) = (Health::VERSION, updated_s * 1_000_000_000);
        Health { version, updated_realtime_ns, host: String::new(), headline, data_age_ns, rooms: BTreeMap::new() }
    }

    #[test]
    fn a_file_that_would_say_the_same_is_replaced_only_before_it_is_too_old() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let mut file = HealthFile::in_directory(home.path()).unwrap();
        let mut write = |health: &Health| {
            let published = file.write(health).unwrap();
            (published, fs::metadata(file.path()).unwrap().ino())
        };
        let (first, inode) = write(&health(100, "a", Some(5)));
        assert_eq!(first, Published::Written);
        for second in 101..120 {
            assert_eq!(write(&health(second, "a", Some(second))), (Published::Unchanged, inode), "{second}");
        }
        let renewed = write(&health(120, "a", Some(5)));
        assert!(renewed.0 == Published::Written && renewed.1 != inode);
        const { assert!(RENEW_NS * 2 < Health::STALE_NS, "no reader takes it for dead in between") };
        assert_eq!(write(&health(121, "b", Some(5))).0, Published::Written, "another sentence");
        assert_eq!(write(&health(122, "b", None)).0, Published::Written, "the data are gone");
        assert_eq!(write(&health(95, "b", None)).0, Published::Written, "the clock was set back");
    }

    #[test]
    fn a_second_process_in_the_same_directory_touches_nothing_until_the_first_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let mut first = HealthFile::in_directory(home.path()).unwrap();
        assert_eq!(first.write(&health(1, "first", None)).unwrap(), Published::Written);
        let mut second = HealthFile::in_directory(home.path()).unwrap();
        assert_eq!(second.write(&health(1, "second", None)).unwrap(), Published::ByAnother);
        second.remove();
        let said = || fs::read_to_string(home.path().join(Health::FILE_NAME)).unwrap_or_default();
        assert!(said().contains("first"), "{}", said());
        let mut third = HealthFile::in_directory(home.path()).unwrap();
        first.remove();
        assert_eq!(third.write(&health(2, "third", None)).unwrap(), Published::Written);
        assert!(said().contains("third"));
    }

    #[test]
    fn a_health_file_is_never_longer_than_its_readers_take() {
        let finding = |number: usize| {
            let subject = Subject::new(SubjectKind::Job, format!("{number}"));
            let room = surefoot_model::Room::Checkpoint;
            Finding::new(room, "stale", subject, Severity::Warning, "x".repeat(6_000))
                .with_evidence(vec!["y".repeat(5_000)])
        };
        let findings: Vec<Finding> = (0..20).map(finding).collect();
        let rooms = BTreeMap::from([(surefoot_model::Room::Checkpoint, RoomHealth::of(findings))]);
        let headline = Headline { severity: Severity::Warning, sentence: String::new() };
        let (version, host) = (Health::VERSION, String::new());
        let health = Health { version, updated_realtime_ns: 1, host, headline, data_age_ns: None, rooms };
        let text = text(&health).unwrap();
        assert!(text.len() as u64 <= Health::FILE_BYTES_MAX);
        let read: Health = serde_json::from_slice(&text).unwrap();
        let room = &read.rooms[&surefoot_model::Room::Checkpoint];
        assert_eq!(room.findings.len() as u64 + room.findings_left_out, 20);
        assert!(room.findings.len() > 5 && room.severity == Severity::Warning);
    }
}
