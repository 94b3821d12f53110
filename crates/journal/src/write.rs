//! Appends lines.

use crate::Limits;
use serde::Serialize;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Pause between two attempts to lock a journal.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A journal that is open for appending.
#[derive(Debug)]
pub struct Writer {
    file: File,
    limits: Limits,
    bytes: u64,
    /// Whether the file may end in a part of a line.
    is_torn: bool,
}

/// Why a line was not appended.
#[derive(Debug)]
pub enum NotWritten {
    /// The line is longer than [`Limits::line_bytes`]; its length.
    LineTooLong(usize),
    /// The file would grow beyond [`Limits::file_bytes`].
    Full,
    /// The system refused it.
    System(io::Error),
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWritten::LineTooLong(bytes) => write!(f, "the line is too long ({bytes} bytes)"),
            NotWritten::Full => f.write_str("the journal has reached its size limit"),
            NotWritten::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotWritten {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NotWritten::System(error) => Some(error),
            NotWritten::LineTooLong(_) | NotWritten::Full => None,
        }
    }
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        NotWritten::System(error)
    }
}

/// Why a journal could not be locked.
#[derive(Debug)]
pub enum NotLocked {
    /// Another process holds the lock.
    Held,
    /// The system refused it.
    System(io::Error),
}

impl Writer {
    /// Appends to an open file. It must be readable, so that the end of its last line can be seen.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is not a regular file; others of the system.
    pub fn new(file: File, limits: Limits) -> io::Result<Writer> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut writer = Writer { file, limits, bytes: found.len(), is_torn: false };
        writer.look_at_end()?;
        Ok(writer)
    }

    /// As [`Writer::new`] for a file that was opened otherwise: the same file, whatever its name leads to by now, is opened
    /// again for reading and appending.
    ///
    /// # Errors
    /// As [`Writer::new`], and when the file cannot be opened again.
    pub fn reopen(opened: &File, limits: Limits) -> io::Result<Writer> {
        if !opened.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let own = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string());
        Writer::new(OpenOptions::new().read(true).append(true).custom_flags(libc::O_NONBLOCK).open(own)?, limits)
    }

    /// Locks the journal for this process, and waits at most `patience` for another one. What was appended before is seen.
    ///
    /// # Errors
    /// [`NotLocked`].
    pub fn lock(&mut self, patience: Duration) -> Result<(), NotLocked> {
        let until = Instant::now() + patience;
        loop {
            match self.file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => return Err(NotLocked::Held),
                Err(TryLockError::Error(error)) => return Err(NotLocked::System(error)),
            }
        }
        self.look_at_end().map_err(NotLocked::System)
    }

    /// Appends a value as a line.
    ///
    /// # Errors
    /// [`NotWritten`]; the file then holds nothing of the line, or a part that the next line is kept apart from.
    pub fn append(&mut self, value: &impl Serialize) -> Result<(), NotWritten> {
        let text = serde_json::to_vec(value).map_err(io::Error::from)?;
        self.append_line(&text)
    }

    /// Appends a line that is JSON already; it must not contain a line feed.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_line(&mut self, text: &[u8]) -> Result<(), NotWritten> {
        let length = text.len() + 1;
        if length > self.limits.line_bytes {
            return Err(NotWritten::LineTooLong(length));
        }
        let mut line = Vec::with_capacity(length + 1);
        if self.is_torn {
            line.push(b'\n');
        }
        line.extend_from_slice(text);
        line.push(b'\n');
        if self.bytes.saturating_add(line.len() as u64) > self.limits.file_bytes {
            return Err(NotWritten::Full);
        }
        if let Err(error) = self.file.write_all(&line) {
            // How much of it is there is unknown until the end of the file is read again.
            self.is_torn = true;
            _ = self.look_at_end();
            return Err(error.into());
        }
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Waits until what was appended is on the medium.
    ///
    /// # Errors
    /// Of the system.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The length of the file, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the file ended in a part of a line when it was looked at last.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn look_at_end(&mut self) -> io::Result<()> {
        self.bytes = self.file.metadata()?.len();
        let mut last = [b'\n'];
        if self.bytes > 0 {
            self.file.read_exact_at(&mut last, self.bytes - 1)?;
        }
        self.is_torn = last != [b'\n'];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    const LIMITS: Limits = Limits { line_bytes: 16, file_bytes: 40 };

    fn journal(folder: &Path) -> (std::path::PathBuf, Writer) {
        let path = folder.join("journal");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        (path, Writer::reopen(&file, LIMITS).unwrap())
    }

    #[test]
    fn a_cut_line_is_ended_before_the_next_one_at_every_length() {
        let home = tempfile::tempdir().unwrap();
        let whole = b"[1]\n[22]\n";
        for cut in 0..=whole.len() {
            let (path, writer) = journal(home.path());
            drop(writer);
            fs::write(&path, &whole[..cut]).unwrap();
            let (_, mut writer) = journal(home.path());
            writer.append(&[3]).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with("\n[3]\n") || text == "[3]\n", "cut at {cut}: {text:?}");
            assert!(!text.contains("\n\n") && text.as_bytes().starts_with(&whole[..cut]), "cut at {cut}: {text:?}");
            assert_eq!(writer.bytes(), text.len() as u64);
        }
    }

    #[test]
    fn no_line_and_no_file_is_longer_than_its_limit_and_a_refused_line_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (path, mut writer) = journal(home.path());
        assert!(matches!(writer.append(&"x".repeat(14)), Err(NotWritten::LineTooLong(17))));
        assert_eq!(writer.bytes(), 0);
        let longest = "x".repeat(13);
        writer.append(&longest).unwrap();
        writer.append(&longest).unwrap();
        assert!(matches!(writer.append(&longest), Err(NotWritten::Full)));
        writer.append(&"12345").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 40);
    }

    #[test]
    fn another_writer_of_the_same_journal_is_seen_once_it_lets_go() {
        let home = tempfile::tempdir().unwrap();
        let (_, mut first) = journal(home.path());
        let (path, mut second) = journal(home.path());
        first.lock(Duration::ZERO).unwrap();
        assert!(matches!(second.lock(Duration::from_millis(60)), Err(NotLocked::Held)));
        first.file.write_all(b"[1").unwrap();
        drop(first);
        second.lock(Duration::ZERO).unwrap();
        second.append(&[2]).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "[1\n[2]\n");
    }

    #[test]
    #[ignore = "runs in a child process on a small disk"]
    fn child_on_a_small_disk() {
        let folder = std::path::PathBuf::from(std::env::var_os("SUREFOOT_TEST_FILE").unwrap());
        let file = File::create(folder.join("journal")).unwrap();
        let limits = Limits { line_bytes: 8 << 10, file_bytes: 1 << 30 };
        let mut writer = Writer::reopen(&file, limits).unwrap();
        let mut written = Vec::new();
        let mut number = 0;
        let refused = loop {
            number += 1;
            let line = (number, "x".repeat(6_000));
            match writer.append(&line) {
                Ok(()) => written.push(number),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(&refused, NotWritten::System(error) if error.raw_os_error() == Some(libc::ENOSPC)),
            "{refused}"
        );
        assert_eq!(writer.bytes(), file.metadata().unwrap().len(), "a part of a line counts");
        assert!(writer.is_torn, "6,000 bytes fill no whole number of pages");
        // What another file gives back is there for the next line.
        fs::remove_file(folder.join("other")).unwrap();
        writer.append(&(0, "after")).unwrap();
        let found = crate::newest(&file_to_read(&folder), limits, |line| {
            serde_json::from_slice::<(u64, String)>(line).ok().map(|(number, _)| number)
        });
        let found = found.unwrap();
        written.push(0);
        assert_eq!((found.lines, found.skipped_count), (written, 1));
    }

    fn file_to_read(folder: &Path) -> File {
        File::open(folder.join("journal")).unwrap()
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_next_line_stands_apart() {
        let home = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=64k,mode=700 surefoot-test \"$SUREFOOT_TEST_FILE\" && \
                      head -c 8192 /dev/zero > \"$SUREFOOT_TEST_FILE/other\" && exec \"$@\"";
        let child = "write::tests::child_on_a_small_disk";
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env("SUREFOOT_TEST_FILE", home.path())
            .output();
        let name = "write::tests::a_full_disk_is_an_error_and_the_next_line_stands_apart";
        let output = match output {
            Ok(output) => output,
            Err(error) => return surefoot_testkit::not_run::not_run(name, &format!("unshare cannot be run: {error}")),
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if !said.contains("running 1 test") {
            return surefoot_testkit::not_run::not_run(
                name,
                &format!("no file system can be mounted here: {}", said.trim()),
            );
        }
        assert!(output.status.success(), "{said}");
    }

    #[test]
    fn only_a_regular_file_is_a_journal() {
        let home = tempfile::tempdir().unwrap();
        let folder = File::open(home.path()).unwrap();
        assert_eq!(Writer::reopen(&folder, LIMITS).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let device = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert_eq!(Writer::reopen(&device, LIMITS).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
