//! Runs the programs of programs/, which disturb the host in a known way.

use crate::command::{NOBODY, PATIENCE};
use crate::machine;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

/// A program of programs/, built on first use beside the test's own binary.
pub struct Program {
    source: &'static str,
    name: &'static str,
    flags: &'static [&'static str],
    built: OnceLock<PathBuf>,
}

/// With frame pointers, along which the kernel walks a user stack.
const WITH_FRAME_POINTERS: &[&str] = &["-O1", "-g", "-fno-omit-frame-pointer"];

/// The process that disturbs the host in one of the ways that its source lists.
pub static ACTOR: Program = Program::new("actor", "actor", &["-O2"]);

/// A process that raises interrupts on a core that it polls on.
pub static RAISER: Program = Program::new("raiser", "raiser", WITH_FRAME_POINTERS);

/// The same without a single symbol.
pub static STRIPPED_RAISER: Program = Program::new("raiser", "stripped", &["-O1", "-fno-omit-frame-pointer", "-s"]);

/// A process that raises interrupts in ways that are hard to tell of.
pub static ODD: Program = Program::new("odd", "odd", WITH_FRAME_POINTERS);

/// A process whose threads raise interrupts and log each call.
pub static TRUTH: Program = Program::new("truth", "truth", WITH_FRAME_POINTERS);

/// A process whose polling thread notes its own gaps while another one unmaps memory.
pub static POLLING_LOOP: Program = Program::new("polling_loop", "polling-loop", &["-O2"]);

/// Counts the calls of a process after which the kernel frees something through RCU.
pub static OPENS: Program = Program::new("opens", "opens", &["-O2"]);

impl Program {
    const fn new(source: &'static str, name: &'static str, flags: &'static [&'static str]) -> Self {
        Program { source, name, flags, built: OnceLock::new() }
    }

    /// The executable file. Building takes time that a measurement must not include, so ask for it before.
    pub fn path(&self) -> &Path {
        self.built.get_or_init(|| {
            let path = std::env::current_exe().unwrap().with_file_name(format!("surefoot-e2e-{}", self.name));
            let folder = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
            let built_path = folder.path().join(self.name);
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

    /// Starts it; `words` are those that its opening comment lists.
    pub fn start(&self, words: &str) -> Actor {
        start_file(self.path(), words)
    }
}

/// An actor at work. Dropping it ends it.
pub struct Actor {
    child: Child,
}

/// Starts an actor of this name; `words` are those that the program's opening comment lists.
pub fn start(name: &str, words: &str) -> Actor {
    start_file(ACTOR.path(), &format!("{name} {words}"))
}

/// Starts a program from the file that it was copied to.
pub fn start_file(path: &Path, words: &str) -> Actor {
    let mut command = Command::new(path);
    command.args(words.split_ascii_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
    Actor { child: command.spawn().unwrap_or_else(|error| panic!("{} {words}: {error}", path.display())) }
}

/// Starts what a script of the shell ends up as, as the user nobody. The script runs in a folder of that user and may use
/// `$program` for the file.
pub fn start_script_as_nobody(script: &str, program: &Path, folder: &Path) -> Actor {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).env("program", program).current_dir(folder);
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stdout(Stdio::piped());
    Actor { child: command.spawn().unwrap_or_else(|error| panic!("{script}: {error}")) }
}

/// Runs an actor to its end and returns its answer.
pub fn run(name: &str, words: &str) -> Value {
    start(name, words).finish()
}

/// Builds the actor: that takes time which a measurement must not include.
pub fn prepare() {
    ACTOR.path();
}

/// Keeps every core busy for as long as the actors live: a core that idles may have no tick for seconds.
pub fn on_every_core() -> Vec<Actor> {
    let cpus = machine::interrupts().cpus;
    cpus.iter().map(|cpu| start("spinner", &format!("spin {} 600000", cpu.0))).collect()
}

impl Actor {
    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its answer, one line, while it goes on living. It has one answer only.
    pub fn answer(&mut self) -> Value {
        let stdout = self.child.stdout.take().expect("it has not answered yet");
        let (sender, answer) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // Nobody waits any more when the test has failed meanwhile.
            let _ = sender.send(read.map(|_| line));
        });
        let line = answer.recv_timeout(PATIENCE).expect("an actor answers").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
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
