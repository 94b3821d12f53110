//! A process that this one starts and asks, and that may hang: in the kernel, on a file whose file system does not answer.
//!
//! Such a process is killed and counted, and another takes its place. Some file systems let it be killed (NFS, and FUSE whose server
//! reads no requests): then nothing is asked of that file system for [`SILENT`]. Others do not: then it is left behind, and
//! nothing is asked there as long as it hangs.

use super::child::{PROGRAM, ROOT};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, privilege, usage};
use surefoot_sys::channel::{Channel, Message};
use surefoot_sys::helper_process::{self, HelperProcess, activity};

/// What tells the program which of its two parts it is.
pub(super) const PART: &str = "SUREFOOT_NAMES";

/// How often a helper that has not answered is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A helper that has done nothing for so long, and is not waiting for a processor, hangs.
const STILL: Duration = Duration::from_secs(5);

/// For how long nothing is asked of a file system on which a helper hung that could be killed.
const SILENT: Duration = Duration::from_secs(60);

/// How many may have hung lately for the files of one user, and of all users that are neither root nor this process's: each
/// holds up names for [`STILL`], and may be left behind. As many more for the files of those two.
const HUNG_OF_USER: usize = 2;
const HUNG_MAX: usize = 32;

/// What a helper was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// A file on this file system.
    Device(u64),
    /// A path of this process, whatever is mounted there.
    Process(u32),
}

/// A helper that hung.
struct Hung {
    /// `None` once it has ended: it could be killed.
    process: Option<helper_process::Hung>,
    subject: Subject,
    user: u32,
    at: Instant,
}

#[derive(Default)]
struct All {
    hung: Vec<Hung>,
    /// Since this program began.
    count: u64,
}

static ALL: Mutex<All> = Mutex::new(All { hung: Vec::new(), count: 0 });

/// Helpers that hung since this program began.
pub(crate) fn hung_count() -> u64 {
    ALL.lock().map_or(0, |all| all.count)
}

/// Refuses what a helper hung on, and the files of a user on which too many did.
pub(crate) fn may_ask(subject: Subject, user: u32) -> Result<(), String> {
    let Ok(mut all) = ALL.lock() else { return Err("the list of helpers that hung is lost".into()) };
    all.look();
    all.may_ask(subject, user, privilege::effective_user())
}

/// Forgets that something hung: the next file system of a test may have the same number.
#[cfg(test)]
pub(super) fn forget(subject: Subject) {
    ALL.lock().unwrap_or_else(|error| error.into_inner()).hung.retain(|hung| hung.subject != subject);
}

impl All {
    /// Forgets what may be asked again, and reaps.
    fn look(&mut self) {
        helper_process::reap();
        // One that could not be killed ends when its file system answers or goes.
        let still =
            |hung: &mut Hung| hung.process.as_mut().map_or(hung.at.elapsed() < SILENT, |process| process.runs());
        self.hung.retain_mut(still);
    }

    fn may_ask(&self, subject: Subject, user: u32, own_user: u32) -> Result<(), String> {
        if self.hung.iter().any(|hung| hung.subject == subject) {
            return Err("its file system does not answer".into());
        }
        let is_ours = |user: u32| user == ROOT || user == own_user;
        let of_user = self.hung.iter().filter(|hung| hung.user == user).count();
        let of_kind = self.hung.iter().filter(|hung| is_ours(hung.user) == is_ours(user)).count();
        if !is_ours(user) && of_user >= HUNG_OF_USER {
            return Err(format!("{of_user} processes that read files of user {user} hung"));
        }
        if of_kind >= HUNG_MAX {
            return Err(format!(
                "{of_kind} processes that read files of users hung, {of_user} of them for user {user}"
            ));
        }
        Ok(())
    }
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
    process: Option<HelperProcess>,
    channel: Channel,
}

/// The helpers that run.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The resident memory of all helpers of this process, bytes.
pub(super) fn resident_bytes(root: &Root) -> u64 {
    let running = RUNNING.lock().map(|running| running.clone()).unwrap_or_default();
    running.into_iter().filter_map(|pid| usage::resident_bytes_of(root, pid).ok()).sum()
}

impl Helper {
    /// Starts the program as one of its parts, in a group of processes of its own: Ctrl-C is for this process, which has names to ask
    /// for at its end. Nothing is done between fork and exec, so that the memory of this process is not copied.
    pub(super) fn start(part: &str, ready: &[u8], patience: Duration) -> Result<Self, String> {
        let (program, arguments) = PROGRAM.get().ok_or("nothing is there to read its file")?;
        let started = || -> io::Result<Helper> {
            let (channel, given) = Channel::pair()?;
            let mut command = Command::new(program);
            command.args(arguments).env_clear().env(PART, part).current_dir("/").process_group(0);
            command.stdin(Stdio::from(given)).stdout(Stdio::null()).stderr(Stdio::null());
            let process = HelperProcess::start(&mut command)?;
            // It holds the other end of the channel.
            drop(command);
            if let Ok(mut running) = RUNNING.lock() {
                running.push(process.pid());
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
        self.process.as_ref().map_or(0, HelperProcess::pid)
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

    /// Ends it, because it hung on this. One that cannot be killed is left behind.
    pub(super) fn end(mut self, subject: Subject, user: u32) {
        let process = self.kill();
        if let Ok(mut all) = ALL.lock() {
            all.count += 1;
            all.hung.push(Hung { process, subject, user, at: Instant::now() });
        }
    }

    /// Kills it; gives it back where it does not end.
    fn kill(&mut self) -> Option<helper_process::Hung> {
        let process = self.process.take()?;
        if let Ok(mut running) = RUNNING.lock() {
            running.retain(|pid| *pid != process.pid());
        }
        process.kill()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that was asked nothing does not hang; on a machine that is very busy it may end later, and is reaped then.
        drop(self.kill());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::path::Path;
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    const OWN: u32 = 500;

    fn hung(subject: u64, user: u32) -> Hung {
        Hung { process: None, subject: Subject::Device(subject), user, at: Instant::now() }
    }

    #[test]
    fn hung_file_systems_of_many_users_take_no_names_from_root_or_this_user() {
        let hung: Vec<Hung> = (0..HUNG_MAX as u32).map(|number| hung(u64::from(number), 1_000 + number / 2)).collect();
        let all = All { hung, ..All::default() };
        let why = |subject, user| all.may_ask(Subject::Device(subject), user, OWN).err();
        assert_eq!((why(900, ROOT), why(900, OWN)), (None, None));
        assert_eq!(why(3, ROOT).unwrap(), "its file system does not answer");
        assert_eq!(why(900, 1_000).unwrap(), "2 processes that read files of user 1000 hung");
        assert_eq!(why(900, 77).unwrap(), "32 processes that read files of users hung, 0 of them for user 77");
    }

    #[test]
    fn dead_file_systems_of_root_silence_the_others_of_root_no_sooner_than_the_limit() {
        let mut all =
            All { hung: (0..HUNG_MAX as u64 - 1).map(|number| hung(number, ROOT)).collect(), ..All::default() };
        let may = |all: &All, user| all.may_ask(Subject::Device(900), user, OWN).is_ok();
        assert!(may(&all, ROOT) && may(&all, OWN) && may(&all, 77));
        all.hung.push(hung(901, OWN));
        assert!(!may(&all, ROOT) && !may(&all, OWN) && may(&all, 77));
    }

    #[test]
    fn what_could_be_killed_is_asked_again_after_a_while_and_what_could_not_when_it_ends() {
        let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
            Ok(mounted) => mounted,
            Err(why) => return not_run("helper::what_could_be_killed_is_asked_again_after_a_while", &why),
        };
        mounted.hang();
        let hangs = HelperProcess::start(Command::new("cat").arg(mounted.program()).stderr(Stdio::null())).unwrap();
        while mounted.unanswered() == 0 {
            std::thread::yield_now();
        }
        let long_ago = Instant::now().checked_sub(SILENT * 2).unwrap();
        let mut all = All::default();
        all.hung.push(Hung { process: hangs.kill(), at: long_ago, ..hung(1, 77) });
        all.hung.push(Hung { at: long_ago, ..hung(2, 77) });
        all.hung.push(hung(3, 77));
        let subjects = |all: &mut All| {
            all.look();
            all.hung.iter().map(|hung| hung.subject).collect::<Vec<_>>()
        };
        assert_eq!(subjects(&mut all), [Subject::Device(1), Subject::Device(3)]);
        drop(mounted);
        while subjects(&mut all).contains(&Subject::Device(1)) {
            std::thread::yield_now();
        }
    }
}
