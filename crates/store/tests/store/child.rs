//! Tests that need a process of their own: to be killed, to have a small disk, to hold a lock.

use std::path::Path;
use std::process::Command;
use surefoot_testkit::not_run::not_run;

/// The environment variable that tells a child which file is its own.
const FILE: &str = "SUREFOOT_TEST_FILE";

/// What a child prints last; its absence means that it did not run.
pub const DONE: &str = "CHILD DONE";

/// The command that runs one ignored test of this binary on a file, behind the words of `wrapper`.
pub fn command(wrapper: &[&str], test: &str, file: &Path) -> Command {
    let binary = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(binary),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(binary);
            command
        }
    };
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env(FILE, file);
    command
}

/// Runs the child to its end and panics with all that it said if it failed.
pub fn run(wrapper: &[&str], test: &str, file: &Path) {
    let output = command(wrapper, test, file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(DONE), "{test}: {said}{complained}");
}

/// The ways to a mount name space: as root, or as root of a user name space.
const WAYS: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];

/// Runs the child in a mount name space of its own, which vanishes with it, behind this line of shell, which mounts
/// something and ends in `exec "$@"`; says so when this machine allows none.
pub fn run_with_mount(script: &str, test: &str, file: &Path) {
    let way = WAYS.into_iter().find(|way| {
        let probe = ["sh", "-c", script, "sh", "true"];
        let tried = Command::new(way[0]).args(&way[1..]).args(probe).env(FILE, file).output();
        tried.is_ok_and(|output| output.status.success())
    });
    match way {
        Some(way) => run(&[way, &["sh", "-c", script, "sh"]].concat(), test, file),
        None => not_run(test, "mounting is not allowed here"),
    }
}

/// In the child: its file.
pub fn file() -> std::path::PathBuf {
    std::env::var_os(FILE).expect("started by its parent test").into()
}
