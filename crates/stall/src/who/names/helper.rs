//! A process that this one starts and asks, and that may hang: in the kernel, on a file whose file system does not answer.
//!
//! Such a process cannot be killed until the file system answers or goes. It is left behind and counted, another takes its
//! place, and what it hung on is not asked for again as long as it is there.

use super::child::PROGRAM;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use surefoot_hostfs::channel::{Channel, Message};
use surefoot_hostfs::{Root, thread};
use surefoot_model::Digits;

/// What tells the program which of its two parts it is.
pub(super) const PART: &str = "SUREFOOT_NAMES";

/// How often a helper that has not answered is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A helper that has done nothing for so long, and is not waiting for a processor, hangs.
const STILL: Duration = Duration::from_secs(5);

/// How long a helper that was killed may take to end.
const END: Duration = Duration::from_millis(200);

/// How many may hang at once for the files of one user, and in all.
const HUNG_OF_USER: usize = 2;
const HUNG_MAX: usize = 32;

/// What a helper was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A file on this file system.
    Device(u64),
    /// A path of this process, whatever is mounted there.
    Process(u32),
}

/// A helper that cannot be ended.
struct Hung {
    process: Child,
    subject: Subject,
    user: u32,
}

#[derive(Default)]
struct All {
    hung: Vec<Hung>,
    /// Since this program began.
    count: u64,
}

static ALL: Mutex<All> = Mutex::new(All { hung: Vec::new(), count: 0 });

/// Helpers that were left behind since this program began.
pub(crate) fn hung_count() -> u64 {
    ALL.lock().map_or(0, |all| all.count)
}

/// Refuses what a helper hangs on, and the files of a user on which too many do.
pub(crate) fn may_ask(subject: Subject, user: u32) -> Result<(), String> {
    let Ok(mut all) = ALL.lock() else { return Err("the list of helpers that hang is lost".into()) };
    all.hung.retain_mut(|hung| matches!(hung.process.try_wait(), Ok(None)));
    if all.hung.iter().any(|hung| hung.subject == subject) {
        return Err("its file system does not answer".into());
    }
    let of_user = all.hung.iter().filter(|hung| hung.user == user).count();
    if of_user >= HUNG_OF_USER || all.hung.len() >= HUNG_MAX {
        return Err(format!("{of_user} processes that read files of user {user} hang"));
    }
    Ok(())
}

/// What came of a question.
pub(super) enum Heard {
    Answer(Message),
    /// It ended over the question.
    Gone,
    /// It does nothing any more.
    Hangs,
}

pub(super) struct Helper {
    process: Option<Child>,
    channel: Channel,
}

/// The helpers that run.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The resident memory of all helpers of this process, bytes.
pub(super) fn resident_bytes(root: &Root) -> u64 {
    let running = RUNNING.lock().map(|running| running.clone()).unwrap_or_default();
    running.into_iter().filter_map(|pid| thread::resident_bytes_of(root, pid).ok()).sum()
}

impl Helper {
    /// Starts the program as one of its parts, in a group of processes of its own: Ctrl-C is for this process, which has names to ask
    /// for at its end. Nothing is done between fork and exec, so that the memory of this process is not copied.
    pub(super) fn start(part: &str, ready: &[u8], patience: Duration) -> Result<Self, String> {
        let (program, arguments) = PROGRAM.get().ok_or("nothing is there to read its file")?;
        let started = || -> io::Result<Helper> {
            let (channel, given) = Channel::pair()?;
            let process = Command::new(program)
                .args(arguments)
                .env_clear()
                .env(PART, part)
                .current_dir("/")
                .process_group(0)
                .stdin(Stdio::from(given))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            if let Ok(mut running) = RUNNING.lock() {
                running.push(process.id());
            }
            let helper = Helper { process: Some(process), channel };
            let mut buffer = vec![0; ready.len()];
            match helper.channel.receive(&mut buffer, false, Some(patience))? {
                Some(_) if buffer == ready => Ok(helper),
                _ => Err(io::Error::other("it ended at once")),
            }
        };
        started().map_err(|error| format!("the reader of names cannot be started: {error}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    /// Asks, and waits until it answers, ends, hangs, or takes longer than `patience`.
    pub(super) fn ask(
        &self,
        question: &[u8],
        file: Option<&File>,
        buffer: &mut [u8],
        with_file: bool,
        patience: Duration,
    ) -> Heard {
        if self.channel.send(question, file).is_err() {
            return Heard::Gone;
        }
        let (begun, mut still_since, mut used) = (Instant::now(), Instant::now(), None);
        loop {
            match self.channel.receive(buffer, with_file, Some(LOOK)) {
                Ok(Some(message)) => return Heard::Answer(message),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Ok(None) | Err(_) => return Heard::Gone,
            }
            let (runs, now) = activity(self.pid());
            if runs || used != Some(now) {
                (used, still_since) = (Some(now), Instant::now());
            }
            if still_since.elapsed() >= STILL || begun.elapsed() >= patience {
                return Heard::Hangs;
            }
        }
    }

    /// Ends it; one that hangs in the kernel is left behind, as hanging on this.
    pub(super) fn end(mut self, subject: Subject, user: u32) {
        let Some(process) = self.kill() else { return };
        if let Ok(mut all) = ALL.lock() {
            all.count += 1;
            all.hung.push(Hung { process, subject, user });
        }
    }

    /// Kills it; gives it back where it does not end.
    fn kill(&mut self) -> Option<Child> {
        let mut process = self.process.take()?;
        if let Ok(mut running) = RUNNING.lock() {
            running.retain(|pid| *pid != process.id());
        }
        // It may have ended already.
        let _ = process.kill();
        let begun = Instant::now();
        while matches!(process.try_wait(), Ok(None)) {
            if begun.elapsed() >= END {
                return Some(process);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that was asked nothing does not hang; on a machine that is very busy it is left to end by itself.
        let _ = self.kill();
    }
}

/// Whether a process has or wants a processor, and the processor time that it has used, clock ticks.
fn activity(pid: u32) -> (bool, u64) {
    let root = Root::host();
    let stat = root.read(root.proc(format!("{pid}/stat"))).unwrap_or_default();
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let state = fields.next().unwrap_or("R");
    // After the state: ppid to cmajflt are ten, then utime and stime.
    let ticks = fields.skip(10).take(2).filter_map(|ticks| ticks.digits::<u64>()).sum();
    (state == "R", ticks)
}
