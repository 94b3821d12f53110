//! Runs programs/actor.c, which disturbs the host in a known way.

use crate::command::PATIENCE;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The program, built on first use beside the test's own binary.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::current_exe().unwrap().with_file_name("surefoot-e2e-actor");
        let folder = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
        let built_path = folder.path().join("actor");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/actor.c");
        // The build of surefoot itself needs clang, so it is there.
        let built = Command::new("clang")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o"])
            .arg(&built_path)
            .output()
            .expect("clang builds the actor");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // Another run may use it at this moment; it keeps the file that it has opened.
        std::fs::rename(&built_path, &path).unwrap();
        path
    })
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

/// Builds the program: that takes time which a measurement must not include.
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
