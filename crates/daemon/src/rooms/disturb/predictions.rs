//! Predictions for many nodes from files that were named: lines of `surefoot disturb predict --json`.
//!
//! They are no events, because they are not of this host. Every line may be a stranger's: all that is kept has a limit.

use crate::rooms::shown::{NotRead, ShownFile};
use std::sync::Arc;
use surefoot_journal::Position;
use surefoot_model::clipped;
use surefoot_rooms::disturb::PredictionView;

/// Files that are shown.
pub const FILES_MAX: usize = 16;
/// Bytes that are read of one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Predictions that are kept.
const PREDICTIONS_MAX: usize = 2_000;
/// Characters of a sentence about a file.
const TEXT_CHARACTERS_MAX: usize = 200;

/// A file and how its reading went.
#[derive(Debug)]
struct Source {
    file: Arc<ShownFile>,
    place: Position,
    is_over: bool,
}

/// The predictions of all files.
#[derive(Debug, Default)]
pub(super) struct Predictions {
    sources: Vec<Source>,
    kept: Vec<PredictionView>,
    problems: Vec<String>,
}

impl Predictions {
    pub(super) fn new(files: &[Arc<ShownFile>]) -> Self {
        let source =
            |file: &Arc<ShownFile>| Source { file: Arc::clone(file), place: Position::default(), is_over: false };
        Predictions { sources: files.iter().take(FILES_MAX).map(source).collect(), ..Predictions::default() }
    }

    pub(super) fn is_none_named(&self) -> bool {
        self.sources.is_empty()
    }

    /// Reads what the files have gained; returns the predictions and what is wrong with the files, one sentence for each.
    pub(super) fn read_on(&mut self) -> (&[PredictionView], Vec<String>) {
        let (kept, problems) = (&mut self.kept, &mut self.problems);
        let mut now = Vec::new();
        for source in self.sources.iter_mut().filter(|source| !source.is_over) {
            let mut first = None;
            let read = source.file.read_on(&mut source.place, FILE_BYTES_MAX, |number, line| {
                let taken = line.map_err(str::to_owned).and_then(|line| take(line, kept));
                if let Err(why) = taken {
                    first.get_or_insert(format!("line {number}: {why}"));
                }
            });
            let end = match read {
                Err(NotRead::Failed(why)) => Some(why),
                // It is asked again.
                Err(NotRead::Now(why)) => {
                    now.push(clipped(&format!("{}: {why}", source.file.path().display()), TEXT_CHARACTERS_MAX));
                    None
                }
                Ok(_) if source.place.bytes >= FILE_BYTES_MAX => {
                    Some(format!("only its first {} MiB are read", FILE_BYTES_MAX >> 20))
                }
                Ok(_) => None,
            };
            source.is_over = end.is_some();
            if let Some(why) = first.or(end) {
                // One sentence for a file is enough.
                source.is_over = true;
                problems.push(clipped(&format!("{}: {why}", source.file.path().display()), TEXT_CHARACTERS_MAX));
            }
        }
        now.extend_from_slice(&self.problems);
        (&self.kept, now)
    }
}

fn take(line: &[u8], kept: &mut Vec<PredictionView>) -> Result<(), String> {
    match PredictionView::of_line(line)? {
        Some(_) if kept.len() == PREDICTIONS_MAX => {
            Err(format!("more than {PREDICTIONS_MAX} predictions; the others are left out"))
        }
        Some(read) => {
            kept.push(read);
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    const LINE: &str = r#"{"type":"prediction","slowdown":1.1,"interval_low":1.0,"interval_high":1.2,"interval_method":"order","least":1,"most":2,"base_ns":5,"event_count":9,"pattern":"barrier","nodes":8,"ranks_per_node":1,"compute_ns":1000,"bytes":8,"iterations":10,"latency_ns":1,"overhead_ns":1,"gap_ns":1,"gap_per_byte_ps":1,"progress":"nic","noises":["a\u0007b"],"longest_period_ns":1,"seed":1,"draws":40}"#;

    #[test]
    fn what_a_file_gains_is_read_on_and_other_lines_are_passed_over() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"type\":\"stream\"}\n{\"type\":\"draw\",\"draw\":1}\n").unwrap();
        writeln!(file, "{LINE}").unwrap();
        let mut predictions = Predictions::new(&[Arc::new(ShownFile::open(file.path()).unwrap())]);
        let (kept, problems) = predictions.read_on();
        assert_eq!((kept.len(), kept[0].nodes, kept[0].noises[0].as_str(), problems.len()), (1, 8, "a?b", 0));
        writeln!(file, "{LINE}").unwrap();
        assert_eq!(predictions.read_on().0.len(), 2);
        writeln!(file, "{}\nnothing", LINE.replace("\"nodes\":8", "\"nodes\":0")).unwrap();
        let (kept, problems) = predictions.read_on();
        assert_eq!(kept.len(), 2);
        assert!(problems.len() == 1 && problems[0].contains("line 5: a prediction has nodes"), "{problems:?}");
        assert_eq!(predictions.read_on().1.len(), 1, "told once");
    }
}
