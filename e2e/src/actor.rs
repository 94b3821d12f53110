//! Runs programs/actor.c and programs/raiser.c, which disturb the host in a known way.

use crate::command::PATIENCE;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program of programs/, built on first use beside the test's own binary.
struct Program {
    source: &'static str,
    flags: &'static [&'static str],
    built: OnceLock<PathBuf>,
}

static ACTOR: Program = Program { source: "actor", flags: &["-O2"], built: OnceLock::new() };

/// With frame pointers, along which the kernel walks a user stack.
static RAISER: Program =
    Program { source: "raiser", flags: &["-O1", "-g", "-fno-omit-frame-pointer"], built: OnceLock::new() };

impl Program {
    fn path(&self) -> &Path {
        self.built.get_or_init(|| {
            let path = std::env::current_exe().unwrap().with_file_name(format!("surefoot-e2e-{}", self.source));
            let folder = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
            let built_path = folder.path().join(self.source);
            let source = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/{}.c"), self.source);
            // The build of surefoot itself needs clang, so it is there.
            let built = Command::new("clang")
                .args(self.flags)
                .args(["-Wall", "-Wextra", "-Werror", "-pthread", &source, "-o"])
                .arg(&built_path)
                .output()
                .expect("clang builds the program");
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            // Another run may use it at this moment; it keeps the file that it has opened.
            std::fs::rename(&built_path, &path).unwrap();
            path
        })
    }
}

/// An actor at work. Dropping it ends it.
pub struct Actor {
    child: Child,
}

/// Starts an actor of this name; `words` are those that the program's opening comment lists.
pub fn start(name: &str, words: &str) -> Actor {
    let mut command = Command::new(ACTOR.path());
    command.arg(name);
    spawn(command, words)
}

/// Starts a process that raises interrupts on a core that it polls on; `words` as its opening comment lists them.
pub fn start_raiser(words: &str) -> Actor {
    spawn(Command::new(RAISER.path()), words)
}

fn spawn(mut command: Command, words: &str) -> Actor {
    command.args(words.split_ascii_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
    Actor { child: command.spawn().unwrap_or_else(|error| panic!("actor {words}: {error}")) }
}

/// Runs an actor to its end and returns its answer.
pub fn run(name: &str, words: &str) -> Value {
    start(name, words).finish()
}

/// Builds the programs: that takes time which a measurement must not include.
pub fn prepare() {
    ACTOR.path();
    RAISER.path();
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
