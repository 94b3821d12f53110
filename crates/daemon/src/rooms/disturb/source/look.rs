//! One look at the journals of experiments.

use super::journal::{Journal, clipped};
use crate::rooms::turns::in_turn;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use surefoot_foreign::About;
use surefoot_hostfs::clock;
use surefoot_model::{DisturbEvent, ExperimentBegan, ExperimentLook, one_line};

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 1 << 16;
/// Journals that are read: the newest.
const JOURNALS_MAX: usize = crate::rooms::disturb::state::EXPERIMENTS_MAX;
/// Stands for the owner of what could not be looked at; the kernel gives no file to this user.
const UNKNOWN_USER: u32 = u32::MAX;
/// Problems that are told.
const PROBLEMS_MAX: usize = 32;

/// The journals of some directories.
#[derive(Default)]
pub(in crate::rooms) struct Experiments {
    directories: Vec<PathBuf>,
    journals: Journals,
}

/// How far journals were read, by the names of their experiments.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::rooms) struct Journals(BTreeMap<String, Journal>);

impl Journals {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Experiments {
    /// Looks into these directories from now on, and reads on from there.
    pub(in crate::rooms) fn look_into(&mut self, directories: Vec<PathBuf>, known: Option<Journals>) {
        self.directories = directories;
        if let Some(known) = known {
            self.journals = known;
        }
    }

    /// How far they were read.
    pub(in crate::rooms) fn journals(&self) -> Journals {
        self.journals.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.journals.count()
    }

    /// What there is to tell, and last the look itself. `begins` is told the number of a directory before anything is asked for
    /// there.
    pub(in crate::rooms) fn look(&mut self, begins: &mut dyn FnMut(usize)) -> Vec<DisturbEvent> {
        let (begun, now_ns, now_realtime_ns) = (Instant::now(), clock::monotonic_ns(), clock::realtime_ns());
        let mut look = ExperimentLook { looked_realtime_ns: now_realtime_ns, ..ExperimentLook::default() };
        let found = self.find(&mut look, begins);
        let mut events = Vec::new();
        let directories = &self.directories;
        self.journals.0.retain(|name, journal| {
            // A directory that does not answer is not looked into: nothing there is gone.
            let is_there = found.contains_key(name) || !directories.contains(&journal.directory());
            if !is_there {
                events.push(DisturbEvent::Gone { experiment: name.clone() });
            }
            is_there
        });
        for (name, (at, path)) in found {
            begins(at);
            let journal = self.journals.0.entry(name.clone()).or_insert_with(|| Journal::of(&self.directories[at]));
            if let Err(error) = journal.open(&path) {
                problem(&mut look, &path, &error.to_string());
            }
            journal.read_on(&name, (now_ns, now_realtime_ns), &mut events);
            if let Some(why) = &journal.problem {
                problem(&mut look, &path, why);
            }
            // Its process may not have come to lock it yet: it is opened again at the next look.
            if journal.has_nothing() {
                self.journals.0.remove(&name);
            }
        }
        look.at_ns = clock::monotonic_ns();
        look.look_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        events.push(DisturbEvent::Look(look));
        events
    }

    /// The newest journals by their names.
    fn find(&self, look: &mut ExperimentLook, begins: &mut dyn FnMut(usize)) -> BTreeMap<String, (usize, PathBuf)> {
        let mut found = Vec::new();
        for (at, directory) in self.directories.iter().enumerate() {
            begins(at);
            let entries = match directory.read_dir() {
                Ok(entries) => entries,
                // Nobody has made an experiment there.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    problem(look, directory, &error.to_string());
                    continue;
                }
            };
            look.directories.push(one_line(&directory.to_string_lossy()));
            // No file in it is asked for by its path, and none has to answer: a user can mount a file system over a file of theirs.
            let held = match held(directory) {
                Ok(held) => held,
                Err(error) => {
                    problem(look, directory, &error.to_string());
                    continue;
                }
            };
            let mut entries = entries.flatten().map(|entry| entry.path());
            for path in entries.by_ref().take(ENTRIES_MAX) {
                let Some(name) = ExperimentBegan::name_of(&path).map(str::to_owned) else { continue };
                let Some(file) = path.file_name() else { continue };
                let uid = match About::in_directory(&held, file) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(_) => UNKNOWN_USER,
                    // One in which there is nothing yet takes no other's place.
                    Ok(about) if about.is_regular() && about.bytes == 0 => continue,
                    Ok(about) => about.owner,
                };
                found.push(Candidate { name, at, path, uid });
            }
            if entries.next().is_some() {
                problem(look, directory, &format!("it has more than {ENTRIES_MAX} entries; the rest is not looked at"));
            }
        }
        self.choose(found, look)
    }

    /// The newest of each user in turn, so that one user's journals keep no other's from being read. Of two with one name, root's
    /// or this process's own user's counts, and the other is a problem.
    fn choose(&self, mut found: Vec<Candidate>, look: &mut ExperimentLook) -> BTreeMap<String, (usize, PathBuf)> {
        let own = surefoot_hostfs::privilege::effective_user();
        found.sort_by_key(|one| (one.uid != 0, one.uid != own, Reverse(one.name.clone())));
        let mut chosen = BTreeMap::new();
        for one in in_turn(found, |one| one.uid) {
            match chosen.contains_key(&one.name) {
                true => problem(look, &one.path, "another journal has this name; this one is not read"),
                false if chosen.len() >= JOURNALS_MAX => look.left_out_count += 1,
                false => drop(chosen.insert(one.name, (one.at, one.path))),
            }
        }
        chosen
    }
}

/// A journal that could be read.
struct Candidate {
    name: String,
    /// The number of its directory.
    at: usize,
    path: PathBuf,
    uid: u32,
}

/// A directory, to ask for names in it; nothing is opened for reading.
fn held(directory: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory)
}

pub(super) fn problem(look: &mut ExperimentLook, path: &Path, why: &str) {
    match look.problems.len() < PROBLEMS_MAX {
        true => look.problems.push(clipped(&format!("{}: {why}", path.display()))),
        false => look.problems_left_out += 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rooms::disturb::source::journal::LETTERS_MAX;
    use crate::rooms::disturb::state::tests::told;
    use std::fs;
    use std::io::Write;
    use std::time::Duration;
    use surefoot_model::ExperimentOutcome;

    fn experiments(directory: &Path) -> Experiments {
        Experiments { directories: vec![directory.to_owned()], ..Experiments::default() }
    }

    impl Experiments {
        fn events(&mut self) -> Vec<DisturbEvent> {
            self.look(&mut |_| ())
        }
    }

    fn line(event: &DisturbEvent) -> String {
        serde_json::to_string(event).unwrap() + "\n"
    }

    fn words(events: &[DisturbEvent]) -> Vec<String> {
        let word = |event: &DisturbEvent| match event {
            DisturbEvent::Look(look) => format!("look {}", look.problems.len()),
            DisturbEvent::Began(began) => format!("began {} {:?}", began.experiment, began.uid),
            DisturbEvent::Stalls { stalls, .. } => format!("{} stalls", stalls.len()),
            DisturbEvent::Run { .. } => "run".into(),
            DisturbEvent::Row { .. } => "row".into(),
            DisturbEvent::Ended(ended) => format!("ended {}", ended.outcome.as_str()),
            DisturbEvent::Gone { experiment } => format!("gone {experiment}"),
        };
        events.iter().map(word).collect()
    }

    const NAME: &str = "20261125T120000-7-0";

    #[test]
    fn empty_journals_keep_no_other_from_being_read() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..JOURNALS_MAX + 5 {
            fs::write(home.path().join(format!("z{number}.jsonl")), "").unwrap();
        }
        let journal: String = told(NAME, None).iter().map(line).collect();
        fs::write(home.path().join(ExperimentBegan::journal(NAME)), journal).unwrap();
        let words = words(&experiments(home.path()).events());
        assert!(words.iter().any(|word| word.starts_with("began")), "{words:?}");
    }

    #[test]
    fn a_journal_is_told_as_it_grows_and_its_end_once() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(home.path());
        assert_eq!(words(&source.events()), ["look 0"]);
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        let lines: Vec<String> = told(NAME, Some(ExperimentOutcome::Failed)).iter().map(line).collect();
        file.write_all(lines[0].as_bytes()).unwrap();
        let own = surefoot_hostfs::privilege::effective_user();
        assert_eq!(words(&source.events()), [format!("began {NAME} Some({own})"), "look 0".into()]);
        assert_eq!(words(&source.events()), ["look 0"]);
        file.write_all((lines[1].clone() + &lines[2] + &lines[3]).as_bytes()).unwrap();
        drop(file);
        assert_eq!(words(&source.events()), ["2 stalls", "run", "ended failed", "look 0"]);
        assert_eq!(words(&source.events()), ["look 0"]);
        fs::remove_file(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        assert_eq!(words(&source.events()), [format!("gone {NAME}"), "look 0".into()]);
    }

    #[test]
    fn journals_that_ended_are_not_kept_open() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(home.path());
        for number in 0..20 {
            let name = format!("20261125T1200{number:02}-7-0");
            let lines: String = told(&name, Some(ExperimentOutcome::Finished)).iter().map(line).collect();
            fs::write(home.path().join(ExperimentBegan::journal(&name)), lines).unwrap();
            fs::write(home.path().join(ExperimentBegan::journal(&format!("{name}-empty"))), "").unwrap();
        }
        source.events();
        assert_eq!(source.journals.0.values().filter(|one| one.is_open()).count(), 0);
        assert_eq!(source.events().len(), 1, "each is told once");
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let of_home = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(home.path())));
        assert_eq!(of_home.count(), 0);
    }

    #[test]
    fn one_users_journals_keep_no_others_from_being_read() {
        let candidate =
            |uid, name: String| Candidate { path: PathBuf::from(format!("/{uid}/{name}")), at: 0, name, uid };
        let mut found: Vec<Candidate> = (0..300).map(|number| candidate(1000, format!("9999-{number:03}"))).collect();
        found.extend((0..10).map(|number| candidate(0, format!("2026-{number}"))));
        found.push(candidate(1000, "2026-3".into()));
        let mut look = ExperimentLook::default();
        let chosen = experiments(Path::new("/")).choose(found, &mut look);
        assert_eq!(chosen.len(), JOURNALS_MAX);
        for number in 0..10 {
            let name = format!("2026-{number}");
            assert_eq!(chosen[&name].1, Path::new("/0").join(&name), "root's journal counts");
        }
        assert_eq!(look.left_out_count + chosen.len() as u64 + look.problems.len() as u64, 311);
    }

    #[test]
    fn one_whose_process_is_gone_without_a_word_has_vanished() {
        let home = tempfile::tempdir().unwrap();
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        file.write_all(line(&told(NAME, None)[0]).as_bytes()).unwrap();
        let mut source = experiments(home.path());
        assert_eq!(source.events().len(), 2);
        drop(file);
        let events = source.events();
        assert_eq!(words(&events), ["ended vanished", "look 0"]);
        // A watch that begins later finds the same end: it is in the history once.
        std::thread::sleep(Duration::from_millis(20));
        let later = experiments(home.path()).events();
        let at = |events: &[DisturbEvent]| {
            let ended = events.iter().find_map(|event| match event {
                DisturbEvent::Ended(ended) => Some(ended.at_realtime_ns),
                _ => None,
            });
            ended.unwrap()
        };
        assert_eq!(at(&events), at(&later));
        assert_eq!(words(&source.events()), ["look 0"]);
    }

    #[test]
    fn what_no_journal_says_is_a_problem_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(ExperimentBegan::journal(NAME));
        let of_another = line(&told("20261125T120000-8-0", None)[0]);
        let gone = line(&DisturbEvent::Gone { experiment: NAME.into() });
        fs::write(&path, format!("nothing\n{of_another}{gone}")).unwrap();
        std::os::unix::fs::symlink(&path, home.path().join(ExperimentBegan::journal("20261125T120000-9-0"))).unwrap();
        fs::write(home.path().join("other.txt"), "x").unwrap();
        let events = experiments(home.path()).events();
        let [DisturbEvent::Look(look)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(look.problems.len(), 2, "{look:?}");
        assert!(look.problems[0].contains("line 1: not of a journal"), "{look:?}");
    }

    #[test]
    fn times_to_come_and_controls_are_not_believed() {
        let home = tempfile::tempdir().unwrap();
        let mut events = told(NAME, Some(ExperimentOutcome::Finished));
        if let DisturbEvent::Began(began) = &mut events[0] {
            began.workload = format!("a\u{1b}[2J{}", "x".repeat(2 * LETTERS_MAX));
            (began.at_ns, began.at_realtime_ns, began.uid) = (u64::MAX, u64::MAX, Some(0));
        }
        if let DisturbEvent::Run { run, .. } = &mut events[2] {
            (run.start_ns, run.wall_ns) = (u64::MAX, u64::MAX);
        }
        let text: String = events.iter().map(line).collect();
        fs::write(home.path().join(ExperimentBegan::journal(NAME)), text).unwrap();
        let before_ns = clock::monotonic_ns();
        let found = experiments(home.path()).events();
        let DisturbEvent::Began(began) = &found[0] else { panic!("{found:?}") };
        assert!(began.workload.starts_with("a?[2J") && began.workload.chars().count() == LETTERS_MAX);
        assert!(began.at_ns >= before_ns && began.at_ns <= clock::monotonic_ns());
        assert_eq!(began.uid, Some(surefoot_hostfs::privilege::effective_user()));
        let DisturbEvent::Run { run, .. } = &found[2] else { panic!("{found:?}") };
        assert_eq!(run.wall_ns, 0);
    }
}
