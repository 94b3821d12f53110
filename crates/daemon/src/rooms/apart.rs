//! Looks made by a child process: a directory may lie on a file system that does not answer, a user's FUSE server or a dead NFS
//! mount. A thread that asks it for anything waits in the kernel, where not even SIGKILL may end it, and the process with it.
//!
//! The child names each directory before it asks for anything there. When it does nothing for too long it is killed, or left
//! behind until the file system answers or is unmounted, and a new child looks at the other directories meanwhile.

use super::checkpoint::Looker;
use super::disturb::{Experiments, Journals};
use super::memory::{Begin, Tree};
use super::shown;
use crate::sources::End;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_hostfs::privilege::Capabilities;
use surefoot_memory::rate::Limit;
use surefoot_memory::watch::Pace;
use surefoot_model::one_line;
use surefoot_sys::helper_process::{self, HelperProcess, Hung, activity};
use surefoot_sys::shed;

/// How often a child that has not answered is checked.
const WAIT: Duration = Duration::from_millis(250);
/// A child that has used no processor time for this long, and is not runnable, hangs.
const STILL: Duration = Duration::from_secs(10);
/// How long a look may still take after the watch was asked to end.
const LAST: Duration = Duration::from_secs(1);
/// A directory that did not answer is left alone for this long, and for as long as a process hangs on it.
const REST: Duration = Duration::from_secs(60);
/// The longest line of a child: a few times what a look may hold.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// All that a child needs: directories and manifests are other users'.
const READS: &str = "CAP_DAC_READ_SEARCH";

/// The problem of a directory that did not answer.
pub(super) const SILENT: &str = "its file system does not answer";

static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Sets how the child is started: a program, and the arguments with which it calls [`look_apart`] and nothing else.
/// Without it this process looks itself.
pub fn use_program(program: impl Into<PathBuf>, arguments: &[&str]) {
    let _ = PROGRAM.set((program.into(), arguments.iter().map(OsString::from).collect()));
}

/// Whether a child can be started.
pub(super) fn is_possible() -> bool {
    PROGRAM.get().is_some()
}

/// A request to a child: look into these directories.
#[derive(Serialize, Deserialize)]
pub(super) enum Question {
    /// For checkpoints.
    Checkpoints(Vec<Vec<u8>>),
    /// For journals of experiments. A new child is told how far they were read before.
    Experiments(Vec<Vec<u8>>, Option<Journals>),
    /// For memory errors in a recorded tree. A new child is told where to go on; `is_last` asks for the last look.
    Memory {
        /// One, or none while it does not answer.
        trees: Vec<Vec<u8>>,
        begin: Option<Box<Begin>>,
        /// How often it looks, and the rate that it bears.
        pace: Pace,
        limit: Limit,
        is_last: bool,
    },
    /// For what files have gained.
    Lines {
        /// One, or none while it does not answer.
        files: Vec<Vec<u8>>,
        from: shown::From,
    },
}

/// A line of a child.
#[derive(Serialize, Deserialize)]
enum ChildMessage<A> {
    /// It is about to ask for something in this directory.
    At(usize),
    /// The result of the look.
    Seen(Box<A>),
}

/// Paths as bytes.
pub(super) fn bytes_of(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| OsStr::as_bytes(path.as_os_str()).to_vec()).collect()
}

fn paths_of(paths: Vec<Vec<u8>>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| PathBuf::from(OsString::from_vec(path))).collect()
}

/// The child: it answers the questions that arrive on its standard input, a socket, until that ends.
///
/// # Errors
/// When the other end is gone or a question is malformed, or when the kernel refuses to take capabilities away.
pub fn look_apart() -> io::Result<()> {
    // It may have been started before the watch gave up the privileges of its start.
    shed::keep_only(&Root::host(), Capabilities::of(&[READS])).map_err(io::Error::other)?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut looker = Looker::new(Root::host(), Vec::new());
    let mut experiments = Experiments::in_directories(true);
    let mut tree = Tree::default();
    let mut files = shown::Files::default();
    for question in BufReader::new(&socket).lines() {
        match serde_json::from_str(&question?)? {
            Question::Checkpoints(directories) => {
                looker.look_into(paths_of(directories));
                answer(&socket, |begins| looker.look(begins))?;
            }
            Question::Experiments(directories, known) => {
                experiments.look_into(paths_of(directories), known);
                answer(&socket, |begins| {
                    let events = experiments.look(begins);
                    (events, experiments.journals())
                })?;
            }
            Question::Memory { trees, begin, pace, limit, is_last } => {
                let (trees, begin) = (paths_of(trees), begin.map(|begin| *begin));
                answer(&socket, |begins| tree.look(&trees, begin, (pace, limit), is_last, begins))?;
            }
            Question::Lines { files: paths, from } => {
                let paths = paths_of(paths);
                answer(&socket, |begins| files.read_on(&paths, from, begins))?;
            }
        }
    }
    Ok(())
}

fn answer<A: Serialize>(mut socket: &UnixStream, look: impl FnOnce(&mut dyn FnMut(usize)) -> A) -> io::Result<()> {
    let mut say = |line: &ChildMessage<A>| -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        socket.write_all(&line)
    };
    let mut failed = Ok(());
    let seen = look(&mut |at| {
        if failed.is_ok() {
            failed = say(&ChildMessage::At(at));
        }
    });
    failed?;
    say(&ChildMessage::Seen(Box::new(seen)))
}

/// What ends the wait for a look.
pub(super) trait Ends {
    fn is_asked_for(&self) -> bool;
}

impl Ends for End {
    fn is_asked_for(&self) -> bool {
        End::is_asked_for(self)
    }
}

/// A look that somebody waits for who cannot ask for its end: only its deadline ends it.
pub(super) struct Never;

impl Ends for Never {
    fn is_asked_for(&self) -> bool {
        false
    }
}

/// Looks of a child into directories.
#[derive(Debug)]
pub(super) struct Apart<A> {
    /// The purpose of the child, after "the process that".
    purpose: &'static str,
    directories: Vec<PathBuf>,
    child: Option<Running<A>>,
    silent: Vec<Silent>,
}

/// A directory that did not answer.
#[derive(Debug)]
struct Silent {
    directory: PathBuf,
    /// The child that hangs there.
    process: Option<Hung>,
    until: Instant,
}

impl Silent {
    fn is_over(&mut self) -> bool {
        if self.process.as_mut().is_some_and(|process| !process.runs()) {
            self.process = None;
        }
        self.process.is_none() && Instant::now() >= self.until
    }
}

#[derive(Debug)]
struct Running<A> {
    process: HelperProcess,
    questions: UnixStream,
    lines: Receiver<ChildMessage<A>>,
}

/// The outcome of a question.
enum Heard<A> {
    Seen(Box<A>),
    /// It does nothing any more, at this directory.
    Hangs(Option<usize>),
    Gone,
    /// The watch is to end.
    Ends,
}

impl<A: DeserializeOwned + Send + 'static> Apart<A> {
    pub(super) fn new(purpose: &'static str, directories: Vec<PathBuf>) -> Self {
        Apart { purpose, directories, child: None, silent: Vec::new() }
    }

    /// A look at the directories that answer; `None` when the watch is to end. `question` is given the directories and whether the
    /// child is new.
    pub(super) fn look(
        &mut self,
        end: &impl Ends,
        question: impl Fn(&[PathBuf], bool) -> Question,
    ) -> Result<Option<A>, String> {
        helper_process::reap();
        self.silent.retain_mut(|silent| !silent.is_over());
        loop {
            let is_silent = |path: &PathBuf| self.silent.iter().any(|silent| silent.directory == *path);
            let asked: Vec<PathBuf> = self.directories.iter().filter(|path| !is_silent(path)).cloned().collect();
            let is_new = self.child.is_none();
            let child = match &mut self.child {
                Some(child) => child,
                none => none.insert(Running::start(self.purpose)?),
            };
            match child.ask(&question(&asked, is_new), end) {
                Heard::Seen(seen) => return Ok(Some(*seen)),
                Heard::Ends => return Ok(None),
                Heard::Gone => {
                    self.child = None;
                    return Err(format!("the process that {} ended; a new one starts at the next look", self.purpose));
                }
                Heard::Hangs(at) => {
                    let process = self.child.take().and_then(|child| child.process.kill());
                    let Some(directory) = at.and_then(|at| asked.get(at)).cloned() else {
                        return Err(format!("the process that {} hangs", self.purpose));
                    };
                    self.silent.push(Silent { directory, process, until: Instant::now() + REST });
                }
            }
        }
    }

    /// All directories, each with whether it did not answer.
    pub(super) fn directories(&self) -> impl Iterator<Item = (&Path, bool)> {
        let silent: Vec<&Path> = self.silent().collect();
        self.directories.iter().map(move |path| (path.as_path(), silent.contains(&path.as_path())))
    }

    /// What to say while one of them does not answer.
    pub(super) fn problem(&self) -> Option<String> {
        let directory = self.silent().next()?;
        let others = match self.silent.len() {
            1 => String::new(),
            count => format!(" ({count} such directories)"),
        };
        let path = one_line(&directory.to_string_lossy());
        Some(format!("{path}: {SILENT}{others}; check its server or unmount it"))
    }

    /// Those that did not answer.
    pub(super) fn silent(&self) -> impl Iterator<Item = &Path> {
        self.silent.iter().map(|silent| silent.directory.as_path())
    }
}

impl<A: DeserializeOwned + Send + 'static> Running<A> {
    /// Starts one in a group of processes of its own: Ctrl-C is for this process.
    fn start(purpose: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the process that {purpose} cannot be started: {error}");
        let (program, arguments) = PROGRAM.get().ok_or_else(|| format!("there is no program that {purpose}"))?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/").process_group(0);
        let (questions, given) = UnixStream::pair().map_err(failed)?;
        // One that hangs at its start reads no question.
        questions.set_write_timeout(Some(STILL)).map_err(failed)?;
        let answers = questions.try_clone().map_err(failed)?;
        command.stdin(OwnedFd::from(given)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = HelperProcess::start(&mut command).map_err(failed)?;
        // It holds the other end of the socket.
        drop(command);
        let (sender, lines) = sync_channel(64);
        // It ends with the child, or with the receiver of the lines.
        let read = move || {
            let mut answers = BufReader::new(answers);
            let mut line = Vec::new();
            while let Ok(1..) = io::Read::take(&mut answers, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                let Ok(said) = serde_json::from_slice(&line) else { return };
                if sender.send(said).is_err() {
                    return;
                }
                line.clear();
            }
        };
        std::thread::Builder::new().name("surefoot-looks".into()).spawn(read).map_err(failed)?;
        Ok(Running { process, questions, lines })
    }

    /// Asks for a look, and waits until the answer comes or the child ends or hangs.
    fn ask(&mut self, question: &Question, end: &impl Ends) -> Heard<A> {
        let mut question = serde_json::to_vec(question).unwrap_or_default();
        question.push(b'\n');
        if self.questions.write_all(&question).is_err() {
            return Heard::Gone;
        }
        let (mut at, mut still_since, mut used) = (None, Instant::now(), None);
        let begun = Instant::now();
        loop {
            match self.lines.recv_timeout(WAIT) {
                Ok(ChildMessage::Seen(seen)) => return Heard::Seen(seen),
                Ok(ChildMessage::At(now)) => (at, still_since) = (Some(now), Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return Heard::Gone,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if end.is_asked_for() && begun.elapsed() >= LAST {
                return Heard::Ends;
            }
            let (runs, now) = activity(self.process.pid());
            if runs || used != Some(now) {
                (used, still_since) = (Some(now), Instant::now());
            }
            if still_since.elapsed() >= STILL {
                return Heard::Hangs(at);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(in crate::rooms) fn use_this_program() {
        let own = std::env::current_exe().unwrap();
        let test = "rooms::apart::tests::the_child_itself";
        use_program(own, &[test, "--exact", "--ignored", "--nocapture", "--quiet"]);
    }

    #[test]
    #[ignore = "runs in a child process"]
    fn the_child_itself() {
        look_apart().unwrap();
    }

    impl<A: DeserializeOwned + Send + 'static> Apart<A> {
        /// As if this directory had not answered, and nothing hung there.
        pub(in crate::rooms) fn silence(&mut self, directory: &Path) {
            self.silent.push(Silent { directory: directory.to_owned(), process: None, until: Instant::now() });
        }

        pub(in crate::rooms) fn is_hung_on(&self) -> bool {
            self.silent[0].process.is_some()
        }

        /// Waits until the first directory may be asked again, without its rest.
        pub(in crate::rooms) fn wait_for_first(&mut self) {
            self.silent[0].until = Instant::now();
            while !self.silent[0].is_over() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
