//! Which names a piece of code puts on the medium, and when: the system calls of a test that runs in a process of its own.

use crate::not_run::not_run;
use std::path::Path;
use std::process::Command;

const CALLS: &str = "trace=rename,renameat,renameat2,link,linkat,openat,fsync,fdatasync,write,pwrite64";

/// Runs the test `child`, which is ignored otherwise, with `SUREFOOT_TEST_FOLDER` set to `folder`. Returns its system calls, one in a line, with
/// the path of each descriptor. `None`, and the test `test` counts as skipped, where there is no `strace`.
///
/// # Panics
/// When the child fails.
pub fn calls_of(test: &str, child: &str, folder: &Path) -> Option<Vec<String>> {
    let out = tempfile::NamedTempFile::new().expect("a file for the calls");
    let program = std::env::current_exe().expect("the path of this test");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq", "-e", CALLS, "-o"]).arg(out.path()).arg(program);
    command.args(["--exact", child, "--ignored", "--test-threads=1"]).env("SUREFOOT_TEST_FOLDER", folder);
    let ran = match command.output() {
        Ok(ran) => ran,
        Err(error) => {
            not_run(test, &format!("strace cannot be run ({error}); install strace"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    if said.contains("PTRACE") && !said.contains("running 1 test") {
        not_run(test, &format!("no process can be traced here: {}", said.trim()));
        return None;
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{child}: {said}");
    let calls = std::fs::read_to_string(out.path()).expect("the calls of the child");
    Some(calls.lines().filter(|line| line.ends_with("= 0") || !line.contains("sync")).map(str::to_owned).collect())
}

/// Whether a directory was put on the medium after the last call that `names` something in it.
pub fn is_synced_after(calls: &[String], names: impl Fn(&str) -> bool, directory: &Path) -> bool {
    let Some(last) = calls.iter().rposition(|call| names(call)) else { return false };
    let of_directory = format!("<{}>)", directory.display());
    calls[last..].iter().any(|call| call.contains("fsync(") && call.contains(&of_directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sync_of_that_directory_after_the_name_counts() {
        let calls = |calls: &[&str]| calls.iter().map(|call| (*call).to_owned()).collect::<Vec<_>>();
        let is_synced = |text: &[&str]| is_synced_after(&calls(text), |call| call.contains("rename("), Path::new("/a"));
        let (rename, sync) = ("1 rename(\"/a/x\", \"/a/y\") = 0", "1 fsync(4</a>)      = 0");
        assert!(is_synced(&[rename, sync]) && is_synced(&[sync, rename, sync]));
        assert!(!is_synced(&[sync, rename]) && !is_synced(&[sync]) && !is_synced(&[rename, "1 fsync(4</a/x>) = 0"]));
    }
}
