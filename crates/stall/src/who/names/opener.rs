//! Opens the files of watched processes, in a process of its own: opening can wait for a file system for ever.
//!
//! It has the rights of this process and reads nothing of what it opens but to hand it on. The reader of names gets its files from it,
//! open; what this process itself reads of a file, the tables of its frames, comes as bytes.

use super::child::{ROOT, USED_NS};
use super::helper::{Heard, Helper, PART, Subject, may_ask};
use crate::Error;
use crate::spin::RunDelay;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_hostfs::images::{self, FileKey, Mapping, UnopenedFile};
use surefoot_hostfs::{Root, usage};
use surefoot_sys::channel::{Channel, Message};
use surefoot_sys::thread;

/// What it says when it is ready, and the name of this part of the program.
const READY: &[u8] = b"opens";
pub(super) const OPENER: &str = "opener";

/// The longest message: a piece of a file, and what stands before it.
const MESSAGE_BYTES_MAX: usize = (64 << 10) + 64;
const PIECE_BYTES: usize = 64 << 10;

/// Before the bytes of an answer: what came of the question, the processor time that it took, and how long it waited.
const HEADER_BYTES: usize = 1 + 8 + 8;

/// It answers within microseconds, or its file system is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the file systems of one user's files, or one of root's, may keep it waiting: so long, and a tenth of the time since
/// the start. Others wait meanwhile.
const WAITING: Duration = Duration::from_secs(10);
const WAITING_SHARE: u32 = 10;

/// Users and file systems whose waiting is remembered; beyond, all is forgotten.
const REMEMBERED_MAX: usize = 4096;

const FIND: u8 = 1;
const OPEN: u8 = 2;
const PERF_MAP: u8 = 3;
const READ: u8 = 4;

const DONE: u8 = 0;
const NOTHING: u8 = 1;
const FAILED: u8 = 2;

/// Asks for files of processes.
pub(crate) struct Opener {
    root: Root,
    helper: Option<(Helper, Instant)>,
    since: Instant,
    /// How long it was kept waiting, and by whom.
    waited: HashMap<Slow, Duration>,
}

/// Who is slow: another user with all of his file systems, because he can have many, or one of root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Slow {
    User(u32),
    Of(Subject),
}

impl Slow {
    fn of(subject: Subject, user: u32) -> Self {
        if user == ROOT { Slow::Of(subject) } else { Slow::User(user) }
    }
}

impl Opener {
    pub(crate) fn new(root: &Root) -> Self {
        Opener { root: root.clone(), helper: None, since: Instant::now(), waited: HashMap::new() }
    }

    fn may_ask(&self, subject: Subject, user: u32) -> Result<(), String> {
        may_ask(subject, user)?;
        let slow = Slow::of(subject, user);
        if self.waited.get(&slow).is_none_or(|waited| *waited <= WAITING + self.since.elapsed() / WAITING_SHARE) {
            return Ok(());
        }
        Err(match slow {
            Slow::User(user) => format!("file systems of user {user} took too long to answer"),
            Slow::Of(_) => "its file system took too long to answer".into(),
        })
    }

    fn add_waiting(&mut self, slow: Slow, time: Duration) {
        if self.waited.len() >= REMEMBERED_MAX && !self.waited.contains_key(&slow) {
            self.waited.clear();
        }
        *self.waited.entry(slow).or_default() += time;
    }

    /// The file behind a mapping, as [`images::find`].
    pub(crate) fn find(&mut self, user: u32, pid: u32, mapping: &Mapping) -> io::Result<UnopenedFile> {
        // The kernel's own link leads there without asking the file system, and a recorded tree has none.
        match images::find_by_kernel(&self.root, pid, mapping) {
            Err(_) if self.root.is_host() => {}
            found => return found,
        }
        let mut question = vec![FIND];
        question.extend(pid.to_le_bytes());
        [mapping.start, mapping.end, mapping.inode].iter().for_each(|number| question.extend(number.to_le_bytes()));
        question.extend(mapping.name.as_bytes());
        let (_, file) = self.ask(Subject::Process(pid), user, &question, None)?.ok_or(io::ErrorKind::NotFound)?;
        UnopenedFile::of(file.ok_or(io::ErrorKind::InvalidData)?.into())
    }

    /// Opens it.
    pub(crate) fn open(&mut self, user: u32, found: &UnopenedFile) -> io::Result<File> {
        if !self.root.is_host() {
            return found.open();
        }
        let held = File::from(found.as_fd().try_clone_to_owned()?);
        let subject = Subject::Device(found.key.device);
        let (_, file) = self.ask(subject, user, &[OPEN], Some(&held))?.ok_or(io::ErrorKind::NotFound)?;
        file.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The list of symbols of a process, as [`images::perf_map`].
    pub(crate) fn perf_map(&mut self, user: u32, pid: u32) -> io::Result<Option<(File, FileKey)>> {
        if !self.root.is_host() {
            return images::perf_map(&self.root, pid);
        }
        let mut question = vec![PERF_MAP];
        question.extend(pid.to_le_bytes());
        match self.ask(Subject::Process(pid), user, &question, None)? {
            None => Ok(None),
            Some((_, file)) => {
                let file = file.ok_or(io::ErrorKind::InvalidData)?;
                let key = FileKey::of_file(&file)?;
                Ok(Some((file, key)))
            }
        }
    }

    /// An open file whose bytes are read by the other process.
    pub(crate) fn bytes<'a>(&'a mut self, user: u32, key: FileKey, file: &'a File) -> Bytes<'a> {
        Bytes { opener: self, user, key, file }
    }

    /// The bytes and the file of an answer; `None` where there is nothing.
    fn ask(
        &mut self,
        subject: Subject,
        user: u32,
        question: &[u8],
        file: Option<&File>,
    ) -> io::Result<Option<(Vec<u8>, Option<File>)>> {
        self.may_ask(subject, user).map_err(io::Error::other)?;
        // One that idles ends, as the reader of names does; it may have been killed meanwhile.
        if self.helper.as_ref().is_some_and(|(_, asked)| asked.elapsed() >= super::IDLE) {
            self.helper = None;
        }
        for _ in 0..2 {
            let helper = match self.helper.take() {
                Some((helper, _)) => helper,
                None => Helper::start(OPENER, READY, PATIENCE).map_err(io::Error::other)?,
            };
            let mut buffer = vec![0; MESSAGE_BYTES_MAX];
            let message = match helper.ask(question, file, &mut buffer, true, PATIENCE) {
                Heard::Gone => continue,
                Heard::Hangs => {
                    helper.end(subject, user);
                    return Err(io::Error::other("its file system does not answer"));
                }
                Heard::Answer(message) => message,
            };
            self.helper = Some((helper, Instant::now()));
            let number = |at: usize| buffer[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            USED_NS.fetch_add(number(1), Ordering::Relaxed);
            self.add_waiting(Slow::of(subject, user), Duration::from_nanos(number(9)));
            let body = buffer.get(HEADER_BYTES..message.bytes).unwrap_or_default();
            return match buffer[0] {
                DONE => Ok(Some((body.to_vec(), message.file))),
                NOTHING => Ok(None),
                _ => Err(io::Error::other(String::from_utf8_lossy(body).into_owned())),
            };
        }
        Err(io::Error::other("the process that opens files ended over it"))
    }
}

/// The bytes of a file of a watched process.
pub(crate) struct Bytes<'a> {
    opener: &'a mut Opener,
    user: u32,
    key: FileKey,
    file: &'a File,
}

/// What tables are read from.
pub(crate) trait Readable {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Fills the buffer from a place on.
    fn fill(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Readable for Bytes<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.key.bytes)
    }

    fn fill(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if !self.opener.root.is_host() {
            return self.file.read_exact_at(buffer, offset);
        }
        let subject = Subject::Device(self.key.device);
        let mut at = offset;
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let mut question = vec![READ];
            question.extend(at.to_le_bytes());
            question.extend((piece.len() as u32).to_le_bytes());
            let (bytes, _) =
                self.opener.ask(subject, self.user, &question, Some(self.file))?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if bytes.len() != piece.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.copy_from_slice(&bytes);
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl Readable for &File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn fill(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

/// Whether this process was started to open files.
pub(super) fn is_this_process() -> bool {
    std::env::var_os(PART).is_some_and(|part| part == OPENER)
}

/// Answers until nobody asks any more.
///
/// # Errors
/// None: an end without anybody to ask is an end in order.
pub(super) fn serve(channel: &Channel) -> Result<(), Error> {
    thread::set_name(c"surefoot-opener");
    if channel.send(READY, None).is_err() {
        return Ok(());
    }
    let root = Root::host();
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    // What it waits for a processor is no file system's fault.
    let mut queued = RunDelay::of_this_thread();
    let mut queued_ns = || queued.as_mut().and_then(RunDelay::since_ns).unwrap_or(0);
    while let Ok(Some(Message { bytes, file })) = channel.receive(&mut buffer, true, None) {
        let (begun, begun_ns, _) = (Instant::now(), usage::thread_cpu_ns(), queued_ns());
        let (status, body, file) = match answer(&root, &buffer[..bytes], file) {
            Ok(Some((body, file))) => (DONE, body, file),
            Ok(None) => (NOTHING, Vec::new(), None),
            Err(error) => (FAILED, error.to_string().into_bytes(), None),
        };
        let took_ns = usage::thread_cpu_ns() - begun_ns;
        let waited_ns = (begun.elapsed().as_nanos() as u64).saturating_sub(took_ns + queued_ns());
        let header = [&[status][..], &took_ns.to_le_bytes(), &waited_ns.to_le_bytes()].concat();
        if channel.send(&[header, body].concat(), file.as_ref()).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(root: &Root, question: &[u8], file: Option<File>) -> io::Result<Option<(Vec<u8>, Option<File>)>> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let (kind, rest) = question.split_first().ok_or_else(wrong)?;
    let number = |at: usize| rest.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let short = |at: usize| rest.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let with_file = |file| Ok(Some((Vec::new(), Some(file))));
    match *kind {
        FIND => {
            let pid = short(0).ok_or_else(wrong)?;
            let [start, end, inode] = [4, 12, 20].map(number);
            let name = String::from_utf8_lossy(rest.get(28..).unwrap_or_default()).into_owned();
            let (start, end, inode) = (start.ok_or_else(wrong)?, end.ok_or_else(wrong)?, inode.ok_or_else(wrong)?);
            let mapping = Mapping { start, end, offset: 0, device: String::new(), inode, name };
            with_file(File::from(images::find(root, pid, &mapping)?.as_fd().try_clone_to_owned()?))
        }
        OPEN => with_file(UnopenedFile::of(file.ok_or_else(wrong)?.into())?.open()?),
        PERF_MAP => match images::perf_map(root, short(0).ok_or_else(wrong)?)? {
            Some((file, _)) => with_file(file),
            None => Ok(None),
        },
        READ => {
            let (offset, count) = (number(0).ok_or_else(wrong)?, short(8).ok_or_else(wrong)? as usize);
            let mut bytes = vec![0; count.min(PIECE_BYTES)];
            file.ok_or_else(wrong)?.read_exact_at(&mut bytes, offset)?;
            Ok(Some((bytes, None)))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::helper::{forget, hung_count};
    use super::*;
    use std::path::Path;
    use std::process::Child;
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    /// A process whose program is on the file system, and that file.
    fn running_from(mounted: &HangingFileSystem) -> (Child, UnopenedFile) {
        let sleeps = mounted.start_sleeping().unwrap();
        let root = Root::host();
        let mappings = images::mappings(&root, sleeps.id()).unwrap();
        let mapping = mappings.iter().find(|mapping| mapping.name.ends_with("/program")).unwrap();
        let found = images::find_by_kernel(&root, sleeps.id(), mapping).unwrap();
        (sleeps, found)
    }

    fn mounted(test: &str) -> Option<HangingFileSystem> {
        match HangingFileSystem::mount(Path::new("/bin/sleep")) {
            Ok(mounted) => Some(mounted),
            Err(why) => {
                not_run(test, &why);
                None
            }
        }
    }

    #[test]
    fn a_file_system_on_which_a_helper_could_be_killed_is_left_alone_and_counted_as_well() {
        crate::who::names::tests::use_this_program();
        let test = "opener::a_file_system_on_which_a_helper_could_be_killed_is_left_alone_and_counted_as_well";
        let Some(mounted) = mounted(test) else { return };
        let (mut sleeps, found) = running_from(&mounted);
        mounted.stop();
        let (counted, mut opener) = (hung_count(), Opener::new(&Root::host()));
        let why = opener.open(ROOT, &found).unwrap_err();
        assert_eq!(why.to_string(), "its file system does not answer");
        assert_eq!(may_ask(Subject::Device(found.key.device), 4_242), Err(why.to_string()));
        assert!(hung_count() > counted);
        forget(Subject::Device(found.key.device));
        drop(mounted);
        let _ = (sleeps.kill(), sleeps.wait());
    }

    #[test]
    fn a_slow_file_system_s_user_has_a_limited_part_of_the_time() {
        const SLOW_MS: u32 = 300;
        crate::who::names::tests::use_this_program();
        let Some(mounted) = mounted("opener::a_slow_file_system_s_user_has_a_limited_part_of_the_time") else { return };
        let (mut sleeps, found) = running_from(&mounted);
        mounted.slow_down(SLOW_MS);
        let mut opener = Opener::new(&Root::host());
        let file = opener.open(77, &found).unwrap();
        let waited = opener.waited[&Slow::User(77)];
        assert!(waited >= Duration::from_millis(u64::from(SLOW_MS) / 2), "{waited:?}");
        opener.bytes(77, found.key, &file).fill(&mut [0; 64], 0).unwrap();
        opener.add_waiting(Slow::User(77), WAITING + Duration::from_secs(36_000));
        let why = opener.bytes(77, found.key, &file).fill(&mut [0; 64], 0).unwrap_err();
        assert_eq!(why.to_string(), "file systems of user 77 took too long to answer");
        assert!(opener.open(78, &found).is_ok() && opener.open(ROOT, &found).is_ok());
        opener.since -= Duration::from_secs(3_600_000);
        assert!(opener.open(77, &found).is_ok(), "a tenth of the time is theirs");
        drop(mounted);
        let _ = (sleeps.kill(), sleeps.wait());
    }
}
