//! The archive from which a kernel takes its first files: the "new ASCII" format of cpio, as the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst` has it.

use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// What is in it; the second of two files with one name is left out, since only equal ones are added twice.
    names: BTreeSet<String>,
}

impl Archive {
    /// Adds a folder and those above it.
    pub(super) fn folder(&mut self, path: &str) {
        let mut name = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            name += &format!("/{part}");
            if self.names.insert(name.clone()) {
                self.entry(&name, FOLDER | 0o755, &[]);
            }
        }
    }

    /// Adds a file and the folders above it.
    pub(super) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        if let Some(folder) = Path::new(path).parent().and_then(Path::to_str) {
            self.folder(folder);
        }
        if self.names.insert(path.to_owned()) {
            self.entry(path, FILE | permissions, content);
        }
    }

    /// The archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let name = path.trim_start_matches('/');
        let number = self.names.len() as u32;
        // Inode, mode, owner, group, links, time, length, device twice, special device twice, length of name, checksum.
        let fields = [number, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn what_it_holds_is_read_by_another_program() {
        let Some(busybox) = super::super::programs::find("busybox") else {
            return crate::not_run::not_run(
                "guest::archive::what_it_holds_is_read_by_another_program",
                "busybox is not installed",
            );
        };
        let mut archive = Archive::default();
        archive.file("/lib/deep/file", 0o644, b"content");
        archive.file("/lib/deep/file", 0o644, b"content");
        archive.file("/run", 0o755, b"12345");
        let mut child = Command::new(busybox)
            .args(["cpio", "-tv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("busybox");
        child.stdin.take().expect("its input").write_all(&archive.finish()).expect("its input");
        let listed = String::from_utf8(child.wait_with_output().expect("its output").stdout).expect("text");
        let named: Vec<(&str, &str)> = listed
            .lines()
            .filter_map(|line| Some((line.split_whitespace().next()?, line.split_whitespace().last()?)))
            .collect();
        let all =
            [("drwxr-xr-x", "lib"), ("drwxr-xr-x", "lib/deep"), ("-rw-r--r--", "lib/deep/file"), ("-rwxr-xr-x", "run")];
        assert_eq!(named, all, "{listed}");
    }
}
