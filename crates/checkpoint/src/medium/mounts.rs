//! The mount that an open file is on: a line of `/proc/self/mountinfo`, found by the number that `fdinfo` names.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use surefoot_model::unescape_octal;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The kernel's word for its file system, such as `ext4`.
    pub kind: String,
    /// What was mounted, such as `/dev/vda`.
    pub source: OsString,
    options: Vec<u8>,
}

impl Mount {
    /// The mount of an open file; `None` where /proc does not say it. A thread may have mounts of its own.
    pub(super) fn of(file: &File) -> Option<Self> {
        let info = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        Mount::find(&fs::read("/proc/thread-self/mountinfo").ok()?, number)
    }

    /// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    fn find(mountinfo: &[u8], number: &str) -> Option<Self> {
        let lines = mountinfo.split(|byte| *byte == b'\n');
        let line = lines.into_iter().find(|line| line.split(|byte| *byte == b' ').next() == Some(number.as_bytes()))?;
        let mut after = line.split(|byte| *byte == b' ').skip_while(|word| *word != b"-").skip(1);
        let (kind, source) = (unescape_octal(after.next()?), unescape_octal(after.next()?));
        let options = after.next().unwrap_or_default().to_vec();
        Some(Mount { kind: String::from_utf8_lossy(&kind).into_owned(), source: OsString::from_vec(source), options })
    }

    /// The path that an option of the file system has.
    pub(super) fn option(&self, name: &str) -> Option<PathBuf> {
        let mut options = self.options.split(|byte| *byte == b',');
        let value = options.find_map(|option| option.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        let mut escaped = unescape_octal(value).into_iter();
        let mut bytes = Vec::new();
        // An overlay keeps its options as they were given: a comma, colon or backslash behind a backslash.
        while let Some(byte) = escaped.next() {
            bytes.push(if byte == b'\\' { escaped.next()? } else { byte });
        }
        Some(PathBuf::from(OsString::from_vec(bytes)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_mount_is_found_by_its_number_and_its_texts_are_as_they_were() {
        let text = b"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
            nonsense\n\
            46 22 0:46 / /box rw master:3 - overlay over\\040lay rw,lowerdir=/a:/b,upperdir=/u\\040p\\134\\054x,workdir=/w\n\
            4 22 0:47 / /none\n";
        let mount = Mount::find(text, "46").unwrap();
        assert_eq!((mount.kind.as_str(), mount.source.as_bytes()), ("overlay", &b"over lay"[..]));
        assert_eq!(mount.option("upperdir").as_deref(), Some(Path::new("/u p,x")));
        assert_eq!(mount.option("dir"), None);
        assert_eq!((Mount::find(text, "4"), Mount::find(text, "6")), (None, None));
        let own = Mount::of(&File::open("/proc").unwrap()).unwrap();
        assert_eq!(own.kind, "proc");
    }
}
