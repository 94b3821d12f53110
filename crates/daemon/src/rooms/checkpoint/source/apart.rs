//! Looks made by a child process: a directory may lie on a file system that does not answer, a user's FUSE server or a dead NFS
//! one. Whoever asks it for anything then waits in the kernel, where even a signal may not end it.
//!
//! The child says at which directory it is before it asks for anything there. Where it does nothing for too long it is killed,
//! or left behind until the file system answers or goes, and another one looks at the other directories meanwhile. What was known
//! of a directory that does not answer stays as it was: nothing there is called gone.

use super::jobs::Found;
use super::look::Looker;
use super::text;
use crate::sources::End;
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
use surefoot_hostfs::helper_process::{self, HelperProcess, Hung, activity};
use surefoot_hostfs::privilege::Capabilities;
use surefoot_hostfs::{Root, shed};
use surefoot_model::{CheckpointDirectory, CheckpointLook, CheckpointTier};

/// How often a child that has not answered is looked at.
const WAIT: Duration = Duration::from_millis(250);
/// A child that has done nothing for so long, and waits for no processor, hangs.
const STILL: Duration = Duration::from_secs(10);
/// A directory that did not answer is left alone for so long, and as long as a process hangs on it.
const REST: Duration = Duration::from_secs(60);
/// The longest line of a child: some times what a look may hold.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// All that a child needs: directories and manifests are other users'.
const READS: &str = "CAP_DAC_READ_SEARCH";

/// What is said of a directory on such a file system.
const SILENT: &str = "its file system does not answer";

static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Tells once how the child is started: a program, and the arguments with which it calls [`look_apart`] and nothing else.
/// Without it this process looks itself.
pub fn use_program(program: impl Into<PathBuf>, arguments: &[&str]) {
    let _ = PROGRAM.set((program.into(), arguments.iter().map(OsString::from).collect()));
}

/// What a child is asked for: a look at these directories.
#[derive(Serialize, Deserialize)]
struct Question(Vec<Vec<u8>>);

/// A line of a child.
#[derive(Serialize, Deserialize)]
enum Line {
    /// It is about to ask for something in this directory.
    At(usize),
    /// What it saw.
    Seen(Box<(CheckpointLook, Vec<Found>)>),
}

/// What the child does: it answers the questions that come by its standard input, a socket, until that ends.
///
/// # Errors
/// When whoever asks is gone, or is not understood, or when the kernel refuses to take capabilities away.
pub fn look_apart() -> io::Result<()> {
    // It may have been started before the watch gave up what was for its beginning.
    shed::keep_only(&Root::host(), Capabilities::of(&[READS])).map_err(io::Error::other)?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let say = |line: &Line| -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        (&socket).write_all(&line)
    };
    let mut looker = Looker::new(Root::host(), Vec::new());
    for question in BufReader::new(&socket).lines() {
        let Question(directories) = serde_json::from_str(&question?)?;
        looker.look_into(directories.into_iter().map(|path| PathBuf::from(OsString::from_vec(path))).collect());
        let mut failed = Ok(());
        let seen = looker.look(&mut |at| {
            if failed.is_ok() {
                failed = say(&Line::At(at));
            }
        });
        failed?;
        say(&Line::Seen(Box::new(seen)))?;
    }
    Ok(())
}

/// Looks, by a child where there can be one.
pub(super) struct Looks {
    directories: Vec<PathBuf>,
    /// Looks where no child does.
    looker: Looker,
    is_host: bool,
    child: Option<Running>,
    silent: Vec<Silent>,
    /// What the last look found.
    last: Vec<Found>,
}

/// A directory that did not answer.
struct Silent {
    directory: PathBuf,
    /// Who hangs there.
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

struct Running {
    process: HelperProcess,
    questions: UnixStream,
    lines: Receiver<Line>,
}

/// What came of a question.
enum Heard {
    Seen(CheckpointLook, Vec<Found>),
    /// It does nothing any more, at this directory.
    Hangs(Option<usize>),
    Gone,
    /// The watch is to end.
    Ends,
}

impl Looks {
    pub(super) fn new(root: Root, directories: Vec<PathBuf>) -> Self {
        let (is_host, looker) = (root.is_host(), Looker::new(root, directories.clone()));
        Looks { directories, looker, is_host, child: None, silent: Vec::new(), last: Vec::new() }
    }

    /// What there is to be seen now, and the jobs; `None` where the watch is to end.
    pub(super) fn look(&mut self, end: &End) -> Result<Option<(CheckpointLook, Vec<Found>)>, String> {
        if PROGRAM.get().is_none() || !self.is_host {
            return Ok(Some(self.looker.look(&mut |_| ())));
        }
        helper_process::reap();
        self.silent.retain_mut(|silent| !silent.is_over());
        loop {
            let is_silent = |path: &PathBuf| self.silent.iter().any(|silent| silent.directory == *path);
            let asked: Vec<PathBuf> = self.directories.iter().filter(|path| !is_silent(path)).cloned().collect();
            let child = match &mut self.child {
                Some(child) => child,
                none => none.insert(Running::start()?),
            };
            match child.ask(&asked, end) {
                Heard::Seen(look, found) => return Ok(Some(self.with_silent(look, found))),
                Heard::Ends => return Ok(None),
                Heard::Gone => {
                    self.child = None;
                    return Err("the process that looks at checkpoints ended; another one looks again".to_owned());
                }
                Heard::Hangs(at) => {
                    let process = self.child.take().and_then(|child| child.process.kill());
                    let Some(directory) = at.and_then(|at| asked.get(at)).cloned() else {
                        return Err("the process that looks at checkpoints does nothing".to_owned());
                    };
                    self.silent.push(Silent { directory, process, until: Instant::now() + REST });
                }
            }
        }
    }

    /// A look, with the directories that were left out of it, and what was known of the jobs there.
    fn with_silent(&mut self, look: CheckpointLook, found: Vec<Found>) -> (CheckpointLook, Vec<Found>) {
        let (mut look, mut found) = (look, found);
        let silent: Vec<&Path> = self.silent.iter().map(|silent| silent.directory.as_path()).collect();
        for (at, directory) in self.directories.iter().enumerate().filter(|(_, path)| silent.contains(&path.as_path()))
        {
            let problem = Some(SILENT.to_owned());
            let view = CheckpointDirectory { path: text(directory), problem, ..CheckpointDirectory::default() };
            look.directories.insert(at.min(look.directories.len()), view);
        }
        for before in std::mem::take(&mut self.last) {
            let lies_there = |path: &String| silent.iter().any(|silent| Path::new(path).starts_with(silent));
            if before.job.directories.iter().any(lies_there) {
                keep(&mut found, before);
            }
        }
        self.last.clone_from(&found);
        (look, found)
    }
}

/// Keeps what was known of a job in tiers that did not answer.
fn keep(found: &mut Vec<Found>, before: Found) {
    let Some(now) = found.iter_mut().find(|now| now.job.name == before.job.name) else {
        return found.push(before);
    };
    let is_new = |path: &String| !now.job.directories.contains(path);
    let directories: Vec<String> = before.job.directories.into_iter().filter(is_new).collect();
    now.job.directories.extend(directories);
    let known: Vec<_> = now.job.generations.iter().map(|one| (one.tier, one.number, one.nonce.clone())).collect();
    let kept = before.job.generations.into_iter().filter(|one| {
        one.tier != CheckpointTier::Memory && !known.contains(&(one.tier, one.number, one.nonce.clone()))
    });
    now.job.generations.extend(kept);
    if now.entries.is_empty() {
        (now.entries, now.left_out_count, now.skipped_count) =
            (before.entries, before.left_out_count, before.skipped_count);
    }
}

impl Running {
    /// Starts one in a group of processes of its own: Ctrl-C is for this process.
    fn start() -> Result<Self, String> {
        let failed = |error: io::Error| format!("the process that looks at checkpoints cannot be started: {error}");
        let (program, arguments) = PROGRAM.get().ok_or("no program looks at checkpoints")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/").process_group(0);
        let (questions, given) = UnixStream::pair().map_err(failed)?;
        let answers = questions.try_clone().map_err(failed)?;
        command.stdin(OwnedFd::from(given)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = HelperProcess::start(&mut command).map_err(failed)?;
        // It holds the other end of the socket.
        drop(command);
        let (sender, lines) = sync_channel(64);
        // It ends with the child, or with whoever waits for a line.
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

    /// Asks for a look, and waits until it comes or the child ends or hangs.
    fn ask(&mut self, directories: &[PathBuf], end: &End) -> Heard {
        let bytes = |path: &PathBuf| OsStr::as_bytes(path.as_os_str()).to_vec();
        let mut question = serde_json::to_vec(&Question(directories.iter().map(bytes).collect())).unwrap_or_default();
        question.push(b'\n');
        if self.questions.write_all(&question).is_err() {
            return Heard::Gone;
        }
        let (mut at, mut still_since, mut used) = (None, Instant::now(), None);
        loop {
            match self.lines.recv_timeout(WAIT) {
                Ok(Line::Seen(seen)) => return Heard::Seen(seen.0, seen.1),
                Ok(Line::At(now)) => (at, still_since) = (Some(now), Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return Heard::Gone,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if end.is_asked_for() {
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::AtomicBool;
    use surefoot_checkpoint::{Alone, Checkpointer, Config};
    use surefoot_model::{CheckpointJob, Generation, GenerationState};
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn use_this_program() {
        let own = std::env::current_exe().unwrap();
        let test = "rooms::checkpoint::source::apart::tests::the_child_itself";
        use_program(own, &[test, "--exact", "--ignored", "--nocapture", "--quiet"]);
    }

    #[test]
    #[ignore = "runs in a child process"]
    fn the_child_itself() {
        look_apart().unwrap();
    }

    fn generation(tier: CheckpointTier, number: u64) -> Generation {
        Generation {
            number,
            nonce: "0000000000000001".into(),
            tier,
            state: GenerationState::Complete,
            missing: String::new(),
            taken_realtime_ns: None,
            ranks_here: 1,
            ranks: 1,
            payload_bytes: 1,
            stored_bytes: 1,
            protection: String::new(),
            directory: String::new(),
        }
    }

    fn save(directory: &Path, job: &str) -> Checkpointer {
        let mut job = Checkpointer::open(Config::new(job, directory, None), Box::new(Alone)).unwrap();
        job.checkpoint().unwrap();
        job
    }

    #[test]
    fn a_directory_whose_file_system_does_not_answer_hides_no_other_and_holds_nobody_up() {
        use_this_program();
        let test = "apart::a_directory_whose_file_system_does_not_answer_hides_no_other_and_holds_nobody_up";
        let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(test, &why),
        };
        let home = tempfile::tempdir().unwrap();
        let job = save(home.path(), "job");
        let hanging = mounted.program().parent().unwrap().to_owned();
        let mut looks = Looks::new(Root::host(), vec![hanging.clone(), home.path().to_owned()]);
        let end = End::never(&STOP);
        mounted.hang();
        let (look, found) = looks.look(&end).unwrap().unwrap();
        assert!(mounted.unanswered() > 0, "it was never asked");
        let problems: Vec<Option<&str>> = look.directories.iter().map(|view| view.problem.as_deref()).collect();
        assert_eq!(problems, [Some(SILENT), None]);
        assert_eq!(look.directories[0].path, text(&hanging));
        assert_eq!(found.iter().map(|found| found.job.name.as_str()).collect::<Vec<_>>(), ["job"]);
        // Again at once, because nobody is sent there any more.
        let asked = mounted.unanswered();
        assert_eq!(looks.look(&end).unwrap().unwrap().0.directories[0].problem.as_deref(), Some(SILENT));
        assert_eq!(mounted.unanswered(), asked);
        assert!(looks.silent[0].process.is_some(), "who asked it hangs, and cannot be ended");
        // It goes, and so does who hung there.
        drop(mounted);
        looks.silent[0].until = Instant::now();
        while !looks.silent[0].is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (look, _) = looks.look(&end).unwrap().unwrap();
        assert_ne!(look.directories[0].problem.as_deref(), Some(SILENT));
        drop(job);
    }

    #[test]
    fn what_was_known_of_a_job_in_a_directory_that_does_not_answer_stays() {
        let home = tempfile::tempdir().unwrap();
        let [there, silent] = ["there", "silent"].map(|name| home.path().join(name));
        let job = |directory: &Path, tier, number| {
            let mut found = Found::default();
            found.job.name = "job".into();
            found.job.directories = vec![text(&directory.join("job"))];
            found.job.generations = vec![generation(tier, number)];
            found
        };
        let mut looks = Looks::new(Root::host(), vec![there.clone(), silent.clone()]);
        let mut before = job(&silent, CheckpointTier::Durable, 3);
        before.job.directories.push(text(&there.join("job")));
        looks.last = vec![
            before,
            Found { job: CheckpointJob { name: "gone".into(), ..Default::default() }, ..Found::default() },
        ];
        looks.silent.push(Silent { directory: silent.clone(), process: None, until: Instant::now() });
        let (look, found) = looks.with_silent(CheckpointLook::default(), vec![job(&there, CheckpointTier::Memory, 4)]);
        assert_eq!(look.directories.len(), 1);
        assert_eq!(found.len(), 1, "{found:?}");
        let generations: Vec<u64> = found[0].job.generations.iter().map(|one| one.number).collect();
        assert_eq!((generations, found[0].job.directories.len()), (vec![4, 3], 2));
        // Where nothing of the job is seen any more it is still there.
        let (_, found) = looks.with_silent(CheckpointLook::default(), Vec::new());
        assert_eq!(found.len(), 1);
    }
}
