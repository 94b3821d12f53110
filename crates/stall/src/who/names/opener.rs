//! Opens the files of watched processes, in a process of its own: opening can wait for a file system for ever.
//!
//! It has the rights of this process and reads nothing of what it opens but to hand it on. The reader of names gets its files from it,
//! open; what this process itself reads of a file, the tables of its frames, comes as bytes.

use super::child::USED_NS;
use super::helper::{Heard, Helper, PART, Subject, may_ask};
use crate::Error;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_hostfs::channel::{Channel, Message};
use surefoot_hostfs::images::{self, FileKey, Found, Mapping};
use surefoot_hostfs::{Root, thread};

/// What it says when it is ready, and the name of this part of the program.
const READY: &[u8] = b"opens";
pub(super) const OPENER: &str = "opener";

/// The longest message: a piece of a file, and what stands before it.
const MESSAGE_BYTES_MAX: usize = (64 << 10) + 64;
const PIECE_BYTES: usize = 64 << 10;

/// It answers within microseconds, or its file system is slow.
const PATIENCE: Duration = Duration::from_secs(20);

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
}

impl Opener {
    pub(crate) fn new(root: &Root) -> Self {
        Opener { root: root.clone(), helper: None }
    }

    /// The file behind a mapping, as [`images::find`].
    pub(crate) fn find(&mut self, user: u32, pid: u32, mapping: &Mapping) -> io::Result<Found> {
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
        Found::of(file.ok_or(io::ErrorKind::InvalidData)?.into())
    }

    /// Opens it.
    pub(crate) fn open(&mut self, user: u32, found: &Found) -> io::Result<File> {
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
        may_ask(subject, user).map_err(io::Error::other)?;
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
            let took_ns = buffer[1..9].try_into().map_or(0, u64::from_le_bytes);
            USED_NS.fetch_add(took_ns, Ordering::Relaxed);
            let body = buffer.get(9..message.bytes).unwrap_or_default();
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
    while let Ok(Some(Message { bytes, file })) = channel.receive(&mut buffer, true, None) {
        let begun_ns = thread::thread_cpu_ns();
        let (status, body, file) = match answer(&root, &buffer[..bytes], file) {
            Ok(Some((body, file))) => (DONE, body, file),
            Ok(None) => (NOTHING, Vec::new(), None),
            Err(error) => (FAILED, error.to_string().into_bytes(), None),
        };
        let took_ns = thread::thread_cpu_ns() - begun_ns;
        if channel.send(&[&[status][..], &took_ns.to_le_bytes(), &body].concat(), file.as_ref()).is_err() {
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
        OPEN => with_file(Found::of(file.ok_or_else(wrong)?.into())?.open()?),
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
