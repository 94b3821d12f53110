//! The directory of a run: the memories of its interfaces and their doorbells, for its user alone.

use super::Error;
use crate::host::layout::control;
use crate::host::memory::HostMemory;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Entries that are removed with it: many more than a run makes.
const ENTRIES_MAX: usize = 10_000;
/// How the directories that runs make by themselves begin; behind it is the number of a process.
pub const NAMES: [&str; 2] = ["surefoot-nic-", "surefoot-nic-bench-"];
/// A directory that is younger may be one that its run has just made and does not hold yet.
const LEFT_AGE: Duration = Duration::from_secs(60);

/// Where the parts of a run find each other.
///
/// It is held by a descriptor and worked in through that: its path may lead elsewhere a moment later, where a directory on the
/// way is another user's. So the path may also be longer than the name of a socket, or no text.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    /// For words alone.
    path: PathBuf,
    held: Arc<File>,
}

impl RunDirectory {
    /// A new one, which must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let name = name_of(path)?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let parent =
            enter(parent, libc::O_PATH).map_err(Error::system(format!("make the run directory {}", path.display())))?;
        Self::create_in(&parent, name, path)
    }

    /// A new one of this name in a directory that is held; the path is for words alone.
    ///
    /// # Errors
    /// As [`RunDirectory::create`].
    pub fn create_in(parent: &File, name: &OsStr, path: &Path) -> Result<Self, Error> {
        let at = within(parent, name);
        let make = DirBuilder::new().mode(0o700).create(&at);
        if matches!(&make, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            let why =
                "it is there already; name one that is not, or remove it if it is left from a run that was killed";
            return Err(Error::Failed(format!("{}: {why}", path.display())));
        }
        let made = make.and_then(|()| enter(&at, libc::O_NOFOLLOW));
        let held = made.map_err(Error::system(format!("make the run directory {}", path.display())))?;
        let directory = RunDirectory { path: path.to_owned(), held: Arc::new(held) };
        // As long as anybody of the run lives. Where there are no locks, nobody removes it either.
        let _ = directory.lock(libc::LOCK_SH);
        // Who owns the parent may have put another one in its place at once.
        let is_new = directory.is_own() && fs::read_dir(directory.file(".")).is_ok_and(|mut all| all.next().is_none());
        match is_new {
            true => Ok(directory),
            false => Err(Error::Failed(format!("{}: another one was put in its place", path.display()))),
        }
    }

    /// The one of a run that goes on.
    ///
    /// # Errors
    /// When it is not there, or belongs to somebody else.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let action = || format!("open the run directory {}", path.display());
        let is_link = fs::symlink_metadata(path).map_err(Error::system(action()))?.is_symlink();
        let held = if is_link { Err(io::ErrorKind::NotADirectory.into()) } else { enter(path, libc::O_NOFOLLOW) };
        let directory = match held {
            Ok(held) => Some(RunDirectory { path: path.to_owned(), held: Arc::new(held) }),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
            Err(error) => return Err(Error::system(action())(error)),
        };
        directory.filter(Self::is_own).ok_or_else(|| {
            let why = "it is not a directory of this user's alone; name that of a `nic run` that you started";
            Error::Failed(format!("{}: {why}", path.display()))
        })
    }

    /// The one that this process was started with.
    ///
    /// # Errors
    /// When that is none.
    pub fn inherited(descriptor: RawFd) -> Result<Self, Error> {
        // SAFETY: takes two numbers and returns a descriptor of its own or -1. The one that was inherited stays open, for the
        // processes that this one starts.
        let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(Error::last("take over the run directory"));
        }
        // SAFETY: the kernel has just given it to us.
        let held = File::from(unsafe { OwnedFd::from_raw_fd(own) });
        let path = fs::read_link(descriptor_path(&held)).unwrap_or_default();
        let directory = RunDirectory { path, held: Arc::new(held) };
        match directory.is_own() {
            true => Ok(directory),
            false => Err(Error::Failed(format!("run={descriptor}: it is not a directory of this user's alone"))),
        }
    }

    /// What the parts of a run inherit.
    pub fn descriptor(&self) -> RawFd {
        self.held.as_raw_fd()
    }

    /// Whether it is a directory of this user's alone.
    fn is_own(&self) -> bool {
        // SAFETY: takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let found = self.held.metadata();
        found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
    }

    /// Locks it for all who inherit it.
    fn lock(&self, how: libc::c_int) -> bool {
        // SAFETY: takes two numbers.
        unsafe { libc::flock(self.held.as_raw_fd(), how) == 0 }
    }

    /// Whether everybody who had it has ended, without removing it.
    fn is_left(&self) -> bool {
        let age = self.held.metadata().and_then(|found| found.modified()).map(|made| made.elapsed());
        matches!(age, Ok(Ok(age)) if age > LEFT_AGE) && self.lock(libc::LOCK_EX | libc::LOCK_NB)
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it, wherever it is now.
    pub fn file(&self, name: &str) -> PathBuf {
        within(&self.held, OsStr::new(name))
    }

    /// A file in it, for words.
    fn named(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// A new file in it for its user alone.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_file(&self, name: &str) -> Result<File, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options.open(self.file(name)).map_err(Error::system(format!("make {}", self.named(name))))
    }

    /// Makes the memory of a node's interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_memory(&self, node: u32, arena_bytes: u32) -> Result<HostMemory, Error> {
        // Under its name only when it is whole: a program may open it at any time.
        let (name, new) = (format!("memory.{node}"), format!("memory.{node}.new"));
        let file = self.create_file(&new)?;
        let memory = HostMemory::create(&file, node, arena_bytes)
            .and_then(|memory| fs::rename(self.file(&new), self.file(&name)).map(|()| memory));
        memory.map_err(Error::system(format!("make the memory of node {node} in {}", self.path.display())))
    }

    /// Maps the memory of a node's interface, with the bell that wakes it.
    ///
    /// # Errors
    /// What the system says, and when the file is something else.
    pub fn open_memory(&self, node: u32) -> Result<Arc<HostMemory>, Error> {
        let name = format!("memory.{node}");
        let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(self.file(&name));
        if matches!(&open, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
            let why = format!("{} has no node {node}: a run has the nodes 0 and 1, until it ends", self.path.display());
            return Err(Error::Failed(why));
        }
        let memory = open.and_then(|file| HostMemory::open(&file));
        let memory = memory.map_err(Error::system(format!("map {}", self.named(&name))))?;
        memory.set_bell(Box::new(self.bell(node)));
        Ok(Arc::new(memory))
    }

    /// What rings a node's doorbell.
    pub fn bell(&self, node: u32) -> impl Fn() + Send + Sync + use<> {
        let (path, held) = (self.file(&format!("bell.{node}")), Arc::clone(&self.held));
        let socket: Mutex<Option<UnixDatagram>> = Mutex::new(None);
        move || {
            // The path goes through it.
            let _ = &held;
            let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
            // An interface that was started anew has another socket under the same name.
            for _ in 0..2 {
                if socket.is_none() {
                    *socket = connected(&path).ok();
                }
                match socket.as_ref().map(|socket| socket.send(&[1])) {
                    Some(Ok(_)) => return,
                    // A full queue wakes as well.
                    Some(Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                    _ => *socket = None,
                }
            }
        }
    }

    /// The doorbell itself: becomes readable when somebody rings.
    ///
    /// # Errors
    /// What the system says.
    pub fn doorbell(&self, node: u32) -> Result<UnixDatagram, Error> {
        let name = format!("bell.{node}");
        let path = self.file(&name);
        // That of an interface that died.
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        socket.map_err(Error::system(format!("make the doorbell {}", self.named(&name))))
    }

    /// Removes it, wherever it is now, with the files that are in it. Nothing is followed or entered: whoever owns a directory on
    /// the way to it chooses nothing of what is removed. What cannot be removed stays.
    pub fn remove(&self) {
        let _ = self.try_remove();
    }

    fn try_remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.file("."))?.take(ENTRIES_MAX) {
            let name = entry?.file_name();
            let _ = fs::remove_file(within(&self.held, &name));
        }
        let is_at = fs::read_link(descriptor_path(&self.held))?;
        let name = is_at.file_name().ok_or(io::ErrorKind::NotFound)?;
        let parent = enter(&self.file(".."), libc::O_PATH)?;
        let at = within(&parent, name);
        let (found, own) = (fs::symlink_metadata(&at)?, self.held.metadata()?);
        if (found.dev(), found.ino()) != (own.dev(), own.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Only where it is empty.
        fs::remove_dir(at)
    }
}

/// Holds a directory.
fn enter(path: &Path, flags: libc::c_int) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | flags).open(path)
}

fn descriptor_path(directory: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string())
}

/// A name in a directory that is held.
fn within(directory: &File, name: &OsStr) -> PathBuf {
    descriptor_path(directory).join(name)
}

fn name_of(path: &Path) -> Result<&OsStr, Error> {
    let why = || Error::Failed(format!("{}: it names no directory that can be made", path.display()));
    path.file_name().ok_or_else(why)
}

fn connected(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

/// Removes what this user's runs have left there when all of their processes were killed.
pub fn remove_left(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let is_ours = |name: &str| {
        let mut numbers = NAMES.iter().filter_map(|prefix| name.strip_prefix(prefix));
        numbers.any(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for entry in entries.take(ENTRIES_MAX).filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(is_ours)
            && let Ok(directory) = RunDirectory::open(&entry.path())
            && directory.is_left()
        {
            directory.remove();
        }
    }
}

/// Tells everybody who shares this memory to end.
pub fn end(memory: &HostMemory) {
    memory.word(control::ENDING).store(1, std::sync::atomic::Ordering::SeqCst);
    memory.ring();
    (0..crate::host::layout::PORTS).for_each(|port| memory.wake_port(port));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_run_removes_its_own_directory_wherever_it_is_and_not_what_its_path_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("theirs")).unwrap();
        let run = RunDirectory::create(&at("theirs/run")).unwrap();
        run.create_memory(0, 4096).unwrap();
        let bell = run.doorbell(0).unwrap();
        // Who owns the parent turns the path to another directory.
        fs::create_dir_all(at("victim/run/below")).unwrap();
        fs::write(at("victim/run/bell.0"), "precious").unwrap();
        fs::rename(at("theirs"), at("moved")).unwrap();
        symlink(at("victim"), at("theirs")).unwrap();
        run.bell(0)();
        run.open_memory(0).unwrap();
        assert_eq!(bell.recv(&mut [0; 8]).unwrap(), 1, "its parts find one another all the same");
        run.doorbell(0).unwrap();
        run.remove();
        assert_eq!(fs::read(at("victim/run/bell.0")).unwrap(), b"precious");
        assert!(at("victim/run/below").exists());
        assert!(!at("moved/run").exists(), "and what it made is gone");
        assert!(at("moved").exists());
    }

    #[test]
    fn what_runs_have_left_is_removed_and_what_one_holds_or_made_just_now_is_not() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let old = std::time::SystemTime::now() - 2 * LEFT_AGE;
        let made = |name: &str| {
            let run = RunDirectory::create(&at(name)).unwrap();
            run.create_memory(0, 4096).unwrap();
            run.held.set_modified(old).unwrap();
            run
        };
        let held = made("surefoot-nic-1");
        drop(made("surefoot-nic-2"));
        drop(made("surefoot-nic-bench-3"));
        drop(made("surefoot-nic-mine"));
        drop(RunDirectory::create(&at("surefoot-nic-4")).unwrap());
        remove_left(home.path());
        let left = ["1", "2", "bench-3", "mine", "4"].map(|name| at(&format!("surefoot-nic-{name}")).exists());
        assert_eq!(left, [true, false, false, true, true]);
        held.remove();
    }

    #[test]
    fn what_stands_in_its_place_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let run = RunDirectory::create(&at("run")).unwrap();
        fs::rename(at("run"), at("away")).unwrap();
        fs::create_dir(at("run")).unwrap();
        fs::write(at("run/file"), "precious").unwrap();
        run.remove();
        assert!(at("run/file").exists() && !at("away").exists());
        assert!(RunDirectory::create(&at("run")).unwrap_err().to_string().contains("there already"));
        symlink(at("run"), at("link")).unwrap();
        assert!(RunDirectory::open(&at("link")).unwrap_err().to_string().contains("this user's alone"));
    }

    #[test]
    fn a_path_may_be_longer_than_the_name_of_a_socket_and_no_text() {
        use std::os::unix::ffi::OsStrExt;
        let home = tempfile::tempdir().unwrap();
        for name in [&[b'x'; 200][..], b"run-\xff"] {
            let path = home.path().join(OsStr::from_bytes(name));
            let run = RunDirectory::create(&path).unwrap();
            let bell = run.doorbell(1).unwrap();
            run.create_memory(1, 4096).unwrap();
            let by_others = RunDirectory::open(&path).unwrap();
            by_others.open_memory(1).unwrap();
            by_others.bell(1)();
            assert_eq!(bell.recv(&mut [0; 8]).unwrap(), 1);
            run.remove();
            assert!(!path.exists());
        }
    }
}
