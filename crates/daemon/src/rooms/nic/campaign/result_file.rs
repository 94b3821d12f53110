//! The output file of a campaign. It is written line by line, so that an interrupted campaign continues where it ended.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use surefoot_nic::campaign::experiment::FAULTS_MAX;
use surefoot_nic::campaign::fault::{FaultId, Stack};
use surefoot_nic::campaign::sums::Sums;
use surefoot_nic::campaign::whole::FaultNumber;
use surefoot_nic::campaign::{Experiment, Fault};
use surefoot_rooms::nic::campaign::lines::{FaultLine, TableLine};

/// The longest line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Why the file of a campaign cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// It cannot be read or written.
    #[error("cannot {does} {}: {}", path.display(), surefoot_foreign::said(source))]
    File {
        /// `read`, `write` or `cut the torn last line of`.
        does: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is in use, or no file of this campaign.
    #[error("{0}")]
    Refused(String),
}

fn refused<T>(why: String) -> Result<T, ResultError> {
    Err(ResultError::Refused(why))
}

/// Opens a regular file for reading.
///
/// # Errors
/// When there is none, or it is something else.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    surefoot_foreign::hold(path)?.regular()?.open()
}

/// The lines of campaigns, summed up.
#[derive(Default)]
pub struct Report(Sums);

impl Report {
    /// Adds a line.
    ///
    /// # Errors
    /// Why it does not belong to the campaigns of the lines before.
    pub fn add(&mut self, line: &FaultLine) -> Result<(), String> {
        let (id, row) = line.row()?;
        self.0.add(id, line.place(), &row)
    }

    /// Reads the lines of files, of several shards or of the same one more than once.
    ///
    /// # Errors
    /// Which line of which file is not one of a campaign, or contradicts another.
    pub fn read(files: &[PathBuf]) -> Result<Report, ResultError> {
        let mut report = Report::default();
        // The same line twice is one fault; two lines of one fault that differ are of two campaigns.
        let mut seen: HashMap<String, u64> = HashMap::new();
        for path in files {
            let cannot = |source| ResultError::File { does: "read", path: path.clone(), source };
            let mut reader = BufReader::new(open_to_read(path).map_err(cannot)?);
            for number in 1.. {
                let mut bytes = Vec::new();
                if (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(cannot)? == 0 {
                    break;
                }
                let at = || format!("line {number} of {}", path.display());
                let Ok(line) = serde_json::from_slice::<FaultLine>(&bytes) else {
                    return refused(format!(
                        "{} is not one that `surefoot nic campaign --output` wrote; if it was interrupted there, start it again first",
                        at()
                    ));
                };
                let digest = digest(&bytes);
                match seen.insert(line.id.clone(), digest) {
                    Some(before) if before != digest => {
                        return refused(format!(
                            "{} contradicts another line about the fault {}: the files are of another sample, or of different versions of the experiment",
                            at(),
                            line.id
                        ));
                    }
                    Some(_) => {}
                    None => report.add(&line).or_else(|why| refused(format!("{}: {why}", at())))?,
                }
                if seen.len() as u64 > FAULTS_MAX {
                    return refused(format!("more than {FAULTS_MAX} faults; report fewer files at once"));
                }
            }
        }
        if seen.is_empty() {
            return refused(
                "the files have no fault in them; `surefoot nic campaign --output FILE` writes some".to_owned(),
            );
        }
        Ok(report)
    }

    /// The table of each campaign.
    pub fn tables(&self) -> impl Iterator<Item = TableLine> {
        self.0.campaigns().map(|(campaign, (table, whole))| {
            TableLine::of(&campaign.experiment, &campaign.build, campaign.seed, table, whole)
        })
    }

    /// Whether the tolerant interface broke its promise.
    pub fn has_broken_promise(&self) -> bool {
        self.0.has_broken_promise()
    }

    /// Faults that are in none of the files.
    pub fn missing_count(&self) -> u64 {
        self.0.missing_count()
    }
}

/// Enough of a line to tell it from another one.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.trim_ascii_end());
    hasher.finish()
}

/// The part of a campaign that a file belongs to.
pub struct Part<'a> {
    /// Its experiment.
    pub experiment: &'a Experiment,
    /// Digest of the experiment and its control program.
    pub digest: u32,
    /// Its seed.
    pub seed: u64,
    /// The faults of the whole campaign.
    pub all: &'a [Fault],
    /// Those of this part.
    pub range: Range<usize>,
}

impl Part<'_> {
    /// The fault that belongs in the line of this number, from 0.
    fn line(&self, number: usize) -> Option<(String, FaultNumber)> {
        let place = self.range.start + number;
        let fault = *self.all.get(place).filter(|_| self.range.contains(&place))?;
        let (experiment, stack) = (self.experiment.name.clone(), Stack::of(self.experiment));
        let id = FaultId { experiment, stack, seed: self.seed, fault };
        Some((
            id.to_string(),
            FaultNumber { number: place as u64 + 1, of: self.all.len() as u64, experiment: self.digest },
        ))
    }
}

/// An output file that is open for writing, and locked.
pub struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Opens the file, or creates it, and locks it against other campaigns.
    ///
    /// # Errors
    /// When it cannot be written, is no regular file, or another campaign writes it.
    pub fn open(path: &Path) -> Result<Self, ResultError> {
        let cannot = |source| ResultError::File { does: "write", path: path.to_owned(), source };
        let file = surefoot_store::output::open(path).map_err(cannot)?.file;
        if !file.metadata().map_err(cannot)?.is_file() {
            let path = path.display();
            return refused(format!("{path} is not a regular file; name one, so that the campaign can go on"));
        }
        match file.try_lock() {
            Ok(()) => Ok(ResultFile { path: path.to_owned(), file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                refused(format!("another campaign is writing {}; wait for it, or name another file", path.display()))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    /// Reads the faults that the file has already, which must be the first ones of this campaign, and removes a torn last line.
    /// Returns how many there are.
    ///
    /// # Errors
    /// When it cannot be read, or holds anything else; it is then unchanged.
    pub fn resume(&mut self, part: &Part<'_>, report: &mut Report) -> Result<usize, ResultError> {
        let at = || self.path.display();
        let cannot_read = |source| ResultError::File { does: "read", path: self.path.clone(), source };
        let mut reader =
            BufReader::new(File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).map_err(cannot_read)?);
        let (mut done, mut good_bytes) = (0, 0u64);
        loop {
            let mut line = Vec::new();
            let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let bytes = read.map_err(cannot_read)? as u64;
            if bytes == 0 {
                break;
            }
            let expected = part.line(done);
            if !line.ends_with(b"\n") && bytes < LINE_BYTES_MAX {
                if !expected.is_some_and(|(id, _)| is_torn(&line, &id)) {
                    return refused(format!(
                        "the end of {} is not the start of line {} of this campaign; name another file",
                        at(),
                        done + 1
                    ));
                }
                break;
            }
            let Ok(parsed) = serde_json::from_slice::<FaultLine>(&line) else {
                return refused(format!("line {} of {} is not of a campaign; name another file", done + 1, at()));
            };
            if !expected.is_some_and(|(id, place)| id == parsed.id && parsed.place() == Some(place)) {
                return refused(format!(
                    "line {} of {} is of another campaign: another experiment, build, seed, sample or shard, another description of an experiment of this name, or another version of Surefoot; name another file, or give the options that it was made with",
                    done + 1,
                    at()
                ));
            }
            report.add(&parsed).or_else(|why| refused(format!("line {} of {}: {why}", done + 1, at())))?;
            (done, good_bytes) = (done + 1, good_bytes + bytes);
        }
        self.file.set_len(good_bytes).and_then(|()| self.file.seek(SeekFrom::End(0)).map(|_| ())).map_err(
            |source| ResultError::File { does: "cut the torn last line of", path: self.path.clone(), source },
        )?;
        Ok(done)
    }

    /// Adds a line, with one write, so that an interruption tears at most the last one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, line: &FaultLine) -> Result<(), ResultError> {
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            self.file.write_all(&bytes)
        });
        written.map_err(|source| ResultError::File { does: "write", path: self.path.clone(), source })
    }
}

/// Whether this is the start of the line of this fault, as an interruption leaves it. Anything else belongs to somebody and stays.
fn is_torn(line: &[u8], id: &str) -> bool {
    let whole = format!(r#"{{"type":"fault","id":"{id}","#);
    let compared = line.len().min(whole.len());
    line[..compared] == whole.as_bytes()[..compared]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_nic::campaign::Preset;
    use surefoot_nic::campaign::golden::Golden;
    use surefoot_nic::campaign::trial::Lab;

    #[test]
    fn a_torn_line_goes_away_and_what_somebody_else_wrote_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let experiment = Experiment::preset(Preset::DmaRegisters);
        let golden = Golden::run(&experiment, 1).unwrap();
        let faults = experiment.faults(golden.firmware(), golden.window(), Some(1), 1).unwrap();
        let place = FaultNumber { number: 1, of: 1, experiment: experiment.digest() };
        let line = FaultLine::of(&Lab::new(golden).record(&faults[0]).unwrap(), Some(place));
        let whole = serde_json::to_vec(&line).unwrap();
        let resumed = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let mut file = ResultFile::open(&path).unwrap();
            let digest = experiment.digest();
            let part = Part { experiment: &experiment, digest, seed: 1, all: &faults, range: 0..1 };
            let done = file.resume(&part, &mut Report::default());
            (done.is_ok(), std::fs::read(&path).unwrap())
        };
        for length in [1, 20, 40, whole.len() - 1, whole.len()] {
            assert_eq!(resumed(&whole[..length]), (true, Vec::new()), "{length} bytes of the line");
        }
        for other in
            ["{\"my\":\"settings\"}", "notes", " ", "{\"type\":\"fault\",\"id\":\"data:detecting:1:data:0x0:1@1\""]
        {
            assert_eq!(resumed(other.as_bytes()), (false, other.into()));
        }
        // As written before faults were numbered: nobody could tell later whether all are there.
        let old =
            serde_json::to_vec(&FaultLine { number: None, campaign_fault_count: None, experiment_crc: None, ..line })
                .unwrap();
        let old = [old.as_slice(), b"\n"].concat();
        assert_eq!(resumed(&old), (false, old));
        let after = [whole.as_slice(), b"\nnotes"].concat();
        assert_eq!(resumed(&after), (false, after), "behind the last line, too");
    }
}
