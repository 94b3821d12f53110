//! Mounts that only one test sees.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Runs something in a thread whose mounts and whose mask of permissions nobody else sees.
pub fn apart<T: Send>(run: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: it concerns this thread alone, which ends here.
            match unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) } {
                0 => {}
                _ => return Err(format!("mounts of one's own are not allowed here: {}", io::Error::last_os_error())),
            }
            mount("none", None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, "")?;
            run()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Mounts a file system of this kind, or with `MS_BIND` what lies elsewhere.
pub fn mount(kind: &str, what: Option<&Path>, at: &Path, flags: libc::c_ulong, options: &str) -> Result<(), String> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (source, target) = (text(what.unwrap_or(Path::new(kind))), text(at));
    let (kind, options) = (CString::new(kind).unwrap(), CString::new(options).unwrap());
    // SAFETY: all texts end in a zero and outlive the call.
    let done = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    match done {
        0 => Ok(()),
        _ => Err(format!("{} cannot be mounted: {}", at.display(), io::Error::last_os_error())),
    }
}
