//! Plain tracepoints: how tracefs describes them, and the performance event that a program is attached to.
//!
//! libbpf could attach by name, but looks for tracefs at its two usual mount points; here it need not be mounted.

use crate::error::Error;
use libbpf_rs::{Link, ProgramMut};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A format file is a page at most.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where the kernel describes its plain tracepoints. Who attaches opens it: this crate looks for no files.
#[derive(Debug, Clone)]
pub enum Tracefs {
    /// The folder of tracefs, which may have been opened with `O_PATH`.
    Open(Arc<OwnedFd>),
    /// It cannot be had, so only BTF-typed tracepoints can be used.
    Absent {
        /// Why.
        why: String,
        /// What helps.
        remedy: String,
    },
}

impl Default for Tracefs {
    fn default() -> Self {
        Tracefs::Absent { why: "tracefs was not opened".into(), remedy: "use BTF-typed tracepoints".into() }
    }
}

impl Tracefs {
    /// The text of a tracepoint's format file; `None` when the kernel does not have the tracepoint.
    pub(crate) fn format(&self, group: &str, name: &str) -> Result<Option<String>, Error> {
        self.text(group, name, "format")
    }

    fn text(&self, group: &str, name: &str, file: &str) -> Result<Option<String>, Error> {
        let folder = match self {
            Tracefs::Open(folder) => folder,
            Tracefs::Absent { why, remedy } => {
                return Err(Error::Unsupported { why: why.clone(), remedy: remedy.clone() });
            }
        };
        let path = format!("events/{group}/{name}/{file}");
        match read_below(folder, &path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Format { path: PathBuf::from("tracefs").join(path), source }),
        }
    }
}

fn read_below(folder: &OwnedFd, path: &str) -> io::Result<String> {
    let path = CString::new(path)?;
    // SAFETY: the path ends with a zero byte and outlives the call, which only reads it.
    let opened = unsafe { libc::openat(folder.as_raw_fd(), path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    let file = unsafe { File::from_raw_fd(opened) };
    io::read_to_string(file.take(FILE_BYTES_MAX))
}

/// Attaches a program to a plain tracepoint.
pub(crate) fn attach(program: &ProgramMut<'_>, tracefs: &Tracefs, group: &str, name: &str) -> Result<Link, Error> {
    let refused = |why: String| Error::Refused { why: format!("cannot attach to {name}: {why}") };
    let text = tracefs.text(group, name, "id")?.ok_or_else(|| refused("the kernel does not have it".into()))?;
    let id = text.trim().parse().map_err(|_| refused(format!("'{}' is not a number of a tracepoint", text.trim())))?;
    let event = open_event(id).map_err(|error| refused(error.to_string()))?;
    let link = program.attach_perf_event(event.as_raw_fd()).map_err(|error| refused(error.to_string()))?;
    // The link closes the event when it is dropped.
    let _ = event.into_raw_fd();
    Ok(link)
}

/// Opens the performance event of a tracepoint. The core does not matter: a program on a tracepoint runs on all.
fn open_event(id: u64) -> io::Result<OwnedFd> {
    let attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_TRACEPOINT,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: id,
        ..Default::default()
    };
    let (all_tasks, first_core, no_group) = (-1, 0, -1);
    // SAFETY: `attributes` has the kernel's layout, tells its own size and outlives the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            all_tasks,
            first_core,
            no_group,
            libbpf_sys::PERF_FLAG_FD_CLOEXEC as libc::c_ulong,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
}
