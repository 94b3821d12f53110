//! Compiles the microbenchmark with the MPI that is installed, and runs it.

use super::directories::OwnDirectory;
use anyhow::{Context, bail};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use surefoot_hostfs::Unsupported;

/// The program and what it includes, so that the command needs no sources.
const SOURCES: [(&str, &str); 3] = [
    ("paper.c", include_str!("../../../bindings/c/bench/paper.c")),
    ("surefoot_checkpoint.h", include_str!("../../../bindings/c/surefoot_checkpoint.h")),
    ("surefoot_checkpoint_mpi.h", include_str!("../../../bindings/c/surefoot_checkpoint_mpi.h")),
];

/// How the library may be called, the faster to link first.
const LIBRARIES: [&str; 2] = ["libsurefoot.so", "libsurefoot.a"];

/// What bindings/c/build.rs calls the shared library of this version, whose header is in here.
const SONAME: &str = match env!("CARGO_PKG_VERSION_MAJOR").as_bytes() {
    b"0" => concat!("libsurefoot.so.0.", env!("CARGO_PKG_VERSION_MINOR")),
    _ => concat!("libsurefoot.so.", env!("CARGO_PKG_VERSION_MAJOR")),
};

const INSTALL_MPI: &str = "install Open MPI (libopenmpi-dev, openmpi-bin)";

/// How often a run is looked after: seldom, because it shares the cores.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long ranks may take to end that were asked to.
const ENDING: Duration = Duration::from_secs(10);

/// The most bytes of what a run prints that are read.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The compiled microbenchmark.
pub struct Program {
    home: OwnDirectory,
    is_open_mpi: bool,
}

/// A memory file system of limited size for one run, in a mount namespace of its own.
pub struct LimitedMemory<'a> {
    /// Where it is mounted.
    pub directory: &'a Path,
    /// How much it holds.
    pub bytes: u64,
}

impl Program {
    /// Compiles it.
    ///
    /// # Errors
    /// [`Unsupported`] where there is no MPI, no library, or one that does not fit.
    pub fn compile(library: Option<&Path>) -> anyhow::Result<Self> {
        let version = said(Command::new("mpirun").arg("--version")).ok_or_else(|| missing("mpirun", INSTALL_MPI))?;
        said(Command::new("mpicc").arg("--version")).ok_or_else(|| missing("mpicc", INSTALL_MPI))?;
        let library = find_library(library)?;
        let home = OwnDirectory::below("TMPDIR", &std::env::temp_dir())?;
        for (name, text) in SOURCES {
            let new = fs::File::options().write(true).create_new(true).open(home.path().join(name));
            let written = new.and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| home.path().display().to_string())?;
        }
        fs::create_dir(home.path().join("tmp"))?;
        // A copy: whoever builds another one meanwhile does not change what is measured.
        let linked = home.path().join(library.file_name().unwrap_or_default());
        fs::copy(&library, &linked).with_context(|| format!("cannot copy {}", library.display()))?;
        // A shared library is asked for by its SONAME when the program starts.
        let soname = home.path().join(SONAME);
        if linked != soname {
            symlink(&linked, &soname).with_context(|| soname.display().to_string())?;
        }
        let mut compiler = Command::new("mpicc");
        compiler.args(["-std=c99", "-D_GNU_SOURCE", "-O2", "-o", "paper", "paper.c"]).current_dir(home.path());
        compiler.arg(&linked).arg(format!("-Wl,-rpath,{}", home.path().display()));
        let output = compiler.args(["-lpthread", "-ldl", "-lm"]).output().context("cannot start mpicc")?;
        if !output.status.success() {
            let why = format!(
                "unsupported: the microbenchmark cannot be linked with {}: {}",
                library.display(),
                last_words(&output.stderr)
            );
            return Err(Unsupported::new(why, "").into());
        }
        Ok(Program { home, is_open_mpi: version.contains("Open MPI") })
    }

    /// Runs it to its end, and returns what it printed.
    pub fn run(
        &self,
        ranks: u32,
        arguments: &[String],
        limited: Option<&LimitedMemory<'_>>,
        at_most: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<String> {
        let mut command = match limited {
            Some(limited) => in_limited_memory(limited),
            None => Command::new("mpirun"),
        };
        if limited.is_some() {
            command.arg("mpirun");
        }
        let tmp = self.home.path().join("tmp");
        if self.is_open_mpi {
            command.args(["--allow-run-as-root", "--oversubscribe"]);
            // Containers forbid the system call of the first; the second lets ranks share cores with what runs behind.
            command.args(["--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1"]);
            command.args(["--mca", "btl_vader_backing_directory"]).arg(&tmp);
        }
        command.args(["-np", &ranks.to_string()]).arg(self.home.path().join("paper")).args(arguments);
        // What is measured is what was asked for here.
        command.env("SUREFOOT_CHECKPOINT_SETTINGS", "none");
        command.env("TMPDIR", &tmp).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: what ends it is our word, not the terminal's.
        command.process_group(0);
        let mut running = Running::start(command.spawn().context("cannot start mpirun")?);
        running.wait(at_most, stop)?;
        running.finish()
    }
}

/// The library that the program is linked with.
fn find_library(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        anyhow::ensure!(path.is_file(), "--library: there is no file {}", path.display());
        return path.canonicalize().with_context(|| path.display().to_string());
    }
    let own = std::env::current_exe().context("cannot read the path of this command")?;
    let beside: Vec<PathBuf> =
        own.parent().into_iter().flat_map(|folder| [folder.to_owned(), folder.join("../lib")]).collect();
    let all = beside.iter().flat_map(|folder| LIBRARIES.map(|name| folder.join(name)));
    all.into_iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        missing(
            "libsurefoot beside this command",
            "build it (cargo build --release -p surefoot-c) or name it with --library",
        )
    })
}

fn missing(what: &str, remedy: &str) -> anyhow::Error {
    Unsupported::new(format!("unsupported: there is no {what}; {remedy}"), remedy).into()
}

/// What a program says that ends well; `None` where it cannot be run.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command that mounts memory of limited size, for itself and what follows alone, and then runs what follows.
fn in_limited_memory(limited: &LimitedMemory<'_>) -> Command {
    const SCRIPT: &str = "mount -t tmpfs -o \"size=$0,mode=0700\" surefoot-bench \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", SCRIPT, &limited.bytes.to_string()]).arg(limited.directory);
    command
}

fn is_root() -> bool {
    // Of the user that this process acts as, which is what its entries in /proc belong to.
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Why memory of limited size cannot be had here; `None` where it can.
pub fn why_no_limited_memory(limited: &LimitedMemory<'_>) -> Option<String> {
    match in_limited_memory(limited).arg("true").stdin(Stdio::null()).output() {
        Ok(Output { status, .. }) if status.success() => None,
        Ok(output) => Some(format!("memory of limited size cannot be mounted: {}", last_words(&output.stderr))),
        Err(_) => Some("memory of limited size needs the program unshare".into()),
    }
}

/// The last line that says something.
fn last_words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| line.chars().any(char::is_alphabetic)).unwrap_or("it says nothing");
    line.trim().chars().filter(|letter| !letter.is_control()).take(200).collect()
}

/// A run that has not ended. Dropping it ends its ranks.
struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    fn start(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        Running { child, stdout, stderr }
    }

    fn wait(&mut self, at_most: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if stop.load(Ordering::Relaxed) {
                bail!("ended by a signal; nothing is kept");
            }
            if began.elapsed() > at_most {
                bail!("a run did not end within {} s", at_most.as_secs());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<String> {
        let status = self.child.wait()?;
        let read =
            |reader: Option<JoinHandle<Vec<u8>>>| reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        let (stdout, stderr) = (read(self.stdout.take()), read(self.stderr.take()));
        if !status.success() {
            // What the program said stands before what mpirun makes of it.
            let said =
                String::from_utf8_lossy(&stderr).lines().find(|line| line.starts_with("rank ")).map(str::to_owned);
            bail!("the microbenchmark failed: {}", said.unwrap_or_else(|| last_words(&stderr)));
        }
        String::from_utf8(stdout).context("the output of the microbenchmark is not text")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // mpirun ends its ranks when it is asked to end itself. The shell's kill, because sending a signal oneself needs
        // unsafe code.
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status();
        let until = Instant::now() + ENDING;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is missing, which whoever reads the lines finds out.
        let _ = from.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        bytes
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_run_that_takes_too_long_is_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60"]).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut running = Running::start(command.spawn().unwrap());
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        assert!(running.wait(Duration::from_millis(10), &stop).unwrap_err().to_string().contains("did not end"));
        let stopped = AtomicBool::new(true);
        assert!(running.wait(ENDING, &stopped).unwrap_err().to_string().contains("signal"));
        drop(running);
        assert!(began.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn the_last_words_say_something() {
        assert_eq!(last_words(b"ld: no -lx\n-----\n\n"), "ld: no -lx");
        assert_eq!(last_words(b""), "it says nothing");
        assert!(find_library(Some(Path::new("/nowhere/lib.so"))).unwrap_err().to_string().contains("--library"));
    }
}
