//! Finds what is bad in a file or its sidecar, and writes the repaired one beside it.

use super::Progress;
use super::label::{Label, Places, bytes_of};
use super::pair::Pair;
use super::place::{Part, Place};
use super::protect::{done_bytes, protect_in};
use crate::Error;
use crate::image::{COLUMNS_DATA, Geometry, Healer, Lost, PAGE_BYTES};
use crate::limits::memory_available_bytes;
use std::path::Path;

/// Rows that are named where they cannot be repaired; of more only the number is known.
const ROWS_NAMED_MAX: usize = 8;

/// What was found in a file and its sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Bytes of the file when it was protected.
    pub file_bytes: u64,
    /// Bytes that it has now.
    pub found_bytes: u64,
    /// Pages that were read: of the file, of parity, and of the room that fills the last row.
    pub pages_read: u64,
    /// Pages that the kernel refused to read.
    pub pages_refused: u64,
    /// Pages of the file that are not as they were.
    pub file_pages_bad: u64,
    /// Pages of parity that are not as they were.
    pub parity_pages_bad: u64,
    /// Copies of the table of checksums, of two, that are bad.
    pub tables_bad: u64,
    /// Copies of the label, of two, that are bad.
    pub labels_bad: u64,
    /// Whether the sidecar has another length than it should.
    pub is_sidecar_cut: bool,
    /// Rows that have more bad pages than can be repaired.
    pub rows_lost: u64,
    /// The first of them, in words.
    pub lost: Vec<String>,
    /// When the file was protected it had been written to last at another time than now: nanoseconds since 1970, then
    /// and now. `None` when the times are the same.
    pub written_since: Option<(i64, i64)>,
}

impl Findings {
    /// Pages of the file when it was protected.
    pub fn file_pages(&self) -> u64 {
        self.file_bytes.div_ceil(PAGE_BYTES as u64)
    }

    /// Whether the file is, byte by byte, what was protected.
    pub fn is_file_whole(&self) -> bool {
        self.file_pages_bad == 0 && self.rows_lost == 0 && self.file_bytes == self.found_bytes
    }

    /// Whether the sidecar is as it was written.
    pub fn is_sidecar_whole(&self) -> bool {
        self.parity_pages_bad == 0 && self.tables_bad == 0 && self.labels_bad == 0 && !self.is_sidecar_cut
    }

    /// Whether there is damage that cannot be repaired.
    pub fn is_lost(&self) -> bool {
        self.rows_lost > 0
    }
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// There was nothing to do.
    Whole(Findings),
    /// It put what was repaired in place.
    Done {
        /// What was found before.
        findings: Findings,
        /// Whether the file was bad.
        file: bool,
        /// Whether the sidecar was bad.
        sidecar: bool,
    },
    /// There is more damage than can be repaired; nothing was changed.
    Lost(Findings),
    /// The file was written to after it was protected, so what differs may be wanted; nothing was changed.
    WrittenSince(Findings),
}

/// Receives a row that is as it was protected: its number, and its pages with those of parity.
type Sink<'a> = &'a mut dyn FnMut(usize, &[Vec<u8>]) -> Result<(), Error>;

/// Reads a file and its sidecar and says what is bad in them. `modified` is the file's last write now.
///
/// # Errors
/// [`Error::Storage`] when one cannot be opened, [`Error::Damaged`] when the sidecar cannot be one of this file.
pub fn check_in(place: &dyn Place, modified: i64, progress: Progress<'_>) -> Result<(Findings, Label), Error> {
    walk(place, modified, &mut |_, _| Ok(()), progress)
}

/// Repairs a file and its sidecar, where either is bad. A file that was written to since, and differs, is left alone
/// unless `force` says that this was not wanted.
///
/// # Errors
/// As [`check_in`]; nothing was changed then, or the file was repaired and the sidecar was not.
pub fn repair_in(place: &dyn Place, modified: i64, force: bool, progress: Progress<'_>) -> Result<Repaired, Error> {
    let (findings, label) = check_in(place, modified, progress)?;
    if findings.is_lost() {
        return Ok(Repaired::Lost(findings));
    }
    let (file, sidecar) = (!findings.is_file_whole(), !findings.is_sidecar_whole());
    if file && findings.written_since.is_some() && !force {
        return Ok(Repaired::WrittenSince(findings));
    }
    if !file && !sidecar {
        return Ok(Repaired::Whole(findings));
    }
    if file {
        write_file(place, &label, progress)?;
    }
    if sidecar {
        protect_in(place, label.modified_realtime_ns, Some(label.table_crc32c), progress)?;
    }
    Ok(Repaired::Done { findings, file, sidecar })
}

/// Writes the file as it was, beside itself, and puts it in place.
fn write_file(place: &dyn Place, label: &Label, progress: Progress<'_>) -> Result<(), Error> {
    let path = &*place.path(Part::File);
    let geometry = label.geometry()?;
    let begun = place.begin(Part::File, label.file_bytes).map_err(Error::storage("create", path))?;
    let mut put = |row: usize, pages: &[Vec<u8>]| {
        for (column, page) in pages[..COLUMNS_DATA].iter().enumerate() {
            let offset = ((column * geometry.rows() + row) * PAGE_BYTES) as u64;
            let bytes = label.file_bytes.saturating_sub(offset).min(PAGE_BYTES as u64) as usize;
            if bytes > 0 {
                begun.write_at(&page[..bytes], offset).map_err(Error::storage("write", path))?;
            }
        }
        Ok(())
    };
    let (findings, again) = walk(place, label.modified_realtime_ns, &mut put, progress)?;
    if findings.is_lost() || again != *label {
        let why = "it got worse while it was read; nothing was changed".into();
        return Err(Error::Damaged { path: path.to_owned(), why });
    }
    begun.put(label.modified_realtime_ns)
}

/// Reads all rows, repaired where they can be.
fn walk(place: &dyn Place, modified: i64, sink: Sink<'_>, progress: Progress<'_>) -> Result<(Findings, Label), Error> {
    let (path, beside) = (&*place.path(Part::File), place.path(Part::Sidecar));
    let sidecar = place.open(Part::Sidecar).map_err(Error::storage("open", &beside))?;
    let (label, labels_bad) = Label::read(&*sidecar, &beside)?;
    let geometry = label.geometry()?;
    let sidecar_bytes = sidecar.length().map_err(Error::storage("read", &beside))?;
    // A label can say anything; work and memory are bounded by what is there.
    if sidecar_bytes < Places::of(&geometry).parity {
        let why = format!("it was cut to {sidecar_bytes} bytes, and none of its tables of checksums is left");
        return Err(Error::Damaged { path: beside, why });
    }
    expect_memory(&geometry, &beside)?;
    let file = place.open(Part::File).map_err(Error::storage("open", path))?;
    let found_bytes = file.length().map_err(Error::storage("read", path))?;
    let pair = Pair { geometry, places: Places::of(&geometry), file: &*file, found_bytes, sidecar: &*sidecar };
    let mut findings = Findings {
        file_bytes: label.file_bytes,
        found_bytes,
        labels_bad,
        is_sidecar_cut: sidecar_bytes != bytes_of(&geometry),
        written_since: (label.modified_realtime_ns != modified).then_some((label.modified_realtime_ns, modified)),
        ..Findings::default()
    };
    let mut healer = Healer::open(geometry, &pair, label.table_crc32c).map_err(|lost| {
        let why = match lost {
            Lost::Table => "its checksums are bad, or those of another file, and nothing can be proved with it".into(),
            other => other.to_string(),
        };
        Error::Damaged { path: beside.clone(), why }
    })?;
    for row in 0..geometry.rows() {
        match healer.row(row) {
            Ok((pages, bad)) => {
                let of_file = bad.iter().filter(|&&column| column < COLUMNS_DATA).count() as u64;
                findings.file_pages_bad += of_file;
                findings.parity_pages_bad += bad.len() as u64 - of_file;
                sink(row, &pages)?;
            }
            Err(lost) => {
                findings.rows_lost += 1;
                if findings.lost.len() < ROWS_NAMED_MAX {
                    findings.lost.push(lost.to_string());
                }
            }
        }
        progress(done_bytes(&geometry, row + 1), label.file_bytes);
    }
    let tally = healer.tally();
    findings.pages_read = tally.pages_read;
    findings.pages_refused = tally.pages_refused;
    findings.tables_bad = tally.tables_bad;
    Ok((findings, label))
}

/// Three tables are held at once.
fn expect_memory(geometry: &Geometry, path: &Path) -> Result<(), Error> {
    let needed_bytes = 3 * geometry.table_bytes() as u64;
    match memory_available_bytes(Path::new("/")) {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(Error::NoRoom { path: path.to_owned(), needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}
