//! Programs of this machine, and the libraries that they need to start.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program by its name.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// The absolute paths of the libraries and of the loader that a program is linked to; none for a static one.
pub(super) fn libraries(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("not a dynamic executable") || said.contains("statically linked") {
        return Ok(Vec::new());
    }
    match said.lines().find(|line| line.contains("not found")) {
        Some(line) => Err(io::Error::other(format!("{}: {}", program.display(), line.trim()))),
        None if !output.status.success() => Err(io::Error::other(format!("{}: {}", program.display(), said.trim()))),
        None => Ok(said.lines().filter_map(library).map(str::to_owned).collect()),
    }
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f..)` or `/lib64/ld-linux-x86-64.so.2 (0x7f..)`
fn library(line: &str) -> Option<&str> {
    let path = line.split_once("=> ").map_or(line, |(_, path)| path);
    path.split_whitespace().next().filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_each_kind_of_line() {
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(library("\tlibc.so.6 => /lib/libc.so.6 (0x00007ffd)"), Some("/lib/libc.so.6"));
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007ffd)"), Some("/lib64/ld-linux-x86-64.so.2"));
        let own = std::env::current_exe().expect("this test");
        let linked = libraries(&own).expect("ldd");
        assert!(linked.iter().any(|library| library.contains("libc.so")), "{linked:?}");
    }
}
