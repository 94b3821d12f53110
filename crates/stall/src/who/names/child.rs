//! The child as seen from the one that asks: started when it is needed, ended when it idles, and started anew when a file
//! was its end.

use super::helper::{self, Helper, Subject};
use super::reader::TIME_MAX;
use super::wire::{Answer, Kind, MESSAGE_BYTES_MAX, Name, PLACES_MAX, Question, READY};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_hostfs::images::FileKey;

/// How often a file may be the child's end.
const STRIKES_MAX: u8 = 2;

/// How often the files of one user may.
const USER_STRIKES_MAX: u32 = 16;

/// Files and users that are remembered for it; beyond, all are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// What the files of one user, root aside, may take of the child's processor time: so much, and a tenth of the time since the
/// start. Others wait meanwhile.
const USER_TIME: Duration = Duration::from_secs(20);
const USER_TIME_SHARE: u32 = 10;

/// Who could do worse than to keep the child busy.
pub(super) const ROOT: u32 = 0;

/// The child ends itself after [`TIME_MAX`] of processor time; by the clock on the wall it may take longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child that nobody has asked for so long ends, and what it keeps with it.
pub(crate) const IDLE: Duration = Duration::from_secs(20);

/// A child that cannot be started is not tried again for so long.
const RETRY: Duration = Duration::from_secs(5);

pub(super) static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Tells once how the child is started: a program, and the arguments with which it calls [`super::read_names`] and nothing
/// else. Without it user stacks are addresses.
pub fn use_program(program: impl Into<PathBuf>, arguments: &[&str]) {
    let _ = PROGRAM.set((program.into(), arguments.iter().map(OsString::from).collect()));
}

/// What children have used so far, as they say it with each answer.
pub(super) static USED_NS: AtomicU64 = AtomicU64::new(0);

/// Processor time of all children of this process for their answers, and resident memory of those that run.
pub(crate) fn own_cost(root: &Root) -> (u64, u64) {
    (USED_NS.load(Ordering::Relaxed), helper::resident_bytes(root))
}

/// How often the child ended over a question; shared with whoever reports it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deaths(Arc<AtomicU64>);

impl Deaths {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Asks the child.
pub(crate) struct Asker {
    child: Option<Running>,
    /// How often each file was the child's end.
    strikes: HashMap<FileKey, u8>,
    users: HashMap<u32, User>,
    deaths: Deaths,
    number: u64,
    since: Instant,
    failed: Option<(Instant, String)>,
}

#[derive(Default)]
struct User {
    strikes: u32,
    time: Duration,
}

struct Running {
    helper: Helper,
    asked: Instant,
}

/// What came of a question.
enum Heard {
    Answer(Answer, Duration),
    Gone,
    Hangs,
}

impl Asker {
    pub(crate) fn new(deaths: Deaths) -> Self {
        Asker {
            child: None,
            strikes: HashMap::new(),
            users: HashMap::new(),
            deaths,
            number: 0,
            since: Instant::now(),
            failed: None,
        }
    }

    /// The functions at these places of a user's file, or why they are not known. The file is opened only where the child
    /// does not know it yet.
    pub(crate) fn ask(
        &mut self,
        user: u32,
        kind: Kind,
        key: FileKey,
        places: &[u64],
        open: impl FnMut() -> io::Result<File>,
    ) -> Result<Vec<Vec<Name>>, String> {
        self.may_ask(user, &key)?;
        let mut open = open;
        let mut all = Vec::with_capacity(places.len());
        for places in places.chunks(PLACES_MAX) {
            let mut answer = self.ask_once(user, kind, key, places, &mut open);
            // Whatever ended it, and be it the hand of an administrator: the file has another chance.
            while answer.is_none() {
                self.note_end(user, key);
                self.may_ask(user, &key)?;
                answer = self.ask_once(user, kind, key, places, &mut open);
            }
            all.extend(answer.unwrap_or_else(|| Err("not asked".into()))?);
        }
        Ok(all)
    }

    /// Whether a child runs that has been asked lately; one that idles is ended.
    pub(crate) fn is_running(&mut self) -> bool {
        if self.child.as_ref().is_some_and(|child| child.asked.elapsed() >= IDLE) {
            self.child = None;
        }
        self.child.is_some()
    }

    fn may_ask(&mut self, user: u32, key: &FileKey) -> Result<(), String> {
        helper::may_ask(Subject::Device(key.device), user)?;
        if self.strikes.get(key).is_some_and(|strikes| *strikes >= STRIKES_MAX) {
            return Err("reading its file ended the reader of names twice".into());
        }
        if user == ROOT {
            return Ok(());
        }
        let time_max = USER_TIME + self.since.elapsed() / USER_TIME_SHARE;
        let User { strikes, time } = self.user(user);
        if *strikes >= USER_STRIKES_MAX {
            return Err(format!("files of user {user} ended the reader of names {strikes} times"));
        }
        if *time > time_max {
            return Err(format!("files of user {user} took the reader of names too much time"));
        }
        Ok(())
    }

    fn user(&mut self, user: u32) -> &mut User {
        if self.users.len() >= REMEMBERED_MAX && !self.users.contains_key(&user) {
            self.users.clear();
        }
        self.users.entry(user).or_default()
    }

    fn note_end(&mut self, user: u32, key: FileKey) {
        self.child = None;
        self.deaths.0.fetch_add(1, Ordering::Relaxed);
        if self.strikes.len() >= REMEMBERED_MAX {
            self.strikes.clear();
        }
        *self.strikes.entry(key).or_default() += 1;
        self.user(user).strikes += 1;
    }

    /// One question to a child that runs; `None` when that was its end.
    fn ask_once(
        &mut self,
        user: u32,
        kind: Kind,
        key: FileKey,
        places: &[u64],
        open: &mut impl FnMut() -> io::Result<File>,
    ) -> Option<Result<Vec<Vec<Name>>, String>> {
        if !self.is_running() {
            if let Some((_, why)) = self.failed.as_ref().filter(|(at, _)| at.elapsed() < RETRY) {
                return Some(Err(why.clone()));
            }
            match Running::start() {
                Ok(child) => (self.child, self.failed) = (Some(child), None),
                Err(why) => {
                    self.failed = Some((Instant::now(), why.clone()));
                    return Some(Err(why));
                }
            }
        }
        self.child.as_mut()?.asked = Instant::now();
        let mut file = None;
        for _ in 0..2 {
            self.number += 1;
            let question = Question { number: self.number, kind, key, places: places.to_vec() };
            let (answer, took) = match self.child.as_mut()?.answer(&question, file.as_ref()) {
                Heard::Answer(answer, took) => (answer, took),
                Heard::Gone => return None,
                Heard::Hangs => {
                    self.child.take()?.helper.end(Subject::Device(key.device), user);
                    return Some(Err("its file system does not answer".into()));
                }
            };
            self.user(user).time += took;
            USED_NS.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
            match answer {
                Answer::Names(names) => return Some(Ok(names)),
                Answer::Refused(fault) => return Some(Err(fault.to_string())),
                Answer::NeedsFile => match open() {
                    Ok(opened) => file = Some(opened),
                    Err(error) => return Some(Err(format!("its file cannot be opened: {error}"))),
                },
            }
        }
        // It asks for what it has been given.
        None
    }
}

impl Running {
    fn start() -> Result<Self, String> {
        let helper = Helper::start("reader", READY, PATIENCE)?;
        Ok(Running { helper, asked: Instant::now() })
    }

    fn answer(&self, question: &Question, file: Option<&File>) -> Heard {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let patience = PATIENCE.max(TIME_MAX);
        match self.helper.ask(&question.encode(), file, &mut buffer, false, patience) {
            helper::Heard::Gone => Heard::Gone,
            helper::Heard::Hangs => Heard::Hangs,
            helper::Heard::Answer(message) => {
                match Answer::decode(&buffer[..message.bytes], question.number, question.places.len()) {
                    Some((answer, took_ns)) => Heard::Answer(answer, Duration::from_nanos(took_ns)),
                    None => Heard::Gone,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::who::names::tests::use_this_program;
    use std::cell::RefCell;
    use std::os::unix::fs::MetadataExt;

    fn own() -> (FileKey, u64, impl Fn() -> io::Result<File>) {
        let open = || File::open("/proc/self/exe");
        let file = open().unwrap().metadata().unwrap();
        let key = FileKey { device: file.dev(), inode: file.ino(), bytes: file.len(), changed_ns: 0 };
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = a_function_that_the_child_finds as *const () as u64;
        let mappings: Vec<_> = text.lines().filter_map(surefoot_hostfs::images::Mapping::parse).collect();
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        (key, here - mapping.start + mapping.offset, open)
    }

    #[inline(never)]
    fn a_function_that_the_child_finds() {}

    fn is_named(names: &Result<Vec<Vec<Name>>, String>) -> bool {
        let names = names.as_ref().unwrap();
        names[0].iter().any(|name| name.text.contains("a_function_that_the_child_finds"))
    }

    #[test]
    fn a_child_that_ended_is_started_anew_and_counted() {
        use_this_program();
        let deaths = Deaths::default();
        let mut asker = Asker::new(deaths.clone());
        let (key, place, open) = own();
        assert!(is_named(&asker.ask(7, Kind::Elf, key, &[place], &open)));
        let child = asker.child.as_mut().unwrap();
        surefoot_sys::children::signal_process(child.helper.pid(), surefoot_sys::children::Signal::Kill).unwrap();
        assert!(is_named(&asker.ask(7, Kind::Elf, key, &[place], &open)), "the file has another chance");
        assert_eq!((deaths.count(), asker.strikes[&key]), (1, 1));
        let (used_ns, _) = own_cost(&Root::host());
        assert!(used_ns > 100_000, "to read this program took {used_ns} ns");
        let child = asker.child.as_ref().unwrap();
        assert!(child.asked.elapsed() < IDLE && asker.is_running());
        asker.child.as_mut().unwrap().asked -= IDLE;
        assert!(!asker.is_running(), "it idles, and nothing of it stays");
        assert!(is_named(&asker.ask(7, Kind::Elf, key, &[place], &open)));
        assert_eq!(deaths.count(), 1, "to idle is no fault");
    }

    #[test]
    fn a_file_that_ended_the_child_twice_is_not_asked_again_and_a_user_with_many_neither() {
        use_this_program();
        let deaths = Deaths::default();
        let asker = RefCell::new(Asker::new(deaths.clone()));
        let (key, place, open) = own();
        let ask = |user, inode, open: &dyn Fn() -> io::Result<File>| {
            let mut asker = asker.borrow_mut();
            asker.ask(user, Kind::Elf, FileKey { inode, ..key }, &[place], open)
        };
        assert!(is_named(&ask(7, key.inode, &open)));
        // What opens the file ends the child, as the file would.
        let ending = || {
            std::process::Command::new("kill").args(["-KILL", &newest_child().to_string()]).status().unwrap();
            open()
        };
        for inode in 1..=u64::from(USER_STRIKES_MAX / 2) {
            let counted = deaths.count();
            let why = ask(8, inode, &ending);
            assert!(why.unwrap_err().contains("ended the reader of names"), "{inode}");
            assert_eq!(deaths.count(), counted + u64::from(STRIKES_MAX));
            assert_eq!(ask(9, inode, &open).unwrap_err(), "reading its file ended the reader of names twice");
        }
        assert_eq!(ask(8, 1_000, &open).unwrap_err(), "files of user 8 ended the reader of names 16 times");
        assert!(is_named(&ask(7, key.inode, &open)), "other users' files have names");
    }

    /// The child of this process that reads names and was started last by this thread. The kernel lists them in the order of their
    /// birth; their numbers begin again at the end of their range.
    fn newest_child() -> u32 {
        let list = std::fs::read_to_string("/proc/thread-self/children").unwrap();
        list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).next_back().unwrap()
    }

    #[test]
    fn a_user_whose_files_take_long_waits_for_the_others() {
        use_this_program();
        let mut asker = Asker::new(Deaths::default());
        let (key, place, open) = own();
        asker.user(8).time = USER_TIME + Duration::from_secs(3600);
        let why = asker.ask(8, Kind::Elf, key, &[place], &open).unwrap_err();
        assert_eq!(why, "files of user 8 took the reader of names too much time");
        assert!(is_named(&asker.ask(7, Kind::Elf, key, &[place], &open)));
        asker.since -= Duration::from_secs(36_000);
        assert!(is_named(&asker.ask(8, Kind::Elf, key, &[place], &open)), "a share of the time is theirs");
    }
}
