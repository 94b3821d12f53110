//! The real file system.

use super::{LISTED_MAX, Named, Storage, StoredFile};
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(Named::of(path)?)
    }

    fn expect_own_directory(&self, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(Named::of(path)?)?;
        // SAFETY: it only reads a number.
        let user = unsafe { libc::geteuid() };
        let why = match () {
            () if metadata.is_symlink() => "it is a symbolic link",
            () if !metadata.is_dir() => "it is not a directory",
            () if metadata.uid() != user => "it belongs to another user",
            () => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    fn create_file(&self, path: &Path, bytes: u64, direct: bool) -> io::Result<Box<dyn StoredFile>> {
        let path = Named::of(path)?;
        let open = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | flags).open(&path)
        };
        // A file system that cannot pass the page cache says so at opening; then through the cache is right as well.
        let file = match direct {
            true => open(libc::O_DIRECT).or_else(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => {
                    let _ = fs::remove_file(&path);
                    open(0)
                }
                _ => Err(error),
            }),
            false => open(0),
        }?;
        if bytes > 0
            && let Err(error) = allocate(&file, bytes)
        {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(file))
    }

    fn open_file(&self, path: &Path, writable: bool) -> io::Result<Box<dyn StoredFile>> {
        // A pipe or a device in place of a file is not opened.
        let found = surefoot_foreign::hold_name(&Named::of(path)?)?.regular()?;
        let file = if writable { found.open_to_write()? } else { found.open()? };
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(Named::of(from)?, Named::of(to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(Named::of(path)?)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(Named::of(path)?)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(Named::directory(path)?)?.sync_all()
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        let directory = Named::directory(path)?;
        for entry in fs::read_dir(&directory)? {
            if names.len() == LISTED_MAX {
                return Err(io::Error::other(format!("it has more than {LISTED_MAX} entries")));
            }
            names.push(PathBuf::from(entry?.file_name()));
        }
        names.sort();
        Ok(names)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let named = Named::of(path)?;
            let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK).open(&named)?;
            // SAFETY: the descriptor is open; no memory is passed.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // Whoever held it may have removed it meanwhile; then it keeps nobody away.
            let number = |found: &fs::Metadata| (found.dev(), found.ino());
            match fs::symlink_metadata(&named) {
                Ok(found) if number(&found) == number(&file.metadata()?) => return Ok(Box::new(file)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let path = Named::directory(path)?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let status = room(|status| {
            // SAFETY: the path ends in a zero; the kernel fills the struct when it returns 0.
            unsafe { libc::statvfs(path.as_ptr(), status) }
        })?;
        Ok(match status.f_blocks {
            0 => u64::MAX,
            _ => status.f_bavail.saturating_mul(status.f_frsize),
        })
    }
}

/// Room that is taken at once, and the least that is: a signal takes back what a memory file system has given in the
/// call that it interrupts, so that a program with a fast timer would never get a large file in one.
const ALLOCATED_BYTES: u64 = 64 << 20;
const ALLOCATED_BYTES_MIN: u64 = 64 << 10;

/// Signals in a row that interrupt the least piece before it is an error.
const INTERRUPTIONS_MAX: u32 = 10_000;

/// Takes the room now, so that no later write, and no access through a mapping, finds the file system full.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let too_far = |_| io::Error::from_raw_os_error(libc::EFBIG);
    i64::try_from(bytes).map_err(too_far)?;
    // In pieces, what can never be had would fill the file system for everybody before it is refused.
    if let Some(free_bytes) = free_beneath(file)?
        && bytes.saturating_sub(file.metadata()?.blocks().saturating_mul(512)) > free_bytes
    {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    let (mut taken, mut piece, mut interruptions) = (0, ALLOCATED_BYTES, 0);
    while taken < bytes {
        let now = piece.min(bytes - taken);
        // SAFETY: the descriptor is open for as long as `file` lives; no memory is passed. Both numbers are at most `bytes`.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, taken as i64, now as i64) } == 0 {
            (taken, interruptions) = (taken + now, 0);
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) if interruptions < INTERRUPTIONS_MAX => {
                interruptions += 1;
                piece = (piece / 2).max(ALLOCATED_BYTES_MIN);
            }
            // File systems without it grow the file as it is written.
            Some(libc::EOPNOTSUPP) => return file.set_len(bytes),
            _ => return Err(error),
        }
    }
    Ok(())
}

/// What a call says of a file system that fills the struct it is given and returns 0, or says why not.
fn room(ask: impl FnOnce(*mut libc::statvfs) -> libc::c_int) -> io::Result<libc::statvfs> {
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    match ask(status.as_mut_ptr()) {
        // SAFETY: every field is a number, for which zeros are good as well.
        0 => Ok(unsafe { status.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What is free on a file's file system, root's share included; `None` where it has no limit, or reports none.
fn free_beneath(file: &File) -> io::Result<Option<u64>> {
    let status = room(|status| {
        // SAFETY: the descriptor is open for as long as `file` lives; the kernel fills the struct when it returns 0.
        unsafe { libc::fstatvfs(file.as_raw_fd(), status) }
    })?;
    Ok((status.f_blocks > 0).then(|| status.f_bfree.saturating_mul(status.f_frsize)))
}

/// Makes a hole of a part of a file.
fn give_back(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let too_far = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let (offset, bytes) = (i64::try_from(offset).map_err(too_far)?, i64::try_from(bytes).map_err(too_far)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open for as long as `file` lives; no memory is passed.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl StoredFile for File {
    fn release(&self) -> io::Result<()> {
        if self.metadata()?.nlink() == 1 { self.set_len(0) } else { Ok(()) }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn renew_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.write_all_at(bytes, offset) {
            // A page that the kernel has given up stays where it is until the file has no page there any more.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                give_back(self, offset, bytes.len() as u64)?;
                self.write_all_at(bytes, offset)
            }
            written => written,
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_is_created_is_private_and_new_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("job");
        Disk.create_directory(&directory).unwrap();
        let path = directory.join("file");
        let file = Disk.create_file(&path, 8192, true).unwrap();
        assert_eq!(file.length().unwrap(), 8192);
        for (path, mode) in [(&directory, 0o700), (&path, 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(Disk.create_file(&path, 0, false).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        let link = directory.join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(Disk.open_file(&link, false).err().unwrap().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(Disk.list_directory(&directory).unwrap(), [PathBuf::from("file"), PathBuf::from("link")]);
        assert!(Disk.open_file(&directory, false).is_err());
        Disk.expect_own_directory(&directory).unwrap();
        let elsewhere = home.path().join("elsewhere");
        symlink(&directory, &elsewhere).unwrap();
        assert!(Disk.expect_own_directory(&elsewhere).unwrap_err().to_string().contains("symbolic link"));
        assert!(Disk.expect_own_directory(&path).is_err());
    }

    #[test]
    fn root_does_nothing_behind_a_link_that_another_user_puts_in_a_directory_s_place() {
        if surefoot_foreign::way::own_user() != 0 {
            return surefoot_testkit::not_run::not_run(
                "a link in a directory's place",
                "only root can give a link away",
            );
        }
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for directory in ["theirs", "theirs/drive", "theirs/drive/job", "victim", "victim/job", "victim/job/empty"] {
            fs::create_dir(at(directory)).unwrap();
        }
        fs::write(at("victim/job/file"), b"root's").unwrap();
        let (job, file) = (at("theirs/drive/job"), at("theirs/drive/job/file"));
        let give_away = |path: &str| std::os::unix::fs::lchown(at(path), Some(65_534), Some(65_534)).unwrap();
        give_away("theirs");
        Disk.create_file(&file, 0, false).unwrap();
        fs::rename(at("theirs/drive"), at("theirs/away")).unwrap();
        symlink(at("victim"), at("theirs/drive")).unwrap();
        give_away("theirs/drive");
        let refused = [
            Disk.create_directory(&job.join("new")).err(),
            Disk.expect_own_directory(&job).err(),
            Disk.create_file(&job.join("new"), 0, true).err(),
            Disk.open_file(&file, true).err(),
            Disk.rename(&file, &job.join("new")).err(),
            Disk.remove_file(&file).err(),
            Disk.remove_directory(&job.join("empty")).err(),
            Disk.sync_directory(&job).err(),
            Disk.list_directory(&job).err(),
            Disk.lock(&job.join("lock")).err(),
            Disk.free_bytes(&job).err(),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            let why = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(why.contains("root does not follow"), "{number}: {why:?}");
        }
        let mut left: Vec<_> =
            fs::read_dir(at("victim/job")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["empty", "file"]);
    }

    #[test]
    fn only_one_has_a_lock() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let first = Disk.lock(&path).unwrap();
        assert_eq!(Disk.lock(&path).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        assert!(Disk.lock(&path).is_ok());
    }

    /// Has the kernel interrupt this thread whenever it asks for more room than so many bytes at once.
    fn interrupt_beyond(bytes: u32) {
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let jump = libc::BPF_JMP | libc::BPF_K;
        let mut steps = [
            // The number of the call; the low half of its fourth argument.
            step(load, 0, 0, 0),
            step(jump | libc::BPF_JEQ, 0, 3, libc::SYS_fallocate as u32),
            step(load, 0, 0, 16 + 3 * 8),
            step(jump | libc::BPF_JGT, 0, 1, bytes),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINTR as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the filter is read during the call, and only this thread gets it.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
        }
    }

    #[test]
    fn a_signal_does_not_keep_a_file_from_its_room() {
        let home = tempfile::tempdir().unwrap();
        let made = |piece_bytes: u32, name: &str, bytes: u64| {
            let path = home.path().join(name);
            let make = || {
                interrupt_beyond(piece_bytes);
                Disk.create_file(&path, bytes, false).and_then(|file| file.length())
            };
            std::thread::scope(|scope| scope.spawn(make).join().unwrap())
        };
        assert_eq!(made(1 << 20, "file", 5_000_000).unwrap(), 5_000_000);
        assert!(fs::metadata(home.path().join("file")).unwrap().blocks() * 512 >= 5_000_000, "its room is taken");
        // Signals without an end are an error in the end.
        let error = made(0, "never", 5_000_000).unwrap_err();
        assert!(error.kind() == io::ErrorKind::Interrupted && !home.path().join("never").exists(), "{error}");
        // What there is no room for is refused before a byte of it is asked for.
        let error = made(0, "huge", 1 << 50).unwrap_err();
        assert!(error.kind() == io::ErrorKind::StorageFull && !home.path().join("huge").exists(), "{error}");
    }

    #[test]
    fn bytes_come_back_and_the_room_is_taken_at_once() {
        let home = tempfile::tempdir().unwrap();
        let file = Disk.create_file(&home.path().join("file"), 4096, false).unwrap();
        file.write_at(b"word", 100).unwrap();
        file.sync().unwrap();
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, 100).unwrap();
        assert_eq!(&bytes, b"word");
        assert_eq!(file.read_at(&mut bytes, 4094).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(Disk.free_bytes(home.path()).unwrap() > 0);
        let too_much = Disk.create_file(&home.path().join("huge"), 1 << 60, false);
        assert!(too_much.is_err() && !home.path().join("huge").exists());
    }

    #[test]
    #[ignore = "runs in a child process on a file system that reports no blocks"]
    fn child_where_no_blocks_are_reported() {
        let folder = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
        assert_eq!(Disk.free_bytes(&folder).unwrap(), u64::MAX, "unknown is not 0");
        let file = Disk.create_file(&folder.join("file"), 1 << 20, false).unwrap();
        file.write_at(b"word", 100).unwrap();
    }

    #[test]
    fn a_file_system_that_reports_no_blocks_is_not_a_full_one() {
        const NAME: &str = "storage::disk::tests::a_file_system_that_reports_no_blocks_is_not_a_full_one";
        let home = tempfile::tempdir().unwrap();
        // Without a limit, a file system in memory reports 0 blocks, 0 of them free.
        let script = "mount -t tmpfs -o size=0,mode=700 surefoot-test \"$SUREFOOT_TEST_FOLDER\" && exec \"$@\"";
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "storage::disk::tests::child_where_no_blocks_are_reported", "--ignored", "--nocapture"])
            .env("SUREFOOT_TEST_FOLDER", home.path())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return surefoot_testkit::not_run::not_run(NAME, &format!("unshare cannot be run: {error}")),
        };
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !said.contains("running 1 test") {
            let why = format!("no file system can be mounted here: {}", said.trim());
            return surefoot_testkit::not_run::not_run(NAME, &why);
        }
        assert!(output.status.success(), "{said}");
    }
}
