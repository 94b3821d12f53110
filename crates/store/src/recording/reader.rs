use super::frame::{
    END_BYTES, EVENT_BYTES_MAX, FILE_HEADER_BYTES, FLAG_DEFLATE, FRAME_BYTES_MAX, FRAME_DECOMPRESSED_BYTES_MAX,
    FRAME_HEADER_BYTES, FrameHeader, KIND_END, KIND_EVENTS, MAGIC, VERSION, file_header, inflate,
};
use super::line::{Parsed, TEXT_BYTES_MAX, parse_line};
use crate::{Error, Result};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use surefoot_model::Event;

/// How a recording ended. `Display` gives one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The closing frame is there and agrees with what was read.
    Complete,
    /// The file stops early: the writer was stopped, is still at work, or the copy is not whole.
    Torn {
        /// Where the intact part ends.
        at_byte: u64,
        /// Events before that place.
        intact_events: u64,
        /// What was found there.
        why: String,
    },
    /// The file goes on, but not as it was written.
    Damaged {
        /// Where the intact part ends.
        at_byte: u64,
        /// Events before that place.
        intact_events: u64,
        /// What was found there.
        why: String,
    },
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Complete => f.write_str("The recording is complete."),
            End::Torn { at_byte, intact_events, why } => write!(
                f,
                "The recording is cut off at byte {at_byte}: {why}. The {intact_events} events before it are intact."
            ),
            End::Damaged { at_byte, intact_events, why } => write!(
                f,
                "The recording is damaged at byte {at_byte}: {why}. The {intact_events} events before it are intact; \
                 what follows was not used."
            ),
        }
    }
}

/// What was intact, but is not in the events as it stands in the file, mostly because another release wrote it. `Display` gives one sentence for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Frames of an unknown kind or with an unknown flag.
    pub frames: u64,
    /// Events of an unknown type, with an unknown word where this release expects one of its own, or without a field
    /// that it needs.
    pub events: u64,
    /// Unknown fields of events that were read without them.
    pub fields: u64,
    /// Texts that were longer than any name or sentence is, and were cut.
    pub texts: u64,
}

impl Skipped {
    /// Whether nothing was skipped.
    pub fn is_empty(&self) -> bool {
        *self == Skipped::default()
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("Everything in the recording was understood.");
        }
        if self.texts > 0 {
            write!(f, "{} texts of the recording were longer than {TEXT_BYTES_MAX} bytes and were cut.", self.texts)?;
            if (Skipped { texts: 0, ..*self }).is_empty() {
                return Ok(());
            }
            f.write_str(" ")?;
        }
        write!(
            f,
            "The recording was written by another release; skipped: {} frames, {} events and {} fields that this \
             release does not know.",
            self.frames, self.events, self.fields
        )
    }
}

/// Reads a recording, event by event.
///
/// The iterator ends at the end of the intact part; [`Reader::end`] then says why. One frame is in memory at a time.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    source: Source,
    /// Where the frame at hand begins.
    frame_at: u64,
    /// Where the next frame begins.
    next_at: u64,
    lines: Vec<u8>,
    lines_read: usize,
    line_count: u64,
    events: u64,
    skipped: Skipped,
    dropped_events: u64,
    end: Option<End>,
}

/// Where the bytes of a recording come from.
#[derive(Debug)]
enum Source {
    File(BufReader<File>),
    Held(&'static [u8]),
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read(into),
            Source::Held(bytes) => bytes.read(into),
        }
    }
}

/// Why reading stops; becomes an [`End`] once place and count are known.
enum Stop {
    Complete,
    Torn(String),
    Damaged(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Damaged(format!("the file cannot be read on: {error}"))
    }
}

impl Reader {
    /// Opens a recording and checks its header.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NotAFile`], [`Error::Empty`], [`Error::NotARecording`], [`Error::HeaderTorn`],
    /// [`Error::HeaderDamaged`] or [`Error::RecordingVersion`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref().to_path_buf();
        let open_error = |source| Error::Open { path: path.clone(), source };
        let held = surefoot_foreign::hold(&path).map_err(open_error)?;
        if let Some(what) = held.about().not_regular() {
            return Err(Error::NotAFile { path, what });
        }
        let file = held.regular().and_then(|regular| regular.open()).map_err(open_error)?;
        Reader::of(path, Source::File(BufReader::new(file)))
    }

    /// Reads a recording that this program carries, under a name for its messages.
    ///
    /// # Errors
    /// As [`Reader::open`], but those about the file.
    pub fn of_bytes(name: &str, bytes: &'static [u8]) -> Result<Reader> {
        Reader::of(name.into(), Source::Held(bytes))
    }

    fn of(path: PathBuf, mut source: Source) -> Result<Reader> {
        let mut header = Vec::with_capacity(FILE_HEADER_BYTES);
        let read = source.by_ref().take(FILE_HEADER_BYTES as u64).read_to_end(&mut header);
        read.map_err(|source| Error::Open { path: path.clone(), source })?;
        check_header(&path, &header)?;
        let start = FILE_HEADER_BYTES as u64;
        Ok(Reader {
            path,
            source,
            frame_at: start,
            next_at: start,
            lines: Vec::new(),
            lines_read: 0,
            line_count: 0,
            events: 0,
            skipped: Skipped::default(),
            dropped_events: 0,
            end: None,
        })
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the recording ended. Reads on to the end if events are left.
    pub fn end(&mut self) -> End {
        loop {
            if let Some(end) = &self.end {
                return end.clone();
            }
            self.next();
        }
    }

    /// What was skipped or cut so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Events that the writer says it had to leave out; known once the closing frame was read.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    /// Events read so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn next_event(&mut self) -> Result<Event, Stop> {
        loop {
            while self.lines_read < self.lines.len() {
                let rest = &self.lines[self.lines_read..];
                let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
                    return Err(Stop::Damaged("an event is not closed by a line feed".into()));
                };
                if length > EVENT_BYTES_MAX {
                    return Err(Stop::Damaged(format!("an event is larger than the limit of {EVENT_BYTES_MAX} bytes")));
                }
                let line = parse_line(&rest[..length]).map_err(Stop::Damaged)?;
                self.lines_read += length + 1;
                self.line_count += 1;
                match line {
                    Some(Parsed { event, unknown_fields, cut_texts }) => {
                        self.skipped.fields += unknown_fields;
                        self.skipped.texts += cut_texts;
                        return Ok(event);
                    }
                    None => self.skipped.events += 1,
                }
            }
            self.next_frame()?;
        }
    }

    /// Puts the lines of the next events frame in place, skipping frames of unknown kinds.
    fn next_frame(&mut self) -> Result<(), Stop> {
        self.lines = Vec::new();
        self.lines_read = 0;
        self.frame_at = self.next_at;
        let Some(header) = self.read_frame_header()? else {
            return Err(Stop::Torn(
                "the closing frame is missing, so the writer was stopped or is still at work".into(),
            ));
        };
        let payload = self.read_payload(&header)?;
        self.next_at += (FRAME_HEADER_BYTES + payload.len()) as u64;
        match (header.kind, header.flags) {
            (KIND_EVENTS, 0) => self.lines = payload,
            (KIND_EVENTS, FLAG_DEFLATE) => {
                self.lines = inflate(&payload, FRAME_DECOMPRESSED_BYTES_MAX).map_err(Stop::Damaged)?;
            }
            (KIND_END, 0) => return Err(self.close(&payload)),
            _ => self.skipped.frames += 1,
        }
        Ok(())
    }

    fn read_frame_header(&mut self) -> Result<Option<FrameHeader>, Stop> {
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES);
        self.source.by_ref().take(FRAME_HEADER_BYTES as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let Ok(bytes) = <[u8; FRAME_HEADER_BYTES]>::try_from(bytes) else {
            return Err(Stop::Torn("a frame breaks off within its header".into()));
        };
        if bytes == [0; FRAME_HEADER_BYTES] {
            return Err(Stop::Torn("only zeros follow, as after a loss of power while the file grew".into()));
        }
        Ok(Some(FrameHeader::of(bytes)))
    }

    fn read_payload(&mut self, header: &FrameHeader) -> Result<Vec<u8>, Stop> {
        let length = header.length as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Stop::Damaged(format!("a frame claims {length} bytes, the limit is {FRAME_BYTES_MAX}")));
        }
        // Grows with what is really there, so that a claim alone takes no memory.
        let mut payload = Vec::new();
        self.source.by_ref().take(u64::from(header.length)).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Err(Stop::Torn(format!("a frame claims {length} bytes and has {}", payload.len())));
        }
        if !header.matches(&payload) {
            return Err(Stop::Damaged("the checksum of a frame does not match its content".into()));
        }
        Ok(payload)
    }

    /// Holds the closing frame against what was read.
    fn close(&mut self, payload: &[u8]) -> Stop {
        let Some(&[events, dropped]) =
            payload.get(..END_BYTES).map(|bytes| bytes.as_chunks::<8>().0).and_then(|n| n.first_chunk())
        else {
            return Stop::Damaged("the closing frame is too short".into());
        };
        let events = u64::from_le_bytes(events);
        self.dropped_events = u64::from_le_bytes(dropped);
        // A frame that was skipped may have held events, whose number is then unknown.
        if self.skipped.frames == 0 && events != self.line_count {
            return Stop::Damaged(format!(
                "the closing frame counts {events} events, the file holds {}",
                self.line_count
            ));
        }
        let mut beyond = [0; 1];
        match self.source.read(&mut beyond) {
            Ok(0) => Stop::Complete,
            Ok(_) => {
                self.frame_at = self.next_at;
                Stop::Damaged("the file goes on after its closing frame".into())
            }
            Err(error) => error.into(),
        }
    }
}

impl Iterator for Reader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.end.is_some() {
            return None;
        }
        let stop = match self.next_event() {
            Ok(event) => {
                self.events += 1;
                // A recording is anybody's to write.
                return Some(event.checked());
            }
            Err(stop) => stop,
        };
        self.lines = Vec::new();
        let (at_byte, intact_events) = (self.frame_at, self.events);
        self.end = Some(match stop {
            Stop::Complete => End::Complete,
            Stop::Torn(why) => End::Torn { at_byte, intact_events, why },
            Stop::Damaged(why) => End::Damaged { at_byte, intact_events, why },
        });
        None
    }
}

fn check_header(path: &Path, header: &[u8]) -> Result<()> {
    let path = path.to_path_buf();
    if header.is_empty() {
        return Err(Error::Empty { path });
    }
    let magic_bytes = header.len().min(MAGIC.len());
    if header[..magic_bytes] != MAGIC[..magic_bytes] {
        return Err(Error::NotARecording { path });
    }
    if header.len() < FILE_HEADER_BYTES {
        return Err(Error::HeaderTorn { path, bytes: header.len() as u64 });
    }
    let found = u16::from_le_bytes([header[8], header[9]]);
    if header != file_header(found) {
        return Err(Error::HeaderDamaged { path });
    }
    if found != VERSION {
        return Err(Error::RecordingVersion { path, found, known: VERSION });
    }
    Ok(())
}
