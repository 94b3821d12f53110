use super::frame::{
    EVENT_BYTES_MAX, FILE_HEADER_BYTES, FLAG_DEFLATE, FRAME_BYTES_MAX, KIND_END, KIND_EVENTS, VERSION, deflate,
    file_header, frame,
};
use crate::output::Opened;
use crate::{Error, Result};
use flate2::Compression;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::way;
use surefoot_model::Event;

/// Waiting events are written as a frame of their own accord when they reach this much JSON.
///
/// It bounds the memory of the writer, and that of a reader per frame of an honest file.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// What to do when the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it and fail with [`Error::Exists`].
    Refuse,
    /// Empty it and write over it, unless another writer is at work on it.
    Replace,
}

/// What a finished recording holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Events in the file.
    pub events: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Events that were left out: too large, or no room while the disk was full.
    pub dropped_events: u64,
}

/// Writes a recording.
///
/// Events wait in memory until [`Writer::flush`], which writes them as one frame; flush about once a second. A flushed
/// frame is with the kernel: it survives the death of this process, not that of the machine. [`Writer::finish`] adds
/// the closing frame and waits until the disk has everything. There is no sync per frame, because on a host that is
/// watched for lost time it would cost more than the second of data that it saves.
///
/// A frame that does not fit on the disk is cut off again, so that the file stays readable up to the last whole frame,
/// and its events wait for the next flush.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// Where the file is; `None` where it is no regular one.
    directory: Option<File>,
    /// JSON lines that are not in the file yet.
    waiting: Vec<u8>,
    waiting_events: u64,
    /// Where the next frame goes; all before it is whole.
    safe_bytes: u64,
    safe_events: u64,
    dropped_events: u64,
    /// Whether remains of a frame that did not fit may stand behind `safe_bytes`.
    tail: Tail,
    effort: Compression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    Clean,
    Remains,
}

impl Writer {
    /// Creates the recording and writes its header.
    ///
    /// The file is readable and writable by its owner alone (mode 0600): it holds task names and timings of kernel
    /// handlers, which the kernel shows to privileged processes only. Who wants to share it, shares it on purpose.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NotAFile`] (directory, FIFO, socket or block device), [`Error::InUse`],
    /// [`Error::Open`], or [`Error::RecordingWrite`] when not even the header fits.
    pub fn create(path: impl AsRef<Path>, existing: Existing) -> Result<Writer> {
        let path = path.as_ref().to_path_buf();
        let Opened { file, directory, .. } = open_for_writing(&path, existing)?;
        let mut writer = Writer {
            path,
            file,
            directory,
            waiting: Vec::new(),
            waiting_events: 0,
            safe_bytes: 0,
            safe_events: 0,
            dropped_events: 0,
            tail: Tail::Clean,
            effort: Compression::fast(),
        };
        writer.write_at_end(&file_header(VERSION)).map_err(|source| writer.write_error(source))?;
        debug_assert_eq!(writer.safe_bytes, FILE_HEADER_BYTES as u64);
        Ok(writer)
    }

    /// The same for a recording that is made once and kept: smaller, and many times slower.
    pub fn small(self) -> Writer {
        Writer { effort: Compression::best(), ..self }
    }

    /// Adds one event to those that wait for the next flush; flushes first when they have grown to 8 MiB.
    ///
    /// # Errors
    /// [`Error::EventTooLarge`], or the error of the flush that should have made room. In both cases this event is left
    /// out and counted.
    pub fn append(&mut self, event: &Event) -> Result<()> {
        let line_start = self.waiting.len();
        let written = serde_json::to_writer(&mut self.waiting, event);
        self.waiting.push(b'\n');
        let line_bytes = self.waiting.len() - line_start;
        if let Err(error) = written {
            self.waiting.truncate(line_start);
            self.dropped_events += 1;
            return Err(self.write_error(error.into()));
        }
        if line_bytes > EVENT_BYTES_MAX {
            self.waiting.truncate(line_start);
            return Err(self.too_large(line_bytes, EVENT_BYTES_MAX));
        }
        if line_start > 0 && self.waiting.len() > WAITING_BYTES_MAX {
            let line = self.waiting.split_off(line_start);
            self.make_room()?;
            self.waiting = line;
        }
        self.waiting_events += 1;
        Ok(())
    }

    /// Writes the waiting events as one frame; does nothing when none wait.
    ///
    /// # Errors
    /// [`Error::RecordingWrite`] when the file does not take the frame: the events wait for the next flush.
    /// [`Error::EventTooLarge`] when they do not compress to 16 MiB, which takes one event of random text that large:
    /// they are left out and counted.
    pub fn flush(&mut self) -> Result<()> {
        if self.waiting_events == 0 {
            return Ok(());
        }
        let packed = deflate(&self.waiting, self.effort).map_err(|source| self.write_error(source))?;
        let Some(bytes) = frame(KIND_EVENTS, FLAG_DEFLATE, &packed) else {
            self.dropped_events += self.waiting_events - 1;
            self.forget_waiting();
            return Err(self.too_large(packed.len(), FRAME_BYTES_MAX));
        };
        self.write_at_end(&bytes).map_err(|source| self.write_error(source))?;
        self.safe_events += self.waiting_events;
        self.forget_waiting();
        Ok(())
    }

    /// Flushes, writes the closing frame and waits until the disk has everything.
    ///
    /// # Errors
    /// [`Error::RecordingWrite`]; the file then ends without a closing frame and replays as torn.
    pub fn finish(mut self) -> Result<Written> {
        self.flush()?;
        let mut payload = Vec::with_capacity(16);
        payload.extend_from_slice(&self.safe_events.to_le_bytes());
        payload.extend_from_slice(&self.dropped_events.to_le_bytes());
        let end = frame(KIND_END, 0, &payload).unwrap_or_default();
        self.write_at_end(&end).map_err(|source| self.write_error(source))?;
        self.sync().map_err(|source| self.write_error(source))?;
        Ok(Written { events: self.safe_events, bytes: self.safe_bytes, dropped_events: self.dropped_events })
    }

    /// Waits until the file and its name are on the medium. A character device has nothing to wait for.
    fn sync(&self) -> io::Result<()> {
        if !self.file.metadata()?.is_file() {
            return Ok(());
        }
        self.file.sync_all()?;
        self.directory.as_ref().map_or(Ok(()), way::sync)
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file that are whole.
    pub fn bytes(&self) -> u64 {
        self.safe_bytes
    }

    /// Events that were left out so far.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        let outcome = self.file.write_all_at(bytes, self.safe_bytes);
        let whole = if outcome.is_ok() { self.safe_bytes + bytes.len() as u64 } else { self.safe_bytes };
        if outcome.is_err() || self.tail == Tail::Remains {
            // What is left of the failed frame must go, or a reader takes it for damage. Where that fails too,
            // as on a device, the next frame writes over it and the file is cut then.
            self.tail = if self.file.set_len(whole).is_ok() { Tail::Clean } else { Tail::Remains };
        }
        self.safe_bytes = whole;
        outcome
    }

    fn forget_waiting(&mut self) {
        self.waiting_events = 0;
        self.waiting.clear();
        // A burst must not hold its memory for the rest of a long recording.
        self.waiting.shrink_to(WAITING_BYTES_MAX / 8);
    }

    fn too_large(&mut self, bytes: usize, limit_bytes: usize) -> Error {
        self.dropped_events += 1;
        Error::EventTooLarge { path: self.path.clone(), bytes, limit_bytes, dropped_events: self.dropped_events }
    }

    /// Flushes so that the event at hand has room, or counts that event as left out.
    fn make_room(&mut self) -> Result<()> {
        self.flush().map_err(|error| {
            self.dropped_events += 1;
            match error {
                Error::RecordingWrite { source, .. } => self.write_error(source),
                other => other,
            }
        })
    }

    fn write_error(&self, source: io::Error) -> Error {
        Error::RecordingWrite {
            path: self.path.clone(),
            source,
            safe_events: self.safe_events,
            safe_bytes: self.safe_bytes,
            waiting_events: self.waiting_events,
            dropped_events: self.dropped_events,
        }
    }
}

fn open_for_writing(path: &Path, existing: Existing) -> Result<Opened> {
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    let opened = match existing {
        Existing::Refuse if std::fs::symlink_metadata(path).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        // Without waiting: opening a FIFO would wait for a reader that may never come.
        _ => crate::output::open(path),
    };
    let mut opened = match opened {
        Ok(opened) if opened.is_new || existing == Existing::Replace => opened,
        Ok(_) => return Err(Error::Exists { path: path.to_path_buf() }),
        Err(source) => {
            let found = std::fs::symlink_metadata(path);
            if existing == Existing::Replace && found.as_ref().is_ok_and(std::fs::Metadata::is_symlink) {
                return Err(Error::NotAFile { path: path.to_path_buf(), what: "a symbolic link" });
            }
            return Err(match (source.kind(), std::fs::metadata(path)) {
                (_, Ok(found)) if not_writable(&found).is_some() => not_a_file(path, &found),
                (io::ErrorKind::AlreadyExists, _) => Error::Exists { path: path.to_path_buf() },
                _ => open_error(source),
            });
        }
    };
    let found = opened.file.metadata().map_err(open_error)?;
    if not_writable(&found).is_some() {
        return Err(not_a_file(path, &found));
    }
    if found.is_file() {
        // Before the old content goes: a second writer must not empty the file under the first.
        // File systems that know no locks are taken as they are.
        if let Err(TryLockError::WouldBlock) = opened.file.try_lock() {
            return Err(Error::InUse { path: path.to_path_buf(), pid: None });
        }
        opened.file.set_len(0).map_err(open_error)?;
    } else {
        opened.directory = None;
    }
    Ok(opened)
}

/// What the file is, if a recording cannot be written to it. Character devices can take one: `/dev/null`.
fn not_writable(found: &std::fs::Metadata) -> Option<&'static str> {
    if found.file_type().is_char_device() { None } else { crate::file_kind::not_regular(found) }
}

fn not_a_file(path: &Path, found: &std::fs::Metadata) -> Error {
    Error::NotAFile { path: path.to_path_buf(), what: not_writable(found).unwrap_or("a special file") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::durable::{calls_of, is_synced_after};

    #[test]
    #[ignore = "runs in a child process under strace"]
    fn child_writes_a_recording() {
        let folder = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
        Writer::create(folder.join("recording"), Existing::Refuse).unwrap().finish().unwrap();
        Writer::create("/dev/null", Existing::Replace).unwrap().finish().unwrap();
    }

    #[test]
    fn the_name_of_a_finished_recording_is_on_the_medium() {
        let test = "recording::writer::tests::the_name_of_a_finished_recording_is_on_the_medium";
        let child = "recording::writer::tests::child_writes_a_recording";
        let home = tempfile::tempdir().unwrap();
        let Some(calls) = calls_of(test, child, home.path()) else { return };
        let is_made = |call: &str| call.contains("O_CREAT") && call.contains("recording");
        assert!(is_synced_after(&calls, is_made, home.path()), "{calls:#?}");
    }
}
