//! Runs programs/actor.c, which disturbs the host in a known way.

use crate::command::PATIENCE;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The program, built on first use.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/actor.c");
        // The build of surefoot itself needs clang, so it is there.
        let built = Command::new("clang")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o"])
            .arg(folder.path().join("actor"))
            .output()
            .expect("clang builds the actor");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        folder
    });
    static PATH: OnceLock<std::path::PathBuf> = OnceLock::new();
    PATH.get_or_init(|| folder.path().join("actor"))
}

/// An actor at work. Dropping it ends it.
pub struct Actor {
    child: Child,
}

/// Starts an actor of this name; `words` are those that the program's opening comment lists.
pub fn start(name: &str, words: &str) -> Actor {
    let mut command = Command::new(program());
    command.arg(name).args(words.split_ascii_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
    Actor { child: command.spawn().unwrap_or_else(|error| panic!("actor {words}: {error}")) }
}

/// Runs an actor to its end and returns its answer.
pub fn run(name: &str, words: &str) -> Value {
    start(name, words).finish()
}

/// Has the program been built? Building takes time that a measurement must not include.
pub fn prepare() {
    program();
}

impl Actor {
    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and returns its answer.
    pub fn finish(mut self) -> Value {
        let mut stdout = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || std::io::read_to_string(&mut stdout).unwrap());
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "an actor does not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "an actor failed: {status}");
        let text = reader.join().unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Fails when it has ended already, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
