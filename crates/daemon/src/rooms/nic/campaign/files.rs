//! Reads what the files of campaigns have gained.

use super::CampaignFile;
use crate::rooms::shown::NotRead;
use std::sync::Arc;
use surefoot_journal::Position;
use surefoot_rooms::nic::campaign::reports::Reports;

/// Files that are shown.
pub const FILES_MAX: usize = 64;
/// Bytes that are read of one file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The files, and what was read of them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    sources: Vec<Source>,
    reports: Reports,
}

/// A file, and how far it is read.
#[derive(Debug)]
struct Source {
    file: Arc<CampaignFile>,
    place: Position,
    is_over: bool,
}

impl Files {
    pub(crate) fn new(files: &[Arc<CampaignFile>]) -> Self {
        let files = &files[..files.len().min(FILES_MAX)];
        let source =
            |file: &Arc<CampaignFile>| Source { file: Arc::clone(file), place: Position::default(), is_over: false };
        Files {
            sources: files.iter().map(source).collect(),
            reports: Reports::new(files.iter().map(|file| file.path())),
        }
    }

    /// Whether no file was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Reads what the files have gained.
    pub(crate) fn read_on(&mut self) -> &Reports {
        let Files { sources, reports } = self;
        for (number, source) in sources.iter_mut().enumerate().filter(|(_, source)| !source.is_over) {
            source.read_on(number, reports);
        }
        reports
    }
}

impl Source {
    fn read_on(&mut self, number: usize, reports: &mut Reports) {
        let read = self.file.read_on(&mut self.place, FILE_BYTES_MAX, |line_number, line| {
            reports.take(number, line_number, line);
        });
        reports.silent(number, None);
        let end = match read {
            Err(NotRead::Failed(why)) => Some(why),
            Err(NotRead::Now(why)) => {
                reports.silent(number, Some(&why));
                None
            }
            Ok(bytes) if bytes < self.place.bytes => {
                Some("the file was truncated; restart the watch to read it from the start".to_owned())
            }
            Ok(_) if self.place.bytes >= FILE_BYTES_MAX => {
                Some(format!("only its first {} MiB are read", FILE_BYTES_MAX >> 20))
            }
            Ok(_) => None,
        };
        if let Some(why) = end {
            self.is_over = true;
            reports.end(number, &why);
        }
    }
}
