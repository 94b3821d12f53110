//! Runs the command under test.

use crate::machine;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any run of the tests takes, even where two cores do the work of ten.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The user and group without any privilege.
/// The user who may do nothing.
pub const NOBODY: u32 = 65_534;

/// The binary: the one that `SUREFOOT_BIN` names, or a fresh build.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("SUREFOOT_BIN") {
            return PathBuf::from(path).canonicalize().expect("SUREFOOT_BIN names the binary");
        }
        built("surefoot-cli")
    })
}

/// The benchmarks' binary: beside the binary that `SUREFOOT_BIN` names, where the tests lie in the same build, or a fresh
/// build.
pub fn benchmarks() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let here = std::env::current_exe().ok().and_then(|test| Some(test.parent()?.parent()?.join("surefoot-bench")));
        match here.filter(|path| std::env::var_os("SUREFOOT_BIN").is_some() && path.is_file()) {
            Some(path) => path,
            None => built("surefoot-bench"),
        }
    })
}

/// The program of a package, after cargo has built it.
fn built(package: &str) -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--message-format=json"])
        .current_dir(folder)
        .output()
        .expect("cargo builds the program");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let said = String::from_utf8_lossy(&built.stdout);
    let path = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let path = path.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.expect("cargo says where the program is")
}

/// A copy of the binary that any user can reach.
fn public_copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("surefoot");
    std::fs::copy(binary(), &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The command with these words, which blanks separate.
pub fn surefoot(words: &str) -> Surefoot {
    with(binary(), words)
}

/// The benchmarks with these words.
pub fn benchmark(words: &str) -> Surefoot {
    with(benchmarks(), words)
}

fn with(program: &'static Path, words: &str) -> Surefoot {
    let arguments = words.split_ascii_whitespace().map(str::to_owned).collect();
    Surefoot {
        program,
        arguments,
        as_nobody: false,
        goes_first: false,
        signal: None,
        hidden: Vec::new(),
        may_mount: true,
        inside: None,
        has_terminal: true,
        stdout: None,
    }
}

/// A run of the command that is being put together.
pub struct Surefoot {
    program: &'static Path,
    arguments: Vec<String>,
    as_nobody: bool,
    goes_first: bool,
    signal: Option<(&'static str, Inherited)>,
    hidden: Vec<&'static str>,
    may_mount: bool,
    inside: Option<(&'static str, &'static str)>,
    has_terminal: bool,
    stdout: Option<Stdio>,
}

/// What a signal does to a run before the run itself has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherited {
    /// As in a shell's foreground: it ends the process.
    Ends,
    /// As SIGINT in the background of a shell without job control, and SIGHUP under nohup: nothing.
    Ignored,
}

impl Surefoot {
    /// One more argument, as it is.
    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_str().unwrap().to_owned());
        self
    }

    /// More arguments, which blanks separate.
    pub fn words(mut self, words: &str) -> Self {
        self.arguments.extend(words.split_ascii_whitespace().map(str::to_owned));
        self
    }

    /// Runs as the user nobody. As root only; anybody else is nobody enough.
    pub fn as_nobody(mut self) -> Self {
        self.as_nobody = true;
        self
    }

    /// Goes before everything else on a busy machine, as on a housekeeping core that has nothing else to do: a watch
    /// that is not let run loses records, says so, and proves nothing. As root only.
    pub fn going_first(mut self) -> Self {
        self.goes_first = true;
        self
    }

    /// Starts it with this disposition of a signal, such as `INT`, not with the one that the tests have inherited.
    pub fn with_signal(mut self, name: &'static str, inherited: Inherited) -> Self {
        self.signal = Some((name, inherited));
        self
    }

    /// Covers these folders with empty ones, in a mount namespace of the run's own.
    pub fn hiding(mut self, folders: &[&'static str]) -> Self {
        self.hidden.extend(folders);
        self
    }

    /// Takes the privilege to mount away, which then must hide something; root keeps all others.
    pub fn unable_to_mount(mut self) -> Self {
        self.may_mount = false;
        self
    }

    /// Runs in new namespaces: the options of unshare(1), and what a shell does in them first. As root only.
    pub fn inside(mut self, unshared: &'static str, first: &'static str) -> Self {
        self.inside = Some((unshared, first));
        self
    }

    /// Starts it as a service is started: without a controlling terminal, and with SIGHUP as it is by default.
    pub fn without_terminal(mut self) -> Self {
        self.has_terminal = false;
        self
    }

    /// Where standard output goes instead of to the test.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    fn command(&self, copy: Option<&tempfile::TempDir>) -> Command {
        let binary = copy.map_or_else(|| self.program.to_path_buf(), |copy| copy.path().join("surefoot"));
        assert!(self.may_mount || !self.hidden.is_empty(), "it hides nothing");
        let wrappers = [
            self.goes_first,
            self.signal.is_some(),
            !self.hidden.is_empty(),
            self.inside.is_some(),
            !self.has_terminal,
        ];
        assert!(wrappers.into_iter().filter(|wanted| *wanted).count() <= 1, "one of them");
        let mut command = if let Some((name, inherited)) = self.signal {
            let option = match inherited {
                Inherited::Ends => "--default-signal",
                Inherited::Ignored => "--ignore-signal",
            };
            let mut command = Command::new("env");
            command.arg(format!("{option}={name}")).arg(binary);
            command
        } else if !self.has_terminal {
            // Tests that `nohup` started ignore SIGHUP, and a service does not.
            let mut command = Command::new("setsid");
            command.args(["env", "--default-signal=HUP"]).arg(binary);
            command
        } else if self.goes_first && machine::has_program("chrt") {
            let mut command = Command::new("chrt");
            command.args(["--rr", "1"]).arg(binary);
            command
        } else if let Some((unshared, first)) = self.inside {
            let mut command = Command::new("unshare");
            // The one that waits ends when it is killed, and with it what it has started.
            command.args(unshared.split_ascii_whitespace()).args(["--fork", "--kill-child", "sh", "-c"]);
            command.arg(format!("set -e; {first}\nexec \"$0\" \"$@\"")).arg(binary);
            command
        } else if self.hidden.is_empty() {
            Command::new(&binary)
        } else {
            let mut script = String::from("set -e; ");
            for folder in &self.hidden {
                script += &format!("mount -t tmpfs -o size=64k none {folder}; ");
            }
            let unable = if self.may_mount { "" } else { "setpriv --bounding-set -sys_admin --inh-caps -sys_admin " };
            script += &format!("exec {unable}\"$0\" \"$@\"");
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", &script]).arg(binary);
            command
        };
        command.args(&self.arguments);
        // A message must be clear without a backtrace, so one that is asked for must not be in it.
        command.env("RUST_BACKTRACE", "1").stdin(Stdio::null()).current_dir(std::env::temp_dir());
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs it to its end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let copy = self.as_nobody.then(public_copy);
        let mut command = self.command(copy.as_ref());
        let said = format!("{} {}", self.program.display(), self.arguments.join(" "));
        command.stdout(self.stdout.take().unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{said}: {error}"));
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8(std::mem::take(&mut line)).expect("the output is UTF-8");
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        let theirs = Arc::clone(&errors);
        let mut stderr = child.stderr.take().unwrap();
        let error_reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = stderr.read(&mut bytes) {
                if count == 0 {
                    return;
                }
                theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let readers = vec![reader, error_reader];
        Running {
            said,
            child,
            lines: Some(lines),
            seen: String::new(),
            errors,
            readers,
            began: Instant::now(),
            _copy: copy,
        }
    }
}

/// A run that has not ended. Dropping it kills it.
pub struct Running {
    said: String,
    child: Child,
    lines: Option<Receiver<String>>,
    seen: String,
    errors: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    began: Instant,
    _copy: Option<tempfile::TempDir>,
}

impl Running {
    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// The next line of its standard output, with its line feed; `None` when it has closed it.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.as_ref()?.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen += &line;
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}: silent for {PATIENCE:?}\n{}", self.said, self.stderr()),
        }
    }

    /// Reads on to the first line that `wanted` takes, and returns it.
    pub fn line_where(&mut self, mut wanted: impl FnMut(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.line().filter(|_| Instant::now() < deadline) {
            if wanted(&line) {
                return line;
            }
        }
        panic!("{}: the line that was waited for did not come:\n{}\n{}", self.said, self.seen, self.stderr())
    }

    /// Stops reading its standard output, as `head` does.
    pub fn close_stdout(&mut self) {
        // The thread that reads ends, and closes the pipe, at the next line that it cannot hand on.
        self.lines = None;
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Asks it to end, by SIGTERM: a shell that starts the tests in the background makes them ignore SIGINT, every
    /// process inherits that, and the command keeps to it.
    pub fn ask_to_end(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        machine::signal(self.pid(), name);
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Finished {
        while self.line().is_some() {}
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{}: does not end\n{}", self.said, self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.began.elapsed();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        let said = self.said.clone();
        Finished { said, code: status.code(), stdout: std::mem::take(&mut self.seen), stderr: self.stderr(), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended already, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command line.
    pub said: String,
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From its start to its end.
    pub took: Duration,
}

impl Finished {
    /// Holds it to an exit code, and to not having panicked.
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for bad in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!self.stderr.contains(bad), "{self:#?}");
        }
        self
    }

    /// Holds it to a refusal that a person understands: this exit code, nothing on standard output, and a first line on
    /// standard error that says all of these words. Only the hint to `--help` may follow, and what attaching would have sent
    /// may go before.
    pub fn expect_refusal(&self, code: i32, words: &[&str]) {
        self.expect_code(code);
        assert_eq!(self.stdout, "", "{self:#?}");
        let is_forewarning = |line: &str| line.starts_with("attaching to ");
        let mut lines = self.stderr.lines().filter(|line| !line.is_empty() && !is_forewarning(line));
        let first = lines.next().unwrap_or_default();
        let begins = ["surefoot: ", "surefoot-bench: ", "error: "];
        assert!(begins.iter().any(|begin| first.starts_with(begin)), "{self:#?}");
        for word in words {
            assert!(first.contains(word), "'{word}' is not in it: {self:#?}");
        }
        let is_hint = |line: &str| {
            ["Usage: ", "For more information", "  [possible values: "].iter().any(|hint| line.starts_with(hint))
        };
        assert!(lines.all(is_hint), "more than one line: {self:#?}");
        says_nothing_twice(first);
    }

    /// Its standard output as JSON lines, without the first, which must say of which schema they are.
    pub fn json(&self) -> Vec<serde_json::Value> {
        let mut lines = self.json_lines();
        assert!(!lines.is_empty(), "a stream has a first line");
        let first = lines.remove(0);
        assert_eq!((&first["type"], &first["schema"]), (&"stream".into(), &2.into()), "{first}");
        lines
    }

    /// The same of a program that is not shipped and promises no schema.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// An error that is wrapped can repeat its cause; a message must not.
fn says_nothing_twice(message: &str) {
    let parts: Vec<&str> = message.split(": ").collect();
    for pair in parts.windows(2) {
        assert_ne!(pair[0], pair[1], "says the same thing twice: {message}");
    }
}
