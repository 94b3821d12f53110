//! The source of experiments: their journals, checked every second, as events of what was appended.
//!
//! A running experiment holds the lock of its journal. The directory may be one that other users write to, so nothing in a
//! journal is trusted: files, lines and bytes have limits, its user is the owner of its file, and nothing in it happened after
//! the look that found it. A directory that was named may lie on a file system that does not answer, so a child looks there.

mod journal;
mod look;
mod names;

use super::Options;
use crate::rooms::apart::{self, Apart, Question, SILENT};
use crate::sources::{End, Source, Start};
use look::problem;
pub(in crate::rooms) use look::{Experiments, Journals};
use std::path::Path;
use std::time::Duration;
use surefoot_hostfs::clock;
use surefoot_model::{DisturbEvent, Event, ExperimentLook, one_line};
use surefoot_settings::Live;

/// A look that takes long is followed by a rest of this many times that.
const REST_FACTOR: u32 = 19;

/// The source of the experiments whose journals lie in these directories.
pub fn source(options: &Options, settings: &Live) -> Start {
    let (directories, is_named, settings) = (options.directories.clone(), options.is_named, settings.clone());
    Box::new(move || {
        let mut own = Experiments::in_directories(is_named);
        own.look_into(directories.clone(), None);
        let apart = Apart::new("looks at journals of experiments", directories);
        Ok(Box::new(Watched {
            is_apart: is_named && apart::is_possible(),
            apart,
            own,
            known: None,
            is_told: false,
            settings,
        }))
    })
}

/// What one look at the journals in a directory tells.
pub fn events_of(directory: &Path) -> Vec<DisturbEvent> {
    let mut experiments = Experiments::default();
    experiments.look_into(vec![directory.to_owned()], None);
    experiments.look(&mut |_| {})
}

/// Looks by a child into directories that somebody named, and by this process into its user's own.
struct Watched {
    settings: Live,
    is_apart: bool,
    apart: Apart<(Vec<DisturbEvent>, Journals)>,
    own: Experiments,
    /// How far the child has read, for the one after it.
    known: Option<Journals>,
    /// Whether a look was told.
    is_told: bool,
}

impl Source for Watched {
    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let Some(events) = self.look(end)? else { return Ok(Vec::new()) };
        Ok(events.into_iter().map(Event::Disturb).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        self.settings.now().settings.disturb.interval.max(took * REST_FACTOR)
    }

    fn problem(&self) -> Option<String> {
        self.apart.problem()
    }
}

impl Watched {
    /// `None` when the watch is to end.
    fn look(&mut self, end: &End) -> Result<Option<Vec<DisturbEvent>>, String> {
        let mut events = match self.is_apart {
            false => self.own.look(&mut |_| ()),
            true => {
                let known = &self.known;
                let ask = |directories: &[_], is_new: bool| {
                    let known = if is_new { known.clone() } else { None };
                    Question::Experiments(apart::bytes_of(directories), known)
                };
                let Some((events, known)) = self.apart.look(end, ask)? else { return Ok(None) };
                self.known = Some(known);
                events
            }
        };
        if let Some(DisturbEvent::Look(mut look)) = events.pop() {
            self.add_silent(&mut look);
            // Nothing is told while there is nothing.
            let is_nothing = self.known_count() == 0 && look.problems.is_empty() && look.left_out_count == 0;
            if !is_nothing || self.is_told {
                self.is_told = true;
                events.push(DisturbEvent::Look(look));
            }
        }
        Ok(Some(events))
    }

    fn known_count(&self) -> usize {
        self.known.as_ref().map_or_else(|| self.own.count(), Journals::count)
    }

    /// Adds the directories that did not answer. What is known of the experiments there stays.
    fn add_silent(&self, look: &mut ExperimentLook) {
        for (at, (directory, _)) in self.apart.directories().enumerate().filter(|(_, (_, is_silent))| *is_silent) {
            look.directories.insert(at.min(look.directories.len()), one_line(&directory.to_string_lossy()));
            problem(look, directory, SILENT);
        }
        look.at_ns = clock::monotonic_ns();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rooms::apart::tests::use_this_program;
    use std::fs::File;
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;
    use surefoot_model::{ExperimentBegan, ExperimentOutcome};
    use surefoot_testkit::experiments::told;
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    static STOP: AtomicBool = AtomicBool::new(false);
    const NAME: &str = "20261125T120000-7-0";

    fn watched(directories: Vec<PathBuf>, is_named: bool) -> Box<dyn Source> {
        source(&Options { directories, is_named, ..Options::default() }, &Live::default())().unwrap()
    }

    fn events(source: &mut dyn Source) -> Vec<DisturbEvent> {
        let of_room = |event| match event {
            Event::Disturb(seen) => seen,
            other => panic!("{other:?}"),
        };
        source.turn(&End::never(&STOP)).unwrap().into_iter().map(of_room).collect()
    }

    #[test]
    fn nothing_is_said_where_nothing_is() {
        let home = tempfile::tempdir().unwrap();
        assert!(events(&mut *watched(vec![home.path().join("none")], false)).is_empty());
        assert!(events(&mut *watched(vec![home.path().to_owned()], false)).is_empty());
    }

    #[test]
    fn a_directory_that_is_named_and_cannot_be_read_is_said() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        for name in ["none", "file"] {
            let seen = events(&mut *watched(vec![home.path().join(name)], true));
            let [DisturbEvent::Look(look)] = &seen[..] else { panic!("{name}: {seen:?}") };
            assert!(look.directories_unread == 1 && look.problems.len() == 1, "{name}: {look:?}");
        }
    }

    #[test]
    fn a_directory_whose_file_system_does_not_answer_is_a_problem_and_its_experiments_stay() {
        use_this_program();
        let test =
            "disturb::source::a_directory_whose_file_system_does_not_answer_is_a_problem_and_its_experiments_stay";
        let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(test, &why),
        };
        let home = tempfile::tempdir().unwrap();
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        let lines = told(NAME, Some(ExperimentOutcome::Failed));
        let lines: Vec<String> = lines.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
        file.write_all(lines[0].as_bytes()).unwrap();
        let hanging = mounted.program().parent().unwrap().to_owned();
        let mut source = watched(vec![hanging.clone(), home.path().to_owned()], true);
        let first = events(&mut *source);
        assert!(
            matches!(&first[..], [DisturbEvent::Began(_), DisturbEvent::Look(look)] if look.problems.is_empty()),
            "{first:?}"
        );
        assert_eq!(source.problem(), None);
        mounted.hang();
        file.write_all(lines[1].as_bytes()).unwrap();
        let second = events(&mut *source);
        assert!(mounted.unanswered() > 0, "it was never asked");
        // The next child reads on where the one before it was.
        let [DisturbEvent::Stalls { .. }, DisturbEvent::Look(look)] = &second[..] else { panic!("{second:?}") };
        let problem = format!("{}: {SILENT}", hanging.display());
        assert_eq!((look.directories.len(), &look.problems), (2, &vec![problem.clone()]));
        assert!(source.problem().unwrap().starts_with(&problem));
    }

    #[test]
    fn what_is_known_of_a_directory_that_is_not_looked_into_stays() {
        let home = tempfile::tempdir().unwrap();
        let journal: String =
            told(NAME, None).iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
        std::fs::write(home.path().join(ExperimentBegan::journal(NAME)), journal).unwrap();
        let mut own = Experiments::default();
        own.look_into(vec![home.path().to_owned()], None);
        own.look(&mut |_| ());
        let mut next = Experiments::default();
        next.look_into(vec!["/none".into()], Some(own.journals()));
        assert!(matches!(&next.look(&mut |_| ())[..], [DisturbEvent::Look(_)]));
        assert_eq!(next.count(), 1);
        next.look_into(vec![home.path().to_owned()], None);
        assert!(matches!(&next.look(&mut |_| ())[..], [DisturbEvent::Look(_)]), "nothing is read twice");
        std::fs::remove_dir_all(home.path()).unwrap();
        assert!(matches!(&next.look(&mut |_| ())[..], [DisturbEvent::Gone { .. }, DisturbEvent::Look(_)]));
    }
}
