//! The output file of a campaign: appended to, line by line, so that one that was interrupted goes on where it ended.

use super::lines::FaultLine;
use super::report::Report;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use surefoot_nic::campaign::fault::{FaultId, Stack};
use surefoot_nic::campaign::whole::Place;
use surefoot_nic::campaign::{Experiment, Fault};

/// A line is no longer than this.
pub const LINE_BYTES_MAX: u64 = 64 << 10;

/// Opens a regular file to be read.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    surefoot_foreign::hold(path)?.regular()?.open()
}

/// The part of a campaign that a file is of.
pub struct Part<'a> {
    pub experiment: &'a Experiment,
    /// Of the experiment and its control program.
    pub digest: u32,
    pub seed: u64,
    /// The faults of the whole campaign.
    pub all: &'a [Fault],
    /// Those of this part.
    pub range: Range<usize>,
}

impl Part<'_> {
    /// Which fault its line of this number, from 0, is of.
    fn line(&self, number: usize) -> Option<(String, Place)> {
        let place = self.range.start + number;
        let fault = *self.all.get(place).filter(|_| self.range.contains(&place))?;
        let (experiment, stack) = (self.experiment.name.clone(), Stack::of(self.experiment));
        let id = FaultId { experiment, stack, seed: self.seed, fault };
        Some((id.to_string(), Place { number: place as u64 + 1, of: self.all.len() as u64, experiment: self.digest }))
    }
}

pub struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Opens it, and makes it where it is not there. Nobody else may write it at the same time.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("--output: cannot write {}", path.display());
        let file = surefoot_store::output::open(path).with_context(cannot)?.file;
        let is_regular = file.metadata().with_context(cannot)?.is_file();
        ensure!(
            is_regular,
            "--output: {} is not a regular file; name one, so that the campaign can go on",
            path.display()
        );
        match file.try_lock() {
            Ok(()) => Ok(ResultFile { path: path.to_owned(), file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                bail!("--output: another campaign is writing {}; wait for it, or name another file", path.display())
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error).with_context(cannot),
        }
    }

    /// Reads what is there: the first faults of this very campaign, perhaps with a torn last line, which goes away. Says
    /// how many faults are done.
    pub fn resume(&mut self, part: &Part<'_>, report: &mut Report) -> anyhow::Result<usize> {
        let at = || self.path.display();
        let mut reader = BufReader::new(
            File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
                .with_context(|| format!("--output: cannot read {}", at()))?,
        );
        let (mut done, mut good_bytes) = (0, 0u64);
        loop {
            let mut line = Vec::new();
            let read = std::io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let bytes = read.with_context(|| format!("--output: cannot read {}", at()))? as u64;
            if bytes == 0 {
                break;
            }
            let expected = part.line(done);
            if !line.ends_with(b"\n") && bytes < LINE_BYTES_MAX {
                ensure!(
                    expected.is_some_and(|(id, _)| is_torn(&line, &id)),
                    "--output: the end of {} is not the begin of line {} of this campaign; name another file",
                    at(),
                    done + 1
                );
                break;
            }
            let parsed: FaultLine = serde_json::from_slice(&line).with_context(|| {
                format!("--output: line {} of {} is not of a campaign; name another file", done + 1, at())
            })?;
            ensure!(
                expected.is_some_and(|(id, place)| id == parsed.id && parsed.place() == Some(place)),
                "--output: line {} of {} is of another campaign: another experiment, build, seed, sample or shard, another description of an experiment of this name, or another version of Surefoot; name another file, or give the options that it was made with",
                done + 1,
                at()
            );
            report.add(&parsed).map_err(|why| anyhow::anyhow!("--output: line {} of {}: {why}", done + 1, at()))?;
            (done, good_bytes) = (done + 1, good_bytes + bytes);
        }
        self.file
            .set_len(good_bytes)
            .and_then(|()| self.file.seek(SeekFrom::End(0)).map(|_| ()))
            .with_context(|| format!("--output: the torn last line of {} cannot be removed", self.path.display()))?;
        Ok(done)
    }

    /// Adds a line, with one write, so that an interruption tears at most the last one.
    pub fn append(&mut self, line: &FaultLine) -> anyhow::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).with_context(|| format!("--output: cannot write {}", self.path.display()))
    }
}

/// Whether this is what an interruption left of the line of a fault. What is anything else is somebody's, and stays.
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
        let place = Place { number: 1, of: 1, experiment: experiment.digest() };
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
