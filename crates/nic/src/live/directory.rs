//! The directory of a run: the memories of its interfaces and their doorbells, for its user alone.

use super::Error;
use crate::host::layout::control;
use crate::host::memory::HostMemory;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the parts of a run find each other.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// A new one, which must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let make = DirBuilder::new().mode(0o700).create(path);
        if matches!(&make, Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists) {
            let why =
                "it is there already; name one that is not, or remove it if it is left from a run that was killed";
            return Err(Error::Failed(format!("{}: {why}", path.display())));
        }
        make.map_err(Error::system(format!("make the run directory {}", path.display())))?;
        Ok(RunDirectory { path: path.to_owned() })
    }

    /// The one of a run that goes on.
    ///
    /// # Errors
    /// When it is not there, or belongs to somebody else.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let action = || format!("open the run directory {}", path.display());
        let found = std::fs::symlink_metadata(path).map_err(Error::system(action()))?;
        // SAFETY: takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
            let why = "it is not a directory of this user's alone; name that of a `nic run` that you started";
            return Err(Error::Failed(format!("{}: {why}", path.display())));
        }
        Ok(RunDirectory { path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A new file in it for its user alone.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_file(&self, name: &str) -> Result<File, Error> {
        let path = self.file(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options.open(&path).map_err(Error::system(format!("make {}", path.display())))
    }

    /// Makes the memory of a node's interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_memory(&self, node: u32, arena_bytes: u32) -> Result<HostMemory, Error> {
        let file = self.create_file(&format!("memory.{node}"))?;
        let memory = HostMemory::create(&file, node, arena_bytes);
        memory.map_err(Error::system(format!("make the memory of node {node} in {}", self.path.display())))
    }

    /// Maps the memory of a node's interface, with the bell that wakes it.
    ///
    /// # Errors
    /// What the system says, and when the file is something else.
    pub fn open_memory(&self, node: u32) -> Result<Arc<HostMemory>, Error> {
        let path = self.file(&format!("memory.{node}"));
        let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        if matches!(&open, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
            let why = format!("{} has no node {node}: a run has the nodes 0 and 1, until it ends", self.path.display());
            return Err(Error::Failed(why));
        }
        let memory = open.and_then(|file| HostMemory::open(&file));
        let memory = memory.map_err(Error::system(format!("map {}", path.display())))?;
        memory.set_bell(Box::new(self.bell(node)));
        Ok(Arc::new(memory))
    }

    /// What rings a node's doorbell.
    pub fn bell(&self, node: u32) -> impl Fn() + Send + Sync + use<> {
        let path = self.file(&format!("bell.{node}"));
        let socket: Mutex<Option<UnixDatagram>> = Mutex::new(None);
        move || {
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
        let path = self.file(&format!("bell.{node}"));
        // That of an interface that died.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        socket.map_err(Error::system(format!("make the doorbell {}", path.display())))
    }

    /// Removes it with all that is in it.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn connected(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

/// Tells everybody who shares this memory to end.
pub fn end(memory: &HostMemory) {
    memory.word(control::ENDING).store(1, std::sync::atomic::Ordering::SeqCst);
    memory.ring();
    (0..crate::host::layout::PORTS).for_each(|port| memory.wake_port(port));
}
