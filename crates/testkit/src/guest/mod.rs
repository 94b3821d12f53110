//! Runs a program of this machine in another kernel: Debian's, in QEMU with software emulation.
//!
//! Some of what Surefoot must survive does not happen here: memory that the kernel gives up, machine checks, a drive's
//! controller. A guest has all of it. Its first file system is made for each run: busybox, the program with the libraries
//! that it is linked to, the kernel modules that were asked for, and a script that runs the program and turns the machine
//! off. The kernel's messages, the program's output and its exit code come back over three serial lines.
//!
//! `xtask/setup.sh test` installs QEMU and busybox and unpacks Debian's kernel package, which is not installed: nothing
//! boots from it but guests. Where one of them is missing, [`Guest::find`] says which.
//!
//! ```
//! use std::path::Path;
//! use surefoot_testkit::guest::Guest;
//! let guest = match Guest::find() {
//!     Ok(guest) => guest,
//!     Err(why) => return surefoot_testkit::not_run::not_run("the guest's example", &why),
//! };
//! let ran = guest.run(Path::new("/bin/sh"), &["-c", "echo \"in $SHELL_OF\"; exit 3"], &[("SHELL_OF", "a guest")]).unwrap();
//! assert_eq!((ran.code, ran.text.as_str()), (Some(3), "in a guest\n"));
//! ```

mod archive;
mod kernel;
mod programs;

use archive::Archive;
use kernel::Kernel;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What runs the guest.
const EMULATOR: &str = "qemu-system-x86_64";

/// Firmware of Debian's package `ovmf` that takes system-management interrupts on all processors, and its variables.
const FIRMWARE: [&str; 2] = ["/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"];

/// What a guest may take where nothing else is said. Most end within a minute; on a busy machine that can be ten times as long.
pub const TIME_LIMIT: Duration = Duration::from_secs(900);

/// The most that is read of each serial line.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// The first program of the guest. Serial line 0 is the kernel's, 1 the program's, 2 that of its exit code.
const INIT: &str = include_str!("init.sh");

/// A machine that can be started.
#[derive(Debug, Clone)]
pub struct Guest {
    kernel: Kernel,
    busybox: PathBuf,
    memory_mib: u32,
    cores: u32,
    modules: Vec<String>,
    devices: Vec<String>,
    files: Vec<(PathBuf, String)>,
    time_limit: Duration,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The program's exit code, 128 and the signal's number when one ended it; `None` when the guest ended without it.
    pub code: Option<i32>,
    /// What the program wrote, both streams.
    pub text: String,
    /// What the kernel said.
    pub console: String,
}

impl Guest {
    /// A guest with 1 GiB of memory, one core, no devices, and [`TIME_LIMIT`].
    ///
    /// # Errors
    /// One sentence about what this machine lacks: what a test says when it is not run.
    pub fn find() -> Result<Self, String> {
        Self::with_kernel(kernel::FOLDER)
    }

    /// The same with Debian's real-time kernel, which has tracers that its other kernels lack (hwlat, osnoise).
    ///
    /// # Errors
    /// As [`Guest::find`].
    pub fn find_real_time() -> Result<Self, String> {
        Self::with_kernel(kernel::FOLDER_REAL_TIME)
    }

    fn with_kernel(folder: &str) -> Result<Self, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("guests run the programs of x86-64 machines only".into());
        }
        programs::find(EMULATOR).ok_or_else(|| format!("{EMULATOR} is not installed"))?;
        let busybox = programs::find("busybox").ok_or("busybox is not installed")?;
        let kernel = Kernel::find(folder)?;
        let (modules, devices, files) = (Vec::new(), Vec::new(), Vec::new());
        let (memory_mib, cores, time_limit) = (1024, 1, TIME_LIMIT);
        Ok(Guest { kernel, busybox, memory_mib, cores, modules, devices, files, time_limit })
    }

    /// With that much memory.
    pub fn with_memory_mib(self, memory_mib: u32) -> Self {
        Guest { memory_mib, ..self }
    }

    /// With that many cores.
    pub fn with_cores(self, cores: u32) -> Self {
        Guest { cores, ..self }
    }

    /// With a module of its kernel, and those that it depends on, loaded before the program starts.
    pub fn with_module(mut self, name: &str) -> Self {
        self.modules.push(name.to_owned());
        self
    }

    /// With further words of QEMU's command line, such as `-device`, `nvme,serial=1`.
    pub fn with_device(mut self, words: &[&str]) -> Self {
        self.devices.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// With firmware that takes system-management interrupts on all processors; its variables are kept in this folder.
    ///
    /// # Errors
    /// One sentence about what this machine lacks.
    pub fn with_smm_firmware(self, folder: &Path) -> Result<Self, String> {
        let [code, variables] = FIRMWARE.map(Path::new);
        if !code.is_file() {
            return Err("OVMF's SMM build is not installed (package ovmf)".into());
        }
        let own = folder.join("firmware-variables");
        fs::copy(variables, &own).map_err(|error| format!("{}: {error}", variables.display()))?;
        let drive = |unit: u32, file: &Path, more: &str| {
            format!("if=pflash,format=raw,unit={unit},file={}{more}", file.display())
        };
        let (code, own) = (drive(0, code, ",readonly=on"), drive(1, &own, ""));
        let secure = "driver=cfi.pflash01,property=secure,value=on";
        Ok(self.with_device(&["-machine", "smm=on", "-global", secure, "-drive", &code, "-drive", &own]))
    }

    /// With a copy of a file at this absolute path, and of the libraries that it is linked to where it is a program.
    pub fn with_file(mut self, file: &Path, at: &str) -> Self {
        self.files.push((file.to_owned(), at.to_owned()));
        self
    }

    /// Ends the guest when it has taken this long.
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Guest { time_limit, ..self }
    }

    /// Starts the guest, runs the program as root in its file system, and waits until it has turned itself off.
    ///
    /// # Errors
    /// When the guest cannot be made or started, and when it takes longer than its limit; with what its kernel said last.
    pub fn run(&self, program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> io::Result<Ran> {
        let folder = tempfile::tempdir()?;
        let first_files = folder.path().join("first-files");
        fs::write(&first_files, self.archive(program, arguments, environment)?)?;
        let line = |number: usize| folder.path().join(format!("line-{number}"));
        let mut command = Command::new(EMULATOR);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35"]);
        // All cores take turns on one thread: a core that spins for another one's lock does not spend the time that the other needs,
        // so that the guest gets on however busy this machine is. It takes no longer (33 and 38 s against 35 and 36 s for two cores).
        command.args(["-accel", "tcg,thread=single", "-cpu", "max", "-m", &self.memory_mib.to_string()]);
        command.args(["-smp", &self.cores.to_string()]);
        command.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(&first_files);
        // A kernel that cannot go on ends the guest, by a reboot that is not allowed.
        command.args(["-append", "console=ttyS0 panic=-1 loglevel=6 random.trust_cpu=on"]);
        for number in 0..3 {
            command.arg("-serial").arg(format!("file:{}", line(number).display()));
        }
        command.args(&self.devices);
        let said = wait(command, self.time_limit);
        let text = |number: usize| read(&line(number));
        let console = text(0)?;
        if let Err(error) = said {
            let printed = text(1)?;
            let why = format!(
                "the guest: {error}; its program printed last:\n{}\nits kernel:\n{}",
                last_lines(&printed, 10),
                complaint(&console)
            );
            return Err(io::Error::new(error.kind(), why));
        }
        Ok(Ran { code: text(2)?.trim().parse().ok(), text: text(1)?, console })
    }

    /// The guest's first file system.
    fn archive(&self, program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for folder in ["/bin", "/dev", "/proc", "/sys", "/tmp", "/modules"] {
            archive.folder(folder);
        }
        archive.file("/init", 0o755, INIT.as_bytes());
        let mut modules = String::new();
        for (number, module) in self.kernel.with_dependencies(&self.modules)?.iter().enumerate() {
            archive.file(&format!("/modules/{number}.ko"), 0o644, &kernel::module(module)?);
            modules += &format!("/modules/{number}.ko\n");
        }
        archive.file("/modules/list", 0o644, modules.as_bytes());
        let own = [(&*self.busybox, "/bin/busybox"), (program, "/program")];
        let mut libraries = BTreeSet::new();
        for (file, at) in own.into_iter().chain(self.files.iter().map(|(file, at)| (&**file, &**at))) {
            archive.file(at, 0o755, &fs::read(file)?);
            libraries.extend(programs::libraries(file)?);
        }
        for library in libraries {
            archive.file(&library, 0o755, &fs::read(&library)?);
        }
        let mut words: Vec<String> =
            environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        words.push("/program".into());
        words.extend(arguments.iter().map(|argument| quoted(argument)));
        archive.file("/run", 0o755, format!("#!/bin/sh\nexec env {}\n", words.join(" ")).as_bytes());
        Ok(archive.finish())
    }
}

/// How many lines of a kernel's complaint are told.
const COMPLAINT_LINES: usize = 60;

/// What the kernel complained of first, since what follows from it says less; without a complaint its last lines.
fn complaint(console: &str) -> String {
    let complains =
        |line: &str| ["BUG", "Oops", "rcu:", "stall", "lockup", "panic"].iter().any(|word| line.contains(word));
    // The command line of the kernel holds one of these words.
    let first = console.lines().position(|line| complains(line) && !line.contains("ommand line"));
    let Some(first) = first else { return last_lines(console, 20) };
    console.lines().skip(first).take(COMPLAINT_LINES).collect::<Vec<_>>().join("\n")
}

fn last_lines(text: &str, count: usize) -> String {
    let skipped = text.lines().count().saturating_sub(count);
    text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
}

/// A word as the shell takes it for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A child that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Of a child that is gone already nothing is asked.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(mut command: Command, time_limit: Duration) -> io::Result<()> {
    let began = Instant::now();
    // This thread waits for it; a test that is killed leaves no guest behind.
    surefoot_sys::children::kill_with_starter(&mut command);
    let mut child = Ended(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
    let status = loop {
        match child.0.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > time_limit => {
                let why = format!("it was ended after {time_limit:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(errors) = child.0.stderr.take() {
        errors.take(4096).read_to_string(&mut said)?;
    }
    Err(io::Error::other(format!("{EMULATOR} ended with {status}: {}", said.trim())))
}

/// What came over a serial line, without the carriage returns of a terminal.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    match fs::File::open(path) {
        Ok(file) => file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;

    #[test]
    fn a_word_stays_one_word() {
        let said = Command::new("sh").args(["-c", &format!("printf %s {}", quoted("a 'b' $c \"d\""))]).output();
        assert_eq!(said.expect("a shell").stdout, b"a 'b' $c \"d\"");
    }

    #[test]
    fn a_program_runs_in_another_kernel_and_one_that_hangs_is_ended() {
        let guest = match Guest::find() {
            Ok(guest) => guest,
            Err(why) => return not_run("guest::a_program_runs_in_another_kernel_and_one_that_hangs_is_ended", &why),
        };
        let release = guest.kernel.release();
        let script =
            "read -r line </hello; echo \"$line from $(busybox uname -r)\"; busybox ls -1 /sys/module; kill -9 $$";
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("hello"), "greetings\n").expect("a file");
        let greeting = guest.clone().with_module("hwpoison_inject").with_file(&folder.path().join("hello"), "/hello");
        let ran = greeting.run(Path::new("/bin/sh"), &["-c", script], &[]).expect("a guest");
        assert_eq!(ran.code, Some(137), "{ran:?}");
        assert!(ran.text.starts_with(&format!("greetings from {release}\n")), "{ran:?}");
        assert!(ran.text.contains("hwpoison_inject\n") && ran.console.contains("Linux version"), "{ran:?}");
        let hanging = guest.with_time_limit(Duration::from_secs(2));
        let error = hanging.run(Path::new("/bin/sh"), &["-c", "while :; do :; done"], &[]).expect_err("a limit");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}
