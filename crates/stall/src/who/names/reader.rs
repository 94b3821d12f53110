//! The child: reads files that it is given, and says which functions are in them.

use super::elf::Program;
use super::wire::{Answer, Fault, Kind, MESSAGE_BYTES_MAX, Question, READY};
use super::{opener, perf_map};
use crate::Error;
use std::collections::HashMap;
use std::fs::File;
use std::time::Duration;
use surefoot_hostfs::images::FileKey;
use surefoot_hostfs::usage;
use surefoot_sys::channel::{Channel, Message};
use surefoot_sys::confine::{self, Limits};
use surefoot_sys::thread;

/// Memory that the child may have mapped: what it keeps, one file more, and itself.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// Descriptors: those that it began with, and the file of a question.
const OPEN_FILES_MAX: u64 = 16;

/// Processor time for one question.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);

/// Files that are kept, and their bytes; the one that was asked for longest ago makes room.
const FILES_MAX: usize = 64;
const FILES_BYTES_MAX: usize = 40 << 20;

/// What the program does that [`super::use_program`] names: it answers the questions that come by its standard input, until
/// nobody asks any more. It confines itself before it reads the first, unless it was started to open files.
///
/// # Errors
/// When it cannot be confined, or its standard input is not what it should be.
pub fn read_names() -> Result<(), Error> {
    let channel = Channel::of_standard_input().map_err(|source| Error::Naming { source })?;
    if opener::is_this_process() {
        return opener::serve(&channel);
    }
    thread::set_name(c"surefoot-names");
    confine::confine(&Limits { memory_bytes: MEMORY_BYTES_MAX, files: OPEN_FILES_MAX })?;
    // From here on nothing can be said: an end without anybody to ask is an end in order.
    if channel.send(READY, None).is_err() {
        return Ok(());
    }
    let mut files = Files::default();
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    while let Ok(Some(Message { bytes, file })) = channel.receive(&mut buffer, true, None) {
        let Some(question) = Question::decode(&buffer[..bytes]) else { break };
        let begun_ns = usage::thread_cpu_ns();
        confine::allow_processor_time(Some(TIME_MAX));
        let answer = files.answer(&question, file);
        confine::allow_processor_time(None);
        if channel.send(&answer.encode(question.number, usage::thread_cpu_ns() - begun_ns), None).is_err() {
            break;
        }
    }
    Ok(())
}

/// The files that were read, within limits.
#[derive(Default)]
struct Files {
    known: HashMap<FileKey, (u64, Result<Program, Fault>)>,
    bytes: usize,
    questions: u64,
}

impl Files {
    fn answer(&mut self, question: &Question, file: Option<File>) -> Answer {
        let Question { key, places, .. } = question;
        if question.kind == Kind::PerfMap {
            let Some(file) = file else { return Answer::NeedsFile };
            return perf_map::names(&file, key.bytes, places).map_or_else(Answer::Refused, Answer::Names);
        }
        self.questions += 1;
        if let Some(file) = file {
            self.keep(*key, || Program::read(&file, key.bytes));
        }
        match self.known.get_mut(key) {
            None => Answer::NeedsFile,
            Some((_, Err(fault))) => Answer::Refused(*fault),
            Some((asked, Ok(program))) => {
                *asked = self.questions;
                Answer::Names(places.iter().map(|&place| program.names(place)).collect())
            }
        }
    }

    /// Makes room for a file, reads it and keeps it.
    fn keep(&mut self, key: FileKey, read: impl FnOnce() -> Result<Program, Fault>) {
        self.forget(&key);
        let program = read();
        self.bytes += bytes(&program);
        self.known.insert(key, (self.questions, program));
        while self.known.len() > FILES_MAX || (self.bytes > FILES_BYTES_MAX && self.known.len() > 1) {
            let oldest = self.known.iter().filter(|(other, _)| **other != key).min_by_key(|(_, (asked, _))| *asked);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, key: &FileKey) {
        if let Some((_, program)) = self.known.remove(key) {
            self.bytes -= bytes(&program);
        }
    }
}

fn bytes(program: &Result<Program, Fault>) -> usize {
    program.as_ref().map_or(0, Program::bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn question(inode: u64) -> Question {
        let key = FileKey { device: 1, inode, bytes: 1 << 20, changed_ns: 3 };
        Question { number: 1, kind: Kind::Elf, key, places: vec![1] }
    }

    #[test]
    fn files_are_kept_within_limits_and_the_oldest_makes_room() {
        let mut files = Files::default();
        let empty = || Some(tempfile::tempfile().unwrap());
        assert_eq!(files.answer(&question(1), None), Answer::NeedsFile);
        for inode in 0..10_000 {
            assert_eq!(files.answer(&question(inode), empty()), Answer::Refused(Fault::NotElf));
        }
        assert_eq!(files.known.len(), FILES_MAX);
        assert_eq!(files.answer(&question(1), None), Answer::NeedsFile);
        assert_eq!(files.answer(&question(9_999), None), Answer::Refused(Fault::NotElf));
    }

    #[test]
    fn the_bytes_of_files_are_limited() {
        let mut files = Files::default();
        let own = || File::open("/proc/self/exe").unwrap();
        let length = own().metadata().unwrap().len();
        assert!(Program::read(&own(), length).unwrap().bytes() * 6 > FILES_BYTES_MAX, "too small to show it");
        for inode in 0..6 {
            files.questions += 1;
            files.keep(FileKey { inode, ..question(1).key }, || Program::read(&own(), length));
            assert!(files.bytes <= FILES_BYTES_MAX || files.known.len() == 1, "{}", files.bytes);
            assert!(files.known.contains_key(&FileKey { inode, ..question(1).key }));
        }
        assert!(files.known.len() < 6 && files.bytes > 1 << 20);
    }
}
