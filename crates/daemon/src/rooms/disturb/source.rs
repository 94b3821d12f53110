//! The source of experiments: their journals, looked at every second, and told as what they gained.
//!
//! An experiment that runs holds the lock of its journal. A directory may have been named that others write to, so nothing in a
//! journal is trusted: files, lines and bytes have limits, its user is the owner of its file, and nothing in it happened after
//! the look that found it.

use crate::rooms::turns::in_turn;
use crate::sources::{End, Source, Start};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_foreign::About;
use surefoot_hostfs::clock;
use surefoot_journal::{GrowingFile, Place};
use surefoot_model::{
    DisturbEvent, Event, ExperimentBegan, ExperimentEnded, ExperimentLook, ExperimentOutcome, one_line,
};

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// A look that takes long is followed by a rest of so many times that.
const REST_FACTOR: u32 = 19;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 1 << 16;
/// Journals that are read: the newest.
const JOURNALS_MAX: usize = super::state::EXPERIMENTS_MAX;
/// Stands for the owner of what could not be looked at; the kernel gives no file to this user.
const UNKNOWN_USER: u32 = u32::MAX;
/// Problems that are told.
const PROBLEMS_MAX: usize = 32;
/// Letters of a text that is kept.
const LETTERS_MAX: usize = 4096;
/// Warnings and outliers that are kept.
const LIST_MAX: usize = 512;
/// Why one has ended that did not say so.
const VANISHED: &str = "its process is gone and had not said how it ended; what it disturbed ended with it";

/// The source of the experiments whose journals lie in these directories.
pub fn source(directories: Vec<PathBuf>) -> Start {
    Box::new(move || Ok(Box::new(Experiments { directories, journals: BTreeMap::new(), told: None })))
}

/// What one look at the journals of a directory tells.
pub fn events_of(directory: &Path) -> Vec<DisturbEvent> {
    Experiments { directories: vec![directory.to_owned()], journals: BTreeMap::new(), told: None }.look()
}

struct Experiments {
    directories: Vec<PathBuf>,
    journals: BTreeMap<String, Journal>,
    /// The frame that was told last.
    told: Option<ExperimentLook>,
}

struct Journal {
    /// Open until the end was read: a directory may hold many that have ended.
    file: Option<GrowingFile>,
    uid: u32,
    place: Place,
    /// What it began with.
    began: Option<ExperimentBegan>,
    is_over: bool,
    /// The first thing that is wrong with it.
    problem: Option<String>,
}

impl Source for Experiments {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        Ok(self.look().into_iter().map(Event::Disturb).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        PERIOD.max(took * REST_FACTOR)
    }
}

impl Experiments {
    fn look(&mut self) -> Vec<DisturbEvent> {
        let (begun, now_ns, now_realtime_ns) = (Instant::now(), clock::monotonic_ns(), clock::realtime_ns());
        let mut look = ExperimentLook { looked_realtime_ns: now_realtime_ns, ..ExperimentLook::default() };
        let found = self.find(&mut look);
        let mut events = Vec::new();
        self.journals.retain(|name, _| {
            let is_there = found.contains_key(name);
            if !is_there {
                events.push(DisturbEvent::Gone { experiment: name.clone() });
            }
            is_there
        });
        for (name, path) in found {
            if !self.journals.contains_key(&name) {
                match Journal::open(&path) {
                    Ok(journal) => drop(self.journals.insert(name.clone(), journal)),
                    Err(error) => problem(&mut look, &path, &error.to_string()),
                }
            }
            let Some(journal) = self.journals.get_mut(&name) else { continue };
            journal.read_on(&name, (now_ns, now_realtime_ns), &mut events);
            if let Some(why) = &journal.problem {
                problem(&mut look, &path, why);
            }
            // Its process may not have come to lock it yet: it is opened again at the next look.
            if journal.file.is_none() && journal.place.bytes == 0 {
                self.journals.remove(&name);
            }
        }
        look.at_ns = clock::monotonic_ns();
        look.look_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Where there is nothing, nothing is said.
        let is_nothing = self.journals.is_empty() && look.problems.is_empty() && look.left_out_count == 0;
        if !is_nothing || self.told.is_some() {
            self.told = Some(look.clone());
            events.push(DisturbEvent::Look(look));
        }
        events
    }

    /// The newest journals by their names.
    fn find(&self, look: &mut ExperimentLook) -> BTreeMap<String, PathBuf> {
        let mut found = Vec::new();
        for directory in &self.directories {
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
                found.push(Candidate { name, path, uid });
            }
            if entries.next().is_some() {
                problem(look, directory, &format!("it has more than {ENTRIES_MAX} entries; the rest is not looked at"));
            }
        }
        self.choose(found, look)
    }

    /// The newest of each user in turn, so that one user's journals keep no other's from being read. Of two with one name, root's
    /// or this process's own user's counts, and the other is a problem.
    fn choose(&self, mut found: Vec<Candidate>, look: &mut ExperimentLook) -> BTreeMap<String, PathBuf> {
        let own = surefoot_hostfs::privilege::effective_user();
        found.sort_by_key(|one| (one.uid != 0, one.uid != own, Reverse(one.name.clone())));
        let mut chosen = BTreeMap::new();
        for one in in_turn(found, |one| one.uid) {
            match chosen.contains_key(&one.name) {
                true => problem(look, &one.path, "another journal has this name; this one is not read"),
                false if chosen.len() >= JOURNALS_MAX => look.left_out_count += 1,
                false => drop(chosen.insert(one.name, one.path)),
            }
        }
        chosen
    }
}

/// A journal that could be read.
struct Candidate {
    name: String,
    path: PathBuf,
    uid: u32,
}

/// A directory, to ask for names in it; nothing is opened for reading.
fn held(directory: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory)
}

fn problem(look: &mut ExperimentLook, path: &Path, why: &str) {
    match look.problems.len() < PROBLEMS_MAX {
        true => look.problems.push(clipped(&format!("{}: {why}", path.display()))),
        false => look.problems_left_out += 1,
    }
}

impl Journal {
    fn open(path: &Path) -> std::io::Result<Journal> {
        let file = GrowingFile::open_no_link(path)?;
        let uid = file.file().metadata()?.uid();
        Ok(Journal { file: Some(file), uid, place: Place::default(), began: None, is_over: false, problem: None })
    }

    fn read_on(&mut self, name: &str, now: (u64, u64), events: &mut Vec<DisturbEvent>) {
        let Some(file) = self.file.take() else { return };
        // Looked at before it is read: what its process wrote until it ended is read then, also its last word.
        let is_held = is_held(&file);
        let mut place = std::mem::take(&mut self.place);
        let mut lines = Vec::new();
        let read = surefoot_journal::read_on(&file, &mut place, ExperimentBegan::JOURNAL_BYTES_MAX, |number, line| {
            let read = line.map_err(str::to_owned).and_then(|line| {
                serde_json::from_slice::<DisturbEvent>(line).map_err(|error| format!("not of a journal: {error}"))
            });
            lines.push((number, read));
        });
        self.place = place;
        for (number, line) in lines {
            match line.and_then(|event| self.take(name, event, now)) {
                Ok(event) => events.push(event),
                Err(why) => drop(self.problem.get_or_insert(format!("line {number}: {why}"))),
            }
        }
        if let Err(error) = read {
            self.problem = Some(format!("cannot be read: {error}"));
        }
        let is_full = self.place.bytes >= ExperimentBegan::JOURNAL_BYTES_MAX;
        if is_full {
            self.problem.get_or_insert_with(|| "it is longer than any journal; the rest is not read".to_owned());
        }
        if (!is_held || is_full) && !self.is_over && self.began.is_some() {
            self.is_over = true;
            let outcome = ExperimentOutcome::Vanished;
            let at = self.last_written(&file, now);
            let ended = ExperimentEnded::new(name.to_owned(), at, outcome, VANISHED.to_owned());
            events.push(DisturbEvent::Ended(ended));
        }
        // One that is full, or that no process writes any more, says nothing else.
        if !self.is_over && !is_full && is_held {
            self.file = Some(file);
        }
    }

    /// When it was last written to: the same for every watch that finds it later, so that the history has its end once. Not before
    /// the experiment began, and not after this look.
    fn last_written(&self, file: &GrowingFile, now: (u64, u64)) -> (u64, u64) {
        let (now_ns, now_realtime_ns) = now;
        let began_ns = self.began.as_ref().map_or(0, |began| began.at_realtime_ns).min(now_realtime_ns);
        let since_1970 = file.file().metadata().and_then(|about| about.modified()).ok();
        let since_1970 = since_1970.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let written_ns = since_1970.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(now_realtime_ns);
        let at_realtime_ns = written_ns.clamp(began_ns, now_realtime_ns);
        (now_ns.saturating_sub(now_realtime_ns - at_realtime_ns), at_realtime_ns)
    }

    /// What a line says, as far as it can be believed.
    fn take(&mut self, name: &str, mut event: DisturbEvent, now: (u64, u64)) -> Result<DisturbEvent, String> {
        if event.experiment() != Some(name) {
            return Err("it is not of the experiment after which the file is named".into());
        }
        if self.is_over {
            return Err("it comes after the end".into());
        }
        if self.began.is_none() != matches!(event, DisturbEvent::Began(_)) {
            return Err("a journal begins once, and with its beginning".into());
        }
        let (now_ns, now_realtime_ns) = now;
        match &mut event {
            DisturbEvent::Began(began) => {
                began.uid = Some(self.uid);
                began.at_ns = began.at_ns.min(now_ns);
                began.at_realtime_ns = began.at_realtime_ns.min(now_realtime_ns);
                let texts = [&mut began.workload, &mut began.metric, &mut began.series, &mut began.part];
                let words = [&mut began.disturbance, &mut began.method];
                texts.into_iter().chain(words).for_each(|text| *text = clipped(text));
                self.began = Some((**began).clone());
            }
            DisturbEvent::Run { run, .. } => {
                run.start_ns = run.start_ns.min(now_ns);
                run.wall_ns = run.wall_ns.min(now_ns - run.start_ns);
                let words = [&mut run.condition, &mut run.case, &mut run.treatment];
                words.into_iter().for_each(|text| *text = clipped(text));
            }
            DisturbEvent::Ended(ended) => {
                ended.at_ns = ended.at_ns.min(now_ns);
                ended.at_realtime_ns = ended.at_realtime_ns.min(now_realtime_ns);
                ended.why = clipped(&ended.why);
                ended.summary = clipped(&ended.summary);
                ended.warnings.truncate(LIST_MAX);
                ended.warnings.iter_mut().for_each(|text| *text = clipped(text));
                if let Some(effect) = &mut ended.effect {
                    effect.warnings.truncate(LIST_MAX);
                    effect.notes.truncate(LIST_MAX);
                    effect.outlier_runs.truncate(LIST_MAX);
                    let words =
                        [&mut effect.workload, &mut effect.metric, &mut effect.method, &mut effect.method_words];
                    words
                        .into_iter()
                        .chain(&mut effect.warnings)
                        .chain(&mut effect.notes)
                        .for_each(|text| *text = clipped(text));
                }
                self.is_over = true;
            }
            DisturbEvent::Row { row, .. } => row.texts_mut().into_iter().for_each(|text| *text = clipped(text)),
            DisturbEvent::Stalls { .. } => {}
            DisturbEvent::Look(_) | DisturbEvent::Gone { .. } => return Err("a journal says no such thing".into()),
        }
        Ok(event)
    }
}

/// Whether its process holds its lock. One that has just made it waits for this look, which lets go at once.
fn is_held(of: &GrowingFile) -> bool {
    match of.file().try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
        Ok(()) => {
            let _ = of.file().unlock();
            false
        }
    }
}

/// The beginning of a stranger's words, in one line.
fn clipped(text: &str) -> String {
    one_line(&text.chars().take(LETTERS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::state::tests::told;
    use super::*;
    use std::fs;
    use std::io::Write;

    fn experiments(directory: &Path) -> Experiments {
        Experiments { directories: vec![directory.to_owned()], journals: BTreeMap::new(), told: None }
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
        let words = words(&experiments(home.path()).look());
        assert!(words.iter().any(|word| word.starts_with("began")), "{words:?}");
    }

    #[test]
    fn a_journal_is_told_as_it_grows_and_its_end_once() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(&home.path().join("none"));
        assert!(source.look().is_empty(), "nothing is said where nothing is");
        let mut source = experiments(home.path());
        assert!(source.look().is_empty());
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        let lines: Vec<String> = told(NAME, Some(ExperimentOutcome::Failed)).iter().map(line).collect();
        file.write_all(lines[0].as_bytes()).unwrap();
        let own = surefoot_hostfs::privilege::effective_user();
        assert_eq!(words(&source.look()), [format!("began {NAME} Some({own})"), "look 0".into()]);
        assert_eq!(words(&source.look()), ["look 0"]);
        file.write_all((lines[1].clone() + &lines[2] + &lines[3]).as_bytes()).unwrap();
        drop(file);
        assert_eq!(words(&source.look()), ["2 stalls", "run", "ended failed", "look 0"]);
        assert_eq!(words(&source.look()), ["look 0"]);
        fs::remove_file(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        assert_eq!(words(&source.look()), [format!("gone {NAME}"), "look 0".into()]);
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
        source.look();
        assert_eq!(source.journals.values().filter(|one| one.file.is_some()).count(), 0);
        assert_eq!(source.look().len(), 1, "each is told once");
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let of_home = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(home.path())));
        assert_eq!(of_home.count(), 0);
    }

    #[test]
    fn one_users_journals_keep_no_others_from_being_read() {
        let candidate = |uid, name: String| Candidate { path: PathBuf::from(format!("/{uid}/{name}")), name, uid };
        let mut found: Vec<Candidate> = (0..300).map(|number| candidate(1000, format!("9999-{number:03}"))).collect();
        found.extend((0..10).map(|number| candidate(0, format!("2026-{number}"))));
        found.push(candidate(1000, "2026-3".into()));
        let mut look = ExperimentLook::default();
        let chosen = experiments(Path::new("/")).choose(found, &mut look);
        assert_eq!(chosen.len(), JOURNALS_MAX);
        for number in 0..10 {
            let name = format!("2026-{number}");
            assert_eq!(chosen[&name], Path::new("/0").join(&name), "root's journal counts");
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
        assert_eq!(source.look().len(), 2);
        drop(file);
        let events = source.look();
        assert_eq!(words(&events), ["ended vanished", "look 0"]);
        // A watch that begins later finds the same end: it is in the history once.
        std::thread::sleep(Duration::from_millis(20));
        let later = experiments(home.path()).look();
        let at = |events: &[DisturbEvent]| {
            let ended = events.iter().find_map(|event| match event {
                DisturbEvent::Ended(ended) => Some(ended.at_realtime_ns),
                _ => None,
            });
            ended.unwrap()
        };
        assert_eq!(at(&events), at(&later));
        assert_eq!(words(&source.look()), ["look 0"]);
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
        let events = experiments(home.path()).look();
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
        let found = experiments(home.path()).look();
        let DisturbEvent::Began(began) = &found[0] else { panic!("{found:?}") };
        assert!(began.workload.starts_with("a?[2J") && began.workload.chars().count() == LETTERS_MAX);
        assert!(began.at_ns >= before_ns && began.at_ns <= clock::monotonic_ns());
        assert_eq!(began.uid, Some(surefoot_hostfs::privilege::effective_user()));
        let DisturbEvent::Run { run, .. } = &found[2] else { panic!("{found:?}") };
        assert_eq!(run.wall_ns, 0);
    }
}
