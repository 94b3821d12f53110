//! The directory in which a running daemon tells other programs of itself. One daemon at a time does: the one that holds
//! the lock, a file that only its owner can open. Another one waits for its end, and neither replaces nor removes what
//! is not its own.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use surefoot_http::lock;

/// The lock's file; it holds the number of the process that has it.
const LOCK_NAME: &str = "health.lock";

/// Who may read a file that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Everybody.
    All,
    /// The daemon's user.
    Own,
}

#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The lock's file, as long as the lock is held; the kernel lets go of it however the process ends.
    lock: Option<File>,
    /// What is told in files of these names for as long as the daemon runs, and whether it is written.
    told: BTreeMap<String, (String, Readers, bool)>,
    is_closed: bool,
}

impl RunDirectory {
    /// # Errors
    /// When the directory cannot be written. That it is full is no error: it may have room later.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = RunDirectory { path: path.to_owned(), state: Mutex::default() };
        // Found out now, while somebody looks at the terminal.
        let prepared = directory.prepared("health.json");
        let tried = prepare(&prepared, Readers::Own).and_then(|_| fs::remove_file(&prepared));
        match tried.and_then(|()| directory.is_ours().map(drop)) {
            Err(error) if !is_full(&error) => Err(error),
            _ => Ok(directory),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process publishes here; tries to become it.
    ///
    /// # Errors
    /// When the lock's file cannot be opened. A file system without locks leaves it to whoever comes.
    pub(crate) fn is_ours(&self) -> io::Result<bool> {
        let mut state = lock(&self.state);
        let path = self.path.join(LOCK_NAME);
        // The directory may have gone, and the lock with it.
        if state.lock.as_ref().is_some_and(|own| !is_at(own, &path)) {
            state.lock = None;
        }
        if state.lock.is_none() && !state.is_closed {
            // Not the directory itself: whoever may open it could hold its lock.
            let mut file = open_lock(&path, true)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(false),
                // Whoever held it before may just have taken the file away.
                Ok(()) if !is_at(&file, &path) => return Ok(false),
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // It makes the message of others clearer; a full disk must not stop us.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            state.lock = Some(file);
            state.told.values_mut().for_each(|(_, _, is_written)| *is_written = false);
        }
        Ok(state.lock.is_some())
    }

    /// The process that publishes here, as far as it says so.
    pub(crate) fn owner(&self) -> Option<u32> {
        let mut file = open_lock(&self.path.join(LOCK_NAME), false).ok()?;
        file.rewind().ok()?;
        let mut text = String::new();
        file.take(16).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }

    /// Replaces a file as a whole. Not forced to the disk: after a crash its content is void anyway.
    pub(crate) fn replace(&self, name: &str, text: &[u8], readers: Readers) -> io::Result<()> {
        let prepared = self.prepared(name);
        let written = prepare(&prepared, readers)
            .and_then(|mut file| file.write_all(text))
            .and_then(|()| fs::rename(&prepared, self.path.join(name)));
        if written.is_err() {
            // Half a file would be in the way of nobody, but it would stay for ever.
            let _ = fs::remove_file(&prepared);
        }
        written
    }

    /// Tells this in a file until the end, as soon and as long as this process publishes here.
    ///
    /// # Errors
    /// When it cannot be written; [`RunDirectory::tell_waiting`] tries again.
    pub(crate) fn tell(&self, name: &str, text: String, readers: Readers) -> io::Result<()> {
        lock(&self.state).told.insert(name.to_owned(), (text, readers, false));
        self.tell_waiting()
    }

    /// Writes what is not yet written of what was told.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn tell_waiting(&self) -> io::Result<()> {
        if !self.is_ours()? {
            return Ok(());
        }
        let mut state = lock(&self.state);
        for (name, (text, readers, is_written)) in &mut state.told {
            if !*is_written {
                self.replace(name, text.as_bytes(), *readers)?;
                *is_written = true;
            }
        }
        Ok(())
    }

    /// Whether this is told in a file now.
    pub(crate) fn tells(&self, name: &str) -> bool {
        let state = lock(&self.state);
        state.lock.is_some() && state.told.get(name).is_some_and(|(_, _, is_written)| *is_written)
    }

    /// Whether this is told in a file of this process that somebody took away.
    pub(crate) fn has_lost(&self, name: &str) -> bool {
        let is_gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        self.tells(name) && fs::symlink_metadata(self.path.join(name)).is_err_and(is_gone)
    }

    /// Takes away what was told, and these files, and leaves the directory to others.
    pub(crate) fn close(&self, more: &[&str]) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        if let Some(own) = state.lock.take() {
            let lock_path = self.path.join(LOCK_NAME);
            let told = state.told.keys().map(String::as_str).chain(more.iter().copied());
            if is_at(&own, &lock_path) {
                told.for_each(|name| drop(fs::remove_file(self.path.join(name))));
                let _ = fs::remove_file(lock_path);
            }
        }
    }

    /// The name under which a file is prepared, which no other process uses.
    fn prepared(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.{}", std::process::id()))
    }
}

fn open_lock(path: &Path, creates: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(creates).create(creates).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{LOCK_NAME} is not a regular file"))),
    }
}

/// Creates a file. What lies there already is not written to: it may be a link or a pipe that somebody else has put
/// there.
fn prepare(path: &Path, readers: Readers) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mode = if readers == Readers::All { 0o644 } else { 0o600 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Whether this is the file that lies there now.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: &fs::Metadata, there: &fs::Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
    file.metadata().ok().zip(fs::symlink_metadata(path).ok()).is_some_and(|(own, there)| same(&own, &there))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_prepared_file_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let prepared = |name: &str| home.path().join(format!(".{name}.{}", std::process::id()));
        for name in ["health.json", "page-url"] {
            std::os::unix::fs::symlink(&victim, prepared(name)).unwrap();
            std::os::unix::fs::symlink(&victim, home.path().join(name)).unwrap();
        }
        let run = RunDirectory::open(home.path()).unwrap();
        run.tell("page-url", "secret".into(), Readers::Own).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::symlink_metadata(home.path().join("page-url")).unwrap().mode() & 0o777, 0o600);
        run.close(&[]);
        std::os::unix::fs::symlink(&victim, home.path().join(LOCK_NAME)).unwrap();
        assert!(RunDirectory::open(home.path()).is_err());
    }

    #[test]
    fn who_may_only_open_the_directory_cannot_take_its_place() {
        let home = tempfile::tempdir().unwrap();
        let held = File::open(home.path()).unwrap();
        held.try_lock().unwrap();
        assert!(RunDirectory::open(home.path()).unwrap().is_ours().unwrap());
        let lock = fs::metadata(home.path().join(LOCK_NAME)).unwrap();
        assert_eq!(lock.mode() & 0o777, 0o600, "nobody else can open it");
    }

    #[test]
    fn a_second_process_tells_nothing_until_the_first_has_ended_and_takes_nothing_of_its_away() {
        let home = tempfile::tempdir().unwrap();
        let said = |name: &str| fs::read_to_string(home.path().join(name)).unwrap_or_default();
        let first = RunDirectory::open(home.path()).unwrap();
        first.tell("address", "first".into(), Readers::All).unwrap();
        let second = RunDirectory::open(home.path()).unwrap();
        second.tell("address", "second".into(), Readers::All).unwrap();
        second.tell("page-url", "second".into(), Readers::Own).unwrap();
        assert!(!second.tells("address") && second.owner() == Some(std::process::id()));
        assert_eq!((said("address"), said("page-url")), ("first".into(), String::new()));
        let third = RunDirectory::open(home.path()).unwrap();
        third.tell("address", "third".into(), Readers::All).unwrap();
        third.close(&["health.json"]);
        assert_eq!(said("address"), "first");
        first.close(&[]);
        assert_eq!(said("address"), "");
        second.tell_waiting().unwrap();
        assert_eq!((said("address"), said("page-url")), ("second".into(), "second".into()));
        second.close(&[]);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        second.tell("address", "too late".into(), Readers::All).unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_was_replaced_is_told_everything_anew() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run");
        fs::create_dir(&path).unwrap();
        let run = RunDirectory::open(&path).unwrap();
        run.tell("address", "here".into(), Readers::All).unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert!(run.tell_waiting().is_err());
        fs::create_dir(&path).unwrap();
        run.tell_waiting().unwrap();
        assert_eq!(fs::read_to_string(path.join("address")).unwrap(), "here");
    }
}
