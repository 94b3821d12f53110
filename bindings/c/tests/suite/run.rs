//! Runs programs in the tiers of one test, reads what they say, and kills them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Directories of the tiers, gone with the test.
pub struct Tiers {
    home: tempfile::TempDir,
    _ssd: tempfile::TempDir,
}

impl Tiers {
    pub fn new() -> Self {
        // In memory where there is such a file system: what is killed in the middle of a save is then what it would be.
        let base = Path::new("/dev/shm");
        let home = if base.is_dir() { tempfile::tempdir_in(base) } else { tempfile::tempdir() }.unwrap();
        for tier in ["memory", "tmp"] {
            fs::create_dir(home.path().join(tier)).unwrap();
        }
        // What lies in memory is not durable.
        let disk = Path::new("/var/tmp");
        let ssd = if disk.is_dir() { tempfile::tempdir_in(disk) } else { tempfile::tempdir() }.unwrap();
        std::os::unix::fs::symlink(ssd.path(), home.path().join("ssd")).unwrap();
        Tiers { home, _ssd: ssd }
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.home.path().join(inside)
    }

    /// Settings for the command line: these tiers, and what else is asked for.
    pub fn settings(&self, more: &[&str]) -> Vec<String> {
        let mut settings = vec![
            format!("memory={}", self.path("memory").display()),
            format!("health_file={}", self.path("health.json").display()),
        ];
        for setting in more {
            settings.push(setting.replace("SSD", &self.path("ssd").display().to_string()));
        }
        settings
    }
}

/// `mpirun` for so many ranks of a program, whatever the machine has.
pub fn mpirun(ranks: u32, tiers: &Tiers, program: &Path) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np", &ranks.to_string()]);
    // Containers forbid the system call of the first; the second lets many ranks share few cores.
    command.args(["--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1"]);
    // What ranks share lies here, so that those that are killed leave nothing behind.
    command.args(["--mca", "btl_vader_backing_directory"]).arg(tiers.path("tmp"));
    command.env("TMPDIR", tiers.path("tmp")).arg(program);
    command
}

/// What a program printed; it must have ended well.
pub fn text_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

pub fn said(output: &Output) -> String {
    format!("{}: {}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The only line that begins with these words.
pub fn line<'a>(text: &'a str, begins: &str) -> &'a str {
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with(begins)).collect();
    assert_eq!(found.len(), 1, "lines that begin with {begins:?} in: {text}");
    found[0]
}

/// A program that runs while the test reads along.
pub struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    reader: Option<std::thread::JoinHandle<()>>,
    pub seen: Vec<String>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, lines, reader: Some(reader), seen: Vec::new() }
    }

    /// Reads until a line of which this is true; `None` when the program ends before.
    pub fn until(&mut self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(300)) {
            self.seen.push(line.clone());
            if wanted(&line) {
                return Some(line);
            }
        }
        None
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn process(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for the end and reads what is left; whether it ended well.
    pub fn end(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(300);
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > until => panic!("it does not end; so far: {:?}", self.seen),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.seen.extend(self.lines.try_iter());
        status.success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process of this test's own, which must still be the program that the test started.
pub fn kill(process: i32, program: &Path) {
    send(libc::SIGKILL, process, program);
}

/// Sends a signal to such a process.
pub fn send(signal: i32, process: i32, program: &Path) {
    let runs = fs::read_link(format!("/proc/{process}/exe"));
    assert!(runs.as_ref().is_ok_and(|runs| runs == program), "process {process} is {runs:?}");
    // SAFETY: a plain system call with numbers.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}
