//! A file that a command keeps between its runs: read at the beginning, replaced as a whole at the end.

use super::{directory, own_user};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::way::{self, sync, within};
use surefoot_model::Digits;

/// Names that are tried for the new file, beside the one that it replaces.
const NAMES_MAX: u32 = 16;
/// Entries of the directory that are looked at for what a stopped process left.
const ENTRIES_MAX: usize = 10_000;

/// A name in a directory that is held, at which there is nothing or a regular file of this user's with no other name. Anything else is
/// refused when it is opened and again before it is replaced: a rename would put a file in the place of a device or a pipe just as
/// well.
#[derive(Debug)]
pub struct Replaced {
    directory: File,
    name: OsString,
    path: PathBuf,
}

impl Replaced {
    /// Looks at what is there, and takes away new files that a process left which was stopped while it wrote them.
    ///
    /// # Errors
    /// What the kernel says; of kind `PermissionDenied` for a link, for what is no regular file, for a file of another user and
    /// for one that has a second name.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| refused("it names a directory: name a file".into()))?.to_owned();
        let held = Replaced { directory: directory(path)?, name, path: path.to_owned() };
        held.is_fit(&held.name)?;
        // What cannot be taken away is in nobody's way.
        let _ = held.sweep();
        Ok(held)
    }

    /// Removes new files of this name whose process is gone: own regular files that nobody holds. Whoever writes one holds its lock, so
    /// that a process of another container, whose number means nothing here, keeps its own.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.at(OsStr::new(".")))?.take(ENTRIES_MAX) {
            let name = entry?.file_name();
            let Some(process) = self.process_of(&name) else { continue };
            let is_gone = !Path::new("/proc").join(process.to_string()).exists();
            if !is_gone || fs::symlink_metadata(self.at(&name)).and_then(|found| fit(&found)).is_err() {
                continue;
            }
            self.remove_unless_held(&name, false)?;
        }
        Ok(())
    }

    /// Removes an own new file that nobody writes, and where the file system has no locks one that nobody else could write; whether
    /// it is gone.
    fn remove_unless_held(&self, name: &OsStr, is_of_our_number: bool) -> io::Result<bool> {
        let file = match surefoot_foreign::hold_in(&self.directory, name).and_then(|held| held.regular()?.open()) {
            // Whoever wrote it has put it in its place meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::Error(_)) if is_of_our_number => {}
            Err(_) => return Ok(false),
        }
        // Once it is locked, nobody but us moves it; another may have the name by now.
        let [ours, named] = [file.metadata().ok(), fs::symlink_metadata(self.at(name)).ok()]
            .map(|about| about.map(|about| (about.dev(), about.ino())));
        match named {
            None => Ok(true),
            named if named == ours => fs::remove_file(self.at(name)).map(|()| true),
            Some(_) => Ok(false),
        }
    }

    /// The process that makes, or made, a new file of this name: `NAME.PROCESS.NUMBER`.
    fn process_of(&self, name: &OsStr) -> Option<u32> {
        let ending = name.as_bytes().strip_prefix(self.name.as_bytes())?.strip_prefix(b".")?;
        let (process, number) = std::str::from_utf8(ending).ok()?.split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        let number: u32 = number.digits().filter(|_| is_number(number))?;
        process.digits().filter(|_| is_number(process) && number < NAMES_MAX)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content and its mode; `None` where there is no file yet.
    ///
    /// # Errors
    /// What the kernel says, and `FileTooLarge` for one that is longer than `bytes_max`.
    pub fn read(&self, bytes_max: u64) -> io::Result<Option<(Vec<u8>, u32)>> {
        let file = match surefoot_foreign::hold_in(&self.directory, &self.name).and_then(|held| held.regular()?.open())
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = file.metadata()?;
        fit(&found)?;
        let mut bytes = Vec::new();
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes")));
        }
        Ok(Some((bytes, found.mode() & 0o7777)))
    }

    /// Renames the file that is there: `ending` is put behind its name.
    ///
    /// # Errors
    /// What the kernel says; as [`Replaced::open`] for what stands at the new name.
    pub fn put_aside(&self, ending: &str) -> io::Result<()> {
        let aside = self.beside(ending);
        self.is_fit(&aside)?;
        self.is_fit(&self.name)?;
        fs::rename(self.at(&self.name), self.at(&aside)).and_then(|()| sync(&self.directory))
    }

    /// Writes a new file, for its owner alone, and puts it in the place of the old one once it is on the disk. When this returns, its
    /// name is on the disk as well.
    ///
    /// # Errors
    /// What the kernel says, and what [`Replaced::open`] refuses; what was there before then stays. After an error of the last step
    /// the new file is in place, and a power failure may bring back the old one.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, |new| self.is_fit(&self.name).and_then(|()| fs::rename(self.at(new), self.at(&self.name))))
    }

    /// The same where there is no file yet: whoever finds one finds it whole. `false` where there is one by now, which stays as it is.
    ///
    /// # Errors
    /// As [`Replaced::replace`].
    pub fn create(&self, bytes: &[u8]) -> io::Result<bool> {
        match self.write(bytes, |new| way::rename_new(&self.directory, new, &self.name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            created => created.map(|()| true),
        }
    }

    fn write(&self, bytes: &[u8], place: impl FnOnce(&OsStr) -> io::Result<()>) -> io::Result<()> {
        let (new, mut file) = self.new_file()?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| place(&new));
        if placed.is_err() {
            // It is ours and new; where even this fails, the message has said what did.
            let _ = fs::remove_file(self.at(&new));
        }
        placed.and_then(|()| sync(&self.directory))
    }

    /// A new file beside the name. What a process of this number left that was stopped is taken away, and left to one in another
    /// container that writes it.
    fn new_file(&self) -> io::Result<(OsString, File)> {
        let process = std::process::id();
        let mut number = 0;
        while number < NAMES_MAX {
            let name = self.beside(&format!(".{process}.{number}"));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            match options.open(self.at(&name)) {
                Ok(file) => match file.try_lock() {
                    // One of this number, in another thread or container, took it for left behind before it was locked.
                    Err(fs::TryLockError::WouldBlock) => number += 1,
                    Ok(()) if file.metadata()?.nlink() == 0 => number += 1,
                    // Where the file system has no locks, the number of the process alone keeps it.
                    Ok(()) | Err(fs::TryLockError::Error(_)) => return Ok((name, file)),
                },
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if self.is_fit(&name).is_ok() && self.remove_unless_held(&name, true)? => {}
                Err(_) => number += 1,
            }
        }
        Err(refused("others have taken the names beside it: name a file in a directory of your own".into()))
    }

    fn beside(&self, ending: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(ending);
        name
    }

    fn at(&self, name: &OsStr) -> PathBuf {
        within(&self.directory, name)
    }

    /// Whether what is at a name of the directory may be renamed or replaced.
    fn is_fit(&self, name: &OsStr) -> io::Result<()> {
        match fs::symlink_metadata(self.at(name)) {
            Ok(found) => fit(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn fit(found: &fs::Metadata) -> io::Result<()> {
    Err(refused(match () {
        () if found.is_symlink() => "it is a symbolic link: name the file that it leads to".into(),
        () if !found.is_file() => "it is no regular file: name a file, or a name at which there is nothing yet".into(),
        () if found.uid() != own_user()? => {
            format!("it belongs to the user with number {}: name a file of your own", found.uid())
        }
        () if found.nlink() > 1 => "it has another name, too: name a new file".into(),
        () => return Ok(()),
    }))
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown, symlink};
    use std::process::Command;
    use surefoot_testkit::durable::{calls_of, is_synced_after};

    fn made(program: &str, arguments: &[&str], path: &Path) -> bool {
        Command::new(program).arg(path).args(arguments).status().is_ok_and(|status| status.success())
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    #[ignore = "runs in a child process under strace"]
    fn child_replaces_a_file_and_puts_it_aside() {
        let folder = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
        let held = Replaced::open(&folder.join("state")).unwrap();
        held.replace(b"new").unwrap();
        held.put_aside(".old").unwrap();
    }

    #[test]
    fn the_names_of_a_replaced_file_are_on_the_medium() {
        let test = "output::replaced::tests::the_names_of_a_replaced_file_are_on_the_medium";
        let child = "output::replaced::tests::child_replaces_a_file_and_puts_it_aside";
        let home = tempfile::tempdir().unwrap();
        let Some(calls) = calls_of(test, child, home.path()) else { return };
        let renames: Vec<usize> = (0..calls.len()).filter(|&at| calls[at].contains("rename")).collect();
        assert_eq!(renames.len(), 2, "{calls:#?}");
        let is_rename = |call: &str| call.contains("rename");
        for until in [renames[1], calls.len()] {
            assert!(is_synced_after(&calls[..until], is_rename, home.path()), "{calls:#?}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_is_its_owner_s_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let held = Replaced::open(&path).unwrap();
        assert_eq!(held.read(10).unwrap(), None);
        held.replace(b"one").unwrap();
        assert_eq!(held.read(3).unwrap(), Some((b"one".to_vec(), 0o600)));
        assert_eq!(held.read(2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // What a stopped process of this number left behind does not stop this one.
        fs::write(home.path().join(format!("state.{}.0", std::process::id())), "left").unwrap();
        held.replace(b"two").unwrap();
        // One of this number in another container, which writes one, keeps it.
        let theirs = home.path().join(format!("state.{}.0", std::process::id()));
        fs::write(&theirs, "theirs").unwrap();
        let writing = File::open(&theirs).unwrap();
        writing.lock().unwrap();
        held.replace(b"two").unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
        drop(writing);
        fs::remove_file(&theirs).unwrap();
        held.put_aside(".refused").unwrap();
        held.replace(b"three").unwrap();
        assert_eq!(names(home.path()), ["state", "state.refused"]);
        assert_eq!(fs::read(home.path().join("state.refused")).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_at_the_next_start_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: String| home.path().join(name);
        let mut gone = Command::new("true").spawn().unwrap();
        let dead = gone.id();
        gone.wait().unwrap();
        let (own, held) = (std::process::id(), format!("state.{dead}.2"));
        let kept = [
            "state".into(),
            format!("state.{own}.0"),
            held.clone(),
            format!("state.{dead}.x"),
            format!("state.{dead}.99"),
            format!("state.{dead}"),
            format!("other.{dead}.0"),
            "state.refused".into(),
        ];
        for name in kept.iter().chain([&format!("state.{dead}.0"), &format!("state.{dead}.1")]) {
            fs::write(at(name.clone()), "left").unwrap();
        }
        symlink(at("state".into()), at(format!("state.{dead}.3"))).unwrap();
        // As one that is being written in another container, where numbers are others.
        let writing = File::open(at(held)).unwrap();
        writing.lock().unwrap();
        Replaced::open(&at("state".into())).unwrap();
        let mut expected = kept.to_vec();
        expected.push(format!("state.{dead}.3"));
        expected.sort();
        assert_eq!(names(home.path()), expected);
    }

    /// A device node like /dev/null, a pipe, a socket, a folder, a link: a rename would replace any of them.
    #[test]
    fn nothing_but_an_own_regular_file_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        assert!(made("mkfifo", &[], &at("pipe")));
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("none"), at("dangling")).unwrap();
        fs::write(at("one"), "").unwrap();
        fs::hard_link(at("one"), at("other")).unwrap();
        let mut cases = vec!["pipe", "socket", "folder", "link", "dangling", "other"];
        // Only root can make a device or give a file away.
        if made("mknod", &["c", "1", "3"], &at("device")) {
            cases.push("device");
        }
        fs::write(at("foreign"), "").unwrap();
        if chown(at("foreign"), Some(65_534), Some(65_534)).is_ok() {
            cases.push("foreign");
        }
        let before = names(home.path());
        for name in cases {
            let error = Replaced::open(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
            // The same where it comes there while the command runs.
            let late = Replaced { name: name.into(), ..Replaced::open(&at("new")).unwrap() };
            assert!(late.replace(b"counts").is_err() && late.put_aside(".refused").is_err(), "{name}");
            let aside = Replaced::open(&at("victim")).unwrap();
            assert!(Replaced { name: "victim".into(), ..aside }.is_fit(OsStr::new(name)).is_err(), "{name}");
        }
        assert_eq!(names(home.path()), before);
        assert!(fs::symlink_metadata(at("pipe")).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert!(Replaced::open(Path::new("/")).is_err());
    }

    #[test]
    fn a_file_is_not_put_aside_over_what_is_no_file_of_one_s_own() {
        let home = tempfile::tempdir().unwrap();
        let held = Replaced::open(&home.path().join("state")).unwrap();
        held.replace(b"counts").unwrap();
        assert!(made("mkfifo", &[], &home.path().join("state.refused")));
        assert!(held.put_aside(".refused").is_err());
        assert_eq!(held.read(10).unwrap().unwrap().0, b"counts");
    }
}
